"""Means, errors and groups of a study's rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from scipy.stats import t as student

from .types import Rows


def by(rows: Rows, *columns: str) -> dict[tuple[str, ...], Rows]:
    """Return the rows for each combination of values of some columns, in order of appearance."""
    groups: dict[tuple[str, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups


def values(rows: Rows, column: str) -> list[float]:
    """Return a column as numbers; rows that have none are left out."""
    return [float(row[column]) for row in rows if row.get(column)]


def standard_error(numbers: Sequence[float]) -> float:
    """Return the standard error of the mean, NaN for a single number."""
    return statistics.stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else math.nan


def within_noise(numbers: Sequence[float], level: float = 0.95) -> bool:
    """Return whether a t-test over runs finds no difference of the mean from 0."""
    error = standard_error(numbers)
    quantile = float(student.ppf((1 + level) / 2, max(len(numbers) - 1, 1)))
    return math.isnan(error) or abs(statistics.fmean(numbers)) <= quantile * error


def plus_minus(numbers: Sequence[float], digits: int = 2, sign: bool = False) -> str:
    """Return "mean ± standard error" (the mean alone for a single number, a dash for none)."""
    if not numbers:
        return "–"
    mean = f"{statistics.fmean(numbers):{'+' if sign else ''}.{digits}f}"
    error = standard_error(numbers)
    return mean if math.isnan(error) else f"{mean} ± {error:.{digits}f}"
