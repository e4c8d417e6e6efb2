"""Who may withhold what, and who does: declarations, the consent schema, and masks of shared groups.

People declare what is optional as columns, groups, :class:`Levels` or groups that :class:`Needs` others. Resolved
against the columns of a table, a declaration is a :class:`Consent`. It reads who shares what out of a table, as one
64-bit mask per row. Which groups need others, and so which masks are admissible, is its :class:`Nesting`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from numbers import Integral
from operator import or_
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from ._common import Array, did_you_mean, warn
from ._kernels.compiling import run_in_ranges, thread_count
from ._kernels.masks import count_ideals, count_shared, largest_ideals, pack_shared
from ._kernels.rows import gather_masked_columns, gather_masked_rows
from ._persistence import pickled
from ._tables.sources import DoesNotApply, RowSource, are_default_names, check_no_mask, filled, row_source

MAX_GROUPS = 64
"""One bit per group in a 64-bit mask."""

NOTHING, JOINED_BY = "nothing", " + "
"""How quotes and audits call the sets of groups that people share: ``nothing``, ``app``, ``app + blood``."""


@dataclass(frozen=True, init=False, repr=False)
class Levels:
    """Ordered consent, as the value of a group: levels that are shared one after the other, each with all before it.

    Every level becomes a group of its own that needs the one before. A person with k levels then stands for k + 1
    virtual rows in place of 2^k.

    Parameters
    ----------
    *levels
        The columns that each level adds, from the first on. The levels of ``fitness`` are called ``fitness 1``,
        ``fitness 2``, …
    **named
        The same with names, in place of numbers: those of ``basic`` and ``full`` are called ``fitness: basic`` and
        ``fitness: full``.

    Examples
    --------
    >>> import pucboost as puc
    >>> optional = {"fitness": puc.Levels(basic=["steps"], full=["pulse", "gps"])}
    >>> consent = puc.Consent.declare(optional, ["age", "steps", "pulse", "gps"])
    >>> consent.group_names, dict(consent.needs)
    (('fitness: basic', 'fitness: full'), {'fitness: full': 'fitness: basic'})
    """

    columns: tuple[Any, ...]
    """What each level adds."""
    names: tuple[str, ...] | None
    """Names of the levels; None if they are numbered."""

    def __init__(self, *levels: Any, **named: Any) -> None:
        if bool(levels) == bool(named):
            raise ValueError(
                "Levels takes lists of columns, one for each level, all with names or all without: "
                "Levels(['steps'], ['pulse']) or Levels(basic=['steps'], full=['pulse'])."
            )
        object.__setattr__(self, "columns", tuple(levels or named.values()))
        object.__setattr__(self, "names", tuple(named) or None)

    def groups(self, name: str) -> dict[str, Any]:
        """Return the groups of levels with this name, and the columns of each."""
        if self.names is None:
            return {f"{name} {number}": columns for number, columns in enumerate(self.columns, 1)}
        return {f"{name}: {one}": columns for one, columns in zip(self.names, self.columns, strict=True)}

    def __hash__(self) -> int:
        return hash((Levels, repr(self)))

    def __repr__(self) -> str:
        names = ("",) * len(self.columns) if self.names is None else (f"{name}=" for name in self.names)
        return f"Levels({', '.join(f'{name}{columns!r}' for name, columns in zip(names, self.columns, strict=True))})"

    def __reduce__(self) -> Any:
        return pickled("Levels", vars(self))


@dataclass(frozen=True, repr=False)
class Needs:
    """A group that people share only with another one, as the value of a group.

    Parameters
    ----------
    group
        The other group. A level is called as in :class:`Levels`, ``fitness 1`` or ``fitness: basic``.
    columns
        The columns of this group, or :class:`Levels` of them, of which the first then needs the other group.

    Examples
    --------
    >>> import pucboost as puc
    >>> optional = {"app": ["steps"], "location": puc.Needs("app", ["gps"]), "blood": ["glucose"]}
    >>> consent = puc.Consent.declare(optional, ["age", "steps", "gps", "glucose"])
    >>> dict(consent.needs)
    {'location': 'app'}
    """

    group: str
    columns: Any

    def __hash__(self) -> int:
        return hash((Needs, repr(self)))

    def __repr__(self) -> str:
        return f"Needs({self.group!r}, {self.columns!r})"

    def __reduce__(self) -> Any:
        return pickled("Needs", vars(self))


@dataclass(frozen=True)
class Consent:
    """The consent schema: which columns are optional and in which groups they are shared or withheld together.

    However it is made, also by unpickling, it is checked, and it cannot be changed afterwards: kernels read columns at
    its positions and check nothing. Callers of kernels compare widths once per block (:meth:`check_width`).

    Parameters
    ----------
    groups
        Group name → positions of its columns. At most 64 groups; a column belongs to one of them at most.
    feature_names
        Names of all columns of the table, in order.
    needs
        Group name → the group without which it is not shared (:class:`Levels`, :class:`Needs`); no circles.
    not_applicable
        Where optional columns do not apply: triples of a column, the base column that decides it (None if the column
        has values of its own for it), and the values that say so.

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
    not_applicable: tuple[DoesNotApply, ...] = ()

    def __post_init__(self) -> None:
        names = _checked_names(self.feature_names)
        groups = _checked_groups(self.groups, names)
        needs = _checked_needs(self.needs, tuple(groups))
        object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "groups", MappingProxyType(groups))  # nobody changes what was checked
        object.__setattr__(self, "needs", MappingProxyType(needs))
        object.__setattr__(self, "not_applicable", _checked_not_applicable(self.not_applicable, self))

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
        groups, needs = _resolved(optional, names)
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
                "That is well defined, but usually some columns are known about everybody."
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

    def difference(self, other: Consent) -> str:
        """Say what another schema has otherwise than this one, of which there is something.

        >>> Consent.declare(["b"], ["a", "b"]).difference(Consent.declare(["b"], ["b", "a"]))
        "has 'b' as column 0, not 'a'"
        """
        here, there = self.feature_names, other.feature_names
        more = [name for name in there if name not in here]
        fewer = [name for name in here if name not in there]
        if more or fewer:
            return " and ".join(
                f"{verb} column{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"
                for verb, names in (("has", more), ("lacks", fewer))
                if names
            )
        for position, (name, their_name) in enumerate(zip(here, there, strict=True)):
            if name != their_name:
                return f"has {their_name!r} as column {position}, not {name!r}"
        for group in dict.fromkeys((*self.groups, *other.groups)):
            columns, theirs = ([one.feature_names[j] for j in one.groups.get(group, ())] for one in (self, other))
            if columns != theirs:
                return f"has {theirs or 'no columns'} in group {group!r}, not {columns or 'none'}"
            if self.needs.get(group) != other.needs.get(group):
                needs, theirs_needs = (one.needs.get(group) or "no other group" for one in (self, other))
                return f"has group {group!r} need {theirs_needs}, not {needs}"
        return "says otherwise where columns do not apply"

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
        names = self.group_names
        return Nesting(tuple(names.index(self.needs[group]) if group in self.needs else -1 for group in names))

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
        source = filled(source, self.not_applicable, source.categories)
        if available is None:
            shared = self._with_values(source, zero_as_missing, num_threads)
        else:
            shared = self._declared(source, available, zero_as_missing)
        # Also in `visible`: a value without what it needs is withheld wherever masks are made. The engine's own
        # `predict` does not go through here, which is documented.
        return self.nesting.largest(shared)

    def gather(
        self, block: Array, rows: Array, masks: Array, out: Array, *, threads: int, fill_value: float = math.nan
    ) -> Array:
        """Write out[v] = block[rows[v]] with ``fill_value`` in the groups outside masks[v], and return it.

        ``rows`` are numbers of rows of the block, which the caller has made from its length.
        """
        self.check_width(block.shape[1])  # a kernel would read beyond a row
        if out.shape != (len(rows), block.shape[1]) or len(masks) != len(rows):
            raise ValueError(f"{len(rows)} rows and {len(masks)} masks do not fit into a table of shape {out.shape}.")
        kernel = gather_masked_rows if block.flags.c_contiguous else gather_masked_columns
        bits, fill = self.column_bits, out.dtype.type(fill_value)
        run_in_ranges(lambda lo, hi: kernel(block, rows, masks, bits, fill, lo, hi, out), len(out), threads)
        return out

    def visible(
        self, source: RowSource, available: Any = None, *, zero_as_missing: bool, num_threads: int | None
    ) -> Array:
        """Return the masks that training uses: groups that are shared and have at least one value.

        To a tree, someone who shares a group in which every value is missing looks exactly like someone who
        withholds it. If such a group counted as shared, that row would have two equal copies where everybody else
        has one, which breaks the weight law.
        """
        return self.nesting.largest(self._shown(source, available, zero_as_missing, num_threads))

    def lacking(
        self, source: RowSource, available: Any = None, *, zero_as_missing: bool = False, num_threads: int | None = None
    ) -> Array:
        """Return the groups that have values, but lack a group that they need; one mask per row."""
        if self.nesting.is_free:
            return np.zeros(source.n_rows, dtype=np.uint64)
        shown = self._shown(source, available, zero_as_missing, num_threads)
        return np.asarray(shown & ~self.nesting.largest(shown))

    def without_lacking(self, rows: Array) -> Array:
        """Return a matrix without values in groups that lack a group that they need; rows are copied if there are any.

        These values count as withheld, so no prediction may depend on them.
        """
        lacking = self.lacking(row_source(rows))
        if not lacking.any():
            return rows
        return np.where((self.column_bits & lacking[:, None]) != 0, np.nan, rows).astype(rows.dtype)

    def warn_of_lacking(
        self, source: RowSource, available: Any = None, *, zero_as_missing: bool = False, num_threads: int | None = None
    ) -> None:
        """Warn if people share a group, but not the one that it needs. No error: a sensor that fails does this, too."""
        lacking = self.lacking(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
        rows = np.flatnonzero(lacking)
        if len(rows):
            first, needed = int(lacking[rows[0]]), self.nesting.needed
            g = next(h for h in range(self.n_groups) if first >> h & 1 and not first >> needed[h] & 1)
            group = self.group_names[g]
            where = f" (row {rows[0]} in {group!r}, but not in {self.needs[group]!r})"
            warn_of_lacking(len(rows), source.n_rows, where)

    def _shown(self, source: RowSource, available: Any, zero_as_missing: bool, num_threads: int | None) -> Array:
        """Return the groups that are shared and have at least one value, whatever they need."""
        present = self._with_values(source, zero_as_missing, num_threads)
        return present if available is None else present & self._declared(source, available, zero_as_missing)

    def _with_values(self, source: RowSource, zero_as_missing: bool, num_threads: int | None) -> Array:
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

    def _declared(self, source: RowSource, available: Any, zero_as_missing: bool) -> Array:
        """Return the groups that are shared according to ``available``."""
        shared = self._check_available(available, source)
        self._check_denied_have_no_values(shared, source, zero_as_missing)
        bits = np.uint64(1) << np.arange(self.n_groups, dtype=np.uint64)
        return np.asarray((shared * bits).sum(axis=1, dtype=np.uint64))

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
        plain = {"groups": groups, "feature_names": list(self.feature_names), "needs": dict(self.needs)}
        return plain | self._not_applicable_as_lists()

    def _not_applicable_as_lists(self) -> dict[str, Any]:
        rules = [[one.column, one.where, list(one.values)] for one in self.not_applicable]
        return {"not_applicable": rules} if rules else {}

    @classmethod
    def from_dict(cls, schema: Mapping[str, Any]) -> Consent:
        """Inverse of :meth:`to_dict`."""
        more = (schema.get("needs", {}), schema.get("not_applicable", ()))
        return cls(schema["groups"], schema["feature_names"], *more)

    def __getstate__(self) -> dict[str, Any]:
        # Plain data, for skops too.
        plain = {"groups": dict(self.groups), "feature_names": self.feature_names, "needs": dict(self.needs)}
        return plain | self._not_applicable_as_lists()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __reduce__(self) -> Any:
        return pickled("Consent", self.__getstate__())

    def __hash__(self) -> int:
        return hash((tuple(self.groups.items()), self.feature_names, tuple(self.needs.items()), self.not_applicable))

    def __repr__(self) -> str:
        members = {group: ", ".join(self.feature_names[c] for c in columns) for group, columns in self.groups.items()}
        needs = {group: f" needs {self.needs[group]}" if group in self.needs else "" for group in members}
        inner = ", ".join(f"{group}{needs[group]}: [{names}]" for group, names in members.items())
        base = len(self.feature_names) - len(self.group_columns)
        rules = "".join(f"; {self.in_words(one)}" for one in self.not_applicable)
        return f"Consent({inner}; {base} base column{'' if base == 1 else 's'}{rules})"

    def in_words(self, rule: DoesNotApply) -> str:
        """Return where a column does not apply, as a sentence."""
        values = " or ".join(map(repr, rule.values))
        where = "it" if rule.where is None else self.feature_names[rule.where]
        return f"{self.feature_names[rule.column]} does not apply where {where} is {values}"


OptionalColumns: TypeAlias = Iterable[str | int] | Mapping[str, Iterable[str | int] | Levels | Needs] | Consent | None
"""What people may withhold: a list of columns, by name or position, or groups of them; None for nothing."""


def warn_of_lacking(lacking: int, everybody: int, where: str = "") -> None:
    """Warn of people with values in a group without the one that it needs."""
    warn(
        f"{lacking:,} of {everybody:,} people have values in a group without one that it needs{where}. These values "
        "count as withheld and are erased. Are they an error in the data?"
    )


def declares_something(optional: Any) -> bool:
    """Return False for None and for an empty declaration."""
    return optional is not None and (
        isinstance(optional, Consent) or not hasattr(optional, "__len__") or len(optional) > 0
    )


# ------------------------------------------------------------------------------- declarations


def _resolved(optional: Any, names: tuple[str, ...]) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Return groups of positions and what each group needs, from a declaration that is not a schema yet."""
    if isinstance(optional, (str, Integral)):
        raise ValueError(
            f"optional must be a list of columns or a dict of groups, got {optional!r}; write [{optional!r}]."
        )
    if not isinstance(optional, Mapping):
        if not isinstance(optional, (list, tuple)) and not hasattr(optional, "tolist"):  # arrays and pandas indexes
            raise ValueError(
                f"optional must be a list of columns or a dict group -> columns, got {type(optional).__name__}."
            )
        positions = [_position(column, names) for column in optional]
        _check_used_once([(names[p], (p,)) for p in positions], names)
        return {names[p]: (p,) for p in positions}, {}
    groups: dict[str, list[Any]] = {}
    needs: dict[str, str] = {}
    for entry, columns in optional.items():
        for name, members, needed in _groups_of(str(entry), columns):
            if name in groups:
                raise ValueError(f"optional has two groups with the same name, {name!r}.")
            groups[name] = _columns_of(name, members)
            if needed is not None:
                needs[name] = needed
    for group, needed in needs.items():
        if needed in optional and needed not in groups:
            levels = [name for name in groups if name.startswith((f"{needed} ", f"{needed}: "))]
            raise ValueError(f"Group {group!r} needs {needed!r}, which has levels. Name one of them: {levels}.")
    return {group: tuple(_position(c, names) for c in columns) for group, columns in groups.items()}, needs


def _groups_of(group: str, columns: Any) -> Iterable[tuple[str, Any, str | None]]:
    """Yield name, columns and what is needed of each group that an entry of ``optional`` stands for."""
    needed = None
    if isinstance(columns, Needs):
        needed, columns = columns.group, columns.columns
    for name, members in columns.groups(group).items() if isinstance(columns, Levels) else [(group, columns)]:
        yield name, members, needed
        needed = name


def _columns_of(group: Any, columns: Any) -> list[Any]:
    if isinstance(columns, (str, Integral)):
        columns = [columns]
    if not isinstance(columns, (list, tuple, np.ndarray)):
        raise ValueError(f"Group {group!r} of optional must list its columns, got {type(columns).__name__}.")
    if len(columns) == 0:
        raise ValueError(f"Group {group!r} of optional has no columns; name at least one or drop the group.")
    return list(columns)


def _position(column: Any, names: tuple[str, ...]) -> int:
    if is_whole(column):
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


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def position_of_name(column: str, names: Sequence[str], argument: str) -> int:
    """Return the position of a column that an ``argument`` names; an error suggests what may be meant."""
    if column in names:
        return names.index(column)
    if are_default_names(names):
        raise ValueError(
            f"{argument} names column {column!r}, but the table has no column names. Pass a DataFrame (in a pipeline, "
            "let the previous step return one with set_output(transform='pandas')), or give positions instead of names."
        )
    renamed = [name for name in names if name.endswith(f"__{column}")]
    hint = f" If {renamed[0]!r} is meant, set verbose_feature_names_out=False where it is renamed." if renamed else ""
    known = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    rest = did_you_mean(column, names, cutoff=0.8) or f" Its columns are: {known}.{hint}"
    raise ValueError(f"{argument} names column {column!r}, which the table does not have.{rest}")


def _check_positions(optional: Any, source: RowSource) -> None:
    """Raise for integers that could be either labels or positions."""
    if not source.columns.has_other_integer_labels or isinstance(optional, Consent):
        return
    columns = optional
    if isinstance(optional, Mapping):
        entries = (one for group, columns in optional.items() for _, one, _ in _groups_of(str(group), columns))
        columns = [column for one in entries for column in np.atleast_1d(one)]
    for column in columns if isinstance(columns, Iterable) else ():
        if isinstance(column, (int, np.integer)):
            raise ValueError(
                f"optional names column {column}, but the table has integer labels that are not positions, so this "
                f"may be a label or a position. Write the label as a string, {str(column)!r}."
            )


# ------------------------------------------------------------------------------- checks of a schema


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
    for group in checked:
        # No set of groups may be called like another one.
        if group in ("", NOTHING) or JOINED_BY in f" {group} ":
            meaning = "a set of several groups" if group and group != NOTHING else "the set without any group"
            raise ValueError(
                f"A group of optional is called {group!r}, but quotes and audits call {meaning} so. Name it otherwise: "
                "optional={'another name': [columns]}."
            )
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


def _checked_needs(needs: Any, groups: Sequence[str]) -> dict[str, str]:
    """Return what each group needs, in the order of the groups, if these form a forest; else raise."""
    if not isinstance(needs, Mapping):
        raise ValueError(f"needs of a consent schema must be a dict group -> group, got {type(needs).__name__}.")
    for group, needed in needs.items():
        for name in (group, needed):
            if not isinstance(name, str) or name not in groups:
                hint = did_you_mean(name, groups) if isinstance(name, str) else ""
                hint = hint or f" The groups are {list(groups)}."
                raise ValueError(f"Group {group!r} needs {needed!r}, but there is no group {name!r}.{hint}")
    for group in needs:
        way = [group]
        while way[-1] in needs:
            way.append(needs[way[-1]])
            if way[-1] == group:
                if len(way) == 2:
                    raise ValueError(f"Group {group!r} needs itself.")
                raise ValueError(
                    f"Groups need each other in a circle: {' needs '.join(map(repr, way))}. Groups that are only "
                    "shared together are one group."
                )
            if way[-1] in way[:-1]:
                break  # a circle further on, which is found from its own groups
    return {group: needs[group] for group in groups if group in needs}


def _checked_not_applicable(given: Any, consent: Consent) -> tuple[DoesNotApply, ...]:
    """Return where columns do not apply, if optional columns are decided by base columns or by themselves; else raise.

    Not by other optional columns: a virtual row in which such a column is erased would still tell what it was.
    """
    checked = []
    for one in given:
        if not isinstance(one, (tuple, list)) or len(one) != 3:
            raise ValueError(f"not_applicable of a consent schema has the entry {one!r:.60}, not column, base, values.")
        column, where, values = one
        for position in (column, where):
            if position is not None and not (is_whole(position) and 0 <= position < len(consent.feature_names)):
                raise ValueError(f"not_applicable of a consent schema has column {position!r:.60}.")
        if column is None or column not in consent.group_columns:
            name = None if column is None else consent.feature_names[column]
            raise ValueError(
                f"not_applicable names column {name!r}, which is not optional. What is known about everybody needs no "
                "declaration: give it a value of its own."
            )
        if where is not None and where in consent.group_columns:
            raise ValueError(
                f"not_applicable of column {consent.feature_names[column]!r} depends on "
                f"{consent.feature_names[where]!r}, which is optional: of people who withhold that, it would tell what "
                "it is. Use a base column, or a value of the column itself."
            )
        if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable) or not list(values):
            raise ValueError(f"not_applicable of column {consent.feature_names[column]!r} must list values.")
        plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
        for value in plain:
            if not isinstance(value, (str, int, float)) or value != value:
                raise ValueError(
                    f"not_applicable of column {consent.feature_names[column]!r} has the value {value!r:.60}; values "
                    "are text or numbers. What is missing stays missing: that is silence."
                )
        checked.append(DoesNotApply(int(column), None if where is None else int(where), plain))
    return tuple(checked)


# ------------------------------------------------------------------------------- admissible sets


@dataclass(frozen=True)
class Nesting:
    """What each group needs, by number, and so which sets of groups are admissible: those with all that they need.

    One relation, "g needs h", serves levels and groups that imply others. Each group needs at most one other, which
    makes a forest, and admissible sets its ideals: their counts, numbers and orders then have closed forms, which they
    have not in general. With at least one need there are I ≤ 3·2^62 of them, which fits into 64 bits. Where nothing is
    needed every set is admissible, and the Boolean kernels run.

    Parameters
    ----------
    needed
        For each group the number of the group that it needs, −1 for none. There are no cycles.

    Examples
    --------
    >>> chain = Nesting((-1, 0, 1))
    >>> chain.submasks(0b111).tolist(), chain.count(0b111)
    ([0, 1, 3, 7], 4)
    >>> chain.closed(0b100), chain.largest(np.array([0b110, 0b101], dtype=np.uint64)).tolist()
    (7, [0, 1])
    """

    needed: tuple[int, ...]

    @cached_property
    def is_free(self) -> bool:
        """Whether no group needs another, so that every set of groups is admissible."""
        return all(other < 0 for other in self.needed)

    @cached_property
    def above(self) -> tuple[int, ...]:
        """For each group the mask of itself and all that it needs, directly or not."""
        masks = []
        for g in range(len(self.needed)):
            mask, other = 1 << g, self.needed[g]
            while other >= 0:
                mask, other = mask | 1 << other, self.needed[other]
            masks.append(mask)
        return tuple(masks)

    @cached_property
    def below(self) -> tuple[int, ...]:
        """For each group the mask of itself and all that need it, directly or not."""
        return tuple(sum(1 << h for h, mask in enumerate(self.above) if mask >> g & 1) for g in range(len(self.needed)))

    @cached_property
    def forest(self) -> tuple[Array, Array]:
        """The arrays that kernels take: all groups, each after the one it needs, and what each needs (r for none)."""
        r = len(self.needed)
        order = sorted(range(r), key=lambda g: self.above[g].bit_count())
        return np.array(order, dtype=np.int64), np.array([r if h < 0 else h for h in self.needed], dtype=np.int64)

    def closed(self, mask: int) -> int:
        """Return the smallest admissible set that holds these groups: with each, what it needs."""
        return reduce(or_, (self.above[g] for g in _bits(mask)), 0)

    def topmost(self, mask: int) -> int:
        """Return the groups of an admissible set that none of its others needs.

        Sets are called by these: ideals and antichains correspond, so they tell which set it is (:meth:`closed` leads
        back to it), and names of sixty levels stay short.
        """
        return mask & ~reduce(or_, (self.above[g] & ~(1 << g) for g in _bits(mask)), 0)

    def largest(self, masks: Array, threads: int = 1) -> Array:
        """Return the largest admissible set within each mask."""
        if self.is_free:
            return masks
        out = np.empty_like(masks)
        run_in_ranges(lambda lo, hi: largest_ideals(*self.forest, masks, lo, hi, out), len(masks), threads)
        return out

    def count(self, mask: int) -> int:
        """Return I, how many admissible sets there are within an admissible set: 2^k where nothing is needed."""
        if self.is_free:
            return 1 << mask.bit_count()
        return int(self.counts(np.array([mask], dtype=np.uint64))[0])

    def counts(self, masks: Array, threads: int = 1) -> Array:
        """Return I of every mask: uint64, or float64 where nothing is needed, since 2^64 is more than 64 bits hold."""
        if self.is_free:
            return np.ldexp(1.0, shared_counts(masks, threads))
        out = np.empty(len(masks), dtype=np.uint64)
        run_in_ranges(lambda lo, hi: count_ideals(*self.forest, masks, lo, hi, out), len(masks), threads)
        return out

    def submasks(self, mask: int) -> Array:
        """Return all admissible sets within an admissible set, in ascending order of their masks."""
        if self.is_free:
            subs, sub = [0], 0
            while sub != mask:
                sub = (sub - mask) & mask
                subs.append(sub)
            return np.array(subs, dtype=np.uint64)
        found = [0]
        for g in self.forest[0].tolist():
            if mask >> g & 1:
                needed = self.above[g] & ~(1 << g)
                found += [one | 1 << g for one in found if one & needed == needed]
        return np.array(sorted(found), dtype=np.uint64)


FREE = Nesting(())
"""No group needs another, however many there are."""


def shared_counts(masks: Array, threads: int = 1) -> Array:
    """Return k_i, how many groups each row shares."""
    counts = np.empty(len(masks), dtype=np.int64)
    run_in_ranges(lambda lo, hi: count_shared(masks, lo, hi, counts), len(masks), threads)
    return counts


def _bits(mask: int) -> list[int]:
    return [g for g in range(mask.bit_length()) if mask >> g & 1]
