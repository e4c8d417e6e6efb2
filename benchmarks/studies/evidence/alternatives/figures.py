"""The figure of the alternatives."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from benchmarks.harness.summary import by, values
from benchmarks.harness.types import Rows

from .judge import MARGIN
from .methods import MORE_TREES, ON_SIMULATED, PLAIN
from .tables import penalty_of, relative_loss

COLOURS = {"ours": "#0072B2", "right": "#009E73", "wrong": "#D55E00", "thrifty": "#E69F00"}
_KIND = {
    "base features only": "thrifty",
    "router: all shared / base": "thrifty",
    "model per set, from all who share it": "right",
    "pucboost, balanced (default)": "ours",
    "pucboost, exhaustive": "ours",
    MORE_TREES: "ours",
}

MARKS = {"o": "#000000", "s": "#56B4E9", "D": "#D55E00", "^": "#009E73", "v": "#CC79A7"}


def figure(rows: Rows) -> Figure:
    """Draw the penalty by method, a panel per data set, and the log loss against plain training."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    methods = list(ON_SIMULATED)[::-1]
    groups = by(rows, "data", "method")
    drawing = Figure(figsize=(11, 7.8), layout="constrained")
    axes = drawing.subplots(2, 3, sharey=True).ravel()
    for ax, name in zip(axes, names, strict=False):
        _draw_penalties(ax, [groups.get((name, method), []) for method in methods], methods)
        ax.set_title(name.replace("_", " "), fontsize=10)
    last = axes[-1]
    for name, (marker, colour) in zip(names, MARKS.items(), strict=False):
        shown = [(place, groups[(name, method)]) for place, method in enumerate(methods) if (name, method) in groups]
        relative = [statistics.fmean(relative_loss(mine, groups[(name, PLAIN)])) for _, mine in shown]
        label = name.replace("_", " ")
        last.plot(relative, [place for place, _ in shown], marker, color=colour, mfc="none", ms=6, label=label)
    last.axvline(0, color="0.3", lw=0.8)
    last.set_xscale("symlog", linthresh=1)
    last.set_xticks([-1, 0, 1, 10, 100], ["−1", "0", "1", "10", "100"])
    last.set_title("log loss of all test people", fontsize=10)
    last.set_xlim(-2, 400)
    last.set_xlabel("above that of plain LightGBM, %", fontsize=9)
    for ax in axes:
        ax.set_yticks(range(len(methods)), methods, fontsize=9)
        ax.grid(axis="x", color="0.9", lw=0.6)
        ax.set_axisbelow(True)
    marks = [*_legend_of_penalties(), *last.get_legend_handles_labels()[0]]
    drawing.legend(handles=marks, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return drawing


def _legend_of_penalties() -> list[Any]:
    return [
        Line2D([], [], color="0.3", marker="o", ms=5.5, lw=1.4, label="all who withhold something, 95 % interval"),
        Line2D([], [], color="0.3", marker="|", ms=9, mew=1.6, ls="none", label="the set with the largest penalty"),
        Patch(color="0.92", label=f"margin of the audit, {100 * MARGIN:g} points"),
    ]


def _draw_penalties(ax: Any, of_method: list[Rows], methods: list[str]) -> None:
    ax.axvspan(-100 * MARGIN, 100 * MARGIN, color="0.94", lw=0)
    for place, (mine, method) in enumerate(zip(of_method, methods, strict=True)):
        if not mine:
            continue
        colour = COLOURS[_KIND.get(method, "wrong")]
        mean, error = penalty_of(mine)
        sets = values(mine, "largest penalty of a set")
        if sets:
            ax.plot(max(sets, key=abs), place, "|", color=colour, ms=9, mew=1.6, alpha=0.7)
        ax.errorbar(mean, place, xerr=0 if np.isnan(error) else 1.96 * error, fmt="o", color=colour, ms=5.5, lw=1.4)
    ax.axvline(0, color="0.3", lw=0.8, zorder=1)
    ax.set_xlabel("penalty, points: told more (+), less (−)", fontsize=9)
