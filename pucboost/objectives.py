"""Losses in closed form: gradients, initial scores and links, equal to those built into the engines.

An engine's built-in objective computes its gradients internally, where nothing can be added. The objects here compute
the same gradients in the open. Each is also a custom objective for every engine:

>>> import lightgbm as lgb, numpy as np
>>> X, y = np.arange(100.0).reshape(-1, 1), np.arange(100) // 50
>>> start = Poisson().initial_score(y)
>>> data = lgb.Dataset(X, label=y, init_score=np.full(100, start))
>>> booster = lgb.train({"objective": Poisson(), "verbosity": -1}, data, num_boost_round=100)
>>> Poisson().response(start + booster.predict([[0.0], [99.0]])).round(2)
array([0.01, 1.  ])

With a custom objective the engines no longer start from the average, apply weights or know the link. The objects here
apply the weights; :meth:`Objective.initial_score` and :meth:`Objective.response` provide the other two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._engines import DEFAULT_ENGINE, EngineName, engine_named
from ._losses import Gamma, Logistic, Objective, Poisson, Quantile, Softmax, SquaredError, Tweedie

__all__ = [
    "Gamma",
    "Logistic",
    "Objective",
    "Poisson",
    "Quantile",
    "Softmax",
    "SquaredError",
    "Tweedie",
    "objective_for",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def objective_for(params: Mapping[str, Any], engine: EngineName = DEFAULT_ENGINE) -> Objective | None:
    """Return the objective that ``params`` ask an engine for, with that engine's constants.

    Parameters
    ----------
    params
        Parameters of the engine; without an objective, the loss is squared error.
    engine
        ``"lightgbm"``, ``"xgboost"`` or ``"native"``.

    Returns
    -------
    objective
        None for a callable, for other losses, and where a parameter changes the loss: `reg_sqrt`, `sigmoid`,
        `is_unbalance`, `scale_pos_weight`, several values of `quantile_alpha`.

    Examples
    --------
    >>> objective_for({"objective": "mse"})
    SquaredError()
    >>> objective_for({"objective": "multi:softprob", "num_class": 3}, engine="xgboost")
    Softmax(n_classes=3, hessian_factor=2.0)
    >>> objective_for({"objective": "huber"}) is None
    True
    """
    return engine_named(engine).objective(params)
