"""What sharing does to people and to the book: Shapley values, whether sharing can hurt, and the loading for all.

``load_to_balance`` adds one constant on the scale of raw scores. That is a factor under a log link, and keeps the order
of quotes, so the bonus balances by the same constant. Further trees would take it back, so loaded models are neither
continued nor refitted.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common import Array
from .._consent import FREE, Nesting
from .._engines import boosters_of, is_booster
from .._engines.trees import Leaf, MaskTree
from .._losses import Objective, Quantile, Softmax, per_unit
from .._models.anchored import loss_of
from .._models.schema import Favourable, attach_schema, check_favourable, kept_of
from .._tables.sources import (
    Categories,
    as_exposure,
    as_weight,
    eager,
    engine_threads_for,
    in_container_of,
    read_label,
    rows_of,
)
from .._training.calibration import FARTHEST, ScoredRows, mask_constants
from .predictor import (
    DEFAULT_MAX_SUBSETS,
    MaskedPredictor,
    Sharing,
    best_predictions,
    people_by_mask,
    predict,
)

if TYPE_CHECKING:
    import pandas as pd

MAX_SUBSETS_OF_SHAPLEY = 2**12
"""All subsets of 12 groups."""
TRIED = 100
"""How many people the link of a model is tried on."""


def sharing_value(
    booster: Any, X: Any, *, raw_score: bool = False, target_class: Any = None, num_threads: int | None = None
) -> Any:
    """Return how much each shared group moves each prediction: the Shapley value over the person's own groups.

    φ_g = Σ_{s ⊆ a∖g} |s|!·(k−|s|−1)!/k! · [f(b, s ∪ g) − f(b, s)], k = |a|. The values of a person add up to the
    difference between the prediction as given and the one with everything withheld.

    It is the average of f(b, s ∪ g) − f(b, s) over all orders in which the groups can be shared. Where some need others
    (:class:`Levels`, :class:`Needs`), only orders count in which each group comes after the one it needs.

    Parameters
    ----------
    booster
        As in :func:`predict`; at most 12 groups, or 4,096 admissible subsets.
    X
        A table with the columns of training.
    raw_score
        Attribute raw scores instead of predictions.
    target_class
        The class to look at, for a model with several, as in :func:`predict`.
    num_threads
        As in :func:`predict`.

    Returns
    -------
    DataFrame
        Of the kind of ``X``, as :func:`quote` returns it, with one row per person.

        - ``withheld``: the prediction with everything withheld
        - one column per group, by its name: how much sharing it moves the prediction; 0 where it is not shared
        - ``as_given``: the sum of all these, which is the prediction from all that the person shares

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 3)); y = X.sum(axis=1)
    >>> X[::4, 1] = X[::3, 2] = np.nan
    >>> booster = puc.train({"optional": [1, 2], "verbosity": -1}, puc.Dataset(X, y), 20)
    >>> values = puc.sharing_value(booster, X)
    >>> bool(np.allclose(values["withheld"] + values["Column_1"] + values["Column_2"], booster.predict(X)))
    True
    """
    with engine_threads_for(num_threads, X):
        predictor = MaskedPredictor(booster, X, raw_score=raw_score, num_threads=num_threads, target_class=target_class)
        return in_container_of(X, sharing_values(predictor))


def sharing_values(predictor: MaskedPredictor) -> pd.DataFrame:
    """Return the table of :func:`sharing_value` for everybody in the table of a predictor."""
    r, nesting = predictor.consent.n_groups, predictor.consent.nesting
    n_subsets = nesting.count((1 << r) - 1)
    if n_subsets > MAX_SUBSETS_OF_SHAPLEY:
        if nesting.is_free:
            raise ValueError(f"Shapley values need all 2^r subsets; {r} groups are more than 12.")
        raise ValueError(f"Shapley values need all subsets; {n_subsets:,} are more than {MAX_SUBSETS_OF_SHAPLEY:,}.")
    out = np.zeros((predictor.n_rows, r + 2))
    for mask, people in people_by_mask(predictor.shared):
        submasks = nesting.submasks(mask)
        groups = [g for g in range(r) if mask >> g & 1]
        weights = shapley_weights(mask, nesting)
        for some, values in predictor.all_subsets(people, submasks):
            out[some, 0], out[some, r + 1] = values[:, 0], values[:, -1]
            # Contiguous, because the last bits of a matrix product depend on the memory layout.
            out[some[:, None], np.array(groups, dtype=np.int64) + 1] = np.ascontiguousarray(values) @ weights
    return predictor.frame(out, ["withheld", *predictor.consent.group_names, "as_given"])


def shapley_weights(mask: int, nesting: Nesting = FREE) -> Array:
    """Return the matrix that turns the values of all admissible subsets (ascending masks) into Shapley values."""
    if nesting.is_free:  # the same for all sets of as many groups
        k = mask.bit_count()
        return _weights((1 << k) - 1, Nesting((-1,) * k))
    return _weights(mask, nesting)


@lru_cache(64)
def _weights(mask: int, nesting: Nesting) -> Array:
    """Faigle and Kern's value: the average over all orders in which each group comes after the one it needs.

    With e(s) the number of such orders of a set s, the group g is added to s in e(s)·e(a∖s∖g) of the e(a) orders. In
    a forest e(s) = |s|! / ∏ h, where h of a group is how many groups of s are not shared without it, itself included:
    1 for all where nothing is needed.
    """
    subsets = nesting.submasks(mask).tolist()
    groups = [g for g in range(mask.bit_length()) if mask >> g & 1]
    place = {subset: number for number, subset in enumerate(subsets)}

    @cache
    def orders(s: int) -> int:
        hooks = math.prod((nesting.below[g] & s).bit_count() for g in groups if s >> g & 1)
        return math.factorial(s.bit_count()) // hooks

    weights = np.zeros((len(subsets), len(groups)))
    for subset in subsets:
        for column, g in enumerate(groups):
            larger = subset | 1 << g
            if larger != subset and larger in place:
                weight = orders(subset) * orders(mask & ~larger) / orders(mask)
                weights[place[larger], column] += weight
                weights[place[subset], column] -= weight
    return weights


@dataclass(frozen=True)
class SharingEffects:
    """Whether sharing can hurt, as :func:`pucboost.sharing_effects` returns and explains it.

    Examples
    --------
    >>> import pucboost as puc
    >>> def some_lose(found: puc.typing.SharingEffects) -> bool:
    ...     return found.share_worse_than_withheld > 0
    """

    people: int
    share_worse_than_withheld: float
    largest_loss_against_withheld: float
    share_worse_than_best: float
    largest_loss_against_best: float
    share_worse_with_bonus: float


def sharing_effects(
    booster: Any,
    X: Any,
    *,
    favourable: Favourable | None = None,
    max_subsets: int = DEFAULT_MAX_SUBSETS,
    target_class: Any = None,
    num_threads: int | None = None,
) -> SharingEffects:
    """Measure how often, and by how much, sharing makes predictions less favourable, with and without the bonus system.

    Parameters
    ----------
    booster, X
        As in :func:`predict`.
    favourable, max_subsets, target_class, num_threads
        As in :func:`predict`; ``favourable`` is needed unless the model keeps it.

    Returns
    -------
    SharingEffects
        Numbers about all people, as attributes:

        - ``people``: how many there are
        - ``share_worse_than_withheld``: share who do worse with all they share than with nothing
        - ``largest_loss_against_withheld``: the most that anybody loses that way, in units of the prediction
        - ``share_worse_than_best``: share for whom some subset of what they share would have been more favourable;
          where groups need others, an admissible one
        - ``largest_loss_against_best``: the most that anybody loses that way
        - ``share_worse_with_bonus``: share who would do better with less under the bonus system; 0 by construction

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = X.sum(axis=1)
    >>> X[::4, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, y), 20)
    >>> found = puc.sharing_effects(booster, X, favourable="lower")
    >>> found.people, 0.3 < found.share_worse_than_withheld < 0.7, found.share_worse_with_bonus
    (200, True, 0.0)
    """
    check_favourable(favourable)
    with engine_threads_for(num_threads, X):
        predictor = MaskedPredictor(booster, X, num_threads=num_threads, target_class=target_class)
        return compare_with_less(predictor, predictor.sign_of(favourable, "sharing_effects"), max_subsets)


def compare_with_less(
    predictor: MaskedPredictor, sign: float, max_subsets: int = DEFAULT_MAX_SUBSETS
) -> SharingEffects:
    """Return :func:`sharing_effects` for all people of a predictor; a low ``sign``·f is favourable."""
    given = sign * predictor.everybody(predictor.shared)
    withheld = sign * predictor.everybody(np.zeros_like(predictor.shared))
    best = sign * best_predictions(predictor, sign, max_subsets)[0]
    return SharingEffects(
        people=predictor.n_rows,
        share_worse_than_withheld=float((given > withheld).mean()),
        largest_loss_against_withheld=float(np.maximum(given - withheld, 0).max()),
        share_worse_than_best=float((given > best).mean()),
        largest_loss_against_best=float(np.maximum(given - best, 0).max()),
        share_worse_with_bonus=float(((best > withheld) | (best > given)).mean()),
    )


# ----- the loading


def load_to_balance(
    model: Any,
    X: Any,
    y: Any,
    *,
    sharing: Sharing = "as_given",
    favourable: Favourable | None = None,
    sample_weight: Any = None,
    exposure: Any = None,
    num_threads: int | None = None,
) -> Any:
    """Return the model with one loading for everybody, so that the book balances: Σ w·(q − y) = 0.

    Where withholding is informative, a correct model collects too little: those who withhold are told what is justified
    for everybody like them. A bonus system (``sharing="best"``) collects even less. The loading spreads this over
    everybody, whether they share or not: a factor e^c on predictions with a log link, c added to them without a link,
    c added to log-odds. It is one more tree without any question, so quotes, bonuses, letters and files of the model
    include it, and who is best off with which subset does not change.

    An audit takes the loading out before it judges: it is the same for all, and nobody's silence has a part in it.

    Parameters
    ----------
    model
        A booster returned by :func:`pucboost.train`, or one of pucboost's estimators. It is not changed.
    X, y
        The book: people and their outcomes, best others than those of training.
    sharing, favourable
        Which predictions q are to balance, as in :func:`pucboost.predict`: people as they are, everybody silent, or
        the best of each person's quotes.
    sample_weight
        Weights of people.
    exposure
        What the outcomes add up over, as in :class:`Dataset`; needed if the model was trained with one.
    num_threads
        As in :func:`predict`.

    Returns
    -------
    model of the same kind
        With ``puc_summary.loading``, the constant c on the scale of raw scores.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)); y = rng.poisson(np.exp(X.sum(axis=1) / 2))
    >>> X[rng.random(2000) < 1 / (1 + np.exp(-2 * X[:, 1])), 1] = np.nan     # large values tend to be withheld
    >>> params = {"objective": "poisson", "optional": [1], "favourable": "lower", "verbosity": -1}
    >>> booster = puc.train(params, (X, y), 50)
    >>> loaded = puc.load_to_balance(booster, X, y, sharing="best")
    >>> bonus = puc.predict(loaded, X, sharing="best")
    >>> round(float(bonus.sum() / y.sum()), 6), bool(loaded.puc_summary.loading > 0)
    (1.0, True)
    """
    booster = _trees_in(model)
    consent, summary = kept_of(booster)
    if consent is None or summary is None:
        raise ValueError("The model has no consent schema; load_to_balance takes models that pucboost has trained.")
    loss = _checked_loss(booster)
    if summary.per_exposure != (exposure is not None):
        has, lacks = ("The model", "this book") if summary.per_exposure else ("This book", "the model")
        raise ValueError(f"{has} has an exposure, but {lacks} has none: give the exposure of both or of neither.")
    told = predict(model, X, sharing=sharing, favourable=favourable, num_threads=num_threads)
    outcome, weight = _book(model, y, sample_weight, exposure, len(told))
    loss.check_labels(outcome, "y")
    constant = _constant(loss, told, outcome, weight)
    summary = replace(summary, loading=summary.loading + constant)
    boosters, loaded, rows = boosters_of(booster), copy.deepcopy(booster), float(len(told))
    boosters.add_mask_trees(loaded, [MaskTree.of(Leaf(constant, rows, rows))], Categories([], ()))
    attach_schema(loaded, boosters, consent, summary, None)
    result = loaded
    if booster is not model:
        result = copy.copy(model)
        result.booster_ = loaded
    # A parameter of the engine may have changed the link, so it is tried whether predictions moved as the link says.
    some = rows_of(eager(X), np.arange(min(TRIED, len(told))))
    now = predict(result, some, sharing=sharing, favourable=favourable, num_threads=num_threads)
    with np.errstate(divide="ignore"):
        expected = loss.response(loss.link(told[: len(now)].astype(np.float64)) + constant)
    if not np.allclose(now, expected, rtol=1e-4, atol=1e-6):
        raise ValueError(
            f"The predictions are not those of objective {loss.name!r} with its usual link: a parameter of the engine "
            "has changed it (sigmoid, reg_sqrt). Such a model cannot be balanced."
        )
    return result


def _trees_in(model: Any) -> Any:
    booster = model if is_booster(model) else getattr(model, "booster_", None)
    if is_booster(booster):
        return booster
    if hasattr(booster or model, "anchor"):
        raise ValueError(
            "load_to_balance of an anchored model: people who share nothing are promised the anchor's prediction."
        )
    raise TypeError(
        f"load_to_balance takes a booster returned by pucboost.train or one of pucboost's estimators, got "
        f"{type(model).__name__!r}; in a pipeline, balance the last step."
    )


def _checked_loss(booster: Any) -> Objective:
    loss = loss_of(booster)
    if loss is None or isinstance(loss, (Quantile, Softmax)):
        name = boosters_of(booster).facts(booster).loss
        raise ValueError(
            f"load_to_balance with objective {name!r}: a book balances in means, on the scale of one link (regression, "
            "binary, cross_entropy, poisson, gamma, tweedie)."
        )
    return loss


def _book(model: Any, y: Any, sample_weight: Any, exposure: Any, n: int) -> tuple[Array, Array]:
    """Return outcomes and weights, as rates and with the exposure as weight if there is one."""
    classes = getattr(model, "classes_", None)
    given = y if classes is None else (np.asarray(y) == classes[1]).astype(np.float64)
    outcome = np.asarray(read_label(given, "y", n, total=exposure is not None), dtype=np.float64)
    weight = None if sample_weight is None else as_weight(sample_weight, "sample_weight", n)
    if exposure is not None:
        outcome, weight = per_unit(outcome, weight, as_exposure(exposure, "exposure", n))
    if weight is not None and not np.any(weight):
        raise ValueError("All weights are 0, so there is nothing to balance.")
    return outcome, np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)


def _constant(loss: Objective, told: Array, outcome: Array, weight: Array) -> float:
    n = len(told)
    with np.errstate(divide="ignore"):  # a prediction of 0 stays 0
        scores = loss.link(np.asarray(told, dtype=np.float64))[:, None]
    rows = ScoredRows(scores, outcome[:, None], weight, np.zeros(n, dtype=np.uint64), np.arange(n))
    constant = float(mask_constants(rows, loss, 0).depths[0].constant[0, 0])
    if not np.isfinite(constant) or (loss.link_name != "identity" and abs(constant) >= FARTHEST):
        means = np.average(told, weights=weight), np.average(outcome, weights=weight)
        raise ValueError(
            f"The mean prediction is {means[0]:.4g}, the mean outcome {means[1]:.4g}: too far apart for a loading. Are "
            "y and the model about the same thing, in the same unit?"
        )
    return constant


def without_loading(told: Array, booster: Any, loading: float) -> Array:
    """Return predictions of a booster that has a loading as they would be without it."""
    loss = loss_of(booster)
    if not loading or loss is None:
        return told
    with np.errstate(divide="ignore"):
        return loss.response(loss.link(told) - loading)
