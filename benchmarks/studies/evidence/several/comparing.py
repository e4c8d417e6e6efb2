"""Comparing the losses of runs, and naming what is compared."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from scipy.stats import t as student
from scipy.stats import ttest_rel

from benchmarks.harness.summary import by, standard_error, values
from benchmarks.harness.types import Rows

from .measuring import AUC

LEVEL = 0.05  # of the paired t-tests
MARGIN = 0.02  # "hardly worse": the upper 95 % bound of the loss is within 2 % of exhaustive's
NAMES = {"california_housing": "california", "insurance_hi": "insurance"}  # the others keep the names of their files


def by_variant(rows: Rows, column: str) -> dict[str, list[float]]:
    """Return a measure of each variant, in the order of the runs, so that they can be compared in pairs."""
    ordered = sorted(rows, key=lambda row: int(row["run"]))
    return {variant: values(of, column) for (variant,), of in by(ordered, "variant").items()}


def compare(mine: Sequence[float], others: Sequence[float]) -> str:
    """Return whether losses are better, worse, level or identical, by a paired t-test over the runs."""
    if list(mine) == list(others):
        return "identical"
    if len(mine) < 2:
        return "one run"
    if ttest_rel(mine, others).pvalue >= LEVEL:
        return "level"
    return "better" if statistics.fmean(mine) < statistics.fmean(others) else "worse"


def hardly_worse(mine: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether the losses are shown to be at most ``MARGIN`` larger, which "level" alone does not imply."""
    if len(mine) < 2:
        return False
    ratios = [a / b - 1 for a, b in zip(mine, others, strict=True)]
    bound = statistics.fmean(ratios) + float(student.ppf(1 - LEVEL, len(ratios) - 1)) * standard_error(ratios)
    return bound <= MARGIN


def relative(mine: Sequence[float], base: Sequence[float]) -> list[float]:
    """Return by how many % each run's loss differs from the base model's."""
    return [100 * (a / b - 1) for a, b in zip(mine, base, strict=True)]


def measures_of(rows: Rows) -> list[str]:
    """Return the measures that a task has: its loss, and the area for classes."""
    return [measure for measure in ("loss", AUC) if any(row[measure] for row in rows)]


def name_of(measure: str, rows: Rows) -> str:
    """Return what a measure is called in a table: "loss" is that of the paper for the kind of task."""
    return measure if measure == AUC else ("error, %" if len(measures_of(rows)) > 1 else "MSE × 100")


def shorter(name: str) -> str:
    """Return a data set's name as a table shows it."""
    return NAMES.get(name, name)


def slashed(numbers: Iterable[float], form: str) -> str:
    """Return numbers separated by slashes."""
    return " / ".join(f"{number:{form}}" for number in numbers)
