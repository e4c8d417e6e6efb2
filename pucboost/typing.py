"""Types for annotations: what ``train`` returns, and the words that arguments take.

>>> import pucboost as puc
>>> def premium(model: puc.typing.LightGBMBooster, X: Any, sharing: puc.typing.Sharing = "best") -> Any:
...     return puc.predict(model, X, sharing=sharing)

A type checker sees the engine in ``train({..., "engine": "xgboost"}, ...)``, where the parameters are written in the
call. Where they come from a variable, and for :func:`pucboost.load_model`, it allows what either booster has. Who knows
the engine says so in a signature: ``def load(path: str) -> puc.typing.LightGBMBooster: return puc.load_model(path)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._consent import OptionalColumns
from ._engines import EngineName
from ._prediction.quotes import Favourable, Search, Sharing
from ._training.datasets import TrainingSet
from ._virtual.plan import Augmentation

if TYPE_CHECKING:
    from ._models.trained import LightGBMBooster, XGBoostBooster

__all__ = [
    "Augmentation",
    "EngineName",
    "Favourable",
    "LightGBMBooster",
    "OptionalColumns",
    "Search",
    "Sharing",
    "TrainingSet",
    "XGBoostBooster",
]


def __getattr__(name: str) -> Any:
    """Return the engine's own class: nothing else exists when the program runs."""
    if name == "LightGBMBooster":
        import lightgbm as lgb

        return lgb.Booster
    if name == "XGBoostBooster":
        import xgboost as xgb

        return xgb.Booster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
