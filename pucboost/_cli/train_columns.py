"""The columns that ``pucboost train`` is told about: which are features, how they are read, which are optional."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .shared import flat, names

if TYPE_CHECKING:
    from .._tables.columns import Column
    from .._tables.table_files import TableFile


@dataclass(frozen=True)
class Columns:
    """The features of a table file, and the groups people may withhold."""

    features: list[Column]
    optional: dict[str, Any]
    """The groups, as training takes them."""


def read_columns(given: argparse.Namespace, file: TableFile) -> Columns:
    """Check all columns the options name, and return how to read each feature."""
    from .._consent import Consent
    from .._engines import engine_named
    from .._tables.files import DataError
    from .._tables.table_files import check_columns

    ignored, categorical = flat(given.ignore), flat(given.categorical)
    roles = {"label": given.label, "weight": given.weight, "exposure": given.exposure}
    not_features = [column for column in roles.values() if column is not None]
    for role, column in roles.items():
        check_columns(file, [] if column is None else [column], f"--{role}")
    check_columns(file, ignored, "--ignore")
    check_columns(file, categorical, "--categorical")
    for column in not_features:
        its_roles = [role for role, other in roles.items() if other == column]
        if len(its_roles) > 1:
            raise DataError(f"column {column!r} is both {its_roles[0]} and {its_roles[1]}")
    groups = read_groups(given.optional, file)
    for column in [*categorical, *(column for columns in groups.values() for column in columns)]:
        if column in not_features or column in ignored:
            raise DataError(
                f"column {column!r} is label, weight, exposure or ignored, so it cannot be optional or categorical"
            )
    engine = engine_named(given.engine)
    features: list[Column] = []
    for column in file.columns:
        if column in not_features or column in ignored:
            continue
        if not column:
            raise DataError(
                f"{file.path} has a column without a name, perhaps the index of a DataFrame. Name it, or leave it out "
                "with --ignore ''"
            )
        trouble = engine.trouble_with_name(column)
        if trouble is not None:
            raise DataError(
                f"{file.path}: {given.engine} does not accept the name {column!r} {trouble}. Rename the column, or "
                "leave it out with --ignore"
            )
        try:
            advice = f" (--categorical {column} reads it as text, --ignore {column} leaves it out)"
            features.append(file.learn(column, reads_text=column in categorical, advice=advice))
        except DataError as error:
            raise DataError(f"{error} (--ignore {column} leaves it out)") from None
    for column in not_features:
        file.kind(column)
    optional = declaration(groups, given.needs)
    Consent.declare(optional, [feature.name for feature in features])  # raises now, before the file is read
    return Columns(features, optional)


def read_groups(optional: list[str], file: TableFile) -> dict[str, list[str]]:
    """Return the groups that ``--optional`` declares: name → columns."""
    from .._tables.files import DataError
    from .._tables.table_files import check_columns

    groups: dict[str, list[str]] = {}
    for text in optional:
        group, columns = _group(text, file)
        if group in groups:
            raise DataError(f"--optional names group {group!r} twice")
        check_columns(file, columns, "--optional")
        groups[group] = columns
    return groups


def declaration(groups: dict[str, list[str]], needs: list[str] | None) -> dict[str, Any]:
    """Return groups as training takes them, with what ``--needs`` says about them."""
    from .._consent import Needs
    from .._tables.files import DataError

    declared: dict[str, Any] = dict(groups)
    for text in needs or ():
        group, equals, other = text.partition("=")
        if not equals or not other:
            raise DataError(f"--needs {text}: write --needs GROUP=OTHER")
        if group not in groups:
            raise DataError(f"--needs {text}: --optional names no group {group!r}; its groups are {list(groups)}")
        if isinstance(declared[group], Needs):
            raise DataError(f"--needs says twice what group {group!r} needs; a group needs one other at most")
        declared[group] = Needs(other, groups[group])
    return declared


def _group(text: str, file: TableFile) -> tuple[str, list[str]]:
    """Read ``COL`` or ``GROUP=COL,COL``."""
    from .._tables.files import DataError

    if text in file.columns:
        return text, [text]
    group, equals, columns = text.partition("=")
    if equals:
        return group, names(columns)
    if "," in text:
        raise DataError(
            f"--optional {text}: write --optional NAME={text} for columns that are shared or withheld together, or "
            "repeat --optional for each of them"
        )
    return text, [text]
