"""What strategic users do: they see the quotes for all subsets of their data and share what helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .checks import require
from .families import BoolArray
from .odds import FloatArray
from .withholding import is_pandas, read_column, with_columns

if TYPE_CHECKING:
    from .._arrays import Array
    from .._consent import Consent
    from .._prediction.best_subset import Favourable

MAX_SUBSETS = 2**12
"""Every person is quoted all 2^r subsets."""


@dataclass(frozen=True, eq=False)
class Response:
    """What people do once they have seen all their quotes."""

    prediction: FloatArray
    """The quote they choose."""
    shared: BoolArray
    """Which groups they share for it, people × groups."""
    withheld: FloatArray
    """What they would be told if they shared nothing."""

    @property
    def silent(self) -> BoolArray:
        """Who shares nothing."""
        return np.asarray(~self.shared.any(axis=1))


def best_response(model: Any, X: Any, optional: Any = None, *, favourable: Favourable = "lower") -> Response:
    """Return what strategic users share, and what they are told then: min_s f(b, s, z_s) over all subsets s.

    If sharing more changes nothing, they share: with one group, A = 1 ⇔ f(b, 1, z) ≤ f(b, 0), as in the paper. For a
    model with a consent schema this is ``pucboost.predict(..., sharing="best", return_subset=True)``, the bonus system;
    this function also takes models that know nothing about consent.

    Parameters
    ----------
    model
        As returned by :func:`pucboost.train`, or anything with ``predict(X)``, or a function of X; one number per row.
    X : float ndarray or pandas DataFrame
        The values people have, shared or not; every person has a value in every group. Not changed.
    optional
        As in :func:`pucboost.train`; None means the model's own schema. At most 12 groups, or 4,096 subsets that can
        be shared where groups need others.
    favourable : "lower" or "higher"

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [0.0, -1.0]])
    >>> response = best_response(lambda X: np.nan_to_num(X[:, 1]), X, [1])
    >>> response.prediction.tolist(), response.shared.tolist()
    ([0.0, -1.0], [[False], [True]])
    """
    from .._prediction.best_subset import best_subsets
    from .._prediction.predictor import TABLE_VALUES
    from .._tables.containers import rows_of

    consent = consent_for(optional, model, X)
    factor = sign(favourable)
    check_complete(X, consent)
    quote, groups = quotes_of(model, consent), np.arange(consent.n_groups, dtype=np.uint64)

    withheld = np.empty(len(X))

    def all_subsets(people: Array, submasks: Array) -> Iterator[tuple[Array, Array]]:
        step = max(1, TABLE_VALUES // len(submasks))
        for lo in range(0, len(people), step):
            some = people[lo : lo + step]
            table, shape = rows_of(X, some), (len(some), len(groups))
            flags = ((submasks[:, None] >> groups) & np.uint64(1)).astype(np.bool_)
            quotes = np.column_stack([quote(table, np.broadcast_to(shared, shape)) for shared in flags])
            withheld[some] = quotes[:, 0]
            yield some, quotes

    everything = np.full(len(X), 2**consent.n_groups - 1, dtype=np.uint64)
    best, used = best_subsets(everything, all_subsets, factor, nesting=consent.nesting)
    return Response(best, ((used[:, None] >> groups) & np.uint64(1)).astype(np.bool_), withheld)


def consent_for(optional: Any, model: Any, X: Any) -> Consent:
    """Return what may be withheld: as declared, or as the model knows it."""
    from .._consent import Consent
    from .._models.files import consent_of
    from .._tables.containers import row_source

    require(is_pandas(X) or (isinstance(X, np.ndarray) and X.ndim == 2), "X must be a DataFrame or a 2-d ndarray")
    if optional is None:
        optional = consent_of(model)
        require(optional is not None, "the model has no consent schema: say with optional what may be withheld")
    if isinstance(optional, Consent):
        consent = optional
        consent.check_table(row_source(X))
    else:
        consent = Consent.of(optional, row_source(X))
    require(consent.n_groups >= 1, "optional must name at least one column")
    quotes = consent.nesting.count(2**consent.n_groups - 1)
    how_many = f"all 2^r quotes; {consent.n_groups} groups are more than 12"
    if not consent.nesting.is_free:
        how_many = f"all quotes; {quotes:,} are more than {MAX_SUBSETS:,}"
    require(quotes <= MAX_SUBSETS, f"strategic users see {how_many}")
    return consent


def check_complete(X: Any, consent: Consent) -> None:
    """Raise unless everybody has a value in every group: nobody can withhold what they do not have."""
    from .._tables.containers import row_source

    lacking = consent.presence(row_source(X), num_threads=1) ^ np.uint64(2**consent.n_groups - 1)
    if lacking.any():
        row = int(np.flatnonzero(lacking)[0])
        group = consent.group_names[(int(lacking[row]) & -int(lacking[row])).bit_length() - 1]
        raise ValueError(f"everybody must have a value in every group, but row {row} has none in {group!r}")


def withhold(X: Any, shared: BoolArray, consent: Consent) -> Any:
    """Return the table without the groups that a person does not share."""
    columns = {}
    for group, positions in enumerate(consent.groups.values()):
        for position in positions:
            name = X.columns[position] if is_pandas(X) else position
            columns[name] = np.where(shared[:, group], read_column(X, name)[0], np.nan)
    return with_columns(X, columns)


def quotes_of(model: Any, consent: Consent) -> Callable[[Any, BoolArray], FloatArray]:
    """Return the function that maps a table, and who shares what, to what people are told."""
    from .._engines import is_booster
    from .._models.files import consent_of
    from .._prediction.quotes import predict

    told_by: Callable[[Any], Any]
    if is_booster(model) and consent_of(model) is not None:
        told_by = partial(predict, model)  # the boosters of some engines do not take tables
    elif hasattr(model, "predict"):
        told_by = model.predict
    elif callable(model):
        told_by = model
    else:
        raise TypeError(f"a model must have predict(X) or be a function of X, got {type(model).__name__}")

    def quote(X: Any, shared: BoolArray) -> FloatArray:
        told = told_by(withhold(X, shared, consent))
        told = np.asarray(told, dtype=np.float64)
        require(told.shape == (len(X),), f"the model must predict one number per row: ({len(X)},), got {told.shape}")
        require(not np.isnan(told).any(), "the model's predictions must not be NaN")
        return told

    return quote


def sign(favourable: Any) -> float:
    """Return 1 if lower predictions are favourable, −1 if higher ones are."""
    require(favourable in ("lower", "higher"), f"favourable must be 'lower' or 'higher', got {favourable!r}")
    return 1.0 if favourable == "lower" else -1.0
