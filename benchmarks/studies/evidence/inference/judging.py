"""How far a variant moves non-sharers, and whether that is as in the paper."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.harness.summary import by, within_noise
from benchmarks.harness.types import Rows

from .measuring import FAVOURABLE, NATURAL, PROBABILITY, RAW

# The paper's relative predictions of hours seem to be those of log(1 + hours): read so, ours come close to its −5.2 %.
IN_LOG_UNITS = ("insurance_hi",)


def outcome_column(rows: Rows, name: str) -> str:
    """Return what the paper compares: share of favourable outcomes, or the mean prediction."""
    if rows[0].get(FAVOURABLE):
        return FAVOURABLE
    return RAW if name in IN_LOG_UNITS else NATURAL


def changes(rows: Rows, variant: str, column: str, relative: bool) -> list[float]:
    """Return how much a variant differs from base in each run: in the column's units, or in % of the base."""
    by_run = {key: {row["variant"]: float(row[column]) for row in same} for key, same in by(rows, "run").items()}
    return [
        100 * (one[variant] / one["base"] - 1) if relative else one[variant] - one["base"] for one in by_run.values()
    ]


def shifts(rows: Rows, name: str, variant: str) -> list[float]:
    """Return how a variant moves non-sharers in each run: in percentage points, or in % of the base prediction."""
    column = outcome_column(rows, name)
    return changes(rows, variant, column, relative=column != FAVOURABLE)


def of(rows: Rows, variant: str) -> Rows:
    """Return the rows of a variant."""
    return [row for row in rows if row["variant"] == variant]


def listed(numbers: Sequence[float] | None, digits: int = 2, sign: bool = False) -> str:
    """Return the paper's numbers in a row, a dash if it has none."""
    return " / ".join(f"{number:{'+' if sign else ''}.{digits}f}" for number in numbers) if numbers else "–"


def judge(full: Sequence[float], own: Sequence[float], paper: Sequence[float] | None) -> str:
    """Say whether full moves non-sharers as in the paper, and whether PUC leaves them where base puts them."""
    mean, other = statistics.fmean(own), statistics.fmean(full)
    sign = "" if paper is None else f"full: {'the' if other * paper[0] > 0 else 'not the'} paper's sign; "
    if sign and within_noise(full) and len(full) > 1:
        sign = "full: within noise of 0; "
    if len(own) < 2:
        return sign + "PUC: one run"
    if within_noise(own):
        return sign + "PUC: within noise of 0"
    of_full = f"{mean / other:+.0%} of full's" if other else "full's is 0"
    return sign + f"PUC: {'tiny' if abs(mean) <= 0.1 * abs(other) else 'not 0'}, {of_full}"


def far_off(ours: float, paper: float) -> bool:
    """Return whether two numbers differ in sign or by more than a factor of about two."""
    return ours * paper <= 0 or not 0.5 <= ours / paper <= 2


def mean_changes(rows: Rows, variant: str) -> list[float]:
    """Return how a variant moves non-sharers' mean probability or log prediction in each run, in hundredths."""
    if rows[0].get(PROBABILITY):
        return changes(rows, variant, PROBABILITY, relative=False)
    return [100 * change for change in changes(rows, variant, RAW, relative=False)]
