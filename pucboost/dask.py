"""Training and prediction on Dask collections; needs ``pip install 'pucboost[dask]'``."""

from __future__ import annotations

try:
    import distributed as _distributed  # noqa: F401
except ImportError as error:  # pragma: no cover
    raise ImportError("pucboost.dask needs Dask: pip install 'pucboost[dask]'.") from error

from ._dask.estimators import DaskPUCClassifier, DaskPUCRegressor, predict, quote
from ._dask.training import LostWorkerError, last_checkpoint, train

__all__ = ["DaskPUCClassifier", "DaskPUCRegressor", "LostWorkerError", "last_checkpoint", "predict", "quote", "train"]


def __dir__() -> list[str]:
    return sorted(__all__)
