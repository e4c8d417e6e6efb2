"""Scores, folds, halves and learners, with models that record what they were given; starts from the audited model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import lightgbm as lgb
import numpy as np
import pytest
from audit_tools import TEASER
from sklearn.base import BaseEstimator

from pucboost._auditing.nuisance import (
    AVAILABILITY,
    EVENT,
    MAX_ROUNDS,
    UNDERSMOOTH,
    UNWATCHED_ROUNDS,
    CrossFitter,
    LightGBMLearner,
    NuisanceLoss,
    View,
    lightgbm_params,
    outcome_loss,
    random_folds,
)
from pucboost._auditing.people import AuditedModel, AuditPeople, Loss, read_audit_people
from pucboost._auditing.scores import score_mask
from pucboost._auditing.settings import FittingOptions, NuisanceEstimators
from pucboost.simulate.families import expit


def make_people(n: int = 300, seed: int = 0, **options: Any) -> AuditPeople:
    rng = np.random.default_rng(seed)
    table = np.column_stack([np.arange(n), np.arange(n) + 0.5, np.arange(n) + 0.25])
    table[rng.random(n) < 0.5, 1] = np.nan
    table[rng.random(n) < 0.5, 2] = np.nan
    y = rng.integers(0, 2, n).astype(float)
    return read_audit_people(table, y, optional={"app": [1], "blood": [2]}, num_threads=1, **options)[0]


class KnownView:
    """A view whose models are known: outcome and availability for either half."""

    def __init__(self, rows: Any, outcome: Any, share: Any, shown: Any, weight: Any) -> None:
        self.rows, self.known = rows, {"outcome": outcome, "availability": share}
        self.shown, self.weight = shown, weight
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

    view = KnownView(rows, outcome, share, np.full(len(rows), mask, dtype=np.uint64), people.weight[rows])
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


@pytest.mark.parametrize("folds", [3, 5, 6])
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
    view = View(fitter, learner, rows, *[rows] * 2, None)
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
    view = View(fitter, SpyLearner(), rows, *[rows] * 2, None)
    found = view.cross_fit(people.y[rows], EVENT, 0)
    assert len(fitted) == 5  # progress is shown all the same
    number = {0: 0, 1: 1, 3: 2, 4: 3}  # in the order in which models were fitted
    assert found.tolist() == [1000 * number[k] + v for v, k in enumerate(fitter.fold[rows].tolist())]


def test_nothing_is_fitted_where_there_is_nothing_to_learn() -> None:
    rows = np.arange(10)
    view = View(None, SpyLearner(), rows, rows, rows, None)  # type: ignore[arg-type]
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
    np.testing.assert_array_equal(learner.predict(booster, ask), booster.predict(erased)[ask])
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


def test_early_stopping_does_not_take_the_only_event_or_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
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
    people = make_people(clusters=np.arange(300) // 100)
    learner = CrossFitter(people, FittingOptions(folds=3, num_threads=1)).view(0).learner
    learner.train(np.random.default_rng(0).permutation(100), np.arange(300.0), {}, 0)
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


# The outcome model starts from the audited model: it learns what is missing, or nothing -------------------------------


def people_of(y: Any, b: Any, withheld: Any) -> AuditPeople:
    table = np.column_stack([b, np.where(withheld, np.nan, 1.0)])
    return read_audit_people(table, y, optional=[table.shape[1] - 1], num_threads=1)[0]


def learner_for(loss: str, n: int = 2_000) -> tuple[LightGBMLearner, Any, Any]:
    """A learner, outcomes and their true conditional means, on the scale of the loss."""
    rng = np.random.default_rng(0)
    b = rng.normal(size=n)
    truth = {"squared": b, "binary": expit(b), "poisson": np.exp(b)}[loss]
    draw = {"squared": lambda: truth + rng.normal(size=n), "binary": lambda: rng.random(n) < truth}
    y = np.asarray(draw.get(loss, lambda: rng.poisson(truth))()).astype(float)
    view = CrossFitter(people_of(y, b, rng.random(n) < 0.5), FittingOptions(num_threads=1)).view(0)
    assert isinstance(view.learner, LightGBMLearner)
    return view.learner, y, truth


@pytest.mark.parametrize("name", ["squared", "binary", "poisson"])
def test_a_right_start_is_kept_a_wrong_one_corrected_and_a_useless_one_ignored(name: str) -> None:
    learner, y, truth = learner_for(name)
    loss, train, ask = outcome_loss(Loss(name)), np.arange(1_000), np.arange(1_000, 2_000)
    kept = [learner.fit(train, y, loss, seed, truth)(ask) for seed in range(6)]
    assert any(one.tolist() == truth[ask].tolist() for one in kept)  # no rounds at all: no noise either
    high = truth[ask] > np.median(truth)
    shifted = truth + np.where(truth > np.median(truth), 0.7 * y.std(), 0.0)
    corrected = learner.fit(train, y, loss, 0, shifted)(ask)
    assert abs((corrected - truth[ask])[high].mean()) < 0.7 * (shifted - truth)[ask][high].mean()
    useless = -3 * truth
    np.testing.assert_array_equal(learner.fit(train, y, loss, 0, useless)(ask), learner.fit(train, y, loss, 0)(ask))


def test_by_their_weights_people_decide_what_a_start_is_worth() -> None:
    heavy = np.arange(300) < 100
    people = make_people(weight=np.where(heavy, 10.0, 0.1))
    learner, train = CrossFitter(people, FittingOptions(num_threads=1)).view(0).learner, np.arange(50, 300)
    error, w = np.random.default_rng(0).normal(size=300), people.weight
    by_hand = sum(w[i] * error[i] ** 2 for i in train) / sum(w[i] for i in train)
    assert learner._mean_square(error[train], train) == pytest.approx(by_hand, rel=1e-6)
    # A fifth of these rows have nearly all the weight.
    assert learner._better_than_mean(np.where(heavy, people.y, 1 - people.y), train, people.y)
    assert not learner._better_than_mean(np.where(heavy, 1 - people.y, people.y), train, people.y)


def test_a_start_that_is_certain_and_wrong_does_no_harm() -> None:
    """On the scale of log odds a step from 0 would have no end."""
    learner, y, truth = learner_for("binary", 6_000)
    certain = np.where(truth < 0.3, 0.0, truth)
    train, ask = np.arange(3_000), np.arange(3_000, 6_000)
    learned = learner.best().fit(train, y, outcome_loss(Loss("binary")), 0, certain)(ask)
    assert np.abs(learned - truth[ask]).max() < 0.35
    wrong = certain[ask] == 0
    assert abs((learned - truth[ask])[wrong].mean()) < 0.5 * truth[ask][wrong].mean()


def test_rounds_have_a_limit_where_early_stopping_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, _, _ = learner_for("binary")
    target = np.zeros(2_000)
    target[:3] = 1.0  # a fifth of three is none
    train = np.arange(1_000)
    _, stop = learner._split(train, target, 0)
    assert target[stop].sum() == 0
    booster = learner.train(train, target, EVENT.lightgbm_params, 0)
    assert booster.current_iteration() <= UNWATCHED_ROUNDS
    target[:200] = np.arange(200) % 2
    _, stop = learner._split(train, target, 0)
    assert target[stop].sum() == 20  # a fifth of the events, and of the others
    assert len(stop) == 200
    monkeypatch.setattr("pucboost._auditing.nuisance.MAX_ROUNDS", 5)
    monkeypatch.setattr("pucboost._auditing.nuisance.PATIENCE", 5)
    assert learner.train(train, target, EVENT.lightgbm_params, 0).current_iteration() <= 5 < MAX_ROUNDS


def test_what_both_models_smooth_away_leaves_no_bias_in_a_right_model() -> None:
    """Many weak features: neither model of g nor of e finds their index, and without the start the bias is large."""
    slope, z = np.full(40, 1 / np.sqrt(40)), {"start": [], "no start": []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        b = rng.normal(size=(1_500, 40))
        y = (rng.random(1_500) < expit(1.5 * b @ slope)).astype(float)
        people = people_of(y, b, rng.random(1_500) < expit(1.5 * b @ slope))
        view = CrossFitter(people, FittingOptions(seed=seed, num_threads=1, folds=3)).view(0)
        model = AuditedModel(lambda X: expit(1.5 * X[:, :40] @ slope), people, None, 1)
        scored = score_mask(people, model, Loss("binary"), view, 0)
        exact = (people.shared == 0).astype(float)
        outcome = [view.cross_fit(y, EVENT, half) for half in (0, 1)]
        parts = [exact * (model.given - g) - e * (y - g) for g, e in zip(outcome, scored.share or (), strict=True)]
        for name, score in (("start", scored.score), ("no start", (parts[0] + parts[1]) / 2)):
            theta = score.sum() / exact.sum()
            z[name].append(theta * exact.sum() / np.sqrt(((score - theta * exact) ** 2).sum()))
    assert np.mean(z["no start"]) > 1
    assert abs(np.mean(z["start"])) < 3 / np.sqrt(6)
    assert np.mean(z["no start"]) - np.mean(z["start"]) > 1
