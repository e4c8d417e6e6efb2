"""The figure of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.harness.types import Rows


def figure(rows: Rows) -> Figure:
    """Draw the share of the copy's bandwidth, with the speed-up over the twin written beside."""
    drawing = Figure(figsize=(9, 6.5), layout="constrained")
    ax = drawing.subplots()
    for place, row in enumerate(reversed(rows)):
        one, two = float(row["share of copy"]), float(row.get("share of copy, 2 threads") or "nan")
        ax.barh(place + 0.19, 100 * one, 0.36, color="#0072B2", label="1 thread" if place == 0 else None)
        ax.barh(place - 0.19, 100 * two, 0.36, color="#E69F00", label="2 threads" if place == 0 else None)
        end = 100 * float(np.nanmax([one, two]))
        digits = f"{float(row['× twin']):.2g}"
        beside: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        ax.annotate(f"{float(digits):,.0f} ×", (end, place), bbox=paper, **beside)
    ax.axvline(100, color="0.3", lw=0.8, ls="--", zorder=0)
    ax.set_yticks(range(len(rows)), [row["kernel"] for row in reversed(rows)], fontsize=9)
    ax.set_xscale("log")
    ax.margins(x=0.12, y=0.01)
    ax.set_xlim(left=min(1.0, ax.get_xlim()[0]))
    ax.xaxis.set_major_formatter("{x:g} %")
    ax.set_xlabel("bytes per second, against a numpy copy with as many threads")
    ax.grid(axis="x", color="0.9", lw=0.6)
    ax.set_axisbelow(True)
    drawing.legend(
        loc="outside upper center", ncols=2, fontsize=9, frameon=False,
        title="number beside a bar: times faster than the naive twin (1 thread)", title_fontsize=9,
    )  # fmt: skip
    return drawing
