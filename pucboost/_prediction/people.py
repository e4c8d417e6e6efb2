"""The people a model is applied to: their table, the consent schema, who shares what, and their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._tables.containers import as_weight, eager, row_source
from .._tables.sources import Categories, RowSource


@dataclass(frozen=True)
class People:
    """People, and what each of them shares."""

    container: Any
    """The user's own table."""
    source: RowSource
    consent: Consent
    shared: Array
    """Mask of the groups each person shares (uint64)."""
    weight: Array

    def __len__(self) -> int:
        return len(self.shared)

    def at_least(self, mask: int) -> Array:
        """Return the numbers of the people who share at least the groups of ``mask``."""
        m = np.uint64(mask)
        return np.flatnonzero((self.shared & m) == m)


def read_people(
    X: Any,
    consent_for: Callable[[RowSource], Consent],
    *,
    categories: Categories | None = None,
    available: Any = None,
    weight: Any = None,
    weight_name: str = "sample_weight",
    zero_as_missing: bool = False,
    num_threads: int | None = None,
) -> People:
    """Return the people in a table.

    Parameters
    ----------
    X
        The table, in any container.
    consent_for
        Takes the source of the table and returns the consent schema.
    categories
        Categories of the table a model was trained on.
    available
        Who shares what, if the values do not show it.
    weight
        Weights, one per person; ``weight_name`` is their name in errors.
    zero_as_missing
        Read zeros as missing.
    num_threads
        Threads; None means all cores.
    """
    container = eager(X)
    source = row_source(container, categories)
    consent = consent_for(source)
    consent.check_table(source)
    weights = np.ones(source.n_rows) if weight is None else as_weight(weight, weight_name, source.n_rows)
    shared = consent.visible(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
    return People(container, source, consent, shared, weights)


def shares_of_masks(shared: Array, weight: Array) -> dict[int, float]:
    """Return p(S), the weighted share of people who share exactly S, most frequent first."""
    masks, owner = np.unique(shared, return_inverse=True)
    share = np.bincount(owner, weights=weight, minlength=len(masks)) / weight.sum()
    order = np.lexsort((masks, -share))
    return {int(masks[i]): float(share[i]) for i in order if share[i] > 0}
