"""Functions as anchors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..._tables.erasing import erase_columns
from ..._tables.sources import Categories
from .base import Anchor, AnchorScores, checked_scores


@dataclass(frozen=True, repr=False)
class CallableAnchor(Anchor):
    """A function that takes the table with everything optional erased and returns raw scores."""

    returns_raw_scores: ClassVar[bool] = True

    def scores(self, X: Any, codes: Categories | None = None) -> AnchorScores:
        """Return its raw scores, and their inverse link."""
        raw = checked_scores(self.model(erase_columns(X, self.consent.group_columns.tolist())), X)
        return AnchorScores(raw, self.objective.response(raw))

    def described(self) -> str:
        """Return its name."""
        name = getattr(self.model, "__name__", type(self.model).__name__)
        return f"callable {name}; what it returns is taken as raw scores"
