"""The figure of several optional columns, and its parts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks import models
from benchmarks.harness.summary import by, standard_error
from benchmarks.harness.types import Rows

from .comparing import by_variant, relative, shorter

COLOURS = {"fixed": "#E69F00", "exhaustive": "#0072B2", "balanced": "#D55E00", "full": "#666666"}
MARKERS = {"fixed": "s", "exhaustive": "o", "balanced": "D", "full": "|"}


def dot(axes: Any, mine: Sequence[float], base: Sequence[float], position: float, **style: Any) -> None:
    """Draw a loss against the base model's, in % with its standard error over the runs."""
    differences = relative(mine, base)
    error = standard_error(differences)
    axes.errorbar(
        statistics.fmean(differences), position, xerr=0 if np.isnan(error) else error, elinewidth=1, **style
    )  # fmt: skip


def lanes(axes: Any, labels: Sequence[str]) -> None:
    """Give each label a horizontal lane, the first on top, and mark where the base model stands."""
    for position in range(1, len(labels), 2):
        axes.axhspan(position - 0.5, position + 0.5, color="#f3f3f3", zorder=0, linewidth=0)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)


def figure(rows: Rows) -> Figure:
    """Draw the losses against the base model, a panel per table."""
    drawing = Figure(figsize=(10, 6), layout="constrained")
    rows = models.with_same_bags(rows)
    groups, compared = by(rows, "data"), [model for (model,) in by(rows, "model")]
    panels = drawing.subplots(-(-len(groups) // 3), min(len(groups), 3), sharey=True, squeeze=False).ravel()
    for axes, ((name,), of) in zip(panels, groups.items(), strict=False):
        lanes(axes, compared)
        axes.set_title(shorter(name), fontsize=10)
        for (model,), one in by(of, "model").items():
            position, losses = compared.index(model), by_variant(one, "loss")
            for number, variant in enumerate(MARKERS):
                dot(
                    axes, losses[variant], losses["base"], position + 0.18 * (number - 1.5), fmt=MARKERS[variant],
                    color=COLOURS[variant], markersize=9 if variant == "full" else 4.5,
                    markeredgewidth=2 if variant == "full" else 1, label=variant,
                )  # fmt: skip
    drawing.supxlabel("loss against the same model without optional columns, % (lower is better)", fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    drawing.legend(handles[: len(MARKERS)], labels[: len(MARKERS)], loc="outside upper center", ncols=4, frameon=False)
    return drawing
