"""What each person would get: predictions for any subset of what they share.

Masked rows are built in batches and handed to the booster; 2^r copies of the table never exist.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._engines.params import is_booster
from .._kernels.rows import gather_masked_columns, gather_masked_rows
from .._kernels.threads import run_in_ranges, thread_count
from .._models.anchoring import AnchoredModel, erase_columns
from .._models.files import consent_of
from .._models.schema import categories_of
from .._tables.containers import row_source, rows_of
from .._tables.sources import RowSource
from .._virtual.plan import shared_counts
from .._virtual.rows import BATCH_BYTES

if TYPE_CHECKING:
    import pandas as pd


MAX_GROUPS_OF_ALL_SUBSETS = 6
MAX_GROUPS_OF_SHAPLEY = 12
DEFAULT_MAX_SUBSETS = 4_096
TABLE_VALUES = 8_000_000
"""How many values a model that is given tables gets at a time."""
FAMILIES = ("nothing", "alone", "all_but_one", "all")


class Reader:
    """A booster and a table, ready to predict any (row, mask).

    Parameters
    ----------
    booster, X, raw_score, num_threads
        As in :func:`predict`.
    consent
        What is optional, for a booster that does not know.
    """

    def __init__(
        self, booster: Any, X: Any, raw_score: bool, num_threads: int | None, consent: Consent | None = None
    ) -> None:
        consent = consent_of(booster) if consent is None else consent
        if consent is None:
            raise ValueError(
                "The model has no consent schema, so it is not known what is optional. Train it with pucboost.train, "
                "or load it with pucboost.load_model."
            )
        self.consent: Consent = consent
        self.booster, self.raw_score = booster, raw_score
        self.source: RowSource = row_source(X, categories_of(booster))
        consent.check_table(self.source)
        self.threads = thread_count(num_threads)
        self._predict = _predictor(booster, raw_score)

    @cached_property
    def shared(self) -> Array:
        """Mask of what each person shares."""
        return self.consent.presence(self.source, num_threads=self.threads)

    @property
    def n_rows(self) -> int:
        """Number of people."""
        return self.source.n_rows

    def batches(self, per_person: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of people whose masked rows fit into a batch, ``per_person`` rows each."""
        step = self.people_per_batch(per_person)
        for lo in range(0, self.n_rows, step):
            yield lo, min(lo + step, self.n_rows)

    def people_per_batch(self, per_person: int) -> int:
        """Return how many people with ``per_person`` masked rows each fit into a batch."""
        row_bytes = self.source.n_columns * self.source.dtype.itemsize
        return max(1, 4 * BATCH_BYTES // (row_bytes * max(1, per_person)))

    def predict(self, block: Array, rows: Array, masks: Array) -> Array:
        """Predict the rows of a block, masked."""
        out = np.empty((len(rows), self.source.n_columns), dtype=self.source.dtype)
        kernel = gather_masked_rows if block.flags.c_contiguous else gather_masked_columns
        bits, missing = self.consent.column_bits, out.dtype.type(math.nan)
        run_in_ranges(lambda lo, hi: kernel(block, rows, masks, bits, missing, lo, hi, out), len(out), self.threads)
        return self._predict(out)

    def predict_masked(self, masks: Array) -> Array:
        """Predict everybody with the mask given for each."""
        parts = []
        for lo, hi in self.batches(1):
            block = self.source.window(lo, hi)
            parts.append(self.predict(block, np.arange(hi - lo), masks[lo:hi]))
        return np.concatenate(parts)

    def predict_rows(self, rows: Array, mask: np.uint64) -> Array:
        """Predict some people, all with the same mask."""
        step = self.people_per_batch(1)
        parts = []
        for lo in range(0, len(rows), step):
            block = self.source.take(rows[lo : lo + step])
            parts.append(self.predict(block, np.arange(len(block)), np.full(len(block), mask)))
        return np.concatenate(parts)


def _predictor(booster: Any, raw_score: bool) -> Callable[[Array], Array]:
    """Return a function from a matrix to predictions."""
    if isinstance(booster, AnchoredModel):
        return lambda batch: booster.predict(batch, raw_score=raw_score)
    if is_booster(booster, "lightgbm"):
        return lambda batch: np.asarray(booster.predict(batch, raw_score=raw_score))
    if is_booster(booster, "xgboost"):
        import xgboost as xgb

        def predict(batch: Array) -> Array:
            matrix = xgb.DMatrix(batch, feature_names=booster.feature_names, feature_types=booster.feature_types)
            return np.asarray(booster.predict(matrix, output_margin=raw_score, iteration_range=_best_rounds(booster)))

        return predict
    raise TypeError(f"Cannot predict with a {type(booster).__name__}; pass a booster returned by pucboost.train.")


def _best_rounds(booster: Any) -> tuple[int, int]:
    """Return the rounds up to the best one, as LightGBM does by itself; (0, 0) means all."""
    best = booster.attr("best_iteration")
    return (0, 0) if best is None else (0, int(best) + 1)


def predict_tables(call: Callable[[Any], Any], table: Any, rows: Array, consent: Consent, mask: int) -> Array:
    """Ask a function of tables about some people with every group outside ``mask`` erased, batch by batch.

    It gets copies in the table's own container, and may do with them what it likes.
    """
    hidden = consent.columns_outside(mask)
    step = max(1, TABLE_VALUES // max(1, len(consent.feature_names)))
    parts = []
    for lo in range(0, len(rows), step):
        part = rows_of(table, rows[lo : lo + step])
        parts.append(np.asarray(call(erase_columns(part, hidden) if hidden else part)))
    return np.concatenate(parts)


def subset_masks(consent: Consent, subsets: Any = None) -> list[int]:
    """Return the masks of the subsets asked for, without repetition.

    Parameters
    ----------
    consent
        The schema.
    subsets
        None for all 2^r (up to 6 groups), or a list of families ``"nothing"``, ``"alone"`` (each group alone),
        ``"all_but_one"``, ``"all"`` and of lists of group names.
    """
    r = consent.n_groups
    everything = (1 << r) - 1
    if subsets is None:
        if r > MAX_GROUPS_OF_ALL_SUBSETS:
            raise ValueError(
                f"There are 2^{r} subsets of {r} groups. Choose some: subsets=['nothing', 'alone', 'all_but_one', "
                "'all'], or lists of group names."
            )
        return list(range(everything + 1))
    families = {
        "nothing": [0],
        "alone": [1 << g for g in range(r)],
        "all_but_one": [everything ^ (1 << g) for g in range(r)],
        "all": [everything],
    }
    masks: list[int] = []
    for wanted in [subsets] if isinstance(subsets, str) else subsets:
        if isinstance(wanted, str):
            if wanted not in families:
                raise ValueError(
                    f"subsets must be of {', '.join(map(repr, FAMILIES))} or lists of groups; got {wanted!r}."
                )
            masks += families[wanted]
        else:
            masks.append(_mask_of(wanted, consent))
    return list(dict.fromkeys(masks))


def _mask_of(groups: Iterable[str], consent: Consent) -> int:
    mask = 0
    for group in groups:
        if group not in consent.groups:
            raise ValueError(
                f"Group {group!r} is not in the consent schema; its groups are {list(consent.group_names)}."
            )
        mask |= 1 << consent.group_names.index(group)
    return mask


def subset_name(mask: int, consent: Consent) -> str:
    """Return how a subset is called in tables: its groups, joined by `` + ``, or ``nothing``."""
    return " + ".join(consent.groups_of(mask)) or "nothing"


def quote(
    booster: Any, X: Any, *, subsets: Any = None, raw_score: bool = False, num_threads: int | None = None
) -> pd.DataFrame:
    """Return what each person would be told for every subset of the groups they share.

    Parameters
    ----------
    booster
        As returned by :func:`pucboost.train`.
    X
        A table with the columns of training.
    subsets
        None for all subsets (up to 6 groups); for more, a list of ``"nothing"``, ``"alone"``, ``"all_but_one"``,
        ``"all"`` and of lists of group names.
    raw_score
        Return raw scores instead of predictions.
    num_threads
        Threads for the kernels; None means all cores.

    Returns
    -------
    pandas.DataFrame
        One column per subset (with several classes: per subset and class), NaN where the person does not share all of
        its groups.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 3)); y = X.sum(axis=1); X[::2, 2] = np.nan
    >>> booster = puc.train({"optional": [1, 2], "verbosity": -1}, puc.Dataset(X, y), 5)
    >>> puc.quote(booster, X[:2]).notna().to_numpy().tolist()
    [[True, True, False, False], [True, True, True, True]]
    """
    import pandas as pd

    reader = Reader(booster, X, raw_score, num_threads)
    masks = np.array(subset_masks(reader.consent, subsets), dtype=np.uint64)
    names = [subset_name(int(mask), reader.consent) for mask in masks]
    table = _quotes(reader, masks)
    index = X.index if hasattr(X, "index") and hasattr(X, "columns") else None
    if table.ndim == 2:
        return pd.DataFrame(table, columns=names, index=index)
    columns = pd.MultiIndex.from_product([names, range(table.shape[2])], names=["shared", "class"])
    return pd.DataFrame(table.reshape(len(table), -1), columns=columns, index=index)


def _quotes(reader: Reader, masks: Array) -> Array:
    """Return predictions, people × subsets (× classes), NaN where a person does not share the subset."""
    # How many values a prediction has is known once somebody has one, even if nobody shares what is asked for.
    one = reader.predict_rows(np.zeros(1, dtype=np.int64), np.uint64(0))
    out = np.full((reader.n_rows, len(masks), *one.shape[1:]), np.nan)
    for lo, hi in reader.batches(len(masks)):
        shared = reader.shared[lo:hi]
        rows, which = np.nonzero((shared[:, None] & masks) == masks)
        if len(rows):
            out[lo + rows, which] = reader.predict(reader.source.window(lo, hi), rows, masks[which])
    return out


def predict(
    booster: Any,
    X: Any,
    *,
    sharing: str = "as_given",
    favourable: str = "lower",
    raw_score: bool = False,
    return_subset: bool = False,
    max_subsets: int = DEFAULT_MAX_SUBSETS,
    search: str = "exact",
    num_threads: int | None = None,
) -> Any:
    """Return predictions under a rule of what is used of the data a person shares.

    Parameters
    ----------
    booster
        As returned by :func:`pucboost.train`.
    X
        A table with the columns of training.
    sharing
        ``"as_given"``: all that is shared. ``"withheld"``: everything optional erased. ``"best"``: the bonus system,
        the most favourable prediction over all subsets of what is shared, min_{s ⊆ a} f(b, s, z_s) for a premium;
        sharing more then never hurts.
    favourable
        ``"lower"`` (premiums) or ``"higher"`` (approval).
    raw_score
        Return raw scores instead of predictions.
    return_subset
        Return also which groups were used: a boolean DataFrame, one column per group.
    max_subsets
        ``"best"`` is exact for people with at most this many subsets, and refuses beyond.
    search
        ``"greedy"`` lets people with more subsets be searched: starting from everything and from nothing, the one group
        whose change helps most is changed until none helps. The result is never worse than either start.
    num_threads
        Threads for the kernels; None means all cores.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = X.sum(axis=1)
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, y), 20)
    >>> best = puc.predict(booster, X, sharing="best")
    >>> bool((best <= puc.predict(booster, X)).all() and (best <= puc.predict(booster, X, sharing="withheld")).all())
    True
    """
    if sharing not in ("as_given", "withheld", "best"):
        raise ValueError(f"sharing must be 'as_given', 'withheld' or 'best'; got {sharing!r}.")
    check_favourable(favourable)
    if search not in ("exact", "greedy"):
        raise ValueError(f"search must be 'exact' or 'greedy', got {search!r}.")
    reader = Reader(booster, X, raw_score, num_threads)
    if sharing == "best":
        prediction, used = _best(reader, 1.0 if favourable == "lower" else -1.0, max_subsets, search)
    else:
        used = reader.shared if sharing == "as_given" else np.zeros_like(reader.shared)
        prediction = reader.predict_masked(used)
    return (prediction, _groups_used(used, reader.consent)) if return_subset else prediction


def check_favourable(favourable: Any) -> None:
    """Raise unless it is said which predictions people prefer."""
    if favourable not in ("lower", "higher"):
        raise ValueError(f"favourable must be 'lower' or 'higher', got {favourable!r}.")


def _groups_used(masks: Array, consent: Consent) -> pd.DataFrame:
    import pandas as pd

    bits = (masks[:, None] >> np.arange(consent.n_groups, dtype=np.uint64)) & np.uint64(1)
    return pd.DataFrame(bits.astype(bool), columns=list(consent.group_names))


def _submasks(mask: int) -> Array:
    """Return all sub-masks, in ascending order."""
    subs, sub = [0], 0
    while sub != mask:
        sub = (sub - mask) & mask
        subs.append(sub)
    return np.array(subs, dtype=np.uint64)


def _people_by_mask(shared: Array) -> Iterator[tuple[int, Array]]:
    """Yield every mask that occurs, with the people who have it."""
    masks, owner = np.unique(shared, return_inverse=True)
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(len(masks) + 1))
    for number, mask in enumerate(masks.tolist()):
        yield mask, order[bounds[number] : bounds[number + 1]]


def _values_of_all_submasks(reader: Reader, people: Array, submasks: Array) -> Iterator[tuple[Array, Array]]:
    """Yield people, and their predictions for each sub-mask (people × sub-masks), batch by batch."""
    step = reader.people_per_batch(len(submasks))
    for lo in range(0, len(people), step):
        some = people[lo : lo + step]
        rows = np.repeat(np.arange(len(some)), len(submasks))
        values = reader.predict(reader.source.take(some), rows, np.tile(submasks, len(some)))
        if values.ndim != 1:
            raise ValueError("With several classes there is no single most favourable or attributable prediction.")
        yield some, values.reshape(len(some), len(submasks))


def _best(reader: Reader, sign: float, max_subsets: int, search: str) -> tuple[Array, Array]:
    """Return the most favourable prediction of each person (least sign·f), and the mask that gives it."""
    counts = shared_counts(reader.shared)
    if search == "exact" and len(counts) and 2.0 ** int(counts.max()) > max_subsets:
        row = int(counts.argmax())
        raise ValueError(
            f"Row {row} shares {counts[row]} groups, 2^{counts[row]} subsets, more than max_subsets = {max_subsets}. "
            "Raise max_subsets, or allow search='greedy'."
        )
    prediction, used = np.empty(reader.n_rows), np.zeros(reader.n_rows, dtype=np.uint64)
    for mask, people in _people_by_mask(reader.shared):
        if 2.0 ** mask.bit_count() > max_subsets:
            prediction[people], used[people] = _greedy(reader, people, mask, sign)
            continue
        submasks = _submasks(mask)
        for some, values in _values_of_all_submasks(reader, people, submasks):
            # Among equals the largest subset: what was shared is used unless that hurts.
            best = len(submasks) - 1 - np.argmin(sign * values[:, ::-1], axis=1)
            prediction[some], used[some] = values[np.arange(len(some)), best], submasks[best]
    return prediction, used


def _greedy(reader: Reader, people: Array, mask: int, sign: float) -> tuple[Array, Array]:
    """Change one group at a time while that helps, from everything and from nothing; return the better end."""
    block = reader.source.take(people)
    rows = np.arange(len(people))
    groups = [np.uint64(1 << g) for g in range(64) if mask >> g & 1]
    ends = []
    for start in (mask, 0):
        used = np.full(len(people), start, dtype=np.uint64)
        value = reader.predict(block, rows, used)
        while True:
            tried = [reader.predict(block, rows, used ^ group) for group in groups]
            best = np.argmin([sign * t for t in tried], axis=0)
            candidate = np.choose(best, tried) if len(groups) < 32 else np.stack(tried)[best, rows]
            helps = sign * candidate < sign * value
            if not helps.any():
                break
            value = np.where(helps, candidate, value)
            used = np.where(helps, used ^ np.array(groups)[best], used)
        ends.append((value, used))
    (from_all, masks_all), (from_none, masks_none) = ends
    better = sign * from_none < sign * from_all
    return np.where(better, from_none, from_all), np.where(better, masks_none, masks_all)


def sharing_value(booster: Any, X: Any, *, raw_score: bool = False, num_threads: int | None = None) -> pd.DataFrame:
    """Return how much each shared group moves each prediction: the Shapley value over the person's own groups.

    φ_g = Σ_{s ⊆ a∖g} |s|!·(k−|s|−1)!/k! · [f(b, s ∪ g) − f(b, s)], k = |a|. The values of a person add up to the
    difference between the prediction as given and the one with everything withheld.

    Parameters
    ----------
    booster
        As returned by :func:`pucboost.train`; at most 12 groups.
    X
        A table with the columns of training.
    raw_score
        Attribute raw scores instead of predictions.
    num_threads
        Threads for the kernels; None means all cores.

    Returns
    -------
    pandas.DataFrame
        ``withheld`` (the prediction with everything withheld), one column per group (0 where it is not shared), and
        ``as_given``, their sum.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 3)); y = X.sum(axis=1)
    >>> booster = puc.train({"optional": [1, 2], "verbosity": -1}, puc.Dataset(X, y), 20)
    >>> values = puc.sharing_value(booster, X)
    >>> bool(np.allclose(values["withheld"] + values["Column_1"] + values["Column_2"], booster.predict(X)))
    True
    """
    import pandas as pd

    reader = Reader(booster, X, raw_score, num_threads)
    r = reader.consent.n_groups
    if r > MAX_GROUPS_OF_SHAPLEY:
        raise ValueError(f"Shapley values need all 2^r subsets; {r} groups are more than {MAX_GROUPS_OF_SHAPLEY}.")
    out = np.zeros((reader.n_rows, r + 2))
    for mask, people in _people_by_mask(reader.shared):
        submasks = _submasks(mask)
        groups = [g for g in range(r) if mask >> g & 1]
        weights = shapley_weights(len(groups))
        for some, values in _values_of_all_submasks(reader, people, submasks):
            out[some, 0], out[some, r + 1] = values[:, 0], values[:, -1]
            out[some[:, None], np.array(groups, dtype=np.int64) + 1] = values @ weights
    return pd.DataFrame(out, columns=["withheld", *reader.consent.group_names, "as_given"])


def shapley_weights(k: int) -> Array:
    """Return the matrix that turns the values of all 2^k subsets (ascending masks) into k Shapley values."""
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
class Monotonicity:
    """Whether sharing can hurt: who would have been told something more favourable, had they shared less."""

    people: int
    share_worse_than_withheld: float
    """Share of people for whom all they share gives a less favourable prediction than sharing nothing."""
    largest_loss_against_withheld: float
    share_worse_than_best: float
    """Share of people for whom some subset of what they share would have been more favourable."""
    largest_loss_against_best: float
    share_worse_with_bonus: float
    """The same for the bonus system; 0 by construction, measured all the same."""


def monotonicity(
    booster: Any,
    X: Any,
    *,
    favourable: str = "lower",
    max_subsets: int = DEFAULT_MAX_SUBSETS,
    num_threads: int | None = None,
) -> Monotonicity:
    """Measure how often, and by how much, sharing made the prediction less favourable, with and without bonus.

    Parameters
    ----------
    booster, X
        As in :func:`predict`.
    favourable, max_subsets, num_threads
        As in :func:`predict`.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = X.sum(axis=1)
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, y), 20)
    >>> found = puc.monotonicity(booster, X, favourable="lower")
    >>> found.people, 0.3 < found.share_worse_than_withheld < 0.7, found.share_worse_with_bonus
    (200, True, 0.0)
    """
    check_favourable(favourable)
    reader = Reader(booster, X, False, num_threads)
    sign = 1.0 if favourable == "lower" else -1.0
    given = sign * reader.predict_masked(reader.shared)
    withheld = sign * reader.predict_masked(np.zeros_like(reader.shared))
    best = sign * _best(reader, sign, max_subsets, "exact")[0]
    return Monotonicity(
        people=reader.n_rows,
        share_worse_than_withheld=float((given > withheld).mean()),
        largest_loss_against_withheld=float(np.maximum(given - withheld, 0).max()),
        share_worse_than_best=float((given > best).mean()),
        largest_loss_against_best=float(np.maximum(given - best, 0).max()),
        share_worse_with_bonus=float(((best > withheld) | (best > given)).mean()),
    )
