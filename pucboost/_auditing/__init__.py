"""The consent audit: whether people who withhold data are treated as their remaining data justify.

Along the data flow: ``findings`` (frozen numbers), ``settings`` → ``estimate`` (people and model → cross-fitted models
→ penalties, and the numbers shown beside them) → ``report`` (words, tables, plots) → ``results`` (what an audit
returns) → ``run`` (``puc.audit``).
"""
