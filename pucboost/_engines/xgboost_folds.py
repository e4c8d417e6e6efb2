"""What ``xgb.cv`` does not return, or calls by other names than ``lgb.cv``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xgboost as xgb


class KeepBoosters(xgb.callback.TrainingCallback):
    """Keeps the boosters of ``xgb.cv``, which does not return them but shows them to callbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.boosters: list[xgb.Booster] = []

    def after_training(self, model: Any) -> Any:
        """Remember the booster of each fold."""
        self.boosters = [fold.bst for fold in model.cvfolds]
        return model


def named_as_in_lightgbm(history: Mapping[str, Any], with_training: bool) -> dict[str, Any]:
    """Return the history of ``xgb.cv`` under the names that ``lgb.cv`` uses."""
    names = {"test": "valid", "train": "train"}
    result: dict[str, Any] = {}
    for key, values in history.items():
        part, _, rest = key.partition("-")
        measure, _, kind = rest.rpartition("-")
        if part == "test" or with_training:
            result[f"{names[part]} {measure}-{'stdv' if kind == 'std' else kind}"] = values
    return result
