"""The slopes and the table of convergence."""

from __future__ import annotations

import math
import statistics

import numpy as np

from benchmarks import models
from benchmarks.harness.summary import by, plus_minus, standard_error, values
from benchmarks.harness.types import Rows, Table

from .learners import BASELINE, DEFAULT_LIGHTGBM, FOREST
from .measuring import PLAIN, PUC

ASYMPTOTIC = 1_000  # the slope is fitted from here on
SLOPE_TARGET = 0.15


def slope(rows: Rows) -> tuple[float, float]:
    """Return the least-squares slope of log(mean gap) on log N, and its standard error from the spread over seeds."""
    sizes = {int(n): values(those, "gap") for (n,), those in by(rows, "N").items() if int(n) >= ASYMPTOTIC}
    if len(sizes) < 2:
        return math.nan, math.nan
    x = np.log(list(sizes))
    share = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    means = [statistics.fmean(gaps) for gaps in sizes.values()]
    relative = [standard_error(gaps) / mean for gaps, mean in zip(sizes.values(), means, strict=True)]
    return float(share @ np.log(means)), float(np.sqrt((share**2) @ np.square(relative)))


_REASONS = {
    "LightGBM": "stumps: the correctly specified additive model here, so a parametric rate",
    "XGBoost": "stumps: the correctly specified additive model here, so a parametric rate",
    DEFAULT_LIGHTGBM: "31 leaves, 100 rounds: flatter; likely more interactions fitted as N grows (not tested)",
    BASELINE: "likely the many cells still empty at small N (not tested)",
    FOREST: "flatter than −1 up to this N; likely rare cells (not tested)",
}

_NOT_NEARER = "no closer to f* than without consent; likely min_samples_split, which counts copies (not tested)"


def _scientific(numbers: list[float]) -> str:
    return f"{1e4 * statistics.fmean(numbers):.3g}" if numbers else "–"


def table(rows: Rows) -> Table:
    """Return slopes of the curves, then gaps of the comparison."""
    columns = ["what", "estimator", "scheme or family", "slope (paper: −1)", "largest N", "gap there ×10⁴",
               "without consent, gap ×10⁴", "without consent, error ×10⁴", "runs", "remark"]  # fmt: skip
    lines = []
    curves = [row for row in rows if row["what"] == "convergence"]
    for (estimator, scheme), those in by(curves, "estimator", "scheme").items():
        fitted, error = slope(those)
        largest = max(int(row["N"]) for row in those)
        last = values([row for row in those if int(row["N"]) == largest], "gap")
        shown = "–" if math.isnan(fitted) else f"{fitted:.2f}" + ("" if math.isnan(error) else f" ± {error:.2f}")
        near = abs(fitted + 1) <= SLOPE_TARGET
        remark = _REASONS.get(estimator, "") if not near or estimator in models.ENGINES else ""
        if estimator == "LightGBM" and scheme == PUC:
            remark = f"target −1 ± {SLOPE_TARGET}: {'met' if near else 'missed'}; {remark}"
        lines.append(["convergence", estimator, scheme, shown, f"{largest:,}", _scientific(last), "–", "–",
                      str(len(last)), remark])  # fmt: skip
    compared = [row for row in rows if row["what"] == "comparison"]
    for (family, estimator), those in by(compared, "family", "estimator").items():
        ours, plain = ([row for row in those if row["variant"] == v] for v in (PUC, PLAIN))
        gaps = [plus_minus([1e4 * g for g in values(part, column)], 1)
                for part, column in ((ours, "gap"), (plain, "gap"), (plain, "error"))]  # fmt: skip
        worse = statistics.fmean(values(ours, "gap")) >= statistics.fmean(values(plain, "gap"))
        remark = _NOT_NEARER if worse else ""
        lines.append(["comparison", estimator, family, "–", f"{int(those[0]['N']):,}", *gaps, str(len(ours)), remark])
    return columns, lines
