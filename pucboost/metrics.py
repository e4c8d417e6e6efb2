"""Scores that respect consent: models are judged by what they tell people who share less.

On the raw table, a model that reads silence as bad news has the lower loss, so every ordinary score prefers it. Here
models are scored on *virtual rows*: person i with everything outside S erased, for every set S that some people share
exactly and that person i shares at least. With p(S) the share of people who share exactly S, the row (i, S) has weight

    p(S) · w_i / Σ_{j: a_j ⊇ S} w_j,     so that     R(f) = Σ_S p(S) · E[L(f(b, S, z_S), Y) | A ⊇ S].

The PUC prediction f* minimises each term, and hence R, under any weights p(S): ``max_masks`` changes which sets count,
not which model is right. Sets count as often as they occur.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names, make_scorer
from sklearn.utils import check_consistent_length, column_or_1d, get_tags
from sklearn.utils.metadata_routing import UNCHANGED, MetadataRequest

from ._common import Array, did_you_mean
from ._consent import JOINED_BY, NOTHING, Consent, declares_something
from ._losses import per_unit
from ._models.anchored import is_tree_model
from ._prediction.people import (
    ConsentError,
    People,
    consent_within,
    predicts_per_exposure,
    read_people,
    shares_of_masks,
)
from ._prediction.predictor import MaskedPredictor, mask_of, predict_tables
from ._tables.sources import RowSource, as_exposure, check_no_mask, eager

__all__ = ["PUCScorer", "mask_frequencies", "puc_score", "puc_scorer"]


def __dir__() -> list[str]:
    return sorted(__all__)


RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function")

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
        if self.frequencies is None:
            shares = shares_of_masks(people.shared, people.weight)
        else:
            shares = given_shares(self.frequencies, people.consent)
        cells = virtual_rows(people.shared, people.weight, shares, self._max_masks)
        asked = as_estimator(estimator, people, cells, self._scorer, self._response, self._num_threads)
        rows = np.concatenate([cell.rows for cell in cells])
        weight = np.concatenate([cell.weight for cell in cells])
        return float(self._scorer(asked, rows, people.y[rows], sample_weight=weight))

    def __repr__(self) -> str:
        optional = "" if self.optional is None else f", optional={self.optional!r}"
        name = self.metric if not callable(self.metric) else getattr(self.metric, "__name__", repr(self.metric))
        return f"puc_scorer({name!r}{optional})"

    # ----- scikit-learn's metadata routing

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
        """Return which metadata the scorer requests."""
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


# ----- the metric: a scikit-learn scorer that takes weights


def scorer_of(metric: Any, response: str | None, greater_is_better: bool | None, params: dict[str, Any]) -> Any:
    """Return scikit-learn's scorer for a metric; raise if it takes no weights."""
    is_function = callable(metric) and not hasattr(metric, "_score_func")
    if is_function:
        if greater_is_better is None:
            raise ValueError("metric is a function: say with greater_is_better=True or False whether higher is better.")
        scorer = make_scorer(
            metric, response_method=response or "predict", greater_is_better=greater_is_better, **params
        )
    else:
        if greater_is_better is not None or params:
            given = ", ".join([*params, *(["greater_is_better"] if greater_is_better is not None else [])])
            raise ValueError(f"{given} can only be given for a metric that is a function; {metric!r} has its own.")
        scorer = _named(metric) if isinstance(metric, str) else metric
        if not callable(scorer):
            raise ValueError(f"metric must be a name or a function, got {metric!r}.")
    function = getattr(scorer, "_score_func", None)
    if function is not None and not _takes_weights(function):
        name = metric if isinstance(metric, str) else getattr(function, "__name__", repr(function))
        raise ValueError(f"metric {name!r} takes no sample_weight, so virtual rows cannot be weighted.")
    return scorer


def _named(metric: str) -> Any:
    try:
        return get_scorer(metric)
    except (KeyError, ValueError):
        hint = did_you_mean(metric, get_scorer_names())
        raise ValueError(
            f"{metric!r} is not a valid scoring value.{hint} sklearn.metrics.get_scorer_names() lists all names."
        ) from None


def _takes_weights(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters
    return "sample_weight" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


# ----- which virtual rows count, and how much


@dataclass(frozen=True)
class ScoredPeople(People):
    """People and their outcomes, which may be classes of any type."""

    y: Array


@dataclass(frozen=True)
class Cell:
    """All virtual rows of one set S: who has one, and its weight."""

    mask: int
    rows: Array
    weight: Array


def virtual_rows(shared: Array, weight: Array, shares: Mapping[int, float], max_masks: int) -> list[Cell]:
    """Return the virtual rows (i, S), a_i ⊇ S, with weights p(S)·w_i / Σ_{j: a_j ⊇ S} w_j that add up to 1."""
    found: list[tuple[int, Array]] = []
    for mask in shares:
        rows = np.flatnonzero(((shared & np.uint64(mask)) == np.uint64(mask)) & (weight > 0))
        if len(rows):
            found.append((mask, rows))
        if len(found) == max_masks:
            break
    if not found:
        raise ValueError("Nobody in X shares any of the sets in frequencies.")
    total = sum(shares[mask] for mask, _ in found)
    return [Cell(mask, rows, shares[mask] / total * weight[rows] / weight[rows].sum()) for mask, rows in found]


def given_shares(frequencies: Mapping[Any, float], consent: Consent) -> dict[int, float]:
    """Return frequencies given by sets of groups as frequencies of masks, most frequent first."""
    if not isinstance(frequencies, Mapping):
        raise ValueError(f"frequencies must be a dict set of groups -> share, got {type(frequencies).__name__}.")
    shares: dict[int, float] = {}
    for groups, share in frequencies.items():
        if not np.isreal(share) or not 0 <= float(share) < np.inf:
            raise ValueError(f"The frequency of {groups!r} is {share!r}; it must be a non-negative number.")
        mask = _mask_of_set(groups, consent)
        shares[mask] = shares.get(mask, 0.0) + float(share)
    if not any(shares.values()):
        raise ValueError("frequencies are all 0.")
    return {mask: share for mask, share in sorted(shares.items(), key=lambda item: (-item[1], item[0])) if share > 0}


def _mask_of_set(groups: Any, consent: Consent) -> int:
    """Return the mask of a set of groups: a tuple of names, one name, or the name of a set in an audit report."""
    if isinstance(groups, str) and groups not in consent.groups:
        if groups == "everything":
            groups = consent.group_names
        else:
            groups = () if groups == NOTHING else tuple(groups.split(JOINED_BY))
    try:
        return mask_of((groups,) if isinstance(groups, str) else groups, consent)
    except ValueError as error:
        raise ValueError(f"frequencies: {error}") from None


# ----- stand-in estimators: a scorer calls their methods, which predict virtual rows, so any metric with weights works


def as_estimator(
    model: Any, people: ScoredPeople, cells: list[Cell], scorer: Any, response: str | None, num_threads: int | None
) -> Any:
    """Return a stand-in for a model of any kind, whose methods predict the virtual rows of all cells, in order."""
    if not is_tree_model(model) and hasattr(model, "predict"):
        return _MaskedEstimator(model, people, cells)

    def values() -> Array:
        if is_tree_model(model):
            predictor = MaskedPredictor(model, people.container, num_threads=num_threads, consent=people.consent)
            return np.concatenate([predictor.people(cell.rows, cell.mask) for cell in cells])
        if not callable(model):
            raise TypeError(
                f"Cannot score a {type(model).__name__}; pass a fitted estimator, a booster, or a function that takes "
                "a table and returns predictions."
            )
        return _predict_cells(model, people, cells)

    needs = response or getattr(scorer, "_response_method", "predict")
    return _MaskedValues(values) if needs in ("predict", ["predict"]) else _MaskedProbabilities(values())


def _predict_cells(call: Callable[[Any], Any], people: ScoredPeople, cells: list[Cell]) -> Array:
    return np.concatenate([predict_tables(call, people.container, c.rows, people.consent, c.mask) for c in cells])


class _MaskedEstimator:
    """A fitted estimator whose methods predict virtual rows; it has the same methods as the original."""

    def __init__(self, model: Any, people: ScoredPeople, cells: list[Cell]) -> None:
        self._model = model
        for name in RESPONSES:
            if hasattr(model, name):
                setattr(self, name, self._method(name, people, cells))

    def _method(self, name: str, people: ScoredPeople, cells: list[Cell]) -> Callable[[Any], Array]:
        def answer(rows: Any) -> Array:
            return _predict_cells(getattr(self._model, name), people, cells)

        answer.__name__ = name
        return answer

    @property
    def classes_(self) -> Any:
        return self._model.classes_

    def __sklearn_tags__(self) -> Any:
        return get_tags(self._model)


class _MaskedValues(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A booster or function that returns values."""

    def __init__(self, values: Callable[[], Array]) -> None:
        self.values = values

    def predict(self, rows: Any) -> Array:
        return self.values()


class _MaskedProbabilities(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A booster or function that returns the probability of class 1, or the probabilities of classes 0, 1, …."""

    def __init__(self, values: Array) -> None:
        self.values = values
        p = np.asarray(values, dtype=np.float64)
        self._probabilities = np.column_stack([1 - p, p]) if p.ndim == 1 else p / p.sum(axis=1, keepdims=True)
        self.classes_ = np.arange(self._probabilities.shape[1])

    def predict_proba(self, rows: Any) -> Array:
        return self._probabilities

    def predict(self, rows: Any) -> Array:
        return np.asarray(self.classes_[np.argmax(self._probabilities, axis=1)])
