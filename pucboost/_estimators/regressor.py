"""``PUCRegressor``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from .._arrays import Array
from .._engines.translation.words import loss_name
from .base import PUCModel

_POSITIVE = ("poisson", "gamma", "tweedie")
"""Objectives for outcomes that are not negative."""


class PUCRegressor(RegressorMixin, PUCModel):  # type: ignore[misc]
    """Regressor under Protected User Consent.

    Predictions approach E[Y | b, A ⊇ a, z_a], or the loss-minimal value under the same condition: someone who shares
    the groups a is compared with everybody who shares *at least* a, their further data erased.

    Parameters
    ----------
    optional, engine, augmentation, copies, n_estimators, learning_rate, num_leaves, random_state, n_jobs, \
early_stopping_rounds, **engine_params
        As in :class:`PUCClassifier`.
    objective : str, callable or None
        The loss: ``"regression"`` (default), ``"poisson"``, ``"gamma"``, ``"tweedie"``, ``"quantile"`` (with
        ``alpha=0.9``, say), ``"regression_l1"``, or any other objective of the engine. A function is called as in
        :func:`pucboost.train`, and predictions are then raw scores.

    Attributes
    ----------
    booster_, consent_, best_iteration_, evals_result_, feature_importances_, n_features_in_, feature_names_in_
        As in :class:`PUCClassifier`.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)); y = X[:, 0] + X[:, 2]
    >>> X[rng.random(500) < 1 / (1 + np.exp(-3 * X[:, 2])), 2] = np.nan     # large values tend to be withheld
    >>> model = puc.PUCRegressor(optional=[2], n_estimators=20, reg_lambda=1.0).fit(X, y)
    >>> model.predict(X).shape, model.consent_.group_names
    ((500,), ('Column_2',))
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = loss_name(self.objective) in _POSITIVE
        return tags

    def _learn_target(self, y: Array) -> Array:
        return y

    def _encode(self, y: Any) -> Array:
        return np.asarray(y, dtype=np.float64)

    def _objective(self) -> dict[str, Any]:
        return {"objective": "regression" if self.objective is None else self.objective}

    def predict(self, X: Any, *, sharing: str = "as_given", favourable: str = "lower") -> Array:
        """Return predictions.

        Parameters
        ----------
        X
            A table with the columns of training.
        sharing, favourable
            Which of the data that people share are used, as in :func:`pucboost.predict`: ``sharing="best"`` gives
            everybody the most favourable prediction over all subsets of what they share.
        """
        return self._predict(X, sharing=sharing, favourable=favourable)
