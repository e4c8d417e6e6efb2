"""Pickles that outlive the layout of the package.

Python's pickles name the module and class of every object, so that a model that was pickled yesterday does not load
after a module has moved. What may be part of a pickled model reduces itself to ``restore(name, version, state)``
instead. This module must not be moved or renamed, and neither must the names in :data:`HOMES`.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from . import __version__
from ._warnings import warn

HOMES = {
    "AnchorQuestion": "_models.anchors.estimators",
    "AnchoredModel": "_models.anchored",
    "BoosterAnchor": "_models.anchors.boosters",
    "CallableAnchor": "_models.anchors.callables",
    "Categories": "_tables.sources",
    "Consent": "_consent",
    "EstimatorAnchor": "_models.anchors.estimators",
    "Levels": "_consent",
    "LightGBMBooster": "_engines.lightgbm_protected:ProtectedBooster",
    "Needs": "_consent",
    "PUCClassifier": "_estimators.estimators",
    "PUCRegressor": "_estimators.estimators",
    "RowSketch": "_virtual.merging",
    "TrainingSummary": "_models.schema",
    "XGBoostBooster": "_engines.xgboost_protected:ProtectedBooster",
    **dict.fromkeys(("Gamma", "Logistic", "Poisson", "Quantile", "Softmax", "SquaredError", "Tweedie"), "_losses"),
}
"""What a pickle calls a class → where it is today, with its name there if that differs."""


class PickledByAnotherVersionWarning(UserWarning):
    """A model was pickled by another version of pucboost, and may not mean the same here.

    Files that ``puc.save_model`` writes are read by later versions; pickles are only known to be read by the version
    that wrote them.

    Examples
    --------
    >>> import warnings
    >>> import pucboost as puc
    >>> warnings.filterwarnings("error", category=puc.PickledByAnotherVersionWarning)  # do not load such models at all
    """


def is_ours(model: Any) -> bool:
    """Return whether an object is of one of our classes, and not of one that a user has derived from it."""
    kind = type(model)
    return kind.__name__ in HOMES and kind.__module__.partition(".")[0] == __package__


def pickled(name: str, state: Any) -> tuple[Any, ...]:
    """Return what ``__reduce__`` returns for an object that is one of :data:`HOMES`."""
    return restore, (name, __version__, state)


def restore(name: str, version: str, state: dict[str, Any]) -> Any:
    """Return the object that was pickled.

    Parameters
    ----------
    name
        One of :data:`HOMES`.
    version
        The version of pucboost that pickled it.
    state
        Its attributes.
    """
    if version != __version__:
        warn_of_other_version(version)
    if name not in HOMES:
        raise ValueError(
            f"This was pickled by pucboost {version} as a {name!r}, which pucboost {__version__} does not know. Load "
            f"it with pucboost {version} and write it with pucboost.save_model."
        )
    module, _, inner = HOMES[name].partition(":")
    kind = getattr(importlib.import_module(f".{module}", __package__), inner or name)
    new = kind.__new__(kind)
    if hasattr(new, "__setstate__"):
        new.__setstate__(dict(state))
    else:
        new.__dict__.update(state)
    return new


@cache
def warn_of_other_version(version: str) -> None:
    """Warn once in a process about models that another version has pickled."""
    warn(
        f"A model was pickled by pucboost {version}, and this is pucboost {__version__}: it may not load, or not mean "
        "the same. Write models that are to last with pucboost.save_model.",
        PickledByAnotherVersionWarning,
    )
