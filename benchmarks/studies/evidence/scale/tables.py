"""The results on large tables, and their short form."""

from __future__ import annotations

import statistics

from benchmarks.harness.summary import by, plus_minus, values
from benchmarks.harness.timing import median_ratio
from benchmarks.harness.types import Rows, Table

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

_SKIPPED = "exhaustive left out: too many virtual rows"


def table(rows: Rows) -> Table:
    """Return one line per training, means or medians over runs."""
    lines = [_scale_line(group, rows) for group in cells(rows).values()]
    lines += [_policy_line(group, rows) for group in by(of(rows, "freMTPL2"), "engine", "variant").values()]
    return list(COLUMNS), [[line.get(column, "") for column in COLUMNS] for line in lines]


def in_short(rows: Rows) -> Table:
    """Return one line per table and engine: what ``balanced`` costs, and the gaps."""
    columns = ["rows", "groups", "engine", "time of balanced, times plain", "memory of balanced, times plain"]
    variants = ("plain", "fixed", "balanced")
    lines = []
    for (n, r, engine), group in by(of(rows, "scale"), "N", "r", "engine").items():
        split = by(group, "variant")
        balanced, plain = split["balanced",], split["plain",]
        gaps = [
            f"{statistics.fmean(values(split[variant,], 'gap')):.0f}" if (variant,) in split else "–"
            for variant in variants
        ]
        times, memory = (_ratio(balanced, plain, column) for column in ("seconds", "MB"))
        lines.append([f"{int(n):,}", r, engine, times, memory, *gaps])
    return [*columns, *(f"squared PUC-gap ×10⁴, {variant}" for variant in variants)], lines


def of(rows: Rows, what: str) -> Rows:
    """Return the rows of one of the two kinds of tables."""
    return [row for row in rows if row["what"] == what]


def cells(rows: Rows) -> dict[tuple[str, ...], Rows]:
    """Return the runs of each training on the drawn tables."""
    return by(of(rows, "scale"), "N", "r", "engine", "variant")


def _rivals(group: Rows, rows: Rows, variant: str) -> Rows:
    """Return the trainings of another variant on the same tables."""
    same = ("what", "N", "r", "engine")
    return [
        row for row in rows
        if row["variant"] == variant and all(row.get(name, "") == group[0].get(name, "") for name in same)
    ]  # fmt: skip


def _ratio(group: Rows, plain: Rows, column: str) -> str:
    """Return the median ratio over runs, or a dash where a system does not report memory."""
    pairs = list(zip(values(group, column), values(plain, column), strict=True))
    if not all(mine > 0 and theirs > 0 for mine, theirs in pairs):
        return "–"
    return f"{median_ratio([mine for mine, _ in pairs], [theirs for _, theirs in pairs]):.2f}"


def _cost(group: Rows, rows: Rows) -> dict[str, str]:
    """Return what all lines have: the cost of the training, beside plain training."""
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
    """Return how much more those who withhold everything are told than by a model without optional data, in %."""
    column = "claims a year predicted, all withheld"
    if group[0]["variant"] == "base":
        return ""
    pairs = zip(values(group, column), values(base, column), strict=True)
    return plus_minus([100 * (mine / theirs - 1) for mine, theirs in pairs], 1, sign=True) + " %"
