"""How long things take, as ratios to the time of LightGBM or numpy for the same amount of work, in one run."""

from __future__ import annotations

import itertools
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np

import pucboost as puc
from benchmarks.data import insurance_like
from benchmarks.harness.measuring import alternate, median_ratio, ratio_row
from benchmarks.harness.study import Row
from pucboost._consent import Consent
from pucboost._engines.lightgbm_data import VirtualDataset
from pucboost._kernels.compiling import run_in_ranges
from pucboost._kernels.rows import gather_masked_rows
from pucboost._training.datasets import read_dataset
from pucboost._virtual.plan import plan_masks
from pucboost._virtual.rows import MaskedRows, VirtualTable

PARAMS = {"objective": "binary", "verbosity": -1, "num_threads": 2, "force_row_wise": True}


class _Stopwatch:
    """Callback pair that measures the boosting loop alone."""

    before_iteration = True
    order = 0

    def __init__(self) -> None:
        self.start = 0.0

    def __call__(self, env: Any) -> None:
        if env.iteration == env.begin_iteration:
            self.start = time.perf_counter()


def training(quick: bool) -> list[Row]:
    """``puc.train`` against ``lgb.train`` on the same rows."""
    n_rows, rounds, repeat = (20_000, 10, 1) if quick else (500_000, 100, 5)
    X, y, optional = insurance_like(n_rows)
    rows: list[Row] = []
    outside: dict[str, list[float]] = {}

    def measured(name: str, train: Any, params: dict[str, Any]) -> None:
        watch, start = _Stopwatch(), time.perf_counter()
        train(params, lgb.Dataset(X, y), rounds, callbacks=[watch])
        outside.setdefault(name, []).append((watch.start - start) / (time.perf_counter() - start))

    def plain() -> None:
        measured("plain", lgb.train, PARAMS)

    def protected(copies: float) -> None:
        measured("puc", puc.train, {**PARAMS, "engine": "lightgbm", "optional": optional, "copies": copies})

    def stream_alone() -> None:
        for _ in virtual_rows(X, y, optional, 2).rows.batches():
            pass

    for copies, target in ((2, "≤ 2.0"), (4, "")):
        outside.clear()
        times = alternate({"plain": plain, "puc": lambda c=copies: protected(c), "stream": stream_alone}, repeat)  # type: ignore[misc]
        label = f"balanced, copies={copies}, N={n_rows:,}, {X.shape[1]} columns, {rounds} rounds"
        rows.append(
            ratio_row(
                f"total time, {label}", "lgb.train", median_ratio(times["puc"], times["plain"]), target, times["puc"]
            )
        )
        if copies == 2:
            own = median_ratio(times["stream"], times["puc"])
            before = {name: statistics.median(shares[1:]) for name, shares in outside.items()}
            rows.append(
                ratio_row("… part that is not LightGBM's: masks, plan, gather", "total", own, "≤ 0.15", times["stream"])
            )
            rows.append(
                ratio_row("… part before the first tree, LightGBM's binning included", "total", before["puc"], "", [])
            )
            rows.append(ratio_row("… the same part of plain lgb.train", "its total", before["plain"], "", []))
    return rows


def virtual_rows(X: Any, y: Any, optional: list[int], copies: float) -> VirtualTable:
    """Return the virtual table of ``balanced`` augmentation."""
    table = read_dataset(lgb.Dataset(X, y), "the table")
    consent = Consent.declare(optional, table.names)
    plan = plan_masks(consent.availability(table.source), "balanced", copies=copies)
    return VirtualTable(MaskedRows(table.source, consent, plan), table)


def construction(quick: bool) -> list[Row]:
    """A LightGBM dataset from the stream against one from the materialised float32 matrix of the same rows."""
    X, y, optional = insurance_like(20_000 if quick else 500_000)
    virtual = virtual_rows(X, y, optional, 2)
    X_aug, y_aug, weight, _ = puc.augment(X, y, optional=optional, copies=2)
    times = alternate(
        {
            "matrix": lambda: lgb.Dataset(X_aug, y_aug, weight=weight, params=PARAMS).construct(),
            "stream": lambda: VirtualDataset(virtual, params=PARAMS).construct(),
        },
        2 if quick else 7,
    )
    ratio = median_ratio(times["stream"], times["matrix"])
    return [
        ratio_row(
            f"construct a dataset of {len(virtual):,} virtual rows",
            "the same from a matrix",
            ratio,
            "≤ 1.3",
            times["stream"],
        )
    ]


def gather(quick: bool) -> list[Row]:
    """The masked-row kernel against a plain numpy copy of as many bytes."""
    X, y, optional = insurance_like(20_000 if quick else 500_000)
    stream = virtual_rows(X, y, optional, 2).rows
    plan = stream.plan
    whole = stream.materialise()
    out = np.empty_like(whole)
    rows, masks = plan.rows_and_masks(0, len(plan))
    bits = stream.consent.column_bits

    def kernel() -> None:
        run_in_ranges(
            lambda lo, hi: gather_masked_rows(X, rows, masks, bits, np.float32(np.nan), lo, hi, out),
            len(out),
            stream.threads,
        )

    def read() -> None:
        for _ in stream.batches():
            pass

    times = alternate({"copy": lambda: np.copyto(out, whole), "kernel": kernel, "read": read}, 15)
    speed = {name: median_ratio(times["copy"], times[name]) for name in times}
    size = f"{whole.nbytes / 1e6:.0f} MB"
    return [
        ratio_row(f"speed of the gather kernel, {size}", "numpy copy", speed["kernel"], "≥ 0.5", times["kernel"]),
        ratio_row(f"speed of a whole read, masks computed, {size}", "numpy copy", speed["read"], "", times["read"]),
    ]


def augment(quick: bool) -> list[Row]:
    """``augment(…, "exhaustive")`` against two straightforward loops over rows and subsets."""
    X, y, optional = insurance_like(500 if quick else 10_000, 20, 8)

    def loop(copy_row: Callable[[Any], Any], erase: Callable[[Any, tuple[int, ...]], None]) -> tuple[Any, ...]:
        rows, labels, sources = [], [], []
        for i, original in enumerate(X):
            shared = [column for column in optional if not math.isnan(original[column])]
            for size in range(len(shared) + 1):
                for withheld in itertools.combinations(shared, size):
                    row = copy_row(original)
                    erase(row, withheld)
                    rows.append(row)
                    labels.append(y[i])
                    sources.append(i)
        return np.array(rows, dtype=X.dtype), np.array(labels), np.ones(len(rows)), np.array(sources)

    def erase_in_list(row: list[float], withheld: tuple[int, ...]) -> None:
        for column in withheld:
            row[column] = math.nan

    def erase_in_array(row: Any, withheld: tuple[int, ...]) -> None:
        row[list(withheld)] = math.nan

    def as_multiset(result: tuple[Any, ...]) -> list[Any]:
        return sorted(zip((row.tobytes() for row in result[0]), *(part.tolist() for part in result[1:]), strict=True))

    jobs = {
        "lists": lambda: loop(list, erase_in_list),
        "numpy rows": lambda: loop(np.copy, erase_in_array),
        "augment": lambda: puc.augment(X, y, optional=optional, augmentation="exhaustive"),
    }
    ours = as_multiset(jobs["augment"]())
    if any(as_multiset(jobs[name]()) != ours for name in ("lists", "numpy rows")):
        raise AssertionError("the ways give different rows")
    times = alternate(jobs, 3)
    what = f"speed of augment, exhaustive, {len(X):,} rows to {len(ours):,}"
    return [
        ratio_row(
            what, f"a Python loop over {name}", median_ratio(times[name], times["augment"]), "≥ 200", times["augment"]
        )
        for name in ("lists", "numpy rows")
    ]


def import_time(quick: bool) -> list[Row]:
    """``import pucboost`` in a new interpreter, minus the start of the interpreter."""

    def start(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    times = alternate({"empty": lambda: start("pass"), "import": lambda: start("import pucboost")}, 3 if quick else 15)
    taken = statistics.median(a - b for a, b in zip(times["import"], times["empty"], strict=True))
    return [ratio_row("import pucboost, in seconds", "1 second", taken, "< 0.3", [taken])]


def study(quick: bool) -> list[Row]:
    """Run all timings."""
    return [row for part in (training, construction, gather, augment, import_time) for row in part(quick)]
