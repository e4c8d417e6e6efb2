"""People who share nothing keep the prediction they had."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars
import pytest
from engine_kits import LIGHTGBM, XGBOOST, EngineKit, every_engine

import pucboost as puc
from pucboost._models.anchored import AnchoredModel
from pucboost.simulate import LogisticFamily, squared_puc_gap

PARAMS = {**LIGHTGBM.params, "learning_rate": 0.1}
ALONE = {**LIGHTGBM.quiet, "objective": "binary", "learning_rate": 0.1}
FAMILY = LogisticFamily.paper()
N = 2_000
TRAIN, TEST = FAMILY.sample(N, seed=0), FAMILY.sample(3_000, seed=1)
SILENT = ~TEST.available.any(axis=1)


def params_of(kit: EngineKit, **params: Any) -> dict[str, Any]:
    return {**kit.params, **kit.small_trees, "learning_rate": 0.1, "optional": FAMILY.optional, **params}


def legacy(kit: EngineKit, columns: int) -> Any:
    """An existing model, with some of the columns."""
    params = {**kit.params, **kit.small_trees, "learning_rate": 0.1}
    X = TRAIN.X[:, :columns].copy()
    X[:, FAMILY.n_base :] = np.nan  # it may have optional columns, but not read them
    return kit.fit_alone(params, X, TRAIN.y, 10)


@every_engine
@pytest.mark.parametrize("columns", [2, 5])
def test_non_sharers_keep_the_anchors_prediction_bit_for_bit(kit: EngineKit, columns: int) -> None:
    anchor = legacy(kit, columns)
    params = params_of(kit, anchor=anchor)
    model = puc.train(params, puc.Dataset(TRAIN.X, TRAIN.y), 15)
    assert isinstance(model, AnchoredModel)
    assert SILENT.sum() > 50
    before = kit.predict(anchor, TEST.X[SILENT][:, :columns])
    np.testing.assert_array_equal(model.predict(TEST.X)[SILENT], before)
    np.testing.assert_array_equal(model.predict(TEST.X[SILENT]), before)
    others = model.predict(TEST.X)[~SILENT]
    assert np.abs(others - kit.predict(anchor, TEST.X[~SILENT][:, :columns])).mean() > 0.02
    assert ((others > 0) & (others < 1)).all()
    np.testing.assert_allclose(
        1 / (1 + np.exp(-model.predict(TEST.X, raw_score=True))), model.predict(TEST.X), atol=1e-6
    )


@every_engine
def test_callable_anchor(kit: EngineKit) -> None:
    seen = []

    def tariff(X: Any) -> Any:
        seen.append(X)
        return 0.3 * X[:, 0] - 0.2

    params = params_of(kit, anchor=tariff)
    model = puc.train(params, puc.Dataset(TRAIN.X, TRAIN.y), 10)
    raw = model.predict(TEST.X, raw_score=True)
    np.testing.assert_array_equal(raw[SILENT], tariff(TEST.X[SILENT]))
    assert np.isnan(seen[0][:, FAMILY.optional]).all()  # the anchor never sees what is optional
    assert not np.isnan(TRAIN.X[:, FAMILY.optional]).all()  # … and the caller's table is as it was


@every_engine
def test_anchors_that_read_optional_columns_are_refused(kit: EngineKit) -> None:
    """With the columns erased, a plain model says what it learnt of the silent."""
    plain = kit.fit_alone({**kit.params, **kit.small_trees}, TRAIN.X, TRAIN.y, 10)
    data = puc.Dataset(TRAIN.X, TRAIN.y)
    with pytest.raises(
        ValueError, match=r"trees split on column 'Column_2', which is optional, and .* not trained under"
    ):
        puc.train(params_of(kit, anchor=plain), data, 5)
    with pytest.raises(ValueError, match="The anchor is a function that reads optional columns"):
        puc.train(params_of(kit, anchor=lambda X: kit.predict(plain, X) - 0.5), data, 5)
    under_consent = puc.train(params_of(kit), data, 20)
    model = puc.train(params_of(kit, anchor=under_consent), data, 5)
    np.testing.assert_array_equal(model.predict(TEST.X[SILENT]), puc.predict(under_consent, TEST.X[SILENT]))


def test_functions_that_read_optional_text_are_refused() -> None:
    frame = pd.DataFrame(TRAIN.X[:, :2], columns=["a", "b"])
    words = pd.Series(np.where(TRAIN.X[:, 0] > 0, "meat", "vegan"), dtype=object)
    frame["diet"] = words.where(TRAIN.X[:, 1] > 0)

    def reads(table: Any) -> Any:
        return np.array([0.1 if str(value) == "vegan" else 0.0 for value in table["diet"].to_list()])

    for diet in ("object", "category", "string"):
        table = frame.astype({"diet": diet})
        for given in (table, polars.from_pandas(table)):
            params = {**PARAMS, "optional": ["diet"], "anchor": reads}
            with pytest.raises(ValueError, match="The anchor is a function that reads optional columns"):
                puc.train(params, puc.Dataset(given, TRAIN.y), 2)
            puc.train({**params, "anchor": lambda X: np.zeros(len(X))}, puc.Dataset(given, TRAIN.y), 2)


def test_callable_anchor_gets_the_callers_kind_of_table() -> None:
    frame = pd.DataFrame(TRAIN.X, columns=FAMILY.feature_names).assign(k=pd.Categorical(["u", "v"] * (N // 2)))
    params = {
        **PARAMS,
        "optional": ["z1", "z2", "z3", "k"],
        "anchor": lambda X: 0.3 * X["b1"].to_numpy(),
    }
    model = puc.train(params, puc.Dataset(frame, TRAIN.y), 5)
    test = frame.iloc[:500].assign(
        z1=np.nan, z2=np.nan, z3=np.nan, k=pd.Categorical([None] * 500, categories=["u", "v"])
    )
    np.testing.assert_array_equal(model.predict(test, raw_score=True), 0.3 * test["b1"].to_numpy())
    assert np.isfinite(model.predict(frame)).all()


@pytest.mark.slow
@every_engine
def test_base_anchor_is_the_base_model_and_the_gap_stays_near(kit: EngineKit) -> None:
    """Rounds chosen on augmented validation data: in the mean at most 1.2 times the gap of the unanchored model.

    With trees of a size that suits the problem; the larger the trees, the more the correction overfits.
    """
    ratios = []
    for r, seed in itertools.product((1, 3, 6), (0, 1)):
        family = LogisticFamily.random(3, r, seed=r + 100 * seed)
        train, valid, test = (family.sample(n, seed=s + 10 * seed) for n, s in ((12_000, 5), (6_000, 6), (10_000, 7)))
        params = params_of(kit, **kit.tiny_trees, optional=family.optional, early_stopping_round=20)
        free, anchored = (
            puc.train(
                {**params, **extra}, puc.Dataset(train.X, train.y), 600, valid_sets=[puc.Dataset(valid.X, valid.y)]
            )
            for extra in ({}, {"anchor": "base"})
        )
        gaps = [squared_puc_gap(p, family, test.X) for p in (puc.predict(free, test.X), anchored.predict(test.X))]
        ratios.append(gaps[1] / gaps[0])
        silent = ~test.available.any(axis=1)
        base = anchored.anchor.model
        np.testing.assert_array_equal(anchored.predict(test.X)[silent], kit.predict(base, test.X[silent]))
    assert np.mean(ratios) < 1.2, ratios


# ---------------------------------------------------------------- the soft form


@every_engine
def test_soft_anchor_pulls_non_sharers(kit: EngineKit) -> None:
    """The stronger the pull, the nearer those who share nothing come to the anchor; at nearly zero it is plain PUC."""

    def tariff(X: Any) -> Any:
        return np.full(len(X), 1.0)

    distance = []
    for strength in (1e-6, 0.3, 30.0):
        params = params_of(kit, anchor=tariff, anchor_strength=strength)
        booster = puc.train(params, puc.Dataset(TRAIN.X, TRAIN.y), 40)
        assert isinstance(booster, kit.module.Booster)
        assert booster.consent.n_groups == 3
        p = kit.predict(booster, TEST.X)
        assert ((p > 0) & (p < 1)).all()
        distance.append(np.abs(np.log(p / (1 - p))[SILENT] - 1.0).mean())
    assert distance[0] > 2 * distance[1] > 4 * distance[2], distance
    plain = puc.train(params_of(kit), puc.Dataset(TRAIN.X, TRAIN.y), 40)
    weak = params_of(kit, anchor=tariff, anchor_strength=1e-9)
    nearly = puc.train(weak, puc.Dataset(TRAIN.X, TRAIN.y), 40)
    # The start is the best constant on both sides; gradients are float32, so a few near-ties fall the other way.
    assert np.abs(kit.predict(plain, TEST.X) - kit.predict(nearly, TEST.X)).mean() < 0.01


def test_soft_anchor_with_early_stopping_and_model_file(tmp_path: Path) -> None:
    params = {
        **PARAMS, "optional": FAMILY.optional, "anchor": "base", "anchor_strength": 1.0,
        "early_stopping_round": 10,
    }  # fmt: skip
    record: dict[str, Any] = {}
    booster = puc.train(
        params,
        puc.Dataset(TRAIN.X, TRAIN.y),
        300,
        valid_sets=[puc.Dataset(TEST.X, TEST.y)],
        callbacks=[lgb.record_evaluation(record)],
    )
    assert 0 < booster.best_iteration < 300
    assert record["valid_0"]["binary"][0] > record["valid_0"]["binary"][booster.best_iteration - 1]
    puc.save_model(booster, tmp_path / "model.txt")
    np.testing.assert_array_equal(puc.load_model(tmp_path / "model.txt").predict(TEST.X), booster.predict(TEST.X))


# ---------------------------------------------------------------- bad input


def test_bad_anchors(tmp_path: Path) -> None:
    silent = TRAIN.X.copy()
    silent[:, FAMILY.optional] = np.nan
    forest = {**XGBOOST.params, "anchor": "base", "objective": "multi:softmax", "num_class": 2}
    narrow, names = legacy(LIGHTGBM, 3), list("abcde")
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"anchor": 3}, {}, "anchor must be 'base', a booster, a fitted estimator .* or a callable"),
        ({"anchor_strength": 1.0}, {}, "anchor_strength needs an anchor"),
        ({"anchor": "base", "anchor_strength": 0}, {}, "anchor_strength must be a positive number, got 0"),
        ({"anchor": "base", "optional": []}, {}, "anchor needs optional features"),
        ({"anchor": "base", "objective": "huber"}, {}, "anchor needs a built-in objective whose link is known"),
        ({"anchor": "base", "compact": True}, {}, "compact with anchor is not supported"),
        ({"anchor": "base", "zero_as_missing": True}, {}, "anchor with zero_as_missing"),
        ({"anchor": "base"}, {"init_score": np.zeros(N)}, "anchor with init_score"),
        ({"anchor": "base"}, {"data": silent}, "Nobody in train_set shares anything"),
        ({"anchor": lambda X: np.zeros(7)}, {}, r"one raw score for each of the 2000 rows, got shape \(7,\)"),
        ({"anchor": lambda X: np.where(np.arange(len(X)) == 5, np.nan, 0.0)}, {}, "score is not finite in row 5"),
        ({"anchor": narrow}, {"feature_name": names}, "has 3 features; the table has 5 columns, 2 of them not optiona"),
        (forest, {}, "anchor with objective 'multi:softmax'"),
    ]
    for params, given, message in cases:
        data = puc.Dataset(**{"data": TRAIN.X, "label": TRAIN.y, **given})
        with pytest.raises(ValueError, match=message):
            puc.train({**({} if "engine" in params else PARAMS), "optional": FAMILY.optional, **params}, data, 2)
    data, plain = puc.Dataset(TRAIN.X, TRAIN.y), {**PARAMS, "optional": FAMILY.optional}
    with pytest.raises(ValueError, match="anchor is not supported by cv"):
        puc.cv({**plain, "anchor": "base"}, data, 2)
    with pytest.raises(ValueError, match="anchor with init_model"):
        puc.train({**plain, "anchor": "base"}, data, 2, init_model=puc.train(plain, data, 2))
    model = puc.train({**plain, "anchor": "base"}, data, 2)
    with pytest.raises(ValueError, match="The table has 4 columns"):
        model.predict(TEST.X[:, :4])
    with pytest.raises(TypeError, match="save_model takes no num_iteration for an anchored model"):
        puc.save_model(model, tmp_path / "model.json", num_iteration=1)
    puc.save_model(model, tmp_path / "model.json")
    with pytest.raises(ValueError, match="is an anchored model, which cannot be continued"):
        puc.train(plain, data, 2, init_model=tmp_path / "model.json")


# ---------------------------------------------------------------- found by review


def test_anchor_gets_its_own_columns() -> None:
    """By name where it has names, in whatever order; by position of the base columns where it has none."""
    table = TRAIN.X[:, [2, 0, 1, 3]]  # z1, b1, b2, z2
    base = lgb.train(ALONE, lgb.Dataset(table[:, [1, 2]], TRAIN.y), 10)
    params = {**PARAMS, "optional": [0, 3]}
    model = puc.train({**params, "anchor": base}, puc.Dataset(table, TRAIN.y), 5)
    silent = np.isnan(table[:, [0, 3]]).all(axis=1)
    assert silent.any()
    np.testing.assert_array_equal(model.predict(table)[silent], base.predict(table[silent][:, [1, 2]]))

    frame = pd.DataFrame(table, columns=["z one", "b one", "b two", "z two"])
    for columns in (["b two", "b one"], ["z two", "b two", "z one", "b one"]):
        erased = frame.assign(**{"z one": np.nan, "z two": np.nan})
        named = lgb.train(ALONE, lgb.Dataset(erased[columns], TRAIN.y), 10)
        model = puc.train({**params, "anchor": named}, puc.Dataset(frame, TRAIN.y), 5)
        np.testing.assert_array_equal(model.predict(frame)[silent], named.predict(frame.loc[silent, columns]))
    other = lgb.train(ALONE, lgb.Dataset(pd.DataFrame({"q": TRAIN.X[:, 0]}), TRAIN.y), 2)
    with pytest.raises(ValueError, match="The anchor was trained on a column 'q', which the table does not have"):
        puc.train({**params, "anchor": other}, puc.Dataset(frame, TRAIN.y), 2)
    with pytest.raises(ValueError, match="Column 0 is 'z two', but the consent schema expects 'z one' there"):
        model.predict(frame[frame.columns[::-1]])


@every_engine
def test_anchored_predictions_of_sparse_tables_and_lists(kit: EngineKit) -> None:
    import scipy.sparse

    X = np.where(np.random.default_rng(0).random(TRAIN.X.shape) < 0.3, 0.0, TRAIN.X)
    model = puc.train(params_of(kit, anchor="base"), puc.Dataset(X, TRAIN.y), 5)
    np.testing.assert_allclose(model.predict(scipy.sparse.csr_matrix(X[:200])), model.predict(X[:200]), rtol=1e-6)
    np.testing.assert_allclose(model.predict(X[:20].tolist()), model.predict(X[:20]), rtol=1e-6)


@every_engine
def test_soft_anchor_multiclass(kit: EngineKit) -> None:
    y = TRAIN.y + (TRAIN.X[:, 0] > 1)
    params = params_of(kit, objective=kit.objectives["multiclass"], num_class=3)
    plain = kit.predict(puc.train(params, puc.Dataset(TRAIN.X, y), 10), TEST.X)
    weak = {**params, "anchor": lambda X: np.zeros((len(X), 3)), "anchor_strength": 1e-9}
    nearly = kit.predict(puc.train(weak, puc.Dataset(TRAIN.X, y), 10), TEST.X)
    assert np.abs(plain - nearly).mean() < 5e-3
    strong = kit.predict(puc.train({**weak, "anchor_strength": 100.0}, puc.Dataset(TRAIN.X, y), 40), TEST.X)
    assert np.abs(strong[SILENT] - 1 / 3).mean() < np.abs(plain[SILENT] - 1 / 3).mean() / 3


def test_scikit_learn_wrappers_are_unwrapped() -> None:
    legacy_model = lgb.LGBMClassifier(n_estimators=5, verbosity=-1).fit(TRAIN.X[:, :2], TRAIN.y)
    params = {**PARAMS, "optional": FAMILY.optional, "anchor": legacy_model}
    model = puc.train(params, puc.Dataset(TRAIN.X, TRAIN.y), 3)
    np.testing.assert_array_equal(
        model.predict(TEST.X)[SILENT], legacy_model.predict_proba(TEST.X[SILENT][:, :2])[:, 1]
    )


def test_callbacks_run_once() -> None:
    seen = []

    def note(env: Any) -> None:
        seen.append(env.iteration)

    params = {**PARAMS, "optional": FAMILY.optional, "anchor": "base"}
    puc.train(params, puc.Dataset(TRAIN.X, TRAIN.y), 4, callbacks=[note])
    assert seen == [0, 1, 2, 3]


RARE = (np.random.default_rng(3).normal(size=(3_000, 2)), (np.random.default_rng(4).random(3_000) < 0.05) * 1.0)
RARE[0][::2, 1] = np.nan


def test_predictions_in_place_of_raw_scores_are_refused() -> None:
    """Probabilities as raw scores would tell the silent 0.51 instead of 0.05."""
    for objective, mean in (("binary", "0.5125"), ("poisson", "1.051")):
        params = {**PARAMS, "objective": objective, "optional": [1], "anchor": lambda X: np.full(len(X), 0.05)}
        message = f"prediction of {mean}, where the mean outcome is 0.04867; taken as predictions, .* is 0.05"
        for strength in ({}, {"anchor_strength": 1.0}):
            with pytest.raises(ValueError, match=message):
                puc.train({**params, **strength}, puc.Dataset(*RARE), 3)


def test_an_anchor_that_is_far_off_is_warned_of() -> None:
    params = {**PARAMS, "objective": "binary", "optional": [1]}
    with pytest.warns(UserWarning, match=r"a mean prediction of 0\.5, where the mean outcome is 0\.04867"):
        puc.train({**params, "anchor": lambda X: np.zeros(len(X))}, puc.Dataset(*RARE), 3)
    right = puc.train({**params, "anchor": lambda X: np.full(len(X), np.log(0.05 / 0.95))}, puc.Dataset(*RARE), 3)
    np.testing.assert_allclose(right.predict(RARE[0])[::2], 0.05)
