"""What sharing does to people: the Shapley value of each group, and whether sharing can hurt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common import Array
from .._consent import FREE, Nesting
from .._kernels.compiling import engine_threads
from .predictor import (
    DEFAULT_MAX_SUBSETS,
    Favourable,
    MaskedPredictor,
    best_predictions,
    favourable_sign,
    people_by_mask,
)

if TYPE_CHECKING:
    import pandas as pd

MAX_SUBSETS_OF_SHAPLEY = 2**12


def sharing_value(
    booster: Any, X: Any, *, raw_score: bool = False, target_class: Any = None, num_threads: int | None = None
) -> pd.DataFrame:
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
        Threads for kernels and engine; None means all cores.

    Returns
    -------
    pandas.DataFrame
        One row per person, with the index of ``X``.

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
    with engine_threads(num_threads):
        return sharing_values(
            MaskedPredictor(booster, X, raw_score=raw_score, num_threads=num_threads, target_class=target_class)
        )


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
    return _weights_of_all(mask.bit_count()) if nesting.is_free else _weights_of_admissible(mask, nesting)


@lru_cache(64)
def _weights_of_admissible(mask: int, nesting: Nesting) -> Array:
    """Faigle and Kern's value: the average over all orders in which each group comes after the one it needs.

    With e(s) the number of such orders of a set s, the group g is added to s in e(s)·e(a∖s∖g) of the e(a) orders. In
    a forest e(s) = |s|! / ∏ h, where h of a group is how many groups of s are not shared without it, itself included.
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


@cache
def _weights_of_all(k: int) -> Array:
    weights = np.zeros((2**k, k))
    for subset in range(2**k):
        size = subset.bit_count()
        for g in range(k):
            if subset >> g & 1:
                weights[subset, g] = math.factorial(size - 1) * math.factorial(k - size) / math.factorial(k)
            else:
                weights[subset, g] = -math.factorial(size) * math.factorial(k - size - 1) / math.factorial(k)
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
    favourable: Favourable = "lower",
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
        As in :func:`predict`.

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
    sign = favourable_sign(favourable)
    with engine_threads(num_threads):
        predictor = MaskedPredictor(booster, X, num_threads=num_threads, target_class=target_class)
        return compare_with_less(predictor, sign, max_subsets)


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
