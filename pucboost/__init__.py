"""Gradient-boosted trees on data that people may decline to share.

Names are loaded when first used, so that ``import pucboost`` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import metrics, objectives, simulate, testing
    from .auditing.results import AuditReport
    from .auditing.run import audit
    from .augmentation import augment
    from .consent import Consent
    from .datasets import Dataset
    from .estimators import PUCClassifier, PUCRegressor
    from .persistence import consent_of, load_model, save_model
    from .prediction import monotonicity, predict, quote, sharing_value
    from .training import cv, train

__version__ = "0.1.0"

_HOME = {
    "AuditReport": "auditing.results",
    "Consent": "consent",
    "Dataset": "datasets",
    "PUCClassifier": "estimators",
    "PUCRegressor": "estimators",
    "audit": "auditing.run",
    "augment": "augmentation",
    "consent_of": "persistence",
    "cv": "training",
    "load_model": "persistence",
    "monotonicity": "prediction",
    "predict": "prediction",
    "quote": "prediction",
    "save_model": "persistence",
    "sharing_value": "prediction",
    "train": "training",
}

_MODULES = ("metrics", "objectives", "simulate", "testing")

__all__ = [
    "AuditReport",
    "Consent",
    "Dataset",
    "PUCClassifier",
    "PUCRegressor",
    "audit",
    "augment",
    "consent_of",
    "cv",
    "load_model",
    "metrics",
    "monotonicity",
    "objectives",
    "predict",
    "quote",
    "save_model",
    "sharing_value",
    "simulate",
    "testing",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    elif name in _MODULES:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
