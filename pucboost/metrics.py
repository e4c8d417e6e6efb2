"""Scores that respect consent: models are judged by what they tell people who share less.

On the raw table, a model that reads silence as bad news has the lower loss, so every ordinary score prefers it. Here
models are scored on *virtual rows*: person i with everything outside S erased, for every set S that some people share
exactly and that person i shares at least. With p(S) the share of people who share exactly S, the row (i, S) has weight

    p(S) · w_i / Σ_{j: a_j ⊇ S} w_j,     so that     R(f) = Σ_S p(S) · E[L(f(b, S, z_S), Y) | A ⊇ S].

The PUC prediction f* minimises each term, and hence R. Sets count as often as they occur.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import sklearn
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.metadata_routing import UNCHANGED, MetadataRequest

from ._consent import Consent, declares_something
from ._losses import per_unit
from ._prediction.people import ConsentError, consent_within, predicts_per_exposure, read_people, shares_of_masks
from ._scoring.asking import RESPONSES, as_estimator
from ._scoring.metric import scorer_of
from ._scoring.virtual_rows import ScoredPeople, given_shares, virtual_rows
from ._tables.containers import as_exposure, eager
from ._tables.masked_arrays import check_no_mask
from ._tables.sources import RowSource

__all__ = ["PUCScorer", "mask_frequencies", "puc_score", "puc_scorer"]


NO_EXPOSURE = (
    "The model was fitted with an exposure and predicts rates, but there is no exposure to compare outcomes with them. "
    "Pass exposure, or exposure=numpy.ones(len(y)) if y are rates. In a search, enable scikit-learn's metadata routing "
    "and let the estimator and the scorer request it: set_fit_request(exposure=True) and "
    "set_score_request(exposure=True)."
)


def puc_scorer(
    metric: Any = "neg_log_loss",
    *,
    optional: Any = None,
    response: str | None = None,
    greater_is_better: bool | None = None,
    frequencies: Mapping[Any, float] | None = None,
    max_masks: int = 64,
    num_threads: int | None = None,
    **metric_params: Any,
) -> PUCScorer:
    """Return a scikit-learn scorer that does not reward inferences from silence.

    The metric is computed on virtual rows: for each set S, everybody who shares at least S, with all but S erased. Each
    set counts as often as people in the data share it. Use the scorer as ``scoring`` in ``GridSearchCV``,
    ``cross_val_score`` or with Optuna.

    Parameters
    ----------
    metric : str or callable
        A name from ``sklearn.metrics.get_scorer_names()`` (``"neg_log_loss"``, ``"neg_brier_score"``, ``"accuracy"``,
        ``"roc_auc"``, ``"neg_mean_squared_error"``, ``"neg_mean_poisson_deviance"``, …), a scorer from ``make_scorer``,
        or a function ``metric(y_true, y_pred, sample_weight=...)``.
    optional : list of columns, or dict group -> columns
        Columns people may withhold, by name or position in X. A fitted :class:`pucboost.PUCClassifier` or
        :class:`pucboost.PUCRegressor` and a pucboost booster know them, also as the last step of a pipeline, inside a
        search, or inside ``TransformedTargetRegressor``, ``CalibratedClassifierCV`` and the like: their columns are
        followed back to those of X. Where that is not possible, or where a step fills in what people withhold, there
        is no score. For other models name them here. What is given here takes precedence.
    response : {"predict", "predict_proba", "decision_function"} or None
        For a metric that is a function: which method returns ``y_pred``, by default ``predict``. For a model that is a
        booster or a function: what it returns, if that does not follow from the metric.
    greater_is_better : bool
        Required for a metric that is a function, and only allowed there: False for a loss, whose sign is changed.
    frequencies : dict set of groups -> share, optional
        The frequencies to expect once the model is deployed, if they differ from those of the data, in the form that
        :func:`mask_frequencies` returns. Sets that nobody in the data shares are left out.
    max_masks : int
        Use at most this many sets, the most frequent ones; their frequencies are scaled to add up to 1.
    num_threads : int or None
        Threads for the kernels that mask the rows of boosters; None means all cores.
    **metric_params
        Further arguments of a metric that is a function, for example ``alpha`` of ``mean_pinball_loss``.

    Returns
    -------
    PUCScorer
        ``scorer(estimator, X, y, sample_weight=None, exposure=None)`` returns a number; higher is better. The scorer
        can be pickled. With metadata routing enabled, ``set_score_request(sample_weight=True, exposure=True)`` makes
        it request weights and exposures. A model that was fitted with an exposure has no score without one.

    Raises
    ------
    ValueError
        If it is not known what people may withhold, or if a step before the model hides who is silent. A search of
        scikit-learn turns exceptions of scorers into NaN, warns, and then chooses the first model of all: give it
        ``error_score="raise"``.

    Notes
    -----
    Metrics that are means of a loss give R(f) exactly. Others (AUC, R²) are computed on the pooled virtual rows with
    their weights. Masked rows are built in batches, and only their predictions are kept.

    Examples
    --------
    The ordinary score chooses the model that makes people pay for their silence; this one does not:

    >>> import pucboost as puc
    >>> from pucboost.demo import insurance_family
    >>> from sklearn.model_selection import GridSearchCV
    >>> family = insurance_family()
    >>> people = family.sample(3000, seed=0)
    >>> model = puc.PUCClassifier(optional=family.optional, n_estimators=25, num_leaves=7)
    >>> grid = {"augmentation": ["none", "balanced"]}
    >>> for scoring in ("neg_log_loss", puc.metrics.puc_scorer("neg_log_loss")):
    ...     print(GridSearchCV(model, grid, scoring=scoring, cv=3).fit(people.X, people.y).best_params_)
    {'augmentation': 'none'}
    {'augmentation': 'balanced'}
    """
    return PUCScorer(metric, optional, response, greater_is_better, frequencies, max_masks, num_threads, metric_params)


def puc_score(
    model: Any,
    X: Any,
    y: Any,
    *,
    metric: Any = "neg_log_loss",
    sample_weight: Any = None,
    exposure: Any = None,
    **options: Any,
) -> float:
    """Return the score of a model on virtual rows (see :func:`puc_scorer`); higher is better.

    Parameters
    ----------
    model
        A fitted estimator or pipeline, a booster of any engine, an anchored model, or a function from a table to
        predictions.
    X, y
        People and their outcomes.
    metric, **options
        As in :func:`puc_scorer`.
    sample_weight
        Weights of people.
    exposure
        What y adds up over, as in :class:`pucboost.Dataset`: rates y / exposure are then compared with predictions per
        unit, and weights are multiplied by the exposure.

    Examples
    --------
    >>> import pucboost as puc
    >>> from pucboost.simulate import LogisticFamily
    >>> family = LogisticFamily.teaser()
    >>> people = family.sample(4000, seed=0)
    >>> justified, unrestricted = (
    ...     puc.metrics.puc_score(truth, people.X, people.y, optional=family.optional)
    ...     for truth in (family.puc_prediction, family.unrestricted_prediction)
    ... )
    >>> justified > unrestricted
    True
    """
    return puc_scorer(metric, **options)(model, X, y, sample_weight=sample_weight, exposure=exposure)


def mask_frequencies(X: Any, optional: Any, sample_weight: Any = None) -> dict[tuple[str, ...], float]:
    """Return how many people share exactly each set of groups: set → share of people, most frequent first.

    Parameters
    ----------
    X
        People; no outcomes are needed.
    optional
        Columns they may withhold, as in :func:`puc_scorer`, or a :class:`pucboost.Consent`.
    sample_weight
        Weights of people.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, 5.0], [2, np.nan], [3, np.nan], [4, 6.0], [5, 7.0]])
    >>> mask_frequencies(X, optional={"blood": [1]})
    {('blood',): 0.6, (): 0.4}
    """
    people = read_people(X, lambda source: Consent.of(optional, source), weight=sample_weight, weight_name="weight")
    shares = shares_of_masks(people.shared, people.weight)
    return {people.consent.groups_of(mask): share for mask, share in shares.items()}


class PUCScorer:
    """The scorer that :func:`puc_scorer` returns: ``scorer(estimator, X, y, sample_weight=None, exposure=None)``.

    Parameters
    ----------
    metric, optional, response, greater_is_better, frequencies, max_masks, num_threads, metric_params
        As in :func:`puc_scorer`.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = X.sum(axis=1); X[::2, 1] = np.nan
    >>> model = puc.PUCRegressor(optional=[1], n_estimators=5).fit(X, y)
    >>> scorer = puc.metrics.puc_scorer("neg_mean_squared_error")
    >>> scorer, scorer(model, X, y) < 0
    (puc_scorer('neg_mean_squared_error'), True)
    """

    def __init__(
        self,
        metric: Any,
        optional: Any = None,
        response: str | None = None,
        greater_is_better: bool | None = None,
        frequencies: Mapping[Any, float] | None = None,
        max_masks: int = 64,
        num_threads: int | None = None,
        metric_params: Mapping[str, Any] | None = None,
    ) -> None:
        if response is not None and response not in RESPONSES:
            raise ValueError(f"response must be one of {', '.join(map(repr, RESPONSES))}; got {response!r}.")
        if isinstance(max_masks, bool) or not isinstance(max_masks, (int, np.integer)) or max_masks < 1:
            raise ValueError(f"max_masks must be a whole number of at least 1, got {max_masks!r}.")
        self.metric, self.optional, self.frequencies = metric, optional, frequencies
        self._response, self._max_masks, self._num_threads = response, int(max_masks), num_threads
        self._scorer = scorer_of(metric, response, greater_is_better, dict(metric_params or {}))
        self._requests: dict[str, bool | str | None] = {"sample_weight": None, "exposure": None}

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> float:
        """Return the score of a fitted model; higher is better.

        Parameters
        ----------
        estimator, X, y, sample_weight, exposure
            As in :func:`puc_score`.
        """
        people = _read_people(estimator, X, y, sample_weight, exposure, self.optional)
        if exposure is None and predicts_per_exposure(estimator):
            raise ValueError(NO_EXPOSURE)
        cells = virtual_rows(people.shared, people.weight, self._shares(people), self._max_masks)
        asked = as_estimator(estimator, people, cells, self._scorer, self._response, self._num_threads)
        rows = np.concatenate([cell.rows for cell in cells])
        weight = np.concatenate([cell.weight for cell in cells])
        return float(self._scorer(asked, rows, people.y[rows], sample_weight=weight))

    def _shares(self, people: ScoredPeople) -> dict[int, float]:
        if self.frequencies is None:
            return shares_of_masks(people.shared, people.weight)
        return given_shares(self.frequencies, people.consent)

    def __repr__(self) -> str:
        optional = "" if self.optional is None else f", optional={self.optional!r}"
        name = self.metric if not callable(self.metric) else getattr(self.metric, "__name__", repr(self.metric))
        return f"puc_scorer({name!r}{optional})"

    # ----- what scikit-learn asks scorers about weights

    def set_score_request(
        self, *, sample_weight: bool | str | None = UNCHANGED, exposure: bool | str | None = UNCHANGED
    ) -> Self:
        """Set whether meta-estimators pass the weights and exposures of people, if metadata routing is enabled.

        Parameters
        ----------
        sample_weight, exposure
            True, False, None or the name under which they are passed, as in scikit-learn.
        """
        if not sklearn.get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                "This method is only available when metadata routing is enabled. You can enable it using "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        given = {"sample_weight": sample_weight, "exposure": exposure}
        self._requests |= {name: value for name, value in given.items() if value != UNCHANGED}
        return self

    def get_metadata_routing(self) -> Any:
        """Return which metadata the scorer asks for."""
        request = MetadataRequest(owner=repr(self))
        for name, alias in self._requests.items():
            request.score.add_request(param=name, alias=alias)
        return request

    def _accept_sample_weight(self) -> bool:
        return True


def _read_people(model: Any, X: Any, y: Any, sample_weight: Any, exposure: Any, optional: Any) -> ScoredPeople:
    table = eager(X)
    if (len(table) if isinstance(table, (list, tuple)) else table.shape[0]) == 0:
        raise ValueError("X has no rows, so there is nobody to score the model on.")
    people = read_people(
        table,
        lambda source: (
            Consent.of(optional, source) if declares_something(optional) else _known_consent(model, table, source)
        ),
        weight=sample_weight,
    )
    check_no_mask(y, "y")
    outcome = column_or_1d(y, warn=True)
    check_consistent_length(people.container, outcome)
    if not people.weight.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    if exposure is None:
        return ScoredPeople(**vars(people), y=outcome)
    units = as_exposure(exposure, "exposure", len(outcome))
    rate, weight = per_unit(np.asarray(outcome, dtype=np.float64), people.weight, units)
    return ScoredPeople(**{**vars(people), "weight": weight}, y=rate)


def _known_consent(model: Any, table: Any, source: RowSource) -> Consent:
    """Return the consent schema of a model, or of what it wraps, in terms of the columns of the table."""
    consent = consent_within(model, table, source)
    if consent is None:
        raise ConsentError(
            f"It is not known what people may withhold: the model, a {type(model).__name__}, has no consent schema. "
            "Pass optional=[columns] or optional={group: [columns]}, with columns of X."
        )
    return consent
