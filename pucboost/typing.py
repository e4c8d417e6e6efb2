"""Types for annotations: what ``train`` returns, and the words that arguments take.

>>> import pucboost as puc
>>> def premium(model: puc.typing.TrainedModel, X: Any, sharing: puc.typing.Sharing = "best") -> Any:
...     return puc.predict(model, X, sharing=sharing)

The engine is known only when the program runs. A ``TrainedModel`` therefore has what either booster has, and stands
wherever an ``lgb.Booster`` or an ``xgb.Booster`` is wanted: ``def load(path: str) -> xgb.Booster: return
puc.load_model(path)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._consent import OptionalColumns
from ._engines import EngineName
from ._prediction.quotes import Favourable, Search, Sharing
from ._training.datasets import TrainingSet
from ._virtual.plan import Augmentation

if TYPE_CHECKING:
    from ._models.trained import TrainedModel
else:
    TrainedModel = Any  # only checkers see the class

__all__ = [
    "Augmentation",
    "EngineName",
    "Favourable",
    "OptionalColumns",
    "Search",
    "Sharing",
    "TrainedModel",
    "TrainingSet",
]
