"""Penalties batch after batch, with bounds that hold at every look.

With the audit's score s = D·h + e·(V − h) and size D (see ``scores``), u(m) = s − m·D has
mean (θ − m)·P(D = 1). If h and e come from models fitted to *earlier* batches, then under θ ≤ m at all times
M_n = Σ u_i(m) is a supermartingale up to the product of the models' errors. For N(0, 1)-like increments of variance V,
exp(λM − λ²V/2) has expectation at most 1 for every λ > 0, and so has its average over a half-normal λ of variance 1/ρ.
By Ville's inequality it ever exceeds 1/α with probability at most α, which gives a bound for all n at once,

    M_n ≤ √(2(V_n + ρ)·log(1 + √((V_n + ρ)/ρ)/(2α))),        V_n = Σ u_i(m)²

(Robbins; one-sided as in Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, *Time-uniform central limit theory and
asymptotic confidence sequences*; asymptotic, hence nothing is judged before enough people and events are there). All m
that no bound excludes make an interval that holds at every look. A set is violated if ±margin is excluded at α split
over sets and sides, so that any false alarm, ever, has probability α. It is certified if its own interval, at α per
side, lies within the margin: all sets must be (an intersection-union test), so nothing is split. ρ is fixed in the
first batch such that the bound is tightest after about :data:`HORIZON` batches of that size. The first batch is
cross-fitted in itself as in an audit, since to use it for fitting only would lose a month of power.

One model of each kind serves all sets (what is missing tells the set). After a batch has been scored, both are fitted
to disjoint halves of it: trees added to the audited model's own prediction, and to the share P(A = S | A ⊇ S) of each
set. These starts matter. What trees shrink away of the level of e would remain as E[e − ê]·(h − ĥ), month after month;
with the level of each set right, a penalty that is the same for all of a set is estimated without bias. Predictions are
averages over the models of the last :data:`MAX_MODELS` batches: to let one booster learn on and on would add up noise.
The state holds sums and trees, no rows of people.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from .._common import Array
from .._tables.sources import Categories
from .._virtual.plan import child_seed
from .findings import ALL_WITHHOLDING, CERTIFIED, RARER_SETS, VIOLATED
from .nuisance import CrossFitter, LightGBMLearner, NuisanceLoss, View, random_folds
from .penalty import MIN_EVENTS, MIN_OTHERS, choose_sets
from .people import AuditedModel, AuditPeople, Loss, choose_loss
from .scores import MaskScores, score_mask
from .settings import FittingOptions, JudgementOptions

Carried: TypeAlias = tuple[tuple[float, ...], str]
"""A model of one batch: a level for each set, and LightGBM's text of what is added to it."""

NOT_DECIDED = "not decided yet"
HORIZON = 12
"""After about so many batches the bounds are tightest."""
MAX_MODELS = 12
"""Predictions of outcome and availability are averages over the models of so many batches."""


def time_uniform_bound(variance: float, rho: float, error: float) -> float:
    """Return what Σ u exceeds at any time with probability at most ``error``, if its mean is not positive."""
    total = variance + rho
    return math.sqrt(2 * total * math.log1p(math.sqrt(total / rho) / (2 * error)))


def rho_for(variance: float, error: float) -> float:
    """Return ρ for which the bound is about tightest at this variance."""
    return variance / (2 * math.log(1 / error) + math.log1p(2 * math.log(1 / error)))


@dataclass(frozen=True)
class Sums:
    """What all batches contribute to one set: moments of scores s and sizes d over people, and counts."""

    score: float = 0.0
    size: float = 0.0
    score_score: float = 0.0
    score_size: float = 0.0
    size_size: float = 0.0
    people: int = 0
    compared: int = 0
    events: int = 0
    """People compared with an outcome (a 1, or more than 0)."""
    rho: float = 0.0
    """Fixed at the first contribution."""
    violated_at: int | None = None
    """The look at which this set was found violated; looking on does not take that back."""

    @classmethod
    def of(cls, score: Array, size: Array, people: int, compared: int, events: int) -> Sums:
        """Sum what independent units (people or clusters) contribute."""
        s, d, ss, sd, dd = (float(np.sum(m)) for m in (score, size, score**2, score * size, size**2))
        return cls(s, d, ss, sd, dd, people, compared, events)

    def plus(self, other: Sums, error: float) -> Sums:
        added: dict[str, Any] = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Sums)[:8]}
        new = replace(self, **added)
        if new.rho or not new.size:
            return new
        # Cross-fitted outcomes may not vary at all; then the next batch decides.
        return replace(new, rho=rho_for(HORIZON * new.variance(new.score / new.size), error))

    def variance(self, m: float) -> float:
        """Return Σ (s − m·d)²."""
        return max(0.0, self.score_score - 2 * m * self.score_size + m * m * self.size_size)

    def exceeds(self, m: float, error: float) -> bool:
        """Return whether the penalty is surely more than m, at this look and all others together."""
        if self.rho == 0:
            return False
        return self.score - m * self.size > time_uniform_bound(self.variance(m), self.rho, error)

    def lower(self, error: float) -> float:
        """Return the largest m that the penalty surely exceeds, −∞ if there is none."""
        from scipy.optimize import brentq

        if self.rho == 0 or self.size == 0:
            return -math.inf

        def excess(m: float) -> float:
            return self.score - m * self.size - time_uniform_bound(self.variance(m), self.rho, error)

        value, step = self.score / self.size, math.sqrt(self.variance(self.score / self.size)) / self.size
        for power in range(20):
            if excess(value - step * 2**power) > 0:
                return float(brentq(excess, value - step * 2**power, value, xtol=1e-12 * max(1.0, step)))
        return -math.inf

    def interval(self, error: float) -> tuple[float, float]:
        """Return the interval with ``error`` on each side."""
        mirrored = replace(self, score=-self.score, score_size=-self.score_size)
        return self.lower(error), -mirrored.lower(error)


@dataclass(frozen=True)
class PenaltySoFar:
    """The average penalty of a set over all batches, with intervals that hold at every look."""

    name: str
    people: int
    value: float | None
    lower: float | None
    upper: float | None
    """Interval of this set alone; within the margin, the set is certified."""
    joint_lower: float | None
    joint_upper: float | None
    """Interval for all sets together; beyond the margin, the set is violated."""
    verdict: str
    note: str = ""


@dataclass(frozen=True)
class State:
    """What is carried from batch to batch: sums, and models of outcome and availability as text."""

    margin: float
    level: float
    loss: str
    alpha: float
    min_count: int
    looks: int
    people: int
    sets: tuple[int, ...]
    """Tested on their own, as masks; all others together."""
    sums: dict[str, Sums]
    outcome: tuple[Carried, ...] = ()
    availability: tuple[Carried, ...] = ()
    """A model for each of the last batches."""
    learned_from: tuple[int, ...] = ()
    """How many people were in these batches."""
    categories: Categories | None = None

    @property
    def error(self) -> float:
        return 1 - self.level

    @property
    def joint_error(self) -> float:
        return self.error / (2 * len(self.sums))

    def judged(self) -> tuple[PenaltySoFar, ...]:
        return tuple(self._judged(name, sums) for name, sums in self.sums.items())

    def _judged(self, name: str, sums: Sums) -> PenaltySoFar:
        why = self.shortcoming(sums)
        if why and sums.violated_at is None:
            return PenaltySoFar(name, sums.people, None, None, None, None, None, NOT_DECIDED, why)
        (lower, upper), joint = sums.interval(self.error), sums.interval(self.joint_error)
        within = -self.margin < lower and upper < self.margin
        violated, note = sums.violated_at is not None, ""
        if violated:
            note = f"Found at look {sums.violated_at}."
        verdict = VIOLATED if violated else CERTIFIED if within else NOT_DECIDED
        return PenaltySoFar(name, sums.people, sums.score / sums.size, lower, upper, *joint, verdict, note)

    def shortcoming(self, sums: Sums) -> str:
        """Return why nothing is judged yet: bounds hold for many people, and earlier ones would err more often."""
        if sums.people < self.min_count:
            return f"Fewer than {self.min_count} people so far."
        if sums.compared - sums.people < MIN_OTHERS:
            return f"Fewer than {MIN_OTHERS} people who share more so far."
        events = sums.events if self.loss == "poisson" else min(sums.events, sums.compared - sums.events)
        if self.loss != "squared" and events < MIN_EVENTS:
            return f"Fewer than {MIN_EVENTS} people compared with either outcome so far."
        return ""

    def with_verdicts(self) -> State:
        """Return the state in which sets found violated now are marked."""
        sums = {}
        for name, one in self.sums.items():
            mirrored = replace(one, score=-one.score, score_size=-one.score_size)
            found = any(side.exceeds(self.margin, self.joint_error) for side in (one, mirrored))
            new = one.violated_at is None and found and not self.shortcoming(one)
            sums[name] = replace(one, violated_at=self.looks) if new else one
        return replace(self, sums=sums)


@dataclass(frozen=True)
class _Carried(View):
    """A view whose predictions come from models of earlier batches."""

    state: State | None = None

    def cross_fit(
        self,
        target: Array,
        loss: NuisanceLoss,
        half: int | None = None,
        start: Array | None = None,
        among: Array | None = None,
    ) -> Array:
        assert self.state is not None
        if loss.model == "availability":
            return np.clip(self._mean(self.state.availability), 0.0, 1.0)
        assert start is not None
        return start + self._mean(self.state.outcome)

    def _mean(self, models: Sequence[Carried]) -> Array:
        """Return the average prediction of earlier batches' models, weighted by the people they have learned from."""
        import lightgbm as lgb

        assert self.state is not None
        assert isinstance(self.learner, LightGBMLearner)
        threads, everybody = self.fitter.fitting.num_threads or 0, np.arange(len(self.rows))
        out = np.zeros(len(self.rows))
        for (levels, trees), people in zip(models, self.state.learned_from, strict=True):
            out += people * self.levels(levels)
            if trees:
                out += people * self.learner.predict(lgb.Booster(model_str=trees), everybody, num_threads=threads)
        return out / sum(self.state.learned_from)

    def levels(self, levels: Sequence[float]) -> Array:
        """Return the level of each row: those of the sets tested on their own, then that of all others."""
        assert self.state is not None
        out = np.full(len(self.rows), levels[-1])
        for mask, level in zip(self.state.sets, levels[:-1], strict=True):
            out[self.shown == np.uint64(mask)] = level
        return out

    def shares(self, exact: Array, rows: Array) -> tuple[float, ...]:
        """Return the share of D = 1 among some rows, for each set tested on its own, and for all others."""
        assert self.state is not None
        masks = np.array(self.state.sets, dtype=np.uint64)
        some = [rows[self.shown[rows] == mask] for mask in masks] + [rows[~np.isin(self.shown[rows], masks)]]
        return tuple(float(np.average(exact[one], weights=self.weight[one])) if len(one) else 0.0 for one in some)


def look(
    model: Any,
    people: AuditPeople,
    output: int | None,
    state: State | None,
    margin: float,
    options: JudgementOptions,
    fitting: FittingOptions,
) -> State:
    """Score a batch with models of earlier ones, add it to the sums, then let the models learn from it."""
    loss = choose_loss(options.loss, options.alpha, model, people.y) if state is None else Loss(state.loss, state.alpha)
    audited = AuditedModel(model, people, output, fitting.num_threads)
    if np.unique(people.y).size > 1:
        loss.check(audited.given, people.y)
    first = state is None
    if state is None:
        spread = float(
            np.sqrt(np.average((people.y - np.average(people.y, weights=people.weight)) ** 2, weights=people.weight))
        )
        options.check_margin(loss.unit_is_probability, spread)
        sets = tuple(m for m in choose_sets(people, options).alone if m != people.everything)
        names = [people.name(mask) for mask in sets]
        # With one group there is one set that withholds something.
        names += [RARER_SETS, ALL_WITHHOLDING] if people.consent.n_groups > 1 else [] if names else [people.name(0)]
        none = {name: Sums() for name in names}
        state = State(
            margin,
            options.level,
            loss.name,
            loss.alpha,
            options.min_count,
            0,
            0,
            sets,
            none,
            categories=people.source.categories,
        )
    fitter = CrossFitter(people, replace(fitting, seed=child_seed(fitting.seed, 1_000 + state.looks)))
    masks = [m for m in dict.fromkeys([*state.sets, *people.mask_counts]) if m != people.everything]
    masks = [m for m in masks if len(people.at_least(m))]
    if not masks:
        return replace(state, looks=state.looks + 1, people=state.people + len(people))
    view = fitter.stack(masks)
    carried = _Carried(**{f.name: getattr(view, f.name) for f in fields(View)}, state=state)
    scores = score_mask(people, audited, loss, view if first else carried, None)
    sums = {
        name: one.plus(_contribution(people, scores, view.shown, _masks_of(name, state, people, masks)), state.error)
        for name, one in state.sums.items()
    }
    state = replace(state, sums=sums, looks=state.looks + 1, people=state.people + len(people)).with_verdicts()
    return _learn(state, carried, people, scores, loss)


def _masks_of(name: str, state: State, people: AuditPeople, masks: Iterable[int]) -> list[int]:
    if name == ALL_WITHHOLDING:
        return list(masks)
    if name == RARER_SETS:
        return [mask for mask in masks if mask not in state.sets]
    return [mask for mask in masks if people.name(mask) == name]


def _contribution(people: AuditPeople, scores: MaskScores, shown: Array, masks: list[int]) -> Sums:
    """Sum the rows of some sets: person by person, or cluster by cluster."""
    some = np.isin(shown, np.array(masks, dtype=np.uint64))
    rows = scores.rows[some]
    unit = rows if people.cluster is None else people.cluster[rows]
    score, size = (np.bincount(unit, weights=part[some]) for part in (scores.score, scores.size))
    compared, place = np.unique(rows, return_index=True)
    events = int((scores.target[some][place] > 0).sum())
    return Sums.of(score, size, int((scores.size[some] > 0).sum()), len(compared), events)


def _learn(state: State, view: _Carried, people: AuditPeople, scores: MaskScores, loss: Loss) -> State:
    """Let both models learn from a batch that has been scored, on disjoint halves of its people."""
    learner, seed = view.learner, view.fitter.fitting.seed
    assert isinstance(learner, LightGBMLearner)
    assert scores.deviation is not None
    half = random_folds(len(people), 2, child_seed(seed, 1), people.cluster)[scores.rows]
    halves = [np.flatnonzero(half == side) for side in (0, 1)]
    exact = (scores.size > 0).astype(np.float64)
    start = scores.deviation + scores.target if loss.is_mean else np.full(len(exact), loss.alpha)
    levels = view.shares(exact, halves[1])
    none = (0.0,) * len(levels)
    g = (none, _fit(learner, scores.target, start, halves[0], child_seed(seed, 2)))
    e = (levels, _fit(learner, exact, view.levels(levels), halves[1], child_seed(seed, 3)))
    return replace(
        state,
        outcome=(*state.outcome, g)[-MAX_MODELS:],
        availability=(*state.availability, e)[-MAX_MODELS:],
        learned_from=(*state.learned_from, len(people))[-MAX_MODELS:],
    )


def _fit(learner: LightGBMLearner, target: Array, start: Array, rows: Array, seed: int) -> str:
    """Return trees of what is missing from a start as text, none if there is nothing to learn."""
    if len(rows) < 2 or (target[rows] == target[rows[0]]).all():
        return ""
    return _text(learner.residual(rows, target, seed, start))


def _text(booster: Any) -> str:
    """Return a booster as text, without the smallest and largest value of each column, which are somebody's."""
    if booster is None:
        return ""
    text = booster.model_to_string(num_iteration=booster.best_iteration)
    return re.sub(r"\nfeature_infos=.*", "\nfeature_infos=" + " ".join(["none"] * booster.num_feature()), text)
