"""Gradient-boosted trees on data that people may decline to share.

Names are loaded on first use, so that ``import pucboost`` stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import distributed, letters, metrics, objectives, simulate, testing, typing, warnings
    from ._auditing.card import card
    from ._auditing.check import check
    from ._auditing.monitor import monitor
    from ._auditing.run import audit
    from ._consent import Consent, Levels, Needs
    from ._estimators.estimators import PUCClassifier, PUCRegressor
    from ._explaining.explanation import explain
    from ._intervals import intervals
    from ._letter.letters import letter
    from ._models.files import consent_of, load_model, save_model
    from ._prediction.predictor import predict, quote
    from ._prediction.sharing import load_to_balance, sharing_effects, sharing_value
    from ._questions.asking import questions
    from ._tables.sources import NOT_APPLICABLE
    from ._training.datasets import Dataset
    from ._training.train import cv, refit, train
    from ._virtual.augment import augment

__version__ = "0.2.0"

_HOME = {
    "Consent": "_consent",
    "Dataset": "_training.datasets",
    "Levels": "_consent",
    "NOT_APPLICABLE": "_tables.sources",
    "Needs": "_consent",
    "PUCClassifier": "_estimators.estimators",
    "PUCRegressor": "_estimators.estimators",
    "audit": "_auditing.run",
    "augment": "_virtual.augment",
    "card": "_auditing.card",
    "check": "_auditing.check",
    "consent_of": "_models.files",
    "cv": "_training.train",
    "explain": "_explaining.explanation",
    "intervals": "_intervals",
    "letter": "_letter.letters",
    "load_model": "_models.files",
    "load_to_balance": "_prediction.sharing",
    "monitor": "_auditing.monitor",
    "predict": "_prediction.predictor",
    "questions": "_questions.asking",
    "quote": "_prediction.predictor",
    "refit": "_training.train",
    "save_model": "_models.files",
    "sharing_effects": "_prediction.sharing",
    "sharing_value": "_prediction.sharing",
    "train": "_training.train",
}

_MODULES = ("dask", "distributed", "letters", "metrics", "objectives", "simulate", "testing", "typing", "warnings")

__all__ = [
    "NOT_APPLICABLE",
    "Consent",
    "Dataset",
    "Levels",
    "Needs",
    "PUCClassifier",
    "PUCRegressor",
    "audit",
    "augment",
    "card",
    "check",
    "consent_of",
    "cv",
    "distributed",
    "explain",
    "intervals",
    "letter",
    "letters",
    "load_model",
    "load_to_balance",
    "metrics",
    "monitor",
    "objectives",
    "predict",
    "questions",
    "quote",
    "refit",
    "save_model",
    "sharing_effects",
    "sharing_value",
    "simulate",
    "testing",
    "train",
    "typing",
    "warnings",
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
    return sorted([*__all__, "__version__"])
