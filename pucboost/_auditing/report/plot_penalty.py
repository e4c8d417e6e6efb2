"""The plot of the penalties: marks, intervals and the margin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..findings import CERTIFIED, INCONCLUSIVE, NOT_TESTABLE, VIOLATED, Findings, Penalty, title
from .drawing import (
    COLOURS,
    MAX_ROWS,
    WIDTH,
    Plot,
    Rows,
    ink,
    label_rows,
    legend,
    line,
    scale_axis,
    sides,
)
from .numbers import finite, penalty_scale, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {CERTIFIED: "o", VIOLATED: "D", INCONCLUSIVE: "^", NOT_TESTABLE: "s"}

_SEVERITY = {VIOLATED: 0, INCONCLUSIVE: 1, CERTIFIED: 2}


def shown_penalties(findings: Findings) -> tuple[list[Penalty], int]:
    """Return the penalties to draw, in order, and how many are left out; too many are cut to the most serious."""
    tested = [p for p in findings.penalties if p.estimate is not None and finite(p.estimate.value) is not None]

    def rank(place: int) -> tuple[bool, bool, int, int]:
        p = tested[place]
        return place != 0, not p.decisive, _SEVERITY.get(p.verdict, 3), place  # the first is about all who withhold

    chosen = sorted(sorted(range(len(tested)), key=rank)[:MAX_ROWS])
    return [tested[i] for i in chosen], len(tested) - len(chosen)


def _no_penalties(findings: Findings) -> str:
    return "" if shown_penalties(findings)[0] else "No set of people was large enough to be tested."


def _penalty_size(findings: Findings) -> tuple[float, float]:
    return (WIDTH, 1.4 + _rows(*shown_penalties(findings)).inches)


def _rows(shown: Sequence[Penalty], left_out: int) -> Rows:
    return Rows.named([_penalty_label(p) for p in shown], left_out)


def _draw_penalties(findings: Findings, ax: Axes) -> None:
    scale = penalty_scale(findings)
    rows, left_out = shown_penalties(findings)
    margin = scale.factor * findings.margin
    axis_colour = ink()
    band = ax.axvspan(
        -margin, margin, color=COLOURS["accent"], alpha=0.13, lw=0, label=f"margin ±{scale.show(findings.margin)}"
    )
    ax.axvline(0, color=axis_colour, lw=0.8)
    joint = simple = None
    named = _rows(rows, left_out)
    for y, p in zip(named.places, rows, strict=False):
        assert p.estimate is not None
        colour, face = COLOURS[p.verdict], COLOURS[p.verdict] if p.decisive else "none"
        joint = line(ax, y, p.verdict_lower, p.verdict_upper, scale, color=colour, lw=7, alpha=0.35) or joint
        simple = line(ax, y, p.estimate.lower, p.estimate.upper, scale, color=colour, lw=1.3) or simple
        ax.plot(scale.factor * p.estimate.value, y, MARKERS[p.verdict], ms=6, mfc=face, mec=colour, zorder=3, ls="none")
    label_rows(ax, named)
    scale_axis(ax.xaxis)
    unit = "percentage points" if scale.factor != 1 else "units of the prediction"
    ax.set_xlabel(f"average penalty, {unit}", loc="right")  # long names may leave the axes narrower than this
    sides(ax, "← told less", "told more →")
    keys = [*_verdict_keys(rows), *_interval_keys(joint, simple, findings), band]
    legend(ax, keys, 2 if len(keys) <= 4 else 3, at_right=True)


def _penalty_label(p: Penalty) -> str:
    name = title(p) if p.subgroup is None else f"{p.subgroup}: {p.name}"
    return name if p.decisive else f"{name} (comparison)"


def _verdict_keys(rows: Sequence[Penalty]) -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=COLOURS[verdict], marker=MARKERS[verdict], ls="none", ms=6, label=verdict)
        for verdict in (CERTIFIED, VIOLATED, INCONCLUSIVE)
        if any(p.verdict == verdict for p in rows)
    ]


def _interval_keys(joint: Any, simple: Any, findings: Findings) -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=ink(), lw=width, alpha=alpha, label=label, solid_capstyle="butt")
        for drawn, width, alpha, label in (
            (joint, 7, 0.35, "verdict interval"),
            (simple, 1.3, 1, f"{share(findings.level, 0)} interval"),
        )
        if drawn is not None
    ]


PENALTY = Plot(_draw_penalties, _penalty_size, _no_penalties)
