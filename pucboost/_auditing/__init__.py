"""The consent audit: whether people who withhold data are treated as their remaining data justify.

Along the data flow: ``inputs`` (table, model, loss) → ``nuisance`` (cross-fitted models) → ``penalty`` (the decisive
numbers) and ``companions`` (what belongs beside them) → ``results`` (frozen) → ``report`` and ``plotting`` (rendering).
"""
