"""One plan for all parts: each part's slice is bit for bit that of the whole plan, however the table is cut."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_kits import OPTIONAL, EngineKit, every_distributed_engine, logistic
from hypothesis import given, settings
from hypothesis import strategies as st
from tools import make_table

import pucboost as puc
from pucboost._consent import Consent, shared_counts
from pucboost._virtual.plan import SCHEMES, MaskPlan, plan_masks, plan_slice
from pucboost._virtual.shared_plan import PlanPart, check_rows_per_worker
from pucboost.distributed import SharedPlan

CONSENT = [f"z{g}" for g in range(6)]


def table_of(available: Sequence[int]) -> pd.DataFrame:
    """A table of six optional columns in which row i shares the groups of its mask."""
    shares = np.array([[mask >> g & 1 for g in range(6)] for mask in available], dtype=bool).reshape(-1, 6)
    values = np.arange(len(available), dtype=float)[:, None] + np.arange(6) / 10
    frame = pd.DataFrame(np.where(shares, values, np.nan), columns=CONSENT)
    frame.insert(0, "b", np.arange(len(available), dtype=float))
    return frame


def cut(n: int, where: Sequence[int]) -> list[slice]:
    edges = [0, *sorted(where), n]
    return [slice(lo, hi) for lo, hi in itertools.pairwise(edges)]


def agreed(parts: list[Any], ids: list[Any] | None = None, **given: Any) -> SharedPlan:
    plan = SharedPlan.agree([SharedPlan.facts(part, optional=CONSENT) for part in parts], **given)
    named = [{"row_id": one} for one in ids] if ids else [{"number": i} for i in range(len(parts))]
    counts = [plan.count(part, **name) for part, name in zip(parts, named, strict=True)]
    return pickle.loads(pickle.dumps(plan.complete(counts)))


def content(plan: MaskPlan, ids: Any = None) -> list[tuple[Any, ...]]:
    """All virtual rows as (id, mask, weight), bits and all."""
    rows, masks = plan.rows_and_masks(0, len(plan))
    weight = np.ones(plan.n_source) if plan.copy_weight is None else plan.copy_weight
    names = np.arange(plan.n_source) if ids is None else np.asarray(ids)
    return list(zip(names[rows].tolist(), masks.tolist(), weight[rows].tolist(), strict=True))


def slices(plan: SharedPlan, parts: list[Any], ids: list[Any] | None = None) -> list[MaskPlan]:
    found = []
    for number, part in enumerate(parts):
        if len(part):
            named = PlanPart._of(plan, None if ids else number, ids[number] if ids else None)
            found.append(named.plan_of(plan.consent.availability(plan.read(part)), 1))
    return found


masks_of_people = st.lists(st.integers(0, 63), min_size=1, max_size=40)
cuts = st.lists(st.integers(0, 40), max_size=5)


@given(masks_of_people, cuts, st.sampled_from(["balanced", "exhaustive", "none"]), st.floats(1, 5), st.integers(0, 9))
@settings(max_examples=60)
def test_parts_are_slices_of_the_plan(
    available: list[int], where: list[int], scheme: Any, copies: float, seed: int
) -> None:
    """Random cuts, empty parts among them; the whole plan is that of a table on one machine."""
    n = len(available)
    frame = table_of(available)
    parts = [frame.iloc[one] for one in cut(n, [min(c, n) for c in where])]
    whole = plan_masks(np.array(available, dtype=np.uint64), scheme, copies=copies, seed=seed)
    plan = agreed(parts, augmentation=scheme, copies=copies, seed=seed)
    assert plan.virtual_rows == len(whole)
    joined = [row for one in slices(plan, parts) for row in content(one, one.ids)]
    assert joined == content(whole)


@given(masks_of_people, cuts, st.randoms(), st.sampled_from(list(SCHEMES)))
@settings(max_examples=60)
def test_with_ids_neither_cuts_nor_order_matter(available: list[int], where: list[int], rnd: Any, scheme: Any) -> None:
    """For ``fixed``, too, whose copies are Poisson numbers when a table is in parts."""
    n = len(available)
    frame, ids = table_of(available), np.arange(n) * 7_919 + 2**60
    order = list(range(n))
    rnd.shuffle(order)
    shuffled, named = frame.iloc[order], ids[order]
    pieces = cut(n, [min(c, n) for c in where])
    one = agreed([frame], [ids], augmentation=scheme, copies=2.0, seed=3)
    many = agreed(
        [shuffled.iloc[p] for p in pieces], [named[p] for p in pieces], augmentation=scheme, copies=2.0, seed=3
    )
    assert many.virtual_rows == one.virtual_rows
    got = [
        row
        for part, p in zip(slices(many, *_nonempty(shuffled, named, pieces)), _filled(pieces), strict=True)
        for row in content(part, named[p])
    ]
    assert sorted(got) == sorted(content(slices(one, [frame], [ids])[0], ids))
    assert (one.bins is None) == (many.bins is None)
    if one.bins is not None and many.bins is not None:
        np.testing.assert_array_equal(one.bins.rows, many.bins.rows)
        np.testing.assert_array_equal(one.bins.weight, many.bins.weight)


def _filled(pieces: list[slice]) -> list[slice]:
    return [p for p in pieces if p.stop > p.start]


def _nonempty(frame: pd.DataFrame, ids: Any, pieces: list[slice]) -> tuple[list[Any], list[Any]]:
    filled = _filled(pieces)
    return [frame.iloc[p] for p in filled], [ids[p] for p in filled]


def test_poisson_copies_obey_the_weight_law() -> None:
    """The expected number of copies of (i, s) is N / Σ2^k for everybody, whatever they share."""
    available = np.array([0, 1, 3, 7] * 500, dtype=np.uint64)
    shared = shared_counts(available)
    facts = SharedPlan.facts(table_of(available.tolist()), optional=CONSENT)
    whole = SharedPlan.agree([facts], augmentation="fixed", seed=1).allocation
    drawn = np.array([
        plan_slice(whole, available, shared, ids=np.arange(k * 2000, (k + 1) * 2000, dtype=np.uint64)).copies
        for k in range(40)
    ])  # fmt: skip
    per_submask = [(drawn[:, shared == k] / 2**k).mean() for k in range(4)]
    wanted = 2000 / (500 * (1 + 2 + 4 + 8))
    error = [np.sqrt(wanted / 2**k / (40 * 500)) for k in range(4)]
    np.testing.assert_array_less(np.abs(np.array(per_submask) - wanted), 4.5 * np.array(error))


def test_a_plan_per_part_is_another_plan() -> None:
    """A test of the tests above: who plans part by part gives other copies and other weights."""
    available = np.array(sorted([0, 1, 3, 7, 15, 31, 63] * 20), dtype=np.uint64)
    whole = plan_masks(available, copies=2.0)
    own = [plan_masks(half, copies=2.0) for half in np.split(available, 2)]
    assert [c for one in own for c in one.copies.tolist()] != whole.copies.tolist()


def test_the_sample_for_bins_is_a_sample() -> None:
    frame = table_of([63] * 4_000)
    plan = agreed([frame], augmentation="exhaustive")
    assert plan.bins is not None
    expected = 200_000
    assert abs(len(plan.bins.rows) - expected) < 5 * np.sqrt(expected)
    assert abs(np.isnan(plan.bins.rows[:, 1]).mean() - 0.5) < 0.01
    assert len(pickle.dumps(agreed([frame], augmentation="none", seed=1))) > 1_000  # with its sample
    bare = SharedPlan.agree([SharedPlan.facts(frame, optional=CONSENT)])
    assert len(pickle.dumps(bare)) < 2_000


def test_categories_are_those_of_all_parts() -> None:
    parts = [
        pd.DataFrame({"b": [1.0, 2.0], "job": ["nurse", None], "size": pd.Categorical(["S", "L"], ["S", "M", "L"])}),
        pd.DataFrame({"b": [3.0, 4.0], "job": ["cook", "clerk"], "size": pd.Categorical(["M", "M"], ["S", "M", "L"])}),
        pd.DataFrame({"b": [5.0], "job": [None], "size": pd.Categorical(["S"], ["S", "M", "L"])}),
    ]
    plan = SharedPlan.agree([SharedPlan.facts(part, optional=["job"]) for part in parts])
    assert plan.columns.pandas_categorical == [["clerk", "cook", "nurse"], ["S", "M", "L"]]
    codes = [plan.read(part).window(0, len(part))[:, 1] for part in parts]
    np.testing.assert_array_equal(np.concatenate(codes), [2, np.nan, 1, 0, np.nan])


def test_categories_that_do_not_fit() -> None:
    def facts(values: Any) -> Any:
        return SharedPlan.facts(pd.DataFrame({"b": [1.0], "c": values}), optional=["c"])

    ordered = [pd.Categorical(["a"], list(names), ordered=True) for names in ("ab", "ba")]
    with pytest.raises(ValueError, match="Column 'c' has ordered categories, but they differ between parts"):
        SharedPlan.agree([facts(one) for one in ordered])
    with pytest.raises(ValueError, match="Column 'c' has categories of several types"):
        SharedPlan.agree([facts(pd.Categorical(one)) for one in (["a"], [1])])
    plan = SharedPlan.agree([facts(one) for one in (["x"], [5.0])])
    with pytest.raises(ValueError, match="Column 'c' holds numbers"):
        plan.count(pd.DataFrame({"b": [1.0], "c": [5.0]}), 1)


@pytest.mark.parametrize(
    ("optional", "names", "words"),
    [
        (["b"], "bac", "has 'b' as column 0, not 'a'"),
        (["b"], "abxy", "has columns 'x', 'y' and lacks column 'c'"),
        (["b"], "ab", "lacks column 'c'"),
        (["c"], "abc", "has no columns in group 'b', not ['b']"),
        ({"b": ["b", "c"]}, "abc", "has ['b', 'c'] in group 'b', not ['b']"),
        ({"b": ["b"], "c": ["c"]}, "abc", "has ['c'] in group 'c', not none"),
    ],
)
def test_how_schemas_differ(optional: Any, names: str, words: str) -> None:
    assert Consent.declare(["b"], list("abc")).difference(Consent.declare(optional, list(names))) == words


def test_schemas_that_differ_in_what_groups_need() -> None:
    free, bound = ({"a": ["a"], "b": one} for one in (["b"], puc.Needs("a", ["b"])))
    schemas = [Consent.declare(one, list("ab")) for one in (free, bound)]
    assert schemas[0].difference(schemas[1]) == "has group 'b' need a, not no other group"


def test_wrong_uses_are_named() -> None:
    frame = table_of([63, 0, 7, 3])
    facts = [SharedPlan.facts(part, optional=CONSENT) for part in (frame[:2], frame[2:])]
    other = SharedPlan.facts(frame, optional=["z1"])
    plan, train_set = SharedPlan.agree(facts), (frame, [0, 1, 0, 1])
    counts = [plan.count(frame[:2], 0), plan.count(frame[2:], 1)]
    done = plan.complete(counts)
    calls: list[tuple[Any, str]] = [
        (lambda: puc.train({"plan": plan.part(0)}, train_set), "virtual rows of this plan are not counted yet"),
        (lambda: plan.complete(counts[:1]), "for 2 parts, but 1 were counted"),
        (lambda: plan.complete([counts[0], plan.count(frame[2:], row_id=[1, 2])]), "Some parts were counted with row"),
        (lambda: done.part(), "Which part is it"),
        (lambda: done.part(2), "2 parts, 0 to 1; there is no part 2"),
        (lambda: done.part(row_id=[1, 2]), "counted without row_id, and is used with it"),
        (lambda: done.augment(frame[:1], [1], part=0), "Part 0 of the plan has 2 rows, but the table has 1"),
        (lambda: done.augment(frame[2:], [1, 0], part=0), "not the people that were counted"),
        (lambda: plan.count(frame[:2], row_id=[1.5, 2.0]), "row_id must be whole numbers or texts"),
        (lambda: plan.count(frame[:2], row_id=["a", None]), "row_id is missing in row 1"),
        (lambda: plan.count(frame[:2], row_id=[1]), "one entry for each of the 2 rows, got 1"),
        (lambda: SharedPlan.agree([]), "No part has any rows"),
        (lambda: SharedPlan.agree([facts[0], other]), "Part 1 differs from the first one: it "),
        (lambda: puc.train({"plan": done}, train_set), r"as plan\.part"),
        (lambda: puc.cv({"plan": done.part(0, 1)}, train_set), "plan is for train"),
        (lambda: puc.PUCRegressor(plan=done.part(0, 1)).fit(*train_set), "PUCRegressor takes no plan"),
        (lambda: check_rows_per_worker(2**31), "A worker would have 2,147,483,648 virtual rows"),
    ]
    for params, message in [
        ({"copies": 2}, "copies belongs to the plan"),
        ({"augmentation": "fixed"}, "augmentation belongs to the plan"),
        ({"compact": True}, "compact merges rows of one table"),
        ({"anchor": "base"}, "anchor is not possible with a shared plan"),
        ({"calibrate_masks": 0.5}, "calibrate_masks is not possible with a shared plan"),
        ({"objective": "quantile"}, "averages the leaves that each worker finds"),
        ({"objective": "reg:absoluteerror", "engine": "xgboost"}, "averages the leaves that each worker finds"),
        ({"tree_learner": "feature"}, "needs the whole table in every worker"),
        ({"machines": "a:1,b:2", "num_machines": 2}, "LightGBM then ignores the other machines"),
        ({"zero_as_missing": True}, "zero_as_missing differs"),
        ({"optional": ["z1"]}, "the plan was made for"),
    ]:
        calls.append((lambda params=params: puc.train({"plan": done.part(0, 1), **params}, train_set), message))
    poisson = {"plan": done.part(0, 1), "objective": "poisson"}
    calls.append((lambda: puc.train(poisson, (frame, [0] * 4)), "all labels of this part are 0, but LightGBM starts"))
    for call, message in calls:
        with pytest.raises((ValueError, TypeError), match=message):
            call()
    check_rows_per_worker(2**31 - 1)


def test_texts_as_ids() -> None:
    frame = table_of([63] * 30)
    names = [f"person {i}" for i in range(30)]
    plans = [agreed([frame], [ids], copies=2.0) for ids in (names, pd.Series(names), np.array(names))]
    assert len({one.virtual_rows for one in plans}) == 1
    augmented = [one.augment(frame, range(30), row_id=names)[0] for one in plans]
    pd.testing.assert_frame_equal(augmented[0], augmented[1])


def test_augmented_parts_are_the_augmented_table() -> None:
    frame, y = table_of([63, 0, 7, 3, 31, 1] * 5), np.arange(30)
    weight = np.linspace(1, 2, 30)
    X_aug, y_aug, w, source = puc.augment(frame, y, optional=CONSENT, copies=2.5, seed=4, sample_weight=weight)
    pieces = cut(30, [4, 4, 17])
    plan = agreed([frame.iloc[p] for p in pieces], copies=2.5, seed=4)
    got = [
        plan.augment(frame.iloc[p], y[p], part=i, sample_weight=weight[p])
        for i, p in enumerate(pieces)
        if p.stop > p.start
    ]
    pd.testing.assert_frame_equal(pd.concat([g[0] for g in got], ignore_index=True), X_aug)
    np.testing.assert_array_equal(np.concatenate([g[1] for g in got]), y_aug)
    np.testing.assert_array_equal(np.concatenate([g[2] for g in got]), w)
    assert got[0][3].max() <= 3
    assert len(source) == sum(len(g[3]) for g in got)


@every_distributed_engine
def test_one_worker_with_all_parts(kit: EngineKit) -> None:
    """Bins come from the sample, which here is the whole table; the rest is as without a plan."""
    X, y = make_table(900)
    facts = [SharedPlan.facts(X[lo:hi], y[lo:hi], optional=OPTIONAL) for lo, hi in ((0, 300), (300, 900))]
    plan = SharedPlan.agree(facts, copies=2)
    plan = plan.complete([plan.count(X[:300], 0), plan.count(X[300:], 1)])
    params = {**kit.params, **kit.small_trees}
    whole = kit.fit(X, y, 10, copies=2, **kit.small_trees)
    shared = puc.train({**params, "plan": plan.part(0, 1)}, (X, y), 10)
    np.testing.assert_allclose(kit.predict(shared, X), kit.predict(whole, X), atol=0.02)
    mine, other = shared.puc_summary, whole.puc_summary
    for name in ("augmentation", "seed", "source_rows", "virtual_rows", "complete_rows", "masks_seen", "mask_people"):
        assert getattr(mine, name) == getattr(other, name), name
    assert mine.effective_sample_size == pytest.approx(other.effective_sample_size, rel=1e-9)
    assert shared.consent == whole.consent
    swapped = puc.train(
        {**params, "plan": plan.part(1, 0)}, (np.vstack([X[300:], X[:300]]), np.r_[y[300:], y[:300]]), 10
    )
    assert swapped.puc_summary.virtual_rows == other.virtual_rows


@every_distributed_engine
def test_a_callable_objective_with_a_plan(kit: EngineKit) -> None:
    X, y = make_table(600)
    plan = SharedPlan.agree([SharedPlan.facts(X, y, optional=OPTIONAL)], copies=2)
    params = {**kit.params, **kit.small_trees, **kit.custom_start_at_zero, "objective": logistic}
    shared = puc.train({**params, "plan": plan.complete([plan.count(X, 0)]).part(0)}, (X, y), 10)
    whole = puc.train({**params, "optional": OPTIONAL, "copies": 2}, (X, y), 10)
    np.testing.assert_allclose(kit.predict(shared, X), kit.predict(whole, X), atol=0.05)


def test_rare_sets_are_not_kept() -> None:
    """As in a training at one place: a set that fewer than five people of all parts share stays unknown."""
    X = np.ones((24, 3))
    X[:16, 1], X[8:, 2] = np.nan, np.nan  # nothing: 8 people; the first group alone: 8; the second alone: 8
    X[20:, 1], X[:4, 2] = np.nan, np.nan  # 4 and 4 of these share nothing
    parts = [X[:12], X[12:]]
    plan = SharedPlan.agree([SharedPlan.facts(part, optional=[1, 2]) for part in parts])
    whole = puc.train({"optional": [1, 2], "verbosity": -1, "num_threads": 1}, puc.Dataset(X, X[:, 0]), 1)
    assert plan.masks_seen == whole.puc_summary.masks_seen == (0,)
    with_one_more = [*parts, np.array([[1.0, 1.0, np.nan]])]
    facts = [SharedPlan.facts(part, optional=[1, 2]) for part in with_one_more]
    assert SharedPlan.agree(facts).masks_seen == (0, 1)  # four in one part and one in another


def test_facts_that_do_not_fit_together_are_refused() -> None:
    """As from a worker with another version of pucboost."""
    facts = SharedPlan.facts(np.ones((9, 2)), optional=[1])
    for other in (replace(facts, n_rows=10), replace(facts, mask_people=()), replace(facts, consent=None)):
        with pytest.raises(ValueError, match=r"facts of part 1 do not fit together. Were they made by another version"):
            SharedPlan.agree([facts, other])
    with pytest.raises(TypeError, match=r"Item 1 of facts must be what SharedPlan.facts returns, got 'int'"):
        SharedPlan.agree([facts, 3])
