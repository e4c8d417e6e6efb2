"""Law 3: training from the stream gives the same trees as training from the materialised table."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from tools import QUIET, make_table, table_training

import pucboost as puc
from pucboost._engines.lightgbm_dataset import VirtualDataset
from pucboost._virtual import rows as stream

SCHEMES = [("balanced", 2), ("balanced", 3.5), ("exhaustive", None), ("fixed", None), ("none", None)]


def trees(booster: lgb.Booster) -> str:
    """The model without the list of parameters: thread counts and the like may differ."""
    text: str = booster.model_to_string()
    return text[: text.index("\nparameters:")]


@pytest.mark.parametrize(("augmentation", "copies"), SCHEMES)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch_bytes", [1_000, 100_000, stream.BATCH_BYTES])
def test_same_trees(augmentation: str, copies: Any, threads: int, batch_bytes: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(stream, "BATCH_BYTES", batch_bytes)
    X, y = make_table(800)
    params = {**QUIET, "objective": "binary", "optional": [3, 4, 5], "augmentation": augmentation, "copies": copies}
    ours = puc.train({**params, "num_threads": threads}, lgb.Dataset(X, y), 12)
    assert trees(ours) == trees(table_training(params, X, y, 12))


@pytest.mark.parametrize("seed", [None, 0, 17, 2**40, -3])
@pytest.mark.parametrize("extra", [{"min_data_in_leaf": 2, "max_bin": 15}, {"bin_construct_sample_cnt": 500}])
def test_same_model_string_with_seeds_and_binning_parameters(seed: Any, extra: dict[str, Any]) -> None:
    """The seed also decides which rows LightGBM samples for its bins."""
    X, y = make_table(2_000, seed=1)
    X[:, 1] = np.round(X[:, 1]) * (np.arange(2_000) % 7 == 0)  # a mostly-zero feature
    engine_seed = {} if seed is None else {"seed": seed % 2**31}
    params = {**QUIET, **extra, **engine_seed, "objective": "binary", "optional": [3, 4, 5], "copies": 2}
    ours = puc.train(params, lgb.Dataset(X, y), 10)
    assert ours.model_to_string() == table_training(params, X, y, 10, seed=engine_seed.get("seed", 0)).model_to_string()


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


@pytest.mark.parametrize("container", CONTAINERS)
def test_same_trees_from_every_container(container: str) -> None:
    X, y = make_table(700)
    data = CONTAINERS[container](X)
    params = {
        **QUIET,
        "objective": "binary",
        "optional": {"first": [3, 4], "second": [5]},
        "augmentation": "exhaustive",
    }
    assert trees(puc.train(params, lgb.Dataset(data, y), 10)) == trees(table_training(params, data, y, 10))


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_same_trees_from_polars_and_arrow(library: str) -> None:
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    X, y = make_table(700)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(6)])
    table = pa.Table.from_pandas(frame) if library == "pyarrow" else pl.from_pandas(frame)
    params = {**QUIET, "objective": "binary", "optional": ["c3", "c4", "c5"], "augmentation": "exhaustive"}
    from_table = puc.train(params, lgb.Dataset(table, y), 10)
    assert trees(from_table) == trees(puc.train(params, lgb.Dataset(frame, y), 10))


def test_same_trees_from_a_sequence() -> None:
    class Rows(lgb.Sequence):
        batch_size = 64

        def __init__(self, X: Any) -> None:
            self.X = X

        def __getitem__(self, index: Any) -> Any:
            return self.X[index]

        def __len__(self) -> int:
            return len(self.X)

    X, y = make_table(700)
    params = {**QUIET, "objective": "binary", "optional": [3, 4, 5]}
    expected = trees(puc.train(params, lgb.Dataset(X, y), 10))
    assert trees(puc.train(params, lgb.Dataset(Rows(X), y), 10)) == expected
    assert trees(puc.train(params, lgb.Dataset([Rows(X[:300]), Rows(X[300:])], y), 10)) == expected


def test_same_trees_with_weights_init_scores_and_multiclass() -> None:
    X, y = make_table(900)
    y = y + (X[:, 0] > 0.5)
    rng = np.random.default_rng(0)
    weight, scores = rng.uniform(0.5, 2, 900), rng.normal(size=(900, 3))
    params = {**QUIET, "objective": "multiclass", "num_class": 3, "optional": [3, 4, 5], "copies": 2}
    _, _, _, source = puc.augment(X, y, optional=[3, 4, 5], copies=2)
    expected = table_training(params, X, y, 8, sample_weight=weight, init_score=scores[source])
    for given in (scores, pd.DataFrame(scores), scores.ravel(order="F")):
        ours = puc.train(params, lgb.Dataset(X, y, weight=weight, init_score=given), 8)
        assert trees(ours) == trees(expected)


def test_same_trees_with_categories() -> None:
    rng = np.random.default_rng(0)
    X, _ = make_table(900)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["colour"] = pd.Categorical(rng.choice(["red", "green", "blue"], 900))
    frame["grade"] = pd.Categorical(rng.choice(["x", "y", None], 900))
    frame["rank"] = pd.Categorical(rng.choice(["low", "high"], 900), categories=["low", "high"], ordered=True)
    y = (frame["colour"] == "red").to_numpy() + rng.normal(size=900)
    params = {**QUIET, "optional": ["d", "grade", "f"], "augmentation": "exhaustive", "min_data_per_group": 5}
    ours = puc.train(params, lgb.Dataset(frame, y), 10)
    assert ours.model_to_string() == table_training(params, frame, y, 10).model_to_string()
    assert ours.pandas_categorical == [["blue", "green", "red"], ["x", "y"], ["low", "high"]]
    # Booster.predict maps categories by name: the order of a new table does not matter.
    shuffled = frame.assign(colour=frame["colour"].cat.set_categories(["red", "blue", "green"]))
    np.testing.assert_array_equal(ours.predict(shuffled), ours.predict(frame))


def test_init_model_scores_virtual_rows(monkeypatch: Any) -> None:
    monkeypatch.setattr(stream, "BATCH_BYTES", 3_000)
    X, y = make_table(900)
    y = y + (X[:, 0] > 0.5)
    base = {**QUIET, "objective": "multiclass", "num_class": 3}
    first = lgb.train(base, lgb.Dataset(X, y), 4)
    params = {**base, "optional": [3, 4, 5], "augmentation": "exhaustive"}
    X_aug, _, _, _ = puc.augment(X, y, optional=[3, 4, 5], augmentation="exhaustive")
    with pytest.warns(UserWarning, match="init_model has no consent schema"):
        ours = puc.train(params, lgb.Dataset(X, y), 5, init_model=first)
    engine = {**base, "bagging_fraction": len(X) / len(X_aug), "bagging_freq": 1}
    _, y_aug, _, _ = puc.augment(X, y, optional=[3, 4, 5], augmentation="exhaustive")
    table = lgb.train(engine, lgb.Dataset(X_aug, y_aug), 5, init_model=first)
    assert ours.model_to_string() == table.model_to_string()


def test_public_sequence_path_is_the_fallback(monkeypatch: Any) -> None:
    """Should LightGBM rename its private methods, the public Sequence interface gives the same trees."""
    X, y = make_table(700)
    params = {**QUIET, "objective": "binary", "optional": [3, 4, 5], "seed": 4}
    fast = puc.train(params, lgb.Dataset(X, y), 8)
    monkeypatch.delattr(VirtualDataset, "_Dataset__init_from_seqs")
    assert trees(puc.train(params, lgb.Dataset(X, y), 8)) == trees(fast)
