"""Which columns people may withhold, and who shares what."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from ._arrays import Array
from ._declarations import Levels, Needs, all_columns, checked_groups, checked_names, checked_needs, resolved
from ._kernels.masks import pack_shared
from ._kernels.threads import run_in_ranges, thread_count
from ._nesting import Nesting
from ._pickles import pickled
from ._tables.containers import row_source
from ._tables.masked_arrays import check_no_mask
from ._tables.sources import RowSource, are_default_names
from ._warnings import warn


@dataclass(frozen=True)
class Consent:
    """The consent schema: which columns are optional and in which groups they are shared or withheld together.

    However it is made, it is checked: kernels read columns at the positions it gives, without looking again.

    Parameters
    ----------
    groups
        Group name → positions of its columns. At most 64 groups; a column belongs to one of them at most.
    feature_names
        Names of all columns of the table, in order.
    needs
        Group name → the group without which it is not shared (:class:`Levels`, :class:`Needs`); no circles.

    Examples
    --------
    >>> consent = Consent.declare({"app": ["steps", "pulse"], "blood": ["glucose"]},
    ...                           ["age", "steps", "pulse", "glucose"])
    >>> consent.group_names
    ('app', 'blood')
    >>> import numpy as np
    >>> consent.availability(np.array([[50, 9000, np.nan, np.nan], [30, np.nan, np.nan, 5.1]])).tolist()
    [1, 2]
    """

    groups: Mapping[str, tuple[int, ...]]
    feature_names: tuple[str, ...]
    needs: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = checked_names(self.feature_names)
        groups = checked_groups(self.groups, names)
        needs = checked_needs(self.needs, tuple(groups))
        object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "groups", MappingProxyType(groups))  # nobody changes what was checked
        object.__setattr__(self, "needs", MappingProxyType(needs))

    @classmethod
    def declare(cls, optional: Any, feature_names: Sequence[str]) -> Consent:
        """Resolve a declaration against the columns of a table.

        Parameters
        ----------
        optional
            A list of columns, each a group of its own, or a dict group → columns, :class:`Levels` or :class:`Needs`.
            Columns are names or integer positions. A :class:`Consent` is checked against the names and returned.
        feature_names
            Names of all columns, in order.
        """
        names = tuple(str(name) for name in feature_names)
        if isinstance(optional, Consent):
            optional.check_columns(names)
            return optional
        groups, needs = resolved(optional, names)
        return cls(groups, names, needs)

    @classmethod
    def of(cls, optional: Any, source: RowSource, feature_names: Sequence[str] | None = None) -> Consent:
        """Resolve a declaration against a table; the result has no groups if nothing is optional.

        Parameters
        ----------
        optional
            As in :meth:`declare`; None or empty for nothing.
        source
            The table.
        feature_names
            Names of its columns, if they are not its own.
        """
        names = tuple(source.names if feature_names is None else feature_names)
        if not declares_something(optional):
            return cls({}, names)
        _check_positions(optional, source)
        return cls.declare(optional, names)

    def warn_without_base(self) -> None:
        """Warn if every column is optional."""
        if self.groups and len(self.group_columns) == len(self.feature_names):
            warn(
                "Every column is optional, so people who share nothing get the overall average prediction. "
                "That is well defined, but usually some columns are known about everybody.",
            )

    def check_columns(self, feature_names: Sequence[str]) -> None:
        """Raise if a table's columns are not the ones this schema was declared for."""
        names = tuple(str(name) for name in feature_names)
        self.check_width(len(names))
        for position, (here, declared) in enumerate(zip(names, self.feature_names, strict=True)):
            if here != declared:
                raise ValueError(
                    f"Column {position} is {here!r}, but the consent schema expects {declared!r} there. "
                    "Select the columns in the order used for training."
                )

    def check_width(self, n_columns: int) -> None:
        """Raise if a table has not as many columns as the schema: kernels read them by position."""
        if n_columns != len(self.feature_names):
            raise ValueError(
                f"The table has {n_columns} columns, but the consent schema was declared for {len(self.feature_names)}."
            )

    def check_table(self, source: RowSource) -> None:
        """Raise if a table's columns are not those of the schema: by name if both have names, else by number."""
        if source.feature_names is not None and not are_default_names(self.feature_names):
            self.check_columns(source.feature_names)
        else:
            self.check_width(source.n_columns)

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups; bit g of a mask is group number g."""
        return tuple(self.groups)

    @property
    def n_groups(self) -> int:
        """r, the number of groups."""
        return len(self.groups)

    @cached_property
    def group_start(self) -> Array:
        """Group g has the columns ``group_columns[group_start[g]:group_start[g + 1]]``."""
        return np.cumsum([0, *(len(columns) for columns in self.groups.values())]).astype(np.int64)

    @cached_property
    def group_columns(self) -> Array:
        """Positions of all optional columns, group after group."""
        return np.array([c for columns in self.groups.values() for c in columns], dtype=np.int64)

    @cached_property
    def column_groups(self) -> Array:
        """Group number of each column in ``group_columns``."""
        return np.repeat(np.arange(self.n_groups), np.diff(self.group_start))

    @cached_property
    def column_bits(self) -> Array:
        """For each column of the table, the bit of its group (uint64); 0 for a base column."""
        bits = np.zeros(len(self.feature_names), dtype=np.uint64)
        bits[self.group_columns] = np.uint64(1) << self.column_groups.astype(np.uint64)
        return bits

    @cached_property
    def nesting(self) -> Nesting:
        """Which groups need others, by number, and so which masks are admissible."""
        return Nesting.of(self.group_names, self.needs)

    def groups_of(self, mask: int) -> tuple[str, ...]:
        """Return the names of the groups in a mask."""
        return tuple(group for g, group in enumerate(self.group_names) if mask >> g & 1)

    def absent_groups(self, columns: Collection[str]) -> dict[str, list[str]]:
        """Return the groups of which a table with these columns has none, each with the names of its columns."""
        groups = {group: [self.feature_names[j] for j in places] for group, places in self.groups.items()}
        return {group: members for group, members in groups.items() if not set(members) & set(columns)}

    def missing_column(self, columns: Collection[str]) -> str | None:
        """Return the first column that a table must have and lacks; whole groups may be absent."""
        absent = {name for members in self.absent_groups(columns).values() for name in members}
        return next((name for name in self.feature_names if name not in columns and name not in absent), None)

    def columns_outside(self, mask: int) -> list[int]:
        """Return the positions of the optional columns that are erased when only the groups of a mask are shown."""
        bits = self.column_bits
        return np.flatnonzero((bits != 0) & ((bits & np.uint64(mask)) == 0)).tolist()

    def availability(
        self, X: Any, available: Any = None, *, zero_as_missing: bool = False, num_threads: int | None = None
    ) -> Array:
        """Return who shares what, one 64-bit mask per row; bit g is set if group g is shared.

        ``available`` decides which groups are shared. Without it, a group is shared if at least one of its columns
        has a value. A group whose needed group is not shared counts as withheld.

        Parameters
        ----------
        X
            The table, in any container. In a CSR matrix a value that is not stored is a zero, so it is present.
        available
            Boolean matrix, one column per group. It must not mark a group as withheld that has values in the table.
            (Values not stored in a CSR matrix do not count as values here: with ``available`` they can stand for
            withheld data.)
        zero_as_missing
            Read zeros as missing, as the LightGBM parameter of this name does.
        num_threads
            Threads to use; None means all cores.
        """
        source = row_source(X)
        if available is None:
            return self.presence(source, zero_as_missing=zero_as_missing, num_threads=num_threads)
        return self.nesting.largest(self._declared(source, available, zero_as_missing))

    def _declared(self, source: RowSource, available: Any, zero_as_missing: bool) -> Array:
        """Return which groups ``available`` says are shared."""
        shared = self._check_available(available, source)
        self._check_denied_have_no_values(shared, source, zero_as_missing)
        bits = np.uint64(1) << np.arange(self.n_groups, dtype=np.uint64)
        return np.asarray((shared * bits).sum(axis=1, dtype=np.uint64))

    def presence(self, source: RowSource, *, zero_as_missing: bool = False, num_threads: int | None = None) -> Array:
        """Return which groups have at least one value, and so has what they need; one mask per row."""
        return self.nesting.largest(self.with_values(source, zero_as_missing=zero_as_missing, num_threads=num_threads))

    def with_values(self, source: RowSource, *, zero_as_missing: bool = False, num_threads: int | None = None) -> Array:
        """Return which groups have at least one value, whatever they need; one mask per row."""
        self.check_width(source.n_columns)
        masks = np.zeros(source.n_rows, dtype=np.uint64)
        threads = thread_count(num_threads)
        for lo, hi in source.blocks():
            block, out = source.window(lo, hi), masks[lo:hi]
            run_in_ranges(
                lambda a, b, block=block, out=out: pack_shared(  # type: ignore[misc]
                    block, self.group_start, self.group_columns, zero_as_missing, a, b, out
                ),
                hi - lo,
                threads,
            )
        return masks

    def visible(
        self, source: RowSource, available: Any = None, *, zero_as_missing: bool, num_threads: int | None
    ) -> Array:
        """Return the masks that training uses: groups that are shared and have at least one value.

        To a tree, someone who shares a group in which every value is missing looks exactly like someone who
        withholds it. If such a group counted as shared, that row would have two equal copies where everybody else
        has one, which breaks the weight law.
        """
        shown = self._shown(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
        return self.nesting.largest(shown)

    def _shown(self, source: RowSource, available: Any, *, zero_as_missing: bool, num_threads: int | None) -> Array:
        """Return the groups that are shared and have at least one value, whatever they need."""
        present = self.with_values(source, zero_as_missing=zero_as_missing, num_threads=num_threads)
        return present if available is None else present & self._declared(source, available, zero_as_missing)

    def warn_of_lacking(
        self,
        source: RowSource,
        available: Any = None,
        *,
        zero_as_missing: bool = False,
        num_threads: int | None = None,
    ) -> None:
        """Warn if people share a group, but not the one that it needs: it counts as withheld, and may be an error."""
        if self.nesting.is_free:
            return
        lacking = self.lacking(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
        rows = np.flatnonzero(lacking)
        if not len(rows):
            return
        first, needed = int(lacking[rows[0]]), self.nesting.needed
        g = next(h for h in range(self.n_groups) if first >> h & 1 and not first >> needed[h] & 1)
        group = self.group_names[g]
        warn_of_lacking(len(rows), source.n_rows, f" (row {rows[0]} in {group!r}, but not in {self.needs[group]!r})")

    def count_lacking(
        self, source: RowSource, available: Any = None, *, zero_as_missing: bool = False, num_threads: int | None = None
    ) -> int:
        """Return how many people have values in a group, but not in the one that it needs."""
        if self.nesting.is_free:
            return 0
        lacking = self.lacking(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
        return int(np.count_nonzero(lacking))

    def lacking(
        self, source: RowSource, available: Any = None, *, zero_as_missing: bool = False, num_threads: int | None = None
    ) -> Array:
        """Return the groups that have values, but lack a group that they need; one mask per row."""
        if self.nesting.is_free:
            return np.zeros(source.n_rows, dtype=np.uint64)
        shown = self._shown(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
        return np.asarray(shown & ~self.nesting.largest(shown))

    def without_lacking(self, rows: Array) -> Array:
        """Return a matrix without values in groups that lack a group that they need; rows are copied if there are any.

        These values count as withheld, so no prediction may know them.
        """
        if self.nesting.is_free:
            return rows
        lacking = self.lacking(row_source(rows))
        if not lacking.any():
            return rows
        return np.where((self.column_bits & lacking[:, None]) != 0, np.nan, rows).astype(rows.dtype)

    def _check_available(self, available: Any, source: RowSource) -> Array:
        if hasattr(available, "columns") and set(available.columns) == set(self.group_names):
            available = available[list(self.group_names)]  # a DataFrame names the group of each column
        check_no_mask(available, "available")
        shared = np.asarray(available)
        if shared.ndim == 1 and self.n_groups == 1:
            shared = shared[:, None]
        expected = (source.n_rows, self.n_groups)
        if shared.shape != expected:
            raise ValueError(
                f"available must have one row per row of the table and one column per group, shape {expected}; "
                f"got {shared.shape}. The groups are {list(self.group_names)}."
            )
        if shared.dtype != np.bool_ and not np.isin(shared, (0, 1)).all():
            raise ValueError(f"available must be boolean, got dtype {shared.dtype} with values other than 0 and 1.")
        return shared.astype(bool)

    def _check_denied_have_no_values(self, shared: Array, source: RowSource, zero_as_missing: bool) -> None:
        group_of_column = self.column_groups
        for lo, hi in source.blocks():
            present = source.present(np.arange(lo, hi), self.group_columns)
            if zero_as_missing:
                present &= source.window(lo, hi)[:, self.group_columns] != 0
            contradiction = present & ~shared[lo:hi][:, group_of_column]
            if contradiction.any():
                row, which = np.argwhere(contradiction)[0]
                raise ValueError(
                    f"available says that row {lo + row} withholds group "
                    f"{self.group_names[group_of_column[which]]!r}, but column "
                    f"{self.feature_names[self.group_columns[which]]!r} has a value there. Erase the value or "
                    "correct available."
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain data."""
        groups = {group: list(columns) for group, columns in self.groups.items()}
        return {"groups": groups, "feature_names": list(self.feature_names), "needs": dict(self.needs)}

    @classmethod
    def from_dict(cls, schema: Mapping[str, Any]) -> Consent:
        """Inverse of :meth:`to_dict`."""
        return cls(schema["groups"], schema["feature_names"], schema.get("needs", {}))

    def __getstate__(self) -> dict[str, Any]:
        # Plain data, for skops too.
        return {"groups": dict(self.groups), "feature_names": self.feature_names, "needs": dict(self.needs)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __reduce__(self) -> Any:
        return pickled("Consent", self.__getstate__())

    def __hash__(self) -> int:
        return hash((tuple(self.groups.items()), self.feature_names, tuple(self.needs.items())))

    def __repr__(self) -> str:
        members = {group: ", ".join(self.feature_names[c] for c in columns) for group, columns in self.groups.items()}
        needs = {group: f" needs {self.needs[group]}" if group in self.needs else "" for group in members}
        inner = ", ".join(f"{group}{needs[group]}: [{names}]" for group, names in members.items())
        base = len(self.feature_names) - len(self.group_columns)
        return f"Consent({inner}; {base} base column{'' if base == 1 else 's'})"


OptionalColumns: TypeAlias = Iterable[str | int] | Mapping[str, Iterable[str | int] | Levels | Needs] | Consent | None
"""What people may withhold: a list of columns, by name or position, or groups of them; None for nothing."""


def warn_of_lacking(lacking: int, everybody: int, where: str = "") -> None:
    """Warn of people with values in a group without the one that it needs."""
    warn(
        f"{lacking:,} of {everybody:,} people have values in a group without one that it needs{where}. These values "
        "count as withheld and are erased. Are they an error in the data?",
    )


def declares_something(optional: Any) -> bool:
    """Return False for None and for an empty declaration."""
    return optional is not None and (
        isinstance(optional, Consent) or not hasattr(optional, "__len__") or len(optional) > 0
    )


def _check_positions(optional: Any, source: RowSource) -> None:
    """Raise for integers that could be either labels or positions."""
    if not source.has_other_integer_labels or isinstance(optional, Consent):
        return
    columns = all_columns(optional)
    for column in columns if hasattr(columns, "__iter__") else ():
        if isinstance(column, (int, np.integer)):
            raise ValueError(
                f"optional names column {column}, but the table has integer labels that are not positions, so this "
                f"may be a label or a position. Write the label as a string, {str(column)!r}."
            )
