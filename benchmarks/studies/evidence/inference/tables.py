"""The table of availability inference, and the remarks."""

from __future__ import annotations

import statistics

from benchmarks import models
from benchmarks.data.sources import INDUCED, PAPER
from benchmarks.harness.summary import by, plus_minus, values, within_noise
from benchmarks.harness.types import Rows, Table

from .judging import (
    IN_LOG_UNITS,
    changes,
    far_off,
    judge,
    listed,
    mean_changes,
    of,
    outcome_column,
    shifts,
)
from .measuring import (
    COPIES_SPLIT,
    FAVOURABLE,
    FOREST,
    LARGER,
    MOVED_BY_BAGS,
    NATURAL,
    SHARERS_LOSS,
    SILENT_LOSS,
    VARIANTS,
)
from .paper import PAPER_CHANGE, PAPER_LOSS, REASONS

WHY_SPREAD = "PUC: the mean before threshold or exp is within noise of 0, so it is probably the spread of predictions"
NOT_KNOWN = "PUC: cause unknown"
SEE_BAGS = "PUC: likely because sharers have more copies and so are in more bags than the silent (see bags of people)"
SEE_LARGER = f"PUC: likely too little capacity: copies with and without the value share trees (see {LARGER})"
WHY_FEW = "PUC: the same few silent people in all runs, so errors over runs are too small"


def _leak(rows: Rows, column: str) -> str:
    """Return a loss with people split and with copies split, and the change in %."""
    if not rows:
        return "–"
    losses = {split: values(same, column) for (split,), same in by(rows, "split").items()}
    change = [100 * (copies / people - 1) for copies, people in zip(losses["copies"], losses["people"], strict=True)]
    shown = " → ".join(f"{statistics.fmean(losses[split]):.2f}" for split in ("people", "copies"))
    return f"{shown} ({plus_minus(change, 1, sign=True)} %)"


def _remark(name: str, model: str, rows: Rows) -> str:
    """Say where and perhaps why our numbers differ from the paper's, and what moves PUC if it moves."""
    full, own = (shifts(rows, name, variant) for variant in ("full", "PUC"))
    said = []
    if model == FOREST:
        differs = [
            what
            for what, ours, paper in (
                ("loss", statistics.fmean(values(of(rows, "base"), SILENT_LOSS)), PAPER_LOSS[name][0]),
                ("change of full", statistics.fmean(full), PAPER_CHANGE[name][0]),
            )
            if far_off(ours, paper) or (what == "loss" and not 0.8 <= ours / paper <= 1.25)
        ]
        if differs:
            said.append(f"{' and '.join(differs)} unlike the paper's: {REASONS.get(name, 'cause unknown')}")
        base_loss, full_loss = (statistics.fmean(values(of(rows, v), SILENT_LOSS)) for v in ("base", "full"))
        if full_loss >= base_loss:
            said.append("full's loss is not below base's; in the paper it is")
        if name in IN_LOG_UNITS:
            natural = plus_minus(changes(rows, "full", NATURAL, relative=True), 1, sign=True)
            said.append(
                f"relative change of log(1 + hours), which comes closest to the paper's; of hours: full {natural} %"
            )
    if within_noise(own):
        said += [] if within_noise(mean_changes(rows, "PUC")) else ["PUC: the change of the mean is not 0"]
    else:
        said.append(_why_moved(name, model, rows))
    return "; ".join(said)


def _why_moved(name: str, model: str, rows: Rows) -> str:
    """Say why PUC may move the silent."""
    if within_noise(mean_changes(rows, "PUC")):
        return WHY_SPREAD
    if name not in INDUCED:
        return WHY_FEW
    if model in models.ENGINES:
        return SEE_LARGER
    return SEE_BAGS if model in (FOREST, models.BAGGED_FOREST) and name in MOVED_BY_BAGS else NOT_KNOWN


def _in_units(mean: float) -> str:
    return f"{mean:,.0f}" if mean >= 1000 else f"{mean:.3f}"


def table(rows: Rows) -> Table:
    """Return a line per table and model, the paper's numbers beside those of the forest."""
    columns = [
        "data", "model", "non-sharers' loss: base", "full", "PUC", "paper: base / full / PUC", "their prediction: base",
        "change: full", "change: PUC", "paper: full / PUC", "change of the mean ×100: full / PUC",
        "PUC sharers' loss, people → copies split", "PUC non-sharers' loss, people → copies split", "judged", "remark",
    ]  # fmt: skip
    split_by_copies = by([row for row in rows if row["model"] == COPIES_SPLIT], "data")
    lines = []
    own_models = models.with_same_bags([row for row in rows if row["model"] != COPIES_SPLIT])
    for (name, model), same in by(
        sorted(own_models, key=lambda row: PAPER.index(row["data"])), "data", "model"
    ).items():
        is_forest = model == FOREST
        full, own = (shifts(same, name, variant) for variant in ("full", "PUC"))
        leak = split_by_copies.get((name,), []) if is_forest else []
        column = outcome_column(same, name)
        unit = " points" if column == FAVOURABLE else " %"
        base = values(of(same, "base"), column)
        lines.append([
            name, model,
            *(plus_minus(values(of(same, variant), SILENT_LOSS)) for variant in VARIANTS),
            listed(PAPER_LOSS[name]) if is_forest else "–",
            plus_minus(base, 1) + " %" if column == FAVOURABLE else _in_units(statistics.fmean(base)),
            plus_minus(full, 2, sign=True) + unit, plus_minus(own, 2, sign=True) + unit,
            listed(PAPER_CHANGE[name], sign=True) if is_forest else "–",
            " / ".join(plus_minus(mean_changes(same, variant), 2, sign=True) for variant in ("full", "PUC")),
            _leak(leak, SHARERS_LOSS), _leak(leak, SILENT_LOSS),
            judge(full, own, PAPER_CHANGE[name]),
            _remark(name, model, same) or "–",
        ])  # fmt: skip
    return columns, lines
