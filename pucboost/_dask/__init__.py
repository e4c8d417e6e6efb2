"""Training and prediction on Dask collections; ``pucboost.dask`` is the public face."""
