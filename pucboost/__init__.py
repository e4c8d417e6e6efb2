"""Gradient-boosted trees on data that people may decline to share.

Names are loaded on first use, so that ``import pucboost`` stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import metrics, objectives, simulate, testing, typing
    from ._auditing.results import AuditReport
    from ._auditing.run import audit
    from ._common import ProtectionLostWarning
    from ._consent import Consent, Levels, Needs
    from ._estimators.estimators import PUCClassifier, PUCRegressor
    from ._letter.letters import Letter, letter, letters
    from ._letter.text import LetterNumber, LetterText
    from ._models.anchored import AnchoredModel
    from ._models.files import consent_of, load_model, save_model
    from ._persistence import PickledByAnotherVersionWarning
    from ._prediction.balance import balance
    from ._prediction.quotes import predict, quote
    from ._prediction.sharing import monotonicity, sharing_value
    from ._silence.signs import EncodedSilenceWarning
    from ._tables.columns import IdentifyingTextWarning
    from ._training.cv import cv
    from ._training.datasets import Dataset
    from ._training.train import refit, train
    from ._virtual.augment import augment
    from ._virtual.shared_plan import SharedPlan

__version__ = "0.2.0"

_HOME = {
    "AnchoredModel": "_models.anchored",
    "AuditReport": "_auditing.results",
    "Consent": "_consent",
    "Dataset": "_training.datasets",
    "EncodedSilenceWarning": "_silence.signs",
    "IdentifyingTextWarning": "_tables.columns",
    "Letter": "_letter.letters",
    "LetterNumber": "_letter.text",
    "LetterText": "_letter.text",
    "Levels": "_consent",
    "Needs": "_consent",
    "PUCClassifier": "_estimators.estimators",
    "PUCRegressor": "_estimators.estimators",
    "PickledByAnotherVersionWarning": "_persistence",
    "ProtectionLostWarning": "_common",
    "SharedPlan": "_virtual.shared_plan",
    "audit": "_auditing.run",
    "augment": "_virtual.augment",
    "balance": "_prediction.balance",
    "consent_of": "_models.files",
    "cv": "_training.cv",
    "letter": "_letter.letters",
    "letters": "_letter.letters",
    "load_model": "_models.files",
    "monotonicity": "_prediction.sharing",
    "predict": "_prediction.quotes",
    "quote": "_prediction.quotes",
    "refit": "_training.train",
    "save_model": "_models.files",
    "sharing_value": "_prediction.sharing",
    "train": "_training.train",
}

_MODULES = ("dask", "metrics", "objectives", "simulate", "testing", "typing")

__all__ = [
    "AnchoredModel",
    "AuditReport",
    "Consent",
    "Dataset",
    "EncodedSilenceWarning",
    "IdentifyingTextWarning",
    "Letter",
    "LetterNumber",
    "LetterText",
    "Levels",
    "Needs",
    "PUCClassifier",
    "PUCRegressor",
    "PickledByAnotherVersionWarning",
    "ProtectionLostWarning",
    "SharedPlan",
    "audit",
    "augment",
    "balance",
    "consent_of",
    "cv",
    "letter",
    "letters",
    "load_model",
    "metrics",
    "monotonicity",
    "objectives",
    "predict",
    "quote",
    "refit",
    "save_model",
    "sharing_value",
    "simulate",
    "testing",
    "train",
    "typing",
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
