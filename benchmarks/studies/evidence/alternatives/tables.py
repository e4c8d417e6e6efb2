"""The table of the alternatives, the short one, and the remarks."""

from __future__ import annotations

import statistics

import numpy as np

from benchmarks.harness.summary import by, plus_minus, standard_error, values
from benchmarks.harness.types import Rows, Table

from .judge import VERDICTS
from .measuring import SIMULATED, TRUTH
from .methods import MORE_TREES, PLAIN

REMARKS = {
    PLAIN: "reads silence",
    "mean imputation": "reads silence: the mean gives it away",
    "mean imputation + indicators": "reads silence by design",
    "random dropout, 4 copies": "dilutes silence but keeps it: people who share little weigh too much",
    "base features only": "no penalty by design for total silence; throws away what is shared",
    "router: all shared / base": "throws away what is shared in part",
    "model per set, from those who share exactly it": "reads silence, 2^r models of few people each",
    "model per set, from all who share it": "aims at f*, with 2^r models",
    "pucboost, balanced (default)": "aims at f*, with one model",
    "pucboost, exhaustive": "aims at f*, one model, 2^k copies of whoever shares k groups",
    MORE_TREES: "aims at f*, one model; all sets share its trees",
    TRUTH: "what consent costs in log loss, whoever learns it",
}

_SAYS_LITTLE = "silence says next to nothing here"
REMARKS_ON = {  # where a table needs another remark
    **{
        ("simulated, r = 5", f"pucboost, {scheme}"): "aims at f*; 200 trees for 32 sets leave some bias"
        for scheme in ("balanced (default)", "exhaustive")
    },
    ("simulated, r = 3", MORE_TREES): "aims at f*, but 800 trees overfit 8 sets",
    ("give_me_some_credit", PLAIN): _SAYS_LITTLE,
    ("give_me_some_credit", "mean imputation"): _SAYS_LITTLE,
    ("give_me_some_credit", "mean imputation + indicators"): _SAYS_LITTLE,
    ("give_me_some_credit", "random dropout, 4 copies"): _SAYS_LITTLE,
    (
        "give_me_some_credit",
        "model per set, from those who share exactly it",
    ): "few people share nothing: it learns noise",
}


def penalty_of(rows: Rows) -> tuple[float, float]:
    """Return penalty and standard error: over draws of simulated people, the audit's own for splits of a real table."""
    found, own = values(rows, "penalty"), values(rows, "standard error of the penalty")
    if not found:
        return float("nan"), float("nan")
    return statistics.fmean(found), statistics.fmean(own) if own else standard_error(found)


def relative_loss(rows: Rows, plain: Rows) -> list[float]:
    """Return by how many percent the log loss is above that of plain training, run by run."""
    pairs = zip(values(rows, "log loss"), values(plain, "log loss"), strict=True)
    return [100 * (mine / other - 1) for mine, other in pairs]


def _time_ratio(rows: Rows) -> str:
    if rows[0]["method"] == PLAIN:
        return "1"
    if rows[0]["method"] == TRUTH:
        return "–"
    return f"{statistics.median(values(rows, 'ratio to plain')):.1f}"


def _with_error(mean: float, error: float) -> str:
    if np.isnan(mean):
        return "–"
    return f"{mean:+.2f}" if np.isnan(error) else f"{mean:+.2f} ± {error:.2f}"


def _worst(rows: Rows) -> str:
    """Return the largest penalty of a set over draws or splits; the audit's with its joint interval."""
    found = [row for row in rows if row.get("largest penalty of a set")]
    if not found:
        return "–"
    row = max(found, key=lambda one: abs(float(one["largest penalty of a set"])))
    if not row.get("its joint interval from"):
        return f"{float(row['largest penalty of a set']):+.1f}"
    largest, lower, upper = (
        float(row[column])
        for column in ("largest penalty of a set", "its joint interval from", "its joint interval to")
    )
    return f"{largest:+.1f} [{lower:+.1f}, {upper:+.1f}]"


def _judged(rows: Rows) -> str:
    """Return the distance from the truth, or how many sets the audit certified, found violated or left open."""
    gaps = values(rows, "RMS gap")
    if gaps:
        return f"RMS gap {plus_minus(gaps)}"
    certified, violated, still_open = (int(sum(values(rows, one))) for one in VERDICTS)
    return f"{certified} certified, {violated} violated, {still_open} open"


def table(rows: Rows) -> Table:
    """Return one line per data set and method."""
    columns = [
        "data", "method", "penalty of non-sharers, points", "largest of a set, points",
        "distance to f*, or sets audited", "log loss", "… against plain", "time to train, × plain", "models", "remark",
    ]  # fmt: skip
    groups = by(rows, "data", "method")
    lines = []
    for (name, method), mine in groups.items():
        plain = groups[(name, PLAIN)]
        relative = "" if method == PLAIN else f"{statistics.fmean(relative_loss(mine, plain)):+.2f} %"
        lines.append([
            name, method, _with_error(*penalty_of(mine)), _worst(mine), _judged(mine),
            f"{statistics.fmean(values(mine, 'log loss')):.4f}", relative,
            _time_ratio(mine), mine[0].get("models") or "–", REMARKS_ON.get((name, method), REMARKS[method]),
        ])  # fmt: skip
    return columns, lines


def in_short(rows: Rows) -> Table:
    """Return the methods on the paper's simulated family."""
    name = next(iter(SIMULATED))
    groups = by([row for row in rows if row["data"] == name], "method")
    columns = ["method", "penalty of non-sharers, points", "log loss against plain", "time × plain", ""]
    lines = []
    for (method,), mine in groups.items():
        relative = statistics.fmean(relative_loss(mine, groups[(PLAIN,)]))
        lines.append([
            method, _with_error(*penalty_of(mine)), "" if method == PLAIN else f"{relative:+.1f} %", _time_ratio(mine),
            REMARKS_ON.get((name, method), REMARKS[method]),
        ])  # fmt: skip
    return columns, lines
