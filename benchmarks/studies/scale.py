"""Large tables: what training under consent costs and gains against plain training.

``scale`` draws tables of the logistic family, whose truth is known; ``freMTPL2`` is a real portfolio of motor policies
(claims per year, exposure as weight). Every training has a process of its own, so that its peak of memory is clean;
variants to be compared run one after the other. The parts of the time are taken inside the trainings that are timed.

All sizes get the same number of rounds at the same rate: with fewer rounds, the gaps of the larger tables would be
those of unfinished models.
"""

from __future__ import annotations

import atexit
import functools
import math
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter

import pucboost as puc
from benchmarks.data import read
from benchmarks.harness.measuring import by, median_ratio, peak_memory, plus_minus, values
from benchmarks.harness.study import THREADS, Array, Row, Rows, Study, Table, Unit
from benchmarks.models import ENGINES, NATIVE, PUC_SCHEMES, predict_booster
from pucboost._training import steps
from pucboost._virtual.plan import default_copies
from pucboost._virtual.rows import MaskedRows
from pucboost.simulate import LogisticFamily, squared_puc_gap

# A watch that takes the time of a training and of its parts


class Watch:
    """Takes the time of a training and of its parts, for both engines, with or without consent.

    ``plan``: reading consent, planning copies, and the summary at the end; ``stream``: computing masks and gathering
    masked rows, as often as the engine reads them; ``binning``: the rest up to the first tree; ``boosting``: the trees.
    """

    def __init__(self) -> None:
        self.stream = 0.0
        self.moments: dict[str, float] = {}

    def callback(self, engine: str) -> Any:
        """Return the callback by which the engine tells the watch that the first tree begins."""
        return _XGBoostStart(self) if engine == "XGBoost" else _LightGBMStart(self)

    def mark(self, moment: str) -> None:
        """Remember when something happened first."""
        self.moments.setdefault(moment, time.perf_counter())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch what is trained inside."""
        with ExitStack() as stack:
            for name in ("read_into", "take"):
                stack.enter_context(patch.object(MaskedRows, name, self._adding(getattr(MaskedRows, name))))
            for name, moment in (("plan", "planned"), ("fit", "boosted")):
                stack.enter_context(patch.object(steps, name, self._then(getattr(steps, name), moment)))
            self.mark("start")
            yield
            self.mark("end")

    def _adding(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = function(*args, **kwargs)
            self.stream += time.perf_counter() - start
            return result

        return timed

    def _then(self, function: Callable[..., Any], moment: str) -> Callable[..., Any]:
        def marked(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self.mark(moment)
            return result

        return marked

    def row(self) -> Row:
        """Return the whole and its parts in seconds; plain training plans nothing and has no stream."""
        start, end, first = (self.moments[name] for name in ("start", "end", "first tree"))
        planned, boosted = self.moments.get("planned", start), self.moments.get("boosted", end)
        return {
            "seconds": end - start,
            "plan": planned - start + end - boosted,
            "stream": self.stream,
            "binning": first - planned - self.stream,
            "boosting": boosted - first,
        }


class _LightGBMStart:
    before_iteration = True
    order = 0

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def __call__(self, env: Any) -> None:
        self.watch.mark("first tree")


class _XGBoostStart(xgb.callback.TrainingCallback):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def before_training(self, model: Any) -> Any:
        self.watch.mark("first tree")
        return model


# One training with either engine, with its times and its peak of memory

WARM_UP_ROWS = 500
PARAMS: dict[str, dict[str, Any]] = {
    "LightGBM": {"num_leaves": 63, "verbosity": -1, "force_row_wise": True, "num_threads": THREADS},
    NATIVE: {"num_leaves": 63, "verbosity": -1, "num_threads": THREADS},
    "XGBoost": {"max_depth": 6, "verbosity": 0, "tree_method": "hist", "nthread": THREADS},
}

OBJECTIVES = {
    "scale": {"LightGBM": "binary", NATIVE: "binary", "XGBoost": "binary:logistic"},
    "freMTPL2": {"LightGBM": "poisson", NATIVE: "poisson", "XGBoost": "count:poisson"},
}


@dataclass(frozen=True)
class Training:
    """One engine in one variant."""

    engine: str
    variant: str
    objective: str
    optional: list[Any]
    rounds: int
    rate: float
    seed: int

    @classmethod
    def of(cls, job: dict[str, Any], optional: list[Any]) -> Training:
        """Read a job."""
        engine = job["engine"]
        objective = OBJECTIVES[job["what"]][engine]
        return cls(engine, job["variant"], objective, optional, job["rounds"], job["rate"], job["run"])

    def start(self, X: Any, y: Array, weight: Array | None, rounds: int, callbacks: list[Any], **changed: Any) -> Any:
        """Train and return the booster; ``changed`` are parameters of pucboost."""
        params = {
            **PARAMS[self.engine], "objective": self.objective, "learning_rate": self.rate, "seed": self.seed,
        }  # fmt: skip
        if self.variant in PUC_SCHEMES:
            consent = {"engine": self.engine.lower(), "optional": self.optional, "augmentation": self.variant}
            if self.engine == NATIVE:
                consent["copies"] = default_copies(len(y))  # as many as the others have
            people = puc.Dataset(X, y, weight=weight)
            return puc.train({**params, **consent, **changed}, people, rounds, callbacks=callbacks)
        if self.engine == "LightGBM":
            return lgb.train(params, lgb.Dataset(X, y, weight=weight), rounds, callbacks=callbacks)
        matrix = xgb.QuantileDMatrix(X, y, weight=weight, nthread=THREADS, enable_categorical=True)
        with xgb.config_context():  # so that the verbosity of one call does not affect the next
            return xgb.train(params, matrix, rounds, callbacks=callbacks)

    def measure(self, X: Any, y: Array, weight: Array | None = None) -> tuple[Any, Row]:
        """Train after a warm-up on a few rows; return the booster, and times and peak memory beyond the table."""
        few = slice(0, WARM_UP_ROWS)
        first = X.iloc[few] if isinstance(X, pd.DataFrame) else X[few]
        # With one copy a row, even a small table takes the path of a large one.
        self.start(first, y[few], None if weight is None else weight[few], 1, [], copies=1)
        watch, boosters = Watch(), []

        def job() -> None:
            with watch.running():
                boosters.append(self.start(X, y, weight, self.rounds, [watch.callback(self.engine)]))

        memory = peak_memory(job)
        (booster,) = boosters
        summary = getattr(booster, "puc_summary", None)
        per_row = 1.0 if summary is None else summary.virtual_rows / len(y)
        return booster, {"virtual rows per row": per_row, **watch.row(), "MB": memory}


# What a process does: train on a table, then compare with the truth or with held-out policies

COLUMNS = 30
TEST_PEOPLE = 20_000
FAMILY_SEED = 0  # the same truth for all sizes and runs, so that the gaps of a column can be compared
POLICIES = "freMTPL2freq"
POLICY_SIGNS = {"BonusMalus": "+", "DrivAge": "-", "VehAge": "+"}
POLICY_WORDS = ("Area", "VehBrand", "VehGas", "Region")
MOST_CLAIMS = 4
AUDITED = 100_000
AUDIT_MARGIN = 0.1  # of the mean prediction: so few claims could not decide a smaller one


def scale_job(job: dict[str, Any]) -> Row:
    """Train on a drawn table and compare with the truth."""
    X, y = np.load(Path(job["folder"], "X.npy")), np.load(Path(job["folder"], "y.npy"))
    family = LogisticFamily.random(COLUMNS - job["r"], job["r"], FAMILY_SEED)
    booster, row = Training.of(job, family.optional).measure(X, y)
    test = family.sample(TEST_PEOPLE, 1_000_000 + job["run"]).X
    return {**row, "gap": 1e4 * squared_puc_gap(predict_booster(booster, test), family, test)}


def policy_job(job: dict[str, Any]) -> Row:
    """Train on four fifths of the policies and test on the others."""
    X, claims, exposure = _policies(job["quick"])
    X = puc.simulate.withhold_sigmoid(X, puc.simulate.paper_strength(X, POLICY_SIGNS), job["run"])
    optional = list(POLICY_SIGNS)
    order = np.random.default_rng(job["run"]).permutation(len(X))
    train, test = np.sort(order[len(X) // 5 :]), np.sort(order[: len(X) // 5])
    given = X.drop(columns=optional) if job["variant"] == "base" else X
    rate = claims / exposure
    booster, row = Training.of(job, optional).measure(given.iloc[train], rate[train], exposure[train])

    def predict(people: pd.DataFrame) -> Array:
        return predict_booster(booster, people[list(given.columns)])

    predicted, withheld = predict(X.iloc[test]), X[optional].isna().to_numpy()[test]
    row |= {"people": len(train)} | balance(predicted, claims[test], exposure[test], withheld)
    if job["audited"]:
        audited = order[: min(AUDITED, len(test))]  # at random: the file's first policies have more claims
        row |= _audit(predict, X.iloc[audited], claims[audited], exposure[audited])
    return row


@functools.lru_cache(maxsize=1)
def _policies(quick: bool) -> tuple[pd.DataFrame, Array, Array]:
    """Return the table, the claims and the years of exposure."""
    raw = read(POLICIES, quick)
    claims = np.minimum(raw["ClaimNb"].to_numpy(np.float64), MOST_CLAIMS)
    exposure = np.minimum(raw["Exposure"].to_numpy(np.float64), 1.0)
    columns = raw.drop(columns=["IDpol", "ClaimNb", "Exposure"])
    words = {name: columns[name].astype(str).astype("category") for name in POLICY_WORDS if name in columns}
    numbers = {name: columns[name].astype(np.float32) for name in columns if name not in words}
    return pd.DataFrame({name: words.get(name, numbers.get(name)) for name in columns}), claims, exposure


def balance(predicted: Array, claims: Array, exposure: Array, withheld: Array) -> Row:
    """Return the Poisson deviance per year, and predicted to observed claims by whether people withhold something."""
    expected = exposure * predicted
    ratio = np.log(np.where(claims > 0, claims, expected) / expected)
    row: Row = {"deviance": 2 * float(np.sum(claims * ratio - claims + expected) / exposure.sum())}
    for name, who in (("nothing", ~withheld.any(axis=1)), ("something", withheld.any(axis=1))):
        seen = claims[who].sum()
        row[f"predicted to observed, {name} withheld"] = expected[who].sum() / seen if seen else None
    silent = withheld.all(axis=1)
    row["claims a year predicted, all withheld"] = (
        expected[silent].sum() / exposure[silent].sum() if silent.any() else None
    )
    return row


def _audit(predict: Callable[[pd.DataFrame], Array], X: pd.DataFrame, claims: Array, exposure: Array) -> Row:
    """Return the verdict, and the penalties of those who withhold something, and all, in % of what they are told."""
    start = time.perf_counter()
    report = puc.audit(
        predict, X, claims, exposure=exposure, optional=list(POLICY_SIGNS), loss="poisson", margin=AUDIT_MARGIN,
        relative=True, num_threads=THREADS, progress=False,
    )  # fmt: skip
    row: Row = {"verdict": report.verdict, "audit, s": time.perf_counter() - start}
    for penalty in report.penalties:
        who = "something" if penalty.groups is None else "all" if penalty.groups == () else None
        if who is not None and penalty.estimate is not None and penalty.mean_prediction:
            percent = 100 / penalty.mean_prediction
            row[f"penalty, {who} withheld, %"] = percent * penalty.estimate.value
            row[f"its standard error, {who} withheld"] = percent * penalty.estimate.standard_error
    return row


JOBS: dict[str, Callable[[dict[str, Any]], Row]] = {"scale": scale_job, "freMTPL2": policy_job}


# A process of its own for each training, so that its peak of memory is clean

CHUNK = 250_000


def run_here(job: dict[str, Any]) -> list[Row]:
    """Run a job in this process."""
    return [JOBS[job["what"]](_with_table(job))]


def run_apart(job: dict[str, Any]) -> list[Row]:
    """Run a job in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=_fork_server()) as pool:
        return [pool.submit(JOBS[job["what"]], _with_table(job)).result()]


@functools.cache
def _fork_server() -> Any:
    """Return a way to start processes quickly: from a server that has imported everything and never trained."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.catalogue"])  # a child imports what the main module does
    return context


def _with_table(job: dict[str, Any]) -> dict[str, Any]:
    """Draw a job's table, unless the job before used the same one, and tell the job where it is."""
    return {**job, "folder": _draw(job["N"], job["r"], job["run"])} if job["what"] == "scale" else job


@functools.cache
def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="pucboost-scale-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.lru_cache(maxsize=1)  # one table is kept: the next one replaces it in the folder
def _draw(n: int, r: int, run: int) -> str:
    family = LogisticFamily.random(COLUMNS - r, r, FAMILY_SEED)
    folder = Path(_folder())
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, COLUMNS))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (n,))
    for number, start in enumerate(range(0, n, CHUNK)):
        part = family.sample(min(CHUNK, n - start), 1_000 * (1 + run) + number)
        X[start : start + CHUNK], y[start : start + CHUNK] = part.X, part.y
    return str(folder)


# The trainings of the study, those to be compared next to each other

VARIANTS = ("plain", "balanced", "fixed", "exhaustive")  # the two compared most often come first
EXHAUSTIVE_AT_MOST = 20_000_000  # virtual rows


@dataclass(frozen=True)
class Size:
    """Tables of one size: how many rows, which numbers of groups, how often and how long they are trained on."""

    rows: int
    groups: tuple[int, ...]
    runs: int
    rounds: int = 40
    rate: float = 0.3


SIZES = (
    Size(100_000, (4, 10, 20), 3),
    Size(1_000_000, (4, 10, 20), 1),
    Size(5_000_000, (4, 10, 20), 1),
)

QUICK_SIZES = (Size(2_000, (4,), 1, 5),)


def units(quick: bool) -> Iterator[Unit]:
    """List the trainings; those compared stand next to each other."""
    apart = True  # a quick run starts one process, to check that it works
    for key, job in [*_scale_jobs(QUICK_SIZES if quick else SIZES), *_policy_jobs(quick)]:
        yield Unit(key, functools.partial(run_apart if apart else run_here, job))
        apart = not quick


def _scale_jobs(sizes: tuple[Size, ...]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for size in sizes:
        for r in size.groups:
            family = LogisticFamily.random(COLUMNS - r, r, FAMILY_SEED)
            for run in range(size.runs):
                for engine in ENGINES:
                    for variant in VARIANTS:
                        if variant == "exhaustive" and size.rows * _subsets(family) > EXHAUSTIVE_AT_MOST:
                            continue
                        key = {"what": "scale", "N": size.rows, "r": r, "engine": engine, "variant": variant}
                        yield {**key, "run": run}, {**key, "run": run, "rounds": size.rounds, "rate": size.rate}


@functools.lru_cache
def _subsets(family: LogisticFamily) -> float:
    """Return the mean number of subsets of what a person shares."""
    return float(np.mean(2.0 ** family.sample(2_000, 0).available.sum(axis=1)))


def _policy_jobs(quick: bool) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for run in range(1 if quick else 2):
        for engine in ENGINES:
            for variant in (*VARIANTS, "base"):
                key = {"what": "freMTPL2", "engine": engine, "variant": variant, "run": run}
                audited = run == 0 and variant in ("plain", "balanced") and not quick
                rounds = {"rounds": 5 if quick else 60, "rate": 0.15}
                yield key, {**key, **rounds, "quick": quick, "audited": audited}


# The results on large tables, and their short form

PARTS = {
    "plan": "consent and plan",
    "stream": "masks and gather",
    "binning": "binning by the engine",
    "boosting": "boosting",
}

SHOWN = (
    "what", "N", "r", "engine", "variant", "virtual rows per row", "seconds", "times plain", "MB", "times plain's MB",
    "plan / stream / binning / boosting, %", "squared PUC-gap ×10⁴", "deviance",
    "predicted to observed, nothing withheld", "… something withheld", "all withheld, against base", "audit", "remark",
)  # fmt: skip

_SKIPPED = "exhaustive left out: too many virtual rows"


def table(rows: Rows) -> Table:
    """Return one line per training, means or medians over runs."""
    lines = [_scale_line(group, rows) for group in cells(rows).values()]
    lines += [_policy_line(group, rows) for group in by(of(rows, "freMTPL2"), "engine", "variant").values()]
    return list(SHOWN), [[line.get(column, "") for column in SHOWN] for line in lines]


def page(rows: Rows) -> Table:
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
    line["audit"] = next((_audit_cell(row) for row in group if row.get("verdict")), "")
    return line


def _audit_cell(row: dict[str, str]) -> str:
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


# The figure of large tables

PROFILED = ("1000000", "10")  # rows and groups of the bars in the figure
_COLOURS = {"plain": "#D55E00", "fixed": "#E69F00", "balanced": "#0072B2", "exhaustive": "#009E73"}
_SHADES = {"plan": "#CC79A7", "stream": "#E69F00", "binning": "#56B4E9", "boosting": "#999999"}


def figure(rows: Rows) -> Any:
    """Draw the gap against the seconds for each number of groups, and below them where the time goes."""
    groups = list(by(of(rows, "scale"), "r"))
    drawing = Figure(figsize=(9.5, 6.6), layout="constrained")
    above, below = drawing.subfigures(2, 1, height_ratios=(1.7, 1))
    for axes, (r,) in zip(above.subplots(1, len(groups), sharey=True, squeeze=False)[0], groups, strict=True):
        _draw_gaps(axes, [row for row in of(rows, "scale") if row["r"] == r])
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
    scale = of(rows, "scale")
    keys = [Line2D([], [], color=_COLOURS[variant], label=variant) for (variant,) in by(scale, "variant")]
    for engine, style, face in (("LightGBM", "-", "black"), ("XGBoost", "--", "white")):
        keys.append(Line2D([], [], color="black", linestyle=style, marker="o", markerfacecolor=face, label=engine))
    for n in sorted(by(scale, "N"), key=lambda name: int(name[0])):
        mark = {"marker": "o", "linestyle": "", "color": "grey", "markersize": _size(n[0])}
        keys.append(Line2D([], [], label=f"{int(n[0]):,} rows", **mark))
    return keys


def _draw_parts(axes: Any, rows: Rows) -> None:
    """Draw the seconds of plain and balanced training as bars of their parts."""
    trainings = cells(rows)
    n, r = PROFILED if any(key[:2] == PROFILED for key in trainings) else list(trainings)[-1][:2]
    bars = [key for key in trainings if key[:2] == (n, r) and key[3] in ("plain", "balanced")]
    left = [0.0] * len(bars)
    for part, name in PARTS.items():
        width = [statistics.fmean(values(trainings[key], part)) for key in bars]
        axes.barh([f"{engine}, {variant}" for _, _, engine, variant in bars], width, left=left, color=_SHADES[part],
                  label=name)  # fmt: skip
        left = [start + more for start, more in zip(left, width, strict=True)]
    axes.invert_yaxis()
    axes.tick_params(labelsize=8)
    axes.set_xlabel(f"seconds, {int(n):,} rows, {r} groups")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


STUDY = Study("scale", units, table, figure, page, alone=True)
