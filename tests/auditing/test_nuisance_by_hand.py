"""Scores, folds, halves and learners, with models that say what they were asked."""

from __future__ import annotations

import math
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, ClassVar

import lightgbm as lgb
import numpy as np
import pytest
from audit_tools import TEASER
from scipy import stats
from sklearn.base import BaseEstimator

from pucboost._auditing.findings import Informativeness
from pucboost._auditing.nuisance import (
    AVAILABILITY,
    EVENT,
    MAX_ROUNDS,
    UNDERSMOOTH,
    CrossFitter,
    NuisanceLoss,
    View,
    lightgbm_params,
    random_folds,
)
from pucboost._auditing.people import AuditPeople, Loss, read_audit_people
from pucboost._auditing.recognition import _with_holm, informativeness
from pucboost._auditing.scores import MaskScores, score_mask
from pucboost._auditing.settings import FittingOptions, NuisanceEstimators


def make_people(n: int = 300, seed: int = 0, **options: Any) -> AuditPeople:
    rng = np.random.default_rng(seed)
    table = np.column_stack([np.arange(n), np.arange(n) + 0.5, np.arange(n) + 0.25])
    table[rng.random(n) < 0.5, 1] = np.nan
    table[rng.random(n) < 0.5, 2] = np.nan
    y = rng.integers(0, 2, n).astype(float)
    return read_audit_people(table, y, optional={"app": [1], "blood": [2]}, num_threads=1, **options)[0]


class KnownView:
    """A view whose models are known: outcome and availability for either half."""

    def __init__(self, rows: Any, outcome: Any, share: Any) -> None:
        self.rows, self.known = rows, {"outcome": outcome, "availability": share}
        self.asked: list[tuple[str, int | None, Any, Any]] = []

    def cross_fit(self, target: Any, loss: NuisanceLoss, half: int | None = None, start: Any = None) -> Any:
        self.asked.append((loss.model, half, target, start))
        return self.known[loss.model][half]


@pytest.mark.parametrize("name", ["squared", "quantile"])
def test_scores_person_by_person(name: str) -> None:
    """An outcome model from one half meets the availability model from the other, and both ways are averaged."""
    people = make_people(weight=np.random.default_rng(1).uniform(0.5, 2, 300))
    loss, mask = Loss(name, 0.8), 1
    rows = people.at_least(mask)
    rng = np.random.default_rng(2)
    outcome, share = rng.random((2, len(rows))), rng.random((2, len(rows)))
    given, masked = rng.random(300), rng.choice([-0.5, 0.0, 0.5, 1.0], len(rows))
    asked = []

    def model_masked(who: Any, shown: int) -> Any:
        asked.append((who.tolist(), shown))
        return masked

    view = KnownView(rows, outcome, share)
    model = SimpleNamespace(given=given, masked=model_masked)
    found = score_mask(people, model, loss, view, mask)  # type: ignore[arg-type]
    for v, i in enumerate(rows.tolist()):
        w, d = people.weight[i], float(people.shared[i] == 1)
        y = people.y[i] if name == "squared" else float(people.y[i] <= masked[v])
        parts = []
        for g, e in ((outcome[0][v], share[1][v]), (outcome[1][v], share[0][v])):
            h = masked[v] - g if name == "squared" else g - 0.8  # E[V | …], V = f − Y or 1[Y ≤ f] − τ
            residual = g - y if name == "squared" else y - g  # V − h
            parts.append(w * (d * h + e * residual))
        assert found.score[v] == pytest.approx(sum(parts) / 2, abs=1e-12)
        assert found.size[v] == pytest.approx(w * d)
        assert found.target[v] == y
        assert found.deviation[v] == pytest.approx(masked[v] - y if name == "squared" else y - 0.8)
    assert found.mask == mask
    assert found.rows.tolist() == rows.tolist()
    assert found.outcome[0].tolist() == outcome[0].tolist()
    assert found.outcome[1].tolist() == outcome[1].tolist()
    assert asked == [(rows.tolist(), 1)]
    for kind, _, target, start in view.asked:
        wanted = found.target if kind == "outcome" else (people.shared[rows] == 1).astype(float)
        assert target.tolist() == wanted.tolist()
        # The outcome model starts from what the audited model says, with all but S erased.
        first = masked if name == "squared" else np.full(len(rows), 0.8)
        assert (start is None) if kind == "availability" else start.tolist() == first.tolist()
    assert found.share[0].tolist() == share[1].tolist()
    assert found.share[1].tolist() == share[0].tolist()


@pytest.mark.parametrize("folds", [3, 4, 5, 6])
def test_halves_are_equal_disjoint_and_change_with_the_fold(folds: int) -> None:
    people = make_people(60 * folds)
    view = CrossFitter(people, FittingOptions(folds=folds, num_threads=1)).view(0)
    fold = view.fitter.fold
    assert np.bincount(fold).tolist() == [60] * folds
    together = np.zeros((folds, folds), dtype=int)
    for k in range(folds):
        inside, *halves = view.halves(k)
        assert (fold[inside] == k).all()
        parts = [sorted(set(fold[half].tolist())) for half in halves]
        assert sorted([*parts[0], *parts[1], k]) == list(range(folds))  # whole folds, each on one side
        assert [len(part) for part in parts] == [(folds - 1) // 2, folds - 1 - (folds - 1) // 2]
        assert len(inside) + len(halves[0]) + len(halves[1]) == len(people)
        for part in parts:
            together[np.ix_(part, part)] += 1
    apart = (folds - 2) - together[~np.eye(folds, dtype=bool)]  # of the folds that are neither of the two
    assert folds == 3 or (apart > 0).all()


def test_folds_depend_on_the_seed_and_on_clusters_only() -> None:
    assert random_folds(100, 5, 0).tolist() == random_folds(100, 5, 0).tolist()
    assert random_folds(100, 5, 0).tolist() != random_folds(100, 5, 1).tolist()
    cluster = np.array([0, 1, 2, 3, 4, 5, 0, 0, 3])
    fold = random_folds(9, 3, 0, cluster)
    assert len(fold) == 9
    assert fold[0] == fold[6] == fold[7]
    assert fold[3] == fold[8]
    assert np.bincount(fold[:6]).tolist() == [2, 2, 2]


class SpyLearner:
    """Predicts the number of its training in the order in which models were fitted, plus the row asked for."""

    def __init__(self) -> None:
        self.trained: list[tuple[list[int], int]] = []

    def fit(self, train: Any, target: Any, loss: NuisanceLoss, seed: int, start: Any = None) -> Any:
        number = len(self.trained)
        self.trained.append((train.tolist(), seed))
        return lambda index: 1000.0 * number + index


def test_cross_fitting_asks_each_row_of_the_model_that_never_saw_it() -> None:
    people = make_people()
    fitted = []
    fitter = CrossFitter(people, FittingOptions(num_threads=1), lambda: fitted.append(1))
    rows = people.at_least(2)
    learner = SpyLearner()
    view = View(fitter, learner, rows)
    target = people.y[rows]
    fold = fitter.fold[rows]
    found = {half: view.cross_fit(target, EVENT, half) for half in (None, 0, 1)}
    assert len(fitted) == len(learner.trained) == 15
    assert len({seed for _, seed in learner.trained}) == 15  # no two models draw the same random numbers
    for place, half in enumerate((None, 0, 1)):
        for v in range(len(rows)):
            assert found[half][v] == 1000 * (5 * place + fold[v]) + v
        for k in range(5):
            _, *parts = view.halves(k)
            wanted = sorted([*parts[0], *parts[1]]) if half is None else parts[half].tolist()
            assert learner.trained[5 * place + k][0] == wanted


def test_folds_without_rows_are_not_fitted() -> None:
    people = make_people()
    fitted = []
    fitter = CrossFitter(people, FittingOptions(num_threads=1), lambda: fitted.append(1))
    rows = np.flatnonzero(fitter.fold != 2)
    view = View(fitter, SpyLearner(), rows)
    found = view.cross_fit(people.y[rows], EVENT, 0)
    assert len(fitted) == 5  # progress is shown all the same
    number = {0: 0, 1: 1, 3: 2, 4: 3}  # in the order in which models were fitted
    assert found.tolist() == [1000 * number[k] + v for v, k in enumerate(fitter.fold[rows].tolist())]


def test_nothing_is_fitted_where_there_is_nothing_to_learn() -> None:
    view = View(None, SpyLearner(), np.arange(10))  # type: ignore[arg-type]
    target = np.array([3.0, 3.0, 3.0, 5.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    ask = np.arange(4)
    for train, constant in (([0, 1, 2], 3.0), ([3], 5.0), ([], 0.0)):
        index = np.array(train, dtype=np.int64)
        assert view.fit(index, target, EVENT, 0)(ask).tolist() == [constant] * 4
        started = view.fit(index, target, EVENT, 0, target / 10)  # what was said before is better than a constant
        assert started(ask).tolist() == [0.3, 0.3, 0.3, 0.5]
    assert view.learner.trained == []
    assert view.fit(np.array([2, 3]), target, EVENT, 0)(ask).tolist() == ask.tolist()


def test_rows_of_a_view_show_its_mask_and_nothing_more() -> None:
    people = make_people()
    fitter = CrossFitter(people, FittingOptions(num_threads=1))
    view = fitter.view(2)
    assert view.rows.tolist() == [i for i, a in enumerate(people.shared.tolist()) if a & 2]
    shown = view.learner._rows.materialise()
    np.testing.assert_array_equal(shown[:, 0], view.rows)
    assert np.isnan(shown[:, 1]).all()
    np.testing.assert_array_equal(shown[:, 2], view.rows + 0.25)
    assert view.learner._undersmooth == UNDERSMOOTH
    assert view.learner._weight is None
    everybody = fitter.reference_view(people.shared)
    assert everybody.learner._undersmooth == 1.0
    np.testing.assert_array_equal(everybody.learner._rows.materialise(), people.source.window(0, len(people)))
    weighted = make_people(weight=np.tile([0.5, 1.0, 1.5], 100))  # some weights are 1, but not all
    view = CrossFitter(weighted, FittingOptions(num_threads=1)).view(2)
    np.testing.assert_allclose(view.learner._weight, weighted.weight[view.rows], rtol=1e-6)
    assert lightgbm_params(3)["num_threads"] == 3
    assert "num_threads" not in lightgbm_params(None)


@pytest.mark.parametrize("clustered", [False, True], ids=["people", "clusters"])
def test_a_fifth_is_held_out_for_early_stopping(clustered: bool) -> None:
    cluster = np.random.default_rng(0).integers(0, 40, 300) if clustered else None
    learner = CrossFitter(make_people(clusters=cluster), FittingOptions(num_threads=1)).view(0).learner
    train = np.random.default_rng(1).permutation(300)[:200]
    fit, stop = learner._split(train, np.arange(300.0), 5)
    assert sorted([*fit, *stop]) == sorted(train)
    assert fit.tolist() == sorted(fit)
    assert stop.tolist() == sorted(stop)
    if cluster is None:
        assert len(stop) == 40
    else:
        assert len(set(cluster[stop])) == len(set(cluster[train])) // 5
        assert not set(cluster[stop]) & set(cluster[fit])
    assert learner._split(train, np.arange(300.0), 6)[1].tolist() != stop.tolist()
    assert [len(part) for part in learner._split(train[:3], np.arange(300.0), 5)] == [2, 1] or clustered  # one at least


def test_boosters_are_grown_beyond_what_predicts_best(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = TEASER.sample(2000, 0)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 2000)
    people, _ = read_audit_people(sample.X, sample.y, optional=[2], weight=weight, num_threads=1)
    learner = CrossFitter(people, FittingOptions(num_threads=1)).view(0).learner
    train, original = np.arange(0, 2000, 2), lgb.train
    best = []

    def spy(params: Any, data: Any, rounds: int, valid_sets: Any, **more: Any) -> Any:
        fit, stop = learner._split(train, people.y, 7)
        assert rounds == MAX_ROUNDS
        for part, rows in ((data, fit), (valid_sets[0], stop)):
            np.testing.assert_array_equal(part.get_label(), sample.y[rows])
            np.testing.assert_allclose(part.get_weight(), people.weight[rows], rtol=1e-6)
        booster = original(params, data, rounds, valid_sets=valid_sets, **more)
        best.append(booster.best_iteration)
        return booster

    monkeypatch.setattr(lgb, "train", spy)
    booster = learner.train(train, people.y, EVENT.lightgbm_params, 7)
    assert 0 < best[0] < MAX_ROUNDS
    assert booster.best_iteration == booster.current_iteration() == 3 * best[0]
    learner._undersmooth = 1.0
    once = learner.train(train, people.y, EVENT.lightgbm_params, 7)
    assert once.best_iteration == best[0]
    # Predictions come in batches, in the order asked for.
    monkeypatch.setattr("pucboost._virtual.rows.BATCH_BYTES", 1000)
    ask = np.random.default_rng(3).permutation(2000)[:501]
    erased = np.where(np.arange(3) == 2, np.nan, sample.X)
    np.testing.assert_array_equal(learner._predict(booster, ask), booster.predict(erased)[ask])
    assert learner._rows.batch_rows < 100


class StandIn:
    """In place of ``lgb.train``: a booster that predicts best after one round, and cannot grow beyond ``limit``."""

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.labels: list[Any] = []
        self.seeds: list[int] = []

    def __call__(self, params: Any, data: Any, *arguments: Any, **options: Any) -> Any:
        self.labels.append(data.get_label().tolist())
        self.seeds.append(params["seed"])
        grown = [1]

        def update() -> bool:
            finished = grown[0] == self.limit
            grown[0] += not finished
            return finished

        return SimpleNamespace(best_iteration=1, current_iteration=lambda: grown[0], update=update)


def test_early_stopping_does_not_take_the_only_event(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = CrossFitter(make_people(), FittingOptions(num_threads=1)).view(0).learner
    train = np.arange(100)
    stand_in = StandIn()
    monkeypatch.setattr(lgb, "train", stand_in)
    for event in range(0, 100, 7):
        target = np.zeros(300)
        target[event] = 1.0
        fit, stop = learner._split(train, target, 0)
        assert event in fit
        assert len(stop) == 19  # a fifth of those without an event, none of the one with
        learner.train(train, target, EVENT.lightgbm_params, 0)
        assert stand_in.labels.pop() == target[fit].tolist()


def test_early_stopping_does_not_take_the_only_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    people = make_people(clusters=np.arange(300) // 100)
    learner = CrossFitter(people, FittingOptions(folds=3, num_threads=1)).view(0).learner
    stand_in = StandIn()
    monkeypatch.setattr(lgb, "train", stand_in)
    train = np.random.default_rng(0).permutation(100)
    learner.train(train, np.arange(300.0), {}, 0)
    assert stand_in.labels == [list(range(100))]


def test_rounds_are_rounded_up_and_end_where_nothing_can_be_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = CrossFitter(make_people(), FittingOptions(num_threads=1)).view(0).learner
    seeds = []
    for undersmooth, limit, rounds in ((3.0, 100, 3), (2.5, 100, 3), (3.0, 2, 2), (1.0, 100, 1)):
        learner._undersmooth = undersmooth
        stand_in = StandIn(limit)
        monkeypatch.setattr(lgb, "train", stand_in)
        booster = learner.train(np.arange(100), np.arange(300.0), {}, 2**63 + rounds * limit)
        assert booster.best_iteration == booster.current_iteration() == rounds
        seeds += stand_in.seeds
    assert all(0 <= seed < 2**31 for seed in seeds)  # what LightGBM takes
    assert len(set(seeds)) == 3


class Spy(BaseEstimator):
    """Remembers what it was fitted to and predicts the first column."""

    seen: ClassVar[list[Any]] = []

    def __init__(self, name: str = "") -> None:
        self.name = name

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Spy:
        self.seen.append((self.name, X, y, sample_weight))
        return self

    def predict(self, X: Any) -> Any:
        return X[:, 0]


class SpyClassifier(Spy):
    def predict_proba(self, X: Any) -> Any:
        return np.column_stack([-X[:, 0], X[:, 0]])

    def predict(self, X: Any) -> Any:
        raise AssertionError("probabilities are wanted, not classes")


@pytest.mark.parametrize("weighted", [False, True])
def test_estimators_get_visible_columns_and_their_weights(weighted: bool) -> None:
    weight = np.arange(1.0, 301.0) if weighted else None
    people = make_people(weight=weight)
    estimators = NuisanceEstimators(Spy("outcome"), SpyClassifier("availability"))
    view = CrossFitter(people, FittingOptions(nuisance=estimators, num_threads=1)).view(2)
    train, ask = np.array([3, 9, 30]), np.array([5, 2])
    target = np.linspace(0, 1, len(view.rows))
    for loss in (AVAILABILITY, EVENT):
        Spy.seen.clear()
        predicted = view.learner.fit(train, target, loss, 0)(ask)
        ((name, X, y, given),) = Spy.seen
        assert name == loss.model
        np.testing.assert_array_equal(X, np.column_stack([view.rows[train], view.rows[train] + 0.25]))
        np.testing.assert_array_equal(y, target[train])
        if weighted:
            np.testing.assert_allclose(given, people.weight[view.rows[train]], rtol=1e-6)
        else:
            assert given is None
        np.testing.assert_array_equal(predicted, view.rows[ask])


@pytest.mark.parametrize("clustered", [False, True], ids=["people", "clusters"])
def test_informativeness_in_loops(clustered: bool) -> None:
    n = 200
    rng = np.random.default_rng(4)
    cluster = np.repeat(np.arange(100), 2) if clustered else None
    people = make_people(n, weight=rng.uniform(0.5, 2, n), clusters=cluster)
    g, e = rng.random((2, n))
    nothing = MaskScores(0, np.arange(n), g, g, people.y, (g, 1 - g))
    found = informativeness(people, nothing, KnownView(np.arange(n), None, {1: e}))  # type: ignore[arg-type]
    assert [f.group for f in found] == ["app", "blood"]
    p_values = []
    for number, f in enumerate(found):
        shares = [float(int(a) >> number & 1) for a in people.shared]
        w, total = people.weight, people.weight.sum()
        product: dict[int, float] = defaultdict(float)
        cross = square_y = square_a = rate = 0.0
        for i in range(n):
            first, second = people.y[i] - g[i], shares[i] - e[i]
            product[i if cluster is None else int(cluster[i])] += w[i] * first * second
            cross += w[i] * first * second / total
            square_y += w[i] * first**2 / total
            square_a += w[i] * second**2 / total
            rate += w[i] * shares[i] / total
        values = list(product.values())
        statistic = math.sqrt(len(values)) * np.mean(values) / np.std(values)
        p_values.append(2 * stats.norm.sf(abs(statistic)))
        assert f.shared == pytest.approx(rate)
        assert f.statistic == pytest.approx(statistic)
        assert f.correlation == pytest.approx(cross / math.sqrt(square_y * square_a))
        assert f.p_value == pytest.approx(p_values[-1])
    smaller, larger = sorted(p_values)
    adjusted = sorted(f.adjusted_p_value for f in found)
    assert adjusted == pytest.approx(sorted([min(1, 2 * smaller), max(larger, min(1, 2 * smaller))]))


def test_informativeness_needs_variation() -> None:
    n = 60
    table = np.column_stack([np.arange(n), np.ones(n), np.full(n, np.nan), np.where(np.arange(n) % 2, 1.0, np.nan)])
    people, _ = read_audit_people(table, np.arange(n) % 3, optional=[1, 2, 3], num_threads=1)
    flat = np.zeros(n)
    nothing = MaskScores(0, np.arange(n), flat, flat, people.y, (people.y, people.y))
    found = informativeness(people, nothing, KnownView(np.arange(n), None, {1: flat}))  # type: ignore[arg-type]
    assert [f.note for f in found] == [
        "Everybody shares it: not testable.",
        "Nobody shares it: not testable.",
        "No variation: not testable.",
    ]
    assert [f.shared for f in found] == [1.0, 0.0, 0.5]
    assert all(f.p_value is f.adjusted_p_value is f.statistic is None for f in found)


def test_informativeness_without_variation_of_the_product() -> None:
    """Whoever shares has outcome 1, all others 0: the residuals vary, their product does not."""
    n = 64
    shares = np.arange(n) % 2
    table = np.column_stack([np.arange(n), np.where(shares, 1.0, np.nan)])
    people, _ = read_audit_people(table, shares, optional=[1], num_threads=1)
    half = np.full(n, 0.5)
    nothing = MaskScores(0, np.arange(n), half, half, people.y, (half, half))
    (found,) = informativeness(people, nothing, KnownView(np.arange(n), None, {1: half}))  # type: ignore[arg-type]
    assert (found.note, found.p_value) == ("No variation: not testable.", None)


def test_holm_counts_tested_groups_only_and_stops_at_one() -> None:
    p_values = {"a": 0.6, "b": None, "c": 0.001, "d": 0.55, "e": 0.0}
    found = _with_holm([Informativeness(g, 0.5, None, None, p, None) for g, p in p_values.items()])
    assert [f.group for f in found] == list(p_values)
    adjusted = {f.group: f.adjusted_p_value for f in found}
    assert adjusted == pytest.approx({"a": 1.0, "b": None, "c": 0.003, "d": 1.0, "e": 0.0})
