"""The most favourable prediction over all subsets of what a person shares: the bonus system.

min_{s ⊆ a} f(b, s, z_s) for a premium, the maximum for an approval, over the subsets that can be shared. Among equal
predictions the largest subset counts: what was shared is used unless that hurts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, overload

import numpy as np

from .._common import Array
from .._consent import FREE, Nesting, shared_counts
from .._kernels.compiling import engine_threads
from .people import people_by_mask, people_by_subsets, subset_masks, subset_names
from .predictor import MaskedPredictor

if TYPE_CHECKING:
    import pandas as pd


Favourable: TypeAlias = Literal["lower", "higher"]
"""Which predictions people prefer: lower premiums, or higher chances of approval."""

Search: TypeAlias = Literal["exact", "greedy"]

AllSubsets: TypeAlias = Callable[[Array, Array], Iterator[tuple[Array, Array]]]
"""Takes people and sub-masks; yields batches of (people, predictions: people × sub-masks)."""


def favourable_sign(favourable: Any) -> float:
    """Return 1 if lower predictions are favourable, −1 if higher ones are, so that a small sign·f is favourable."""
    if favourable not in get_args(Favourable):
        raise ValueError(f"favourable must be 'lower' or 'higher', got {favourable!r}.")
    return 1.0 if favourable == "lower" else -1.0


def best_subsets(
    shared: Array,
    all_subsets: AllSubsets,
    sign: float,
    max_subsets: float = np.inf,
    search: Callable[[Array, int], tuple[Array, Array]] | None = None,
    nesting: Nesting = FREE,
) -> tuple[Array, Array]:
    """Return the most favourable prediction of each person (least sign·f), and the mask that gives it.

    Parameters
    ----------
    shared
        Mask of what each person shares.
    all_subsets
        Predicts people for all sub-masks of what they share.
    sign
        As :func:`favourable_sign` returns it.
    max_subsets, search
        For people with more than ``max_subsets`` subsets, ``search(people, mask)`` returns predictions and masks.
    nesting
        Which groups need others: only admissible subsets are looked at.
    """
    prediction, used = np.empty(len(shared)), np.zeros(len(shared), dtype=np.uint64)
    for mask, people in people_by_mask(shared):
        if search is not None and nesting.count(mask) > max_subsets:
            prediction[people], used[people] = search(people, mask)
            continue
        submasks = nesting.submasks(mask)
        largest_first = np.lexsort((submasks, shared_counts(submasks)))[::-1]  # argmin takes the first among equals
        for some, values in all_subsets(people, submasks):
            best = largest_first[np.argmin(sign * values[:, largest_first], axis=1)]
            prediction[some], used[some] = values[np.arange(len(some)), best], submasks[best]
    return prediction, used


def best_predictions(
    predictor: MaskedPredictor, sign: float, max_subsets: int, search: str = "exact"
) -> tuple[Array, Array]:
    """Return each person's best prediction and its mask; people with too many subsets are searched or refused."""
    nesting = predictor.consent.nesting
    if search == "exact":
        too_many = who_has_too_many(predictor.shared, nesting, max_subsets)
        if too_many is not None:
            row, groups, subsets = too_many
            raise ValueError(
                f"Row {row} shares {groups} groups, {subsets} subsets, more than max_subsets = {max_subsets}. Raise "
                "max_subsets, or allow search='greedy'."
            )
    return best_subsets(
        predictor.shared,
        predictor.all_subsets,
        sign,
        max_subsets,
        lambda people, mask: _greedy(predictor, people, mask, sign),
        nesting,
    )


def who_has_too_many(shared: Array, nesting: Nesting, max_subsets: float) -> tuple[int, int, str] | None:
    """Return the row with most subsets, its number of groups and of subsets, if these are too many; else None."""
    counts = nesting.counts(shared)
    if not len(counts) or counts.max() <= max_subsets:
        return None
    row = int(counts.argmax())
    k = int(shared[row]).bit_count()
    return row, k, f"2^{k}" if nesting.is_free else f"{int(counts[row]):,}"


def _greedy(predictor: MaskedPredictor, people: Array, mask: int, sign: float) -> tuple[Array, Array]:
    """Return the better result of two greedy searches, from everything and from nothing, one group at a time.

    A group that is added comes with all that it needs, and one that is left out goes with all that need it.
    """
    block, nesting = predictor.block_of(people), predictor.consent.nesting
    rows = np.arange(len(people))
    groups = [g for g in range(64) if mask >> g & 1]

    def changed(used: Array, g: int) -> Array:
        has = (used & np.uint64(1 << g)) != 0
        return np.where(has, used & ~np.uint64(nesting.below[g]), used | np.uint64(nesting.above[g]))

    ends = []
    for start in (mask, 0):
        used = np.full(len(people), start, dtype=np.uint64)
        value = predictor.predict(block, rows, used)
        while True:
            others = [changed(used, g) for g in groups]
            tried = [predictor.predict(block, rows, other) for other in others]
            best = np.argmin([sign * t for t in tried], axis=0)
            candidate = np.choose(best, tried) if len(groups) < 32 else np.stack(tried)[best, rows]
            helps = sign * candidate < sign * value
            if not helps.any():
                break
            value = np.where(helps, candidate, value)
            used = np.where(helps, np.stack(others)[best, rows], used)
        ends.append((value, used))
    (from_all, masks_all), (from_none, masks_none) = ends
    better = sign * from_none < sign * from_all
    return np.where(better, from_none, from_all), np.where(better, masks_none, masks_all)


# --------------------------------------------------------------------------------------------------
# ``quote`` and ``predict``: what people are told, and what they would be told if they shared less.


DEFAULT_MAX_SUBSETS = 4_096

Sharing: TypeAlias = Literal["as_given", "withheld", "best"]
"""Which of the data that a person shares a prediction uses."""


def quote(
    booster: Any, X: Any, *, subsets: Any = None, raw_score: bool = False, num_threads: int | None = None
) -> pd.DataFrame:
    """Return what each person would be told for every subset of the groups they share.

    The tests in a tree are made once per person, and further subsets then cost little more than additions. Every number
    is, bit for bit, what the booster's own engine predicts for the person's row with the other groups erased.

    Parameters
    ----------
    booster
        As returned by :func:`pucboost.train`, or one of pucboost's estimators, or a pipeline that ends in one.
    X
        A table with the columns of training.
    subsets
        None for all subsets, with up to 6 groups. Otherwise a list whose items are ``"nothing"``, ``"alone"``,
        ``"all_but_one"``, ``"all"`` or lists of group names. Of groups that need others (:class:`Levels`,
        :class:`Needs`) there are only the subsets that can be shared, up to 64 without being asked for.
    raw_score
        Return raw scores instead of predictions.
    num_threads
        Threads for kernels and engine; None means all cores.

    Returns
    -------
    pandas.DataFrame
        One row per person, with the index of ``X``, and one column per subset: what the person would be told for
        sharing just these groups, NaN where they do not share all of them.

        - ``nothing``: everything withheld
        - the name of a group, or several joined by `` + ``, such as ``app + blood``: these groups and no others, but
          for those that they need: ``fitness 2`` stands for both levels

        With several classes the columns have two levels, ``shared`` (as above) and ``class``.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 3)); y = X.sum(axis=1)
    >>> X[::2, 2] = X[2::3, 1] = np.nan                                  # what is withheld is missing
    >>> booster = puc.train({"optional": [1, 2], "verbosity": -1}, puc.Dataset(X, y), 5)
    >>> puc.quote(booster, X[:2]).notna().to_numpy().tolist()
    [[True, True, False, False], [True, True, True, True]]
    """
    with engine_threads(num_threads):
        return quote_subsets(MaskedPredictor(booster, X, raw_score=raw_score, num_threads=num_threads), subsets)


def quote_subsets(predictor: MaskedPredictor, subsets: Any) -> pd.DataFrame:
    """Return the quotes of everybody that a predictor knows; ``subsets`` as in :func:`quote`."""
    import pandas as pd

    masks = np.array(subset_masks(predictor.consent, subsets), dtype=np.uint64)
    names = subset_names(masks.tolist(), predictor.consent)
    table = _quotes(predictor, masks)
    if table.ndim == 2:
        return predictor.frame(table, names)
    columns = pd.MultiIndex.from_product([names, range(table.shape[2])], names=["shared", "class"])
    return predictor.frame(table.reshape(len(table), -1), columns)


def _quotes(predictor: MaskedPredictor, masks: Array) -> Array:
    """Return predictions, people × subsets (× classes), NaN where a person does not share the subset."""
    # One prediction shows how many values it has, even if nobody shares the subsets asked for.
    one = predictor.people(np.zeros(1, dtype=np.int64), 0)
    out = np.full((predictor.n_rows, len(masks), *one.shape[1:]), np.nan)
    if predictor.reads_trees(predictor.n_rows, len(masks)):
        for people, which, all_share in people_by_subsets(predictor.shared, masks):
            for some, values in predictor.subsets(people, masks[which]):
                if not all_share:
                    values[(predictor.shared[some, None] & masks[which]) != masks[which]] = np.nan
                predictor.scatter(values, some, which, out)
        return out
    for lo, hi in predictor.batches(len(masks)):
        shared = predictor.shared[lo:hi]
        rows, which = np.nonzero((shared[:, None] & masks) == masks)
        if len(rows):
            out[lo + rows, which] = predictor.predict(predictor.block(lo, hi), rows, masks[which])
    return out


@overload
def predict(
    booster: Any, X: Any, *, sharing: Sharing = ..., favourable: Favourable = ..., raw_score: bool = ...,
    return_subset: Literal[False] = ..., max_subsets: int = ..., search: Search = ..., target_class: Any = ...,
    num_threads: int | None = ...,
) -> Array: ...  # fmt: skip
@overload
def predict(
    booster: Any, X: Any, *, sharing: Sharing = ..., favourable: Favourable = ..., raw_score: bool = ...,
    return_subset: Literal[True], max_subsets: int = ..., search: Search = ..., target_class: Any = ...,
    num_threads: int | None = ...,
) -> tuple[Array, pd.DataFrame]: ...  # fmt: skip
@overload
def predict(
    booster: Any, X: Any, *, sharing: Sharing = ..., favourable: Favourable = ..., raw_score: bool = ...,
    return_subset: bool, max_subsets: int = ..., search: Search = ..., target_class: Any = ...,
    num_threads: int | None = ...,
) -> Array | tuple[Array, pd.DataFrame]: ...  # fmt: skip
def predict(
    booster: Any,
    X: Any,
    *,
    sharing: Sharing = "as_given",
    favourable: Favourable = "lower",
    raw_score: bool = False,
    return_subset: bool = False,
    max_subsets: int = DEFAULT_MAX_SUBSETS,
    search: Search = "exact",
    target_class: Any = None,
    num_threads: int | None = None,
) -> Array | tuple[Array, pd.DataFrame]:
    """Return predictions under a rule for which of the data that a person shares are used.

    Parameters
    ----------
    booster
        As returned by :func:`pucboost.train`, or one of pucboost's estimators, or a pipeline that ends in one.
    X
        A table with the columns of training.
    sharing
        ``"as_given"``: use everything that is shared. ``"withheld"``: erase everything optional. ``"best"``: the bonus
        system, the most favourable prediction over all subsets of what is shared, min_{s ⊆ a} f(b, s, z_s) for a
        premium; of groups that need others, over those that can be shared. Sharing more then never hurts.
    favourable
        ``"lower"`` (premiums) or ``"higher"`` (approval).
    raw_score
        Return raw scores instead of predictions.
    return_subset
        Also return which groups were used: a boolean DataFrame, one column per group.
    max_subsets
        ``"best"`` is exact for people with at most this many subsets, and raises for people with more.
    search
        ``"greedy"`` searches the subsets of people with more. It starts from everything and from nothing, and changes
        the group that helps most until no change helps. The result is never worse than either start.
    target_class
        Predict this class only, for a model with several: its number, or one of the labels of a classifier. ``"best"``
        needs it then.
    num_threads
        Threads for kernels and engine; None means all cores.

    Returns
    -------
    array
        One prediction per person; with several classes and no ``target_class``, one column per class.
    pandas.DataFrame
        Only with ``return_subset``: one row per person, with the index of ``X``, and one boolean column per group, by
        its name, whether it was used.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = X.sum(axis=1)
    >>> X[::4, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, y), 20)
    >>> best = puc.predict(booster, X, sharing="best")
    >>> bool((best <= puc.predict(booster, X)).all() and (best <= puc.predict(booster, X, sharing="withheld")).all())
    True
    """
    check_sharing(sharing)
    sign = favourable_sign(favourable)
    if search not in get_args(Search):
        raise ValueError(f"search must be 'exact' or 'greedy', got {search!r}.")
    with engine_threads(num_threads):
        predictor = MaskedPredictor(booster, X, raw_score=raw_score, num_threads=num_threads, target_class=target_class)
        if sharing == "best":
            prediction, used = best_predictions(predictor, sign, max_subsets, search)
        else:
            used = predictor.shared if sharing == "as_given" else np.zeros_like(predictor.shared)
            prediction = predictor.everybody(used)
        return (prediction, _groups_used(used, predictor)) if return_subset else prediction


def check_sharing(sharing: Any) -> None:
    """Raise if ``sharing`` is not one of its three values."""
    if sharing not in get_args(Sharing):
        raise ValueError(f"sharing must be 'as_given', 'withheld' or 'best'; got {sharing!r}.")


def _groups_used(masks: Array, predictor: MaskedPredictor) -> pd.DataFrame:
    bits = (masks[:, None] >> np.arange(predictor.consent.n_groups, dtype=np.uint64)) & np.uint64(1)
    return predictor.frame(bits.astype(bool), list(predictor.consent.group_names))
