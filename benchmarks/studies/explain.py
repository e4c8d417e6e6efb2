"""Reasons: how fast, beside shap's interventional values, and how often plain SHAP values cite what is withheld.

CPU time: the same people, all of whom share everything, the same 100 people to compare with, one thread, in turn; all
that a call does counts, reading the trees included.

Silence: people who withhold something, held out; the four columns that moved a score most in the unfavourable
direction, by SHAP values of a plain model (LightGBM's own, which are those of ``shap.TreeExplainer(model)``), by SHAP
values of ours, and by ``puc.explain``.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable
from typing import Any

import lightgbm as lgb
import numpy as np

import pucboost as puc
from benchmarks.harness.measuring import median_ratio
from benchmarks.harness.study import Array, Row, Rows, Table, Unit

from .everyday import OPTIONAL, table

MODELS: dict[str, tuple[str, dict[str, Any], int, int]] = {
    "native, 12 columns, 31 leaves": ("native", {"num_leaves": 31}, 12, 1_000),
    "lightgbm, 12 columns, 31 leaves": ("lightgbm", {"num_leaves": 31}, 12, 1_000),
    "xgboost, 12 columns, depth 6": (
        "xgboost",
        {"max_depth": 6, "max_leaves": 0, "grow_policy": "depthwise"},
        12,
        1_000,
    ),
    "lightgbm, 40 columns, 127 leaves": ("lightgbm", {"num_leaves": 127}, 40, 300),
    "lightgbm, 12 columns, 31 leaves, one person": ("lightgbm", {"num_leaves": 31}, 12, 1),
}
"""Engine, trees, columns and people of each comparison; 100 trees."""
BACKGROUND = 100

FAVOURABLE = {"adult": "higher", "income": "higher", "give_me_some_credit": "lower", "freMTPL2freq": "lower"}
TRAINED, EXPLAINED, TOP = 40_000, 4_000, 4


def units(quick: bool) -> Iterable[Unit]:
    """List one unit for each model whose explanation is timed, and for each table."""
    for name in list(MODELS)[:: 4 if quick else 1]:
        yield Unit({"what": f"CPU seconds: {name}"}, lambda n=name: speed(n, quick))  # type: ignore[misc]
    for name in list(OPTIONAL)[: 1 if quick else None]:
        yield Unit({"what": f"cites silence: {name}"}, lambda n=name: silence(n, quick))  # type: ignore[misc]


def speed(name: str, quick: bool) -> list[Row]:
    """Explain the same people by shap and by ours, in turn."""
    import shap

    engine, trees, n_columns, n_people = MODELS[name]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, n_columns))
    y = X[:, :5].sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=len(X))
    shown = X.copy()
    shown[:, -3:][rng.random((len(X), 3)) < 0.4] = np.nan
    optional = list(range(n_columns - 3, n_columns))
    params = {"engine": engine, "objective": "regression", "num_threads": 1, "verbosity": -1, "optional": optional}
    model = puc.train({**params, **trees}, puc.Dataset(shown, y), 5 if quick else 100)
    people, background = X[: min(n_people, 20 if quick else n_people)], X[-BACKGROUND:]

    def by_shap() -> Any:
        explainer = shap.TreeExplainer(
            model, data=background, feature_perturbation="interventional", model_output="raw"
        )
        return explainer.shap_values(people, check_additivity=False)

    def by_explain() -> Any:
        return puc.explain(model, people, background, max_samples=None, num_threads=1).values

    times: dict[str, list[float]] = {"shap": [], "explain": []}
    for turn in range(2 if quick else 6):
        for job, run in (("shap", by_shap), ("explain", by_explain)):
            start = time.process_time()
            run()
            if turn:  # the first is warm-up
                times[job].append(time.process_time() - start)
    seconds = {job: f"{statistics.median(taken):.3g}" for job, taken in times.items()}
    ratio = median_ratio(times["shap"], times["explain"])
    apart = float(np.abs(by_shap() - by_explain()).max())
    return [{"shap": seconds["shap"], "explain": seconds["explain"], "ratio": f"{ratio:.3g}", "apart": f"{apart:.0e}"}]


def silence(name: str, quick: bool) -> list[Row]:
    """Count people with a withheld column among their four principal reasons."""
    X, y, optional, objective = table(name, quick)
    order = np.random.default_rng(0).permutation(len(y))
    held_out, trained = order[:EXPLAINED], order[EXPLAINED : EXPLAINED + TRAINED]
    if quick:
        held_out, trained = order[:200], order[200:]
    people, background = X.iloc[held_out].reset_index(drop=True), X.iloc[trained].reset_index(drop=True)
    people = people[people[optional].isna().any(axis=1)].reset_index(drop=True)
    params = {**objective, "num_threads": 1, "verbosity": -1}
    rounds = 5 if quick else 200
    plain = lgb.train(params, lgb.Dataset(background, y[trained]), rounds)
    model = puc.train({**params, "optional": optional}, lgb.Dataset(background, y[trained]), rounds)
    withheld = people.isna().to_numpy() & people.columns.isin(optional)
    sign = 1.0 if FAVOURABLE[name] == "lower" else -1.0
    of_columns = slice(0, people.shape[1])
    values = {
        "plain": plain.predict(people, pred_contrib=True)[:, of_columns],
        "shap": puc.predict(model, people, pred_contrib=True, num_threads=1)[:, of_columns],
        "explain": puc.explain(model, people, background, num_threads=1).values,
    }
    found = {by: cites(sign * np.asarray(moved), withheld) for by, moved in values.items()}
    return [{"people": len(people), **{by: with_error(cited) for by, cited in found.items()}}]


def cites(against: Array, withheld: Array) -> Array:
    """Return for whom a withheld column is among the four that moved the score most in the unfavourable direction."""
    most = np.argsort(-against, axis=1)[:, :TOP]
    moved = np.take_along_axis(against, most, axis=1) > 1e-9
    return np.asarray((moved & np.take_along_axis(withheld, most, axis=1)).any(axis=1))


def with_error(cited: Array) -> str:
    """Return a share in percent with its standard error."""
    share = float(cited.mean())
    return f"{100 * share:.1f} ± {100 * math.sqrt(share * (1 - share) / len(cited)):.1f}" if share else "0"


def page(rows: Rows) -> Table:
    """Return seconds and times as fast, then who gets silence as a reason, in percent."""
    lines = []
    for row in rows:
        people = f" ({int(row['people']):,} people)" if row.get("people") else ""
        cells = [row.get(column) or "–" for column in ("plain", "shap", "explain", "ratio", "apart")]
        lines.append([f"{row['what']}{people}", *cells])
    return ["what", "plain model, SHAP", "our model, SHAP", "our model, explain", "times as fast", "apart"], lines
