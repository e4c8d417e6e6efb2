"""Functions as anchors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._common import Array
from ..._tables.containers import SourceTable, erase_columns, fill_columns
from ..._tables.sources import Categories
from .base import Anchor, AnchorScores, checked_scores

TRIAL_ROWS = 200
"""How many people show what values an optional column has, when a function is tried out."""


@dataclass(frozen=True, repr=False)
class CallableAnchor(Anchor):
    """A function that takes the table with everything optional erased and returns raw scores."""

    returns_raw_scores: ClassVar[bool] = True

    def check_reads_base_only(self, table: SourceTable) -> None:
        """Raise if the function answers differently when optional values are there; they are nobody's own."""
        X, codes = table.container(), table.source.categories
        erased = self.scores(X, codes).raw
        optional = self.consent.group_columns.tolist()
        some = table.source.take(np.arange(min(TRIAL_ROWS, table.source.n_rows)))[:, optional]
        shown = [np.nan_to_num(values[~np.isnan(values)]) for values in some.T]
        words = codes.by_column(table.source.coded)
        for level in (0.1, 0.9):
            typical = [_typical(values, level, words.get(j)) for j, values in zip(optional, shown, strict=True)]
            try:
                answer = np.asarray(self.model(fill_columns(X, optional, typical)))
            except Exception:  # it may expect that nothing optional is there
                return
            if not np.array_equal(answer, erased, equal_nan=True):
                raise ValueError(
                    "The anchor is a function that reads optional columns: it answers differently where they have "
                    "values, so what it says where they are erased is what silence told the model behind it. An anchor "
                    "must be a function of base columns, over a model that was trained without the optional ones."
                )

    def scores(self, X: Any, codes: Categories | None = None) -> AnchorScores:
        """Return its raw scores, and their inverse link."""
        raw = checked_scores(self.model(erase_columns(X, self.consent.group_columns.tolist())), X)
        return AnchorScores(raw, self.objective.response(raw))

    def described(self) -> str:
        """Return its name."""
        name = getattr(self.model, "__name__", type(self.model).__name__)
        return f"callable {name}; what it returns is taken as raw scores"


def _typical(values: Array, level: float, categories: Sequence[Any] | None) -> Any:
    """Return a value of a column that is rather small or rather large, or one of its categories."""
    if not len(values):
        return 0.0
    value = float(np.quantile(values, level, method="nearest"))
    return value if categories is None else categories[int(value)]
