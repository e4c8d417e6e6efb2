"""Training on a cluster: one plan whatever is in the partitions, the same trees however they are cut."""

from __future__ import annotations

import re
import threading
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from engine_kits import OPTIONAL, EngineKit, every_distributed_engine, logistic
from tools import make_table

import pucboost as puc
from pucboost._consent import shared_counts
from pucboost._dask.parts import Part, group_parts, place, training_part
from pucboost._virtual.shared_plan import PartTable
from pucboost.simulate import BinaryFamily

pytestmark = pytest.mark.xdist_group("dask")  # one cluster, not one in each process of tests

NAMES = ["a", "b", "c", "d", "e", "f"]


def arrays(X: Any, y: Any, chunks: Any) -> tuple[Any, Any]:
    return da.from_array(X, chunks=(chunks, X.shape[1])), da.from_array(y, chunks=(chunks,))


def params_of(kit: EngineKit, **more: Any) -> dict[str, Any]:
    given = {name: value for name, value in kit.params.items() if name != kit.threads}
    return {**given, "optional": OPTIONAL, "copies": 2, **more}


# ----- the law: partitions do not matter

FAMILY = BinaryFamily.paper()


def gap_and_penalty(booster: Any, seed: int = 100) -> tuple[float, float]:
    """Squared distance to the truth ×10⁴, and how much too high those who share nothing are told, in points."""
    people = FAMILY.sample(20_000, seed=seed)
    told, truth = puc.predict(booster, people.X), FAMILY.puc_prediction(people.X)
    silent = np.isnan(people.X[:, FAMILY.optional]).all(axis=1)
    return 1e4 * float(((told - truth) ** 2).mean()), 100 * float((told - truth)[silent].mean())


GAP, PENALTY = 15.0, 2.0
"""Bounds that hold with one plan and not with a plan per worker; plain training has some 300."""


@every_distributed_engine
@pytest.mark.parametrize("order", ["by what they share", "by label"])
def test_sorted_partitions(client: Client, kit: EngineKit, order: str) -> None:
    people = FAMILY.sample(12_000, seed=1)
    key = shared_of(people.X) if order == "by what they share" else people.y
    rows = np.argsort(key, kind="stable")
    X, y = arrays(people.X[rows], people.y[rows], 3_000)
    params = params_of(kit, optional=list(FAMILY.optional), learning_rate=0.1, **kit.small_trees)
    booster = puc.dask.train(client, params, X, y, 60)
    gap, penalty = gap_and_penalty(booster)
    assert gap < GAP
    assert abs(penalty) < PENALTY


@every_distributed_engine
def test_a_callable_objective(client: Client, kit: EngineKit) -> None:
    """Each worker calls it with its own rows; the trees are those of the built-in loss."""
    X, y = arrays(*make_table(2_000), 500)
    params = params_of(kit, **kit.small_trees)
    mine = puc.dask.train(client, {**params, **kit.custom_start_at_zero, "objective": logistic}, X, y, 10)
    named = {"objective": kit.objectives["binary"], **kit.start_at_zero}
    built_in = puc.dask.train(client, {**params, **named}, X, y, 10)
    probability = 1 / (1 + np.exp(-kit.predict(mine, X.compute())))
    np.testing.assert_allclose(probability, kit.predict(built_in, X.compute()), atol=1e-4)


def shared_of(X: Any) -> Any:
    return (~np.isnan(X[:, FAMILY.optional])).sum(axis=1)


@every_distributed_engine
def test_a_plan_per_worker_fails_that_test(kit: EngineKit) -> None:
    """A test of the test above: the same people, each half with a plan of its own."""
    people = FAMILY.sample(12_000, seed=1)
    rows = np.argsort(shared_of(people.X), kind="stable")
    halves = [puc.augment(people.X[half], people.y[half], optional=list(FAMILY.optional), copies=2)
              for half in np.split(rows, 2)]  # fmt: skip
    X, y, weight = (np.concatenate([half[i] for half in halves]) for i in range(3))
    params = {**kit.params, **kit.small_trees, **kit.row_sampling(kit.params, len(rows), len(y))}
    params.pop("engine")
    plain = kit.fit_alone(params, X, y, 60, weight=weight)
    people = FAMILY.sample(20_000, seed=100)
    told = kit.predict(plain, people.X)
    silent = np.isnan(people.X[:, FAMILY.optional]).all(axis=1)
    error = told - FAMILY.puc_prediction(people.X)
    assert 1e4 * (error**2).mean() > GAP
    assert abs(100 * error[silent].mean()) > PENALTY


@every_distributed_engine
def test_a_column_that_a_worker_does_not_have(client: Client, kit: EngineKit) -> None:
    """LightGBM's own distributed bins would drop it."""
    X, y = make_table(4_000)
    y = (X[:, 0] + 3 * np.nan_to_num(X[:, 5]) > 0).astype(float)
    X[:2_000, 5] = np.nan
    booster = puc.dask.train(client, params_of(kit), *arrays(X, y, 1_000), 20)
    gains = puc._engines.boosters_of(booster).importance(booster, "gain")
    assert gains[5] > 0.2 * gains.sum()


@every_distributed_engine
def test_cuts_do_not_change_trees_without_row_sampling(client: Client, kit: EngineKit) -> None:
    """XGBoost's are also those of one machine; LightGBM's differ there, which estimates counts in leaves."""
    X, y = make_table(3_000)
    ids = np.arange(3_000) * 11 + 5
    params = params_of(kit, **kit.small_trees)
    client.run(_without_sampling, True)
    _without_sampling(True)
    try:
        models = []
        for order, chunks in ((np.arange(3_000), 1_500), (np.random.default_rng(0).permutation(3_000), 700)):
            rows = da.from_array(ids[order], chunks=(chunks,))
            models.append(puc.dask.train(client, params, *arrays(X[order], y[order], chunks), 15, row_id=rows))
        alone = one_machine(kit, params, X, y, ids)
    finally:
        client.run(_without_sampling, False)
        _without_sampling(False)
    first, second, alone = (puc.predict(model, X) for model in (*models, alone))
    np.testing.assert_allclose(first, second, atol=2e-6)  # sums of gradients are added up in another order
    if kit.name == "xgboost":
        np.testing.assert_allclose(first, alone, atol=2e-6)
    else:
        assert np.abs(first - alone).mean() < 0.03


def one_machine(kit: EngineKit, params: dict[str, Any], X: Any, y: Any, ids: Any) -> Any:
    plan = puc.distributed.SharedPlan.agree([puc.distributed.SharedPlan.facts(X, y, optional=OPTIONAL)], copies=2)
    plan = plan.complete([plan.count(X, row_id=ids)])
    rest = {name: value for name, value in params.items() if name not in ("copies", "optional")}
    return puc.train({**rest, kit.threads: 1, "plan": plan.part(row_id=ids)}, (X, y), 15)


def _without_sampling(off: bool) -> None:
    if off:
        PartTable._kept = PartTable.share_per_tree  # type: ignore[attr-defined]
        PartTable.share_per_tree = property(lambda self: 1.0)  # type: ignore[assignment,method-assign]
    else:
        PartTable.share_per_tree = PartTable._kept  # type: ignore[attr-defined,method-assign]


_without_sampling.__module__ = "__main__"  # so that it is sent to workers as it is


# ----- collections of all kinds


@every_distributed_engine
def test_frames_of_all_kinds(client: Client, kit: EngineKit) -> None:
    """Text that differs between partitions, categories, empty partitions, persisted and lazy, unknown chunks."""
    X, y = make_table(2_400)
    frame = pd.DataFrame(X, columns=NAMES)
    frame["job"] = np.where(X[:, 0] > 0, "nurse", "cook")
    frame.loc[:1_100, "job"] = "cook"
    frame["size"] = pd.Categorical(np.where(X[:, 1] > 0, "L", "S"), ["S", "M", "L"])
    frame["y"], frame["number"] = y, np.arange(2_400)
    optional = ["d", "e", "f", "job"]
    lazy = dd.from_pandas(frame, npartitions=5)
    lazy = lazy[(lazy["a"] > -9) | (lazy["a"] < -9)]
    empty = lazy[lazy["number"] < 960]  # the last partitions have no rows
    params = params_of(kit, optional=optional)
    columns = [*NAMES, "job", "size"]
    whole = puc.dask.train(client, params, lazy[columns], lazy["y"], 10)
    kept = lazy.persist()
    again = puc.dask.train(client, params, kept[columns], kept["y"].to_dask_array(), 10)
    np.testing.assert_array_equal(puc.predict(whole, frame[columns]), puc.predict(again, frame[columns]))
    local = puc.train({**params, kit.threads: 1}, (frame[columns], y), 10)
    assert np.abs(puc.predict(whole, frame[columns]) - puc.predict(local, frame[columns])).mean() < 0.1
    assert whole.puc_summary.virtual_rows == local.puc_summary.virtual_rows
    assert whole.puc_summary.masks_seen == local.puc_summary.masks_seen
    few = puc.dask.train(client, params, empty[columns], empty["y"], 5)
    assert few.puc_summary.source_rows == 960
    told = puc.dask.predict(whole, empty[columns])
    assert isinstance(told, dd.Series)
    pd.testing.assert_index_equal(told.compute().index, frame.index[:960])
    np.testing.assert_array_equal(told.compute(), puc.predict(whole, frame[columns][:960]))
    quotes = puc.dask.quote(whole, empty[columns], subsets=["nothing", "all"]).compute()
    pd.testing.assert_frame_equal(quotes, puc.quote(whole, frame[columns][:960], subsets=["nothing", "all"]))
    unknown = lazy[NAMES].to_dask_array()
    from_unknown = puc.dask.train(client, params_of(kit), unknown, lazy["y"].to_dask_array(), 5)
    assert puc.dask.predict(from_unknown, unknown).compute().shape == (2_400,)


@every_distributed_engine
def test_classes_weights_and_scores(client: Client, kit: EngineKit) -> None:
    X, y = make_table(1_500)
    label = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    rows, labels = arrays(X, label, 400)
    weight = da.from_array(np.linspace(0.5, 2, 1_500), chunks=400)
    params = params_of(kit, objective=kit.objectives["multiclass"], num_class=3)
    booster = puc.dask.train(client, params, rows, labels, 8, sample_weight=weight)
    lazy = puc.dask.predict(booster, rows)
    assert lazy.shape == (1_500, 3)
    np.testing.assert_array_equal(lazy.compute(), puc.predict(booster, X))
    assert (puc.predict(booster, X).argmax(axis=1) == label).mean() > 0.8
    start = da.from_array(np.full(1_500, 4.0), chunks=400)
    shifted = puc.dask.train(client, params_of(kit, objective=kit.objectives["l2"]), *arrays(X, y + 4, 400), 8,
                             init_score=start)  # fmt: skip
    local = puc.train({**params_of(kit, objective=kit.objectives["l2"]), kit.threads: 1},
                      puc.Dataset(X, y + 4, init_score=np.full(1_500, 4.0)), 8)  # fmt: skip
    assert np.abs(puc.predict(shifted, X) - puc.predict(local, X)).mean() < 0.1


@every_distributed_engine
def test_idle_workers_and_one_partition(client: Client, kit: EngineKit) -> None:
    X, y = make_table(600)
    booster = puc.dask.train(client, params_of(kit), *arrays(X, y, 600), 5)
    assert booster.puc_summary.source_rows == 600


def test_parts_are_placed_by_virtual_rows() -> None:
    sizes = [100, 0, 100, 900, 100, 100, 500]
    groups = group_parts(sizes, 2)
    assert sorted(number for group in groups for number in group) == [0, 2, 3, 4, 5, 6]
    assert [sum(sizes[i] for i in group) for group in groups] == [900, 900]
    assert group_parts([10, 11, 9, 10], 2) == [[0, 1], [2, 3]]
    assert place([[0]], [7], [["gone"]], ["a", "b"]) == ["a"]
    assert place([[0, 1], [2, 3]], [10, 11, 9, 10], [["b"], ["a"], ["a"], ["a"]], ["a", "b"]) == ["b", "a"]


def test_groups_with_events_in_each() -> None:
    sizes = [10, 10, 10, 10]
    assert group_parts(sizes, 2, [3, 0, 1, 0]) == [[0, 1], [2, 3]]  # as without
    assert group_parts(sizes, 2, [3, 1, 0, 0]) == [[0, 2], [1, 3]]
    assert group_parts(sizes, 2, [0, 0, 0, 1]) == [[0, 1, 2, 3]]
    assert group_parts(sizes, 3, [0, 5, 1, 0]) == [[0, 1], [2, 3]]
    assert group_parts(sizes, 2, [0, 0, 0, 0]) == [[0, 1, 2, 3]]  # whatever the engine says of that


@pytest.mark.parametrize("objective", ["poisson", "tweedie"])
def test_counts_sorted_so_that_half_of_the_partitions_have_only_zeros(client: Client, objective: str) -> None:
    """LightGBM starts from the logarithm of a worker's own mean."""
    X, _ = make_table(2_000)
    y = np.random.default_rng(0).poisson(np.exp(X[:, 0] - 1.5)).astype(float)
    order = np.argsort(y, kind="stable")
    assert y[order][:1_000].max() == 0
    params = {"optional": OPTIONAL, "objective": objective, "verbosity": -1, "copies": 2, "learning_rate": 0.2}
    booster = puc.dask.train(client, params, *arrays(X[order], y[order], 250), 40)
    local = puc.train({**params, "num_threads": 1}, (X, y), 40)
    told, alone = puc.predict(booster, X), puc.predict(local, X)
    assert abs(told.mean() / alone.mean() - 1) < 0.05
    near, alone_near = (np.corrcoef(np.log(one), X[:, 0])[0, 1] for one in (told, alone))
    assert near > alone_near - 0.03  # another draw of bags moves it by a third of that


def test_partitions_are_not_copied() -> None:
    """Law 7: the parts of a worker are read where they are."""
    X, y = make_table(400)
    parts = [Part(i, X[lo : lo + 200], {"label": y[lo : lo + 200]}) for i, lo in enumerate((0, 200))]
    plan = puc.distributed.SharedPlan.agree(
        [puc.distributed.SharedPlan.facts(part.X, optional=OPTIONAL) for part in parts]
    )
    plan = plan.complete([plan.count(part.X, part.number) for part in parts])
    data, slice_ = training_part(parts, plan)
    stack: Any = data.data
    assert all(np.shares_memory(one.array, X) for one in stack._parts)
    assert slice_.numbers == (0, 1)
    assert len(shared_counts(slice_.ids(400))) == 400


# ----- validation


@every_distributed_engine
def test_all_workers_stop_in_the_same_round(client: Client, kit: EngineKit) -> None:
    X, y = make_table(3_000)
    params = params_of(kit, early_stopping_round=3, learning_rate=0.4, metric=kit.metrics["binary"])
    train = arrays(X[:2_000], y[:2_000], 500)
    booster = puc.dask.train(client, params, *train, 200, valid_sets=[(X[2_000:], y[2_000:])], valid_names=["held_out"])
    scores = booster.evals_result["held_out"][kit.metrics["binary"] if kit.name == "xgboost" else "binary_logloss"]
    assert 3 < len(scores) < 200
    assert int(np.argmin(scores)) + 1 == len(scores) - 3
    lazily = puc.dask.train(client, params, *train, 200, valid_sets=arrays(X[2_000:], y[2_000:], 300))
    np.testing.assert_allclose(next(iter(lazily.evals_result["valid_0"].values())), scores)


# ----- what is in the model


@every_distributed_engine
def test_no_addresses_in_models(client: Client, kit: EngineKit, tmp_path: Any) -> None:
    X, y = make_table(1_000)
    booster = puc.dask.train(client, params_of(kit), *arrays(X, y, 250), 5)
    puc.save_model(booster, tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    assert b"127.0.0.1" not in content
    text = puc._engines.boosters_of(booster).to_text(booster)
    assert not re.search(
        r"\[machines: [^\]]|\[num_machines: [^1]|\[tree_learner: data|local_listen_port: (?!12400)", text
    )
    assert isinstance(booster, kit.module.Booster)
    loaded = puc.load_model(tmp_path / "model")
    assert loaded.consent == booster.consent
    assert loaded.puc_summary == booster.puc_summary
    np.testing.assert_array_equal(puc.predict(loaded, X), puc.predict(booster, X))


def test_is_unbalance_counts_people_of_all_workers(client: Client) -> None:
    X, y = make_table(2_000)
    y = (y * (np.arange(2_000) % 4 == 0)).astype(float)
    rows = np.argsort(y, kind="stable")
    params = {"objective": "binary", "verbosity": -1, "optional": OPTIONAL, "copies": 2, "is_unbalance": True}
    booster = puc.dask.train(client, params, *arrays(X[rows], y[rows], 500), 10)
    weight = re.search(r"\[scale_pos_weight: ([\d.]+)\]", booster.model_to_string())
    assert weight is not None
    assert float(weight[1]) == pytest.approx((y == 0).sum() / (y == 1).sum(), rel=1e-4)


# ----- several at once, and what is refused


def test_two_trainings_wait_for_each_other(client: Client, cluster: Any) -> None:
    X, y = make_table(1_000)
    rows = arrays(X, y, 250)
    done: list[Any] = []

    def run(engine: str) -> None:
        with puc_client(cluster) as own:
            params = {"engine": engine, "optional": OPTIONAL, "verbosity": -1 if engine == "lightgbm" else 0}
            done.append(puc.dask.train(own, params, *rows, 15))

    both = [threading.Thread(target=run, args=(engine,)) for engine in ("lightgbm", "xgboost", "lightgbm")]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    assert len(done) == 3


def puc_client(cluster: Any) -> Client:
    return Client(cluster, set_as_default=False)


def test_refusals(client: Client) -> None:
    X, y = make_table(100)
    rows, labels = arrays(X, y, 50)
    given = {"optional": OPTIONAL}

    def call(params: Any = given, X: Any = rows, y: Any = labels, **more: Any) -> Any:
        return puc.dask.train(client, params, X, y, 2, **more)

    for params, text in [
        ({"compact": True}, "compact is not possible with Dask"),
        ({"anchor": "base"}, "anchor is not possible with Dask"),
        ({"plan": 1}, "plan is not possible with Dask"),
        ({"calibrate_masks": True}, "calibrate_masks is not possible with Dask: it needs the outcomes of everybody"),
        ({"external_memory": "."}, "external_memory is not possible with Dask"),
        ({"objective": "regression_l1"}, "averages the leaves that each worker finds"),
        ({"objective": "quantile"}, "shuffled=True"),
        ({"engine": "xgboost", "objective": "reg:quantileerror", "quantile_alpha": 0.5}, "shuffled=True"),
        ({"tree_learner": "feature"}, "needs the whole table in every worker"),
        ({"machines": "a:1,b:2"}, "machines is not possible here: the workers find each other"),
        ({"engine": "native"}, "trains on one machine only"),
        ({"optionl": ["a"]}, "Unknown parameter 'optionl'"),
    ]:
        with pytest.raises(ValueError, match=text):
            call({**given, **params})
    with pytest.raises(TypeError, match="X must be a Dask DataFrame, Series or Array, got 'ndarray'"):
        call(X=X)
    with pytest.raises(ValueError, match="y has 4 partitions, but X has 2"):
        call(y=da.from_array(y, chunks=25))
    with pytest.raises(ValueError, match="Partition 0 of y has 60 rows, that of X has 50"):
        call(y=da.from_array(y, chunks=((60, 40),)))
    with pytest.raises(ValueError, match="X has no rows"):
        call(X=rows[:0], y=labels[:0])
    with pytest.raises(TypeError, match=r"client must be a distributed.Client, got 'str'"):
        puc.dask.train("tcp://somewhere", given, rows, labels)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="A validation set has no rows"):
        call(valid_sets=(rows[:0], labels[:0]))
    with pytest.warns(UserWarning, match="Unknown parameter 'blorb'") as told:
        call({**given, "blorb": 1})
    assert len([one for one in told if "blorb" in str(one.message)]) == 1
    assert call(valid_sets=[]).current_iteration() == 2
    assert call({**given, "engine": "auto", "local_listen_port": 23_400}).current_iteration() == 2
    with pytest.raises(ValueError, match="give checkpoint, and no init_model"):
        call(resume=True)
    with pytest.raises(ValueError, match=r"Worker tcp://.* failed: The label of train_set is nan in row"):
        call(y=da.from_array(np.where(np.arange(100) == 70, np.nan, y), chunks=50))


def test_losses_of_quantiles_if_rows_are_shuffled(client: Client) -> None:
    X, _ = make_table(1_000)
    params = {"optional": OPTIONAL, "objective": "quantile", "alpha": 0.5, "verbosity": -1}
    booster = puc.dask.train(client, params, *arrays(X, X[:, 0], 250), 30, shuffled=True)
    assert abs(np.median(puc.predict(booster, X)) - np.median(X[:, 0])) < 0.3


def test_encoded_silence_is_found_in_the_whole_table_only(client: Client) -> None:
    """Partitions in which everybody shares are no reason to warn, if the others do not."""
    import warnings

    X, y = make_table(1_000)
    rows = np.argsort(np.isnan(X[:, OPTIONAL]).sum(axis=1), kind="stable")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = np.column_stack([X, np.isnan(X[:, OPTIONAL[0]])])
        params = {"optional": OPTIONAL, "verbosity": -1, "expect_revealing": [X.shape[1]]}
        puc.dask.train(client, params, *arrays(told[rows], y, 200), 2)
    with pytest.warns(puc.warnings.EncodedSilenceWarning):
        puc.dask.train(
            client, {"optional": OPTIONAL, "verbosity": -1}, *arrays(np.nan_to_num(X, nan=-999.0), y, 200), 2
        )


@every_distributed_engine
def test_levels(client: Client, kit: EngineKit) -> None:
    """The plan counts the sets that can be shared; values without what they need are withheld in every partition."""
    X, y = make_table(600)
    optional = {"fitness": puc.Levels([3], [4], [5])}
    clean = X.copy()
    for column in (4, 5):
        clean[np.isnan(clean[:, column - 1]), column] = np.nan
    order = np.argsort(np.isnan(clean[:, 3:]).sum(axis=1), kind="stable")
    params = params_of(kit, optional=optional, augmentation="exhaustive", expect_shared=["fitness 1"])
    with pytest.warns(UserWarning, match=r"\d+ of 600 people have values in a group without one that it needs"):
        booster = puc.dask.train(client, params, *arrays(X[order], y[order], 200), 5)
    assert booster.consent.needs == {"fitness 2": "fitness 1", "fitness 3": "fitness 2"}
    shared = (~np.isnan(clean[:, 3:])).sum(axis=1)
    assert booster.puc_summary.virtual_rows == (shared + 1).sum()
    again = puc.dask.train(client, params, *arrays(clean[order], y[order], 200), 5)
    assert kit.trees(again) == kit.trees(booster)
