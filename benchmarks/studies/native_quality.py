"""Squared PUC-gap of the native engine against LightGBM's with the same copies, and against all virtual rows."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

import lightgbm as lgb
import numpy as np

import pucboost as puc
from benchmarks.harness.study import Row, Rows, Table, Unit
from benchmarks.studies.quality import FAMILIES
from pucboost.simulate import squared_puc_gap

PARAMS = {"objective": "binary", "learning_rate": 0.05, "verbosity": -1, "num_threads": 1}
COPIES = (2, 4, 8, 16)
SEEDS = 5
ROUNDS = 200
ALL = "exhaustive, fresh masks"


def units(quick: bool) -> Iterable[Unit]:
    """List one unit per family and seed."""
    for name, make, full_rows, enumerable in FAMILIES[:1] if quick else FAMILIES:
        for seed in range(1 if quick else SEEDS):
            n_rows = full_rows // 10 if quick else full_rows
            yield Unit(
                {"family": name, "seed": str(seed)},
                lambda make=make, n=n_rows, e=enumerable, s=seed: measure(make(s), n, e, s, quick),  # type: ignore[misc]
            )


def measure(family: Any, n_rows: int, enumerable: bool, seed: int, quick: bool) -> list[Row]:
    """Train every model on one sample."""
    train, test = family.sample(n_rows, 100 + seed), family.sample(20_000, 200 + seed)
    models: dict[tuple[str, str], dict[str, Any]] = {
        (engine, str(copies)): {"engine": engine, "copies": copies}
        for engine in ("native", "lightgbm")
        for copies in (COPIES[:3] if engine == "lightgbm" else COPIES)
    }
    if enumerable:
        models["lightgbm", ALL] = {"engine": "lightgbm", "augmentation": "exhaustive"}
    rows: list[Row] = []
    for (engine, copies), own in models.items():
        booster = puc.train(
            {**PARAMS, **own, "seed": seed, "optional": family.optional},
            lgb.Dataset(train.X, train.y),
            20 if quick else ROUNDS,
        )
        gap = 1e4 * squared_puc_gap(booster.predict(test.X), family, test.X)
        rows.append({"engine": engine, "copies": copies, "gap": f"{gap:.3f}"})
    return rows


def _gaps(rows: Rows) -> dict[tuple[str, str, str], dict[str, float]]:
    """Return family, engine, copies → seed → gap."""
    gaps: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in rows:
        gaps.setdefault((row["family"], row["engine"], row["copies"]), {})[row["seed"]] = float(row["gap"])
    return gaps


def _ratio(mine: dict[str, float], others: dict[str, float]) -> str:
    """Return the ratio of the means, and the standard error of the mean log-ratio."""
    logs = [np.log(mine[seed] / others[seed]) for seed in mine]
    error = f" ± {statistics.stdev(logs) / len(logs) ** 0.5:.3f}" if len(logs) > 1 else ""
    return f"{statistics.mean(mine.values()) / statistics.mean(others.values()):.3f}{error}"


def table(rows: Rows) -> Table:
    """Return one line per family and number of copies."""
    gaps = _gaps(rows)
    lines = []
    for (family, engine, copies), mine in gaps.items():
        if engine != "native":
            continue
        same, all_rows = gaps.get((family, "lightgbm", copies)), gaps.get((family, "lightgbm", ALL))
        lines.append(
            [
                family,
                copies,
                f"{statistics.mean(mine.values()):.1f}",
                "–" if same is None else f"{statistics.mean(same.values()):.1f}",
                "–" if same is None else _ratio(mine, same),
                "–" if all_rows is None else _ratio(mine, all_rows),
            ]
        )
    columns = ["family", "copies", "native, gap² ×10⁴", "LightGBM, gap² ×10⁴", "ratio", "ratio to exhaustive"]
    return columns, lines


def page(rows: Rows) -> Table:
    """Return the ratios alone."""
    columns, lines = table(rows)
    keep = [columns.index(name) for name in ("family", "copies", "ratio", "ratio to exhaustive")]
    short = [[line[k] for k in keep] for line in lines]
    return [columns[k] for k in keep], [line for line in short if line[-2:] != ["–", "–"]]


def figure(rows: Rows) -> Any:
    """Draw the gap against the number of copies."""
    import matplotlib.pyplot as plt

    gaps = _gaps(rows)
    families = list(dict.fromkeys(row["family"] for row in rows))
    drawing, axes = plt.subplots(1, len(families), figsize=(3.0 * len(families), 2.8), squeeze=False, sharex=True)
    for axis, family in zip(axes[0], families, strict=True):
        for engine, label, colour in (("native", "native", "#0072B2"), ("lightgbm", "LightGBM", "#D55E00")):
            points = [
                (int(copies), statistics.mean(by_seed.values()))
                for (one, other, copies), by_seed in gaps.items()
                if (one, other) == (family, engine) and copies != ALL
            ]
            axis.plot(*zip(*points, strict=True), "o-", color=colour, label=label, ms=4)
        if (family, "lightgbm", ALL) in gaps:
            level = statistics.mean(gaps[family, "lightgbm", ALL].values())
            axis.axhline(level, color="#555555", lw=1, ls="--", label="all virtual rows")
        axis.set_xscale("log", base=2)
        axis.set_xticks(COPIES, [str(c) for c in COPIES])
        axis.set_title(family, fontsize=10)
        axis.set_xlabel("copies per person")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("squared PUC-gap ×10⁴")
    axes[0][0].legend(frameon=False, fontsize=8)
    drawing.tight_layout()
    return drawing
