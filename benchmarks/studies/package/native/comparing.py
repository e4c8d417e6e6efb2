"""The tables of the side-by-side study: differences by setting, and how many are significant."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import t as student

from benchmarks.harness.summary import by, standard_error, values
from benchmarks.harness.types import Rows, Table

from .evidence import (
    AUDITED,
    AUDITED_ALL,
    AUDITED_SOME,
    LIGHTGBM,
    MEMORY,
    NATIVE,
    PENALTY,
    SECONDS,
    SHIFT,
    SILENT,
    VIOLATED,
)

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


def in_short(rows: Rows) -> Table:
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
