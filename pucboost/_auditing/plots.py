"""The plots of an audit, drawn with matplotlib from the findings alone.

:data:`PLOTS` lists them by name. ``show`` draws one for a notebook, in the style in use; ``inline_svg`` draws it for an
HTML page, in the page's fonts and colours and the same for the same findings.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from .._common import Array
from .._pages import printable
from .blocks import Scale, difference_scale, finite, penalty_scale, prediction_scale, share, shorten, tone, wrap
from .findings import CERTIFIED, INCONCLUSIVE, VIOLATED, AuditReport, Penalty, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


WIDTH = 5.2
"""Inches. Small, so that 10-point text stays legible on a page as narrow as a phone."""
MAX_ROWS = 24
ROW_HEIGHT = 0.4
"""Inches, for labels of one or two lines."""
_LABEL_WIDTH = 24
_LABEL_LINES = 10
"""Only longer labels are cut; the table has them whole."""
_LINE_HEIGHT = 12
"""Points."""

COLOURS = {
    CERTIFIED: "#1a7f4b",
    VIOLATED: "#b3261e",
    INCONCLUSIVE: "#8a5a00",
    "not-testable": "#59636e",
    "accent": "#2a62b8",
}
"""By tone; each has a marker of its own as well, for readers who cannot tell the colours apart."""
MARKERS = {CERTIFIED: "o", VIOLATED: "D", INCONCLUSIVE: "^", "not-testable": "s"}
_SEVERITY = {VIOLATED: 0, INCONCLUSIVE: 1, CERTIFIED: 2}


@dataclass(frozen=True)
class Plot:
    """How to draw one aspect of the findings, how high (inches), and why there may be nothing to draw."""

    draw: Callable[[Any, Axes], None]
    height: Callable[[Any], float]
    missing: Callable[[Any], str]
    """A sentence if there is nothing to draw, else empty."""

    def size(self, findings: Any) -> tuple[float, float]:
        return WIDTH, self.height(findings)

    def on(self, findings: Any, ax: Axes) -> Axes:
        """Draw on the axes; if there is nothing to draw, write why."""
        findings = printable(findings)
        sentence = self.missing(findings)
        if not sentence:
            self.draw(findings, ax)
            return ax
        ax.set_axis_off()
        for row, text in enumerate(wrap(sentence, 48, 6)):
            ax.text(0.5, 0.6 - 0.1 * row, text, ha="center", va="center", transform=ax.transAxes, parse_math=False)
        return ax


def shown_penalties(findings: AuditReport) -> tuple[list[Penalty], int]:
    """Return the penalties to draw, in order, and how many are left out; too many are cut to the most serious."""
    tested = [p for p in findings.penalties if p.estimate is not None and finite(p.estimate.value) is not None]

    def rank(place: int) -> tuple[bool, bool, int, int]:
        p = tested[place]  # the first is about all who withhold
        return place != 0, not p.decisive, _SEVERITY.get(tone(p.verdict), 3), place

    chosen = sorted(sorted(range(len(tested)), key=rank)[:MAX_ROWS])
    return [tested[i] for i in chosen], len(tested) - len(chosen)


def _penalty_rows(findings: AuditReport) -> Rows:
    shown, left_out = shown_penalties(findings)
    names = [title(p) if p.subgroup is None else f"{p.subgroup}: {p.name}" for p in shown]
    return Rows.named([n if p.decisive else f"{n} (comparison)" for n, p in zip(names, shown, strict=True)], left_out)


def _no_penalties(findings: AuditReport) -> str:
    return "" if shown_penalties(findings)[0] else "No set of people was large enough to be tested."


def _draw_penalties(findings: AuditReport, ax: Axes) -> None:
    from matplotlib.lines import Line2D

    scale, rows = penalty_scale(findings), _penalty_rows(findings)
    shown, _ = shown_penalties(findings)
    margin = scale.factor * findings.margin
    name = f"margin ±{scale.show(findings.margin)}"
    band = ax.axvspan(-margin, margin, color=COLOURS["accent"], alpha=0.13, lw=0, label=name)
    ax.axvline(0, color=ink(), lw=0.8)
    joint: dict[str, Any] = {"lw": 7, "alpha": 0.35, "solid_capstyle": "butt"}
    alone: dict[str, Any] = {"lw": 1.3, "solid_capstyle": "butt"}
    verdicts = {}
    for y, p in zip(rows.places, shown, strict=False):
        assert p.estimate is not None
        colour, marker = COLOURS[tone(p.verdict)], MARKERS[tone(p.verdict)]
        line(ax, y, p.verdict_lower, p.verdict_upper, scale, color=colour, **joint)
        line(ax, y, p.estimate.lower, p.estimate.upper, scale, color=colour, **alone)
        style: dict[str, Any] = {"color": colour, "marker": marker, "ms": 6, "ls": "none"}
        ax.plot(scale.factor * p.estimate.value, y, zorder=3, **style, mfc=colour if p.decisive else "none")
        verdicts[p.verdict] = Line2D([], [], label=p.verdict, **style)
    label_rows(ax, rows, f"average penalty, {scale.unit}")
    sides(ax, "← told less", "told more →")
    intervals = (("verdict interval", joint), (f"{share(findings.level, 0)} interval", alone))
    lines = [Line2D([], [], color=ink(), label=label, **style) for label, style in intervals]
    keys = [*(verdicts[verdict] for verdict in sorted(verdicts)), *lines, band]
    legend(ax, keys, 2 if len(keys) <= 4 else 3, at_right=True)


def _curves(findings: AuditReport) -> list[tuple[str, Array]]:
    """Return the name of each curve that can be drawn, and its points: prediction, outcome, interval of the outcome."""
    found = []
    for curve in findings.calibration:
        points = np.array([(b.prediction, b.outcome, b.lower, b.upper) for b in curve.bins], dtype=float).reshape(-1, 4)
        found.append((curve.name, points[np.isfinite(points).all(axis=1)]))
    return [(name, points) for name, points in found if len(points)]


def _no_calibration(findings: AuditReport) -> str:
    if _curves(findings):
        return ""
    if findings.unit.startswith("probability of"):
        return "There is no calibration curve: the predictions are quantiles, not averages of the outcome."
    return "There is no calibration curve: there are no outcomes to average."


def _draw_calibration(findings: AuditReport, ax: Axes) -> None:
    scale = prediction_scale(findings)
    styles = (
        {"color": COLOURS["accent"], "marker": "o", "lw": 1.5},
        {"color": ink(), "marker": "s", "lw": 1.0, "ls": "--", "mfc": "none", "alpha": 0.6},
    )
    ends: list[float] = []
    for (name, points), style in zip(_curves(findings), styles, strict=False):
        f, y, lower, upper = scale.factor * points.T
        label = shorten(name.removeprefix("everybody, "), 28)
        ax.errorbar(f, y, yerr=[y - lower, upper - y], ms=5, elinewidth=1, label=label, **style)
        ends += [*f, *lower, *upper]
    _against(ax, scale, ends, "prediction", "average outcome", "outcome = prediction")


def _scatter(findings: AuditReport) -> list[tuple[float, float]]:
    return [(p.base, p.model) for p in findings.scatter if finite(p.base) is not None and finite(p.model) is not None]


def _no_scatter(findings: AuditReport) -> str:
    return "" if _scatter(findings) else "Everybody audited shares something, so there is nobody to draw."


def _draw_scatter(findings: AuditReport, ax: Axes) -> None:
    scale = prediction_scale(findings)
    base, model = ([scale.factor * value for value in values] for values in zip(*_scatter(findings), strict=True))
    ax.plot(base, model, "o", ms=3.5, color=COLOURS["accent"], alpha=0.45, mew=0, label="a person who shares nothing")
    _against(ax, scale, [*base, *model], "model with base features only", "audited model", "no difference")


def _against(ax: Axes, scale: Scale, ends: Sequence[float], x: str, y: str, diagonal: str) -> None:
    """Finish a plot of one kind of prediction against another: the same scale on both axes, and the diagonal."""
    lowest, highest = min(ends), max(ends)
    room = 0.04 * (highest - lowest) or 0.05 * abs(highest) or 1.0
    limits = (lowest - room, highest + room)
    ax.plot(limits, limits, color=ink(), lw=0.8, zorder=0, label=diagonal)
    ax.set(xlim=limits, ylim=limits, xlabel=x, ylabel=y)
    scale_axis(ax.xaxis, scale.suffix)
    scale_axis(ax.yaxis, scale.suffix)
    legend(ax, ax.get_legend_handles_labels()[0], 2)


def _no_sharing_effect(findings: AuditReport) -> str:
    effect = findings.sharing_effect
    if effect is None or not effect.histogram.shares:
        return "Nobody audited shares anything, so there is no effect of sharing."
    if sum(value > 0 for value in effect.histogram.shares) <= 1:
        scale = difference_scale(findings)
        if effect.mean == 0:
            return "Sharing does not change any prediction."
        return f"Sharing changes every prediction by the same amount: {scale.show(effect.mean, signed=True)}."
    return ""


def _draw_sharing_effect(findings: AuditReport, ax: Axes) -> None:
    assert findings.sharing_effect is not None
    scale = difference_scale(findings)
    histogram = findings.sharing_effect.histogram
    edges = [scale.factor * edge for edge in histogram.edges]
    worse_is_right = findings.favourable == "lower"
    for left, right, height in zip(edges[:-1], edges[1:], histogram.shares, strict=True):
        worse, better = (left >= 0, right <= 0) if worse_is_right else (right <= 0, left >= 0)
        if findings.favourable is None:
            worse = better = False
        colour = COLOURS[VIOLATED] if worse else COLOURS[CERTIFIED] if better else COLOURS["not-testable"]
        ax.bar(left, 100 * height, width=right - left, align="edge", color=colour, lw=0, alpha=0.75)
    ax.axvline(0, color=ink(), lw=1)
    scale_axis(ax.xaxis)
    scale_axis(ax.yaxis, "%")
    ax.set_xlabel(f"change in the prediction, {scale.unit}")
    ax.set_ylabel("of those who share something")
    meaning = ("better off", "worse off") if worse_is_right else ("worse off", "better off")
    if findings.favourable is None:
        meaning = ("told less", "told more")
    sides(ax, f"← {meaning[0]}", f"{meaning[1]} →")


def _drawable_balance(findings: AuditReport) -> list[Any]:
    return [b for b in findings.balance if b.ratio is not None and finite(b.ratio.value) is not None]


def _no_balance(findings: AuditReport) -> str:
    if _drawable_balance(findings):
        return ""
    return "Actual / expected cannot be computed: average predictions are not positive."


def _balance_rows(findings: AuditReport) -> Rows:
    drawable = _drawable_balance(findings)
    return Rows.named([b.name for b in drawable[:MAX_ROWS]], len(drawable[MAX_ROWS:]))


def _draw_balance(findings: AuditReport, ax: Axes) -> None:
    rows = _balance_rows(findings)
    ax.axvline(1, color=ink(), lw=0.8)
    plain = Scale(1, 2, "", "")
    for y, b in zip(rows.places, _drawable_balance(findings)[:MAX_ROWS], strict=False):
        line(ax, y, b.ratio.lower, b.ratio.upper, plain, color=COLOURS["accent"], lw=1.5)
        ax.plot(b.ratio.value, y, "o", ms=6, color=COLOURS["accent"])
    label_rows(ax, rows, "actual / expected")
    sides(ax, "← lower than predicted", "higher →")


PLOTS = {
    "penalty": Plot(_draw_penalties, lambda findings: 1.4 + _penalty_rows(findings).inches, _no_penalties),
    "calibration": Plot(_draw_calibration, lambda _: 4.4, _no_calibration),
    "base-versus-model": Plot(_draw_scatter, lambda _: 4.4, _no_scatter),
    "sharing-effect": Plot(_draw_sharing_effect, lambda _: 3.4, _no_sharing_effect),
    "balance": Plot(_draw_balance, lambda findings: 0.85 + _balance_rows(findings).inches, _no_balance),
}


def show(name: str, findings: AuditReport, ax: Any = None) -> Any:
    """Draw one of :data:`PLOTS` on the axes, or in a new figure; return the matplotlib axes."""
    plot = PLOTS[name]
    if ax is None:
        import matplotlib.pyplot as plt  # so that notebooks show the figure

        ax = plt.subplots(figsize=plot.size(findings), layout="constrained")[1]
    return plot.on(findings, ax)


# --------------------------------------------------------------------------------------------------
# What several plots share: intervals, rows with names, axes, legends.


def ink() -> Any:
    """Return the colour of text, so that plots fit the style in use."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def line(ax: Axes, y: float, lower: float | None, upper: float | None, scale: Scale, **style: Any) -> None:
    """Draw an interval in row ``y``, if both ends are known."""
    ends = [scale.factor * end for end in (finite(lower), finite(upper)) if end is not None]
    if len(ends) == 2:
        ax.plot(ends, [y, y], **{"solid_capstyle": "butt", **style})


@dataclass(frozen=True)
class Rows:
    """Rows with names, one below the other; those with long names are higher. Units are rows of ordinary height."""

    labels: tuple[tuple[str, ...], ...]
    """The lines of each name."""

    @classmethod
    def named(cls, names: Sequence[str], left_out: int = 0) -> Rows:
        """Return rows with these names, and one that says how many are left out, if any."""
        more = [f"{left_out} more: see table"] if left_out else []
        lines = (wrap(_keep_groups_whole(name), _LABEL_WIDTH, _LABEL_LINES) for name in [*names, *more])
        return cls(tuple(map(tuple, lines)))

    @property
    def heights(self) -> list[float]:
        line = _LINE_HEIGHT / 72 / ROW_HEIGHT
        return [max(1.0, (len(lines) + 0.6) * line) for lines in self.labels]

    @property
    def places(self) -> list[float]:
        return [end - height / 2 for end, height in zip(accumulate(self.heights), self.heights, strict=True)]

    @property
    def inches(self) -> float:
        return ROW_HEIGHT * max(2.0, sum(self.heights))


def label_rows(ax: Axes, rows: Rows, measure: str) -> None:
    scale_axis(ax.xaxis)
    ax.set_xlabel(measure, loc="right")  # long names may leave the axes narrower than this
    ax.set_ylim(sum(rows.heights) + 0.1, -0.1)
    ax.set_yticks([])
    for side in ("left", "top", "right"):
        ax.spines[side].set_visible(False)
    # One text per line: SVG right-aligns a single line in any font, but several lines only by guessing widths.
    for y, lines in zip(rows.places, rows.labels, strict=True):
        for row, text in enumerate(lines):
            ax.annotate(
                text,
                (0, y),
                (-6, _LINE_HEIGHT * ((len(lines) - 1) / 2 - row)),
                xycoords=ax.get_yaxis_transform(),
                textcoords="offset points",
                ha="right",
                va="center_baseline",
                annotation_clip=False,
                parse_math=False,
                usetex=False,  # names are not formulas
            )


def _keep_groups_whole(label: str) -> str:
    """Return a label that breaks between groups rather than within them, if they are short enough."""
    parts = [part if len(part) > _LABEL_WIDTH - 2 else part.replace(" ", "\u00a0") for part in label.split(" + ")]
    return "\u00a0+ ".join(parts) if len(parts) > 1 else label


def sides(ax: Axes, left: str, right: str) -> None:
    for x, text, ha in ((0, left, "left"), (1, right, "right")):
        ax.text(x, 1.0, text, transform=ax.transAxes, ha=ha, va="bottom")


def scale_axis(axis: Any, suffix: str = "") -> None:
    """Give an axis a few round ticks with a proper minus."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}".replace("-", "−") + suffix))


def legend(ax: Axes, handles: Sequence[Any], columns: int, *, at_right: bool = False) -> None:
    """Put the legend below the plot, where it hides nothing."""
    from matplotlib.transforms import ScaledTranslation

    below_the_axis_label = ScaledTranslation(0, -0.56, ax.figure.dpi_scale_trans)
    drawn = ax.legend(
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
    for text in drawn.get_texts():
        text.set_parse_math(False)


# --------------------------------------------------------------------------------------------------
# Plots as SVG inside an HTML page. They are drawn in a few fixed colours, which CSS variables then replace. Ids begin
# with the name of the plot, because inline SVGs share one namespace.


_INK = "#1d232b"
_VARIABLES = {_INK: "var(--ink)", **{colour: f"var(--{name})" for name, colour in COLOURS.items()}}
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text remains text: the page's font, and searchable
    "svg.hashsalt": "pucboost",
    "font.size": 10.2,  # at least 9 pixels if the plot is 330 pixels wide
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
}
_REFERENCE = re.compile(r"#([\w.-]+)")
_DECIMALS = re.compile(r"-?\d+\.\d{3,}")
_FONT_FAMILY = re.compile(r"font-family:[^;]*;?\s*")
_FONT = re.compile(r"font:\s*([\d.]+px)[^;]*")  # the short form in earlier versions of matplotlib


def inline_svg(name: str, findings: AuditReport, label: str) -> str:
    """Return one of :data:`PLOTS` as an ``<svg>`` element; ``label`` describes it in words."""
    return as_svg(PLOTS[name], findings, name, label)


def as_svg(plot: Plot, findings: Any, name: str, label: str) -> str:
    """Return any plot as an ``<svg>`` element, whose ids begin with ``name``."""
    drawn = _draw(plot, findings)
    root, used = ElementTree.fromstring(drawn), set(_REFERENCE.findall(drawn))
    for parent in [*root.iter()]:
        for child in [*parent]:
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        _tidy(element, name, used)
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label, "class": "plot"}
    return ElementTree.tostring(root, encoding="unicode")


def _draw(plot: Plot, findings: Any) -> str:
    """Draw with matplotlib, whatever style and backend the user has chosen, and without pyplot."""
    import matplotlib
    from matplotlib.figure import Figure

    out = io.StringIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        # Names may have letters that matplotlib's own font lacks; the browser's fonts have them.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        matplotlib.rcdefaults()
        for setting, value in _STYLE.items():
            matplotlib.rcParams[setting] = value  # type: ignore[index]
        figure = Figure(figsize=plot.size(findings), layout="constrained")
        plot.on(findings, figure.add_subplot())
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    return out.getvalue()


def _tidy(element: ElementTree.Element, name: str, used: set[str]) -> None:
    """Use the page's colours and fonts, and ids of this plot alone; drop what only takes up space."""
    element.tag = element.tag.rpartition("}")[2]  # in HTML, SVG needs no namespace
    attributes = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
    if attributes.get("id") not in used:
        attributes.pop("id", None)
    for key, value in attributes.items():
        if key == "style":
            value = _FONT.sub(r"font-size: \1", _FONT_FAMILY.sub("", value))
            for colour, variable in _VARIABLES.items():
                value = value.replace(colour, variable)
        elif key == "id":
            value = f"{name}-{value}"
        elif key in ("href", "clip-path"):
            value = _REFERENCE.sub(rf"#{name}-\1", value)
        else:
            value = _DECIMALS.sub(lambda found: f"{float(found[0]):.2f}", " ".join(value.split()))
        attributes[key] = value
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    element.attrib = attributes
    if element.tag != "text":
        element.text = None
    element.tail = None
