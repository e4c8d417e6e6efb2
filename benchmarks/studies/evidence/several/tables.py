"""The table of several optional columns, the short one, and the paper's numbers."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from benchmarks import models
from benchmarks.harness.summary import by, plus_minus
from benchmarks.harness.timing import median_ratio
from benchmarks.harness.types import Rows, Table

from .comparing import (
    MARGIN,
    by_variant,
    compare,
    hardly_worse,
    measures_of,
    name_of,
    relative,
    shorter,
    slashed,
)
from .measuring import AUC

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


def in_short(rows: Rows) -> Table:
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
