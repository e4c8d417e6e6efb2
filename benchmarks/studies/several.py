"""Several optional columns: the paper's fixed-size and exhaustive augmentation beside ``balanced``, model by model."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import t as student
from scipy.stats import ttest_rel
from sklearn.metrics import roc_auc_score

from benchmarks import models
from benchmarks.data import INDUCED, Task, loaded
from benchmarks.harness.measuring import by, median_ratio, peak_memory, plus_minus, standard_error, values
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit

# Training every model in every variant on tables with several optional columns

RUNS = 5
CAP = 6_000  # people for training scikit-learn's models; the engines see all
SMALL = 1_000  # with fewer people, a single held-out fifth would drown differences in noise
COPIES = 4  # balanced's default for tables of this size
AUC = "100 × (1 − AUC)"


def size_of(model: str, quick: bool) -> dict[str, Any]:
    """Return the parameters that make a model small for a quick run."""
    return fewer_trees(model, 5) if quick else {}


def fewer_trees(model: str, n: int) -> dict[str, Any]:
    """Return the parameter that makes a model small."""
    return {"rounds" if model in models.BOOSTED else "n_estimators": n}


@functools.cache
def warm_up(model: str) -> None:
    """Train every variant once on a few rows, so that nothing is compiled or imported while time is measured."""
    for name in ("adult", "income"):
        task = loaded(name, quick=True)
        X, optional = task.withhold_several(0)
        for variant in models.VARIANTS:
            kind = task.is_classification
            models.fit(model, variant, X, task.y, optional, is_classification=kind, seed=0, **fewer_trees(model, 2))


def people(task: Task, model: str, run: int, quick: bool, cap: int = CAP) -> list[tuple[Array, Array]]:
    """Return whom to train on and whom to test: five folds for small tables, a fifth held out for others.

    A cap only affects the latter, whose people come in random order.
    """
    splits = task.splits(run, SMALL)[: 1 if quick else None]
    return splits if model in models.BOOSTED else [(train[:cap], test) for train, test in splits]


def scores(task: Task, test: Array, prediction: Array) -> Row:
    """Return the paper's losses on the people tested."""
    y = task.y[test]
    area = 100 * (1 - float(roc_auc_score(y, prediction))) if task.is_classification else None
    return {"loss": models.loss(y, prediction, task.is_classification), AUC: area}


def mean_over_folds(folds: Sequence[Row]) -> Row:
    """Return the mean of each measure, or None where folds lack it."""
    return {name: None if folds[0][name] is None else statistics.fmean(f[name] for f in folds) for name in folds[0]}


def _with_memory(train: Callable[[], models.Fitted]) -> tuple[models.Fitted, float]:
    kept: list[models.Fitted] = []
    memory = peak_memory(lambda: kept.append(train()))
    return kept[0], memory


def measure(name: str, model: str, run: int, quick: bool) -> list[Row]:
    """Train every variant and test it on held-out people."""
    warm_up(model)
    task = loaded(name, quick)
    X, optional = task.withhold_several(run)
    folds: dict[str, list[Row]] = {variant: [] for variant in models.variants_of(model, models.VARIANTS)}
    for train, test in people(task, model, run, quick):
        for variant in folds:
            enough = variant == "balanced" and folds["exhaustive"][-1]["virtual rows"] <= COPIES
            if enough:  # balanced then has exactly the rows of exhaustive: do not train twice
                folds[variant].append(folds["exhaustive"][-1])
                continue
            train_it = functools.partial(
                models.fit, model, variant, X.iloc[train], task.y[train], optional,
                is_classification=task.is_classification, seed=run, **size_of(model, quick),
            )  # fmt: skip
            fitted, memory = _with_memory(train_it)
            folds[variant].append(
                {
                    **scores(task, test, fitted.predict(X.iloc[test])),
                    "virtual rows": fitted.virtual_rows,
                    "seconds": fitted.seconds,
                    "peak MB": memory,
                }
            )
    return [{"variant": variant, **mean_over_folds(measured)} for variant, measured in folds.items()]


def units(quick: bool) -> Iterable[Unit]:
    """List a unit per table, model and run."""
    names = ("diabetes", "income") if quick else INDUCED
    compared = ("Random Forest", "LightGBM") if quick else (*models.SCIKIT, *models.ENGINES)
    for name in names:
        for model in compared:
            for run in range(1 if quick else RUNS):
                key = {"data": name, "model": model, "run": run}
                yield Unit(key, functools.partial(measure, name, model, run, quick))


# Comparing the losses of runs, and naming what is compared

LEVEL = 0.05  # of the paired t-tests
MARGIN = 0.02  # "hardly worse": the upper 95 % bound of the loss is within 2 % of exhaustive's
NAMES = {"california_housing": "california", "insurance_hi": "insurance"}  # the others keep the names of their files


def by_variant(rows: Rows, column: str) -> dict[str, list[float]]:
    """Return a measure of each variant, in the order of the runs, so that they can be compared in pairs."""
    ordered = sorted(rows, key=lambda row: int(row["run"]))
    return {variant: values(of, column) for (variant,), of in by(ordered, "variant").items()}


def compare(mine: Sequence[float], others: Sequence[float]) -> str:
    """Return whether losses are better, worse, level or identical, by a paired t-test over the runs."""
    if list(mine) == list(others):
        return "identical"
    if len(mine) < 2:
        return "one run"
    if ttest_rel(mine, others).pvalue >= LEVEL:
        return "level"
    return "better" if statistics.fmean(mine) < statistics.fmean(others) else "worse"


def hardly_worse(mine: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether the losses are shown to be at most ``MARGIN`` larger, which "level" alone does not imply."""
    if len(mine) < 2:
        return False
    ratios = [a / b - 1 for a, b in zip(mine, others, strict=True)]
    bound = statistics.fmean(ratios) + float(student.ppf(1 - LEVEL, len(ratios) - 1)) * standard_error(ratios)
    return bound <= MARGIN


def relative(mine: Sequence[float], base: Sequence[float]) -> list[float]:
    """Return by how many % each run's loss differs from the base model's."""
    return [100 * (a / b - 1) for a, b in zip(mine, base, strict=True)]


def measures_of(rows: Rows) -> list[str]:
    """Return the measures that a task has: its loss, and the area for classes."""
    return [measure for measure in ("loss", AUC) if any(row[measure] for row in rows)]


def name_of(measure: str, rows: Rows) -> str:
    """Return what a measure is called in a table: "loss" is that of the paper for the kind of task."""
    return measure if measure == AUC else ("error, %" if len(measures_of(rows)) > 1 else "MSE × 100")


def shorter(name: str) -> str:
    """Return a data set's name as a table shows it."""
    return NAMES.get(name, name)


def slashed(numbers: Iterable[float], form: str) -> str:
    """Return numbers separated by slashes."""
    return " / ".join(f"{number:{form}}" for number in numbers)


# The table of several optional columns, the short one, and the paper's numbers

# base, fixed, exhaustive, full; the paper's AUC is converted to 100 − AUC
PAPER: dict[tuple[str, str], dict[str, tuple[float, float, float, float]]] = {
    ("Random Forest", "loss"): {
        "diabetes": (29.74, 26.23, 25.58, 24.16), "compas": (40.83, 37.65, 37.21, 36.86),
        "adult": (17.98, 15.35, 15.27, 15.15), "income": (52.40, 49.47, 51.21, 46.15),
        "california_housing": (6.64, 6.83, 6.36, 5.69), "insurance_hi": (271.72, 242.99, 260.77, 232.59),
    },
    ("Random Forest", AUC): {
        "diabetes": (26.86, 22.87, 22.78, 21.58), "compas": (38.68, 38.10, 37.68, 37.31),
        "adult": (15.10, 9.61, 10.32, 9.43),
    },
    ("Gradient Boosting", "loss"): {
        "diabetes": (29.87, 28.70, 28.18, 27.14), "compas": (40.78, 37.71, 37.79, 35.62),
        "adult": (17.84, 13.43, 13.43, 13.31), "income": (46.31, 45.00, 44.28, 41.89),
        "california_housing": (11.01, 9.45, 9.32, 9.04), "insurance_hi": (230.00, 212.30, 211.27, 210.72),
    },
    ("Extra Trees", "loss"): {
        "diabetes": (27.79, 28.18, 27.92, 26.88), "compas": (40.83, 39.82, 39.33, 39.74),
        "adult": (18.00, 15.21, 15.31, 15.15), "income": (48.99, 47.32, 46.98, 43.78),
        "california_housing": (5.83, 9.21, 7.86, 7.01), "insurance_hi": (251.47, 238.28, 249.41, 226.85),
    },
}  # fmt: skip

CLAIMS = {
    "exhaustive beats base": ("exhaustive", "base", ("better",)),
    "balanced beats base": ("balanced", "base", ("better",)),
    "balanced not worse than exhaustive": ("balanced", "exhaustive", ("better", "level", "identical")),
    "balanced better than fixed": ("balanced", "fixed", ("better",)),
}


def _verdicts(losses: Mapping[str, Sequence[float]]) -> dict[str, str]:
    return {claim: compare(losses[mine], losses[other]) for claim, (mine, other, _) in CLAIMS.items()}


def _remark(model: str, losses: Mapping[str, Sequence[float]], bags: Mapping[str, Sequence[float]]) -> str:
    """Return what the tests say, and a likely cause where consent does not pay; ``bags`` are losses with bags of N."""
    found = _verdicts(losses)
    if "one run" in found.values():
        return "one run"
    words = {"better": "beats", "worse": "worse than", "level": "level with", "identical": "identical to"}
    parts = [f"{mine} {words[found[claim]]} {other}" for claim, (mine, other, _) in CLAIMS.items()]
    if found["exhaustive beats base"] == "better" and found["balanced beats base"] == "better":
        return "; ".join(parts)
    if model == "Random Forest" and bags and compare(bags["exhaustive"], losses["exhaustive"]) == "better":
        parts.append("overfits because its bags draw copies instead of people: bags of N do better")
    elif compare(losses["exhaustive"], losses["fixed"]) == "worse":
        parts.append("overfits more with more copies: fixed does better")
    elif statistics.fmean(losses["exhaustive"]) >= statistics.fmean(losses["base"]):
        parts.append("no gain: likely min_samples_split, which counts copies (not tested)")
    elif "worse" not in found.values():
        parts.append("gain within the noise of the runs")
    return "; ".join(parts)


def _counts(groups: Iterable[Mapping[str, Sequence[float]]]) -> str:
    """Return on how many data sets (or pairs of data set and model) each claim holds."""
    losses = list(groups)
    found = [_verdicts(one) for one in losses]
    parts = [
        f"{claim}: {sum(one[claim] in holds for one in found)} of {len(found)}"
        for claim, (_, _, holds) in CLAIMS.items()
    ]
    others = [one for one in losses if compare(one["balanced"], one["exhaustive"]) != "identical"]
    near = sum(hardly_worse(one["balanced"], one["exhaustive"]) for one in others)
    parts.append(f"balanced identical to exhaustive: {len(losses) - len(others)}")
    parts.append(f"of the other {len(others)}, shown to be at most {100 * MARGIN:.0f} % worse: {near}")
    return "; ".join(parts)


ORDER = ("base", *models.PUC_SCHEMES, "full")


def _line(name: str, model: str, measure: str, rows: Rows, bags: Rows) -> list[str]:
    losses = by_variant(rows, measure)
    paper = PAPER.get((model, measure), {}).get(name)
    costs = ["", "", ""]
    if measure == "loss":
        means = {
            column: {variant: statistics.fmean(of) for variant, of in by_variant(rows, column).items() if of}
            for column in ("virtual rows", "seconds", "peak MB")
        }
        costs = [
            slashed((means["virtual rows"][scheme] for scheme in ("exhaustive", "balanced")), ".1f"),
            slashed((means["seconds"][variant] for variant in ("base", *models.PUC_SCHEMES)), ".2g"),
            slashed((means["peak MB"].get(variant, float("nan")) for variant in ("base", *models.PUC_SCHEMES)), ".0f"),
        ]
    return [
        shorter(name), model, name_of(measure, rows), *(plus_minus(losses[variant]) for variant in ORDER), *costs,
        slashed(paper, ".2f") if paper else "–", _remark(model, losses, by_variant(bags, measure)),
    ]  # fmt: skip


def table(rows: Rows) -> Table:
    """Return a line per table, model and measure, then a summary per model."""
    columns = [
        "data", "model", "measure", *ORDER, "× rows: exhaustive / balanced",
        "seconds: base / fixed / exhaustive / balanced", "peak MB: the same", "paper: base / fixed / exhaustive / full",
        "remark",
    ]  # fmt: skip
    rows = models.with_same_bags(rows)
    groups = by(rows, "data", "model")
    lines = [
        _line(name, model, measure, of, groups.get((name, models.BAGGED_FOREST), []))
        for (name, model), of in groups.items()
        for measure in measures_of(of)
    ]
    for (model,), of in [*by(rows, "model").items(), (("all",), rows)]:
        losses = [by_variant(one, "loss") for one in by(of, "data", "model").values()]
        mean = _mean_relative(losses)
        cells = [f"{mean[variant]:+.1f}" for variant in ORDER[1:]]
        blank = [""] * 4
        lines.append(["all", model, "mean loss against base, %", "0", *cells, *blank, _counts(losses)])
    return columns, lines


def _mean_relative(groups: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, float]:
    """Return the mean over data sets of each variant's loss against the base model's, in %."""
    return {
        variant: statistics.fmean(statistics.fmean(relative(one[variant], one["base"])) for one in groups)
        for variant in ORDER
    }


def page(rows: Rows) -> Table:
    """Return one line per model: mean loss and training time against its base model."""
    compared = (*models.PUC_SCHEMES, "full")
    lines = []
    for (model,), of in by(models.with_same_bags(rows), "model").items():
        groups = by(of, "data").values()
        mean = _mean_relative([by_variant(one, "loss") for one in groups])
        times = [by_variant(one, "seconds") for one in groups]
        slower = [
            statistics.geometric_mean(median_ratio(one[variant], one["base"]) for one in times) for variant in compared
        ]
        lines.append([model, *(f"{mean[variant]:+.1f} %" for variant in compared), slashed(slower, ".1f")])
    return ["loss against base", *compared, f"time against base: {' / '.join(compared)}"], lines


# The figure of several optional columns, and its parts

COLOURS = {"fixed": "#E69F00", "exhaustive": "#0072B2", "balanced": "#D55E00", "full": "#666666"}
MARKERS = {"fixed": "s", "exhaustive": "o", "balanced": "D", "full": "|"}


def dot(axes: Any, mine: Sequence[float], base: Sequence[float], position: float, **style: Any) -> None:
    """Draw a loss against the base model's, in % with its standard error over the runs."""
    differences = relative(mine, base)
    error = standard_error(differences)
    axes.errorbar(
        statistics.fmean(differences), position, xerr=0 if np.isnan(error) else error, elinewidth=1, **style
    )  # fmt: skip


def lanes(axes: Any, labels: Sequence[str]) -> None:
    """Give each label a horizontal lane, the first on top, and mark where the base model stands."""
    for position in range(1, len(labels), 2):
        axes.axhspan(position - 0.5, position + 0.5, color="#f3f3f3", zorder=0, linewidth=0)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)


def figure(rows: Rows) -> Figure:
    """Draw the losses against the base model, a panel per table."""
    drawing = Figure(figsize=(10, 6), layout="constrained")
    rows = models.with_same_bags(rows)
    groups, compared = by(rows, "data"), [model for (model,) in by(rows, "model")]
    panels = drawing.subplots(-(-len(groups) // 3), min(len(groups), 3), sharey=True, squeeze=False).ravel()
    for axes, ((name,), of) in zip(panels, groups.items(), strict=False):
        lanes(axes, compared)
        axes.set_title(shorter(name), fontsize=10)
        for (model,), one in by(of, "model").items():
            position, losses = compared.index(model), by_variant(one, "loss")
            for number, variant in enumerate(MARKERS):
                dot(
                    axes, losses[variant], losses["base"], position + 0.18 * (number - 1.5), fmt=MARKERS[variant],
                    color=COLOURS[variant], markersize=9 if variant == "full" else 4.5,
                    markeredgewidth=2 if variant == "full" else 1, label=variant,
                )  # fmt: skip
    drawing.supxlabel("loss against the same model without optional columns, % (lower is better)", fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    drawing.legend(handles[: len(MARKERS)], labels[: len(MARKERS)], loc="outside upper center", ncols=4, frameon=False)
    return drawing


STUDY = Study("several", units, table, figure, page)
