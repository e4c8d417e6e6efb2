"""Trees that are read and scored without the engine: the same bits as the engine's, and the engine where that fails."""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audit_tools import NO_FIT
from engine_kits import LIGHTGBM, XGBOOST, EngineKit, every_engine
from tools import make_table

import pucboost as puc
from pucboost._engines import boosters_of
from pucboost._engines.trees import Forest
from pucboost._kernels import compiling as threads
from pucboost._prediction import leaf_sets, predictor
from pucboost._prediction.predictor import MaskedPredictor, people_by_subsets

X, Y = make_table(400, n_optional=5)
CLASSES = np.digitize(X[:, 0] + np.nan_to_num(X[:, 5]), [-0.5, 0.5])
GROUPS = {"app": [3, 4], "blood": [5], "history": [6], "trips": [7]}
NEVER = 10**12


@pytest.fixture(params=[0, NEVER], ids=["trees", "engine"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(predictor, "PREDICTIONS_WORTH_READING", request.param)
    return request.param


def fit(kit: EngineKit, X: Any = X, Y: Any = Y, rounds: int = 15, **params: Any) -> Any:
    return kit.fit(X, Y, rounds, **{"optional": GROUPS, **params})


@cache
def fitted(kit: EngineKit, several: bool = False) -> Any:
    """A model that tests share and leave as it is, of two or of three classes."""
    classes = {"Y": CLASSES, "objective": kit.objectives["multiclass"], "num_class": 3, "rounds": 5}
    return fit(kit, **(classes if several else {}))


def both_ways(monkeypatch: pytest.MonkeyPatch, ask: Any) -> tuple[Any, Any]:
    """Return the answer from trees and that from the engine."""
    answers = []
    for worth in (0, NEVER):
        monkeypatch.setattr(predictor, "PREDICTIONS_WORTH_READING", worth)
        answers.append(ask())
    return answers[0], answers[1]


def asked_rows(monkeypatch: pytest.MonkeyPatch, booster: Any) -> list[int]:
    """Return a list to which every call of the engine adds its number of rows."""
    kind, sizes = type(boosters_of(booster)), []
    original = kind.predict

    def predict(self: Any, booster: Any, rows: Any, **options: Any) -> Any:
        sizes.append(len(rows))
        return original(self, booster, rows, **options)

    monkeypatch.setattr(kind, "predict", predict)
    return sizes


QUESTIONS = {
    "quote": puc.quote,
    "chosen": lambda b, X, **given: puc.quote(b, X, subsets=["nothing", "all_but_one", ["app", "trips"]], **given),
    "raw": lambda b, X, **given: puc.quote(b, X, raw_score=True, **given),
    "as_given": puc.predict,
    "withheld": lambda b, X, **given: puc.predict(b, X, sharing="withheld", **given),
    "best": lambda b, X, **given: puc.predict(b, X, sharing="best", favourable="lower", return_subset=True, **given),
    "greedy": lambda b, X, **given: puc.predict(
        b, X, sharing="best", favourable="lower", search="greedy", max_subsets=2, **given
    ),
    "sharing_value": puc.sharing_value,
    "sharing_effects": partial(puc.sharing_effects, favourable="lower"),
}


def assert_equal(found: Any, wanted: Any) -> None:
    if isinstance(found, tuple):
        for one, other in zip(found, wanted, strict=True):
            assert_equal(one, other)
    elif isinstance(found, pd.DataFrame):
        pd.testing.assert_frame_equal(found, wanted, check_exact=True)
    elif dataclasses.is_dataclass(found):
        assert found == wanted
    else:
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@every_engine
def test_trees_predict_what_the_engine_predicts(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    booster = fitted(kit)
    sizes = asked_rows(monkeypatch, booster)
    for ask in QUESTIONS.values():
        wanted = answer(monkeypatch, NEVER, booster, ask)
        sizes.clear()
        assert_equal(answer(monkeypatch, 0, booster, ask), wanted)
        for n_threads, batch_bytes, per_thread in ((1, 20_000, 2_048), (3, 4 << 20, 1)):
            with monkeypatch.context() as patch:
                patch.setattr(predictor, "BATCH_BYTES", batch_bytes)
                patch.setattr(threads, "MIN_ITEMS_PER_THREAD", per_thread)
                assert_equal(ask(booster, X, num_threads=n_threads), wanted)
        assert sizes == [6 * predictor.COMPARED_ROWS] * 3  # the engine predicted a few people only


def answer(monkeypatch: pytest.MonkeyPatch, worth: int, booster: Any, ask: Any) -> Any:
    monkeypatch.setattr(predictor, "PREDICTIONS_WORTH_READING", worth)
    return ask(booster, X)


@every_engine
def test_several_classes(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    booster = fitted(kit, several=True)
    assert_equal(*both_ways(monkeypatch, lambda: puc.quote(booster, X)))
    assert_equal(*both_ways(monkeypatch, lambda: puc.predict(booster, X)))
    for given in ({"target_class": 1}, {"target_class": 1, "raw_score": True}):
        for ask in (
            lambda given=given: puc.predict(booster, X, **given),
            lambda given=given: puc.predict(booster, X, sharing="best", favourable="lower", **given),
            lambda given=given: puc.sharing_value(booster, X, **given),
        ):
            assert_equal(*both_ways(monkeypatch, ask))


@every_engine
def test_anchored_models(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fit(kit, anchor="base")
    sizes = asked_rows(monkeypatch, model.booster)
    for name in ("quote", "raw", "as_given", "withheld", "best"):
        assert_equal(*both_ways(monkeypatch, lambda name=name: QUESTIONS[name](model, X)))
    raw = both_ways(
        monkeypatch,
        lambda: puc.predict(model, X, sharing="best", favourable="lower", raw_score=True, return_subset=True),
    )
    assert_equal(*raw)
    sizes.clear()
    monkeypatch.setattr(predictor, "PREDICTIONS_WORTH_READING", 0)
    by_engine, add_trees = [], type(model).add_trees

    def counted(self: Any, start: Any, rows: Any, **options: Any) -> Any:
        by_engine.append(len(rows))
        return add_trees(self, start, rows, **options)

    monkeypatch.setattr(type(model), "add_trees", counted)
    puc.quote(model, X)
    assert sum(sizes) < 2_000  # the anchor predicts everybody, but not once for each subset
    assert by_engine == [6 * predictor.COMPARED_ROWS]  # and the engine adds its trees for a few people only
    by_function = fit(kit, anchor=lambda table: 0.1 * np.asarray(table)[:, 0])
    assert_equal(*both_ways(monkeypatch, lambda: puc.quote(by_function, X)))
    several = fit(kit, Y=CLASSES, rounds=5, objective=kit.objectives["multiclass"], num_class=3, anchor="base")
    assert_equal(*both_ways(monkeypatch, lambda: puc.quote(several, X)))
    assert_equal(
        *both_ways(monkeypatch, lambda: puc.predict(several, X, sharing="best", favourable="lower", target_class=2))
    )


def test_anchored_models_under_another_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fit(LIGHTGBM, anchor="base")
    finer = puc.Consent.declare([3, 4, 5, 6, 7], list(model.consent.feature_names))
    given = MaskedPredictor(model, X, consent=finer)
    found, wanted = both_ways(monkeypatch, lambda: [given.people(np.arange(400), mask) for mask in (0, 1, 2, 30)])
    np.testing.assert_array_equal(found, wanted)
    assert leaf_sets.subset_scores(model, finer, raw_score=False, target_class=None, threads=1) is None


@every_engine
def test_errors_are_the_same_in_both_ways(kit: EngineKit, way: int) -> None:
    several = fitted(kit, several=True)
    with pytest.raises(ValueError, match="Choose a class with target_class"):
        puc.predict(several, X, sharing="best", favourable="lower")
    with pytest.raises(ValueError, match="target_class is 3, but its classes are 0 … 2"):
        puc.predict(several, X, target_class=3)
    with pytest.raises(ValueError, match="target_class is 1, but it has one value per person"):
        puc.predict(fitted(kit), X, target_class=1)


@every_engine
def test_frames_with_categories(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X[:, :6], columns=list("abcdef"))
    frame["job"] = pd.Categorical(
        rng.choice(["baker", "nurse", "pilot", "clerk"], 400), categories=["nurse", "pilot", "clerk", "baker"]
    )
    frame.loc[rng.random(400) < 0.3, "job"] = None
    booster = fit(kit, X=frame, Y=Y + (frame["job"] == "pilot"), optional=["job", "f"], objective=kit.objectives["l2"])
    other = frame.iloc[::-1].copy()
    other["job"] = other["job"].cat.set_categories(["unknown", "baker", "clerk", "nurse", "pilot"])
    assert_equal(*both_ways(monkeypatch, lambda: puc.quote(booster, frame)))
    assert_equal(*both_ways(monkeypatch, lambda: puc.quote(booster, frame.astype({"a": np.float32}))))


@every_engine
def test_many_groups_and_chosen_subsets(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(150, 64))
    wide[:, 2:][rng.random((150, 62)) < 0.2] = np.nan
    booster = fit(
        kit,
        X=wide,
        Y=wide[:, 0] + np.nan_to_num(wide[:, 2:]).sum(axis=1),
        optional=list(range(2, 64)),
        objective=kit.objectives["l2"],
        rounds=4,
    )
    some = ["nothing", "alone", "all_but_one", "all", [f"Column_{j}" for j in range(2, 40)]]
    assert_equal(*both_ways(monkeypatch, lambda: puc.quote(booster, wide, subsets=some)))


@every_engine
def test_few_predictions_are_left_to_the_engine(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    booster = fitted(kit)
    read = []
    monkeypatch.setattr(predictor, "subset_scores", lambda *args, **options: read.append(1))
    monkeypatch.setattr(predictor, "PREDICTIONS_WORTH_READING", 401)
    more = np.concatenate([X, X[:1]])
    puc.predict(booster, X, num_threads=1)
    puc.predict(booster, more, num_threads=2)
    assert read == []
    puc.predict(booster, more, num_threads=1)
    assert read == [1]
    # 400 people are asked about several times; trees are read once.
    puc.sharing_effects(booster, X, num_threads=1, favourable="lower")
    assert read == [1, 1]


@every_engine
def test_large_trees_are_read_for_many_subsets_only(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    booster = fitted(kit)
    first = boosters_of(booster).trees(booster, first_only=True)
    forest = boosters_of(booster).trees(booster)
    assert forest is not None
    assert first is not None
    leaves = int(first.leaf_order.count[0])
    assert leaves == forest.leaf_order.count[0] > 5
    sizes = asked_rows(monkeypatch, booster)
    monkeypatch.setattr(predictor, "PREDICTIONS_WORTH_READING", 0)
    monkeypatch.setattr(leaf_sets, "LEAVES_PER_MASK", 4)
    assert_equal(*both_ways(monkeypatch, lambda: puc.predict(booster, X)))
    assert sizes == [400, 400]
    sizes.clear()
    monkeypatch.setattr(predictor, "PREDICTIONS_WORTH_READING", 0)
    assert len(puc.quote(booster, X)) == 400
    assert max(sizes) < 400  # sixteen subsets are worth it
    monkeypatch.setattr(leaf_sets, "MOST_LEAVES", 4)
    assert_equal(*both_ways(monkeypatch, lambda: puc.quote(booster, X)))
    # Reading takes longer the more leaves there are.
    read: list[int] = []
    monkeypatch.setattr(leaf_sets, "MOST_LEAVES", 2_048)
    monkeypatch.setattr(leaf_sets, "LEAVES_PER_MASK", 2_048)
    monkeypatch.setattr(predictor, "subset_scores", lambda *args, **options: read.append(1))
    monkeypatch.setattr(predictor, "PREDICTIONS_WORTH_READING", 300)
    monkeypatch.setattr(predictor, "LEAVES_READ_FAST", leaves / 2)
    puc.predict(booster, X, num_threads=1)
    assert read == []
    monkeypatch.setattr(predictor, "LEAVES_READ_FAST", leaves)
    puc.predict(booster, X, num_threads=1)
    assert read == [1]


def test_models_that_cannot_be_read_are_left_to_their_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = LIGHTGBM.fit_alone({**LIGHTGBM.quiet, "linear_tree": True}, X, Y, 5)
    linear.consent = puc.Consent.declare(GROUPS, [f"Column_{j}" for j in range(8)])
    assert boosters_of(linear).trees(linear) is None
    assert_equal(*both_ways(monkeypatch, lambda: puc.quote(linear, X)))
    hinge = fit(XGBOOST, objective="binary:hinge")
    assert_equal(*both_ways(monkeypatch, lambda: puc.quote(hinge, X)))
    assert_equal(*both_ways(monkeypatch, lambda: puc.quote(hinge, X, raw_score=True)))


@every_engine
def test_trees_that_do_not_repeat_the_engine_are_not_trusted(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    booster = fitted(kit)
    kind = type(boosters_of(booster))
    original = kind.trees

    def slightly_different(self: Any, booster: Any, **options: Any) -> Forest:
        forest = original(self, booster, **options)
        return dataclasses.replace(forest, value=np.nextafter(forest.value, forest.value.dtype.type(9)))

    wanted = both_ways(monkeypatch, lambda: puc.quote(booster, X))[1]
    monkeypatch.setattr(kind, "trees", slightly_different)
    assert_equal(both_ways(monkeypatch, lambda: puc.quote(booster, X))[0], wanted)


def test_a_booster_may_change_between_two_calls(way: int) -> None:
    booster = fit(LIGHTGBM)
    before = puc.quote(booster, X, raw_score=True)
    for leaf in range(booster.dump_model(num_iteration=1)["tree_info"][0]["num_leaves"]):
        booster.set_leaf_output(0, leaf, booster.get_leaf_output(0, leaf) + 1.0)
    np.testing.assert_allclose(puc.quote(booster, X, raw_score=True), before + 1.0)


def test_values_that_the_engine_refuses(way: int) -> None:
    booster, odd = fitted(XGBOOST), X.copy()
    odd[7, 0] = np.inf
    with pytest.raises(ValueError, match="'Column_0' has inf;"):
        puc.quote(booster, odd)
    odd[7, 0] = 1e300  # infinite once it is a float32
    with pytest.raises(ValueError, match=r"'Column_0' has 1e\+300;"):
        puc.predict(booster, odd)
    odd[7, 0], odd[7, 5] = X[7, 0], np.inf  # in an optional column: nothing is wrong while it is withheld
    np.testing.assert_array_equal(
        puc.predict(booster, odd, sharing="withheld"), puc.predict(booster, X, sharing="withheld")
    )
    with pytest.raises(ValueError, match="'Column_5' has inf;"):
        puc.predict(booster, odd, sharing="best", favourable="lower")


def test_zeros_that_count_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = np.nan_to_num(X)
    booster = fit(LIGHTGBM, X=zeros, zero_as_missing=True)
    assert_equal(*both_ways(monkeypatch, lambda: puc.quote(booster, zeros)))


@every_engine
def test_an_audit_says_the_same_in_both_ways(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    booster = fitted(kit)
    found, wanted = both_ways(
        monkeypatch, lambda: puc.audit(booster, X, Y, margin=0.05, favourable="lower", **NO_FIT).to_dict()
    )
    assert found["sharing_effect"]["mean_bonus"] is not None
    assert found["sharing_effect"] == wanted["sharing_effect"]


def test_people_by_the_subsets_they_share(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(predictor, "PEOPLE_WORTH_A_LIST", 5)
    shared = rng.integers(0, 64, 200).astype(np.uint64)
    shared[:60] = 5
    for masks in ([0, 1, 5, 63], [5, 8], [64], list(range(64))):
        words = np.array(masks, dtype=np.uint64)
        seen = np.zeros((200, len(masks)), dtype=int)
        for people, which, all_share in people_by_subsets(shared, words):
            assert len(people)
            seen[np.ix_(people, which)] += 1
            complete = (shared[people, None] & words[which]) == words[which]
            assert complete.all() if all_share else complete.any(axis=0).all()
        wanted = (shared[:, None] & words) == words
        assert (seen[wanted] == 1).all()
        assert (seen[:60].astype(bool) == wanted[:60]).all()  # those with company are not asked about more


def test_a_table_without_groups_and_one_with_many_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaf_sets, "MASKS_AT_A_TIME", 3)
    booster = fitted(LIGHTGBM)
    assert_equal(*both_ways(monkeypatch, lambda: puc.quote(booster, X)))
    plain = MaskedPredictor(
        LIGHTGBM.fit_alone({**LIGHTGBM.quiet}, X, Y, 5),
        X,
        consent=puc.Consent({}, tuple(f"Column_{j}" for j in range(8))),
    )
    assert_equal(*both_ways(monkeypatch, lambda: plain.everybody(np.zeros(400, dtype=np.uint64))))


def test_subset_scores_know_what_only_the_engine_can_do() -> None:
    booster = fitted(LIGHTGBM)
    given = {"raw_score": False, "threads": 1}
    assert leaf_sets.subset_scores(booster, booster.consent, target_class=None, **given) is not None
    assert leaf_sets.subset_scores(booster, booster.consent, target_class=0, **given) is None
    fewer = puc.Consent({}, ("a", "b"))
    assert leaf_sets.subset_scores(booster, fewer, target_class=None, **given) is None
