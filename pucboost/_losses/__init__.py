"""Losses in closed form, equal to those built into the engines."""

from .classification import Logistic, Softmax
from .objective import Objective
from .regression import Gamma, Poisson, Quantile, SquaredError, Tweedie

LOSSES: dict[str, type[Objective]] = {
    loss.__name__: loss for loss in (Gamma, Logistic, Poisson, Quantile, Softmax, SquaredError, Tweedie)
}
"""Every loss by the name that model files have for it."""

__all__ = ["LOSSES", "Gamma", "Logistic", "Objective", "Poisson", "Quantile", "Softmax", "SquaredError", "Tweedie"]
