"""The figure of large tables."""

from __future__ import annotations

import math
import statistics
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter

from benchmarks.harness.summary import by, values
from benchmarks.harness.types import Rows

from .tables import PARTS, cells, of

PROFILED = ("1000000", "10")  # rows and groups of the bars in the figure
_COLOURS = {"plain": "#D55E00", "fixed": "#E69F00", "balanced": "#0072B2", "exhaustive": "#009E73"}
_SHADES = {"plan": "#CC79A7", "stream": "#E69F00", "binning": "#56B4E9", "boosting": "#999999"}


def figure(rows: Rows) -> Any:
    """Draw the gap against the seconds for each number of groups, and below them where the time goes."""
    groups = list(by(of(rows, "scale"), "r"))
    drawing = Figure(figsize=(9.5, 6.6), layout="constrained")
    above, below = drawing.subfigures(2, 1, height_ratios=(1.7, 1))
    for axes, (r,) in zip(above.subplots(1, len(groups), sharey=True, squeeze=False)[0], groups, strict=True):
        _draw_gaps(axes, [row for row in of(rows, "scale") if row["r"] == r])
        axes.set_title(f"{r} optional groups", fontsize=10)
        axes.set_xlabel("training, seconds")
    above.axes[0].set_ylabel("squared PUC-gap ×10⁴")
    above.legend(handles=_keys(rows), loc="outside right center", fontsize=8, frameon=False)
    _draw_parts(below.subplots(), rows)
    return drawing


def _size(n: str) -> float:
    """Return the size of the marks of tables of n rows."""
    return max(4.0, 4 * math.log10(int(n)) - 15)


def _draw_gaps(axes: Any, rows: Rows) -> None:
    for (engine, variant), line in by(rows, "engine", "variant").items():
        by_size = by(line, "N")
        x = [statistics.median(values(group, "seconds")) for group in by_size.values()]
        y = [statistics.fmean(values(group, "gap")) for group in by_size.values()]
        colour, filled = _COLOURS[variant], engine == "LightGBM"
        axes.plot(x, y, "-" if filled else "--", color=colour, linewidth=1)
        for (n,), seconds, gap in zip(by_size, x, y, strict=True):
            axes.plot(
                seconds,
                gap,
                "o",
                color=colour,
                markerfacecolor=colour if filled else "white",
                markersize=_size(n),
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(LogFormatter())
        axis.set_minor_formatter(LogFormatter())
    axes.tick_params(which="both", labelsize=8)
    axes.grid(which="both", alpha=0.25)


def _keys(rows: Rows) -> list[Any]:
    """Return what the legend explains: variants, engines, sizes."""
    scale = of(rows, "scale")
    keys = [Line2D([], [], color=_COLOURS[variant], label=variant) for (variant,) in by(scale, "variant")]
    for engine, style, face in (("LightGBM", "-", "black"), ("XGBoost", "--", "white")):
        keys.append(Line2D([], [], color="black", linestyle=style, marker="o", markerfacecolor=face, label=engine))
    for n in sorted(by(scale, "N"), key=lambda name: int(name[0])):
        mark = {"marker": "o", "linestyle": "", "color": "grey", "markersize": _size(n[0])}
        keys.append(Line2D([], [], label=f"{int(n[0]):,} rows", **mark))
    return keys


def _draw_parts(axes: Any, rows: Rows) -> None:
    """Draw the seconds of plain and balanced training as bars of their parts."""
    trainings = cells(rows)
    n, r = PROFILED if any(key[:2] == PROFILED for key in trainings) else list(trainings)[-1][:2]
    bars = [key for key in trainings if key[:2] == (n, r) and key[3] in ("plain", "balanced")]
    left = [0.0] * len(bars)
    for part, name in PARTS.items():
        width = [statistics.fmean(values(trainings[key], part)) for key in bars]
        axes.barh([f"{engine}, {variant}" for _, _, engine, variant in bars], width, left=left, color=_SHADES[part],
                  label=name)  # fmt: skip
        left = [start + more for start, more in zip(left, width, strict=True)]
    axes.invert_yaxis()
    axes.tick_params(labelsize=8)
    axes.set_xlabel(f"seconds, {int(n):,} rows, {r} groups")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
