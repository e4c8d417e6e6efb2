"""``PUCRegressor``."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from .._arrays import Array
from .._engines.translation import loss_name
from .._losses import per_unit
from .._prediction.quotes import Favourable, Sharing
from .._tables.containers import as_exposure
from .base import PUCModel
from .reading import EvalSets

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

    Claims over years insured, and claims per year:

    >>> years = rng.uniform(0.1, 1, 500); claims = rng.poisson(years * np.exp(X[:, 0]))
    >>> frequency = puc.PUCRegressor(optional=[2], objective="poisson", n_estimators=20).fit(X, claims, exposure=years)
    >>> bool(abs((years * frequency.predict(X)).sum() / claims.sum() - 1) < 0.05)
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = loss_name(self.objective) in _POSITIVE
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        exposure: Any = None,
        eval_set: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        eval_sample_weight: Any = None,
        eval_exposure: Any = None,
        early_stopping_rounds: int | None = None,
        callbacks: Any = None,
    ) -> Self:
        """Train on a table of people, with NaN where something optional is withheld.

        Parameters
        ----------
        X
            A numpy array, a CSR matrix, or a pandas, polars or Arrow table.
        y
            Outcomes.
        sample_weight
            Weights. Rows of weight 0 are left out.
        exposure
            What the outcomes add up over, for ``objective="poisson"``, ``"gamma"`` or ``"tweedie"``, as in
            :class:`pucboost.Dataset`: ``y`` are then totals, and predictions are per unit of exposure. It must be known
            for everybody, whether or not they share.
        eval_set
            A pair (X, y) or a list of pairs to validate on. They are augmented like the training data, unless the
            constructor was given ``valid_augmentation="none"``.
        eval_X, eval_y
            The same as two arguments, each a single table or vector, or a tuple of several. A
            ``Pipeline(transform_input=["eval_X"])`` transforms the tables.
        eval_sample_weight
            Weights of the validation people: a vector, or a list of them.
        eval_exposure
            Exposures of the validation people: a vector, or a list of them.
        early_stopping_rounds
            Overrides the constructor's.
        callbacks
            Callbacks for the engine.

        Returns
        -------
        self
        """
        evals = EvalSets(eval_set, eval_X, eval_y, eval_sample_weight, exposure=eval_exposure)
        return self._fit(X, y, sample_weight, evals, early_stopping_rounds, callbacks, exposure)

    def score(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> float:
        """Return scikit-learn's R²; with an exposure that of the rates ``y / exposure``, weighted by exposure.

        Parameters
        ----------
        X, y, sample_weight
            As in scikit-learn.
        exposure
            As in ``fit``.
        """
        if exposure is not None:
            outcome = self._encode(y)
            units = as_exposure(exposure, "exposure", len(outcome))
            weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
            y, sample_weight = per_unit(outcome, weight, units)
        return float(super().score(X, y, sample_weight))

    def _learn_target(self, y: Array) -> Array:
        return y

    def _encode(self, y: Any) -> Array:
        return np.asarray(y, dtype=np.float64)

    def _objective(self) -> dict[str, Any]:
        return {"objective": "regression" if self.objective is None else self.objective}

    def predict(self, X: Any, *, sharing: Sharing = "as_given", favourable: Favourable | None = None) -> Array:
        """Return predictions.

        Parameters
        ----------
        X
            A table with the columns of training.
        sharing, favourable
            Which of the data that people share are used, as in :func:`pucboost.predict`: ``sharing="best"`` gives
            everybody the most favourable prediction over all subsets of what they share; ``favourable`` must then be
            given.
        """
        return self._predict(X, sharing=sharing, favourable=favourable)
