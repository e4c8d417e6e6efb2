"""Which base features tell who withholds; where one gives people away, nothing about them is certified.

The justified prediction E[Y | b, A ⊇ a, z_a] takes base features for granted. If one of them gives away who withholds,
say the date of a consent form, then those who withhold are compared with others who have the same value of it, which is
with themselves: whatever a model reads out of their silence through that column looks justified, and the penalty is 0.

For every group g, let T = 1 for people who withhold it, and T = 0 for those who share it. With several groups, T = 1
for people who share nothing is looked at as well, since a column may give away no single group but how many are shared.
The sets S of the penalties would hide the first case: a column that gives away one group is constant among all who
share it, and only one of several reasons to share exactly S among the others.

For a column alone, cut into bins and taken by the ratio of the two frequencies in the other half of the people:

    alone = P(score of a person with T = 1 > that of one with T = 0) + ½ P(equal)        (the area under the ROC curve)
    recognised = P(bin ∈ R | T = 1) − P(bin ∈ R | T = 0)

where R holds the bins with the highest ratios, as many as there are with P(R | T = 0) ≤ P(R | T = 1) / 50. The second
finds what the first does not: a column that gives away a part of the people, but these for certain. Neither depends on
how many people withhold. A boosted model of all base features, trained on one half of the people and applied to
the other, gives the area for all columns together. How much of it is lost if the values of one column are dealt
out at random is what that column tells beyond the others (nothing, where another column tells the same).

The models are early-stopped, on a sample of at most 20,000 people, and apart from the cross-fitted ones that decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._common import Array, did_you_mean
from .._consent import Consent
from .._tables.sources import SourceTable
from .._virtual.plan import child_seed, plan_masks
from .._virtual.rows import MaskedRows
from .findings import CERTIFIED, GIVEN_AWAY, INCONCLUSIVE, BaseFeature, Penalty, RecognisedPeople, Recognition
from .nuisance import AVAILABILITY, LightGBMLearner, lightgbm_params, random_folds
from .people import AuditPeople
from .settings import FittingOptions

ALMOST_PERFECT = 0.95
"""From this area on, a column or a model tells almost perfectly who withholds."""
MANY_GIVEN_AWAY = 0.25
"""From this share of recognised people on, a column is worth a look."""
A_PART = 0.1
"""From this loss of area on, a column has a part in what columns only tell together."""
RARER = 50
"""How much rarer a value must be among those who share, to give away those who withhold."""

MAX_PEOPLE = 20_000
MAX_VALUES = 8_000_000
"""Of the table of a sample of the people."""
MIN_PEOPLE = 50
"""On either side, to say anything about a group."""
MAX_BINS = 32
MAX_VALUES_OF_THEIR_OWN = 64
"""Columns with no more values have a bin for each."""
MAX_MODELLED = 8
"""For how many groups, those that single columns tell most about, models of all columns are fitted."""
MAX_DEALT_OUT = 30
"""For how many columns, what they tell beyond the others is measured."""
MAX_ASKED = 1_000
"""How many people of a half are predicted with a column dealt out."""

_TINY = 1e-12
_REMEDY = (
    "Whoever withholds can be recognised by it, so a model may read silence through it, and an audit does not see "
    "that: it compares people with the same base data. Keep such a column out, or justify it."
)


@dataclass(frozen=True)
class _Target:
    """Who withholds one group, or all of them, within the sample."""

    group: str | None
    people: int
    withholds: Array


def recognise(people: AuditPeople, fitting: FittingOptions) -> Recognition | None:
    """Measure how well base features tell who withholds; None if there are none, or too few people on either side."""
    base = [j for j in range(people.source.n_columns) if j not in set(people.consent.group_columns.tolist())]
    sample = sample_people(people, fitting.seed)
    targets = _targets(people, sample)
    if not base or not targets:
        return None
    halves = _Halves(people, sample, fitting)
    bins = {j: bins_of(halves.table[:, j], j in people.source.coded) for j in base}
    alone = {(j, t): halves.alone(bins[j], targets[t].withholds) for j in base for t in range(len(targets))}
    loudest = sorted(range(len(targets)), key=lambda t: -max(alone[j, t][0] for j in base))[:MAX_MODELLED]
    together: dict[int, float] = {}
    beyond: dict[tuple[int, int], float] = {}
    for t in loudest:
        dealt = sorted(base, key=lambda j: -alone[j, t][0])[:MAX_DEALT_OUT]
        together[t], lost = halves.together(targets[t].withholds, dealt)
        beyond |= {(j, t): loss for j, loss in zip(dealt, lost, strict=True)}
    told = {
        key: max(area_alone - 0.5, recognised / 2, beyond.get(key, 0.0))
        for key, (area_alone, recognised) in alone.items()
    }
    most = {j: max(range(len(targets)), key=lambda t: told[j, t]) for j in base}
    conspicuous = {j for j, t in most.items() if _gives_away(*alone[j, t])}
    if not conspicuous:  # by itself; perhaps together with others
        conspicuous = {
            j for j, t in most.items() if together.get(t, 0.0) >= ALMOST_PERFECT and beyond.get((j, t), 0.0) >= A_PART
        }
    names = people.consent.feature_names
    columns = [
        BaseFeature(
            name=names[j],
            group=targets[t].group,
            alone=alone[j, t][0],
            recognised=alone[j, t][1],
            beyond_others=beyond.get((j, t)),
            conspicuous=j in conspicuous,
        )
        for j, t in sorted(most.items(), key=lambda item: (item[0] not in conspicuous, -told[item]))
    ]
    found = [RecognisedPeople(one.group, one.people, together.get(t)) for t, one in enumerate(targets)]
    return Recognition(len(sample), tuple(found), tuple(columns))


def _gives_away(alone: float, recognised: float) -> bool:
    return alone >= ALMOST_PERFECT or recognised >= MANY_GIVEN_AWAY


def sample_people(people: AuditPeople, seed: int) -> Array:
    size = min(MAX_PEOPLE, max(2_000, MAX_VALUES // people.source.n_columns))
    if len(people) <= size:
        return np.arange(len(people))
    return np.sort(np.random.default_rng(child_seed(seed, 6)).choice(len(people), size, replace=False))


def _targets(people: AuditPeople, sample: Array) -> list[_Target]:
    """Return who withholds each group, and who withholds all, where there are enough people on both sides."""
    some = people.shared[sample]
    silent = [(None, people.shared == 0)] if people.consent.n_groups > 1 else []
    by_group = [
        (group, ((people.shared >> np.uint64(g)) & np.uint64(1)) == 0)
        for g, group in enumerate(people.consent.group_names)
    ]
    targets = [_Target(group, int(who.sum()), who[sample]) for group, who in [*by_group, *silent]]
    return [one for one in targets if min(one.withholds.sum(), len(some) - one.withholds.sum()) >= MIN_PEOPLE]


def columns_that_tell(found: Recognition | None, justified: Sequence[str], consent: Consent) -> list[BaseFeature]:
    """Return the base columns that give away who withholds, without those for which there is a good reason."""
    for name in justified:
        if name not in consent.feature_names:
            raise ValueError(
                f"justified names {name!r}, which is no column.{did_you_mean(name, consent.feature_names)}"
            )
    columns = () if found is None else found.columns
    return [column for column in columns if column.conspicuous and column.name not in justified]


def recognition_in_words(telling: Sequence[BaseFeature]) -> list[str]:
    """Return warnings about columns that give away who withholds: one for each, or one for several that do together."""
    alone = [column for column in telling if _gives_away(column.alone, column.recognised)]
    if alone or not telling:
        return [f"{_in_words(column)} {_REMEDY}" for column in alone]
    about = telling[0].group
    names = ", ".join(repr(column.name) for column in telling if column.group == about)
    return [f"Base columns {names} together predict almost perfectly {_who_withholds(about)}. {_REMEDY}"]


def _who_withholds(group: str | None) -> str:
    return "who shares nothing" if group is None else f"who withholds {group!r}"


def _in_words(column: BaseFeature) -> str:
    if column.alone >= ALMOST_PERFECT:
        return f"Base column {column.name!r} predicts almost perfectly {_who_withholds(column.group)}."
    people = "share nothing" if column.group is None else f"withhold {column.group!r}"
    return (
        f"Base column {column.name!r} gives away about {column.recognised:.0%} of the people who {people}: hardly "
        "anybody else has their values."
    )


class _Halves:
    """A sample of the people in two halves, each of which is predicted by what was learned from the other."""

    def __init__(self, people: AuditPeople, sample: Array, fitting: FittingOptions) -> None:
        weight = None if bool((people.weight == 1).all()) else people.weight
        table = SourceTable.of(people.source, people.y, weight, name="the audit data").subset(sample)
        nothing = plan_masks(np.zeros(len(sample), dtype=np.uint64), "none")
        rows = MaskedRows(table.source, people.consent, nothing, num_threads=fitting.num_threads)
        cluster = None if people.cluster is None else people.cluster[sample]
        self._learner = LightGBMLearner(rows, table, lightgbm_params(fitting.num_threads), cluster=cluster)
        self.table = rows.materialise()
        self._weight, self._seed = people.weight[sample], child_seed(fitting.seed, 7)
        second = random_folds(len(people), 2, self._seed, people.cluster)[sample] == 1
        parts = np.flatnonzero(second), np.flatnonzero(~second)
        self._halves = (parts, parts[::-1])

    def alone(self, bins: Array, withholds: Array) -> tuple[float, float]:
        """Return the area and the share recognised: learned from one half, applied to the other, both ways averaged."""
        areas, recognised = [], []
        for learn, ask in self._halves:
            yes, no = self._counts(bins, withholds, learn)
            asked_yes, asked_no = self._counts(bins, withholds, ask)
            ratio = (yes / max(yes.sum(), _TINY) + _TINY) / (no / max(no.sum(), _TINY) + _TINY)
            order = np.argsort(-ratio, kind="stable")
            areas.append(_area_of_bins(asked_yes[order], asked_no[order], ratio[order]))
            rare = order[: _given_away(yes[order], no[order], float(self._weight[learn].mean()))]
            given = [float(side[rare].sum() / max(side.sum(), _TINY)) for side in (asked_yes, asked_no)]
            recognised.append(max(0.0, given[0] - given[1]))
        return float(np.mean(areas)), float(np.mean(recognised))

    def _counts(self, bins: Array, withholds: Array, rows: Array) -> tuple[Array, Array]:
        """Return how many people of each bin withhold, and how many share, by weight."""
        size, who, weight = int(bins.max()) + 1, withholds[rows], self._weight[rows]
        yes, no = (np.bincount(bins[rows], weights=weight * side, minlength=size) for side in (who, ~who))
        return yes, no

    def together(self, withholds: Array, columns: list[int]) -> tuple[float, list[float]]:
        """Return the area of a model of all columns, and what is lost of it with each of some columns dealt out."""
        areas, losses = [], []
        for number, (learn, ask) in enumerate(self._halves):
            seed = child_seed(self._seed, number)
            booster = self._fitted(learn, withholds, seed)
            areas.append(area(booster(self.table[ask]), withholds[ask], self._weight[ask]))
            rng = np.random.default_rng(seed)
            few = np.sort(rng.choice(ask, min(len(ask), MAX_ASKED), replace=False))
            whole = area(booster(self.table[few]), withholds[few], self._weight[few])
            losses.append([whole - self._dealt_out(booster, few, withholds, j, rng) for j in columns])
        return float(np.mean(areas)), np.mean(losses, axis=0).tolist()

    def _fitted(self, learn: Array, withholds: Array, seed: int) -> Any:
        target = withholds.astype(np.float64)
        if (target[learn] == target[learn[0]]).all():
            return lambda table: np.zeros(len(table))
        return self._learner.train(learn, target, AVAILABILITY.lightgbm_params, seed).predict

    def _dealt_out(self, predict: Any, rows: Array, withholds: Array, column: int, rng: np.random.Generator) -> float:
        table = self.table[rows]
        table[:, column] = rng.permutation(table[:, column])
        return area(predict(table), withholds[rows], self._weight[rows])


def bins_of(values: Array, coded: bool) -> Array:
    """Return the bin of each value: missing values first, then values or ranges of them; categories are not ranges."""
    missing = np.isnan(values)
    distinct, place = np.unique(np.where(missing, 0.0, values), return_inverse=True)
    if len(distinct) > MAX_VALUES_OF_THEIR_OWN:
        if coded:
            rank = np.argsort(np.argsort(-np.bincount(place[~missing], minlength=len(distinct)), kind="stable"))
            place = np.minimum(rank, MAX_VALUES_OF_THEIR_OWN - 1)[place]
        else:
            edges = np.quantile(values[~missing], np.linspace(0, 1, MAX_BINS + 1)[1:-1])
            place = np.searchsorted(edges, values, side="right")
    return np.where(missing, 0, place + 1)


def _given_away(yes: Array, no: Array, one: float) -> int:
    """Return how many of the first bins give people away: those who share are :data:`RARER` times rarer in them.

    ``one`` is the weight of a person. One more is counted among those who share, so that few people prove nothing.
    """
    share_yes, share_no = np.cumsum(yes) / max(yes.sum(), _TINY), (np.cumsum(no) + one) / max(no.sum(), _TINY)
    enough = np.flatnonzero(share_no * RARER <= share_yes)
    return int(enough[-1]) + 1 if len(enough) else 0


def area(score: Array, positive: Array, weight: Array) -> float:
    """Return P(score of a positive > score of a negative) + ½ P(equal), weighted; ½ if either is missing."""
    distinct, place = np.unique(score, return_inverse=True)
    yes, no = (np.bincount(place, weights=weight * side, minlength=len(distinct)) for side in (positive, ~positive))
    return _area_of_bins(yes[::-1], no[::-1], distinct[::-1])


def _area_of_bins(yes: Array, no: Array, score: Array) -> float:
    """Return the area for people in bins, those with the highest score first; equal scores are ties."""
    total = yes.sum() * no.sum()
    if total == 0:
        return 0.5
    tie = np.cumsum(np.concatenate([[0], score[1:] != score[:-1]]))
    yes, no = np.bincount(tie, weights=yes), np.bincount(tie, weights=no)
    return float((no * (np.cumsum(yes) - yes / 2)).sum() / total)


def on_columns_that_tell(
    verdict: str, reason: str, penalties: Sequence[Penalty], telling: Sequence[BaseFeature]
) -> tuple[str, str, list[Penalty]]:
    """Return verdict, reason and penalties with nothing certified about those whom base columns give away.

    They are compared with others who have the same value of these columns, and so with themselves: a small penalty
    means nothing. A large one is real all the same.
    """
    if not telling:
        return verdict, reason, list(penalties)
    groups = {column.group for column in telling}
    lowered = [
        replace(p, verdict=INCONCLUSIVE, note=GIVEN_AWAY) if p.verdict == CERTIFIED and _withholds(p, groups) else p
        for p in penalties
    ]
    if verdict != CERTIFIED:
        return verdict, reason, lowered
    names = ", ".join(repr(column.name) for column in telling)
    columns, them = ("Base column", "it") if len(telling) == 1 else ("Base columns", "them")
    return (
        INCONCLUSIVE,
        (
            f"{columns} {names} {'gives' if len(telling) == 1 else 'give'} away who withholds, so these people are "
            f"compared with themselves, and a model that reads their silence there would pass. Leave {them} out of the "
            f"model, or name {them} in justified if there is a good reason for {them}."
        ),
        lowered,
    )


def _withholds(p: Penalty, groups: set[str | None]) -> bool:
    """Return whether a set is about people who withhold one of the groups; None stands for all groups at once."""
    if not p.decisive:
        return False
    return p.groups is None or any(p.groups == () if group is None else group not in p.groups for group in groups)
