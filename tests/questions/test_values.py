"""The values of sets of questions against their definitions: one person, one set, one order at a time."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize, root
from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance, mean_tweedie_deviance
from tools import QUIET

import pucboost as puc
from pucboost._common import Array
from pucboost._questions import values as values_module
from pucboost._questions.values import FOLDS, SetValues, curve, keeps, two_step_critical

GROUPS = {"blood": ["glucose", "iron"], "app": ["steps"], "diary": ["mood"]}
LEVELS = {"fitness": puc.Levels(["steps"], ["glucose", "iron"]), "diary": ["mood"]}
OPTIONS: dict[str, dict[str, Any]] = {
    "regression": {}, "binary": {}, "poisson": {}, "gamma": {}, "tweedie": {}, "quantile": {"alpha": 0.7},
    "multiclass": {"num_class": 3},
}  # fmt: skip


def people(n: int = 700, seed: int = 0) -> tuple[pd.DataFrame, Array]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 5)), columns=["age", "glucose", "iron", "steps", "mood"])
    score = 0.5 * X["age"] + X["glucose"] + 0.6 * X["steps"]
    for columns in (["glucose", "iron"], ["steps"], ["mood"]):
        X.loc[rng.random(n) < 0.25 + 0.2 * (score > 0), columns] = np.nan
    return X, np.asarray(score)


def outcome(objective: str, score: Array, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if objective == "binary":
        return (rng.random(len(score)) < 1 / (1 + np.exp(-score))).astype(float)
    if objective == "multiclass":
        return np.digitize(score + rng.normal(size=len(score)), [-1, 0.5]).astype(float)
    if objective in ("poisson", "tweedie"):
        return rng.poisson(np.exp(score / 2)).astype(float)
    return rng.gamma(2, np.exp(score / 2)) if objective == "gamma" else score + rng.normal(size=len(score))


def loss_of_each(objective: str, told: Array, y: Array) -> Array:
    """The loss of each person, from scikit-learn's or the definition."""
    one_by_one = {"poisson": mean_poisson_deviance, "gamma": mean_gamma_deviance, "tweedie": None}
    if objective == "binary":
        return -np.where(y == 1, np.log(told), np.log(1 - told))
    if objective == "multiclass":
        return -np.log(told[np.arange(len(y)), y.astype(int)])
    if objective == "regression":
        return (told - y) ** 2
    if objective == "quantile":
        return np.where(y >= told, 0.7 * (y - told), 0.3 * (told - y))
    if objective == "tweedie":
        return np.array([mean_tweedie_deviance([a], [b], power=1.5) for a, b in zip(y, told, strict=True)])
    return np.array([one_by_one[objective]([a], [b]) for a, b in zip(y, told, strict=True)])


def put_right(objective: str, told: Array, y: Array, w: Array, age: Array) -> Array:
    """Predictions that are right on average and along age, by the equations; for classes and quantiles on average."""
    if objective == "multiclass":

        def moved(c: Array) -> Array:
            p = told * np.exp([0, *c])
            return np.asarray(p / p.sum(axis=1, keepdims=True))

        fit = minimize(lambda c: float(-w @ np.log(moved(c)[np.arange(len(y)), y.astype(int)])), [0.0, 0.0], tol=1e-12)
        return moved(fit.x)
    if objective == "quantile":
        residuals = np.sort(y - told)
        return told + min(residuals, key=lambda c: float(w @ loss_of_each("quantile", told + c, y)))
    x = np.column_stack([np.ones(len(y)), np.clip((age - age.mean()) / age.std(), -3, 3)])
    link, back, slope = {
        "regression": (lambda p: p, lambda s: s, lambda p: np.ones_like(p)),
        "binary": (lambda p: np.log(p / (1 - p)), lambda s: 1 / (1 + np.exp(-s)), lambda p: p * (1 - p)),
    }.get(objective, (np.log, np.exp, lambda p: p))

    def lack(beta: Array) -> Array:
        now = back(link(told) + x @ beta)
        held = 10 * np.mean(w * slope(now)) * beta * [0, 1]  # as by ten people for whom age says nothing
        return np.asarray(x.T @ (w * (now - y)) + held)

    found = root(lack, np.zeros(2), tol=1e-13)
    return np.asarray(back(link(told) + x @ found.x))


def losses_by_set(booster: Any, X: pd.DataFrame, y: Array, w: Array, groups: dict[str, Any]) -> dict[Any, Array]:
    """The loss of each person who shares everything, told what they would be told for each set of groups."""
    found = {}
    for chosen in itertools.chain.from_iterable(itertools.combinations(groups, k) for k in range(len(groups) + 1)):
        shown = X.copy()
        for group in set(groups) - set(chosen):
            shown[groups[group]] = np.nan
        objective = booster.params["objective"]
        told = put_right(objective, puc.predict(booster, shown), y, w, X["age"].to_numpy())
        found[frozenset(chosen)] = loss_of_each(objective, told, y)
    return found


@pytest.mark.parametrize("objective", OPTIONS)
def test_values_are_those_of_the_definition(objective: str) -> None:
    X, score = people()
    y, w = outcome(objective, score, 1), np.random.default_rng(2).integers(1, 4, len(X)).astype(float)
    params = {**QUIET, "objective": objective, "optional": GROUPS, **OPTIONS[objective]}
    booster = puc.train(params, puc.Dataset(X, y), 8)
    booster.params["objective"] = objective
    new, score = people(seed=3)
    y = outcome(objective, score, 4)
    found = puc.questions(booster, new, y, sample_weight=w, num_threads=1)

    all_shared = new.notna().all(axis=1).to_numpy()
    assert found.sharing == found.people == all_shared.sum() > 150
    some, y, w = new[all_shared], y[all_shared], w[all_shared]
    losses = losses_by_set(booster, some, y, w, GROUPS)
    everything, nothing = frozenset(GROUPS), frozenset()
    gain = {chosen: losses[nothing] - own for chosen, own in losses.items()}
    orders = list(itertools.permutations(GROUPS))

    def error(each: Array) -> float:
        mean = np.average(each, weights=w)
        n = len(each)
        return float(np.sqrt((w**2 * (each - mean) ** 2).sum() / w.sum() ** 2 * n / (n - 1)))

    assert found.value == pytest.approx(np.average(gain[everything], weights=w), rel=1e-5, abs=1e-8)
    assert found.error == pytest.approx(error(gain[everything]), rel=1e-4)
    assert found.loss_without == pytest.approx(np.average(losses[nothing], weights=w), rel=1e-6)
    for one in found.questions:
        steps = [frozenset(order[: order.index(one.group)]) for order in orders]
        added = np.mean([gain[before | {one.group}] - gain[before] for before in steps], axis=0)
        assert one.value == pytest.approx(np.average(added, weights=w), rel=1e-4, abs=1e-7)
        assert one.error == pytest.approx(error(added), rel=1e-3)
        last = gain[everything] - gain[everything - {one.group}]
        assert one.last == pytest.approx(np.average(last, weights=w), rel=1e-4, abs=1e-7)
        assert one.last_error == pytest.approx(error(last), rel=1e-3)
    assert sum(one.value for one in found.questions) == pytest.approx(found.value)
    named = {one.name: one.value for one in found.sets}
    assert named["app + diary"] == pytest.approx(np.average(gain[frozenset(("app", "diary"))], weights=w), rel=1e-4)


def test_levels_come_in_their_order() -> None:
    def in_order(seed: int) -> tuple[pd.DataFrame, Array]:
        X, score = people(seed=seed)
        return X.assign(**{name: X[name].where(X["steps"].notna()) for name in ("glucose", "iron")}), score

    X, score = in_order(0)
    y = score + np.random.default_rng(1).normal(size=len(X))
    booster = puc.train({**QUIET, "optional": LEVELS}, puc.Dataset(X, y), 10)
    booster.params["objective"] = "regression"
    new, score = in_order(3)
    found = puc.questions(booster, new, score, num_threads=1)
    groups = {group: [X.columns[j] for j in columns] for group, columns in booster.consent.groups.items()}
    first, second = (name for name in groups if name.startswith("fitness"))
    shared = new.notna().all(axis=1).to_numpy()
    losses = losses_by_set(booster, new[shared], score[shared], np.ones(shared.sum()), groups)
    value = {chosen: float((losses[frozenset()] - own).mean()) for chosen, own in losses.items()}
    orders = [order for order in itertools.permutations(groups) if order.index(first) < order.index(second)]
    assert len(orders) == 3
    for one in found.questions:
        steps = [frozenset(order[: order.index(one.group)]) for order in orders]
        assert one.value == pytest.approx(np.mean([value[b | {one.group}] - value[b] for b in steps]))
    # Without the first level there is no second.
    by_name = {one.group: one for one in found.questions}
    assert by_name[first].last == pytest.approx(value[frozenset(groups)] - value[frozenset(["diary"])])
    assert {one.name for one in found.sets} == {
        "nothing",
        first,
        second,
        "diary",
        f"{first} + diary",
        f"{second} + diary",
    }


def some_values(n: int = 60, sets: int = 8, seed: int = 0) -> tuple[SetValues, Array, Array]:
    rng = np.random.default_rng(seed)
    losses, weight = rng.normal(size=(n, sets)) - np.arange(sets) / 10, rng.integers(1, 4, n).astype(float)
    return SetValues.of(losses.copy(), weight, np.arange(sets, dtype=np.uint64)), losses, weight


def test_the_curve_is_chosen_on_some_and_measured_on_others() -> None:
    values, losses, weight = some_values()
    gain, folds = losses[:, :1] - losses, np.random.default_rng(puc._virtual.plan.child_seed(0, 20))
    fold = folds.permutation(len(losses)) % FOLDS
    for j, (best, value, error) in enumerate(curve(values, 0)):
        allowed = [s for s in range(8) if s.bit_count() <= j]
        means = np.average(gain, axis=0, weights=weight)
        assert best == max(allowed, key=lambda s: means[s])
        total, variance = 0.0, 0.0
        for k in range(FOLDS):
            own = fold == k
            others = np.average(gain[~own], axis=0, weights=weight[~own])
            chosen = max(allowed, key=lambda s, others=others: others[s])  # type: ignore[misc]
            mean = np.average(gain[own, chosen], weights=weight[own])
            total += weight[own].sum() * mean
            variance += (weight[own] ** 2 * (gain[own, chosen] - mean) ** 2).sum()
        assert value == pytest.approx(total / weight.sum())
        assert error == pytest.approx(math.sqrt(variance) / weight.sum())


def test_choosing_on_the_same_people_is_optimistic_and_the_curve_is_not() -> None:
    """All sets are worth the same, nothing: the best of seven looks good on those who chose it."""
    best, honest = [], []
    for seed in range(150):
        losses = np.random.default_rng(seed).normal(size=(100, 8))
        values = SetValues.of(losses, np.ones(100), np.arange(8, dtype=np.uint64))
        place, value, _ = curve(values, seed)[2]
        best.append(values.value[place] - values.value[0])
        honest.append(value)
    error = float(np.std(honest) / math.sqrt(150))
    assert np.mean(best) > 0.1
    assert abs(np.mean(honest)) < 3 * error


@pytest.mark.parametrize("far", [0, 14])
def test_what_is_proven_is_rarely_wrong(far: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sets are exactly at the border, and others far below: one of the two is called proven in at most 5 %."""
    monkeypatch.setattr(values_module, "DRAWN", 40_000)  # enough for averages over many samples
    wrong, critical, reps, n = 0, [], 400, 200
    for seed in range(10_000, 10_000 + reps):
        rng = np.random.default_rng(seed)
        gain = rng.normal(size=(n, 4 + far))
        gain[:, 0] = 0.0
        gain[:, 1:3] += 0.5
        gain[:, 3:-1] -= 3.0
        gain[:, -1] = gain[:, -1] / 0.95 + 0.5 / 0.95
        values = SetValues.of(-gain, np.ones(n), np.arange(4 + far, dtype=np.uint64))
        kept = keeps(values, 0.95, 0.95, seed)
        wrong += bool(kept.proven[:-1].any())
        critical.append(kept.critical)
    assert wrong / reps <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / reps)
    assert wrong / reps >= 0.02  # two tests that never reject would be useless
    assert np.mean(critical) < 2.1  # those far below do not count: without the first step it would be 2.9 for 17


def test_sets_far_below_do_not_raise_the_critical_value() -> None:
    one = two_step_critical(np.array([0.0]), np.eye(1), 0.95, 0)
    many = two_step_critical(np.array([0.0, *[-30.0] * 20]), np.eye(21), 0.95, 0)
    close = two_step_critical(np.zeros(21), np.eye(21), 0.95, 0)
    assert one == pytest.approx(1.695, abs=0.04)  # the quantile at 95.5 %
    assert many == pytest.approx(one, abs=0.05)
    assert close > 2.7
