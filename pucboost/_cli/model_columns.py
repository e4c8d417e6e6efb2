"""How to read the columns of a table file that a model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .shared import note

if TYPE_CHECKING:
    from .._consent import Consent
    from .._tables.columns import Column
    from .._tables.table_files import TableFile


def features_of(model: Any, file: TableFile, quiet: bool) -> list[Column]:
    """Return how to read each column of the model. If the file has no column of a group, nobody shares it."""
    from .._tables.columns import Absent, Codes, Numbers
    from .._tables.files import DataError
    from .._tables.names import similar

    consent: Consent = model.consent
    lacking = consent.missing_column(file.columns)
    if lacking is not None:
        raise DataError(
            f"{file.path} has no column {lacking!r}, which the model was trained on{similar(lacking, file.columns)}"
        )
    for group, members in consent.absent_groups(file.columns).items():
        note(
            f"{file.path} has no column of group {group!r} ({', '.join(members)}), so it counts as withheld by "
            f"everybody{_or_misspelt(members, file)}",
            quiet,
        )
    categories = category_columns(model, consent.feature_names)
    features: list[Column] = []
    for name in consent.feature_names:
        if name not in file.columns:
            features.append(Absent(name))
            continue
        file.kind(name)  # raises for dates and the like
        if name in categories:
            features.append(Codes(name, categories[name], converts=True))
        else:
            features.append(Numbers(name, ". The model was trained on numbers there"))
    return features


def category_columns(model: Any, feature_names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the categories of each category column a model was trained on."""
    from .._models.schema import categories_of
    from .._tables.files import DataError

    categories = categories_of(model)
    if categories is None or not categories.values:
        return {}
    if categories.columns is None:
        raise DataError(
            "the model was trained with categorical features that the table does not show to be categories, and does "
            "not keep which columns have which categories; use puc.predict or puc.quote in Python"
        )
    return {feature_names[j]: list(values) for j, values in zip(categories.columns, categories.values, strict=True)}


def _or_misspelt(members: list[str], file: TableFile) -> str:
    from .._tables.names import similar

    hints = [similar(name, file.columns) for name in members]
    return next((hint for hint in hints if "did you mean" in hint), "")
