"""Scores that respect consent: models judged by what they tell people who share less.

On people as they come, a model that reads silence as bad news has the lower loss, so every ordinary score prefers it.
Here each model is asked about *virtual rows*: person i with everything outside S erased, for every set S that people
really share and that i shares at least. With p(S) the share of people who share exactly S, the row (i, S) has weight

    p(S) · w_i / Σ_{j: a_j ⊇ S} w_j,     so that     R(f) = Σ_S p(S) · E[L(f(b, S, z_S), Y) | A ⊇ S].

Each term is least for the PUC prediction f*, hence so is R; and sets count as often as they occur.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names, make_scorer
from sklearn.utils import check_consistent_length, column_or_1d, get_tags
from sklearn.utils.metadata_routing import MetadataRequest

from ._arrays import Array
from ._consent import Consent
from ._estimators.estimators import declare_optional
from ._models.anchoring import is_tree_model
from ._models.files import consent_of
from ._prediction.prediction import Reader, predict_tables
from ._tables.containers import as_weight, eager, row_source
from ._training.datasets import declares_something

__all__ = ["PUCScorer", "mask_frequencies", "puc_score", "puc_scorer"]

RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function")


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

    The metric is computed on virtual rows: everybody who shares at least S, with all but S erased, for each set S as
    often as people in the data share it. Use it as ``scoring`` in ``GridSearchCV``, ``cross_val_score`` or with Optuna.

    Parameters
    ----------
    metric : str or callable
        A name from ``sklearn.metrics.get_scorer_names()`` (``"neg_log_loss"``, ``"neg_brier_score"``, ``"accuracy"``,
        ``"roc_auc"``, ``"neg_mean_squared_error"``, ``"neg_mean_poisson_deviance"``, …), a scorer from ``make_scorer``,
        or a function ``metric(y_true, y_pred, sample_weight=...)``.
    optional : list of columns, or dict group -> columns
        What people may withhold, by name or position in X. A fitted :class:`pucboost.PUCClassifier` or
        :class:`pucboost.PUCRegressor` and a pucboost booster know it; for other models and for pipelines, which may
        rename columns on the way, say it here. What is said here counts.
    response : {"predict", "predict_proba", "decision_function"} or None
        For a metric that is a function: which method gives ``y_pred``, by default ``predict``. For a model that is a
        booster or a function: what it returns, if that does not follow from the metric.
    greater_is_better : bool
        For a metric that is a function, and then it must be given: False for a loss, whose sign is changed.
    frequencies : dict set of groups -> share, optional
        The frequencies to expect once the model is deployed, where they are not those of the data, as
        :func:`mask_frequencies` returns them. Sets that nobody in the data shares at least are left out.
    max_masks : int
        Use at most so many sets, the most frequent ones; their frequencies are scaled to add up to 1.
    num_threads : int or None
        Threads for the kernels that mask the rows of boosters; None means all cores.
    **metric_params
        Further arguments of a metric that is a function, for example ``alpha`` of ``mean_pinball_loss``.

    Returns
    -------
    PUCScorer
        ``scorer(estimator, X, y, sample_weight=None)`` returns a number, higher is better. It can be pickled, and asks
        for weights by ``set_score_request(sample_weight=True)`` where metadata routing is enabled.

    Notes
    -----
    Metrics that are means of a loss give R(f) exactly. Others (AUC, R²) are computed on the pooled virtual rows with
    their weights. Masked rows are built in batches; what is kept of each is its prediction.

    Examples
    --------
    The ordinary score chooses the model that makes people pay for their silence, this one does not:

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
    model: Any, X: Any, y: Any, *, metric: Any = "neg_log_loss", sample_weight: Any = None, **options: Any
) -> float:
    """Return the score of a model on virtual rows, see :func:`puc_scorer`; higher is better.

    Parameters
    ----------
    model
        A fitted estimator or pipeline, a booster of either engine, an anchored model, or a function from a table to
        predictions.
    X, y
        People and their outcomes.
    metric, **options
        As in :func:`puc_scorer`.
    sample_weight
        Weights of people.

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
    return puc_scorer(metric, **options)(model, X, y, sample_weight=sample_weight)


def mask_frequencies(X: Any, optional: Any, sample_weight: Any = None) -> dict[tuple[str, ...], float]:
    """Return which sets of groups people share, and how many of them: set → share, most frequent first.

    Parameters
    ----------
    X
        People; no outcomes are needed.
    optional
        What they may withhold, as in :func:`puc_scorer`, or a :class:`pucboost.Consent`.
    sample_weight
        Weights of people.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, 5.0], [2, np.nan], [3, np.nan], [4, 6.0], [5, 7.0]])
    >>> mask_frequencies(X, optional={"blood": [1]})
    {('blood',): 0.6, (): 0.4}
    """
    source = row_source(X)
    consent = declare_optional(optional, source)
    weight = np.ones(source.n_rows) if sample_weight is None else as_weight(sample_weight, "weight", source.n_rows)
    shares = _observed(consent.presence(source), weight)
    return {consent.groups_of(mask): share for mask, share in shares.items()}


class PUCScorer:
    """A scorer as :func:`puc_scorer` returns it: ``scorer(estimator, X, y, sample_weight=None)``.

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
        self._scorer = _scorer_of(metric, response, greater_is_better, dict(metric_params or {}))
        self._weight_request: bool | str | None = None

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of a fitted model; higher is better.

        Parameters
        ----------
        estimator, X, y, sample_weight
            As in :func:`puc_score`.
        """
        people = _read_people(estimator, X, y, sample_weight, self.optional)
        cells = _virtual_rows(people.shared, people.weight, self._shares(people), self._max_masks)
        asked = _as_estimator(estimator, people, cells, self._scorer, self._response, self._num_threads)
        rows = np.concatenate([cell.rows for cell in cells])
        weight = np.concatenate([cell.weight for cell in cells])
        return float(self._scorer(asked, rows, people.y[rows], sample_weight=weight))

    def _shares(self, people: _People) -> dict[int, float]:
        if self.frequencies is None:
            return _observed(people.shared, people.weight)
        return _given(self.frequencies, people.consent)

    def __repr__(self) -> str:
        optional = "" if self.optional is None else f", optional={self.optional!r}"
        name = self.metric if not callable(self.metric) else getattr(self.metric, "__name__", repr(self.metric))
        return f"puc_scorer({name!r}{optional})"

    # ----- what scikit-learn asks scorers about weights

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Ask meta-estimators for weights of people (or do not), where metadata routing is enabled.

        Parameters
        ----------
        sample_weight
            True, False, None or the name under which they are passed, as in scikit-learn.
        """
        if not sklearn.get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                "This method is only available when metadata routing is enabled. You can enable it using "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        self._weight_request = sample_weight
        return self

    def get_metadata_routing(self) -> Any:
        """Return which metadata the scorer asks for."""
        request = MetadataRequest(owner=repr(self))
        request.score.add_request(param="sample_weight", alias=self._weight_request)
        return request

    def _accept_sample_weight(self) -> bool:
        return True


# ----- the metric


def _scorer_of(metric: Any, response: str | None, greater_is_better: bool | None, params: dict[str, Any]) -> Any:
    """Return scikit-learn's scorer for a metric, if it takes weights."""
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
            raise ValueError(f"{given} can be given for a metric that is a function; {metric!r} has its own.")
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
        close = difflib.get_close_matches(metric, get_scorer_names(), 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"{metric!r} is not a valid scoring value.{hint} sklearn.metrics.get_scorer_names() lists all names."
        ) from None


def _takes_weights(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters
    return "sample_weight" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


# ----- people


@dataclass(frozen=True)
class _People:
    """The people of a fold, and what each of them shares."""

    table: Any
    consent: Consent
    shared: Array
    y: Array
    weight: Array


def _read_people(model: Any, X: Any, y: Any, sample_weight: Any, optional: Any) -> _People:
    table = eager(X)
    n = len(table) if isinstance(table, (list, tuple)) else table.shape[0]
    if n == 0:
        raise ValueError("X has no rows, so there is nobody to score the model on.")
    source = row_source(table)
    consent = declare_optional(optional, source) if declares_something(optional) else _known_consent(model)
    consent.check_table(source)
    outcome = column_or_1d(y, warn=True)
    check_consistent_length(table, outcome)
    weight = np.ones(n) if sample_weight is None else as_weight(sample_weight, "sample_weight", n)
    if not weight.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return _People(table, consent, consent.presence(source), outcome, weight)


def _known_consent(model: Any) -> Consent:
    """Return the consent schema of a model that has one."""
    for known in (model, getattr(model, "best_estimator_", None)):  # a fitted search
        consent = getattr(known, "consent_", None)
        if consent is None and is_tree_model(known):
            consent = consent_of(known)
        if consent is not None and consent.n_groups:
            return consent  # type: ignore[no-any-return]
    raise ValueError(
        f"It is not known what people may withhold: the model, a {type(model).__name__}, has no consent schema. Say it "
        "with optional=[columns] or optional={group: [columns]}, by the columns of X."
    )


def _observed(shared: Array, weight: Array) -> dict[int, float]:
    """Return p(S), the share of people by weight who share exactly S, most frequent first."""
    masks, owner = np.unique(shared, return_inverse=True)
    share = np.bincount(owner, weights=weight, minlength=len(masks)) / weight.sum()
    order = np.lexsort((masks, -share))
    return {int(masks[i]): float(share[i]) for i in order if share[i] > 0}


def _given(frequencies: Mapping[Any, float], consent: Consent) -> dict[int, float]:
    """Return frequencies given by sets of groups as frequencies of masks, most frequent first."""
    if not isinstance(frequencies, Mapping):
        raise ValueError(f"frequencies must be a dict set of groups -> share, got {type(frequencies).__name__}.")
    shares: dict[int, float] = {}
    for groups, share in frequencies.items():
        if not np.isreal(share) or not 0 <= float(share) < np.inf:
            raise ValueError(f"The frequency of {groups!r} is {share!r}; it must be a number that is not negative.")
        mask = _mask_of(groups, consent)
        shares[mask] = shares.get(mask, 0.0) + float(share)
    if not any(shares.values()):
        raise ValueError("frequencies are all 0.")
    return {mask: share for mask, share in sorted(shares.items(), key=lambda item: (-item[1], item[0])) if share > 0}


def _mask_of(groups: Any, consent: Consent) -> int:
    """Return the mask of a set of groups: a tuple of names, one name, or the name of a set in an audit report."""
    if isinstance(groups, str) and groups not in consent.groups:
        if groups == "everything":
            groups = consent.group_names
        else:
            groups = () if groups == "nothing" else tuple(groups.split(" + "))
    wanted: Iterable[str] = (groups,) if isinstance(groups, str) else groups
    mask = 0
    for group in wanted:
        if group not in consent.groups:
            raise ValueError(
                f"frequencies name a group {group!r}, which is not optional; the groups are "
                f"{list(consent.group_names)}."
            )
        mask |= 1 << consent.group_names.index(group)
    return mask


# ----- virtual rows, and models that are asked about them


@dataclass(frozen=True)
class _Cell:
    """All virtual rows of one set S: who has one, and its weight."""

    mask: int
    rows: Array
    weight: Array


def _virtual_rows(shared: Array, weight: Array, shares: Mapping[int, float], max_masks: int) -> list[_Cell]:
    """Return the virtual rows (i, S), a_i ⊇ S, with weights p(S)·w_i / Σ_{j: a_j ⊇ S} w_j that add up to 1."""
    found: list[tuple[int, Array]] = []
    for mask in shares:
        rows = np.flatnonzero(((shared & np.uint64(mask)) == np.uint64(mask)) & (weight > 0))
        if len(rows):
            found.append((mask, rows))
        if len(found) == max_masks:
            break
    if not found:
        raise ValueError("Nobody in X shares at least one of the sets in frequencies.")
    total = sum(shares[mask] for mask, _ in found)
    return [_Cell(mask, rows, shares[mask] / total * weight[rows] / weight[rows].sum()) for mask, rows in found]


def _as_estimator(
    model: Any, people: _People, cells: list[_Cell], scorer: Any, response: str | None, num_threads: int | None
) -> Any:
    """Return what a scorer takes for an estimator, and which answers for the virtual rows of all cells, in order."""
    if not is_tree_model(model) and hasattr(model, "predict"):
        return _MaskedEstimator(model, people, cells)
    values = _Values(model, people, cells, num_threads)
    needs = response or getattr(scorer, "_response_method", "predict")
    if needs == "predict" or needs == ["predict"]:
        return _MaskedValues(values)
    return _MaskedProbabilities(values)


def _ask(call: Callable[[Any], Any], people: _People, cells: list[_Cell]) -> Array:
    """Call a function of tables for all virtual rows."""
    return np.concatenate([predict_tables(call, people.table, c.rows, people.consent, c.mask) for c in cells])


class _MaskedEstimator:
    """A fitted estimator whose methods answer for virtual rows; it has those that the estimator has."""

    def __init__(self, model: Any, people: _People, cells: list[_Cell]) -> None:
        self._model = model
        for name in RESPONSES:
            if hasattr(model, name):
                setattr(self, name, self._method(name, people, cells))

    def _method(self, name: str, people: _People, cells: list[_Cell]) -> Callable[[Any], Array]:
        def answer(rows: Any) -> Array:
            return _ask(getattr(self._model, name), people, cells)

        answer.__name__ = name
        return answer

    @property
    def classes_(self) -> Any:
        return self._model.classes_

    def __sklearn_tags__(self) -> Any:
        return get_tags(self._model)


class _Values:
    """The predictions of a booster or of a function for virtual rows."""

    def __init__(self, model: Any, people: _People, cells: list[_Cell], num_threads: int | None) -> None:
        self._model, self._people, self._cells, self._num_threads = model, people, cells, num_threads

    def __call__(self) -> Array:
        model, people = self._model, self._people
        if is_tree_model(model):
            reader = Reader(model, people.table, False, self._num_threads, consent=people.consent)
            return np.concatenate([reader.predict_rows(cell.rows, np.uint64(cell.mask)) for cell in self._cells])
        if not callable(model):
            raise TypeError(
                f"Cannot score a {type(model).__name__}; pass a fitted estimator, a booster, or a function that takes "
                "a table and returns predictions."
            )
        return _ask(model, people, self._cells)


class _MaskedValues(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A booster or function that returns values."""

    def __init__(self, values: _Values) -> None:
        self.values = values

    def predict(self, rows: Any) -> Array:
        return self.values()


class _MaskedProbabilities(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A booster or function that returns the probability of class 1, or those of classes 0, 1, …."""

    def __init__(self, values: _Values) -> None:
        self.values = values
        p = np.asarray(values(), dtype=np.float64)
        self._probabilities = np.column_stack([1 - p, p]) if p.ndim == 1 else p / p.sum(axis=1, keepdims=True)
        self.classes_ = np.arange(self._probabilities.shape[1])

    def predict_proba(self, rows: Any) -> Array:
        return self._probabilities

    def predict(self, rows: Any) -> Array:
        return np.asarray(self.classes_[np.argmax(self._probabilities, axis=1)])
