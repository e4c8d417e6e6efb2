"""Pictures of an audit, drawn with matplotlib; the numbers are all in the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..results import CERTIFIED, INCONCLUSIVE, NOT_TESTABLE, VIOLATED, AuditReport, Penalty, title
from .wording import Scale, difference_scale, finite, penalty_scale, prediction_scale, printable, share, shorten, wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 5.2
"""Inches. Small, so that text of 10 points is still legible where a page is as narrow as a phone."""
MAX_ROWS = 24
_ROW_HEIGHT = 0.4
_LABEL_WIDTH = 21
_SQUARE = (WIDTH, 4.4)
_FLAT = (WIDTH, 3.4)

COLOURS = {
    CERTIFIED: "#1a7f4b",
    VIOLATED: "#b3261e",
    INCONCLUSIVE: "#8a5a00",
    NOT_TESTABLE: "#59636e",
    "accent": "#2a62b8",
}
"""By verdict; each has a marker of its own as well, for those who do not see the colours."""
MARKERS = {CERTIFIED: "o", VIOLATED: "D", INCONCLUSIVE: "^", NOT_TESTABLE: "s"}
_SEVERITY = {VIOLATED: 0, INCONCLUSIVE: 1, CERTIFIED: 2}


@dataclass(frozen=True)
class Picture:
    """What can be drawn of a report, in which size (inches), and why there may be nothing to draw."""

    draw: Callable[[AuditReport, Axes], None]
    size: Callable[[AuditReport], tuple[float, float]]
    missing: Callable[[AuditReport], str]
    """A sentence if there is nothing to draw, else empty."""

    def on(self, report: AuditReport, ax: Axes) -> Axes:
        """Draw on the axes, if only a sentence why there is nothing to see."""
        report = printable(report)
        sentence = self.missing(report)
        if sentence:
            _write(ax, sentence)
        else:
            self.draw(report, ax)
        return ax


def plot_penalty(report: AuditReport, ax: Any = None) -> Any:
    """Draw the penalties with their intervals and the margin; return the matplotlib axes."""
    return _show(PICTURES["penalty"], report, ax)


def plot_calibration(report: AuditReport, ax: Any = None) -> Any:
    """Draw outcomes against predictions, with everything optional erased and as people come; return the axes."""
    return _show(PICTURES["calibration"], report, ax)


def plot_base_versus_model(report: AuditReport, ax: Any = None) -> Any:
    """Draw the model against the base-features model for people who share nothing; return the axes."""
    return _show(PICTURES["base-versus-model"], report, ax)


def plot_sharing_effect(report: AuditReport, ax: Any = None) -> Any:
    """Draw how sharing changes predictions; return the matplotlib axes."""
    return _show(PICTURES["sharing-effect"], report, ax)


def plot_balance(report: AuditReport, ax: Any = None) -> Any:
    """Draw actual / expected by set of shared groups; return the matplotlib axes."""
    return _show(PICTURES["balance"], report, ax)


def _show(picture: Picture, report: AuditReport, ax: Any) -> Any:
    if ax is None:
        import matplotlib.pyplot as plt  # so that notebooks show the figure

        ax = plt.subplots(figsize=picture.size(report), layout="constrained")[1]
    return picture.on(report, ax)


def _write(ax: Axes, sentence: str) -> None:
    ax.set_axis_off()
    for line, text in enumerate(wrap(sentence, 48, 6)):
        ax.text(0.5, 0.6 - 0.1 * line, text, ha="center", va="center", transform=ax.transAxes, parse_math=False)


# Penalties -----------------------------------------------------------------------------------------------------------


def shown_penalties(report: AuditReport) -> tuple[list[Penalty], int]:
    """Return the penalties to draw in their order, the graver ones if they are too many, and how many are left out."""
    tested = [p for p in report.penalties if p.estimate is not None and finite(p.estimate.value) is not None]

    def rank(place: int) -> tuple[bool, bool, int, int]:
        p = tested[place]
        return place != 0, not p.decisive, _SEVERITY.get(p.verdict, 3), place  # the first is about everybody silent

    chosen = sorted(sorted(range(len(tested)), key=rank)[:MAX_ROWS])
    return [tested[i] for i in chosen], len(tested) - len(chosen)


def _no_penalties(report: AuditReport) -> str:
    return "" if shown_penalties(report)[0] else "No set of people was large enough to be tested."


def _penalty_size(report: AuditReport) -> tuple[float, float]:
    rows, left_out = shown_penalties(report)
    return (WIDTH, 1.4 + _ROW_HEIGHT * max(2, len(rows) + bool(left_out)))


def _draw_penalties(report: AuditReport, ax: Axes) -> None:
    scale = penalty_scale(report)
    rows, left_out = shown_penalties(report)
    margin = scale.factor * report.margin
    ink = _ink()
    band = ax.axvspan(
        -margin, margin, color=COLOURS["accent"], alpha=0.13, lw=0, label=f"margin ±{scale.show(report.margin)}"
    )
    ax.axvline(0, color=ink, lw=0.8)
    joint = simple = None
    for y, p in enumerate(rows):
        assert p.estimate is not None
        colour, face = COLOURS[p.verdict], COLOURS[p.verdict] if p.decisive else "none"
        joint = _line(ax, y, p.verdict_lower, p.verdict_upper, scale, color=colour, lw=7, alpha=0.35) or joint
        simple = _line(ax, y, p.estimate.lower, p.estimate.upper, scale, color=colour, lw=1.3) or simple
        ax.plot(scale.factor * p.estimate.value, y, MARKERS[p.verdict], ms=6, mfc=face, mec=colour, zorder=3, ls="none")
    if left_out:
        _label_row(ax, len(rows), f"{left_out} more: see table")
    _label_rows(ax, [_penalty_label(p) for p in rows], len(rows) + bool(left_out))
    _scale_axis(ax.xaxis)
    unit = "percentage points" if scale.factor != 1 else "units of the prediction"
    ax.set_xlabel(f"average penalty, {unit}", loc="right")  # names may leave the axes narrower than this
    _sides(ax, "← told less", "told more →")
    keys = [*_verdict_keys(rows), *_interval_keys(joint, simple, report), band]
    _legend(ax, keys, 2 if len(keys) <= 4 else 3, at_right=True)


def _penalty_label(p: Penalty) -> str:
    name = title(p) if p.subgroup is None else f"{p.subgroup}: {p.name}"
    return name if p.decisive else f"{name} (comparison)"


def _line(ax: Axes, y: float, lower: float | None, upper: float | None, scale: Scale, **style: Any) -> Any:
    if finite(lower) is None or finite(upper) is None:
        return None
    ends = [scale.factor * float(end or 0) for end in (lower, upper)]
    return ax.plot(ends, [y, y], solid_capstyle="butt", **style)[0]


def _verdict_keys(rows: Sequence[Penalty]) -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=COLOURS[verdict], marker=MARKERS[verdict], ls="none", ms=6, label=verdict)
        for verdict in (CERTIFIED, VIOLATED, INCONCLUSIVE)
        if any(p.verdict == verdict for p in rows)
    ]


def _interval_keys(joint: Any, simple: Any, report: AuditReport) -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=_ink(), lw=width, alpha=alpha, label=label, solid_capstyle="butt")
        for drawn, width, alpha, label in (
            (joint, 7, 0.35, "verdict interval"),
            (simple, 1.3, 1, f"{share(report.level, 0)} interval"),
        )
        if drawn is not None
    ]


# Calibration and scatter ---------------------------------------------------------------------------------------------


def _no_calibration(report: AuditReport) -> str:
    if any(_curve(c.bins, 1) for c in report.calibration):
        return ""
    if report.unit.startswith("probability of"):
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


def _draw_calibration(report: AuditReport, ax: Axes) -> None:
    scale = prediction_scale(report)
    styles = (
        {"color": COLOURS["accent"], "marker": "o", "lw": 1.5},
        {"color": _ink(), "marker": "s", "lw": 1.0, "ls": "--", "mfc": "none", "alpha": 0.6},
    )
    ends: list[float] = []
    for calibration, style in zip(report.calibration, styles, strict=False):
        points = _curve(calibration.bins, scale.factor)
        if not points:
            continue
        f, y, lower, upper = zip(*points, strict=True)
        errors = [[v - lo for v, lo in zip(y, lower, strict=True)], [hi - v for v, hi in zip(y, upper, strict=True)]]
        name = shorten(calibration.name.removeprefix("everybody, "), 28)
        ax.errorbar(f, y, yerr=errors, ms=5, elinewidth=1, label=name, **style)
        ends += [*f, *lower, *upper]
    _diagonal(ax, ends, "outcome = prediction")
    _prediction_axes(ax, scale)
    ax.set_xlabel("prediction")
    ax.set_ylabel("average outcome")
    _legend(ax, ax.get_legend_handles_labels()[0], 2)


def _no_scatter(report: AuditReport) -> str:
    drawable = any(finite(p.base) is not None and finite(p.model) is not None for p in report.scatter)
    return "" if drawable else "Nobody among the audited people shares nothing, so there is nobody to draw."


def _draw_scatter(report: AuditReport, ax: Axes) -> None:
    scale = prediction_scale(report)
    points = [
        (scale.factor * p.base, scale.factor * p.model)
        for p in report.scatter
        if finite(p.base) is not None and finite(p.model) is not None
    ]
    base, model = zip(*points, strict=True)
    ax.plot(base, model, "o", ms=3.5, color=COLOURS["accent"], alpha=0.45, mew=0, label="a person who shares nothing")
    _diagonal(ax, [*base, *model], "no difference")
    _prediction_axes(ax, scale)
    ax.set_xlabel("model with base features only")
    ax.set_ylabel("audited model")
    _legend(ax, ax.get_legend_handles_labels()[0], 2)


def _diagonal(ax: Axes, ends: Sequence[float], label: str) -> None:
    lowest, highest = min(ends), max(ends)
    room = 0.04 * (highest - lowest) or 0.05 * abs(highest) or 1.0
    limits = (lowest - room, highest + room)
    ax.plot(limits, limits, color=_ink(), lw=0.8, zorder=0, label=label)
    ax.set(xlim=limits, ylim=limits)


# Sharing effect and balance ------------------------------------------------------------------------------------------


def _no_sharing_effect(report: AuditReport) -> str:
    effect = report.sharing_effect
    if effect is None or not effect.histogram.shares:
        return "Nobody among the audited people shares anything, so there is no effect of sharing."
    if sum(value > 0 for value in effect.histogram.shares) <= 1:
        scale = difference_scale(report)
        if effect.mean == 0:
            return "Sharing does not change any prediction."
        return f"Sharing changes every prediction by the same amount: {scale.show(effect.mean, signed=True)}."
    return ""


def _draw_sharing_effect(report: AuditReport, ax: Axes) -> None:
    assert report.sharing_effect is not None
    scale = difference_scale(report)
    histogram = report.sharing_effect.histogram
    edges = [scale.factor * edge for edge in histogram.edges]
    worse_is_right = report.favourable == "lower"
    for left, right, height in zip(edges[:-1], edges[1:], histogram.shares, strict=True):
        worse, better = (left >= 0, right <= 0) if worse_is_right else (right <= 0, left >= 0)
        colour = COLOURS[VIOLATED] if worse else COLOURS[CERTIFIED] if better else COLOURS[NOT_TESTABLE]
        ax.bar(left, 100 * height, width=right - left, align="edge", color=colour, lw=0, alpha=0.75)
    ax.axvline(0, color=_ink(), lw=1)
    _scale_axis(ax.xaxis)
    _scale_axis(ax.yaxis, "%")
    unit = "percentage points" if scale.factor != 1 else "units of the prediction"
    ax.set_xlabel(f"change of the prediction, {unit}")
    ax.set_ylabel("of those who share something")
    sides = ("better off", "worse off") if worse_is_right else ("worse off", "better off")
    _sides(ax, f"← {sides[0]}", f"{sides[1]} →")


def _drawable_balance(report: AuditReport) -> list[Any]:
    return [b for b in report.balance if b.ratio is not None and finite(b.ratio.value) is not None]


def _no_balance(report: AuditReport) -> str:
    return (
        "" if _drawable_balance(report) else "Actual / expected cannot be formed: average predictions are not positive."
    )


def _balance_size(report: AuditReport) -> tuple[float, float]:
    count = len(_drawable_balance(report))
    return (WIDTH, 0.85 + _ROW_HEIGHT * max(2, min(count, MAX_ROWS) + (count > MAX_ROWS)))


def _draw_balance(report: AuditReport, ax: Axes) -> None:
    everything = _drawable_balance(report)
    rows, left_out = everything[:MAX_ROWS], len(everything[MAX_ROWS:])
    ax.axvline(1, color=_ink(), lw=0.8)
    plain = Scale(1, 2, "", "")
    for y, b in enumerate(rows):
        _line(ax, y, b.ratio.lower, b.ratio.upper, plain, color=COLOURS["accent"], lw=1.5)
        ax.plot(b.ratio.value, y, "o", ms=6, color=COLOURS["accent"])
    if left_out:
        _label_row(ax, len(rows), f"{left_out} more: see table")
    _label_rows(ax, [b.name for b in rows], len(rows) + bool(left_out))
    _scale_axis(ax.xaxis)
    ax.set_xlabel("actual / expected", loc="right")
    _sides(ax, "← lower than predicted", "higher →")


# Shared ---------------------------------------------------------------------------------------------------------------


def _ink() -> Any:
    """Return the colour of text, so that pictures fit the style in use."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def _label_rows(ax: Axes, labels: Sequence[str], count: int) -> None:
    """Make the y axis a list of names, the first on top."""
    ax.set_ylim(count - 0.4, -0.6)
    ax.set_yticks([])
    for y, label in enumerate(labels):
        _label_row(ax, y, label)
    for side in ("left", "top", "right"):
        ax.spines[side].set_visible(False)


def _label_row(ax: Axes, y: float, label: str) -> None:
    # One text per line: in SVG a single line is aligned to the right whatever the font, several by a guess of widths.
    lines = wrap(_keep_groups_whole(label), _LABEL_WIDTH, 2)
    for line, text in enumerate(lines):
        ax.annotate(
            text,
            (0, y),
            (-6, 12 * ((len(lines) - 1) / 2 - line)),
            xycoords=ax.get_yaxis_transform(),
            textcoords="offset points",
            ha="right",
            va="center_baseline",
            annotation_clip=False,
            parse_math=False,
            usetex=False,  # names are no formulas
        )


def _keep_groups_whole(label: str) -> str:
    """Return a label that is broken between groups rather than within, where they are short enough."""
    parts = [part if len(part) > _LABEL_WIDTH - 2 else part.replace(" ", "\u00a0") for part in label.split(" + ")]
    return "\u00a0+ ".join(parts) if len(parts) > 1 else label


def _sides(ax: Axes, left: str, right: str) -> None:
    for x, text, ha in ((0, left, "left"), (1, right, "right")):
        ax.text(x, 1.0, text, transform=ax.transAxes, ha=ha, va="bottom")


def _scale_axis(axis: Any, suffix: str = "") -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}".replace("-", "−") + suffix))


def _prediction_axes(ax: Axes, scale: Scale) -> None:
    _scale_axis(ax.xaxis, scale.suffix)
    _scale_axis(ax.yaxis, scale.suffix)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _legend(ax: Axes, handles: Sequence[Any], columns: int, *, at_right: bool = False) -> None:
    """Put the legend below the picture, where it hides nothing."""
    from matplotlib.transforms import ScaledTranslation

    below_the_axis_label = ScaledTranslation(0, -0.56, ax.figure.dpi_scale_trans)
    legend = ax.legend(
        handles=handles,
        loc="upper right" if at_right else "upper center",
        bbox_to_anchor=(1.0 if at_right else 0.5, 0),
        bbox_transform=ax.transAxes + below_the_axis_label,
        borderaxespad=0,
        borderpad=0,
        ncols=columns,
        frameon=False,
        handlelength=1.4,
        handletextpad=0.5,
        columnspacing=1.0,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


PICTURES = {
    "penalty": Picture(_draw_penalties, _penalty_size, _no_penalties),
    "calibration": Picture(_draw_calibration, lambda _: _SQUARE, _no_calibration),
    "base-versus-model": Picture(_draw_scatter, lambda _: _SQUARE, _no_scatter),
    "sharing-effect": Picture(_draw_sharing_effect, lambda _: _FLAT, _no_sharing_effect),
    "balance": Picture(_draw_balance, _balance_size, _no_balance),
}
