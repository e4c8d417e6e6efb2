"""Law 3: training from the stream gives the same trees as training from the materialised table."""

from __future__ import annotations

import itertools
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from engine_kits import OPTIONAL, EngineKit, every_engine
from tools import make_table

import pucboost as puc
from pucboost._virtual import rows as stream

SCHEMES = [("balanced", 2), ("balanced", 3.5), ("exhaustive", None), ("fixed", None), ("none", None)]


@every_engine
@pytest.mark.parametrize(("augmentation", "copies"), SCHEMES)
def test_same_trees(kit: EngineKit, augmentation: str, copies: Any, monkeypatch: Any) -> None:
    X, y = make_table(800)
    weight = np.random.default_rng(0).uniform(0.5, 2, 800)
    scheme = {"augmentation": augmentation, "copies": copies}
    for given, params in (({}, scheme), ({"weight": weight}, {**scheme, "seed": 7, "max_bin": 63})):
        expected = kit.trees(kit.fit_table(X, y, 8, **given, **params))
        for threads, batch_bytes in itertools.product((1, 2), (1_000, 100_000, stream.BATCH_BYTES)):
            with monkeypatch.context() as patch:
                patch.setattr(stream, "BATCH_BYTES", batch_bytes)
                ours = kit.fit(X, y, 8, given, **params, **{kit.threads: threads})
            assert kit.trees(ours) == expected, (threads, batch_bytes, params)


@every_engine
def test_same_trees_when_quantiles_are_approximate(kit: EngineKit) -> None:
    """More rows than the engines keep for their bins."""
    X, y = make_table(120_000, n_base=1, n_optional=2)
    params = {"optional": [1, 2], "augmentation": "exhaustive"}
    assert kit.trees(kit.fit(X, y, 3, **params)) == kit.trees(kit.fit_table(X, y, 3, **params))


CONTAINERS = {
    "float32": lambda X: X.astype(np.float32),
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "list": lambda X: [X[:100], X[100:101], X[101:]],
    "pandas": lambda X: pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]),
    "pandas mixed": lambda X: pd.DataFrame(X).assign(flag=X[:, 0] > 0, whole=np.round(X[:, 1]).astype(int)),
    "pandas nullable": lambda X: pd.DataFrame(X).astype("Float64"),
    "csr": scipy.sparse.csr_matrix,
    "csc": scipy.sparse.csc_matrix,
}


@every_engine
@pytest.mark.parametrize("container", CONTAINERS)
def test_same_trees_from_every_container(kit: EngineKit, container: str) -> None:
    X, y = make_table(700)
    data = CONTAINERS[container](X)
    params = {"optional": {"first": [3, 4], "second": [5]}, "augmentation": "exhaustive"}
    assert kit.trees(kit.fit(data, y, 10, **params)) == kit.trees(kit.fit_table(data, y, 10, **params))


@every_engine
@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_same_trees_from_polars_and_arrow(kit: EngineKit, library: str) -> None:
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    X, y = make_table(700)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(6)])
    table = pa.Table.from_pandas(frame) if library == "pyarrow" else pl.from_pandas(frame)
    params = {"optional": ["c3", "c4", "c5"], "augmentation": "exhaustive"}
    assert kit.trees(kit.fit(table, y, 10, **params)) == kit.trees(kit.fit(frame, y, 10, **params))


class Rows(lgb.Sequence):
    """LightGBM's interface for rows that are read piece by piece."""

    batch_size = 64

    def __init__(self, X: Any) -> None:
        self.X = X

    def __getitem__(self, index: Any) -> Any:
        return self.X[index]

    def __len__(self) -> int:
        return len(self.X)


@every_engine
def test_same_trees_from_a_sequence(kit: EngineKit) -> None:
    X, y = make_table(700)
    expected = kit.trees(kit.fit(X, y))
    assert kit.trees(kit.fit(Rows(X), y)) == expected
    assert kit.trees(kit.fit([Rows(X[:300]), Rows(X[300:])], y)) == expected


@every_engine
def test_same_trees_with_weights_init_scores_and_multiclass(kit: EngineKit) -> None:
    X, y = make_table(900)
    y = y + (X[:, 0] > 0.5)
    rng = np.random.default_rng(0)
    weight, scores = rng.uniform(0.5, 2, 900), rng.normal(size=(900, 3))
    params = {"objective": kit.objectives["multiclass"], "num_class": 3, "copies": 2}
    expected = kit.trees(kit.fit_table(X, y, 8, weight=weight, init_score=scores, **params))
    for given in (scores, pd.DataFrame(scores), scores.ravel(order="F")):
        ours = kit.fit(X, y, 8, {"weight": weight, "init_score": given}, **params)
        assert kit.trees(ours) == expected
    assert kit.trees(kit.fit(X, y, 8, {"weight": weight}, **params)) != expected


@every_engine
def test_same_trees_with_init_scores(kit: EngineKit) -> None:
    X, y = make_table(600)
    scores = np.random.default_rng(0).normal(size=600)
    params = {"augmentation": "exhaustive"}
    ours = kit.trees(kit.fit(X, y, 5, {"init_score": scores}, **params))
    assert ours == kit.trees(kit.fit_table(X, y, 5, init_score=scores, **params))
    assert ours != kit.trees(kit.fit(X, y, 5, **params))


@every_engine
def test_same_trees_with_categories(kit: EngineKit) -> None:
    rng = np.random.default_rng(0)
    X, y = make_table(900)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["colour"] = pd.Categorical(rng.choice(["red", "green", "blue"], 900))
    frame["grade"] = pd.Categorical(rng.choice(["x", "y", None], 900))
    frame["rank"] = pd.Categorical(rng.choice(["low", "high"], 900), categories=["low", "high"], ordered=True)
    y = ((frame["colour"] == "red").to_numpy() & (y > 0)).astype(float)
    params = {"optional": ["d", "grade", "f"], "augmentation": "exhaustive"}
    ours, table = kit.fit(frame, y, 8, **params), kit.fit_table(frame, y, 8, **params)
    assert kit.trees(ours) == kit.trees(table)
    assert kit.feature_names(ours) == [*"abcdef", "colour", "grade", "rank"]
    np.testing.assert_array_equal(kit.predict(ours, frame), kit.predict(table, frame))
    # Engines map the categories of a new table by name: their order there does not matter.
    shuffled = frame.assign(colour=frame["colour"].cat.set_categories(["red", "blue", "green"]))
    np.testing.assert_array_equal(kit.predict(ours, shuffled), kit.predict(ours, frame))
    given = {**kit.params, **params}
    _, same = kit.fit_recorded(given, puc.Dataset(frame, y), 3, [puc.Dataset(frame, y)])
    _, reordered = kit.fit_recorded(given, puc.Dataset(frame, y), 3, [puc.Dataset(shuffled, y)])
    assert same == reordered


@every_engine
def test_init_model_scores_virtual_rows(kit: EngineKit, monkeypatch: Any) -> None:
    monkeypatch.setattr(stream, "BATCH_BYTES", 3_000)
    X, y = make_table(900)
    y = y + (X[:, 0] > 0.5)
    base = {**kit.params, "objective": kit.objectives["multiclass"], "num_class": 3}
    first = kit.fit_alone(base, X, y, 4)
    params = {**base, "optional": OPTIONAL, "augmentation": "exhaustive", "seed": 7}
    with pytest.warns(UserWarning, match="init_model has no consent schema"):
        ours = puc.train(params, puc.Dataset(X, y), 5, init_model=first)
    table = kit.fit_table(X, y, 5, mask_seed=7, init_model=first, **(params | kit.continued(params, first)))
    assert kit.model(ours) == kit.model(table)
