"""Large tables: what training under consent costs beside plain training, and what it brings.

``scale`` draws tables of the logistic family, whose truth is known; ``freMTPL2`` is a real portfolio of motor policies
(claims per year, exposure as weight). Every training has a process of its own, so that its peak of memory is clean;
variants to be compared run one after the other. The parts of the time are taken inside the very trainings that are
timed.

Every size of table gets as many rounds at the same rate: with fewer the gaps of the larger tables would be those of
unfinished models.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import shutil
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

import pucboost as puc
from pucboost._training.augmenting import Augmenter as TrainingJob
from pucboost._virtual.rows import MaskedRows
from pucboost.simulate import LogisticFamily, squared_puc_gap

from . import data
from .harness import THREADS, Row, peak_memory
from .models import ENGINES, PUC_SCHEMES, predict_booster
from .scale_tables import figure, in_short, table
from .studies import Study, Unit

Array = np.ndarray[Any, Any]

VARIANTS = ("plain", "balanced", "fixed", "exhaustive")  # the two that are compared most stand side by side
COLUMNS = 30
TEST_PEOPLE = 20_000
FAMILY_SEED = 0  # the same truth for all sizes and runs, so that the gaps of a column can be compared
CHUNK = 250_000
EXHAUSTIVE_AT_MOST = 20_000_000  # virtual rows
WARM_UP_ROWS = 500

PARAMS: dict[str, dict[str, Any]] = {
    "LightGBM": {"num_leaves": 63, "verbosity": -1, "force_row_wise": True, "num_threads": THREADS},
    "XGBoost": {"max_depth": 6, "verbosity": 0, "tree_method": "hist", "nthread": THREADS},
}
OBJECTIVES = {
    "scale": {"LightGBM": "binary", "XGBoost": "binary:logistic"},
    "freMTPL2": {"LightGBM": "poisson", "XGBoost": "count:poisson"},
}

POLICIES = "freMTPL2freq"
POLICY_SIGNS = {"BonusMalus": "+", "DrivAge": "-", "VehAge": "+"}
POLICY_WORDS = ("Area", "VehBrand", "VehGas", "Region")
MOST_CLAIMS = 4
AUDITED = 100_000
AUDIT_MARGIN = 0.1  # of the mean prediction: what so few claims can decide


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
    apart = True  # a quick run starts one process, to see that it works
    for key, job in [*_scale_jobs(QUICK_SIZES if quick else SIZES), *_policy_jobs(quick)]:
        yield Unit(key, functools.partial(_run_apart if apart else _run_here, job))
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


# --- processes ------------------------------------------------------------------------------------------------------


def _run_here(job: dict[str, Any]) -> list[Row]:
    return [_JOBS[job["what"]](_with_table(job))]


def _run_apart(job: dict[str, Any]) -> list[Row]:
    with ProcessPoolExecutor(1, mp_context=_fork_server()) as pool:
        return [pool.submit(_JOBS[job["what"]], _with_table(job)).result()]


@functools.cache
def _fork_server() -> Any:
    """Return how to start a process at once: from a server that has imported everything and never trained."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.catalogue"])  # a child imports what the main module does
    return context


def _with_table(job: dict[str, Any]) -> dict[str, Any]:
    """Have a job's table drawn, unless it is that of the job before, and tell the job where it is."""
    return {**job, "folder": _draw(job["N"], job["r"], job["run"])} if job["what"] == "scale" else job


@functools.cache
def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="pucboost-scale-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.lru_cache(maxsize=1)  # one table is kept: the next one takes its place in the folder
def _draw(n: int, r: int, run: int) -> str:
    family = LogisticFamily.random(COLUMNS - r, r, FAMILY_SEED)
    folder = Path(_folder())
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, COLUMNS))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (n,))
    for number, start in enumerate(range(0, n, CHUNK)):
        part = family.sample(min(CHUNK, n - start), 1_000 * (1 + run) + number)
        X[start : start + CHUNK], y[start : start + CHUNK] = part.X, part.y
    return str(folder)


# --- what a process does --------------------------------------------------------------------------------------------


def scale_job(job: dict[str, Any]) -> Row:
    """Train on a drawn table and compare with the truth."""
    X, y = np.load(Path(job["folder"], "X.npy")), np.load(Path(job["folder"], "y.npy"))
    family = LogisticFamily.random(COLUMNS - job["r"], job["r"], FAMILY_SEED)
    booster, row = Training.of(job, family.optional).measure(X, y)
    test = family.sample(TEST_PEOPLE, 1_000_000 + job["run"]).X
    return {**row, "gap": 1e4 * squared_puc_gap(predict_booster(booster, test), family, test)}


def policy_job(job: dict[str, Any]) -> Row:
    """Train on four fifths of the policies and look at the others."""
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
    row |= {"people": len(train)} | _balance(predicted, claims[test], exposure[test], withheld)
    if job["audited"]:
        audited = order[: min(AUDITED, len(test))]  # at random: the file's first policies have more claims
        row |= _audit(predict, X.iloc[audited], claims[audited], exposure[audited])
    return row


@functools.lru_cache(maxsize=1)
def _policies(quick: bool) -> tuple[pd.DataFrame, Array, Array]:
    """Return the table, the claims and the years of exposure."""
    raw = data.read(POLICIES, quick)
    claims = np.minimum(raw["ClaimNb"].to_numpy(np.float64), MOST_CLAIMS)
    exposure = np.minimum(raw["Exposure"].to_numpy(np.float64), 1.0)
    columns = raw.drop(columns=["IDpol", "ClaimNb", "Exposure"])
    words = {name: columns[name].astype(str).astype("category") for name in POLICY_WORDS if name in columns}
    numbers = {name: columns[name].astype(np.float32) for name in columns if name not in words}
    return pd.DataFrame({name: words.get(name, numbers.get(name)) for name in columns}), claims, exposure


def _balance(predicted: Array, claims: Array, exposure: Array, withheld: Array) -> Row:
    """Return the Poisson deviance per year, and predicted to observed claims of those who withhold something or not."""
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


_JOBS: dict[str, Callable[[dict[str, Any]], Row]] = {"scale": scale_job, "freMTPL2": policy_job}


# --- training, with a watch -----------------------------------------------------------------------------------------


class Watch:
    """Takes the time of a training and of its parts, with both engines and with or without consent.

    ``plan``: reading consent, planning copies, and the summary at the end; ``stream``: computing masks and gathering
    masked rows, as often as the engine reads them; ``binning``: the rest up to the first tree; ``boosting``: the trees.
    """

    def __init__(self) -> None:
        self.stream = 0.0
        self.moments: dict[str, float] = {}

    def callback(self, engine: str) -> Any:
        """Return what tells the watch, called by the engine, that the first tree begins."""
        return _LightGBMStart(self) if engine == "LightGBM" else _XGBoostStart(self)

    def mark(self, moment: str) -> None:
        """Remember when something happened first."""
        self.moments.setdefault(moment, time.perf_counter())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch what is trained inside."""
        with ExitStack() as stack:
            for name in ("read_into", "take"):
                stack.enter_context(patch.object(MaskedRows, name, self._adding(getattr(MaskedRows, name))))
            stack.enter_context(patch.object(TrainingJob, "training_rows", self._then(TrainingJob.training_rows)))
            stack.enter_context(patch.object(TrainingJob, "finish", self._before(TrainingJob.finish)))
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

    def _then(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def marked(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self.mark("planned")
            return result

        return marked

    def _before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def marked(*args: Any, **kwargs: Any) -> Any:
            self.mark("boosted")
            return function(*args, **kwargs)

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
            people = puc.Dataset(X, y, weight=weight)
            return puc.train({**params, **consent, **changed}, people, rounds, callbacks=callbacks)
        if self.engine == "LightGBM":
            return lgb.train(params, lgb.Dataset(X, y, weight=weight), rounds, callbacks=callbacks)
        matrix = xgb.QuantileDMatrix(X, y, weight=weight, nthread=THREADS, enable_categorical=True)
        with xgb.config_context():  # the verbosity of one call is not that of the next
            return xgb.train(params, matrix, rounds, callbacks=callbacks)

    def measure(self, X: Any, y: Array, weight: Array | None = None) -> tuple[Any, Row]:
        """Train after a warm-up on a few rows; return the booster, and times and peak memory beyond the table."""
        few = slice(0, WARM_UP_ROWS)
        first = X.iloc[few] if isinstance(X, pd.DataFrame) else X[few]
        # With one copy a row even a small table takes the path of a large one.
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


STUDY = Study("scale", units, table, figure, in_short, alone=True)
