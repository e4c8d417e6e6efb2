"""The figure of convergence."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks import models
from benchmarks.harness.summary import by, values
from benchmarks.harness.types import Rows

from .learners import ESTIMATORS
from .measuring import PLAIN, PUC

_COLOURS = ("#000000", "#E69F00", "#CC79A7", "#0072B2", "#009E73", "#56B4E9")


def figure(rows: Rows) -> Any:
    """Draw gaps against N, LightGBM by scheme, and the comparison on both families."""
    drawing = Figure(figsize=(13, 4.8), layout="constrained")
    left, middle, first, second = drawing.subplots(1, 4, width_ratios=[1.5, 1.2, 1, 1])
    curves = [row for row in rows if row["what"] == "convergence"]
    for colour, estimator in zip(_COLOURS, ESTIMATORS, strict=True):
        style = "--" if estimator == "XGBoost" else "-"  # it lies on LightGBM
        _curve(left, curves, estimator, PUC, {"color": colour, "label": estimator, "linestyle": style})
    for style, scheme in zip((":", "-", "--"), models.PUC_SCHEMES, strict=True):
        _curve(middle, curves, "LightGBM", scheme, {"color": "#0072B2", "linestyle": style, "label": scheme})
    for axes, title in ((left, "exhaustive"), (middle, "LightGBM by scheme")):
        sizes = np.array(sorted({int(row["N"]) for row in curves}), dtype=float)
        axes.plot(sizes, 2 / sizes, color="#999999", linewidth=1, linestyle="-.", label="O(1/N)")
        axes.set(xscale="log", yscale="log", xlabel="people N", ylabel="squared PUC-gap", title=title)
        axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    for axes, family in ((first, "binary"), (second, "logistic")):
        _bars(axes, [row for row in rows if row["what"] == "comparison" and row["family"] == family], family)
    second.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.0, -0.14), ncols=3)
    return drawing


def _curve(axes: Any, rows: Rows, estimator: str, scheme: str, style: dict[str, Any]) -> None:
    those = [row for row in rows if (row["estimator"], row["scheme"]) == (estimator, scheme)]
    if those:
        means = {int(n): statistics.fmean(values(part, "gap")) for (n,), part in by(those, "N").items()}
        axes.plot(list(means), list(means.values()), marker="o", markersize=3, **style)


def _bars(axes: Any, rows: Rows, family: str) -> None:
    names = [estimator for (estimator,) in by(rows, "estimator")]
    kinds = ((PUC, "gap", "#0072B2", "under consent, gap"), (PLAIN, "gap", "#D55E00", "without, gap"),
             (PLAIN, "error", "#999999", "without, error to its own truth"))  # fmt: skip
    for k, (variant, column, colour, label) in enumerate(kinds):
        part = [[row for row in rows if row["estimator"] == name and row["variant"] == variant] for name in names]
        axes.barh(np.arange(len(names)) + 0.27 * (k - 1), [statistics.fmean(values(p, column)) for p in part],
                  height=0.26, color=colour, label=label)  # fmt: skip
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="squared distance", title=f"{family}, N = 50,000")
