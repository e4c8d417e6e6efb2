"""The figure of availability inference."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from benchmarks import models
from benchmarks.harness.summary import by, standard_error
from benchmarks.harness.types import Rows

from .judging import shifts
from .measuring import COPIES_SPLIT, FAVOURABLE, FOREST, LARGER
from .paper import PAPER_CHANGE

COLOURS = {"full": "#D55E00", "PUC": "#0072B2"}
MARKERS = {
    FOREST: "o",
    models.PEOPLES_FOREST: "v",
    models.BAGGED_FOREST: "<",
    "LightGBM": "s",
    "XGBoost": "^",
    LARGER: "P",
}


def dot(axes: Any, numbers: Sequence[float], y: float, **look: Any) -> None:
    """Draw a mean with two standard errors on either side."""
    error = standard_error(numbers)
    axes.errorbar(
        statistics.fmean(numbers), y, xerr=None if math.isnan(error) else 2 * error, markersize=5, capsize=2, **look
    )


def figure(rows: Rows) -> Figure:
    """Draw how full and PUC move non-sharers, against base."""
    rows = models.with_same_bags([row for row in rows if row["model"] != COPIES_SPLIT])
    drawing = Figure(figsize=(10, 5.5), layout="constrained")
    kinds = {True: "percentage points of favourable outcomes", False: "% of the base model's mean prediction"}
    names = {kind: [] for kind in kinds}
    for (name,), same in by(rows, "data").items():
        names[bool(same[0].get(FAVOURABLE))].append(name)
    panels = drawing.subplots(1, 2)
    for panel, (kind, label) in zip(panels, kinds.items(), strict=True):
        panel.axvline(0, color="0.6", linewidth=1)
        for place, name in enumerate(names[kind]):
            _draw_data(panel, rows, name, -place)
        panel.set_yticks([-place for place in range(len(names[kind]))], [_short(name) for name in names[kind]])
        panel.set_ylim(-len(names[kind]) + 0.45, 0.55)
        panel.set_xlabel(f"change for non-sharers, {label}")
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_title("classification" if kind else "regression", loc="left")
    handles = _legend_handles(panels[0])
    drawing.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return drawing


def _short(name: str) -> str:
    return name.replace("_", " ").replace("insurance hi", "insurance\n(log hours)")


def _draw_data(panel: Any, rows: Rows, name: str, centre: float) -> None:
    of_data = [row for row in rows if row["data"] == name]
    for at, variant in zip((0.22, -0.22), COLOURS, strict=True):
        for step, model in zip((0.175, 0.105, 0.035, -0.035, -0.105, -0.175), MARKERS, strict=True):
            same = [row for row in of_data if row["model"] == model]
            if same:
                look = {"color": COLOURS[variant], "fmt": MARKERS[model]}
                dot(panel, shifts(same, name, variant), centre + at + step, **look)
        paper = PAPER_CHANGE[name][0 if variant == "full" else 1]
        panel.plot(paper, centre + at + 0.175, "D", markerfacecolor="none", color=COLOURS[variant], markersize=7)


def _legend_handles(panel: Any) -> list[Any]:
    handles = [
        panel.plot([], [], MARKERS[model], color=colour, label=f"{variant}, {model}")[0]
        for variant, colour in COLOURS.items()
        for model in MARKERS
    ]
    for variant, colour in COLOURS.items():
        handles += panel.plot([], [], "D", markerfacecolor="none", color=colour, label=f"{variant}, paper's forest")
    half, nothing = len(MARKERS), panel.plot([], [], linestyle="none", label=" ")  # so that each column has one colour
    return [*handles[:half], handles[-2], *nothing, *handles[half:-2], handles[-1], *nothing]
