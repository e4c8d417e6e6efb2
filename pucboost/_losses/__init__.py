"""Losses in closed form, equal to those built into the engines."""

from .classification import Logistic, Softmax
from .objective import Objective
from .regression import Gamma, Poisson, Quantile, SquaredError, Tweedie

__all__ = ["Gamma", "Logistic", "Objective", "Poisson", "Quantile", "Softmax", "SquaredError", "Tweedie"]
