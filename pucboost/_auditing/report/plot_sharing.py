"""Plots of what sharing does: to predictions, and to the balance of the book."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..findings import CERTIFIED, NOT_TESTABLE, VIOLATED, Findings
from .drawing import COLOURS, MAX_ROWS, WIDTH, Plot, Rows, ink, label_rows, line, scale_axis, sides
from .numbers import Scale, difference_scale, finite

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FLAT = (WIDTH, 3.4)


def _no_sharing_effect(findings: Findings) -> str:
    effect = findings.sharing_effect
    if effect is None or not effect.histogram.shares:
        return "Nobody audited shares anything, so there is no effect of sharing."
    if sum(value > 0 for value in effect.histogram.shares) <= 1:
        scale = difference_scale(findings)
        if effect.mean == 0:
            return "Sharing does not change any prediction."
        return f"Sharing changes every prediction by the same amount: {scale.show(effect.mean, signed=True)}."
    return ""


def _draw_sharing_effect(findings: Findings, ax: Axes) -> None:
    assert findings.sharing_effect is not None
    scale = difference_scale(findings)
    histogram = findings.sharing_effect.histogram
    edges = [scale.factor * edge for edge in histogram.edges]
    worse_is_right = findings.favourable == "lower"
    for left, right, height in zip(edges[:-1], edges[1:], histogram.shares, strict=True):
        worse, better = (left >= 0, right <= 0) if worse_is_right else (right <= 0, left >= 0)
        colour = COLOURS[VIOLATED] if worse else COLOURS[CERTIFIED] if better else COLOURS[NOT_TESTABLE]
        ax.bar(left, 100 * height, width=right - left, align="edge", color=colour, lw=0, alpha=0.75)
    ax.axvline(0, color=ink(), lw=1)
    scale_axis(ax.xaxis)
    scale_axis(ax.yaxis, "%")
    unit = "percentage points" if scale.factor != 1 else "units of the prediction"
    ax.set_xlabel(f"change in the prediction, {unit}")
    ax.set_ylabel("of those who share something")
    meaning = ("better off", "worse off") if worse_is_right else ("worse off", "better off")
    sides(ax, f"← {meaning[0]}", f"{meaning[1]} →")


def _drawable_balance(findings: Findings) -> list[Any]:
    return [b for b in findings.balance if b.ratio is not None and finite(b.ratio.value) is not None]


def _no_balance(findings: Findings) -> str:
    return (
        ""
        if _drawable_balance(findings)
        else "Actual / expected cannot be computed: average predictions are not positive."
    )


def _balance_size(findings: Findings) -> tuple[float, float]:
    return (WIDTH, 0.85 + _rows(_drawable_balance(findings)).inches)


def _rows(drawable: list[Any]) -> Rows:
    return Rows.named([b.name for b in drawable[:MAX_ROWS]], len(drawable[MAX_ROWS:]))


def _draw_balance(findings: Findings, ax: Axes) -> None:
    everything = _drawable_balance(findings)
    named = _rows(everything)
    ax.axvline(1, color=ink(), lw=0.8)
    plain = Scale(1, 2, "", "")
    for y, b in zip(named.places, everything[:MAX_ROWS], strict=False):
        line(ax, y, b.ratio.lower, b.ratio.upper, plain, color=COLOURS["accent"], lw=1.5)
        ax.plot(b.ratio.value, y, "o", ms=6, color=COLOURS["accent"])
    label_rows(ax, named)
    scale_axis(ax.xaxis)
    ax.set_xlabel("actual / expected", loc="right")
    sides(ax, "← lower than predicted", "higher →")


SHARING_EFFECT = Plot(_draw_sharing_effect, lambda _: _FLAT, _no_sharing_effect)
BALANCE = Plot(_draw_balance, _balance_size, _no_balance)
