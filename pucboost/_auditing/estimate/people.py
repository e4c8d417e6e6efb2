"""The people of an audit: features, outcomes, weights, and who shares what."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._consent import Consent
from ..._prediction.prediction import subset_name
from ..._tables.containers import as_vector, as_weight, eager, row_source, rows_of
from ..._tables.sources import Categories, RowSource, SubsetSource
from ..._training.datasets import check_positions, declares_something
from .labels import read_clusters, read_subgroups

RESERVED = ("nothing", "everything", "overall", "everybody")


@dataclass(frozen=True)
class People:
    """Held-out people: features as numbers, outcomes, weights, and who shares what."""

    source: RowSource
    consent: Consent
    shared: Array
    """Mask of the groups each person shares (uint64)."""
    y: Array
    weight: Array
    subgroups: Mapping[str, Array]
    cluster: Array | None
    """Number of the cluster of each row, where several rows belong together."""
    container: Any
    """The user's own table."""
    kept: Array | None = None
    """Numbers of the rows kept, if some had weight 0."""

    def __len__(self) -> int:
        return len(self.y)

    @property
    def everything(self) -> int:
        """The mask of all groups."""
        return (1 << self.consent.n_groups) - 1

    def at_least(self, mask: int) -> Array:
        """Return the numbers of the people who share at least the groups of ``mask``."""
        m = np.uint64(mask)
        return np.flatnonzero((self.shared & m) == m)

    @cached_property
    def mask_counts(self) -> dict[int, int]:
        """Number of people who share exactly each set, most frequent first."""
        masks, counts = np.unique(self.shared, return_counts=True)
        order = np.lexsort((masks, -counts))
        return {int(masks[i]): int(counts[i]) for i in order}

    def name(self, mask: int) -> str:
        """Return the name of the people who share exactly ``mask``."""
        if mask == self.everything and mask != 0:
            return "everything"
        return subset_name(mask, self.consent)

    def fingerprint(self) -> str:
        """Return a hash of features and outcomes."""
        digest = hashlib.sha256(repr((self.source.feature_names, self.source.n_columns)).encode())
        for lo, hi in self.source.blocks():
            digest.update(np.ascontiguousarray(self.source.window(lo, hi), dtype=np.float64).tobytes())
        digest.update(self.y.tobytes())
        return digest.hexdigest()


def read_people(
    X: Any,
    y: Any,
    *,
    consent: Consent | None = None,
    categories: Categories | None = None,
    optional: Any = None,
    available: Any = None,
    weight: Any = None,
    exposure: Any = None,
    subgroups: Any = None,
    clusters: Any = None,
    zero_as_missing: bool = False,
    num_threads: int | None = None,
) -> tuple[People, list[str]]:
    """Check everything given about people, and return it with warnings."""
    X = eager(X)
    source = row_source(X, categories)
    n = source.n_rows
    names = source.feature_names or (
        list(consent.feature_names) if consent else [f"Column_{j}" for j in range(source.n_columns)]
    )
    consent = _consent(consent, optional, names, source)
    _check_names(consent)
    outcome = as_vector(y, "y", n, np.float64)
    _check_finite(outcome, "y")
    weights = np.ones(n) if weight is None else as_weight(weight, "weight", n)
    if exposure is not None:
        units = as_weight(exposure, "exposure", n)
        if (units == 0).any():
            raise ValueError(f"exposure is 0 in row {int(np.argmin(units))}; drop rows without exposure.")
        # A count over an exposure is a rate that weighs as much as its exposure.
        outcome, weights = outcome / units, weights * units
    shared = consent.visible(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
    notes: list[str] = []
    members, cluster = read_subgroups(subgroups, n), read_clusters(clusters, n)
    if not weights.any():
        raise ValueError("All weights are 0; nobody is left to audit.")
    keep = None
    if not weights.all():
        keep = np.flatnonzero(weights)
        notes.append(f"{n - len(keep):,} rows with weight 0 are left out.")
        X, source = rows_of(X, keep), SubsetSource(source, keep)
        outcome, weights, shared = outcome[keep], weights[keep], shared[keep]
        members = {name: flags[keep] for name, flags in members.items()}
        cluster = None if cluster is None else cluster[keep]
    return People(source, consent, shared, outcome, weights / weights.mean(), members, cluster, X, keep), notes


def _consent(known: Consent | None, optional: Any, names: list[str], source: RowSource) -> Consent:
    if known is not None:
        if declares_something(optional):
            declared = Consent.declare(optional, names)
            if declared.groups != known.groups:
                raise ValueError(
                    f"optional declares {declared!r}, but the model was trained under {known!r}. Leave optional out "
                    "for a pucboost model."
                )
        known.check_table(source)
        return known
    if not declares_something(optional):
        raise ValueError(
            "The model has no consent schema, so it is not known what is optional. Say so: optional=[columns] or "
            "optional={group: [columns]}."
        )
    check_positions(optional, source)
    return Consent.declare(optional, names)


def _check_names(consent: Consent) -> None:
    for reserved in RESERVED:
        if reserved in consent.groups:
            raise ValueError(f"A consent group is called {reserved!r}, a name audits use themselves. Rename it.")


def _check_finite(values: Array, name: str) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(f"{name} is {values[bad[0]]} in row {bad[0]} ({len(bad)} such rows); it must be finite.")
