"""Training and prediction on Dask collections; the public names are those of ``pucboost.dask``.

``parts``: partitions with what belongs to their rows, and which worker trains on which. ``training``: ``train``, what
each worker does, how the client watches, checkpoints. ``estimators``: ``predict``, ``quote`` and the estimators.
"""
