"""What the study of large tables shows: its table, the short one of the README, its figure."""

from __future__ import annotations

import math
import statistics
from typing import Any

from .harness import median_ratio
from .studies import Rows, Table
from .summary import by, plus_minus, values

PARTS = {
    "plan": "consent and plan",
    "stream": "masks and gather",
    "binning": "binning by the engine",
    "boosting": "boosting",
}
COLUMNS = (
    "what", "N", "r", "engine", "variant", "virtual rows per row", "seconds", "times plain", "MB", "times plain's MB",
    "plan / stream / binning / boosting, %", "squared PUC-gap ×10⁴", "deviance",
    "predicted to observed, nothing withheld", "… something withheld", "all withheld, against base", "audit", "remark",
)  # fmt: skip
PROFILED = ("1000000", "10")  # rows and groups of the bars in the figure

_COLOURS = {"plain": "#D55E00", "fixed": "#E69F00", "balanced": "#0072B2", "exhaustive": "#009E73"}
_SHADES = {"plan": "#CC79A7", "stream": "#E69F00", "binning": "#56B4E9", "boosting": "#999999"}
_SKIPPED = "exhaustive left out: too many virtual rows"


def table(rows: Rows) -> Table:
    """Return one line per training, means or medians over runs."""
    lines = [_scale_line(group, rows) for group in _cells(rows).values()]
    lines += [_policy_line(group, rows) for group in by(_of(rows, "freMTPL2"), "engine", "variant").values()]
    return list(COLUMNS), [[line.get(column, "") for column in COLUMNS] for line in lines]


def in_short(rows: Rows) -> Table:
    """Return one line per table and engine: what ``balanced`` costs, and the gaps."""
    columns = ["rows", "groups", "engine", "time of balanced, times plain", "memory of balanced, times plain"]
    variants = ("plain", "fixed", "balanced")
    lines = []
    for (n, r, engine), group in by(_of(rows, "scale"), "N", "r", "engine").items():
        split = by(group, "variant")
        balanced, plain = split["balanced",], split["plain",]
        gaps = [
            f"{statistics.fmean(values(split[variant,], 'gap')):.0f}" if (variant,) in split else "–"
            for variant in variants
        ]
        times, memory = (_ratio(balanced, plain, column) for column in ("seconds", "MB"))
        lines.append([f"{int(n):,}", r, engine, times, memory, *gaps])
    return [*columns, *(f"squared PUC-gap ×10⁴, {variant}" for variant in variants)], lines


def _of(rows: Rows, what: str) -> Rows:
    return [row for row in rows if row["what"] == what]


def _cells(rows: Rows) -> dict[tuple[str, ...], Rows]:
    return by(_of(rows, "scale"), "N", "r", "engine", "variant")


def _rivals(group: Rows, rows: Rows, variant: str) -> Rows:
    """Return the trainings of another variant on the same tables."""
    same = ("what", "N", "r", "engine")
    return [
        row for row in rows
        if row["variant"] == variant and all(row.get(name, "") == group[0].get(name, "") for name in same)
    ]  # fmt: skip


def _ratio(group: Rows, plain: Rows, column: str) -> str:
    """Return the median ratio over runs; nothing where a system does not tell its memory."""
    pairs = list(zip(values(group, column), values(plain, column), strict=True))
    if not all(mine > 0 and theirs > 0 for mine, theirs in pairs):
        return "–"
    return f"{median_ratio([mine for mine, _ in pairs], [theirs for _, theirs in pairs]):.2f}"


def _cost(group: Rows, rows: Rows) -> dict[str, str]:
    """Return what all lines have: what the training took, beside plain training."""
    plain = _rivals(group, rows, "plain")
    return {
        "what": group[0]["what"],
        "engine": group[0]["engine"],
        "variant": group[0]["variant"],
        "virtual rows per row": f"{statistics.fmean(values(group, 'virtual rows per row')):.1f}",
        "seconds": f"{statistics.median(values(group, 'seconds')):.2f}",
        "times plain": _ratio(group, plain, "seconds"),
        "MB": f"{statistics.median(values(group, 'MB')):.0f}",
        "times plain's MB": _ratio(group, plain, "MB"),
        "plan / stream / binning / boosting, %": " / ".join(f"{share:.0f}" for share in shares(group).values()),
    }


def shares(group: Rows) -> dict[str, float]:
    """Return the parts of the time in %."""
    total = sum(values(group, "seconds"))
    return {part: 100 * sum(values(group, part)) / total for part in PARTS}


def _scale_line(group: Rows, rows: Rows) -> dict[str, str]:
    first = group[0]
    line = _cost(group, rows) | {"N": f"{int(first['N']):,}", "r": first["r"]}
    line["squared PUC-gap ×10⁴"] = plus_minus(values(group, "gap"), 1)
    if first["variant"] == "balanced":
        without = not _rivals(group, rows, "exhaustive")
        line["remark"] = _SKIPPED if without else ""
    return line


def _policy_line(group: Rows, rows: Rows) -> dict[str, str]:
    line = _cost(group, rows) | {"N": f"{float(group[0]['people']):,.0f}", "r": "3"}
    line["deviance"] = plus_minus(values(group, "deviance"), 4)
    for short, name in (
        ("predicted to observed, nothing withheld", "nothing"),
        ("… something withheld", "something"),
    ):
        line[short] = plus_minus(values(group, f"predicted to observed, {name} withheld"), 3)
    line["all withheld, against base"] = _shift(group, _rivals(group, rows, "base"))
    line["audit"] = next((_audit(row) for row in group if row.get("verdict")), "")
    return line


def _audit(row: dict[str, str]) -> str:
    """Return the verdict with the penalties and their standard errors."""
    parts = [row["verdict"]]
    for who in ("something", "all"):
        if row.get(f"penalty, {who} withheld, %"):
            penalty, error = float(row[f"penalty, {who} withheld, %"]), row[f"its standard error, {who} withheld"]
            parts.append(f"{who} withheld {penalty:+.1f} ± {float(error):.1f} %")
    return ", ".join(parts)


def _shift(group: Rows, base: Rows) -> str:
    """Return by how many % those who withhold everything are told more than by a model without optional data."""
    column = "claims a year predicted, all withheld"
    if group[0]["variant"] == "base":
        return ""
    pairs = zip(values(group, column), values(base, column), strict=True)
    return plus_minus([100 * (mine / theirs - 1) for mine, theirs in pairs], 1, sign=True) + " %"


def figure(rows: Rows) -> Any:
    """Draw the gap against the seconds for each number of groups, and below them where the time goes."""
    from matplotlib.figure import Figure  # not wanted in the processes that measure

    groups = list(by(_of(rows, "scale"), "r"))
    drawing = Figure(figsize=(9.5, 6.6), layout="constrained")
    above, below = drawing.subfigures(2, 1, height_ratios=(1.7, 1))
    for axes, (r,) in zip(above.subplots(1, len(groups), sharey=True, squeeze=False)[0], groups, strict=True):
        _draw_gaps(axes, [row for row in _of(rows, "scale") if row["r"] == r])
        axes.set_title(f"{r} optional groups", fontsize=10)
        axes.set_xlabel("training, seconds")
    above.axes[0].set_ylabel("squared PUC-gap ×10⁴")
    above.legend(handles=_keys(rows), loc="outside right center", fontsize=8, frameon=False)
    _draw_parts(below.subplots(), rows)
    return drawing


def _size(n: str) -> float:
    """Return the size of the marks of tables of n rows."""
    return max(4.0, 4 * math.log10(int(n)) - 15)


def _draw_gaps(axes: Any, rows: Rows) -> None:
    from matplotlib.ticker import LogFormatter

    for (engine, variant), line in by(rows, "engine", "variant").items():
        by_size = by(line, "N")
        x = [statistics.median(values(group, "seconds")) for group in by_size.values()]
        y = [statistics.fmean(values(group, "gap")) for group in by_size.values()]
        colour, filled = _COLOURS[variant], engine == "LightGBM"
        axes.plot(x, y, "-" if filled else "--", color=colour, linewidth=1)
        for (n,), seconds, gap in zip(by_size, x, y, strict=True):
            axes.plot(
                seconds,
                gap,
                "o",
                color=colour,
                markerfacecolor=colour if filled else "white",
                markersize=_size(n),
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(LogFormatter())
        axis.set_minor_formatter(LogFormatter())
    axes.tick_params(which="both", labelsize=8)
    axes.grid(which="both", alpha=0.25)


def _keys(rows: Rows) -> list[Any]:
    """Return what the legend explains: variants, engines, sizes."""
    from matplotlib.lines import Line2D

    scale = _of(rows, "scale")
    keys = [Line2D([], [], color=_COLOURS[variant], label=variant) for (variant,) in by(scale, "variant")]
    for engine, style, face in (("LightGBM", "-", "black"), ("XGBoost", "--", "white")):
        keys.append(Line2D([], [], color="black", linestyle=style, marker="o", markerfacecolor=face, label=engine))
    for n in sorted(by(scale, "N"), key=lambda name: int(name[0])):
        mark = {"marker": "o", "linestyle": "", "color": "grey", "markersize": _size(n[0])}
        keys.append(Line2D([], [], label=f"{int(n[0]):,} rows", **mark))
    return keys


def _draw_parts(axes: Any, rows: Rows) -> None:
    """Draw the seconds of plain and balanced training as bars of their parts."""
    cells = _cells(rows)
    n, r = PROFILED if any(key[:2] == PROFILED for key in cells) else list(cells)[-1][:2]
    bars = [key for key in cells if key[:2] == (n, r) and key[3] in ("plain", "balanced")]
    left = [0.0] * len(bars)
    for part, name in PARTS.items():
        width = [statistics.fmean(values(cells[key], part)) for key in bars]
        axes.barh([f"{engine}, {variant}" for _, _, engine, variant in bars], width, left=left, color=_SHADES[part],
                  label=name)  # fmt: skip
        left = [start + more for start, more in zip(left, width, strict=True)]
    axes.invert_yaxis()
    axes.tick_params(labelsize=8)
    axes.set_xlabel(f"seconds, {int(n):,} rows, {r} groups")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
