"""Predictions for any subset of what people share: ``predict``, ``quote``, and the predictor behind them.

Somebody who shares the groups a has a prediction f(b, s, z_s) for every subset s ⊆ a: what they would be told if they
shared s alone. ``quote`` returns these. Under the bonus system (``sharing="best"``) people get the most favourable one,

    min_{s ⊆ a} f(b, s, z_s) for a premium, the maximum for an approval,

over the subsets that can be shared. Among equal predictions the largest subset counts: what was shared is used unless
that hurts. :class:`MaskedPredictor` builds masked rows in batches, so 2^r copies of a table never exist.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, overload

import numpy as np

from .._common import Array, similar, threads_for, warn
from .._consent import FREE, JOINED_BY, NOTHING, Consent, Nesting, shared_counts
from .._engines import boosters_of, is_booster
from .._engines.base import Output
from .._kernels.compiling import engine_threads, run_in_ranges, thread_count
from .._kernels.rows import scatter_cells
from .._models.anchored import AnchoredModel, is_tree_model, trees_of
from .._models.anchors import AnchorScores
from .._models.schema import Favourable, categories_of, check_favourable, kept_of
from .._tables.sources import (
    Categories,
    RowSource,
    are_default_names,
    column_names,
    eager,
    engine_threads_for,
    erase_columns,
    in_container_of,
    is_frame,
    is_stored,
    named_columns,
    row_source,
    rows_of,
)
from .._virtual.rows import BATCH_BYTES
from .leaf_sets import Block, SubsetScores, beat_engine, subset_scores
from .people import consent_within, pipeline_parts, transformed

if TYPE_CHECKING:
    import pandas as pd

Sharing: TypeAlias = Literal["as_given", "withheld", "best"]
"""Which of the data that a person shares a prediction uses."""

Search: TypeAlias = Literal["exact", "greedy"]

AllSubsets: TypeAlias = Callable[[Array, Array], Iterator[tuple[Array, Array]]]
"""Takes people and sub-masks; yields batches of (people, predictions: people × sub-masks)."""

DEFAULT_MAX_SUBSETS = 4_096

MAX_SUBSETS = 64
"""How many subsets are listed unless some are chosen: those of 6 groups, or of 63 levels."""
FAMILIES = (NOTHING, "alone", "all_but_one", "all")

PEOPLE_WORTH_A_LIST = 32

TABLE_VALUES = 8_000_000
"""How many values are passed at a time to a model that takes tables."""

PREDICTIONS_WORTH_READING = 5_000
"""From this many predictions per thread on it pays to read the trees, which one thread does in the engine's time for
about as many."""

LEAVES_READ_FAST = 64
"""Larger trees take longer to read in proportion to their leaves, while the engine's predictions hardly do."""

COMPARED_ROWS = 8
"""How many people are predicted both ways before the trees that were read are trusted."""


@overload
def predict(
    booster: Any, X: Any, *, sharing: Sharing = ..., favourable: Favourable | None = ..., raw_score: bool = ...,
    return_subset: Literal[False] = ..., max_subsets: int = ..., search: Search = ..., target_class: Any = ...,
    num_threads: int | None = ..., start_iteration: int = ..., num_iteration: int | None = ..., pred_leaf: bool = ...,
    pred_contrib: bool = ...,
) -> Array: ...  # fmt: skip
@overload
def predict(
    booster: Any, X: Any, *, sharing: Sharing = ..., favourable: Favourable | None = ..., raw_score: bool = ...,
    return_subset: Literal[True], max_subsets: int = ..., search: Search = ..., target_class: Any = ...,
    num_threads: int | None = ..., start_iteration: int = ..., num_iteration: int | None = ..., pred_leaf: bool = ...,
    pred_contrib: bool = ...,
) -> tuple[Array, Any]: ...  # fmt: skip
@overload
def predict(
    booster: Any, X: Any, *, sharing: Sharing = ..., favourable: Favourable | None = ..., raw_score: bool = ...,
    return_subset: bool, max_subsets: int = ..., search: Search = ..., target_class: Any = ...,
    num_threads: int | None = ..., start_iteration: int = ..., num_iteration: int | None = ..., pred_leaf: bool = ...,
    pred_contrib: bool = ...,
) -> Array | tuple[Array, Any]: ...  # fmt: skip
def predict(
    booster: Any,
    X: Any,
    *,
    sharing: Sharing = "as_given",
    favourable: Favourable | None = None,
    raw_score: bool = False,
    return_subset: bool = False,
    max_subsets: int = DEFAULT_MAX_SUBSETS,
    search: Search = "exact",
    target_class: Any = None,
    num_threads: int | None = None,
    start_iteration: int = 0,
    num_iteration: int | None = None,
    pred_leaf: bool = False,
    pred_contrib: bool = False,
) -> Array | tuple[Array, Any]:
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
        Which predictions people prefer, ``"lower"`` (premiums) or ``"higher"`` (approval). ``"best"`` needs it, here or
        from training (``params["favourable"]``); what is given here wins.
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
        Threads for kernels and engine; None means all cores, and one for the engine where values are few.
    start_iteration, num_iteration
        Predict with these rounds only, as ``lgb.Booster.predict``.
    pred_leaf, pred_contrib
        Return the leaf in each tree, or what each column adds to the raw score (SHAP values) and last the constant, as
        ``lgb.Booster.predict``. Columns are in the order of training; text is one column. Rows add up to raw scores.

    Returns
    -------
    array
        One prediction per person; with several classes and no ``target_class``, one column per class.
    DataFrame
        Only with ``return_subset``, of the kind of ``X``, as :func:`quote` returns it: one row per person and one
        boolean column per group, by its name, whether it was used.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = X.sum(axis=1)
    >>> X[::4, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, y), 20)
    >>> best = puc.predict(booster, X, sharing="best", favourable="lower")
    >>> bool((best <= puc.predict(booster, X)).all() and (best <= puc.predict(booster, X, sharing="withheld")).all())
    True
    """
    check_sharing(sharing)
    check_favourable(favourable)
    if search not in get_args(Search):
        raise ValueError(f"search must be 'exact' or 'greedy', got {search!r}.")
    output = Output(raw_score, start_iteration, num_iteration, pred_leaf, pred_contrib)
    if target_class is not None and (pred_leaf or pred_contrib):
        raise ValueError("target_class with pred_leaf or pred_contrib: these are of all classes. Leave it out.")
    with engine_threads_for(num_threads, X):
        predictor = MaskedPredictor(
            booster, X, raw_score=raw_score, num_threads=num_threads, target_class=target_class, output=output
        )
        if sharing == "best":
            sign = predictor.sign_of(favourable, "sharing='best'")
            prediction, used = best_predictions(predictor.predicting(), sign, max_subsets, search)
        else:
            used = predictor.shared if sharing == "as_given" else np.zeros_like(predictor.shared)
        if sharing != "best" or pred_leaf or pred_contrib:  # these are then those of the best prediction
            prediction = predictor.everybody(used)
        if not return_subset:
            return prediction
        bits = (used[:, None] >> np.arange(predictor.consent.n_groups, dtype=np.uint64)) & np.uint64(1)
        groups = predictor.frame(bits.astype(bool), list(predictor.consent.group_names))
        return prediction, in_container_of(X, groups)


def check_sharing(sharing: Any) -> None:
    if sharing not in get_args(Sharing):
        raise ValueError(f"sharing must be 'as_given', 'withheld' or 'best'; got {sharing!r}.")


def favourable_sign(favourable: Any) -> float:
    """Return 1 if lower predictions are favourable, −1 if higher ones are, so that a small sign·f is favourable."""
    return 1.0 if check_favourable(favourable) == "lower" else -1.0


def quote(
    booster: Any,
    X: Any,
    *,
    subsets: Any = None,
    raw_score: bool = False,
    intervals: Any = None,
    num_threads: int | None = None,
) -> Any:
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
    intervals
        What :func:`pucboost.intervals` found for this model, or for two quantile models beside it: how sure is each
        quote? Two more columns per subset, such as ``app: lower`` and ``app: upper``, missing where too few people
        share the subset. With an exposure they are for one unit of it.
    num_threads
        Threads for kernels and engine; None means all cores, and one for the engine where values are few.

    Returns
    -------
    DataFrame
        Of polars if ``X`` is, an Arrow table if ``X`` is one, else of pandas, with the index of ``X``. One row per
        person and one column per subset: what the person would be told for sharing just these groups, missing where
        they do not share all of them (NaN in pandas, else null).

        - ``nothing``: everything withheld
        - the name of a group, or several joined by `` + ``, such as ``app + blood``: these groups and no others, but
          for those that they need: ``fitness 2`` stands for both levels

        With several classes the columns have two levels, ``shared`` (as above) and ``class``, in polars and Arrow one,
        ``app + class 0``.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 3)); y = X.sum(axis=1)
    >>> X[::2, 2] = X[2::3, 1] = np.nan                                  # what is withheld is missing
    >>> booster = puc.train({"optional": [1, 2], "verbosity": -1}, puc.Dataset(X, y), 5)
    >>> puc.quote(booster, X[:2]).notna().to_numpy().tolist()
    [[True, True, False, False], [True, True, True, True]]
    """
    if intervals is not None and raw_score:
        raise ValueError("intervals are of outcomes, not of raw scores; leave raw_score out.")
    with engine_threads_for(num_threads, X):
        if intervals is not None:
            return intervals.beside_quotes(booster, X, subsets, num_threads)
        predictor = MaskedPredictor(booster, X, raw_score=raw_score, num_threads=num_threads)
        return in_container_of(X, quote_subsets(predictor, subsets))


def quote_subsets(predictor: MaskedPredictor, subsets: Any) -> pd.DataFrame:
    """Return the quotes of everybody in the table of a predictor; ``subsets`` as in :func:`quote`."""
    import pandas as pd

    masks = np.array(subset_masks(predictor.consent, subsets), dtype=np.uint64)
    names = subset_names(masks.tolist(), predictor.consent)
    table = predictor.quotes(masks)
    if table.ndim == 2:
        return predictor.frame(table, names)
    columns = pd.MultiIndex.from_product([names, range(table.shape[2])], names=["shared", "class"])
    return predictor.frame(table.reshape(len(table), -1), columns)


# ----- subsets of groups: their masks, their names, and who shares them


def subset_masks(consent: Consent, subsets: Any = None) -> list[int]:
    """Return the masks of subsets given as in :func:`quote`, without repetition.

    Groups that need others come with these: only admissible subsets are returned.
    """
    r, nesting = consent.n_groups, consent.nesting
    everything = (1 << r) - 1
    if subsets is None:
        if nesting.count(everything) > MAX_SUBSETS:
            how_many = f"2^{r} subsets" if nesting.is_free else f"{nesting.count(everything):,} admissible subsets"
            raise ValueError(
                f"There are {how_many} of {r} groups. Choose some: subsets=['nothing', 'alone', 'all_but_one', "
                "'all'], or lists of group names."
            )
        return [int(mask) for mask in nesting.submasks(everything)]
    families = {
        NOTHING: [0],
        "alone": list(nesting.above),
        "all_but_one": [everything & ~below for below in nesting.below],
        "all": [everything],
    }
    masks: list[int] = []
    for wanted in [subsets] if isinstance(subsets, str) else subsets:
        if isinstance(wanted, str):
            if wanted not in families:
                raise ValueError(
                    f"subsets must be among {', '.join(map(repr, FAMILIES))} or lists of groups; got {wanted!r}."
                )
            masks += families[wanted]
        else:
            masks.append(mask_of(wanted, consent))
    return list(dict.fromkeys(masks))


def mask_of(groups: Iterable[str], consent: Consent) -> int:
    """Return the mask of some groups, given by name, and of all that these need."""
    mask = 0
    for group in groups:
        if group not in consent.groups:
            raise ValueError(
                f"Group {group!r} is not in the consent schema; its groups are {list(consent.group_names)}."
            )
        mask |= consent.nesting.above[consent.group_names.index(group)]
    return mask


def subset_name(mask: int, consent: Consent) -> str:
    """Return the name of a subset in tables: its groups, joined by `` + ``, or ``nothing``.

    Only topmost groups are named, ``fitness: full`` for all levels up to it: they determine the set, and names of sixty
    levels stay short. :func:`mask_of` adds what they need, so that a name leads back to its set.
    """
    return JOINED_BY.join(consent.groups_of(consent.nesting.topmost(mask))) or NOTHING


def subset_names(masks: Iterable[int], consent: Consent) -> list[str]:
    """Return the names of subsets. Different subsets have different names: a schema refuses groups like ``a + b``."""
    return [subset_name(int(mask), consent) for mask in masks]


def people_by_mask(shared: Array) -> Iterator[tuple[int, Array]]:
    """Yield every mask that occurs, with the people who have it."""
    order, masks, bounds = _sorted_by(shared)
    if len(masks):
        yield from zip(masks.tolist(), np.split(order, bounds), strict=True)


def people_by_subsets(shared: Array, masks: Array) -> Iterator[tuple[Array, Array, bool]]:
    """Yield people, the numbers of the masks to predict them for, and whether all of them share all of these.

    Every person who shares any of the masks is in one of the lists. People who share the same of them come together.
    Lists of fewer than 32 people would take longer than a few predictions that nobody needs, so they are merged.
    """
    if not len(shared):
        return
    order, have, bounds = _sorted_by(shared)
    patterns, pattern = np.unique((have[:, None] & masks) == masks, axis=0, return_inverse=True)
    sizes = np.diff(np.concatenate([[0], bounds, [len(order)]]))
    again, numbers, bounds = _sorted_by(np.repeat(pattern.reshape(-1), sizes))
    rare: list[Array] = []
    for number, people in zip(numbers.tolist(), np.split(order[again], bounds), strict=True):
        if len(people) < PEOPLE_WORTH_A_LIST:
            rare.append(people)
        elif patterns[number].any():
            yield people, np.flatnonzero(patterns[number]), True
    if rare:
        together = np.sort(np.concatenate(rare))
        shares = (shared[together, None] & masks) == masks
        if shares.any():
            yield together, np.flatnonzero(shares.any(axis=0)), False


def _sorted_by(values: Array) -> tuple[Array, Array, Array]:
    """Return the order that sorts values, the distinct values, and where in that order each but the first begins."""
    # Numbers of 16 bits are sorted by counting, many times faster than others.
    order = np.argsort(values.astype(np.uint16) if values.max(initial=0) < 1 << 16 else values, kind="stable")
    ordered = values[order]
    bounds = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    return order, ordered[np.concatenate([[0], bounds])] if len(ordered) else ordered, bounds


# ----- the most favourable subset


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
    block, nesting = predictor.block(people), predictor.consent.nesting
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
            tried = np.stack([predictor.predict(block, rows, other) for other in others])
            best = np.argmin(sign * tried, axis=0)
            candidate = tried[best, rows]
            helps = sign * candidate < sign * value
            if not helps.any():
                break
            value = np.where(helps, candidate, value)
            used = np.where(helps, np.stack(others)[best, rows], used)
        ends.append((value, used))
    (from_all, masks_all), (from_none, masks_none) = ends
    better = sign * from_none < sign * from_all
    return np.where(better, from_none, from_all), np.where(better, masks_none, masks_all)


# ----- any person with any mask


class MaskedPredictor:
    """A tree model and a table, ready to predict any person with any mask.

    A few predictions are left to the engine. For more, the trees are read and scored by :class:`SubsetScores`, which
    gives the same bits many times faster. Trees that were read are tried before they are trusted: the engine must
    predict the same bits for some people of this very table, or it makes all predictions. A new version of an engine,
    or another ``exp``, then costs time and nothing else. The engine also predicts where trees cannot be read (linear
    leaves, unusual links) and what it would refuse (XGBoost: infinite values).

    Parameters
    ----------
    model
        A booster of any engine, an anchored model, or what :func:`unwrap` finds one in.
    X
        A table with the columns of training.
    raw_score
        Predict raw scores.
    num_threads
        Threads for kernels and engine, as in :func:`predict`.
    consent
        The consent schema, for a model that has none.
    target_class
        Predict this class only, for a model with several.
    container
        The table as an anchor should see it, if ``X`` is no more than its numbers.
    output
        What to return of the trees, if not predictions; the engine then makes all of it.
    """

    def __init__(
        self,
        model: Any,
        X: Any,
        *,
        raw_score: bool = False,
        num_threads: int | None = None,
        consent: Consent | None = None,
        target_class: Any = None,
        container: Any = None,
        output: Output | None = None,
    ) -> None:
        given = X if container is None else container
        self.index = given.index if hasattr(given, "index") and hasattr(given, "columns") else None
        model, X, classes = unwrap(model, X)
        self.model: Any = model
        summary, from_model = getattr(model, "puc_summary", None), consent is None
        if consent is None:
            consent, summary = kept_of(model)
        if consent is None:
            raise ValueError(
                "The model has no consent schema, so it is not known what is optional. Train it with pucboost.train, "
                "or load it with pucboost.load_model."
            )
        self.consent: Consent = consent
        categories = categories_of(model)
        # An anchor gets the whole table, in the user's container.
        in_memory = hasattr(X, "shape") or isinstance(model, AnchoredModel) or not is_stored(X)
        self.table = in_order_of(consent, X) if in_memory else read_stored(consent, X, categories)
        self.source: RowSource = row_source(self.table, categories)
        consent.check_table(self.source)
        if container is not None:
            self.table = container
        if from_model and summary is not None and summary.unstored_withheld and self._leaves_out_optional():
            warn(
                "In training, available= said which values that the sparse matrix does not store were withheld. Here "
                "they are all read as the number 0, that is as shared. Store NaN for what is withheld.",
            )
        self._raw_score, self._num_threads = raw_score, num_threads
        self._output = None if output is None or output.is_plain else output
        self._threads = thread_count(threads_for(num_threads))
        self.target_class = class_number(target_class, classes)
        self.kept_favourable: Favourable | None = None if summary is None else summary.favourable
        self._n_predictions, self._trees_were_read = 0, False
        self._scores: SubsetScores | None = None

    def _leaves_out_optional(self) -> bool:
        """Return whether the table is sparse and does not store some optional values."""
        source, optional = self.source, self.consent.group_columns
        return source.is_sparse and any(
            (~np.isnan(source.window(lo, hi)[:, optional]) & ~source.present(np.arange(lo, hi), optional)).any()
            for lo, hi in source.blocks()
        )

    @cached_property
    def shared(self) -> Array:
        """Mask of what each person shares."""
        return self.consent.availability(self.source, num_threads=self._threads)

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    def predicting(self) -> MaskedPredictor:
        """Return a predictor of the same rounds whose output is predictions, not leaves or contributions."""
        if self._output is None:
            return self
        other = copy.copy(self)
        other._output = replace(self._output, pred_leaf=False, pred_contrib=False)
        return other

    def of_raw_scores(self) -> MaskedPredictor:
        """Return a predictor of the same people whose output is raw scores."""
        other = copy.copy(self)
        other._raw_score, other._n_predictions, other._trees_were_read, other._scores = True, 0, False, None
        return other

    def sign_of(self, favourable: Favourable | None, needed_by: str, what: str = "prediction") -> float:
        """Return :func:`favourable_sign` of what the call gives, else of what the model keeps; raise if neither does.

        Nobody guesses: the wrong direction would give everybody their worst quote.
        """
        if favourable is None and self.target_class is None:  # of one class among several the model keeps nothing
            favourable = self.kept_favourable
        if favourable is None:
            raise ValueError(
                f"{needed_by} needs favourable='lower' (a price) or favourable='higher' (an approval): do people "
                f"prefer a lower or a higher {what}? Give it to the call, or once to training, as a parameter."
            )
        return favourable_sign(favourable)

    def frame(self, values: Array, columns: Any) -> pd.DataFrame:
        """Return values of all people as a DataFrame with the index of their table; the values are not copied."""
        import pandas as pd

        return pd.DataFrame(values, columns=columns, index=self.index, copy=False)

    def everybody(self, masks: Array) -> Array:
        """Return predictions for everybody, each with the mask given for them."""
        parts = []
        for batch in self._batches(1):
            block = self.block(batch)
            parts.append(self.predict(block, np.arange(len(block.rows)), masks[batch]))
        return np.concatenate(parts)

    def people(self, rows: Array, mask: int) -> Array:
        """Return predictions for some people, all with the same mask."""
        step = self._people_per_batch(1)
        parts = []
        for lo in range(0, len(rows), step):
            some = rows[lo : lo + step]
            parts.append(self.predict(self.block(some), np.arange(len(some)), np.full(len(some), mask, np.uint64)))
        return np.concatenate(parts)

    def quotes(self, masks: Array) -> Array:
        """Return predictions, people × masks (× classes), NaN where a person does not share all of a mask."""
        # One prediction shows how many values it has, even if nobody shares any of the masks.
        one = self.people(np.zeros(1, dtype=np.int64), 0)
        out = np.full((self.n_rows, len(masks), *one.shape[1:]), np.nan)
        if self.reads_trees(self.n_rows, len(masks)):
            cells = out.reshape(*out.shape[:2], -1)
            for people, which, all_share in people_by_subsets(self.shared, masks):
                for some, values in self.subsets(people, masks[which]):
                    if not all_share:
                        values[(self.shared[some, None] & masks[which]) != masks[which]] = np.nan
                    job = partial(scatter_cells, values.reshape(*values.shape[:2], -1), some, which)
                    run_in_ranges(lambda lo, hi, job=job: job(lo, hi, cells), len(some), self._threads)  # type: ignore[misc]
            return out
        for batch in self._batches(len(masks)):
            rows, which = np.nonzero((self.shared[batch, None] & masks) == masks)
            if len(rows):
                out[batch.start + rows, which] = self.predict(self.block(batch), rows, masks[which])
        return out

    def all_subsets(self, people: Array, submasks: Array) -> Iterator[tuple[Array, Array]]:
        """Yield people, and their predictions for each sub-mask (people × sub-masks), batch by batch."""
        for some, values in self.subsets(people, submasks):
            if values.ndim != 2:
                raise ValueError(
                    "With several classes there is no single most favourable or attributable prediction. Choose a "
                    "class with target_class."
                )
            yield some, values

    def subsets(self, people: Array, masks: Array) -> Iterator[tuple[Array, Array]]:
        """Yield people, and their predictions for each mask (people × masks, × classes), batch by batch."""
        step = self._people_per_batch(len(masks))
        if self.reads_trees(len(people), len(masks)) and self._scores is not None:
            step = max(step, 4 * BATCH_BYTES // (len(masks) * self._scores.bytes_per_prediction))
        for lo in range(0, len(people), step):
            some = people[lo : lo + step]
            block = self.block(some)
            scores = self._scores_for(block, 0, len(masks))
            yield some, self._subsets_by_engine(block, masks) if scores is None else scores.subsets(block, masks)

    def _subsets_by_engine(self, block: Block, masks: Array) -> Array:
        step, n = self._people_per_batch(len(masks)), len(block.rows)
        parts = []
        for lo in range(0, n, step):
            rows = np.repeat(np.arange(lo, min(lo + step, n)), len(masks))
            values = self._by_engine(self.masked(block, rows, np.tile(masks, len(rows) // len(masks))))
            parts.append(values.reshape(-1, len(masks), *values.shape[1:]))
        return np.concatenate(parts)

    def predict(self, block: Block, rows: Array, masks: Array) -> Array:
        """Return predictions for rows of a block, each with its mask."""
        scores = self._scores_for(block, len(rows), 1)
        return (self._by_engine if scores is None else scores.rows)(self.masked(block, rows, masks))

    def block(self, people: Array | slice) -> Block:
        """Return some people, in the given order; a slice of them is not copied."""
        rows = self.source.window(people.start, people.stop) if isinstance(people, slice) else self.source.take(people)
        scores = self._anchor_scores
        return Block(rows, None if scores is None else scores.of(people))

    @cached_property
    def _anchor_scores(self) -> AnchorScores | None:
        """The anchor's scores of everybody, computed once: it never sees what is optional.

        For the whole table at once, in the user's container: the last bits of matrix products depend on the number of
        rows and on memory layout, those of scalers on float types.
        """
        if not isinstance(self.model, AnchoredModel):
            return None
        return self.model.anchor.scores(self.table, categories_of(self.model))

    def _batches(self, per_person: int) -> Iterator[slice]:
        """Yield ranges of people whose masked rows fit into a batch, ``per_person`` rows each."""
        step = self._people_per_batch(per_person)
        for lo in range(0, self.n_rows, step):
            yield slice(lo, min(lo + step, self.n_rows))

    def _people_per_batch(self, per_person: int) -> int:
        row_bytes = self.source.n_columns * self.source.dtype.itemsize
        return max(1, 4 * BATCH_BYTES // (row_bytes * max(1, per_person)))

    def masked(self, block: Block, rows: Array, masks: Array) -> Block:
        """Return rows of a block, each with the groups outside its mask erased."""
        out = np.empty((len(rows), self.source.n_columns), dtype=self.source.dtype)
        self.consent.gather(block.rows, rows, masks, out, threads=self._threads)
        return Block(out, None if block.start is None else block.start.of(rows))

    def _by_engine(self, block: Block) -> Array:
        """Return the engine's predictions for rows as they are."""
        with engine_threads(threads_for(self._num_threads, block.rows.size)):
            if self._output is not None:
                values = self._output_of(block)
            elif block.start is None:
                values = boosters_of(self.model).predict(self.model, block.rows, raw_score=self._raw_score)
            else:
                values = self.model.add_trees(block.start, block.rows, raw_score=self._raw_score)
        target = self.target_class
        if target is None:
            return values
        if values.ndim != 2 or not 0 <= target < values.shape[1]:
            known = f"its classes are 0 … {values.shape[1] - 1}" if values.ndim == 2 else "it has one value per person"
            raise ValueError(f"target_class is {target}, but {known}.")
        return np.asarray(values[:, target])

    def _output_of(self, block: Block) -> Array:
        assert self._output is not None
        if block.start is not None:
            return np.asarray(self.model.output(block.start, block.rows, self._output))
        return boosters_of(self.model).output(self.model, block.rows, self._output)

    def reads_trees(self, people: int, n_masks: int) -> bool:
        """Return whether trees are scored without the engine, after counting these further predictions."""
        if self._output is not None:
            return False
        self._n_predictions += people * n_masks
        worth = PREDICTIONS_WORTH_READING * self._threads
        if not self._trees_were_read and self._n_predictions >= worth:
            leaves = self._leaves_of_first_tree
            if self._n_predictions >= worth * max(1.0, leaves / LEAVES_READ_FAST) and beat_engine(leaves, n_masks):
                self._scores, self._trees_were_read = self._read_trees(), True
        return self._scores is not None and beat_engine(self._scores.leaves, n_masks)

    def _scores_for(self, block: Block, people: int, n_masks: int) -> SubsetScores | None:
        """Return the scores to predict a block with; None if the engine shall predict, perhaps to refuse a value."""
        reads_trees = self.reads_trees(people, n_masks)
        return None if self._scores is None or not reads_trees or self._scores.refuses(block.rows) else self._scores

    @cached_property
    def _leaves_of_first_tree(self) -> int:
        trees = trees_of(self.model)
        first = boosters_of(trees).trees(trees, first_only=True)
        return 1 if first is None else int(first.leaf_order.count[0])

    def _read_trees(self) -> SubsetScores | None:
        """Return the scores of the trees, if the engine predicts the same bits for some people."""
        scores = subset_scores(
            self.model,
            self.consent,
            raw_score=self._raw_score,
            target_class=self.target_class,
            threads=self._threads,
        )
        if scores is None:
            return None
        everything = (1 << self.consent.n_groups) - 1
        halves = (everything & int(digit * 16, 16) for digit in "5a3c")
        masks = np.unique(self.consent.nesting.largest(np.array([0, everything, *halves], dtype=np.uint64)))
        block = self.block(np.linspace(0, self.n_rows - 1, COMPARED_ROWS).astype(np.int64))
        rows = np.repeat(np.arange(COMPARED_ROWS), len(masks))
        wanted = self._by_engine(self.masked(block, rows, np.tile(masks, COMPARED_ROWS)))
        found = scores.subsets(block, masks).reshape(wanted.shape)
        same = found.dtype == wanted.dtype and np.array_equal(found, wanted, equal_nan=True)
        return scores if same else None


def predict_tables(call: Callable[[Any], Any], table: Any, rows: Array, consent: Consent, mask: int) -> Array:
    """Return the predictions of a function of tables for some people, with every group outside ``mask`` erased.

    The function gets batches in the table's own container. They are copies, which it may change.
    """
    hidden = consent.columns_outside(mask)
    step = max(1, TABLE_VALUES // max(1, len(consent.feature_names)))
    parts = []
    for lo in range(0, len(rows), step):
        part = rows_of(table, rows[lo : lo + step])
        parts.append(np.asarray(call(erase_columns(part, hidden) if hidden else part)))
    return np.concatenate(parts)


# ----- from the user's model and table to those that the trees are about


def unwrap(model: Any, X: Any) -> tuple[Any, Any, Array | None]:
    """Return a model of trees, the table that reaches it, and the labels of its classes, if it has any.

    Trees are found within pucboost's own estimators, and within pipelines and searches that end in one. A pipeline is
    only unwrapped if silence survives its steps, see :func:`consent_within`.
    """
    if is_booster(model):
        return model, X, None
    best = None if is_tree_model(model) else getattr(model, "best_estimator_", None)
    if best is not None:
        return unwrap(best, X)
    pipeline = pipeline_parts(model)
    if pipeline is not None:
        steps, last = pipeline
        table = eager(X)
        consent_within(model, table, row_source(table))
        return unwrap(last, transformed(steps, table))
    if isinstance(getattr(model, "consent_", None), Consent) and is_tree_model(getattr(model, "booster_", None)):
        return model.booster_, X, getattr(model, "classes_", None)
    return model, X, None


def class_number(label: Any, classes: Array | None) -> int | None:
    """Return the number of a class: its place among the labels, or the number itself without labels."""
    if label is None or classes is None:
        return None if label is None else int(label)
    labels = classes.tolist()
    if label not in labels:
        raise ValueError(f"target_class is {label!r}, but the classes of the model are {labels}.")
    if len(labels) > 2:
        return int(labels.index(label))
    if label == labels[0]:
        raise ValueError(
            f"target_class is {label!r}, but with two classes predictions are the probability of {labels[1]!r}. "
            "Leave target_class out, and where something is to be favourable, say so of that probability."
        )
    return None


def in_order_of(consent: Consent, X: Any) -> Any:
    """Return a table with the columns of training in their order, if it has names.

    Further columns are left out. A group of which the table has no column counts as withheld by everybody, with a
    warning. Any other missing column is an error.
    """
    X = eager(X)
    if not is_frame(X) or are_default_names(consent.feature_names):
        return X
    given, names = column_names(X), consent.feature_names
    if given == list(names) or len(set(given)) < len(given):
        return X
    _check_columns(consent, given, "The table")
    return named_columns(X, names)


def read_stored(consent: Consent, X: Any, categories: Categories | None) -> RowSource:
    """Return the columns of training from a table that is not in memory, by the rules of :func:`in_order_of`.

    It is read once, in pieces, into a matrix that may be a temporary file.
    """
    from .._tables.table_files import load_as_trained, stored_table

    file = stored_table(X)
    names = consent.feature_names
    if are_default_names(names):
        names = tuple(file.columns)
    else:
        _check_columns(consent, file.columns, str(file.path))
    return load_as_trained(file, names, categories, {}).source


def _check_columns(consent: Consent, given: list[str], table: str) -> None:
    name = consent.missing_column(given)
    if name is not None:
        raise ValueError(f"{table} has no column {name!r}, which the model was trained on{similar(name, given)}")
    for group, members in consent.absent_groups(given).items():
        warn(f"{table} has no column of group {group!r} ({', '.join(members)}); it counts as withheld by everybody.")
