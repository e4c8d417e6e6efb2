"""The constants of ``calibrate_masks`` against a twin that follows the formulas in words, person by person."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pucboost._losses import Logistic, Objective, Poisson, Softmax, SquaredError
from pucboost._training import calibration as module
from pucboost._training.calibration import PEOPLE_TRUSTED, ScoredRows, mask_constants


def virtual_rows(objective: Objective, n: int = 60, groups: int = 3, seed: int = 0) -> ScoredRows:
    """All copies of a few people, whose scores are off by an amount that depends on the mask."""
    rng = np.random.default_rng(seed)
    available = rng.integers(0, 1 << groups, n)
    pairs = [(i, s) for i, a in enumerate(available.tolist()) for s in range(1 << groups) if s & ~a == 0]
    person, masks = np.array([i for i, _ in pairs]), np.array([s for _, s in pairs], dtype=np.uint64)
    own = rng.normal(size=n)
    outcome = {"binary": own > 0, "poisson": rng.poisson(np.exp(own))}.get(objective.name, own + rng.normal(size=n))
    scores = own[person] / 2 + rng.normal(size=1 << groups)[masks.astype(int)]
    return ScoredRows(
        scores[:, None], outcome.astype(float)[person, None], rng.uniform(0.5, 2, n)[person], masks, person
    )


def naive_constant(rows: ScoredRows, objective: Objective, which: list[int]) -> float:
    """By bisection."""
    low, high = -3.0, 3.0
    if objective.link_name == "identity":
        low, high = -100.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        total = sum(
            rows.weight[v] * (float(objective.response(rows.scores[v, 0] + middle)) - rows.outcome[v, 0]) for v in which
        )
        low, high = (low, middle) if total > 0 else (middle, high)
    return (low + high) / 2


def naive(rows: ScoredRows, objective: Objective, order: tuple[int, ...]) -> dict[int, float]:
    """Return the constant of every mask."""
    n = len(rows.masks)
    told = [float(objective.response(rows.scores[v, 0])) for v in range(n)]
    spread = [float(objective.variance(np.array(f))) for f in told]
    slope = [float(objective.slope(np.array(f))) for f in told]
    phi = sum((rows.weight[v] * (told[v] - rows.outcome[v, 0])) ** 2 for v in range(n)) / sum(
        rows.weight[v] ** 2 * spread[v] for v in range(n)
    )
    noise = [rows.weight[v] * math.sqrt(phi * spread[v]) for v in range(n)]
    least = (sum(noise) / sum(rows.weight[v] * slope[v] for v in range(n))) ** 2 / (PEOPLE_TRUSTED * len(order))
    bits = [sum(1 << g for g in order[:d]) for d in range(len(order) + 1)]
    nodes = [{int(m) & used for m in rows.masks} for used in bits]

    def members(depth: int, key: int) -> list[int]:
        return [v for v in range(n) if int(rows.masks[v]) & bits[depth] == key]

    exact = [{key: naive_constant(rows, objective, members(d, key)) for key in nodes[d]} for d in range(len(bits))]
    constant = [dict(exact[0])]
    for d in range(1, len(bits)):
        difference, variance = {}, {}
        for key in nodes[d]:
            above = key & bits[d - 1]
            difference[key] = exact[d][key] - exact[d - 1][above]
            sums = {}
            for sign, who in ((1, members(d, key)), (-1, members(d - 1, above))):
                whole = sum(rows.weight[v] * slope[v] for v in who)
                for v in who:
                    sums[rows.person[v]] = sums.get(rows.person[v], 0.0) + sign * noise[v] / whole
            variance[key] = sum(value**2 for value in sums.values())
        known = [key for key in nodes[d] if variance[key] > 1e-12]
        beyond = (sum(difference[k] ** 2 / variance[k] for k in known) - len(known)) / sum(
            1 / variance[k] for k in known
        )
        between = max(least, beyond)
        constant.append(
            {
                key: constant[d - 1][key & bits[d - 1]]
                + (between / (between + variance[key]) * difference[key] if key in known else 0.0)
                for key in nodes[d]
            }
        )
    return constant[-1]


@pytest.mark.parametrize("objective", [SquaredError(), Logistic(), Poisson()], ids=lambda one: one.name)
def test_constants_are_those_of_the_twin(objective: Objective) -> None:
    rows = virtual_rows(objective)
    found = mask_constants(rows, objective, 3)
    expected = naive(rows, objective, found.order)
    masks = np.array(sorted(expected), dtype=np.uint64)
    np.testing.assert_allclose(found.at(masks)[:, 0], [expected[int(m)] for m in masks], atol=1e-7)
    assert np.ptp(found.at(masks)) > 0.1


def test_with_many_people_every_mask_is_balanced() -> None:
    rows = virtual_rows(SquaredError(), n=20_000)
    found = mask_constants(rows, SquaredError(), 3)
    told = rows.scores + found.at(rows.masks)
    for s in range(8):
        here = rows.masks == s
        assert abs(np.average((told - rows.outcome)[here, 0], weights=rows.weight[here])) < 0.01


def test_masks_of_few_people_stay_with_their_parents() -> None:
    """Nothing but noise: three people with one more group do not move what they are told."""
    rng = np.random.default_rng(0)
    person = np.concatenate([np.arange(5_000), np.arange(3)])
    masks = (np.arange(5_003) >= 5_000).astype(np.uint64)
    outcome = rng.normal(size=5_000)
    outcome[:3] += 2.0
    rows = ScoredRows(np.zeros((5_003, 1)), outcome[person, None], np.ones(5_003), masks, person)
    found = mask_constants(rows, SquaredError(), 1).at(np.array([0, 1], dtype=np.uint64))[:, 0]
    assert abs(found[1] - found[0]) < 0.7 * outcome[:3].mean()


def test_a_set_of_fewer_than_five_people_has_no_place_in_the_tree() -> None:
    """Its leaf would tell whoever knows one of them what that person shared; a fifth person gives it one."""
    for people, places in ((4, [[0], [0]]), (5, [[0], [0, 1]])):
        person = np.concatenate([np.arange(100), np.arange(people), np.arange(people)])  # two rows each
        masks = (np.arange(len(person)) >= 100).astype(np.uint64)
        outcome = 10.0 * (np.arange(100) < people)
        rows = ScoredRows(np.zeros((len(person), 1)), outcome[person, None], np.ones(len(person)), masks, person)
        found = mask_constants(rows, SquaredError(), 1)
        assert [depth.keys.tolist() for depth in found.depths] == places
        told = found.at(np.array([0, 1], dtype=np.uint64))[:, 0]
        assert (told[1] == found.depths[0].constant[0, 0]) == (people < 5)


def test_no_events_are_no_certainty() -> None:
    """Ten people without a claim, one in a hundred expected: their constant must not run off."""
    person = np.concatenate([np.arange(4_000), np.arange(10)])
    masks = (np.arange(4_010) >= 4_000).astype(np.uint64)
    outcome = (np.arange(4_000) % 100 == 50).astype(float)
    scores = np.full((4_010, 1), math.log(0.01 / 0.99))
    rows = ScoredRows(scores, outcome[person, None], np.ones(4_010), masks, person)
    found = mask_constants(rows, Logistic(), 1).at(np.array([0, 1], dtype=np.uint64))[:, 0]
    assert abs(found[0]) < 0.01
    assert -0.1 < found[1] < 0.01


def test_masks_that_nobody_had_get_those_of_their_parents() -> None:
    rows = virtual_rows(SquaredError(), n=200)
    kept = rows.masks != 7
    fewer = ScoredRows(*(values[kept] for values in vars(rows).values()))
    found = mask_constants(fewer, SquaredError(), 3)
    last = 1 << found.order[-1]
    assert found.at(np.array([7], dtype=np.uint64)) == found.depths[-2].constant[found.depths[-2].keys == 7 - last]


def test_classes_are_balanced_each() -> None:
    rng = np.random.default_rng(0)
    n = 6_000
    y, masks = rng.integers(0, 3, n), rng.integers(0, 2, n).astype(np.uint64)
    scores = rng.normal(size=(n, 3)) + np.where(masks[:, None] == 1, [0.5, 0.0, -1.0], 0.0)
    rows = ScoredRows(scores, np.eye(3)[y], np.ones(n), masks, np.arange(n))
    found = mask_constants(rows, Softmax(3), 1)
    told = Softmax(3).response(scores + found.at(masks))
    for s in (0, 1):
        assert np.abs((told - rows.outcome)[masks == s].mean(axis=0)).max() < 0.01


def test_many_groups_are_refined_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NODES", 64)
    rng = np.random.default_rng(0)
    masks = rng.integers(0, 1 << 20, 3_000).astype(np.uint64)
    y = (masks >> np.uint64(13) & np.uint64(1)).astype(float) + rng.normal(0, 0.1, 3_000)
    rows = ScoredRows(np.zeros((3_000, 1)), y[:, None], np.ones(3_000), masks, np.arange(3_000))
    found = mask_constants(rows, SquaredError(), 20)
    assert found.order[0] == 13
    assert len(found.order) == 6
    np.testing.assert_allclose(found.at(np.array([0, 1 << 13], dtype=np.uint64))[:, 0], [0, 1], atol=0.05)
