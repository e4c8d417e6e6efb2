"""LightGBM and the native engine in the settings of the other studies: same people, seeds, schemes and parameters."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scipy.stats import t as student

from benchmarks import models
from benchmarks.data import INDUCED, PAPER, loaded
from benchmarks.harness.measuring import by, standard_error, values
from benchmarks.harness.study import Row, Rows, Table, Unit
from benchmarks.studies import alternatives, convergence, inference, several
from benchmarks.studies.alternatives import METHODS, train_all
from benchmarks.studies.convergence import DEFAULT_LIGHTGBM, DEFAULT_NATIVE
from benchmarks.studies.scale import run_apart, run_here

LIGHTGBM, NATIVE = "LightGBM", models.NATIVE
BOTH = (LIGHTGBM, NATIVE)
GAP = "squared PUC-gap ×10⁴"
TO_ITS_TRUTH = "squared distance to the unrestricted truth ×10⁴"
SHIFT = "shift of non-sharers ×100"
LOG_LOSS, PENALTY = "log loss", "penalty, points"
AUDITED, VIOLATED = "penalty by the audit, points", "sets violated by the audit"
DEVIANCE, SILENT = "Poisson deviance", "shift of who withholds all, %"
AUDITED_SOME, AUDITED_ALL = "audit: penalty, something withheld, %", "audit: penalty, all withheld, %"
SECONDS, MEMORY = "seconds", "MB"
BALANCED, EXHAUSTIVE = "balanced", "exhaustive"
OURS = {"pucboost, balanced (default)": BALANCED, "pucboost, exhaustive": EXHAUSTIVE}
LARGER = ", larger trees"
MANY, SOME, FEW = 10, 5, 3  # runs: more where they are short, which is also where they differ most
SMALL = ("diabetes", "compas", "insurance_hi", "horse_colic", "water_treatment")
WITH_LARGER = ("diabetes", "california_housing", "insurance_hi")  # the others take long
AUDITS = 1  # of policies
BALANCED_UP_TO = 30_000  # people: equal rows cannot be merged there, which takes long

Found = Mapping[str, Mapping[str, Row]]  # engine → variant → measured


def side_by_side(found: Found, measures: Iterable[str]) -> list[Row]:
    """Return a row per variant and measure, with the numbers of both engines."""
    return [
        {
            "variant": variant,
            "measure": name,
            **{engine: f"{float(found[engine][variant][name]):.9g}" for engine in BOTH},
        }
        for variant, measured in found[LIGHTGBM].items()
        for name in measures
        if measured.get(name) is not None
    ]


def by_variant(rows: Sequence[Row]) -> dict[str, Row]:
    """Return the rows of one engine by variant."""
    return {row["variant"]: row for row in rows}


def measure_several(name: str, run: int, quick: bool) -> list[Row]:
    """Compare held-out losses of all variants, several columns optional."""
    found = {engine: by_variant(several.measure(name, engine, run, quick)) for engine in BOTH}
    return side_by_side(found, ("loss", several.AUC))


def measure_inference(setting: str, run: int, quick: bool) -> list[Row]:
    """Compare losses, and how far non-sharers are moved from what a model of the base columns tells them."""
    name = setting.removesuffix(LARGER)
    size = inference.QUICK_MODEL[NATIVE] if quick else inference.LARGER_TREES if setting != name else {}
    found = {engine: by_variant(inference.measure(loaded(name, quick), engine, run, **size)) for engine in BOTH}
    for of_engine in found.values():
        base, own = of_engine["base"], of_engine["PUC"]
        own[SHIFT] = (
            own[inference.PROBABILITY] - base[inference.PROBABILITY]
            if inference.PROBABILITY in own
            else 100 * (own[inference.RAW] - base[inference.RAW])
        )
    asked = (inference.SILENT_LOSS, inference.SHARERS_LOSS, SHIFT)
    return side_by_side({engine: {"PUC": of_engine["PUC"]} for engine, of_engine in found.items()}, asked)


def measure_convergence(n: int, run: int, quick: bool) -> list[Row]:
    """Compare exact gaps on the binary family, boosted stumps and default parameters."""
    stumps = [scheme for scheme in models.PUC_SCHEMES if scheme != BALANCED or n <= BALANCED_UP_TO]
    asked = [(scheme, scheme, BOTH) for scheme in stumps]
    asked.append((f"{EXHAUSTIVE}, default parameters", EXHAUSTIVE, (DEFAULT_LIGHTGBM, DEFAULT_NATIVE)))
    found: dict[str, dict[str, Row]] = {engine: {} for engine in BOTH}
    for variant, scheme, estimators in asked:
        for engine, estimator in zip(BOTH, estimators, strict=True):
            (row,) = convergence.measure(estimator, scheme, n, run, 20 if quick else None)
            found[engine][variant] = {GAP: 1e4 * row["gap"]}
    return side_by_side(found, (GAP,))


def measure_family(family: str, run: int, quick: bool) -> list[Row]:
    """Compare gaps under consent, and errors of unrestricted models against their own truth."""
    size = {"n": 500} if quick else {}
    found = {engine: by_variant(convergence.compare(family, engine, run, **size)) for engine in BOTH}
    for of_engine in found.values():
        own, plain = of_engine[convergence.PUC], of_engine[convergence.PLAIN]
        own[GAP], plain[TO_ITS_TRUTH] = 1e4 * own["gap"], 1e4 * plain["error"]
    return side_by_side(found, (GAP, TO_ITS_TRUTH))


def measure_simulated(name: str, run: int, quick: bool) -> list[Row]:
    """Compare losses, penalties and gaps on people whose truth is known."""
    people, X, judged, _ = alternatives.simulated_people(name, run, quick)
    found: dict[str, dict[str, Row]] = {}
    for engine in BOTH:
        done = train_all(replace(people, engine=engine), {method: METHODS[method] for method in OURS})
        for method, (trained, _) in done.items():
            row = judged(trained.predict(X))
            own = {LOG_LOSS: row["log loss"], PENALTY: row["penalty"], GAP: row["RMS gap"] ** 2}
            found.setdefault(engine, {})[OURS[method]] = own
    return side_by_side(found, (LOG_LOSS, PENALTY, GAP))


def measure_audited(name: str, run: int, quick: bool) -> list[Row]:
    """Compare losses, and the penalties that the audit finds, on real tables."""
    people, judge = alternatives.real_halves(name, run, quick)
    found: dict[str, dict[str, Row]] = {}
    for engine in BOTH:
        done = train_all(replace(people, engine=engine), {method: METHODS[method] for method in OURS})
        for method, (trained, _) in done.items():
            row = judge(trained.predict)
            found.setdefault(engine, {})[OURS[method]] = {
                LOG_LOSS: alternatives.mean_log_loss(judge.y, trained.predict(judge.X)),
                AUDITED: row.get("penalty"),
                VIOLATED: row["violated"],
            }
    return side_by_side(found, (LOG_LOSS, AUDITED, VIOLATED))


def measure_scale(n: int, r: int, run: int, quick: bool) -> list[Row]:
    """Compare gaps, time and memory on large tables."""
    job = {"what": "scale", "variant": BALANCED, "N": n, "r": r, "run": run, "rounds": 5 if quick else 40, "rate": 0.3}
    start = run_here if quick else run_apart
    found = {engine: {BALANCED: start({**job, "engine": engine})[0]} for engine in BOTH}
    for of_engine in found.values():
        of_engine[BALANCED][GAP] = of_engine[BALANCED]["gap"]
    return side_by_side(found, (GAP, SECONDS, MEMORY))


def measure_policies(run: int, quick: bool, audited: bool) -> list[Row]:
    """Compare deviance, the silent's claims against a model of the base columns, penalties, time and memory."""
    job = {"what": "freMTPL2", "run": run, "rounds": 5 if quick else 60, "rate": 0.15, "quick": quick}
    start, told = run_here if quick else run_apart, "claims a year predicted, all withheld"
    (base,) = start({**job, "engine": LIGHTGBM, "variant": "base", "audited": False})
    found = {
        engine: {BALANCED: start({**job, "engine": engine, "variant": BALANCED, "audited": audited})[0]}
        for engine in BOTH
    }
    for of_engine in found.values():
        row = of_engine[BALANCED]
        row[DEVIANCE], row[SILENT] = row["deviance"], 100 * (row[told] / base[told] - 1)
        for name, who in ((AUDITED_SOME, "something"), (AUDITED_ALL, "all")):
            row[name] = row.get(f"penalty, {who} withheld, %")
    return side_by_side(found, (DEVIANCE, SILENT, AUDITED_SOME, AUDITED_ALL, SECONDS, MEMORY))


def units(quick: bool) -> list[Unit]:
    """List a unit per setting and run, one run of all after the other; both engines are in one unit."""
    jobs = [(run, job) for job in (_quick_jobs() if quick else _jobs()) for run in range(job[2])]
    jobs.sort(key=lambda one: (one[0] + 1) / one[1][2])  # settings with fewer runs keep pace with the others
    return [
        Unit({"as in": study, "setting": setting, "run": run}, functools.partial(measure, run=run, quick=quick))
        for run, (study, setting, _, measure) in jobs
    ]


Job = tuple[str, str, int, Callable[..., list[Row]]]


def _jobs() -> Iterable[Job]:
    for name in INDUCED:
        yield "several", name, _runs(name), functools.partial(measure_several, name)
    for name in PAPER:
        yield "inference", name, MANY if name in SMALL else SOME, functools.partial(measure_inference, name)
    for name in WITH_LARGER:
        yield "inference", name + LARGER, FEW, functools.partial(measure_inference, name + LARGER)
    for n in convergence.SIZES:
        yield "convergence", f"N = {n:,}", MANY if n <= 10_000 else SOME, functools.partial(measure_convergence, n)
    for family in convergence.FAMILIES:
        yield "convergence", f"{family}, N = 50,000", SOME, functools.partial(measure_family, family)
    for number, name in enumerate(alternatives.SIMULATED):
        yield "alternatives", name, FEW if number else SOME, functools.partial(measure_simulated, name)
    for name in alternatives.REAL:
        yield "alternatives", name, MANY if name in SMALL else FEW, functools.partial(measure_audited, name)
    yield "scale", "N = 100,000, r = 10", FEW, functools.partial(measure_scale, 100_000, 10)
    yield "scale", "freMTPL2", FEW, _policies_of_run
    for n in (1_000_000, 5_000_000):
        yield "scale", f"N = {n:,}, r = 10", 1, functools.partial(measure_scale, n, 10)


def _runs(name: str) -> int:
    return MANY if name in SMALL else FEW if name == "adult" else SOME


def _policies_of_run(run: int, quick: bool) -> list[Row]:
    return measure_policies(run, quick, audited=run < AUDITS and not quick)


def _quick_jobs() -> Iterable[Job]:
    yield "several", "diabetes", 2, functools.partial(measure_several, "diabetes")
    yield "inference", "income", 1, functools.partial(measure_inference, "income")
    yield "convergence", "N = 1,000", 2, functools.partial(measure_convergence, 1_000)
    yield "convergence", "logistic, N = 500", 1, functools.partial(measure_family, "logistic")
    name = next(iter(alternatives.SIMULATED))
    yield "alternatives", name, 1, functools.partial(measure_simulated, name)
    yield "alternatives", "compas", 1, functools.partial(measure_audited, "compas")
    yield "scale", "N = 2,000, r = 4", 1, functools.partial(measure_scale, 2_000, 4)
    yield "scale", "freMTPL2", 1, _policies_of_run


# The tables of the side-by-side study: differences by setting, and how many are significant

LEVEL = 0.05
ROUNDING = 0.01  # in %: the same trees, with leaves from sums that were rounded differently
TO_ZERO = (SHIFT, PENALTY, AUDITED, VIOLATED, SILENT, AUDITED_SOME, AUDITED_ALL)
"""Measures whose best value is 0, compared by difference. The others are positive and compared by ratio."""
COSTS = (SECONDS, MEMORY)
"""Measures that are not judged: their noise is that of the machine."""


@dataclass(frozen=True)
class Comparison:
    """One measure of both engines over the runs of one setting, or its means over several settings."""

    measure: str
    lightgbm: tuple[float, ...]
    native: tuple[float, ...]

    @property
    def differences(self) -> list[float]:
        """Return native − LightGBM for each run: in %, by logarithms, or in the units of the measure."""
        pairs = zip(self.native, self.lightgbm, strict=True)
        if self.measure in TO_ZERO:
            return [mine - theirs for mine, theirs in pairs]
        return [100 * math.log(mine / theirs) for mine, theirs in pairs]

    @property
    def p_value(self) -> float | None:
        """Return that of a paired t-test; None if there is nothing to test."""
        return p_value(self.differences)

    @property
    def verdict(self) -> str:
        """Return "worse" or "better" if the difference is significant at the 5 % level, else "level"."""
        if self.measure in COSTS:
            return ""
        if len(self.native) < 2:
            return "one run"
        if self.p_value is None:
            return "identical"
        if self.p_value >= LEVEL:
            return "level"
        if self.measure in TO_ZERO:
            further = abs(statistics.fmean(self.native)) > abs(statistics.fmean(self.lightgbm))
        else:
            further = statistics.fmean(self.differences) > 0
        return "worse" if further else "better"


def p_value(differences: Sequence[float]) -> float | None:
    """Return the two-sided p-value of a t-test of the mean against 0, None for one number or if all are 0."""
    if len(differences) < 2 or all(abs(one) < ROUNDING for one in differences):
        return None
    error = standard_error(differences)
    if error == 0:
        return 0.0
    return 2 * float(student.sf(abs(statistics.fmean(differences)) / error, len(differences) - 1))


def comparisons(rows: Rows) -> dict[tuple[str, ...], Comparison]:
    """Return study, setting, variant, measure → comparison."""
    return {
        key: Comparison(key[-1], *(tuple(values(same, engine)) for engine in (LIGHTGBM, NATIVE)))
        for key, same in by(rows, "as in", "setting", "variant", "measure").items()
    }


def together(by_setting: Sequence[Sequence[Comparison]]) -> tuple[float, float]:
    """Return the mean difference over settings that were run several times, and its standard error.

    Runs are independent, and so are settings, but not the variants of a setting: these are averaged in each run first.
    """
    means, errors = [], []
    for variants in by_setting:
        by_run = itertools.zip_longest(*(one.differences for one in variants))
        averages = [statistics.fmean(number for number in run if number is not None) for run in by_run]
        if len(averages) > 1:
            means.append(statistics.fmean(averages))
            errors.append(standard_error(averages))
    return statistics.fmean(means), math.hypot(*errors) / len(errors)


def said(measure: str, mean: float, error: float) -> str:
    """Return a difference with its standard error."""
    digits = 3 if measure in TO_ZERO else 2
    unit = "" if measure in TO_ZERO else " %"
    return f"{mean:+.{digits}f}" + ("" if math.isnan(error) else f" ± {error:.{digits}f}") + unit


def table(rows: Rows) -> Table:
    """Return a line per setting, variant and measure, and the count below."""
    found = comparisons(rows)
    lines = [
        [
            study, setting, variant, measure, str(len(one.native)), f"{statistics.fmean(one.lightgbm):.4g}",
            f"{statistics.fmean(one.native):.4g}", difference(one), one.verdict,
        ]
        for (study, setting, variant, measure), one in found.items()
    ]  # fmt: skip
    lines.append(["all", count(list(found.values())), *[""] * 7])
    return ["as in", "setting", "variant", "measure", "runs", "LightGBM", "native", "difference", "judged"], lines


def difference(one: Comparison) -> str:
    """Return the difference of the engines, costs as a factor."""
    if one.measure in COSTS:
        return factor([one])
    return said(one.measure, statistics.fmean(one.differences), standard_error(one.differences))


def factor(those: Sequence[Comparison]) -> str:
    """Return the median of native / LightGBM."""
    ratios = [mine / theirs for one in those for mine, theirs in zip(one.native, one.lightgbm, strict=True)]
    return f"{statistics.median(ratios):.2f} ×"


def tested_of(those: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons with a test."""
    return [one for one in those if one.verdict in ("worse", "better", "level")]


def count(those: Sequence[Comparison]) -> str:
    """Return how many comparisons are significant, how many chance would make so, and how many remain by Holm."""
    tested = tested_of(those)
    worse, better = (sum(one.verdict == word for one in tested) for word in ("worse", "better"))
    chance = LEVEL / 2 * len(tested)
    return (
        f"{len(tested)} comparisons tested: {worse} worse, {better} better, {chance:.1f} each expected by chance; "
        f"{len(remaining(tested))} remain after Holm's correction"
    )


def remaining(tested: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons that stay significant when all are looked at together (Holm)."""
    ordered = sorted(tested, key=lambda one: one.p_value or 0.0)
    kept = []
    for place, one in enumerate(ordered):
        if (one.p_value or 0.0) > LEVEL / (len(ordered) - place):
            break
        kept.append(one)
    return kept


def page(rows: Rows) -> Table:
    """Return a line per study and measure: the mean difference over settings, and how many are significant."""
    groups: dict[tuple[str, str], dict[str, list[Comparison]]] = {}
    for (study, setting, _, measure), one in comparisons(rows).items():
        groups.setdefault((study, measure), {}).setdefault(setting, []).append(one)
    lines = []
    for (study, measure), settings in groups.items():
        those = [one for variants in settings.values() for one in variants]
        tested = tested_of(those)
        counts = [str(sum(one.verdict == word for one in tested)) if tested else "–" for word in ("worse", "better")]
        repeated = any(len(one.native) > 1 for one in those)
        mean = (
            factor(those) if measure in COSTS
            else said(measure, *together(list(settings.values()))) if repeated
            else "–"
        )  # fmt: skip
        lines.append([study, measure, str(len(tested) or len(those)), mean, *counts])
    tested = tested_of([one for settings in groups.values() for variants in settings.values() for one in variants])
    worse, better = (str(sum(one.verdict == word for one in tested)) for word in ("worse", "better"))
    lines.append(
        ["all", "", str(len(tested)), f"expected by chance: {LEVEL / 2 * len(tested):.1f} each", worse, better]
    )
    return ["as in", "measure", "comparisons", "native against LightGBM", "worse", "better"], lines
