"""What anchoring costs: the squared PUC-gap of a model anchored on its own base model, beside the unanchored model."""

from __future__ import annotations

import statistics
from typing import Any

import xgboost as xgb

import pucboost as puc
from benchmarks.harness.study import Row
from pucboost.simulate import LogisticFamily, squared_puc_gap

ENGINES: dict[str, dict[str, Any]] = {
    "lightgbm": {"objective": "binary", "verbosity": -1, "num_threads": 2, "force_row_wise": True},
    "xgboost": {"objective": "binary:logistic", "verbosity": 0, "nthread": 2},
}

SIZES: dict[str, dict[str, dict[str, int]]] = {
    "lightgbm": {"8 leaves": {"num_leaves": 8}, "31 leaves": {"num_leaves": 31}},
    "xgboost": {"depth 3": {"max_depth": 3}, "depth 6": {"max_depth": 6}},
}


def study(quick: bool) -> list[Row]:
    """Train with and without anchor; early stopping on augmented validation data chooses the rounds."""
    n_rows, seeds, groups = (2_000, range(1), (1,)) if quick else (12_000, range(4), (1, 3, 6))
    rows: list[Row] = []
    for engine, common in ENGINES.items():
        for size, tree in SIZES[engine].items():
            for r in groups:
                params = {**common, **tree, "engine": engine, "learning_rate": 0.05, "early_stopping_round": 20}
                gaps = [_gaps(params, r, seed, n_rows) for seed in seeds]
                ratio = statistics.mean(anchored / free for free, anchored in gaps)
                rows.append(
                    {
                        "engine": engine,
                        "trees": size,
                        "r": str(r),
                        "squared PUC-gap ×10⁴, unanchored": f"{1e4 * statistics.mean(free for free, _ in gaps):.1f}",
                        "anchored": f"{1e4 * statistics.mean(anchored for _, anchored in gaps):.1f}",
                        "mean ratio": f"{ratio:.2f}",
                        "target": "≤ 1.2",
                    }
                )
    return rows


def _gaps(params: dict[str, Any], r: int, seed: int, n_rows: int) -> tuple[float, float]:
    family = LogisticFamily.random(3, r, seed=r + 100 * seed)
    train, valid, test = (family.sample(n, seed=s + 10 * seed) for n, s in ((n_rows, 5), (n_rows // 2, 6), (10_000, 7)))
    data = {"train_set": puc.Dataset(train.X, train.y), "valid_sets": [puc.Dataset(valid.X, valid.y)]}
    own = {**params, "optional": family.optional}
    free = puc.train(own, num_boost_round=600, **data)
    anchored = puc.train({**own, "anchor": "base"}, num_boost_round=600, **data).predict(test.X)
    if isinstance(free, xgb.Booster):
        prediction = free[: free.best_iteration + 1].predict(xgb.DMatrix(test.X))
    else:
        prediction = free.predict(test.X)
    return squared_puc_gap(prediction, family, test.X), squared_puc_gap(anchored, family, test.X)
