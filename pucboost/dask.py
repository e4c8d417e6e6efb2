"""Training and prediction on Dask collections; needs ``pip install 'pucboost[dask]'``."""

from __future__ import annotations

try:
    import distributed as _distributed  # noqa: F401
except ImportError as error:  # pragma: no cover
    raise ImportError("pucboost.dask needs Dask: pip install 'pucboost[dask]'.") from error

from ._dask.estimators import DaskPUCClassifier, DaskPUCRegressor
from ._dask.predicting import predict, quote
from ._dask.training import last_checkpoint, train
from ._dask.workers import LostWorkerError

__all__ = ["DaskPUCClassifier", "DaskPUCRegressor", "LostWorkerError", "last_checkpoint", "predict", "quote", "train"]
