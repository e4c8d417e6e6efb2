"""What sharers gain, and whether the findings on non-sharers depend on the forest's parameters.

Two kinds of lines: the loss of sharers for every model trained for the study of inference, and the paper's ablations of
the forest, measured on non-sharers as in that study.
"""

from __future__ import annotations

import functools
import statistics
from typing import Any

from matplotlib.figure import Figure

from benchmarks.data import INDUCED, loaded
from benchmarks.harness.measuring import by, plus_minus, values, within_noise
from benchmarks.harness.study import Row, Rows, Study, Table, Unit, part_of

from .inference import (
    COLOURS,
    FAVOURABLE,
    FOREST,
    MARKERS,
    MODELS,
    MOVED_BY_BAGS,
    NOT_KNOWN,
    QUICK_MODEL,
    REASONS,
    SEE_BAGS,
    SHARERS_LOSS,
    SILENT_LOSS,
    VARIANTS,
    changes,
    dot,
    far_off,
    judge,
    listed,
    measure,
    of,
    outcome_column,
    shifts,
)

SHARERS, INFERENCE = "sharers", "inference"
ABLATION_RUNS = range(3)
ABLATION_LIMIT = 4_000  # people a forest is trained on; larger tables are split once
ABLATIONS: dict[str, dict[str, Any]] = {
    "as usual": {},
    "imputation zero": {"imputation": "zero", "indicators": False},
    "imputation mean": {"imputation": "mean", "indicators": False},
    "imputation median": {"imputation": "median", "indicators": False},
    "depth 4": {"max_depth": 4},
    "500 trees": {"n_estimators": 500},
    "min_samples_split 10": {"min_samples_split": 10},
}

ABLATION_MARKERS = dict(zip(ABLATIONS, ("o", "<", "s", "D", "v", "P", "X"), strict=True))

# tab:incentivization1, loss of sharers: base, full, PUC (the paper's columns are base, PUC, full).
PAPER_SHARERS = {
    "diabetes": (24.75, 19.90, 20.22), "compas": (42.02, 36.81, 36.89), "adult": (18.75, 17.85, 17.95),
    "income": (63.56, 56.22, 54.66), "california_housing": (12.76, 8.60, 8.51),
    "insurance_hi": (245.00, 230.95, 223.53),
}  # fmt: skip

# Ablations: loss of non-sharers (base, full, PUC) and change of their prediction (full, PUC).
PAPER_ABLATIONS: dict[str, dict[str, tuple[tuple[float, float, float], tuple[float, float]]]] = {
    "imputation mean": {
        "diabetes": ((35.00, 32.24, 34.67), (-13.00, -1.05)), "compas": ((44.55, 41.84, 44.56), (-17.63, -0.21)),
        "adult": ((13.40, 13.02, 13.37), (-2.42, 0.01)), "income": ((109.09, 107.80, 110.12), (-18.5, 1.4)),
        "california_housing": ((17.83, 16.41, 19.04), (-4.7, 4.2)),
        "insurance_hi": ((282.99, 278.27, 284.88), (-5.1, 0.1)),
    },
    "imputation median": {
        "diabetes": ((35.00, 32.22, 34.67), (-13.34, -1.05)), "compas": ((44.55, 41.70, 44.56), (-17.86, -0.21)),
        "adult": ((13.40, 12.99, 13.37), (-2.48, 0.01)), "income": ((109.09, 107.70, 110.12), (-18.1, 1.4)),
        "california_housing": ((17.83, 16.28, 19.04), (-5.1, 4.2)),
        "insurance_hi": ((282.99, 278.29, 284.88), (-5.1, 0.1)),
    },
    "depth 4": {
        "diabetes": ((36.49, 34.27, 37.87), (-15.22, 5.41)), "compas": ((43.99, 37.34, 50.43), (-37.85, 14.16)),
        "adult": ((13.29, 13.96, 13.18), (-0.80, 0.20)), "income": ((117.24, 115.76, 123.08), (-24.5, 8.6)),
        "california_housing": ((26.08, 20.29, 25.51), (-16.1, -0.6)),
        "insurance_hi": ((251.99, 251.21, 258.73), (-5.4, 3.5)),
    },
    # The paper prints these losses a second time, as those of gradient boosting.
    "500 trees": {
        "diabetes": ((34.07, 33.61, 33.58), (-11.67, -0.09)), "compas": ((44.64, 41.40, 44.78), (-18.69, 0.05)),
        "adult": ((13.31, 12.83, 13.31), (-2.46, -0.02)), "income": ((107.98, 106.71, 109.29), (-18.6, 1.3)),
        "california_housing": ((17.70, 16.11, 18.93), (-5.9, 3.8)),
        "insurance_hi": ((281.96, 277.03, 283.79), (-5.2, 0.1)),
    },
    "min_samples_split 10": {
        "diabetes": ((34.38, 33.52, 34.25), (-12.73, 1.25)), "compas": ((42.53, 39.21, 42.92), (-21.97, 0.22)),
        "adult": ((12.04, 11.75, 11.99), (-2.59, 0.10)), "income": ((104.62, 103.15, 105.85), (-18.6, 1.3)),
        "california_housing": ((17.84, 16.15, 19.11), (-5.4, 4.1)),
        "insurance_hi": ((260.05, 256.41, 262.31), (-5.2, 0.2)),
    },
}  # fmt: skip

# The tables where a reason holds: many share the median of whole numbers, and many sharers have no priors.
WHY = {
    "depth 4": (INDUCED, "PUC: trees too shallow to tell silent copies from shared ones everywhere"),
    "imputation zero": (("compas",), "PUC: without an indicator silence looks like a shared 0"),
    "imputation median": (
        ("diabetes", "compas", "adult", "income", "insurance_hi"),
        "PUC: without an indicator silence looks like a shared median",
    ),
}


def measure_ablation(name: str, what: str, run: int, quick: bool) -> list[Row]:
    """Measure a forest with something changed, on few enough people."""
    options = {**(QUICK_MODEL[FOREST] if quick else {}), **({} if quick and what == "500 trees" else ABLATIONS[what])}
    return measure(loaded(name, quick), FOREST, run, limit=ABLATION_LIMIT, small=ABLATION_LIMIT, **options)


def units(quick: bool) -> list[Unit]:
    """Return a unit per table, ablation and run."""
    names, ablations, runs = (INDUCED, tuple(ABLATIONS), ABLATION_RUNS)
    if quick:
        names, ablations, runs = ("diabetes", "income"), ("imputation mean", "depth 4", "500 trees"), range(1)
    return [
        Unit({"data": name, "what": what, "run": run}, functools.partial(measure_ablation, name, what, run, quick))
        for name in names
        for what in ablations
        for run in runs
    ]


def of_sharers(rows: Rows) -> Rows:
    """Return the rows of the study of inference that the paper's table of sharers is about."""
    those = (row for row in rows if row.get("study") == INFERENCE)
    return [row for row in those if row["model"] in MODELS and row["data"] in INDUCED]


def of_ablations(rows: Rows) -> Rows:
    """Return this study's own rows."""
    return [row for row in rows if "study" not in row]


def _sharers_line(name: str, model: str, rows: Rows) -> list[str]:
    paper = PAPER_SHARERS[name] if model == FOREST else None
    relative = {v: changes(rows, v, SHARERS_LOSS, relative=True) for v in ("full", "PUC")}
    behind = [own - full for own, full in zip(relative["PUC"], relative["full"], strict=True)]
    judged = f"PUC − full: {plus_minus(behind, 1, sign=True)} % of base"
    return [
        SHARERS, name, model,
        *(plus_minus(values(of(rows, variant), SHARERS_LOSS)) for variant in VARIANTS),
        listed(paper),
        *(plus_minus(relative[v], 1, sign=True) + " % loss" for v in ("full", "PUC")),
        listed([100 * (paper[i] / paper[0] - 1) for i in (1, 2)], 1, sign=True) if paper else "–",
        judged,
    ]  # fmt: skip


def _ablation_line(name: str, what: str, rows: Rows) -> list[str]:
    full, own = (shifts(rows, name, variant) for variant in ("full", "PUC"))
    paper = PAPER_ABLATIONS.get(what, {}).get(name)
    unit = " points" if outcome_column(rows, name) == FAVOURABLE else " %"
    return [
        what, name, FOREST,
        *(plus_minus(values(of(rows, variant), SILENT_LOSS)) for variant in VARIANTS),
        listed(paper[0]) if paper else "–",
        *(plus_minus(numbers, 2, sign=True) + unit for numbers in (full, own)),
        listed(paper[1], sign=True) if paper else "–",
        judge(full, own, paper[1] if paper else None),
    ]  # fmt: skip


def table(rows: Rows) -> Table:
    """Return sharers' losses, then ablations on non-sharers."""
    columns = [
        "what", "data", "model", "loss: base", "full", "PUC", "paper: base / full / PUC", "against base: full",
        "against base: PUC", "paper: full / PUC", "judged", "remark",
    ]  # fmt: skip
    lines = [
        [*_sharers_line(name, model, same), _sharers_remark(name, model, same)]
        for (name, model), same in by(of_sharers(rows), "data", "model").items()
    ]
    ablations = by(sorted(of_ablations(rows), key=lambda row: list(ABLATIONS).index(row["what"])), "what", "data")
    lines += [
        [*_ablation_line(name, what, same), _ablation_remark(name, what, same)]
        for (what, name), same in ablations.items()
    ]
    return columns, lines


def _sharers_remark(name: str, model: str, rows: Rows) -> str:
    if model != FOREST or PAPER_SHARERS[name][2] >= PAPER_SHARERS[name][1]:
        return "–"
    own, full = (statistics.fmean(values(of(rows, variant), SHARERS_LOSS)) for variant in ("PUC", "full"))
    return "–" if own < full else _NOT_BELOW_FULL


_NOT_BELOW_FULL = (
    "the paper's PUC beats full, ours does not: perhaps because our bags draw copies (see degradation) and the paper "
    "splits copies"
)


def _why_full(name: str, what: str) -> str:
    if what == "imputation median" and name == "compas":  # the others are as far off even with an indicator
        return "here it has no indicator, so silence looks like a shared median"
    return REASONS.get(name, "cause unknown")


def _ablation_remark(name: str, what: str, rows: Rows) -> str:
    paper = PAPER_ABLATIONS.get(what, {}).get(name)
    said = []
    full, own = (shifts(rows, name, variant) for variant in ("full", "PUC"))
    if paper and far_off(statistics.fmean(full), paper[1][0]):
        said.append(f"change of full unlike the paper's: {_why_full(name, what)}")
    if not within_noise(own):
        names, why = WHY.get(what, ((), ""))
        # Unlike in inference, three runs are too few to tell a shift of the mean from a change of the spread.
        said.append(why if name in names else SEE_BAGS if name in MOVED_BY_BAGS else NOT_KNOWN)
    return "; ".join(said) or "–"


def figure(rows: Rows) -> Figure:
    """Draw what sharers gain, and how ablations move non-sharers."""
    drawing = Figure(figsize=(11, 6), layout="constrained")
    left, right = drawing.subplots(1, 2)
    main, rows = of_sharers(rows), of_ablations(rows)
    names = list(dict.fromkeys(row["data"] for row in main))
    for place, name in enumerate(names):
        for at, variant in zip((0.2, -0.2), COLOURS, strict=True):
            for step, model in zip((0.11, 0.0, -0.11), MODELS, strict=True):
                same = [row for row in main if row["data"] == name and row["model"] == model]
                if same:
                    numbers = changes(same, variant, SHARERS_LOSS, relative=True)
                    dot(left, numbers, at + step - place, color=COLOURS[variant], fmt=MARKERS[model])
            base, full, own = PAPER_SHARERS[name]
            paper = 100 * ((full if variant == "full" else own) / base - 1)
            left.plot(paper, at + 0.11 - place, "D", markerfacecolor="none", color=COLOURS[variant], markersize=7)
    ablated = [what for what in ABLATIONS if any(row["what"] == what for row in rows)]
    spread = 0.7 / max(len(ablated), 1)
    for place, name in enumerate(names):
        for i, what in enumerate(ablated):
            same = [row for row in rows if row["what"] == what and row["data"] == name]
            height = 0.35 - spread * i - place
            for variant in COLOURS if same else ():
                dot(right, shifts(same, name, variant), height, color=COLOURS[variant], fmt=ABLATION_MARKERS[what])
    for panel in (left, right):
        panel.axvline(0, color="0.6", linewidth=1)
        panel.set_yticks([-place for place in range(len(names))], [name.replace("_", " ") for name in names])
        panel.set_ylim(-len(names) + 0.45, 0.55)
        panel.spines[["top", "right"]].set_visible(False)
    left.set_title("sharers", loc="left")
    left.set_xlabel("loss against the base model, %")
    right.set_title("non-sharers, forests with something changed", loc="left")
    right.set_xlabel("change of prediction: points, or % of the base")
    handles = [left.plot([], [], MARKERS[m], color="0.3", label=m)[0] for m in MODELS]
    handles += left.plot([], [], "D", markerfacecolor="none", color="0.3", label="paper's forest")
    handles += [left.plot([], [], "-", linewidth=4, color=c, label=v)[0] for v, c in COLOURS.items()]
    left.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, frameon=False)
    shapes = [right.plot([], [], ABLATION_MARKERS[what], color="0.3", label=what)[0] for what in ablated]
    right.legend(handles=shapes, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, frameon=False)
    return drawing


PAGE = part_of(
    table, "what", "data", "model", "against base: full", "against base: PUC", "paper: full / PUC", "judged",
    lines=lambda line: line["what"] in ("sharers", "depth 4"),
)  # fmt: skip
STUDY = Study("sharers", units, table, figure, PAGE, reads=(INFERENCE,))
