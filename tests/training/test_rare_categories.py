"""Rare categories of optional columns: whoever has one must not be taken for someone who is silent."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import polars as pl
import pytest
from engine_kits import LIGHTGBM, NATIVE, EngineKit, every_engine

import pucboost as puc

N = 8_000
FREQUENT = 20
SAME_FORMAT = pytest.mark.parametrize("kit", [LIGHTGBM, NATIVE], ids=str)


def people(people_per_category: float, seed: int = 0, n: int = N) -> tuple[Any, Any, Any]:
    """Return (X, y, rare): a fifth have a rare category, which adds 1 to the outcome; half share their category.

    Silence says nothing: whoever keeps silent is to be told 0.3·b + 0.2.
    """
    generator = np.random.default_rng(seed)
    b, rare = generator.normal(size=n), generator.random(n) < 0.2
    n_rare = max(2, int(0.1 * n / people_per_category))  # half of them share
    category = np.where(rare, FREQUENT + generator.integers(0, n_rare, n), generator.integers(0, FREQUENT, n))
    y = 0.3 * b + rare + generator.normal(scale=0.3, size=n)
    shares = generator.random(n) < 0.5
    return np.column_stack([b, np.where(shares, category, np.nan)]), y, rare


def fit(kit: EngineKit, X: Any, y: Any, rounds: int = 60, train: Any = puc.train, **params: Any) -> Any:
    regression = {"objective": kit.objectives["l2"], "optional": {"z": [1]}, "seed": 1}
    return train({**kit.params, **regression, **params}, lgb.Dataset(X, y, categorical_feature=[1]), rounds)


def shift(kit: EngineKit, booster: Any) -> float:
    b = np.linspace(-1.5, 1.5, 301)
    silent = np.column_stack([b, np.full(len(b), np.nan)])
    return float(np.mean(kit.predict(booster, silent) - 0.3 * b - 0.2))


@every_engine
@pytest.mark.parametrize("people_per_category", [1, 5, 15])
def test_the_silent_are_told_what_everybody_is(kit: EngineKit, people_per_category: float) -> None:
    """Taken for silent, these sharers would raise what the silent are told by 0.1 / 1.1 · 0.8 = 0.073."""
    X, y, rare = people(people_per_category)
    given = X.copy()
    off = shift(kit, fit(kit, X, y)) - (rare.mean() - 0.2)
    assert abs(off) < 0.015
    assert np.array_equal(X, given, equal_nan=True)


@SAME_FORMAT
def test_categories_that_are_rare_in_the_sample_for_the_bins(kit: EngineKit) -> None:
    """Forty people share each, of whom few are among the 1,000 rows by which bins are made."""
    X, y, rare = people(40)
    booster = fit(kit, X, y, bin_construct_sample_cnt=1_000)
    assert abs(shift(kit, booster) - (rare.mean() - 0.2)) < 0.015
    known = np.unique(X[X[:, 1] >= FREQUENT, 1])
    assert booster.predict(np.column_stack([np.zeros(len(known)), known])) == pytest.approx(1.0, abs=0.15)


def test_merged_rows() -> None:
    X, y, _ = people(1)
    X[:, 0] = np.round(X[:, 0])
    y = np.round(y - X[:, 0] * 0.3 + X[:, 0])
    for compact in (False, True):
        told = float(fit(LIGHTGBM, X, y, compact=compact).predict(np.array([[0.0, np.nan]]))[0])
        assert told == pytest.approx(y[X[:, 0] == 0].mean(), abs=0.02)


@SAME_FORMAT
def test_every_rare_category_is_read_like_the_others(kit: EngineKit) -> None:
    X, y, _ = people(2)
    booster = fit(kit, X, y)
    known = np.unique(X[X[:, 1] >= FREQUENT, 1])
    assert len(known) > 200
    rare = booster.predict(np.column_stack([np.zeros(len(known)), known]))
    assert len(set(rare)) == 1
    assert rare[0] == pytest.approx(1.0, abs=0.1)
    nothing, unheard_of, frequent = booster.predict(np.array([[0.0, np.nan], [0.0, 10_000.0], [0.0, 3.0]]))
    assert nothing == unheard_of == pytest.approx(0.2, abs=0.1)
    assert frequent == pytest.approx(0.0, abs=0.1)
    assert np.array_equal(rare[:1], lgb.Booster(model_str=booster.model_to_string()).predict([[0.0, known[-1]]]))


@SAME_FORMAT
def test_categories_with_enough_people_stay_apart(kit: EngineKit) -> None:
    X, y, _ = people(200)
    first = X[:, 1] == FREQUENT
    y[first] += 2.0
    booster = fit(kit, X, y)
    both = booster.predict(np.array([[0.0, FREQUENT], [0.0, FREQUENT + 1]]))
    assert both == pytest.approx([3.0, 1.0], abs=0.3)


@SAME_FORMAT
def test_base_columns_are_left_to_the_engine(kit: EngineKit) -> None:
    X, y, _ = people(1)
    X = np.column_stack([X[:, 1], X])  # the same categories as a base column
    data = lgb.Dataset(X, y, categorical_feature=[0])
    params = {**kit.params, "objective": "regression", "optional": {"z": [1]}}
    booster = puc.train(params, data, 5)
    rare = X[X[:, 0] >= FREQUENT][:1]
    silent = np.column_stack([np.nan, rare[:, 1:]])
    assert np.array_equal(booster.predict(rare), booster.predict(silent))


def test_text_in_a_frame() -> None:
    X, y, _ = people(2)
    names = [None if np.isnan(code) else f"category {code:.0f}" for code in X[:, 1]]
    frame = pl.DataFrame({"b": X[:, 0], "z": names})
    booster = puc.train({**LIGHTGBM.params, "objective": "regression", "optional": ["z"]}, (frame, y), 60)
    some = sorted({name for name in names if name is not None and int(name[9:]) >= FREQUENT})[::10]
    rare = puc.predict(booster, pl.DataFrame({"b": np.zeros(len(some)), "z": some}))
    assert rare == pytest.approx(np.ones(len(some)), abs=0.15)


@SAME_FORMAT
def test_a_model_that_is_continued_reads_what_people_gave(kit: EngineKit) -> None:
    X, y, _ = people(2)
    rare = X[:, 1] >= FREQUENT
    odd = rare & (X[:, 1] % 2 == 1)
    y = np.where(odd, y + 5.0, y)
    # This one tells rare categories apart: they were frequent when it was trained.
    few = np.where(rare, FREQUENT + X[:, 1] % 2, X[:, 1])
    before = fit(kit, np.column_stack([X[:, 0], few]), y, 30)
    seen: list[Any] = []

    def gradient(preds: Any, data: Any) -> Any:
        seen.append(np.array(preds))
        return preds - data.get_label(), np.ones(len(preds))

    continued = {"augmentation": "exhaustive", "objective": gradient, "learning_rate": 1e-9}
    after = fit(kit, X, y, 1, train=lambda *given: puc.train(*given, init_model=before), **continued)
    rows = puc.augment(X, y, optional={"z": [1]}, augmentation="exhaustive")[0]
    assert seen[0] == pytest.approx(before.predict(rows), abs=1e-6)
    assert after.predict(rows) == pytest.approx(before.predict(rows), abs=1e-6)


@SAME_FORMAT
def test_folds(kit: EngineKit) -> None:
    X, y, _ = people(2)

    def cross_validated(*given: Any) -> Any:
        return puc.cv(*given, nfold=2, stratified=False, return_cvbooster=True)

    for booster in fit(kit, X, y, 40, train=cross_validated)["cvbooster"].boosters:
        known = np.unique(X[X[:, 1] >= FREQUENT, 1])
        told = booster.predict(np.column_stack([np.zeros(len(known)), known]))
        assert np.mean(np.abs(told - 1.0) < 0.2) > 0.6  # a fold has not seen them all


def test_a_booster_that_keeps_its_data() -> None:
    X, y, _ = people(2)
    kept = fit(LIGHTGBM, X, y, train=lambda *given: puc.train(*given, keep_training_booster=True))
    finished = fit(LIGHTGBM, X, y)
    for booster in (kept, finished):
        assert abs(shift(LIGHTGBM, booster)) < 0.015
    frequent = X[X[:, 1] < FREQUENT]
    assert np.array_equal(kept.predict(frequent), finished.predict(frequent))


@SAME_FORMAT
def test_an_anchored_model(kit: EngineKit) -> None:
    X, y, _ = people(2)
    model = fit(kit, X, y, anchor="base")
    known = np.unique(X[X[:, 1] >= FREQUENT, 1])
    told = model.predict(np.column_stack([np.zeros(len(known)), known]))
    assert told == pytest.approx(np.ones(len(known)), abs=0.15)


def test_more_categories_than_native_bins() -> None:
    """The rarest 150 of 400 have 20 people each who share them, and no bin."""
    generator = np.random.default_rng(0)
    n = 30_000
    category = np.where(generator.random(n) < 0.2, 250 + generator.integers(0, 150, n), generator.integers(0, 250, n))
    y = (category >= 250) + generator.normal(scale=0.3, size=n)
    X = np.column_stack([generator.normal(size=n), np.where(generator.random(n) < 0.5, category, np.nan)])
    booster = fit(NATIVE, X, y, 40)
    silent = np.column_stack([np.linspace(-1, 1, 50), np.full(50, np.nan)])
    assert booster.predict(silent).mean() == pytest.approx((category >= 250).mean(), abs=0.015)
    assert booster.predict(np.array([[0.0, 250.0], [0.0, 399.0]])) == pytest.approx([1.0, 1.0], abs=0.2)


@SAME_FORMAT
def test_numbers_too_large_to_be_written(kit: EngineKit) -> None:
    X, y, _ = people(1)
    X[:, 1] = np.where(X[:, 1] >= FREQUENT, X[:, 1] + 200_000, X[:, 1])
    with pytest.raises(ValueError, match="'Column_1' has categories that few people share"):
        fit(kit, X, y)
