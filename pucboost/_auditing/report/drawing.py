"""What all plots share: sizes, colours, axes, labels, legends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ..._pages import printable
from ..findings import CERTIFIED, INCONCLUSIVE, NOT_TESTABLE, VIOLATED, Findings
from .numbers import Scale, finite
from .text import wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 5.2
"""Inches. Small, so that 10-point text stays legible on a page as narrow as a phone."""

MAX_ROWS = 24
ROW_HEIGHT = 0.4
"""Inches, for labels of one or two lines."""
_LABEL_WIDTH = 24
_LABEL_LINES = 10
"""Only longer labels are cut; the table below has them whole."""
_LINE_HEIGHT = 12
"""Points."""

COLOURS = {
    CERTIFIED: "#1a7f4b",
    VIOLATED: "#b3261e",
    INCONCLUSIVE: "#8a5a00",
    NOT_TESTABLE: "#59636e",
    "accent": "#2a62b8",
}
"""By verdict; each has a marker of its own as well, for readers who cannot tell the colours apart."""


@dataclass(frozen=True)
class Plot:
    """How to draw one aspect of the findings, at which size (inches), and why there may be nothing to draw."""

    draw: Callable[[Findings, Axes], None]
    size: Callable[[Findings], tuple[float, float]]
    missing: Callable[[Findings], str]
    """A sentence if there is nothing to draw, else empty."""

    def on(self, findings: Findings, ax: Axes) -> Axes:
        """Draw on the axes; if there is nothing to draw, write why."""
        findings = printable(findings)
        sentence = self.missing(findings)
        if sentence:
            _write(ax, sentence)
        else:
            self.draw(findings, ax)
        return ax


def _write(ax: Axes, sentence: str) -> None:
    ax.set_axis_off()
    for row, text in enumerate(wrap(sentence, 48, 6)):
        ax.text(0.5, 0.6 - 0.1 * row, text, ha="center", va="center", transform=ax.transAxes, parse_math=False)


def ink() -> Any:
    """Return the colour of text, so that plots fit the style in use."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def line(ax: Axes, y: float, lower: float | None, upper: float | None, scale: Scale, **style: Any) -> Any:
    """Draw an interval in row ``y``; return the line, or None if an end is missing."""
    if finite(lower) is None or finite(upper) is None:
        return None
    ends = [scale.factor * float(end or 0) for end in (lower, upper)]
    return ax.plot(ends, [y, y], solid_capstyle="butt", **style)[0]


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
        """Height of each row."""
        line = _LINE_HEIGHT / 72 / ROW_HEIGHT
        return [max(1.0, (len(lines) + 0.6) * line) for lines in self.labels]

    @property
    def places(self) -> list[float]:
        """Centre of each row, from the top."""
        return [end - height / 2 for end, height in zip(accumulate(self.heights), self.heights, strict=True)]

    @property
    def inches(self) -> float:
        """Height of all rows, of two at least."""
        return ROW_HEIGHT * max(2.0, sum(self.heights))


def label_rows(ax: Axes, rows: Rows) -> None:
    """Make the y axis a list of names, the first on top."""
    ax.set_ylim(sum(rows.heights) + 0.1, -0.1)
    ax.set_yticks([])
    for y, lines in zip(rows.places, rows.labels, strict=True):
        _label_row(ax, y, lines)
    for side in ("left", "top", "right"):
        ax.spines[side].set_visible(False)


def _label_row(ax: Axes, y: float, lines: Sequence[str]) -> None:
    """Write a name to the left of row ``y``."""
    # One text per line: SVG right-aligns a single line in any font, but several lines only by guessing widths.
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
    """Say above the axes what left and right mean."""
    for x, text, ha in ((0, left, "left"), (1, right, "right")):
        ax.text(x, 1.0, text, transform=ax.transAxes, ha=ha, va="bottom")


def scale_axis(axis: Any, suffix: str = "") -> None:
    """Give an axis a few round ticks with a proper minus."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}".replace("-", "−") + suffix))


def prediction_axes(ax: Axes, scale: Scale) -> None:
    """Give both axes the scale of predictions."""
    scale_axis(ax.xaxis, scale.suffix)
    scale_axis(ax.yaxis, scale.suffix)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


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
