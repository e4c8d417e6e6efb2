"""The losses of an audit: what "justified" means, and how far a prediction is from it.

For squared error, the logistic and the Poisson loss the justified prediction is the conditional mean, and the
identification function is V(f, y) = f − y. For the quantile loss at τ it is V(f, y) = 1[y ≤ f] − τ. A prediction
is justified for the condition x if E[V(f, Y) | x] = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._engines import boosters_of, is_booster
from ..._models.anchored import is_tree_model, trees_of
from ..._prediction.wrapped import pipeline_parts

LOSSES = ("squared", "binary", "poisson", "quantile")
_CLIP = 1e-9

_BY_OBJECTIVE = {
    "binary": "binary", "cross_entropy": "binary", "multiclass": "binary", "multiclassova": "binary",
    "poisson": "poisson", "tweedie": "poisson", "gamma": "poisson",
    "quantile": "quantile", "regression_l1": "quantile", "regression": "squared",
}  # fmt: skip


@dataclass(frozen=True)
class Loss:
    """One of :data:`LOSSES`; ``alpha`` is the level τ of a quantile."""

    name: str
    alpha: float = 0.5

    @property
    def is_mean(self) -> bool:
        """Whether the justified prediction is a conditional mean."""
        return self.name != "quantile"

    @property
    def lightgbm_params(self) -> dict[str, Any]:
        """Objective of a model for the justified prediction itself."""
        if self.name == "quantile":
            return {"objective": "quantile", "alpha": self.alpha}
        # LightGBM's "binary" reads every positive label as 1; shares need the same loss under its other name.
        return {"objective": {"squared": "regression", "binary": "cross_entropy"}.get(self.name, self.name)}

    @property
    def title(self) -> str:
        """The loss in words."""
        return {
            "squared": "squared error",
            "binary": "log loss",
            "poisson": "Poisson deviance",
            "quantile": f"pinball loss at {self.alpha:g}",
        }[self.name]

    @property
    def unit_is_probability(self) -> bool:
        """Whether a penalty is a probability, or a difference of probabilities."""
        return self.name in ("binary", "quantile")

    @property
    def unit(self) -> str:
        """What a penalty is measured in."""
        return {
            "squared": "units of the prediction",
            "binary": "probability",
            "poisson": "units of the prediction",
            "quantile": f"probability of lying below the quoted {self.alpha:g} quantile",
        }[self.name]

    def describe(self, amount: float) -> str:
        """Return a penalty or a margin in words."""
        return f"{amount:.4g}" if not self.unit_is_probability else f"{100 * amount:.2f} percentage points"

    def pointwise(self, f: Array, y: Array) -> Array:
        """Return the loss of every prediction."""
        if self.name == "squared":
            return np.asarray((f - y) ** 2)
        if self.name == "binary":
            p = np.clip(f, _CLIP, 1 - _CLIP)
            return np.asarray(-(y * np.log(p) + (1 - y) * np.log1p(-p)))
        if self.name == "poisson":
            rate = np.maximum(f, _CLIP)
            ratio = np.where(y > 0, y, 1.0) / rate
            return np.asarray(2 * (np.where(y > 0, y * np.log(ratio), 0.0) - (y - rate)))
        return np.asarray((y - f) * (self.alpha - (y < f)))

    def check(self, f: Array, y: Array) -> None:
        """Raise if predictions or outcomes do not fit this loss."""
        if self.name == "binary":
            if np.unique(y).size == 1:
                raise ValueError(f"Every outcome is {y[0]:g}: with only one class there is nothing to audit.")
            _refuse((y < 0) | (y > 1), y, "y", "loss='binary' needs outcomes between 0 and 1")
            _refuse(
                (f < 0) | (f > 1),
                f,
                "The model's prediction",
                "loss='binary' needs probabilities; pass a model that returns them, not raw scores",
            )
        if self.name == "poisson":
            _refuse(y < 0, y, "y", "loss='poisson' needs outcomes that are not negative")
            _refuse(f < 0, f, "The model's prediction", "loss='poisson' needs predictions that are not negative")


def _refuse(wrong: Array, values: Array, what: str, why: str) -> None:
    bad = np.flatnonzero(wrong)
    if len(bad):
        raise ValueError(f"{what} is {values[bad[0]]:g} in row {bad[0]}; {why}.")


def choose_loss(loss: str, alpha: float | None, model: Any, y: Array) -> Loss:
    """Return the requested loss; ``"auto"`` reads it from a booster's objective, else from the outcomes."""
    if loss != "auto":
        if loss not in LOSSES:
            raise ValueError(f"loss must be 'auto' or one of {', '.join(map(repr, LOSSES))}; got {loss!r}.")
        if loss == "quantile" and alpha is None:
            raise ValueError("loss='quantile' needs alpha, the level of the quantile, for example alpha=0.9.")
        return Loss(loss, _level(alpha))
    objective, own_alpha = _objective_of(model)
    name = _BY_OBJECTIVE.get(objective or "")
    if name is None:
        # If all outcomes are 0 or 1 they are events, whatever the estimator is called.
        name = "binary" if np.isin(y, (0, 1)).all() else "squared"
    return Loss(name, _level(alpha if alpha is not None else own_alpha))


def _level(alpha: float | None) -> float:
    if alpha is None:
        return 0.5
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha!r}.")
    return float(alpha)


def booster_within(model: Any) -> Any:
    """Return the booster whose predictions a model passes on unchanged, else the model itself.

    That of an anchored model, of an estimator, and of the last step of a pipeline or the best model of a search.
    """
    if is_tree_model(model):
        return trees_of(model)
    if is_tree_model(getattr(model, "booster_", None)):
        return trees_of(model.booster_)
    pipeline = pipeline_parts(model)
    inner = getattr(model, "best_estimator_", None) if pipeline is None else pipeline[1]
    if inner is not None:
        return booster_within(inner)
    return model.get_booster() if hasattr(model, "get_booster") else model


def reads_zero_as_missing(model: Any) -> bool:
    """Return whether zeros in the table are missing values to a booster, or to that of an estimator."""
    booster = model if is_booster(model) else getattr(model, "booster_", None)
    return is_booster(booster) and boosters_of(booster).reads_zero_as_missing(booster)


def _objective_of(model: Any) -> tuple[str | None, float | None]:
    """Return the objective of a booster, and the level if it is a quantile."""
    trees = booster_within(model)
    if not is_booster(trees):
        return None, None
    trained = boosters_of(trees).objective(trees)
    if len(trained.levels) > 1:
        raise ValueError(
            f"The model predicts {len(trained.levels)} quantiles at once; audit a function that returns one of them."
        )
    return trained.name, trained.levels[0] if trained.levels else None
