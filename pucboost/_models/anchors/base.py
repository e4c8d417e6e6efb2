"""The anchor of a model: an existing model that uses base features only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._common import Array
from ..._consent import Consent
from ..._losses import Objective
from ..._persistence import pickled
from ..._tables.containers import row_source
from ..._tables.sources import Categories

NAMES_SHOWN = 8
"""How many columns a description lists."""


@dataclass(frozen=True)
class AnchorScores:
    """What an anchor says about some people, one row each."""

    raw: Array
    """The raw scores that trees are added to, one per person (and class)."""
    response: Array
    """What people who share nothing are told: the anchor's own prediction, bit for bit."""

    def of(self, people: Array | slice) -> AnchorScores:
        """Return the scores of some of the people."""
        return AnchorScores(self.raw[people], self.response[people])


@dataclass(frozen=True, repr=False)
class Anchor(ABC):
    """A model that uses base features only: it never sees anything optional.

    Parameters
    ----------
    model
        The model itself, as the user gave it.
    consent
        The consent schema, which says what the anchor must not see.
    objective
        The loss of the trees, whose link connects raw scores and predictions.
    """

    model: Any
    consent: Consent
    objective: Objective

    returns_raw_scores: ClassVar[bool] = False
    """Whether raw scores are what somebody's function says they are, so that their scale must be doubted."""

    @abstractmethod
    def scores(self, X: Any, codes: Categories | None = None) -> AnchorScores:
        """Return raw scores and predictions for a table; ``codes`` explains category codes in an array."""

    @abstractmethod
    def described(self) -> str:
        """Return what the anchor is and what is read from it, in words."""

    def __reduce__(self) -> Any:
        return pickled(type(self).__name__, vars(self))

    def __repr__(self) -> str:
        return f"<anchor: {self.described()}>"


def checked_scores(scores: Any, X: Any) -> Array:
    """Return raw scores as an array, if there is a finite one for every row of the table."""
    array: Array = np.asarray(scores)
    n = row_count(X)
    if array.ndim not in (1, 2) or len(array) != n or not np.issubdtype(array.dtype, np.number):
        raise ValueError(f"The anchor must return one raw score for each of the {n} rows, got shape {array.shape}.")
    bad = np.flatnonzero(~np.isfinite(array.reshape(n, -1)).all(axis=1))
    if len(bad):
        raise ValueError(f"The anchor's score is not finite in row {bad[0]} ({len(bad)} such rows).")
    return array


def row_count(X: Any) -> int:
    """Return the number of rows of a table in any container."""
    return int(X.shape[0]) if hasattr(X, "shape") else row_source(X).n_rows


def listed(names: Sequence[str]) -> str:
    """Return names with commas, the first few of them if there are many."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
