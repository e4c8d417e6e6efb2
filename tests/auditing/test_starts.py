"""The outcome model starts from the audited model: it learns what is missing, or nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pucboost._auditing.nuisance import EVENT, MAX_ROUNDS, UNWATCHED_ROUNDS, CrossFitter, LightGBMLearner, outcome_loss
from pucboost._auditing.people import AuditedModel, AuditPeople, Loss, read_audit_people
from pucboost._auditing.scores import score_mask
from pucboost._auditing.settings import FittingOptions
from pucboost.simulate.families import expit


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
