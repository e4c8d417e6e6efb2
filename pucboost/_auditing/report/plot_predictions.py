"""Plots of predictions: against outcomes, and against the base-features model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..findings import Findings
from .drawing import COLOURS, WIDTH, Plot, ink, legend, prediction_axes
from .numbers import finite, prediction_scale
from .text import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SQUARE = (WIDTH, 4.4)


def _no_calibration(findings: Findings) -> str:
    if any(_curve(c.bins, 1) for c in findings.calibration):
        return ""
    if findings.unit.startswith("probability of"):
        return "There is no calibration curve: the predictions are quantiles, not averages of the outcome."
    return "There is no calibration curve: there are no outcomes to average."


def _curve(bins: Sequence[Any], factor: float) -> list[tuple[float, float, float, float]]:
    """Return prediction, outcome and interval of the bins that can be drawn."""
    values = [(b.prediction, b.outcome, b.lower, b.upper) for b in bins]
    return [
        (factor * f, factor * y, factor * lo, factor * hi)
        for f, y, lo, hi in values
        if None not in (finite(f), finite(y), finite(lo), finite(hi))
    ]


def _draw_calibration(findings: Findings, ax: Axes) -> None:
    scale = prediction_scale(findings)
    styles = (
        {"color": COLOURS["accent"], "marker": "o", "lw": 1.5},
        {"color": ink(), "marker": "s", "lw": 1.0, "ls": "--", "mfc": "none", "alpha": 0.6},
    )
    ends: list[float] = []
    for calibration, style in zip(findings.calibration, styles, strict=False):
        points = _curve(calibration.bins, scale.factor)
        if not points:
            continue
        f, y, lower, upper = zip(*points, strict=True)
        errors = [[v - lo for v, lo in zip(y, lower, strict=True)], [hi - v for v, hi in zip(y, upper, strict=True)]]
        name = shorten(calibration.name.removeprefix("everybody, "), 28)
        ax.errorbar(f, y, yerr=errors, ms=5, elinewidth=1, label=name, **style)
        ends += [*f, *lower, *upper]
    _diagonal(ax, ends, "outcome = prediction")
    prediction_axes(ax, scale)
    ax.set_xlabel("prediction")
    ax.set_ylabel("average outcome")
    legend(ax, ax.get_legend_handles_labels()[0], 2)


def _no_scatter(findings: Findings) -> str:
    drawable = any(finite(p.base) is not None and finite(p.model) is not None for p in findings.scatter)
    return "" if drawable else "Everybody audited shares something, so there is nobody to draw."


def _draw_scatter(findings: Findings, ax: Axes) -> None:
    scale = prediction_scale(findings)
    points = [
        (scale.factor * p.base, scale.factor * p.model)
        for p in findings.scatter
        if finite(p.base) is not None and finite(p.model) is not None
    ]
    base, model = zip(*points, strict=True)
    ax.plot(base, model, "o", ms=3.5, color=COLOURS["accent"], alpha=0.45, mew=0, label="a person who shares nothing")
    _diagonal(ax, [*base, *model], "no difference")
    prediction_axes(ax, scale)
    ax.set_xlabel("model with base features only")
    ax.set_ylabel("audited model")
    legend(ax, ax.get_legend_handles_labels()[0], 2)


def _diagonal(ax: Axes, ends: Sequence[float], label: str) -> None:
    lowest, highest = min(ends), max(ends)
    room = 0.04 * (highest - lowest) or 0.05 * abs(highest) or 1.0
    limits = (lowest - room, highest + room)
    ax.plot(limits, limits, color=ink(), lw=0.8, zorder=0, label=label)
    ax.set(xlim=limits, ylim=limits)


CALIBRATION = Plot(_draw_calibration, lambda _: _SQUARE, _no_calibration)
BASE_VERSUS_MODEL = Plot(_draw_scatter, lambda _: _SQUARE, _no_scatter)
