"""``puc.check``: is a table suitable, and what could an audit decide with it? Before training, and without outcomes.

**The detectable margin.** For people who share exactly S, an audit sums the scores D(f − g) − e(Y − g) over everybody
with A ⊇ S, where D = 1[A = S], g = E[Y | b, z_S, A ⊇ S] and e = P(A = S | b, z_S, A ⊇ S), and divides by Σ D (see
:mod:`pucboost._auditing.scores`). For a model that is right f = g, and of the score −e(Y − g) is left. Hence

    se(θ̂_S) = σ·√(Σ e²) / Σ D,        σ² = Σ e²(Y − g)² / Σ e².

Everything but σ is known from who shares what: e is cross-fitted from the table alone. σ is at most the standard
deviation of the outcomes, for events √(p(1 − p)), and smaller the better outcomes can be predicted. By Cauchy and
Schwarz, and because e ≤ 1, the error lies between σ/√n(A ⊇ S) and σ/√n(A = S).

Since E[e²] = E[e·D], Σ e·D would estimate Σ e² from a noisy ê without bias. But an audit has the same noisy ê, and its
error grows with Σ ê², which in small sets is up to a third larger in root. So it is Σ ê² that is summed, with the ê of
the audit itself: same folds, halves and parameters.

Two one-sided tests at 5 % certify a penalty of 0 if |θ̂| + z₀.₉₅·se is within the margin. With probability 80 % it is
if the margin is at least (z₀.₉₅ + z₀.₉₀)·se = 2.93·se. Sets that are tested together add up person by person, Σ_S e_S
in place of e, as their scores do.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common import Array
from .._consent import OptionalColumns, declares_something
from .._not_applicable import NotApplicable as Declared
from .._pages import deliver
from .._silence import BASE_COLUMN, EncodedSilence, find_encoded_silence
from .._tables.sources import eager, engine_threads_for, row_source
from .blocks import Block, Cell, Document, Table, count, fixed, listing, share, significant
from .context import surely_alone
from .findings import ALL_WITHHOLDING, INCONCLUSIVE, RARER_SETS, Coverage, GroupSupport, Recognition, people_who, plain
from .nuisance import AVAILABILITY, CrossFitter
from .penalty import (
    MANY_RECOGNISED,
    Sets,
    choose_sets,
    coverage,
    gather_claims,
    not_testable,
    untested_sets,
    why_nothing_can_be_tested,
)
from .people import AuditPeople, Loss, read_audit_people
from .recognition import MAX_BINS, bins_of, columns_that_tell, recognise, recognition_in_words, sample_people
from .scores import MaskScores, normal_quantile
from .settings import FittingOptions, JudgementOptions, counted

if TYPE_CHECKING:
    import pandas as pd

SUITABLE, CAVEATS, NOT_YET = "suitable", "suitable with caveats", "not suitable yet"
ALONE, TOGETHER, NOT_AT_ALL, COMPARISON = "alone", "together with rarer sets", "not at all", "for comparison only"

NEARLY_ALL, FEW_OTHERS = 0.9, 0.5
"""Not-applicable suspects: missing for so many with one value of a base column, and at most for so many others."""
MIN_WITH_VALUE = 30
MANY_VALUES = 12
"""Numbers with more values are looked at in ranges."""
SURE = 0.05
"""Chance that, over all values looked at, some with which at most half are silent is taken for a suspect."""
MAX_SHOWN = 20
"""Rows of a table on the page, and entries of a list."""


@dataclass(frozen=True)
class CheckedSet:
    """People who share exactly one set of groups, or several sets together, and what an audit could tell about them."""

    name: str
    groups: tuple[str, ...] | None
    """None for several sets together."""
    people: int
    compared: int
    """How many people share at least as much."""
    tested: str
    """``"alone"``, ``"together with rarer sets"``, ``"not at all"`` or, for everything, ``"for comparison only"``."""
    why: str
    """Why they would not be tested; else empty."""
    error: float | None = None
    """Standard error of the penalty of a model that is right, in standard deviations σ of the outcomes."""
    margin_sd: float | None = None
    """Detectable margin in σ."""
    margin: float | None = None
    """The same in units of the outcome (0.02: two percentage points); None if σ is not known."""
    with_themselves: float | None = None
    """Share of them who would be compared with themselves, as hardly anybody with the same data shares more."""


@dataclass(frozen=True)
class NotApplicable:
    """An optional column that is missing for nearly everybody with one value of a base column."""

    column: str
    base_column: str
    value: str
    people: int
    """How many people have that value, among those looked at."""
    missing: float
    """Share of them without a value in the optional column."""
    missing_elsewhere: float

    def __str__(self) -> str:
        return (
            f"{self.column!r} is missing for {share(self.missing, 0)} of the {count(self.people)} people with "
            f"{self.base_column} = {self.value}, and for {share(self.missing_elsewhere, 0)} of the others: declined, "
            "or not applicable?"
        )


@dataclass(frozen=True)
class Suitability:
    """What :func:`pucboost.check` finds: ``conclusion`` and ``reason`` first, then the findings they rest on.

    ``to_html`` and ``to_markdown`` write a page, which notebooks and ``print`` show; ``to_json`` writes all fields.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(600, 2)); X[::3, 1] = np.nan
    >>> found = puc.check(X, optional=[1], event_rate=0.1)
    >>> found.to_frame()["tested"].to_dict()
    {'everything': 'for comparison only', 'nothing': 'alone'}
    """

    conclusion: str
    """``"suitable"``, ``"suitable with caveats"`` or ``"not suitable yet"``."""
    reason: str
    people: int
    groups: tuple[GroupSupport, ...]
    sets: tuple[CheckedSet, ...]
    """The largest first; then several of them together."""
    coverage: Coverage
    encoded: tuple[EncodedSilence, ...]
    """Signs that silence was imputed or encoded, or is told by base columns."""
    recognition: Recognition | None
    """How well base columns tell who withholds; None if there are none, or too few people."""
    telling: tuple[str, ...]
    """Base columns that tell it nearly for certain, in words."""
    not_applicable: tuple[NotApplicable, ...]
    outcome_sd: float | None
    """σ; None if it was not given."""
    events: bool
    """Whether outcomes are events, and margins probabilities."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each set of people, with what they share as index.

        - ``people``: how many share exactly this
        - ``compared``: how many share at least this
        - ``tested``: how an audit would test them
        - ``error``: standard error for a model that is right, in standard deviations of the outcomes
        - ``margin_sd``: detectable margin, likewise
        - ``margin``: the same in units of the outcome, if its spread is known
        - ``with_themselves``: share of them who would be compared with themselves
        - ``why``: why they would not be tested
        """
        import pandas as pd

        columns = ["people", "compared", "tested", "error", "margin_sd", "margin", "with_themselves", "why"]
        index = pd.Index([one.name for one in self.sets], name="shares")
        return pd.DataFrame({name: [getattr(one, name) for one in self.sets] for name in columns}, index=index)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data: dicts, lists, strings, numbers and None."""
        found: dict[str, Any] = plain(self)
        return found

    def to_json(self, path: str | Path | None = None) -> str:
        """Return :meth:`to_dict` as JSON, and write it to ``path`` (whole or not at all) if one is given."""
        return deliver(json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False), path)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one self-contained HTML page, and write it to ``path`` (whole or not at all) if one is given."""
        return _page(self).to_html(path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the page as Markdown, and write it to ``path`` (whole or not at all) if one is given."""
        return _page(self).to_markdown(path)

    def _repr_html_(self) -> str:
        return _page(self)._repr_html_()

    def __str__(self) -> str:
        return str(_page(self))

    def __repr__(self) -> str:
        return f"Suitability({self.conclusion!r}, {count(self.people)} people, {len(self.groups)} groups)"


def check(
    X: Any,
    *,
    optional: OptionalColumns,
    not_applicable: Declared = None,
    y: Any = None,
    available: Any = None,
    event_rate: float | None = None,
    outcome_sd: float | None = None,
    num_threads: int | None = None,
    seed: int = 0,
) -> Suitability:
    """Look before training whether a table is suitable, and what an audit could decide with so many people.

    It reports who shares what, silence that seems imputed or encoded, base columns that tell who withholds, values that
    may be missing because they do not apply, and for each set of people the detectable margin: the smallest with which
    an audit certifies, with probability 80 %, a model whose penalty is 0. Outcomes are not looked at; where ``y`` is
    given, only their spread is.

    Parameters
    ----------
    X
        One row per person, in any container that :func:`pucboost.audit` reads.
    optional, not_applicable, available
        What is optional, where it does not apply, and who shares it, as in :class:`pucboost.Dataset`.
    y
        Outcomes. Their standard deviation turns margins into amounts, or points where all are 0 or 1.
    event_rate
        Instead of ``y``: how often the event is expected, between 0 and 1.
    outcome_sd
        Instead of ``y``: the standard deviation of outcomes around predictions, such as the root mean squared error of
        an existing model. That of the outcomes themselves, as taken from ``y`` or ``event_rate``, is an upper bound.
    num_threads, seed
        Threads, and seed of the folds.

    Returns
    -------
    Suitability
        ``conclusion``, ``reason``, ``to_frame`` (a row per set of people), ``to_html``, ``to_markdown``, ``to_json``.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(2000, 3)); X[::3, 1] = X[::4, 2] = np.nan
    >>> found = puc.check(X, optional=[1, 2], event_rate=0.1)
    >>> found.conclusion
    'suitable'
    >>> bool(0.01 < found.to_frame().loc["nothing", "margin"] < 0.1)
    True
    """
    if not declares_something(optional):
        raise ValueError(
            "optional names nothing that people may withhold. Name columns or groups: optional=[columns] or "
            "optional={group: [columns]}."
        )
    given = {"y": y, "event_rate": event_rate, "outcome_sd": outcome_sd}
    several = [name for name, value in given.items() if value is not None]
    if len(several) > 1:
        raise ValueError(f"{' and '.join(several)} say the same, the spread of outcomes; give one of them.")
    source = row_source(eager(X))
    people, _ = read_audit_people(
        source,
        np.zeros(source.n_rows) if y is None else y,
        optional=optional,
        not_applicable=not_applicable,
        available=available,
        num_threads=num_threads,
    )
    rate, sigma = _spread(None if y is None else people.y, event_rate, outcome_sd)
    fitting, judgement = FittingOptions(seed=seed, num_threads=num_threads), JudgementOptions(margin=1.0)
    with engine_threads_for(num_threads, source):
        sets, covered = _sets(people, rate, sigma, fitting, judgement)
        recognition = recognise(people, fitting)
    shared = [int(((people.shared >> np.uint64(g)) & np.uint64(1)).sum()) for g in range(people.consent.n_groups)]
    found = Suitability(
        conclusion="",
        reason="",
        people=len(people),
        groups=tuple(
            GroupSupport(name, n / len(people), len(people) - n, n)
            for name, n in zip(people.consent.group_names, shared, strict=True)
        ),
        sets=tuple(sets),
        coverage=covered,
        encoded=tuple(find_encoded_silence(people.source, people.consent, people.shared)),
        recognition=recognition,
        telling=tuple(recognition_in_words(columns_that_tell(recognition, (), people.consent))),
        not_applicable=tuple(_not_applicable(people, seed)),
        outcome_sd=sigma,
        events=rate is not None,
    )
    conclusion, reason = _conclude(found)
    return replace(found, conclusion=conclusion, reason=reason)


def _spread(y: Array | None, event_rate: Any, outcome_sd: Any) -> tuple[float | None, float | None]:
    """Return how often the event happens, if outcomes are events, and σ."""
    if y is not None:
        if (y == y[0]).all():
            raise ValueError(
                f"y is {y[0]:g} for everybody, so its spread says nothing. Leave y out, or give event_rate."
            )
        if not np.isin(y, (0, 1)).all():
            return None, float(y.std())
        event_rate = float(y.mean())
    if event_rate is not None:
        if isinstance(event_rate, bool) or not 0 < event_rate < 1:
            raise ValueError(f"event_rate must lie between 0 and 1, such as 0.1 for 10 %; got {event_rate!r}.")
        return float(event_rate), float(np.sqrt(event_rate * (1 - event_rate)))
    if outcome_sd is not None and (isinstance(outcome_sd, bool) or not 0 < outcome_sd < np.inf):
        raise ValueError(f"outcome_sd must be a positive number, a standard deviation; got {outcome_sd!r}.")
    return None, None if outcome_sd is None else float(outcome_sd)


# --------------------------------------------------------------------------------------------------
# Sets of people, and what an audit could tell about each.


def _sets(
    people: AuditPeople, rate: float | None, sigma: float | None, fitting: FittingOptions, judgement: JudgementOptions
) -> tuple[list[CheckedSet], Coverage]:
    """Return all sets with their detectable margins, and whom an audit would cover, by the rules of the audit."""
    sets = choose_sets(people, judgement)
    lacking = why_nothing_can_be_tested(people, sets, Loss("squared"), judgement)
    scored = [] if lacking is not None else _resemblances(people, sets, fitting)
    entries, measured = lacking or [], dict[str, CheckedSet]()
    for claim in gather_claims(people, scored, Loss("squared")) if scored else ():
        # How many events there will be is known roughly; which people have them is not looked at.
        events = np.inf if rate is None else min(rate, 1 - rate) * len(claim.rows)
        why = replace(claim, events=events).shortcoming(people, judgement.min_count)
        groups = None if claim.mask is None else people.consent.groups_of(claim.mask)
        entry = not_testable(claim.name, groups, None, claim.people, len(claim.rows), why)
        decisive = claim.decisive and not why
        entries.append(replace(entry, decisive=decisive, verdict=INCONCLUSIVE if decisive else entry.verdict))
        one = CheckedSet(claim.name, groups, claim.people, len(claim.rows), NOT_AT_ALL if why else ALONE, why)
        if not why:
            error = float(np.sqrt((claim.score**2).sum()) / claim.size.sum())
            margin = (normal_quantile(judgement.level) + normal_quantile(0.9)) * error
            one = replace(one, error=error, margin_sd=margin, margin=None if sigma is None else margin * sigma)
        measured[claim.name] = one
    covered = coverage(people, sets, [*entries, *untested_sets(people, sets, judgement)], (), judgement)
    gaps = {gap.name: gap.why for gap in covered.gaps}
    alone = {people.name(one.mask): _with_themselves(one) for one in scored if one.mask is not None}
    listed = []
    for mask, size in people.mask_counts.items():
        name, groups = people.name(mask), people.consent.groups_of(mask)
        known = measured.get(name, CheckedSet(name, groups, size, len(people.at_least(mask)), TOGETHER, ""))
        if mask == people.everything:
            known = replace(known, tested=COMPARISON, why="")
        elif name in gaps or (mask in sets.pool and RARER_SETS in gaps):
            known = replace(known, tested=NOT_AT_ALL, why=gaps.get(name, gaps.get(RARER_SETS, "")))
        elif known.error is None:
            known = replace(known, tested=TOGETHER, why="")
        listed.append(replace(known, with_themselves=None if mask == people.everything else alone.get(name)))
    together = [measured[name] for name in (RARER_SETS, ALL_WITHHOLDING) if name in measured]
    return [*listed, *together], covered


def _resemblances(people: AuditPeople, sets: Sets, fitting: FittingOptions) -> list[MaskScores]:
    """Return w·ê in place of the score of each set, cross-fitted as the audit does it: outcomes have no part in it."""
    fitter, found = CrossFitter(people, fitting), []
    for mask in [*sets.alone, *([None] if sets.pool else [])]:
        view = fitter.stack(sets.pool) if mask is None else fitter.view(mask)
        exact = people.shared[view.rows] == view.shown
        first, second = (view.cross_fit(exact.astype(np.float64), AVAILABILITY, half) for half in (1, 0))
        score, zero = view.weight * (first + second) / 2, np.zeros(len(exact))
        found.append(MaskScores(mask, view.rows, score, view.weight * exact, zero, (zero, zero), (first, second)))
    return found


def _with_themselves(one: MaskScores) -> float:
    assert one.share is not None
    exact = one.size > 0
    return float(exact[surely_alone((one.share[0] + one.share[1]) / 2, exact)].sum() / exact.sum())


# --------------------------------------------------------------------------------------------------
# Declined, or not applicable?


def _not_applicable(people: AuditPeople, seed: int) -> list[NotApplicable]:
    """Return optional columns that nearly everybody with one value of a base column lacks, while most others have them.

    Many values are looked at. So it is not enough that 90 % lack the column: by a bound that holds for all values
    together (Clopper and Pearson, with Bonferroni's share of 5 %) it must be more than half of those with that value.
    """
    from scipy.stats import beta

    consent, rows = people.consent, sample_people(people, seed)
    values = np.array(people.source.take(rows), dtype=np.float64)
    withheld = {g: (people.shared[rows] >> np.uint64(g)) & np.uint64(1) == 0 for g in range(consent.n_groups)}
    columns: dict[int, Array] = {}
    for g, group in enumerate(consent.group_names):
        for j in consent.groups[group]:
            missing = np.isnan(values[:, j]) | withheld[g]
            if not any((missing == other).all() for k, other in columns.items() if k in consent.groups[group]):
                columns[j] = missing
    base = [j for j in range(values.shape[1]) if not consent.column_bits[j]]
    cells = {j: _cells(values[:, j], j in people.source.coded) for j in base}
    sizes = {j: np.bincount(cells[j]) for j in base}
    looks = len(columns) * sum(int((size >= MIN_WITH_VALUE).sum()) for size in sizes.values())
    found = []
    for j in base:
        for column, missing in columns.items():
            size, lack = sizes[j], np.bincount(cells[j], weights=missing)
            candidates = np.flatnonzero((size >= MIN_WITH_VALUE) & (lack >= NEARLY_ALL * size))
            sure = beta.ppf(SURE / looks, lack[candidates], size[candidates] - lack[candidates] + 1) if looks else []
            candidates = candidates[np.asarray(sure) > FEW_OTHERS]
            others = ~np.isin(cells[j], candidates)
            elsewhere = float(missing[others].mean()) if others.any() else 1.0
            if elsewhere > FEW_OTHERS:
                continue
            for run in _runs(candidates, j in people.source.coded):
                inside = np.isin(cells[j], run)
                value = _value(values[inside, j], j, people)
                rate, names = float(missing[inside].mean()), consent.feature_names
                found.append(NotApplicable(names[column], names[j], value, int(inside.sum()), rate, elsewhere))
    return sorted(found, key=lambda one: -one.people)


def _cells(values: Array, coded: bool) -> Array:
    """Return the cell of each value; numbers with many values are cut into ranges that hold enough people."""
    given = values[~np.isnan(values)]
    ranges = min(MAX_BINS, len(given) // (2 * MIN_WITH_VALUE))
    if coded or ranges < 2 or len(np.unique(given)) <= MANY_VALUES:
        return bins_of(values, coded)
    edges = np.quantile(given, np.linspace(0, 1, ranges + 1)[1:-1])
    return np.where(np.isnan(values), 0, np.searchsorted(edges, values, side="right") + 1)


def _runs(cells: Array, coded: bool) -> list[Array]:
    """Return neighbouring cells of numbers as one; categories, and cell 0 (missing), stand for themselves."""
    apart = np.flatnonzero((np.diff(cells) > 1) | (cells[:-1] == 0) | coded) + 1
    return [run for run in np.split(cells, apart) if len(run)]


def _value(values: Array, column: int, people: AuditPeople) -> str:
    """Return the value that these people have, or the range of values."""
    source, low, high = people.source, values[0] if np.isnan(values[0]) else values.min(), values.max()
    if np.isnan(low):
        return "missing"
    if column in source.coded:
        names = dict(zip(source.coded, source.pandas_categorical or (), strict=False)).get(column)
        if low != high:
            return f"{len(np.unique(values))} rare categories"
        return str(names[int(low)]) if names is not None else f"{low:g}"
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


# --------------------------------------------------------------------------------------------------
# Conclusion and page.


def _conclude(found: Suitability) -> tuple[str, str]:
    """Return the conclusion and why: what must be mended first, then what to keep in mind, then what can be decided."""
    revealing = [one for one in found.encoded if one.kind == BASE_COLUMN]
    covered, first, then = found.coverage, [], []
    if len(revealing) < len(found.encoded):
        groups = dict.fromkeys(repr(one.group) for one in found.encoded if one.kind != BASE_COLUMN)
        first.append(
            f"Silence may have been imputed or encoded in {listing(groups)}; then the silent are not protected."
        )
    if revealing:
        columns = dict.fromkeys(repr(one.column) for one in revealing)
        first.append(f"Base data ({listing(columns)}) tell who is silent; then the silent are not protected.")
    if not covered.withholding:
        first.append("Nobody withholds anything, so there is nothing to learn from and nothing to audit.")
    elif covered.not_covered == covered.withholding:
        gap = covered.gaps[0]
        first.append(f"An audit could test nobody who withholds something. The {people_who(gap.name)}: {gap.why}")
    elif covered.gaps:
        of = f"{count(covered.not_covered)} of {count(covered.withholding)} people who withhold something"
        then.append(f"An audit would not cover {of}, so a model could be certified in part only.")
    if found.telling:
        then.append(
            "Base columns tell nearly for certain who withholds; while they are used, nothing can be certified."
        )
    alone = [one.name for one in found.sets if (one.with_themselves or 0) > MANY_RECOGNISED and one.error is not None]
    if alone:
        then.append(f"Many of the {people_who(alone[0])} would be compared with themselves, so they are not covered.")
    if found.not_applicable:
        then.append("Some values may be missing because they do not apply, which is not silence.")
    wide = max((one for one in found.sets if one.error and one.tested != COMPARISON), key=_margin, default=None)
    if wide is not None:
        then.append(
            f"With so many people, and for each set it tests, an audit would certify a model that is right with a "
            f"probability of at least 80% if the margin is at least {_shown(wide, found)}, which is what "
            f"{people_who(wide.name)} need."
        )
    caveats = len(then) > (wide is not None)
    conclusion = NOT_YET if first else CAVEATS if caveats else SUITABLE
    if conclusion == SUITABLE:
        then.insert(0, "Nothing was found that speaks against training on these people.")
    return conclusion, " ".join([*first, *then])


def _margin(one: CheckedSet) -> float:
    return one.margin_sd or 0.0


def _shown(one: CheckedSet, found: Suitability) -> str:
    if one.margin_sd is None or one.margin is None:
        return "–" if one.margin_sd is None else f"{fixed(one.margin_sd, 3)} standard deviations of the outcomes"
    return f"{fixed(100 * one.margin, 2)} percentage points" if found.events else significant(one.margin, 3)


def _page(found: Suitability) -> Document:
    covered = found.coverage
    facts = {"People": count(found.people), "Withhold something": count(covered.withholding)}
    facts["Of these, in sets that an audit would test"] = count(covered.withholding - covered.not_covered)
    if found.outcome_sd is not None:
        facts["Standard deviation of outcomes (σ)"] = significant(found.outcome_sd)
    signs = (found.encoded, found.telling, found.not_applicable)
    encoded, telling, suspects = ([("Sign:", str(one)) for one in some] for some in signs)
    return Document(
        f"Check: {found.conclusion}",
        f"{count(found.people)} people, {counted(len(found.groups), 'group', 'groups')} of data they may withhold",
        {
            "Conclusion": [found.reason, facts],
            "Who shares what": [_group_table(found), _set_table(found), *_more(len(found.sets)), _READING],
            "Is silence encoded?": [encoded[:MAX_SHOWN] or "No sign of it.", *_more(len(encoded))],
            "Do base columns tell who withholds?": [telling or "None of them does so nearly for certain."],
            "Declined, or not applicable?": [suspects[:MAX_SHOWN] or "No sign of it.", *_more(len(suspects))],
            "What this page does not know": [_LIMITS],
        },
    )


def _more(entries: int) -> list[Block]:
    return [f"And {count(entries - MAX_SHOWN)} more; to_frame and to_json have them."] if entries > MAX_SHOWN else []


_READING = (
    "Whoever shares a set is compared with everybody who shares at least that. The detectable margin is the smallest "
    "with which an audit of as many people certifies a model whose penalty is 0 with a probability of 80%, each set on "
    "its own; with n times the people it is √n times smaller. σ is the standard deviation of outcomes around "
    "predictions. That of the outcomes themselves is an upper bound: the better they can be predicted, the smaller the "
    "margin."
)
_LIMITS = (
    "Signs are suspicions, and their absence is no proof: a good imputer leaves no trace but that nobody withholds. "
    "Outcomes were not looked at, so heavy tails and rare events may make an audit harder than it seems here. Whether "
    "a model treats the silent as it should is for an audit to say, on people it was not trained on."
)


def _group_table(found: Suitability) -> Table:
    rows = [(g.group, count(g.shared_people), count(g.withheld_people), share(g.shared)) for g in found.groups]
    cells = tuple(tuple(map(Cell, row)) for row in rows)
    return Table("Groups", ("Group", "Share it", "Withhold it", "Shared by"), cells, frozenset())


def _set_table(found: Suitability) -> Table:
    known = found.outcome_sd is not None
    unit = "in points" if found.events else "in amounts"
    columns = ("Share exactly", "People", "Compared with", "In an audit", "Detectable margin, σ", *([unit] * known))
    rows = []
    for one in (*found.sets[:MAX_SHOWN], *(one for one in found.sets[MAX_SHOWN:] if one.groups is None)):
        amount = None if one.margin is None else one.margin * (100 if found.events else 1)
        cells = [Cell(one.name), Cell(count(one.people)), Cell(count(one.compared)), Cell(one.tested, one.why)]
        cells += [Cell(fixed(one.margin_sd, 3)), *([Cell(significant(amount, 3))] * known)]
        rows.append(tuple(cells))
    return Table("Sets of people, by what they share exactly", columns, tuple(rows), frozenset({"In an audit"}))
