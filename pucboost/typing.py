"""Types for annotations: what calls return, and the words that arguments take.

>>> import pucboost as puc
>>> def premium(model: puc.typing.TrainedModel, X: Any, sharing: puc.typing.Sharing = "best") -> Any:
...     return puc.predict(model, X, sharing=sharing, favourable="lower")

The engine is known only when the program runs. A ``TrainedModel`` therefore has what either booster has, and stands
wherever an ``lgb.Booster`` or an ``xgb.Booster`` is wanted: ``def load(path: str) -> xgb.Booster: return
puc.load_model(path)``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._consent import OptionalColumns
from ._engines import EngineName
from ._models.schema import Favourable
from ._prediction.predictor import Search, Sharing
from ._training.datasets import TrainingSet
from ._virtual.plan import Augmentation

if TYPE_CHECKING:
    from ._auditing.check import Suitability
    from ._auditing.findings import AuditReport
    from ._auditing.monitor import MonitorReport
    from ._explaining.explanation import Explanation
    from ._intervals import Intervals
    from ._letter.letters import Letter
    from ._models.anchored import AnchoredModel
    from ._models.files import TrainedModel
    from ._prediction.sharing import SharingEffects
    from ._questions.findings import Questions
else:
    TrainedModel = Any  # only checkers see the class

_RESULTS = {
    "AnchoredModel": "_models.anchored",
    "AuditReport": "_auditing.findings",
    "Explanation": "_explaining.explanation",
    "Intervals": "_intervals",
    "Letter": "_letter.letters",
    "MonitorReport": "_auditing.monitor",
    "Questions": "_questions.findings",
    "SharingEffects": "_prediction.sharing",
    "Suitability": "_auditing.check",
}
"""What calls return, and where it is: imported on first use."""

__all__ = [
    "AnchoredModel",
    "AuditReport",
    "Augmentation",
    "EngineName",
    "Explanation",
    "Favourable",
    "Intervals",
    "Letter",
    "MonitorReport",
    "OptionalColumns",
    "Questions",
    "Search",
    "Sharing",
    "SharingEffects",
    "Suitability",
    "TrainedModel",
    "TrainingSet",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _RESULTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_RESULTS[name]}", __package__), name)
