"""Training under consent beside plain training by other packages, and quotes beside compiled trees.

All train on the same people: 100 trees of at most 31 leaves, rate 0.1, one thread, all else as the package has it. What
that means for each stands at its function. Their CPU time is compared with that of plain ``lgb.train``, in turns. The
simulated people are new in every turn; of these the truth is known. Packages that are not installed are left out.
"""

from __future__ import annotations

import importlib.metadata
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
from threadpoolctl import threadpool_limits

import pucboost as puc
from benchmarks.data import insurance_like
from benchmarks.harness.measuring import median_ratio, peak_memory, standard_error
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit
from benchmarks.studies import everyday
from pucboost.demo import insurance_family

SIMULATED, NOISE = "simulated", 15
TABLES = (SIMULATED, "adult")
PLAIN = "LightGBM"
ROUNDS, LEAVES, RATE = 100, 31, 0.1
Predict = Callable[[Array], Any]


class People(NamedTuple):
    """A table of numbers (categories are their codes, for all), the label, and what is optional."""

    X: Array
    y: Array
    optional: list[int]


def people(name: str, seed: int, quick: bool) -> People:
    """Return a table partly withheld."""
    if name != SIMULATED:
        X, y, optional, _ = everyday.table(name, quick)
        codes = {column: X[column].cat.codes.where(X[column].notna()) for column in X.select_dtypes("category")}
        X = X.assign(**codes)
        return People(X.to_numpy(np.float64), y, [X.columns.get_loc(column) for column in optional])
    family, n = insurance_family(), 500 if quick else 20_000
    sample = family.sample(n, seed)
    noise = np.random.default_rng([seed, 1]).standard_normal((n, NOISE))
    return People(np.column_stack([sample.X, noise]), sample.y, list(family.optional))


# Who trains: each returns what predicts probabilities


def by_pucboost(engine: str) -> Callable[[People, int], Predict]:
    """Under consent, the number of copies as by default."""

    def fit(given: People, rounds: int) -> Predict:
        params = {**_LIGHTGBM, "engine": engine, "optional": given.optional}
        booster = puc.train(params, lgb.Dataset(given.X, given.y), rounds)
        return lambda X: puc.predict(booster, X, num_threads=1)

    return fit


_LIGHTGBM = {
    "objective": "binary", "num_leaves": LEAVES, "learning_rate": RATE, "num_threads": 1, "verbosity": -1, "seed": 0,
}  # fmt: skip


def by_lightgbm(**more: Any) -> Callable[[People, int], Predict]:
    """Plain training."""

    def fit(given: People, rounds: int) -> Predict:
        return lgb.train({**_LIGHTGBM, **more}, lgb.Dataset(given.X, given.y), rounds).predict

    return fit


def by_xgboost(given: People, rounds: int) -> Predict:
    """Histograms, leaf by leaf."""
    import xgboost as xgb

    params = {
        "objective": "binary:logistic", "tree_method": "hist", "grow_policy": "lossguide", "max_leaves": LEAVES,
        "max_depth": 0, "eta": RATE, "nthread": 1, "verbosity": 0,
    }  # fmt: skip
    booster = xgb.train(params, xgb.QuantileDMatrix(given.X, given.y, nthread=1), rounds)
    return lambda X: booster.predict(xgb.DMatrix(X, nthread=1))


def by_scikit_learn(given: People, rounds: int) -> Predict:
    """Without early stopping, which is the default above 10,000 rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=rounds, max_leaf_nodes=LEAVES, learning_rate=RATE, early_stopping=False
    ).fit(given.X, given.y)
    return lambda X: model.predict_proba(X)[:, 1]


def by_catboost(**policy: Any) -> Callable[[People, int], Predict]:
    """Leaf by leaf, or its own symmetric trees with 32 leaves."""

    def fit(given: People, rounds: int) -> Predict:
        import catboost

        model = catboost.CatBoostClassifier(
            iterations=rounds, learning_rate=RATE, thread_count=1, verbose=False, allow_writing_files=False, **policy
        ).fit(given.X, given.y)
        return lambda X: model.predict_proba(X, thread_count=1)[:, 1]

    return fit


def by_ydf(given: People, rounds: int) -> Predict:
    """Best leaf first, with 255 bins; without its own validation and early stopping. Missing values become means."""
    import ydf

    ydf.verbose(0)
    learner = ydf.GradientBoostedTreesLearner(
        label="y", task=ydf.Task.CLASSIFICATION, num_trees=rounds, shrinkage=RATE, num_threads=1,
        growing_strategy="BEST_FIRST_GLOBAL", max_num_nodes=2 * LEAVES - 1, discretize_numerical_columns=True,
        num_discretized_numerical_bins=255, validation_ratio=0.0, early_stopping="NONE",
    )  # fmt: skip
    model = learner.train({**_columns(given.X), "y": given.y.astype(int)})
    return lambda X: model.predict(_columns(X))


def _columns(X: Array) -> dict[str, Array]:
    return {f"x{j}": X[:, j].astype(np.float32) for j in range(X.shape[1])}


def by_perpetual(given: People, rounds: int) -> Predict:
    """Chooses its rate and its trees itself, within its default budget: at most this many."""
    import perpetual

    model = perpetual.PerpetualBooster(objective="LogLoss", iteration_limit=rounds, num_threads=1)
    model.fit(given.X, given.y)
    return lambda X: model.predict_proba(X)[:, 1]


def by_chimeraboost(given: People, rounds: int) -> Predict:
    """Symmetric trees with 32 leaves, without its own validation and early stopping."""
    import chimeraboost

    model = chimeraboost.ChimeraBoostClassifier(
        n_estimators=rounds, learning_rate=RATE, depth=5, thread_count=1, early_stopping=False, random_state=0
    ).fit(given.X, given.y)
    return lambda X: model.predict_proba(X)[:, 1]


CONTESTANTS: dict[str, tuple[str, Callable[[People, int], Predict]]] = {
    "pucboost, under consent": ("pucboost", by_pucboost("auto")),
    "the same by LightGBM": ("pucboost", by_pucboost("lightgbm")),
    PLAIN: ("lightgbm", by_lightgbm()),
    "LightGBM, quantised": ("lightgbm", by_lightgbm(use_quantized_grad=True)),
    "XGBoost": ("xgboost", by_xgboost),
    "scikit-learn": ("scikit-learn", by_scikit_learn),
    "CatBoost, by leaf": ("catboost", by_catboost(grow_policy="Lossguide", max_leaves=LEAVES)),
    "CatBoost, symmetric": ("catboost", by_catboost(depth=5)),
    "YDF": ("ydf", by_ydf),
    "Perpetual": ("perpetual", by_perpetual),
    "ChimeraBoost": ("chimeraboost", by_chimeraboost),
}
"""Package, and how it trains."""


class CannotRunError(Exception):
    """A contestant cannot take part here."""


def version(package: str) -> str:
    """Return the version of a package that can take part."""
    if package == "pucboost":
        return puc.__version__
    try:
        found = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise CannotRunError("not installed") from None
    llvmlite = importlib.metadata.version("llvmlite")
    if package == "lleaves" and int(llvmlite.split(".")[1]) > 44:
        raise CannotRunError(f"{found}: does not run with numba's llvmlite {llvmlite}")
    return found


# Training


def units(quick: bool) -> Iterable[Unit]:
    """List one unit for each table and contestant."""
    for name in TABLES[: 1 if quick else None]:
        for contestant in CONTESTANTS:
            key = {"table": name, "who": contestant}
            yield Unit(key, lambda n=name, c=contestant: measure(n, c, quick))  # type: ignore[misc]


def measure(name: str, who: str, quick: bool) -> list[Row]:
    """Train a contestant and plain LightGBM in turns; on simulated people, compare with the truth."""
    package, fit = CONTESTANTS[who]
    try:
        found: Row = {"version": version(package)}
    except CannotRunError as error:
        return [{"version": str(error)}]
    rounds, turns = (3, 2) if quick else (ROUNDS, 3)
    taken: dict[str, list[float]] = {"who": [], "plain": []}
    shifts, gaps = [], []
    fit(people(name, 0, True), 1)  # compiles, and loads what is loaded on first use
    for seed in range(turns):
        given = people(name, seed, quick)
        with threadpool_limits(1):
            for job, train in (("who", fit), ("plain", CONTESTANTS[PLAIN][1])):
                start = time.process_time()
                predict = train(given, rounds)
                taken[job].append(time.process_time() - start)
                if job == "who" and name == SIMULATED:
                    shift, gap = beside_truth(predict, seed, quick)
                    shifts.append(shift)
                    gaps.append(gap)
    ratios = [mine / plain for mine, plain in zip(taken["who"], taken["plain"], strict=True)]
    found |= {"people": len(given.y), "columns": given.X.shape[1], "× LightGBM": f"{statistics.median(ratios):.2f}"}
    found |= {"lowest": f"{min(ratios):.2f}", "highest": f"{max(ratios):.2f}"}
    found |= {"s": f"{statistics.median(taken['who']):.3g}"}
    if shifts:
        # In a process of its own: what a package keeps of earlier trainings would hide what it needs.
        with get_context("spawn").Pool(1) as pool:
            found |= {"MB": f"{pool.apply(peak, (name, who, rounds, quick)):.0f}"}
        found |= {"silent, points": f"{statistics.fmean(shifts):+.1f}", "its error": f"{standard_error(shifts):.1f}"}
        found |= {"distance, points": f"{statistics.fmean(gaps):.1f}"}
    return [found]


def peak(name: str, who: str, rounds: int, quick: bool) -> float:
    """Return by how many MB training raises the memory of this process."""
    fit = CONTESTANTS[who][1]
    fit(people(name, 0, True), 1)
    given = people(name, 0, quick)
    with threadpool_limits(1):
        return peak_memory(lambda: fit(given, rounds))


def beside_truth(predict: Predict, seed: int, quick: bool) -> tuple[float, float]:
    """Return how far those who share nothing are shifted, and the root mean square for all, in points of 100."""
    family, n = insurance_family(), 500 if quick else 30_000
    sample = family.sample(n, 1_000 + seed)
    noise = np.random.default_rng([seed, 2]).standard_normal((n, NOISE))
    wrong = np.asarray(predict(np.column_stack([sample.X, noise])), dtype=np.float64).ravel()
    wrong = 100 * (wrong - family.puc_prediction(sample.X))
    silent = ~sample.available.any(axis=1)
    return float(wrong[silent].mean()), float(np.sqrt((wrong**2).mean()))


def table(rows: Rows) -> Table:
    """Return a line for each contestant: time on all tables, memory and the truth on simulated people."""
    found = {(row["table"], row["who"]): row for row in rows}
    sizes = {row["table"]: f"{int(row['people']):,} × {row['columns']}" for row in rows if row.get("people")}
    columns = [
        "trained by",
        *(f"{name} ({sizes.get(name, '–')})" for name in TABLES),
        "MB",
        "silent, points",
        "distance, points",
    ]
    lines = []
    for who in CONTESTANTS:
        truth = found[SIMULATED, who]
        times = [found.get((name, who), {}).get("× LightGBM") or "–" for name in TABLES]
        line = [f"{who} {truth['version']}", *times, truth.get("MB") or "–"]
        shift = truth.get("silent, points")
        lines.append([*line, f"{shift} ± {truth['its error']}" if shift else "–", truth.get("distance, points") or "–"])
    return columns, lines


# Quotes


def quote_units(quick: bool) -> Iterable[Unit]:
    """List one unit for each way to predict masked rows."""
    for who in QUOTING:
        yield Unit({"who": who}, lambda w=who: measure_quotes(w, quick))  # type: ignore[misc]


def measure_quotes(who: str, quick: bool) -> list[Row]:
    """Predict the same masked rows by LightGBM and by another in turns."""
    package, prepare = QUOTING[who]
    try:
        found: Row = {"version": version(package)}
    except CannotRunError as error:
        return [{"version": str(error)}]
    n, rounds, turns = (300, 5, 2) if quick else (5_000, ROUNDS, 5)
    X, y, optional = insurance_like(n, 14, 6)
    booster = puc.train({**_LIGHTGBM, "optional": optional}, lgb.Dataset(X, y), rounds)
    masked, *_ = puc.augment(X, y, optional=optional, augmentation="exhaustive")
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        start = sum(os.times()[:4])  # of this process and of compilers that it starts
        predict = prepare(booster, Path(folder), X, masked)
        prepared = sum(os.times()[:4]) - start
        wanted = booster.predict(masked, num_threads=1)
        told = np.asarray(predict()).ravel()
        told = told[~np.isnan(told)]  # a quote has no number for what somebody does not share
        assert told.size == wanted.size
        apart = np.abs(np.sort(told) - np.sort(wanted)).max()
        taken: dict[str, list[float]] = {"who": [], "plain": []}
        for _ in range(turns):
            for job, run in (("who", predict), ("plain", lambda: booster.predict(masked, num_threads=1))):
                start = time.process_time()
                run()
                taken[job].append(time.process_time() - start)
    ratio = median_ratio(taken["who"], taken["plain"])
    found |= {"people": n, "predictions": len(masked), "× LightGBM": f"{ratio:.3f}"}
    found |= {"s": f"{statistics.median(taken['who']):.3g}", "prepared, s": f"{prepared:.2g}"}
    return [{**found, "largest difference": f"{apart:.0e}"}]


def quoted(booster: Any, folder: Path, X: Array, masked: Array) -> Callable[[], Any]:
    """From the people as they are: nobody makes masked rows."""
    return lambda: np.asarray(puc.quote(booster, X, num_threads=1))


def by_engine(booster: Any, folder: Path, X: Array, masked: Array) -> Callable[[], Any]:
    """LightGBM itself."""
    return lambda: booster.predict(masked, num_threads=1)


def by_lleaves(booster: Any, folder: Path, X: Array, masked: Array) -> Callable[[], Any]:
    """Compiled by LLVM."""
    import lleaves

    booster.save_model(folder / "model.txt")
    model = lleaves.Model(model_file=str(folder / "model.txt"))
    model.compile()
    return lambda: model.predict(masked, n_jobs=1)


def by_tl2cgen(booster: Any, folder: Path, X: Array, masked: Array) -> Callable[[], Any]:
    """Treelite's C code, compiled by gcc."""
    import tl2cgen
    import treelite

    booster.save_model(folder / "model.txt")
    model = treelite.frontend.load_lightgbm_model(str(folder / "model.txt"))
    tl2cgen.export_lib(model, toolchain="gcc", libpath=str(folder / "model.so"), params={})
    predictor, rows = tl2cgen.Predictor(str(folder / "model.so"), nthread=1), tl2cgen.DMatrix(masked)
    return lambda: predictor.predict(rows)


def by_treelite(booster: Any, folder: Path, X: Array, masked: Array) -> Callable[[], Any]:
    """Treelite's interpreter."""
    import treelite

    booster.save_model(folder / "model.txt")
    model = treelite.frontend.load_lightgbm_model(str(folder / "model.txt"))
    return lambda: treelite.gtil.predict(model, masked, nthread=1)


def by_onnx(booster: Any, folder: Path, X: Array, masked: Array) -> Callable[[], Any]:
    """ONNX Runtime on the model that onnxmltools converts; thresholds become float32."""
    import onnxmltools
    import onnxruntime
    from onnxmltools.convert.common.data_types import FloatTensorType

    given = [("X", FloatTensorType([None, masked.shape[1]]))]
    onnx = onnxmltools.convert_lightgbm(booster, initial_types=given, zipmap=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"X": masked})[1][:, 1]


QUOTING: dict[str, tuple[str, Callable[[Any, Path, Array, Array], Callable[[], Any]]]] = {
    "puc.quote": ("pucboost", quoted),
    "LightGBM": ("lightgbm", by_engine),
    "lleaves": ("lleaves", by_lleaves),
    "treelite, compiled": ("tl2cgen", by_tl2cgen),
    "treelite, interpreted": ("treelite", by_treelite),
    "ONNX Runtime": ("onnxruntime", by_onnx),
}
"""Package, and what makes it ready: the function that is measured."""


def quote_table(rows: Rows) -> Table:
    """Return a line for each way."""
    shown = ("× LightGBM", "s", "prepared, s", "largest difference")
    lines = []
    for row in rows:
        numbers = [row.get(column) and f"{float(row[column]):.3g}" for column in shown]
        lines.append([f"{row['who']} {row['version']}", *(number or "–" for number in numbers)])
    return ["predicted by", *shown], lines


STUDY = Study("duel", units, table, alone=True, seed="0 to 2")
QUOTES_STUDY = Study("duel_quotes", quote_units, quote_table, alone=True, seed="0")
