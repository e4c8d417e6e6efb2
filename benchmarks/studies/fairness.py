"""Other notions of fairness beside Protected User Consent: which of them treat people as their data justify.

The paper's introductory family (two base features, one optional). Unawareness trains on the table with withheld values
set to 0 and no indicator; statistical parity and equalised odds are enforced between sharers and non-sharers by
fairlearn's ExponentiatedGradient on the same table; consent is trained on all virtual rows, with an indicator.

ExponentiatedGradient returns a lottery over classifiers. Its "decision" is the probability that the lottery says 1,
which the constraint binds and which parity and odds are measured on; its "probability" is the average of the
classifiers' own probabilities under the same lottery, which can be calibrated. Both are kept, so that the shift of a
method does not come from thresholds alone. The other methods decide by a threshold at one half.
"""

from __future__ import annotations

import functools
import importlib.util
import statistics
import time
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score

import pucboost as puc
from benchmarks import models
from benchmarks.harness.measuring import by, plus_minus, values
from benchmarks.harness.study import THREADS, Array, Row, Rows, Study, Table, Unit, part_of
from pucboost.simulate import LogisticFamily

MODELS = ("Random Forest", "LightGBM")
UNAWARE, PARITY, ODDS, CONSENT = "unawareness", "statistical parity", "equalized odds", "PUC"
METHODS = (UNAWARE, PARITY, ODDS, CONSENT)
PEOPLE, TEST_PEOPLE, BINS, ITERATIONS, RUNS = 4_000, 20_000, 10, 10, 3
GROUPS = ("sharers", "non-sharers")


def learner(model: str, seed: int, quick: bool) -> Any:
    """Return an untrained classifier; the forest has the paper's default parameters."""
    if model == "Random Forest":
        return models.scikit_model(model, True, seed, {"n_estimators": 10, "n_jobs": 1} if quick else {})
    return lgb.LGBMClassifier(
        num_leaves=15, learning_rate=0.05, n_estimators=20 if quick else 200, verbosity=-1, n_jobs=THREADS,
        random_state=seed, force_row_wise=True,
    )  # fmt: skip


def has_fairlearn() -> bool:
    """Return whether fairlearn is installed."""
    return importlib.util.find_spec("fairlearn") is not None


def _constrained(model: Any, method: str, X: Array, y: Array, shares: Array, new: Array, rounds: int) -> Any:
    """Return decisions and probabilities for new rows under one of fairlearn's constraints."""
    if not has_fairlearn():
        raise ModuleNotFoundError('This study needs fairlearn: pip install "pucboost[bench]"')
    from fairlearn.reductions import DemographicParity, EqualizedOdds, ExponentiatedGradient

    constraint = DemographicParity() if method == PARITY else EqualizedOdds()
    reduction = ExponentiatedGradient(model, constraint, max_iter=rounds)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", category=DeprecationWarning, module="fairlearn"
        )  # its use of pandas is being deprecated
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        reduction.fit(X, y, sensitive_features=shares)
        decision = np.asarray(reduction._pmf_predict(new))[:, 1]
        lottery = [(w, h) for w, h in zip(reduction.weights_, reduction.predictors_, strict=True) if w > 0]
        probability = sum(w * models.predict_scikit(h, new) for w, h in lottery)
    return decision, probability


def predict(model: str, method: str, people: Any, X: Array, seed: int, quick: bool) -> tuple[Array, Array]:
    """Return decisions and probabilities of a method for new rows."""
    optional = LogisticFamily.teaser().optional
    estimator, filled, new = learner(model, seed, quick), np.nan_to_num(people.X), np.nan_to_num(X)
    shares = people.available[:, 0]
    if method in (PARITY, ODDS):
        return _constrained(estimator, method, filled, people.y, shares, new, 5 if quick else ITERATIONS)
    y = people.y
    if method == CONSENT:
        filled, y, _, _ = puc.augment(
            people.X, y, optional=optional, augmentation="exhaustive", fill_value=0.0, indicators=True, seed=seed
        )
        new = np.hstack([new, ~np.isnan(X[:, optional])])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        probability = models.predict_scikit(estimator.fit(filled, y), new)
    return (probability > 0.5).astype(float), probability


def measure(model: str, method: str, seed: int, quick: bool) -> list[Row]:
    """Return measures of each group and the points of its calibration curve."""
    family = LogisticFamily.teaser()
    people, test = (
        family.sample(500 if quick else PEOPLE, seed),
        family.sample(2_000 if quick else TEST_PEOPLE, 1_000_000 + seed),
    )
    start = time.perf_counter()
    decision, probability = predict(model, method, people, test.X, seed, quick)
    seconds = time.perf_counter() - start
    truth, shares = family.puc_prediction(test.X), test.available[:, 0]
    rates = [decision[shares].mean() - decision[~shares].mean()]
    rates += [decision[shares & (test.y == k)].mean() - decision[~shares & (test.y == k)].mean() for k in (0, 1)]
    overall = {
        "parity difference": rates[0], "odds difference": max(abs(rates[1]), abs(rates[2])),
        "AUC": roc_auc_score(test.y, probability), "accuracy": float(np.mean((decision > 0.5) == (test.y > 0.5))),
        "seconds": seconds,
    }  # fmt: skip
    rows: list[Row] = []
    for group, those in zip(GROUPS, (shares, ~shares), strict=True):
        f, d, t = probability[those], decision[those], truth[those]
        place = np.minimum((t * BINS).astype(int), BINS - 1)
        points = [(b, t[place == b].mean(), f[place == b].mean(), int((place == b).sum())) for b in np.unique(place)]
        off = float(np.mean([abs(y - x) for _, x, y, _ in points]))
        rows.append({"what": "measure", "group": group, "shift": 100 * (f - t).mean(), "calibration error": 100 * off,
                     "gap": np.mean((f - t) ** 2), "decision shift": 100 * (d - t).mean(),
                     "decision gap": np.mean((d - t) ** 2), **overall})  # fmt: skip
        rows += [{"what": "curve", "group": group, "bin": int(b), "x": x, "y": y, "people": n} for b, x, y, n in points]
    return rows


def units(quick: bool) -> list[Unit]:
    """Return a unit for each model, method and run; a quick run does without fairlearn where it is not installed."""
    methods = METHODS if has_fairlearn() or not quick else (UNAWARE, CONSENT)
    return [
        Unit({"model": model, "method": method, "seed": seed}, functools.partial(measure, model, method, seed, quick))
        for model in MODELS
        for method in methods
        for seed in range(1 if quick else RUNS)
    ]


_REMARKS = {
    ("Random Forest", ODDS): "no effect: likely because the fully grown forest already has equal odds on its own "
    "training data, so the constraint does not bind (the paper reports an improvement)",
}


def table(rows: Rows) -> Table:
    """Return measures by model, method and group."""
    columns = ["model", "method", "group", "mean shift, points", "calibration error, points", "squared PUC-gap ×10⁴",
               "parity difference", "odds difference", "AUC", "decisions: mean shift, points", "seconds",
               "remark"]  # fmt: skip
    lines = []
    measures = [row for row in rows if row["what"] == "measure"]
    for (model, method, group), those in by(measures, "model", "method", "group").items():
        lines.append([
            model, method, group, plus_minus(values(those, "shift"), 1, sign=True),
            plus_minus(values(those, "calibration error"), 1), plus_minus([1e4 * g for g in values(those, "gap")], 0),
            plus_minus(values(those, "parity difference"), 3, sign=True),
            plus_minus(values(those, "odds difference"), 3), plus_minus(values(those, "AUC"), 3),
            plus_minus(values(those, "decision shift"), 1, sign=True), plus_minus(values(those, "seconds"), 1),
            _REMARKS.get((model, method), ""),
        ])  # fmt: skip
    return columns, lines


def figure(rows: Rows) -> Any:
    """Draw calibration with respect to the data provided: a row of panels for each model."""
    drawing = Figure(figsize=(11, 6), layout="constrained")
    panels = drawing.subplots(len(MODELS), len(METHODS), sharex=True, sharey=True)
    curves = [row for row in rows if row["what"] == "curve"]
    for line, model in zip(panels, MODELS, strict=True):
        for axes, method in zip(line, METHODS, strict=True):
            axes.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--")
            for group, colour, marker in zip(GROUPS, ("#0072B2", "#D55E00"), "os", strict=True):
                those = [r for r in curves if (r["model"], r["method"], r["group"]) == (model, method, group)]
                mean = [[statistics.fmean(values(p, c)) for p in by(those, "bin").values()] for c in ("x", "y")]
                order = np.argsort(mean[0])
                axes.plot(*(np.array(m)[order] for m in mean), color=colour, marker=marker, markersize=4, label=group)
            axes.set(title=f"{model}: {method}" if method != CONSENT else f"{model}: PUC (ours)", aspect="equal")
            axes.title.set_fontsize(9)
    for axes in panels[-1]:
        axes.set_xlabel("truth given what was provided")
    for axes in panels[:, 0]:
        axes.set_ylabel("mean predicted probability")
    panels[0, 0].legend(fontsize=8, loc="upper left")
    return drawing


PAGE = part_of(
    table, "model", "method", "group", "mean shift, points", "calibration error, points", "squared PUC-gap ×10⁴",
    "parity difference", "odds difference", "AUC",
)  # fmt: skip
STUDY = Study("fairness", units, table, figure, PAGE)
