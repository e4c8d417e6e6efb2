"""LightGBM's objectives and metrics under XGBoost's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..names import main_objective


@dataclass(frozen=True)
class Word:
    """One LightGBM objective or metric: XGBoost's name, or why there is none and what to use instead."""

    to: str = ""
    instead: str = ""


_RANKING = "the two engines form and weigh pairs differently; write objective='rank:ndcg' and XGBoost's parameters"

OBJECTIVES: dict[str, Word] = {
    "regression": Word("reg:squarederror"),
    "regression_l1": Word("reg:absoluteerror"),
    "quantile": Word("reg:quantileerror"),
    "poisson": Word("count:poisson"),
    "gamma": Word("reg:gamma"),
    "tweedie": Word("reg:tweedie"),
    "binary": Word("binary:logistic"),
    # XGBoost's logistic loss takes labels anywhere between 0 and 1, so it is LightGBM's cross_entropy as well.
    "cross_entropy": Word("binary:logistic"),
    "multiclass": Word("multi:softprob"),
    "huber": Word(instead="use reg:pseudohubererror, a smooth relative, with huber_slope"),
    "fair": Word(instead="use reg:pseudohubererror, or a function as objective"),
    "mape": Word(
        instead="use reg:absoluteerror with weights 1 / max(1, |label|), which is the same loss",
    ),
    "multiclassova": Word(instead="use multi:softprob, or one binary model per class"),
    "cross_entropy_lambda": Word(instead="use cross_entropy if the weights are plain weights"),
    "lambdarank": Word(instead=_RANKING),
    "rank_xendcg": Word(instead=_RANKING),
    "custom": Word(instead="give the function itself as objective"),
}
"""LightGBM's objectives. Any other text is taken as an XGBoost name."""

METRICS: dict[str, Word] = {
    "rmse": Word("rmse"),
    "l2": Word(instead="XGBoost has rmse, its root"),
    "l1": Word("mae"),
    "quantile": Word("quantile"),
    # LightGBM divides by max(1, |label|), XGBoost by |label|.
    "mape": Word("mape"),
    # Up to terms that do not depend on the model.
    "poisson": Word("poisson-nloglik"),
    "gamma": Word("gamma-nloglik"),
    "gamma_deviance": Word("gamma-deviance"),
    "tweedie": Word("tweedie-nloglik@{rho}"),
    "auc": Word("auc"),
    "average_precision": Word("aucpr"),
    "binary_logloss": Word("logloss"),
    "binary_error": Word("error"),
    "cross_entropy": Word("logloss"),
    "multi_logloss": Word("mlogloss"),
    "multi_error": Word("merror"),
    "huber": Word(instead="use mphe, the pseudo-Huber error"),
    "fair": Word(instead="use mphe, or feval"),
    "r2": Word(instead="use rmse, which orders models in the same way"),
    "auc_mu": Word(instead="use auc, which averages over each class against the rest"),
    "kullback_leibler": Word(instead="use logloss, which differs by a constant"),
    "cross_entropy_lambda": Word(instead="use logloss"),
    "ndcg": Word("ndcg"),
    "map": Word("map"),
}
"""LightGBM's metrics. Any other text is taken as an XGBoost name."""

NO_METRIC = frozenset({"none", "na", "null", "custom"})
"""Names that LightGBM reads as no metric at all."""

_LIGHTGBM_NAME = {"reg:logistic": "binary"} | {word.to: main for main, word in reversed(OBJECTIVES.items()) if word.to}


def loss_name(objective: Any) -> str | None:
    """Return LightGBM's main name of an objective given under either engine's name; None for any other."""
    if not isinstance(objective, str):
        return None
    return main_objective(objective) or _LIGHTGBM_NAME.get(objective.strip().lower())
