"""One optional column: whether a model under Protected User Consent predicts better than one without that column.

People withhold by a sigmoid of the value, or strategically: whoever would fare worse by sharing does not share. In the
strategic case, models trained on the complete data of other people (five folds) tell everybody their prediction with
and without the column, so that nobody's own label decides what they share. For every model studied, the same people
withhold.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.model_selection import KFold

import pucboost as puc
from benchmarks import models
from benchmarks.data import INDUCED, Task, loaded
from benchmarks.harness.measuring import by, plus_minus, values
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit, part_of

from .several import (
    AUC,
    RUNS,
    by_variant,
    compare,
    dot,
    lanes,
    mean_over_folds,
    measures_of,
    name_of,
    people,
    scores,
    shorter,
    size_of,
    slashed,
    warm_up,
)

FOREST = "Random Forest"
COMPARED = (FOREST, "LightGBM")
CAP = 7_000  # people that the forest is trained on
ADVISER = "LightGBM"  # tells people what sharing would bring them
BONUS = "PUC + bonus"
BAGS = "PUC, bags of N"
ORDER = ("base", "PUC", BONUS, BAGS, "full")
COLOURS = {FOREST: "#0072B2", "LightGBM": "#D55E00"}
MARKERS = {"PUC": "o", BONUS: "D", BAGS: "^", "full": "|"}

# base, PUC, full, of a Random Forest; two of the paper's tables have PUC in the last column
PAPER: dict[tuple[str, str], dict[str, tuple[float, float, float]]] = {
    ("strategic", "loss"): {
        "diabetes": (29.30, 26.61, 23.41), "compas": (42.89, 40.85, 36.67), "adult": (16.05, 15.94, 14.86),
        "income": (85.07, 80.22, 73.25), "california_housing": (15.62, 14.79, 13.40),
        "insurance_hi": (262.43, 254.35, 236.92),
    },
    ("sigmoid", "loss"): {
        "diabetes": (29.30, 26.95, 25.83), "compas": (42.89, 39.55, 38.51), "adult": (16.05, 15.62, 15.38),
        "income": (85.09, 81.52, 79.76), "california_housing": (13.98, 12.55, 11.90),
        "insurance_hi": (262.43, 254.84, 249.31),
    },
    ("strategic", AUC): {
        "diabetes": (23.96, 19.91, 18.25), "compas": (40.85, 34.86, 32.03), "adult": (11.90, 10.57, 10.26),
    },
    ("sigmoid", AUC): {
        "diabetes": (23.96, 21.85, 20.35), "compas": (40.85, 36.85, 34.88), "adult": (11.90, 11.10, 11.18),
    },
}  # fmt: skip


def _direction(task: Task) -> str:
    """Return whether people want a higher prediction (of class 1, or the mean) or a lower one."""
    return "lower" if task.is_classification and task.source.favourable == 0 else "higher"


@functools.lru_cache(maxsize=2)
def _advice(name: str, run: int, quick: bool) -> tuple[Array, Array]:
    """Return everybody's predictions with and without the column, from models trained on other people."""
    task = loaded(name, quick)
    optional = [task.source.single[0]]
    both = {variant: np.empty(len(task.y)) for variant in ("full", "base")}
    for train, test in KFold(5, shuffle=True, random_state=run).split(task.y):
        for variant, prediction in both.items():
            fitted = models.fit(
                ADVISER, variant, task.X.iloc[train], task.y[train], optional,
                is_classification=task.is_classification, seed=run, **size_of(ADVISER, quick),
            )  # fmt: skip
            prediction[test] = fitted.predict(task.X.iloc[test])
    return both["full"], both["base"]


def _withheld(name: str, withholding: str, run: int, quick: bool) -> tuple[pd.DataFrame, list[str]]:
    task = loaded(name, quick)
    if withholding == "sigmoid":
        return task.withhold_one(run)
    column = task.source.single[0]
    X = puc.simulate.withhold_strategic(task.X, [column], *_advice(name, run, quick), favourable=_direction(task))
    return X, [column]


def _measure(name: str, model: str, withholding: str, run: int, quick: bool) -> list[Row]:
    warm_up(model)
    task = loaded(name, quick)
    X, optional = _withheld(name, withholding, run, quick)
    trained = {"base": (model, "base"), "PUC": (model, "exhaustive"), "full": (model, "full")}
    if model == FOREST:  # without copies the two forests are the same and share base and full
        trained[BAGS] = (models.BAGGED_FOREST, "exhaustive")
    more_favourable = np.minimum if _direction(task) == "lower" else np.maximum
    folds: dict[str, list[Row]] = {}
    for train, test in people(task, model, run, quick, CAP):
        predictions = {
            variant: models.fit(
                learner, how, X.iloc[train], task.y[train], optional,
                is_classification=task.is_classification, seed=run, **size_of(learner, quick),
            ).predict(X.iloc[test])
            for variant, (learner, how) in trained.items()
        }  # fmt: skip
        predictions[BONUS] = more_favourable(predictions["PUC"], predictions["base"])
        for variant, prediction in predictions.items():
            folds.setdefault(variant, []).append(scores(task, test, prediction))
    silent = 100 * float(X[optional[0]].isna().mean())
    return [{"variant": variant, "withheld, %": silent, **mean_over_folds(folds[variant])} for variant in folds]


def units(quick: bool) -> Iterable[Unit]:
    """List a unit per table, run, kind of withholding and model."""
    names = ("diabetes", "income") if quick else INDUCED
    for name in names:
        for run in range(1 if quick else RUNS):
            for withholding in ("sigmoid", "strategic"):
                for model in COMPARED:
                    key = {"data": name, "model": model, "withholding": withholding, "run": run}
                    yield Unit(key, functools.partial(_measure, name, model, withholding, run, quick))


def _remark(losses: Mapping[str, Sequence[float]]) -> str:
    found = {variant: compare(losses[variant], losses["base"]) for variant in losses if variant not in ("base", "full")}
    if "one run" in found.values():
        return "one run"
    words = {"better": "beats base", "worse": "worse than base"}
    parts = [f"{variant} {words.get(verdict, 'not clearly different from base')}" for variant, verdict in found.items()]
    if found["PUC"] != "better" and BAGS in losses and compare(losses[BAGS], losses["PUC"]) == "better":
        parts.append("default bags draw copies instead of people and overfit")
    bonus = compare(losses[BONUS], losses["PUC"])
    if bonus in ("better", "worse"):
        parts.append(f"the bonus makes it {bonus}")
    return "; ".join(parts)


def _line(name: str, model: str, withholding: str, measure: str, rows: Rows) -> list[str]:
    losses = by_variant(rows, measure)
    paper = PAPER[withholding, measure].get(name) if model == FOREST else None
    return [
        shorter(name), model, withholding, f"{statistics.fmean(values(rows, 'withheld, %')):.0f}",
        name_of(measure, rows), *(plus_minus(losses.get(variant, [])) for variant in ORDER),
        slashed(paper, ".2f") if paper else "–", _remark(losses),
    ]  # fmt: skip


def table(rows: Rows) -> Table:
    """Return a line per table, model, kind of withholding and measure."""
    columns = ["data", "model", "withholding", "withheld, %", "measure", *ORDER, "paper: base / PUC / full", "remark"]
    groups = by(rows, "data", "model", "withholding")
    lines = [
        _line(name, model, withholding, measure, of)
        for (name, model, withholding), of in groups.items()
        for measure in measures_of(of)
    ]
    return columns, lines


def figure(rows: Rows) -> Figure:
    """Draw the losses against the base model, a panel per kind of withholding."""
    drawing = Figure(figsize=(9.5, 5.5), layout="constrained")
    groups, names = by(rows, "withholding"), [name for (name,) in by(rows, "data")]
    panels = drawing.subplots(1, len(groups), sharey=True, sharex=True, squeeze=False).ravel()
    for axes, ((withholding,), of) in zip(panels, groups.items(), strict=True):
        lanes(axes, [shorter(name) for name in names])
        axes.set_title(f"{withholding} withholding", fontsize=10)
        for (name,), one in by(of, "data").items():
            shown = [
                (model, variant, losses)
                for (model,), rows_of_model in by(one, "model").items()
                for losses in [by_variant(rows_of_model, "loss")]
                for variant in MARKERS
                if variant in losses
            ]
            for number, (model, variant, losses) in enumerate(shown):
                dot(
                    axes, losses[variant], losses["base"], names.index(name) + 0.11 * (number - (len(shown) - 1) / 2),
                    fmt=MARKERS[variant], color=COLOURS[model], markersize=8 if variant == "full" else 4.5,
                    markeredgewidth=2 if variant == "full" else 1,
                    markerfacecolor="white" if variant == BONUS else COLOURS[model],
                )  # fmt: skip
    drawing.supxlabel("loss against the same model without the optional column, % (lower is better)", fontsize=10)
    drawing.legend(handles=_legend(), loc="outside upper center", ncols=6, frameon=False)
    return drawing


def _legend() -> list[Line2D]:
    grey = "#444444"
    kinds = [
        Line2D(
            [], [], marker=marker, label=variant, markersize=8 if variant == "full" else 5, markeredgewidth=1.5,
            markerfacecolor="white" if variant == BONUS else grey, linestyle="", color=grey,
        )
        for variant, marker in MARKERS.items()
    ]  # fmt: skip
    return [Line2D([], [], color=colour, label=model, linewidth=4) for model, colour in COLOURS.items()] + kinds


PAGE = part_of(
    table, "data", "model", "withholding", "base", "PUC", "PUC + bonus", "PUC, bags of N", "full",
    "paper: base / PUC / full", lines=lambda line: "AUC" not in line["measure"],
)  # fmt: skip
STUDY = Study("degradation", units, table, figure, PAGE)
