"""What people write to say which columns are optional: groups, levels, groups that need others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from ._pickles import pickled
from ._plain_data import is_whole
from ._tables.names import did_you_mean
from ._tables.sources import are_default_names

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
        names = self.names
        numbered = (f"{name} {number}" for number in range(1, len(self.columns) + 1))
        return dict(zip(numbered if names is None else (f"{name}: {one}" for one in names), self.columns, strict=True))

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


def resolved(optional: Any, names: tuple[str, ...]) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Return groups of positions and what each group needs, from a declaration that is not a schema yet."""
    needs: dict[str, str] = {}
    if isinstance(optional, (str, Integral)):
        raise ValueError(
            f"optional must be a list of columns or a dict of groups, got {optional!r}; write [{optional!r}]."
        )
    if isinstance(optional, Mapping):
        wanted: dict[str, Any] = {}
        for group, columns in optional.items():
            for name, members, needed in _groups_of(str(group), columns):
                if name in wanted:
                    raise ValueError(f"optional has two groups with the same name, {name!r}.")
                wanted[name] = _columns_of(name, members)
                if needed is not None:
                    needs[name] = needed
        _check_needed(needs, wanted, optional)
        groups = {group: tuple(_position(c, names) for c in columns) for group, columns in wanted.items()}
    elif isinstance(optional, (list, tuple)) or hasattr(optional, "tolist"):  # also arrays and pandas indexes
        positions = [_position(column, names) for column in optional]
        _check_used_once([(names[p], (p,)) for p in positions], names)
        groups = {names[p]: (p,) for p in positions}
    else:
        raise ValueError(
            f"optional must be a list of columns or a dict group -> columns, got {type(optional).__name__}."
        )
    return groups, needs


def _groups_of(group: str, columns: Any) -> Iterable[tuple[str, Any, str | None]]:
    """Yield name, columns and what is needed of each group that an entry of ``optional`` stands for."""
    needed = None
    if isinstance(columns, Needs):
        needed, columns = columns.group, columns.columns
    for name, members in columns.groups(group).items() if isinstance(columns, Levels) else [(group, columns)]:
        yield name, members, needed
        needed = name


def _check_needed(needs: Mapping[str, str], groups: Mapping[str, Any], optional: Mapping[Any, Any]) -> None:
    """Raise if a group needs levels, without saying which of them."""
    for group, needed in needs.items():
        if needed in optional and needed not in groups:
            levels = [name for name in groups if name.startswith((f"{needed} ", f"{needed}: "))]
            raise ValueError(f"Group {group!r} needs {needed!r}, which has levels. Name one of them: {levels}.")


def all_columns(optional: Any) -> Any:
    """Return all columns that a declaration names, groups and levels taken apart."""
    if not hasattr(optional, "values"):
        return optional
    entries = [one for group, columns in optional.items() for _, one, _ in _groups_of(str(group), columns)]
    return [column for columns in entries for column in np.atleast_1d(columns)]


def checked_needs(needs: Any, groups: Sequence[str]) -> dict[str, str]:
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


def _check_group_name(group: str) -> None:
    """Raise if a set of other groups could be called like this one, or like this one joined with others."""
    if group in ("", NOTHING) or JOINED_BY in f" {group} ":
        meaning = "a set of several groups" if group and group != NOTHING else "the set without any group"
        raise ValueError(
            f"A group of optional is called {group!r}, but quotes and audits call {meaning} so. Name it otherwise: "
            "optional={'another name': [columns]}."
        )


def checked_names(names: Any) -> tuple[str, ...]:
    if isinstance(names, (str, Mapping)) or not isinstance(names, Iterable):
        raise ValueError(f"feature_names of a consent schema must be a list of names, got {type(names).__name__}.")
    checked = tuple(names)
    for position, name in enumerate(checked):
        if not isinstance(name, str):
            raise ValueError(f"Column {position} of a consent schema has the name {name!r}, which is not text.")
    return checked


def checked_groups(groups: Any, names: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
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
        _check_group_name(group)
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
