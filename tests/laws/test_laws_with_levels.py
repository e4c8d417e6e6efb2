"""The laws where some groups are shared only with others: masks are then the admissible sets."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter, defaultdict
from functools import cache
from typing import Any

import numpy as np
import pytest
from engine_kits import LIGHTGBM, EngineKit, every_engine
from scipy import stats
from tools import make_table
from twins import ideals as naive_ideals

import pucboost as puc
from pucboost._consent import Consent, Nesting
from pucboost._tables.sources import row_source
from pucboost._virtual.plan import plan_masks
from pucboost._virtual.rows import MaskedRows
from pucboost.simulate import DiscreteFamily, squared_puc_gap

LEVELS = {"fitness": puc.Levels([3], [4], [5])}
FORK = {"app": [3], "blood": [6], "steps": puc.Needs("app", [4]), "gps": puc.Needs("app", [5])}
NEEDS = {"levels": {1: 0, 2: 1}, "fork": {2: 0, 3: 0}}
OPTIONAL = {"levels": LEVELS, "fork": FORK}
shapes = pytest.mark.parametrize("shape", OPTIONAL)


def people(n: int = 800, seed: int = 0) -> tuple[Any, Any]:
    """Four optional columns; those without what they need are still there."""
    return make_table(n, n_optional=4, seed=seed)


def admissible(X: Any, shape: str) -> Any:
    """The same people without values that lack what they need."""
    X = X.copy()
    if shape == "levels":
        X[np.isnan(X[:, 3]), 4] = np.nan
        X[np.isnan(X[:, 4]), 5] = np.nan
    else:
        X[np.isnan(X[:, 3])[:, None] & np.isin(np.arange(X.shape[1]), [4, 5])] = np.nan
    return X


def names() -> list[str]:
    return [f"c{j}" for j in range(7)]


# ----- law 1: truth


@cache
def gap(kit: EngineKit, n: int, augmentation: str) -> float:
    family = DiscreteFamily.random(2, 3, seed=0, nested=True)
    train, test = family.sample(n, seed=1), family.sample(10_000, seed=999)
    given = {**kit.small_trees, "learning_rate": 0.15, "optional": family.optional, "augmentation": augmentation}
    booster = kit.fit(train.X, train.y, 40, **given, seed=1)
    return squared_puc_gap(kit.predict(booster, test.X), family, test.X)


@every_engine
def test_gap_falls_with_n_and_beats_plain_training(kit: EngineKit) -> None:
    gaps = [gap(kit, n, "balanced") for n in (1_000, 16_000)]
    assert gaps[0] > 2 * gaps[1], gaps
    plain = gap(kit, 16_000, "none")
    assert gaps[1] < plain / 4, (plain, gaps)
    assert gap(kit, 16_000, "fixed") < plain / 4


# ----- law 3: stream = table


@every_engine
@shapes
@pytest.mark.parametrize(("augmentation", "copies"), [("balanced", 1.7), ("exhaustive", None), ("fixed", None)])
def test_same_trees_from_the_stream_and_from_the_table(
    kit: EngineKit, shape: str, augmentation: str, copies: Any
) -> None:
    X, y = people()
    X = admissible(X, shape)
    params = {"optional": OPTIONAL[shape], "augmentation": augmentation, "copies": copies, "seed": 4}
    assert kit.trees(kit.fit(X, y, 8, **params)) == kit.trees(kit.fit_table(X, y, 8, **params))


# ----- law 4: purity


@shapes
@pytest.mark.parametrize("augmentation", ["balanced", "exhaustive", "fixed", "none"])
def test_pieces_threads_and_order_do_not_matter(shape: str, augmentation: str) -> None:
    X, _ = people(3_000)
    consent = Consent.declare(OPTIONAL[shape], names())
    plan = plan_masks(consent.availability(X), augmentation, copies=1.8, seed=5, nesting=consent.nesting)
    one, several = (MaskedRows(row_source(X), consent, plan, num_threads=threads) for threads in (1, 3))
    whole = one[:]
    np.testing.assert_array_equal(several[:], whole)
    order = np.random.default_rng(0).permutation(len(plan))
    np.testing.assert_array_equal(several[order], whole[order])
    np.testing.assert_array_equal(np.concatenate([batch.copy() for _, batch in one.batches(777)]), whole)


@shapes
@pytest.mark.parametrize("augmentation", ["balanced", "exhaustive", "none"])
def test_parts_of_a_table_have_the_plan_of_the_whole(shape: str, augmentation: Any) -> None:
    X, y = people(600)
    X = admissible(X, shape)
    X[:200, 3:] = np.nan  # parts differ much
    cuts = [0, 150, 151, 400, 600]
    parts = [(X[lo:hi], y[lo:hi]) for lo, hi in itertools.pairwise(cuts)]
    facts = [puc.distributed.SharedPlan.facts(*part, optional=OPTIONAL[shape]) for part in parts]
    plan = puc.distributed.SharedPlan.agree(facts, augmentation=augmentation, copies=1.5, seed=3)
    plan = plan.complete([plan.count(part[0], number) for number, part in enumerate(parts)])
    found = [plan.augment(*part, part=number) for number, part in enumerate(parts)]
    wanted = puc.augment(X, y, optional=OPTIONAL[shape], augmentation=augmentation, copies=1.5, seed=3)
    for k in range(3):
        np.testing.assert_array_equal(np.concatenate([one[k] for one in found]), wanted[k])


# ----- law 5: weight


@shapes
def test_exhaustive_is_every_admissible_set_once(shape: str) -> None:
    X, y = people(60)
    X = admissible(X, shape)
    consent = Consent.declare(OPTIONAL[shape], names())
    given = {"optional": OPTIONAL[shape], "indicators": True}
    table, _, weight, source = puc.augment(X, y, **given, augmentation="exhaustive")
    assert (weight == 1).all()
    r = consent.n_groups
    found = Counter(
        (int(i), sum(int(bit) << g for g, bit in enumerate(row[-r:]))) for i, row in zip(source, table, strict=True)
    )
    shared = consent.availability(X).tolist()
    wanted = Counter((i, s) for i, a in enumerate(shared) for s in naive_ideals.ideals(a, NEEDS[shape]))
    assert found == wanted
    for one, other in zip(puc.augment(X, y, **given, copies=12), (table, y[source], weight, source), strict=True):
        np.testing.assert_array_equal(one, other)


@shapes
@pytest.mark.parametrize("augmentation", ["balanced", "fixed"])
def test_weight_of_a_virtual_row_does_not_depend_on_the_person(shape: str, augmentation: str) -> None:
    """Count over many seeds; people who share more have more copies, and each of their sets has the same weight."""
    consent = Consent.declare(OPTIONAL[shape], names())
    everything = (1 << consent.n_groups) - 1
    every = naive_ideals.ideals(everything, NEEDS[shape])
    available = np.array([every[0], every[1], every[-2], every[-1], every[-1]] * 4, dtype=np.uint64)
    total: dict[tuple[int, int], float] = defaultdict(float)
    runs = 4_000
    for seed in range(runs):
        plan = plan_masks(available, augmentation, copies=1.6, seed=seed, nesting=consent.nesting)
        rows, masks = plan.rows_and_masks(0, len(plan))
        each = np.ones(len(rows)) if plan.copy_weight is None else plan.copy_weight[rows]
        scale = len(plan) if plan.copy_weight is not None else 1.0  # weights have mean 1: V differs between runs
        for cell, weight in zip(zip(rows.tolist(), masks.tolist(), strict=True), (each / scale).tolist(), strict=True):
            total[cell] += weight / runs
    cells = {(i, s) for i, a in enumerate(available.tolist()) for s in naive_ideals.ideals(a, NEEDS[shape])}
    assert set(total) == cells
    values = np.array([total[cell] for cell in sorted(cells)])
    assert np.abs(values / values.mean() - 1).max() < 0.12
    by_size = defaultdict(list)
    for (i, _), value in total.items():
        by_size[consent.nesting.count(int(available[i]))].append(value)
    assert stats.f_oneway(*by_size.values()).pvalue > 1e-3


def test_sixty_levels_make_61_virtual_rows_of_a_person() -> None:
    n, r = 300, 60
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, r + 1))
    reached = rng.integers(0, r + 1, n)
    X[:, 1:][np.arange(r) >= reached[:, None]] = np.nan
    y = X[:, 0]
    optional = {"level": puc.Levels(*([j] for j in range(1, r + 1)))}
    table, _, weight, source = puc.augment(X, y, optional=optional, augmentation="exhaustive")
    assert np.bincount(source).tolist() == (reached + 1).tolist()
    assert (weight == 1).all()
    balanced = puc.augment(X, y, optional=optional, copies=5)
    assert len(balanced[0]) == pytest.approx(5 * n, rel=0.05)
    booster = LIGHTGBM.fit(X, y, 2, optional=optional, objective="l2", copies=100)
    assert (booster.puc_summary.augmentation, booster.puc_summary.virtual_rows) == ("exhaustive", len(table))


def test_weights_with_many_sizes_are_proportional_to_sets_per_copy() -> None:
    """I / c_i, by hand: c_i are counted, and I is a product over trees."""
    nesting = Nesting((-1, 0, 1, -1, 3, -1))
    sets = nesting.submasks(0b111111)
    available = np.repeat(sets, 5)
    plan = plan_masks(available, "balanced", copies=2.5, seed=1, nesting=nesting)
    assert plan.scheme == "balanced"
    assert plan.copy_weight is not None
    size = np.array([naive_ideals.count_ideals(int(a), {1: 0, 2: 1, 4: 3}) for a in available])
    ratio = plan.copy_weight * plan.copies / size
    np.testing.assert_allclose(ratio, ratio[0])
    assert float(plan.copies @ plan.copy_weight) == pytest.approx(len(plan))
    assert (plan.copies <= size).all()


# ----- law 6: silence is silence


@every_engine
@shapes
def test_values_without_what_they_need_are_withheld(kit: EngineKit, shape: str) -> None:
    """In training and in every prediction of ours; the trees are those of a table without these values."""
    X, y = people()
    clean = admissible(X, shape)
    lacking = int(((clean != X) & ~np.isnan(X)).any(axis=1).sum())
    assert lacking > 100
    with pytest.warns(UserWarning, match=f"{lacking} of 800 people have values in a group without one that it needs"):
        found = kit.fit(X, y, 8, optional=OPTIONAL[shape])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        wanted = kit.fit(clean, y, 8, optional=OPTIONAL[shape])
    assert kit.trees(found) == kit.trees(wanted)
    np.testing.assert_array_equal(puc.predict(found, X), puc.predict(found, clean))
    np.testing.assert_array_equal(puc.predict(found, clean), kit.predict(found, clean))


def test_the_warning_names_a_row_and_both_groups() -> None:
    X, y = people(60)
    X = admissible(X, "levels")
    X[7, 3:6] = np.nan, 1.0, 2.0
    message = r"1 of 60 people .* \(row 7 in 'fitness 2', but not in 'fitness 1'\)\. These values count as withheld"
    with pytest.warns(UserWarning, match=message):
        puc.augment(X, y, optional=LEVELS)
    reverse = {"c": puc.Needs("b", [5]), "b": puc.Needs("a", [4]), "a": [3]}
    with pytest.warns(UserWarning, match=r"row 7 in 'b', but not in 'a'"):
        puc.augment(X, y, optional=reverse)


def test_available_is_held_to_the_same_rule() -> None:
    X, _ = people(5)
    consent = Consent.declare(LEVELS, names())
    X[:, 3:] = np.nan
    available = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 0]], dtype=bool)
    assert consent.availability(X, available).tolist() == [7, 1, 0, 3, 0]


def test_a_plan_for_other_sets_is_refused() -> None:
    X, _ = people(20)
    consent = Consent.declare(LEVELS, names())
    with pytest.raises(ValueError, match="The plan was made for groups that need others"):
        MaskedRows(row_source(X), consent, plan_masks(consent.availability(X), "exhaustive"))
