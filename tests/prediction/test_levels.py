"""Quotes, the best subset and sharing values where some groups are shared only with others."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_kits import LIGHTGBM, EngineKit, every_engine
from forest_of_groups import forests, nesting_of
from hypothesis import given, settings
from twins import ideals as naive_ideals

import pucboost as puc
from pucboost._consent import Consent, Nesting
from pucboost._prediction.predictor import best_subsets, mask_of, subset_masks, subset_names
from pucboost._prediction.sharing import shapley_weights

NAMES = ["age", "steps", "pulse", "gps", "glucose"]
OPTIONAL = {
    "fitness": puc.Levels(basic=["steps"], full=["pulse"]),
    "gps": puc.Needs("fitness: basic", ["gps"]),
    "blood": ["glucose"],
}
CONSENT = Consent.declare(OPTIONAL, NAMES)
NEEDS = {1: 0, 2: 0}


@cache
def people(n: int = 500) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(n, 5)), columns=NAMES)
    y = table.sum(axis=1) + 0.3 * rng.normal(size=n)
    for name in NAMES[1:]:
        table.loc[rng.random(n) < 0.3, name] = np.nan
    table.loc[table["steps"].isna(), ["pulse", "gps"]] = np.nan
    return table, y.to_numpy()


@cache
def model(kit: EngineKit) -> Any:
    X, y = people()
    return kit.fit(X, y, 20, optional=OPTIONAL, objective=kit.objectives["l2"])


def shown(X: Any, mask: int) -> Any:
    X = X.copy()
    X[[X.columns[j] for j in CONSENT.columns_outside(mask)]] = np.nan
    return X


@every_engine
def test_one_column_per_set_that_can_be_shared(kit: EngineKit) -> None:
    X, _ = people()
    quotes, shared = puc.quote(model(kit), X), CONSENT.availability(X.to_numpy())
    half = ["nothing", "fitness: basic", "fitness: full", "gps", "fitness: full + gps"]
    assert list(quotes) == [*half, "blood", *(f"{name} + blood" for name in half[1:])]
    for name, mask in zip(quotes, naive_ideals.ideals(15, NEEDS), strict=True):
        may = (shared & np.uint64(mask)) == np.uint64(mask)
        assert (quotes[name].notna() == may).all()
        np.testing.assert_array_equal(quotes.loc[may, name], kit.predict(model(kit), shown(X, mask)[may]))


def test_sets_are_named_by_what_goes_without_saying() -> None:
    masks = subset_masks(CONSENT)
    assert masks == naive_ideals.ideals(15, NEEDS)
    names = subset_names(masks, CONSENT)
    assert len(set(names)) == len(masks) == 10
    assert [mask_of([] if name == "nothing" else name.split(" + "), CONSENT) for name in names] == masks
    assert subset_masks(CONSENT, ["alone", "all_but_one"]) == [0b1, 0b11, 0b101, 0b1000, 0b1101, 0b1011, 0b0111]
    assert subset_masks(CONSENT, [["gps"], ["blood", "fitness: full"]]) == [0b101, 0b1011]


def test_sixty_levels_have_61_quotes_and_many_trees_are_refused() -> None:
    names = [f"c{j}" for j in range(61)]
    chain = Consent.declare({"level": puc.Levels(*([j] for j in range(1, 61)))}, names)
    assert subset_names(subset_masks(chain), chain) == ["nothing", *(f"level {k}" for k in range(1, 61))]
    pairs = {f"a{j}": puc.Levels([2 * j + 1], [2 * j + 2]) for j in range(4)}
    with pytest.raises(ValueError, match=r"There are 81 admissible subsets of 8 groups. Choose some"):
        subset_masks(Consent.declare(pairs, names))


@given(forests(most=6))
@settings(max_examples=40)
def test_the_best_subset_is_the_best_that_can_be_shared(forest: dict[int, int]) -> None:
    nesting, needs = nesting_of(forest)
    r = len(nesting.needed)
    rng = np.random.default_rng(r)
    values = rng.integers(0, 5, (30, 2**r)).astype(float)
    every = naive_ideals.ideals(2**r - 1, needs)
    shared = rng.choice(every, 30).astype(np.uint64)

    def all_subsets(some: Any, submasks: Any) -> Any:
        yield some, values[some][:, submasks.astype(int)]

    best, used = best_subsets(shared, all_subsets, 1.0, nesting=nesting)
    for i, mask in enumerate(shared.tolist()):
        may = naive_ideals.ideals(mask, needs)
        least = min(values[i, s] for s in may)
        assert best[i] == least == values[i, int(used[i])]
        assert int(used[i]) in may
        assert int(used[i]).bit_count() == max(s.bit_count() for s in may if values[i, s] == least)


@every_engine
def test_the_bonus_over_quotes_and_its_greedy_search(kit: EngineKit) -> None:
    X, _ = people()
    quotes = puc.quote(model(kit), X)
    best, used = puc.predict(model(kit), X, sharing="best", favourable="higher", return_subset=True)
    np.testing.assert_array_equal(best, quotes.max(axis=1))
    assert not (used["fitness: full"] & ~used["fitness: basic"]).any()
    searched, masks = puc.predict(
        model(kit), X, sharing="best", favourable="higher", search="greedy", max_subsets=1, return_subset=True
    )
    assert not (masks["gps"] & ~masks["fitness: basic"]).any()
    assert (searched <= best).all()
    assert (searched >= np.maximum(quotes["nothing"], puc.predict(model(kit), X))).all()
    assert (searched == best).mean() > 0.9
    with pytest.raises(ValueError, match="shares 4 groups, 10 subsets, more than max_subsets = 9"):
        puc.predict(model(kit), X, sharing="best", favourable="lower", max_subsets=9)


@given(forests(most=6))
@settings(max_examples=40)
def test_shapley_weights_are_averages_over_the_orders_in_which_groups_can_be_shared(forest: dict[int, int]) -> None:
    nesting, needs = nesting_of(forest)
    r = len(nesting.needed)
    rng = np.random.default_rng(r)
    mask = int(rng.choice(naive_ideals.ideals(2**r - 1, needs)))
    every = naive_ideals.ideals(mask, needs)
    value = dict(zip(every, rng.normal(size=len(every)), strict=True))
    found = np.array([value[s] for s in every]) @ shapley_weights(mask, nesting)
    wanted = naive_ideals.shapley_values(value, mask, needs)
    np.testing.assert_allclose(found, list(wanted.values()), atol=1e-12)
    assert found.sum() == pytest.approx(value[mask] - value[0])


def test_the_values_of_levels_are_their_steps() -> None:
    """There is only one order of a chain, however long; without levels 60 groups would be refused."""
    chain = Nesting((-1, *range(59)))
    weights = shapley_weights(2**60 - 1, chain)
    value = np.random.default_rng(0).normal(size=61)
    np.testing.assert_allclose(value @ weights, np.diff(value), atol=1e-12)


def test_sharing_values_and_monotonicity_of_a_model() -> None:
    booster, (X, _) = model(LIGHTGBM), people()
    quotes, values = puc.quote(booster, X), puc.sharing_value(booster, X)
    assert list(values) == ["withheld", *CONSENT.group_names, "as_given"]
    np.testing.assert_allclose(values[list(CONSENT.group_names)].sum(axis=1), values["as_given"] - values["withheld"])
    masks = naive_ideals.ideals(15, NEEDS)
    for i, mask in list(enumerate(CONSENT.availability(X.to_numpy()).tolist()))[:40]:
        told = {m: float(quotes.iloc[i, place]) for place, m in enumerate(masks) if m & mask == m}
        wanted = naive_ideals.shapley_values(told, mask, NEEDS)
        found = values.iloc[i, 1:-1]
        assert [found.iloc[g] for g in range(4)] == pytest.approx([wanted.get(g, 0.0) for g in range(4)])
    found = puc.sharing_effects(booster, X, favourable="lower")
    given = puc.predict(booster, X)
    assert found.share_worse_than_best == pytest.approx((given > quotes.min(axis=1)).mean())
    assert found.largest_loss_against_best == pytest.approx((given - quotes.min(axis=1)).max())
    assert found.share_worse_with_bonus == 0


@every_engine
def test_every_prediction_of_ours_treats_values_without_what_they_need_as_withheld(kit: EngineKit) -> None:
    X, y = people()
    odd = X.copy()
    odd.loc[X["steps"].isna(), "gps"] = 3.0
    assert not odd.equals(X)
    assert not np.array_equal(kit.predict(model(kit), odd), kit.predict(model(kit), X))  # the engine does not know
    np.testing.assert_array_equal(puc.predict(model(kit), odd), puc.predict(model(kit), X))
    pd.testing.assert_frame_equal(puc.quote(model(kit), odd), puc.quote(model(kit), X))
    pd.testing.assert_frame_equal(puc.sharing_value(model(kit), odd), puc.sharing_value(model(kit), X))
    many, many_odd = (pd.concat([one] * 60, ignore_index=True) for one in (X, odd))  # trees are read from here on
    pd.testing.assert_frame_equal(puc.quote(model(kit), many_odd), puc.quote(model(kit), many))
    estimator = puc.PUCRegressor(optional=OPTIONAL, engine=kit.name, n_estimators=5, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(estimator.predict(odd), estimator.predict(X))
    params = {**kit.params, "objective": kit.objectives["l2"], "optional": OPTIONAL, "anchor": "base"}
    anchored = puc.train(params, puc.Dataset(X, y), 5)
    for predict in (anchored.predict, lambda table: puc.predict(anchored, table)):
        np.testing.assert_array_equal(predict(odd), predict(X))
    np.testing.assert_array_equal(anchored.predict(odd, pred_contrib=True), anchored.predict(X, pred_contrib=True))
    pd.testing.assert_frame_equal(puc.quote(anchored, many_odd), puc.quote(anchored, many))
