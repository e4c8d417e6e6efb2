"""Which columns people may withhold, and who shares what."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from ._arrays import Array
from ._kernels.masks import pack_shared
from ._kernels.threads import run_in_ranges, thread_count
from ._pickles import pickled
from ._plain_data import is_whole
from ._tables.containers import row_source
from ._tables.masked_arrays import check_no_mask
from ._tables.names import did_you_mean
from ._tables.sources import RowSource, are_default_names

MAX_GROUPS = 64
"""One bit per group in a 64-bit mask."""

NOTHING, JOINED_BY = "nothing", " + "
"""How quotes and audits call the sets of groups that people share: ``nothing``, ``app``, ``app + blood``."""


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

    def __post_init__(self) -> None:
        names = _checked_names(self.feature_names)
        groups = _checked_groups(self.groups, names)
        object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "groups", MappingProxyType(groups))  # nobody changes what was checked

    @classmethod
    def declare(cls, optional: Any, feature_names: Sequence[str]) -> Consent:
        """Resolve a declaration against the columns of a table.

        Parameters
        ----------
        optional
            A list of columns, each a group of its own, or a dict group → columns. Columns are names or integer
            positions. A :class:`Consent` is checked against the names and returned.
        feature_names
            Names of all columns, in order.
        """
        names = tuple(str(name) for name in feature_names)
        if isinstance(optional, Consent):
            optional.check_columns(names)
            return optional
        if isinstance(optional, (str, Integral)):
            raise ValueError(
                f"optional must be a list of columns or a dict of groups, got {optional!r}; write [{optional!r}]."
            )
        if isinstance(optional, Mapping):
            wanted = {str(group): _columns_of(group, columns) for group, columns in optional.items()}
            if len(wanted) != len(optional):
                raise ValueError("optional has two groups with the same name.")
            groups = {group: tuple(_position(c, names) for c in columns) for group, columns in wanted.items()}
        elif isinstance(optional, (list, tuple)) or hasattr(optional, "tolist"):  # also arrays and pandas indexes
            positions = [_position(column, names) for column in optional]
            _check_used_once([(names[p], (p,)) for p in positions], names)
            groups = {names[p]: (p,) for p in positions}
        else:
            raise ValueError(
                f"optional must be a list of columns or a dict group -> columns, got {type(optional).__name__}."
            )
        for group in groups:
            _check_group_name(group)
        return cls(groups, names)

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

    def warn_without_base(self, stacklevel: int = 4) -> None:
        """Warn if every column is optional; ``stacklevel`` points to the user's call."""
        if self.groups and len(self.group_columns) == len(self.feature_names):
            warnings.warn(
                "Every column is optional, so people who share nothing get the overall average prediction. "
                "That is well defined, but usually some columns are known about everybody.",
                UserWarning,
                stacklevel=stacklevel,
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
        has a value.

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
        shared = self._check_available(available, source)
        self._check_denied_have_no_values(shared, source, zero_as_missing)
        bits = np.uint64(1) << np.arange(self.n_groups, dtype=np.uint64)
        return np.asarray((shared * bits).sum(axis=1, dtype=np.uint64))

    def presence(self, source: RowSource, *, zero_as_missing: bool = False, num_threads: int | None = None) -> Array:
        """Return which groups have at least one value, one mask per row."""
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
        present = self.presence(source, zero_as_missing=zero_as_missing, num_threads=num_threads)
        if available is None:
            return present
        shared = self.availability(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
        return np.asarray(shared & present)

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
        return {"groups": {g: list(c) for g, c in self.groups.items()}, "feature_names": list(self.feature_names)}

    @classmethod
    def from_dict(cls, schema: Mapping[str, Any]) -> Consent:
        """Inverse of :meth:`to_dict`."""
        return cls(schema["groups"], schema["feature_names"])

    def __getstate__(self) -> dict[str, Any]:
        return {"groups": dict(self.groups), "feature_names": self.feature_names}  # plain data, for skops too

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["groups"], state["feature_names"])  # type: ignore[misc]

    def __reduce__(self) -> Any:
        return pickled("Consent", self.__getstate__())

    def __hash__(self) -> int:
        return hash((tuple(self.groups.items()), self.feature_names))

    def __repr__(self) -> str:
        inner = ", ".join(f"{g}: [{', '.join(self.feature_names[c] for c in cs)}]" for g, cs in self.groups.items())
        base = len(self.feature_names) - len(self.group_columns)
        return f"Consent({inner}; {base} base column{'' if base == 1 else 's'})"


def _check_group_name(group: str) -> None:
    """Raise if a set of other groups would be called like this one. Models of earlier versions may have such groups."""
    if group in ("", NOTHING) or JOINED_BY in group:
        meaning = "a set of several groups" if group and group != NOTHING else "the set without any group"
        raise ValueError(
            f"A group of optional is called {group!r}, but quotes and audits call {meaning} so. Name it otherwise: "
            "optional={'another name': [columns]}."
        )


def _checked_names(names: Any) -> tuple[str, ...]:
    if isinstance(names, (str, Mapping)) or not isinstance(names, Iterable):
        raise ValueError(f"feature_names of a consent schema must be a list of names, got {type(names).__name__}.")
    checked = tuple(names)
    for position, name in enumerate(checked):
        if not isinstance(name, str):
            raise ValueError(f"Column {position} of a consent schema has the name {name!r}, which is not text.")
    return checked


def _checked_groups(groups: Any, names: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Return the groups if every position is a column of its own; else raise."""
    if not isinstance(groups, Mapping):
        raise ValueError(f"groups of a consent schema must be a dict group -> positions, got {type(groups).__name__}.")
    if len(groups) > MAX_GROUPS:
        raise ValueError(
            f"The consent schema has {len(groups)} groups; at most {MAX_GROUPS} are supported. Put columns that are "
            "shared together into one group."
        )
    checked = {group: _checked_positions(group, columns, len(names)) for group, columns in groups.items()}
    _check_used_once(list(checked.items()), names)
    if checked and len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"Two columns of the consent schema are called {twice!r}; it goes by names. Rename one.")
    return checked


def _checked_positions(group: Any, columns: Any, n_columns: int) -> tuple[int, ...]:
    if not isinstance(group, str):
        raise ValueError(f"Group {group!r} of the consent schema has a name that is not text.")
    if isinstance(columns, (str, Mapping)) or not isinstance(columns, Iterable):
        raise ValueError(f"Group {group!r} of the consent schema must list positions of columns, got {columns!r:.60}.")
    positions = tuple(columns)
    if not positions:
        raise ValueError(f"Group {group!r} of the consent schema has no columns.")
    for position in positions:
        if not is_whole(position):
            raise ValueError(f"Group {group!r} of the consent schema has column {position!r:.60}, not an integer.")
        if not 0 <= position < n_columns:
            raise ValueError(
                f"Group {group!r} of the consent schema has column {position!r:.60}, but there are {n_columns} "
                f"columns, 0 to {n_columns - 1}."
            )
    return tuple(int(position) for position in positions)


def _columns_of(group: Any, columns: Any) -> list[Any]:
    if isinstance(columns, (str, Integral)):
        columns = [columns]
    if not isinstance(columns, (list, tuple, np.ndarray)):
        raise ValueError(f"Group {group!r} of optional must list its columns, got {type(columns).__name__}.")
    if len(columns) == 0:
        raise ValueError(f"Group {group!r} of optional has no columns; name at least one or drop the group.")
    return list(columns)


def _position(column: Any, names: tuple[str, ...]) -> int:
    if isinstance(column, Integral) and not isinstance(column, (bool, np.bool_)):
        position = int(column)
        if not 0 <= position < len(names):
            raise ValueError(
                f"optional names column {position}, but the table has {len(names)} feature(s), columns 0 to "
                f"{len(names) - 1}."
            )
        return position
    if not isinstance(column, str):
        raise ValueError(f"optional must name columns by string or integer position, got {column!r}.")
    return position_of_name(column, names, "optional")


def position_of_name(column: str, names: Sequence[str], argument: str) -> int:
    """Return the position of a column that an ``argument`` names; raise if there is none, and say what may be meant."""
    if column not in names:
        raise ValueError(_unknown_column(column, names, argument))
    return names.index(column)


def _unknown_column(column: str, names: Sequence[str], argument: str) -> str:
    if are_default_names(names):
        return (
            f"{argument} names column {column!r}, but the table has no column names. Pass a DataFrame (in a pipeline, "
            "let the previous step return one with set_output(transform='pandas')), or give positions instead of names."
        )
    renamed = [name for name in names if name.endswith(f"__{column}")]
    hint = f" If {renamed[0]!r} is meant, set verbose_feature_names_out=False where it is renamed." if renamed else ""
    known = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    rest = did_you_mean(column, names, cutoff=0.8) or f" Its columns are: {known}.{hint}"
    return f"{argument} names column {column!r}, which the table does not have.{rest}"


OptionalColumns: TypeAlias = Iterable[str | int] | Mapping[str, Iterable[str | int]] | Consent | None
"""What people may withhold: a list of columns, by name or position, or groups of them; None for nothing."""


def declares_something(optional: Any) -> bool:
    """Return False for None and for an empty declaration."""
    return optional is not None and (
        isinstance(optional, Consent) or not hasattr(optional, "__len__") or len(optional) > 0
    )


def _check_positions(optional: Any, source: RowSource) -> None:
    """Raise for integers that could be either labels or positions."""
    if not source.has_other_integer_labels or isinstance(optional, Consent):
        return
    columns = (
        [c for group in optional.values() for c in np.atleast_1d(group)] if hasattr(optional, "values") else optional
    )
    for column in columns if hasattr(columns, "__iter__") else ():
        if isinstance(column, (int, np.integer)):
            raise ValueError(
                f"optional names column {column}, but the table has integer labels that are not positions, so this "
                f"may be a label or a position. Write the label as a string, {str(column)!r}."
            )


def _check_used_once(groups: Sequence[tuple[str, tuple[int, ...]]], names: tuple[str, ...]) -> None:
    owner: dict[int, str] = {}
    for group, columns in groups:
        for column in columns:
            if column in owner:
                raise ValueError(
                    f"Column {names[column]!r} is declared optional twice (groups {owner[column]!r} and {group!r}); "
                    "a column belongs to one group."
                )
            owner[column] = group
