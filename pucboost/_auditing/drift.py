"""Whether people share other data than before, and whose predictions that exposes.

**Sharing.** Each set S has a share of people, before and now. Two samples are compared: chi-square, Fisher's exact test
for small counts, Holm over all comparisons. Only sets are compared of which so many people are there in both tables
together that at least 20 were to be expected before: given the total, who was there before is a random draw if nothing
has changed, so this choice does not bias the test. Counts kept in a model are rounded, and sets of fewer than five
people are not kept. A count is then known to lie between two ends, and the value most favourable to "no change" is
tested.

**Exposure.** The justified prediction of those who share S is f*_S = E[Y | b, A ⊇ S, z_S].

- S = nothing: everybody is compared, f*_∅ = E[Y | b]. It does not depend on who shares.
- S = everything: E[Y | b, z, A = all] does not depend on who shares if Y ⟂ A | b, z.
- between: E[Y | b, A ⊇ S, z_S] averages over the people with A ⊇ S, whose distribution given (b, z_S) is proportional
  to P(A ⊇ S | b, z)·p(z | b, z_S). It changes with P(A ⊇ S | b, z), unless that depends on (b, z_S) alone.

So the sets between whose rate P(A ⊇ S) has changed are exposed: the model may be as trained, and yet no longer f*. An
unchanged rate does not prove that the *same* people share; the penalties below would show that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .._models.schema import PEOPLE_STEP, rounded_people
from .._prediction.predictor import subset_name
from .._tables.sources import Categories, row_source
from .._virtual.plan import MIN_PEOPLE_OF_MASK
from .people import AuditPeople

MIN_EXPECTED = 20
"""So many people of a set must be expected before, given those of both tables, for its share to be compared."""
FEW = 10
"""Below this expected count Fisher's exact test stands in for chi-square."""
MAX_VALUES = 10


@dataclass(frozen=True)
class SharingCounts:
    """How many people share exactly each set; with a ``step`` above 1 rounded to it, and without rare sets."""

    people: int
    sets: tuple[tuple[int, int], ...]
    step: int = PEOPLE_STEP

    def kept(self) -> SharingCounts:
        """Return the counts as models keep them."""
        some = [(mask, n) for mask, n in self.sets if n >= MIN_PEOPLE_OF_MASK]
        counts = rounded_people([n for _, n in some])
        return SharingCounts(self.people, tuple(zip((mask for mask, _ in some), counts, strict=True)))

    def between(self, chosen: Callable[[int], bool], rare: int | None = None) -> tuple[int, int]:
        """Return how many people at least and at most have one of the masks chosen.

        The error of rounding is at most half a step per set, and of k sets hardly ever more than 4 standard deviations.
        ``rare`` is how many at most may be among the people whose sets are not kept; None for all of them.
        """
        found = [n for mask, n in self.sets if chosen(mask)]
        if self.step == 1:
            return sum(found), sum(found)
        rest = max(0, self.people - sum(n for _, n in self.sets) + self._slack(len(self.sets)))
        slack, lost = self._slack(len(found)), rest if rare is None else min(rare, rest)
        return max(0, sum(found) - slack), min(self.people, sum(found) + slack + lost)

    def _slack(self, k: int) -> int:
        half = self.step // 2
        return min(half * k, math.ceil(4 * math.sqrt(k * (self.step**2 - 1) / 12)))


@dataclass(frozen=True)
class SharingChange:
    """The share of people with a set, or with at least a set, before and now."""

    name: str
    kind: str
    """``"exactly"`` this set, ``"at least"`` this set; a group is shared by those who share at least it."""
    before: float
    now: float
    people: int
    lower: float
    upper: float
    """95 % interval of now − before (Newcombe)."""
    p_value: float
    adjusted_p_value: float
    changed: bool

    @property
    def difference(self) -> float:
        return self.now - self.before


@dataclass(frozen=True)
class UnknownValues:
    """Values of a column that the model does not know; they are read as missing."""

    column: str
    rows: int
    values: tuple[str, ...]
    """The most frequent ones."""


def compare(
    before: SharingCounts | None, now: SharingCounts, people: AuditPeople, error: float
) -> tuple[tuple[SharingChange, ...], tuple[str, ...], tuple[tuple[str, int], ...]]:
    """Return all comparisons, the sets whose predictions are exposed, and the sets that are new."""
    if before is None:
        return (), (), ()
    consent, everything, counts = people.consent, people.everything, dict(now.sets)
    then, part = dict(before.sets), before.people / (before.people + now.people)
    sets = [m for m in sorted({*then, *counts}) if (then.get(m, 0) + counts.get(m, 0)) * part >= MIN_EXPECTED]
    groups = [1 << g for g in range(consent.n_groups)]
    between = [mask for mask in dict.fromkeys([*groups, *sets]) if mask not in (0, everything) or mask in groups]
    rare = MIN_PEOPLE_OF_MASK - 1
    asked = [(m, "exactly", before.between(lambda s, m=m: s == m, 0 if m in then else rare)) for m in sets]  # type: ignore[misc]
    asked += [(m, "at least", before.between(lambda s, m=m: s & m == m)) for m in between]  # type: ignore[misc]
    found, p_values = [], []
    for mask, kind, (low, high) in asked:
        k = counts.get(mask, 0) if kind == "exactly" else sum(n for s, n in now.sets if s & mask == mask)
        closest = min(max(round(before.people * k / now.people), low), high)
        p_values.append(two_samples(closest, before.people, k, now.people))
        name = people.name(mask) if kind == "exactly" else subset_name(mask, consent)
        lower, upper = newcombe(closest, before.people, k, now.people)
        found.append((name, kind, (low + high) / 2 / before.people, k / now.people, k, lower, upper))
    adjusted = holm(p_values)
    changes = [SharingChange(*f, p, q, q <= error) for f, p, q in zip(found, p_values, adjusted, strict=True)]
    # A group that nobody shares alone is compared, but nobody has a prediction for just that set.
    real = {mask for mask in {*then, *counts} if mask not in (0, everything)}
    exposed = [
        c.name
        for (mask, kind, _), c in zip(asked, changes, strict=True)
        if kind == "at least" and c.changed and mask in real
    ]
    new = [(people.name(mask), n) for mask, n in people.mask_counts.items() if mask not in then]
    return tuple(changes), tuple(exposed), tuple(new)


def two_samples(x: int, n: int, k: int, m: int) -> float:
    """Return the p-value of x of n and k of m having one probability: chi-square, for small counts Fisher's test."""
    from scipy.stats import chi2, fisher_exact

    pooled = (x + k) / (n + m)
    variance = pooled * (1 - pooled) * (1 / n + 1 / m)
    if variance == 0:
        return 1.0
    if min(n, m) * min(pooled, 1 - pooled) < FEW:
        return float(fisher_exact([[x, n - x], [k, m - k]])[1])
    return float(chi2.sf((x / n - k / m) ** 2 / variance, 1))


def newcombe(x: int, n: int, k: int, m: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the interval of k/m − x/n that is made of the Wilson intervals of both."""

    def wilson(s: int, of: int) -> tuple[float, float]:
        centre, half = s + z * z / 2, z * math.sqrt(s * (of - s) / of + z * z / 4)
        return (centre - half) / (of + z * z), (centre + half) / (of + z * z)

    (l1, u1), (l2, u2), p1, p2 = wilson(x, n), wilson(k, m), x / n, k / m
    return p2 - p1 - math.hypot(p2 - l2, u1 - p1), p2 - p1 + math.hypot(u2 - p2, p1 - l1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number."""
    adjusted, running = [1.0] * len(p_values), 0.0
    for place, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = running
    return adjusted


def unknown_categories(people: AuditPeople, known: Categories | None) -> tuple[UnknownValues, ...]:
    own = row_source(people.container)
    if known is None or not own.coded:
        return ()
    lists, found = known.by_column(own.coded), []
    for j, values in own.categories.by_column(own.coded).items():
        strange = {code for code, value in enumerate(values) if value not in set(lists.get(j, values))}
        if not strange:
            continue
        seen: Counter[str] = Counter()
        for lo, hi in own.blocks():
            codes = own.window(lo, hi)[:, j]
            seen.update(str(values[int(code)]) for code in codes[~np.isnan(codes)] if int(code) in strange)
        if seen:
            found.append(unknown_values(own.names[j], seen))
    return tuple(found)


def unknown_values(column: str, seen: Counter[str]) -> UnknownValues:
    return UnknownValues(column, seen.total(), tuple(value for value, _ in seen.most_common(MAX_VALUES)))
