"""The people of an audit: features, outcomes, weights, and who shares what."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._consent import Consent, declares_something
from ..._losses.exposure import per_unit
from ..._prediction.people import People, read_people
from ..._prediction.subsets import subset_name
from ..._prediction.wrapped import ConsentError, consent_within
from ..._tables.containers import as_exposure, as_vector, eager, rows_of
from ..._tables.sources import Categories, RowSource, SubsetSource
from ..wording import counted
from .labels import read_clusters, read_subgroups

RESERVED = ("nothing", "everything", "overall", "everybody")

_LACKING = (
    "{} values in a group without one that it needs. These values count as withheld, and the model was not shown them. "
    "Does it see them in use?"
)


@dataclass(frozen=True)
class AuditPeople(People):
    """Held-out people: what they share, their outcomes, and what belongs together."""

    y: Array
    subgroups: Mapping[str, Array]
    cluster: Array | None
    """Number of the cluster of each row, where several rows belong together."""
    kept: Array | None = None
    """Numbers of the rows kept, if some had weight 0."""
    exposure: float | None = None
    """The sum of the exposures; None if outcomes do not add up over any. With one, ``y`` are rates per unit of it."""

    @property
    def everything(self) -> int:
        """The mask of all groups."""
        return (1 << self.consent.n_groups) - 1

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


def read_audit_people(
    X: Any,
    y: Any,
    *,
    consent: Consent | None = None,
    wrapper: Any = None,
    categories: Categories | None = None,
    optional: Any = None,
    available: Any = None,
    weight: Any = None,
    exposure: Any = None,
    subgroups: Any = None,
    clusters: Any = None,
    zero_as_missing: bool = False,
    num_threads: int | None = None,
) -> tuple[AuditPeople, list[str]]:
    """Check everything given about people, and return it with warnings.

    What is optional is known from ``consent``, the schema of a booster, from the models inside a ``wrapper`` such as a
    pipeline, or it is declared in ``optional``.
    """
    table = eager(X)
    people = read_people(
        table,
        lambda source: (
            _consent(consent, optional, source)
            if wrapper is None
            else _consent_of_wrapped(wrapper, table, optional, source)
        ),
        categories=categories,
        available=available,
        weight=weight,
        weight_name="weight",
        zero_as_missing=zero_as_missing,
        num_threads=num_threads,
    )
    _check_names(people.consent)
    n, weights = len(people), people.weight
    outcome = as_vector(y, "y", n, np.float64)
    _check_finite(outcome, "y")
    units = None if exposure is None else as_exposure(exposure, "exposure", n)
    if units is not None:
        outcome, weights = per_unit(outcome, weights, units)
    if not weights.any():
        raise ValueError("All weights are 0; nobody is left to audit.")
    members, cluster = read_subgroups(subgroups, n), read_clusters(clusters, n)
    lacking = people.consent.count_lacking(
        people.source, available, zero_as_missing=zero_as_missing, num_threads=num_threads
    )
    notes = [_LACKING.format(counted(lacking, "person has", "people have"))] if lacking else []
    if weights.all():
        audited = AuditPeople(
            **{**vars(people), "weight": weights / weights.mean()},
            y=outcome,
            subgroups=members,
            cluster=cluster,
            exposure=None if units is None else float(units.sum()),
        )
        return audited, notes
    keep = np.flatnonzero(weights)
    audited = AuditPeople(
        container=rows_of(people.container, keep),
        source=SubsetSource(people.source, keep),
        consent=people.consent,
        shared=people.shared[keep],
        weight=weights[keep] / weights[keep].mean(),
        y=outcome[keep],
        subgroups={name: flags[keep] for name, flags in members.items()},
        # Numbered anew: a cluster nobody is left of would count among the units of standard errors and folds.
        cluster=None if cluster is None else read_clusters(cluster[keep], len(keep)),
        kept=keep,
        exposure=None if units is None else float(units[keep].sum()),
    )
    left_out = f"{counted(n - len(keep), 'row with weight 0 is', 'rows with weight 0 are')} left out."
    return audited, [*notes, left_out]


def _consent(known: Consent | None, optional: Any, source: RowSource) -> Consent:
    if known is not None:
        if declares_something(optional):
            declared = Consent.of(optional, source, source.feature_names or known.feature_names)
            if (declared.groups, declared.needs) != (known.groups, known.needs):
                raise _contradiction(declared, known)
        return known
    if not declares_something(optional):
        raise ValueError(
            "The model has no consent schema, so it is not known what is optional. Say so: optional=[columns] or "
            "optional={group: [columns]}."
        )
    return Consent.of(optional, source)


def _consent_of_wrapped(model: Any, table: Any, optional: Any, source: RowSource) -> Consent:
    """Return the schema of the models inside a model, in terms of the table, or what is declared where there is none.

    What is declared may name the groups in another way. It also stands where the schema cannot be followed back to the
    table: then the audit sees what becomes of silence on its way to the model.
    """
    if not declares_something(optional):
        return _consent(consent_within(model, table, source), None, source)
    declared = Consent.of(optional, source)
    try:
        known = consent_within(model, table, source)
    except ConsentError:
        return declared
    if known is not None and _by_columns(known) != _by_columns(declared):
        raise _contradiction(declared, known)
    return declared


def _by_columns(consent: Consent) -> set[tuple[frozenset[int], frozenset[int]]]:
    """Return each group and the one it needs by their columns, whatever they are called."""
    columns = {group: frozenset(positions) for group, positions in consent.groups.items()}
    nobody: frozenset[int] = frozenset()
    needed = {group: columns[consent.needs[group]] if group in consent.needs else nobody for group in columns}
    return {(own, needed[group]) for group, own in columns.items()}


def _contradiction(declared: Consent, known: Consent) -> ValueError:
    return ValueError(
        f"optional declares {declared!r}, but the model was trained under {known!r}. Leave optional out for a pucboost "
        "model."
    )


def _check_names(consent: Consent) -> None:
    for reserved in RESERVED:
        if reserved in consent.groups:
            raise ValueError(f"A consent group is called {reserved!r}, a name audits use themselves. Rename it.")


def _check_finite(values: Array, name: str) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(f"{name} is {values[bad[0]]} in row {bad[0]} ({len(bad)} such rows); it must be finite.")
