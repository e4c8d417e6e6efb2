"""The loss that a model was trained with, in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._engines import boosters_of
from .._losses import Gamma, Logistic, Objective, Poisson, Quantile, Softmax, SquaredError, Tweedie
from .anchored import AnchoredModel

_ONE_SCORE: dict[str, Objective] = {
    "regression": SquaredError(),
    "binary": Logistic(),
    "cross_entropy": Logistic(soft_labels=True),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "tweedie": Tweedie(),
}
"""By LightGBM's main name. The constants of a loss are the defaults: models do not keep them in one way."""


def loss_of(model: Any) -> Objective | None:
    """Return the loss of a booster or an anchored model; None if it is not known here."""
    if isinstance(model, AnchoredModel):
        return model.objective
    boosters = boosters_of(model)
    trained = boosters.objective(model)
    if trained.name == "multiclass":
        row = np.full((1, boosters.columns(model)[1]), np.nan)
        return Softmax(boosters.predict(model, row, raw_score=True).size)
    if trained.name == "quantile" and len(trained.levels) == 1:
        return Quantile(trained.levels[0])
    return _ONE_SCORE.get(trained.name or "")
