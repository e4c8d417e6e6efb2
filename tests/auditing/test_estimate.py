"""The audit's numbers: the estimate written out, and against the truth."""

from __future__ import annotations

import math
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from audit_tools import (
    HARMLESS,
    NO_FIT,
    PAPER,
    TEASER,
    audit,
    constants,
    entry_of,
    interval_by_hand,
    known_nuisance,
    scored_of,
    silence_probability,
)
from tools import QUIET

import pucboost as puc
from pucboost._auditing.nuisance import CrossFitter, LightGBMLearner, NuisanceLoss
from pucboost._auditing.people import AuditedModel, Loss, read_audit_people, read_subgroups
from pucboost._auditing.scores import score_mask
from pucboost._auditing.settings import FittingOptions
from pucboost.demo import insurance_family
from pucboost.simulate import LogisticFamily


def test_penalty_equals_the_formula_written_out_person_by_person() -> None:
    people = TEASER.sample(800, seed=3)
    f = np.clip(TEASER.puc_prediction(people.X) + 0.03, 0, 1)
    weight = np.random.default_rng(0).integers(1, 4, 800).astype(float)
    report = audit(
        lambda X: np.clip(TEASER.puc_prediction(X) + 0.03, 0, 1),
        people,
        weight=weight,
        nuisance=known_nuisance(TEASER),
    )
    nothing = entry_of(report)

    total, size = 0.0, 0.0
    parts = []
    e = silence_probability(TEASER, people.X[:, :2])
    for i in range(800):
        g = 1 / (1 + math.exp(-(people.X[i, :2] @ TEASER.w + TEASER.t)))
        d = 0.0 if people.available[i, 0] else 1.0
        w = weight[i] / weight.mean()
        parts.append((w * (d * (f[i] - g) - e[i] * (people.y[i] - g)), w * d))
        total, size = total + parts[-1][0], size + parts[-1][1]
    theta = total / size
    error = math.sqrt(sum((score - own * theta) ** 2 for score, own in parts)) / size
    assert nothing.estimate is not None
    assert nothing.estimate.value == pytest.approx(theta, abs=1e-12)
    assert nothing.estimate.standard_error == pytest.approx(error, rel=1e-12)
    contributions = [(score - own * theta) / size for score, own in parts]
    ends = interval_by_hand(theta, contributions, [own / size for _, own in parts], 1.959963984540054)
    assert (nothing.estimate.lower, nothing.estimate.upper) == pytest.approx(ends, rel=1e-9)
    assert nothing.people == int((~people.available[:, 0]).sum())
    assert nothing.comparable == 800


def test_rows_repeated_in_clusters_equal_weights() -> None:
    people = TEASER.sample(500, seed=4)
    copies = np.random.default_rng(1).integers(1, 4, 500)
    rows = np.repeat(np.arange(500), copies)
    known = {"nuisance": known_nuisance(TEASER), "optional": [2], "margin": 0.02, "num_threads": 1}
    f = TEASER.puc_prediction
    weighted = puc.audit(f, people.X, people.y, weight=copies, **known)
    repeated = puc.audit(f, people.X[rows], people.y[rows], clusters=rows, **known)
    once = puc.audit(f, people.X[rows], people.y[rows], **known)
    for one, other in zip(weighted.penalties, repeated.penalties, strict=True):
        assert one.estimate.value == pytest.approx(other.estimate.value, abs=1e-12)
        # The usual correction for few clusters: 500, or those of people who share everything.
        clusters = 500 if one.name == "nothing" else one.people
        few = math.sqrt(clusters / (clusters - 1))
        assert few * one.estimate.standard_error == pytest.approx(other.estimate.standard_error, rel=1e-9)
    assert once.penalties[0].estimate.standard_error < repeated.penalties[0].estimate.standard_error


def test_everything_shared_is_shown_but_does_not_decide() -> None:
    people = PAPER.sample(3000, seed=1)
    full = people.available.all(axis=1)

    def unfair_to_sharers(X: Any) -> Any:
        return np.clip(PAPER.puc_prediction(X) + 0.4 * ~np.isnan(X).any(axis=1), 0, 1)

    report = audit(unfair_to_sharers, people, PAPER, margin=0.07)
    entry = entry_of(report, "everything")
    assert not entry.decisive
    assert entry.people == int(full.sum())
    assert entry.verdict == "violated"
    assert report.verdict != "violated"


def test_models_of_outcome_and_availability_never_share_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heart of the estimate: for every fold they are trained on disjoint rows, and on none of that fold."""
    trained: list[tuple[bool, set[int]]] = []
    original = LightGBMLearner.fit

    def spy(self: Any, train: Any, target: Any, loss: NuisanceLoss, seed: int, start: Any = None) -> Any:
        trained.append((loss.model == "availability", set(train.tolist())))
        return original(self, train, target, loss, seed, start)

    monkeypatch.setattr(LightGBMLearner, "fit", spy)
    sample = TEASER.sample(400, 0)
    people, _ = read_audit_people(sample.X, sample.y, optional=[2], num_threads=1)
    fitter = CrossFitter(people, FittingOptions(num_threads=1))
    model = AuditedModel(TEASER.puc_prediction, people, None, 1)
    score_mask(people, model, Loss("binary"), fitter.view(0), 0)
    share, outcome = ([rows for kind, rows in trained if kind is wanted] for wanted in (True, False))
    assert len(share) == len(outcome) == 10
    for k in range(10):  # role by role, fold by fold: in the order in which scores pair them
        fold = set(np.flatnonzero(fitter.fold == k % 5).tolist())
        assert not share[k] & outcome[k]
        assert not (share[k] | outcome[k]) & fold
        assert len(share[k] | outcome[k]) == 400 - len(fold)


@pytest.mark.slow
@pytest.mark.parametrize("family", [TEASER, HARMLESS], ids=["informative", "not informative"])
def test_intervals_cover_and_the_true_model_is_not_flagged(family: LogisticFamily) -> None:
    """A light version of ``python -m benchmarks.run audit``: 60 repetitions, bounds of three standard errors."""
    distance = []
    for seed in range(60):
        _, _, scores = scored_of(family, family.puc_prediction, 2000, seed)
        theta = scores.score.sum() / scores.size.sum()
        error = np.sqrt(((scores.score - scores.size * theta) ** 2).sum()) / scores.size.sum()
        distance.append(theta / error)
    z = np.array(distance)
    assert (np.abs(z) > 1.96).mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 60)
    assert 0.9 - 3 * math.sqrt(0.09 / 60) <= (np.abs(z) < 1.645).mean()
    assert abs(z.mean()) < 0.6  # the bias is a fraction of a standard error
    assert 0.7 < z.std() < 1.35


def test_plain_model_is_violated_and_pucboost_is_not() -> None:
    family = insurance_family()
    train, test = family.sample(10_000, 0), family.sample(6000, 1)
    params = {**QUIET, "objective": "binary", "learning_rate": 0.1}
    plain = lgb.train(params, lgb.Dataset(train.X, train.y), 40)
    fair = puc.train({**params, "optional": family.optional}, lgb.Dataset(train.X, train.y), 40)
    bad = audit(plain, test, family, margin=0.05, truth=family)
    good = audit(fair, test, family, margin=0.05, truth=family)
    assert bad.verdict == "violated"
    assert not bad.passed
    assert good.verdict == "certified"
    assert good.passed
    for report in (bad, good):
        for p in report.penalties:
            if p.groups is not None:
                truth = report.puc_gap.mean_by_mask[p.name]
                assert abs(p.estimate.value - truth) < 4 * p.estimate.standard_error
    assert bad.puc_gap.squared > 3 * good.puc_gap.squared
    # The paper's table of changes: for the silent the unrestricted model departs from the base model.
    silent = next(a for a in bad.averages if a.name == "nothing")
    assert abs(silent.unrestricted_model - silent.base_model) > 0.05
    silent = next(a for a in good.averages if a.name == "nothing")
    assert abs(silent.model - silent.base_model) < 0.03
    # Price of protection: on people as they come the unrestricted model is better.
    price = next(c for c in good.non_degradation if c.other == "unrestricted")
    assert price.difference.lower > 0


def test_flat_surcharge_passes_the_loss_comparison_and_is_violated() -> None:
    people = HARMLESS.sample(12_000, 5)

    def surcharged(X: Any) -> Any:
        return np.clip(HARMLESS.puc_prediction(X) + 0.06 * np.isnan(X[:, 2]), 0, 1)

    report = audit(surcharged, people, HARMLESS)
    assert report.verdict == "violated"
    assert "more than their data justify" in report.reason
    nothing = entry_of(report)
    assert 0.03 < nothing.estimate.value < 0.08
    # The paper's restriction asks that silence not *lower* the loss; a surcharge raises it.
    assert report.inference_from_silence.difference.lower > 0


def test_subgroup_alone_is_penalised() -> None:
    people = HARMLESS.sample(12_000, 6)
    old = people.X[:, 0] > 1

    def hard_on_the_old(X: Any) -> Any:
        return np.clip(HARMLESS.puc_prediction(X) + 0.1 * (np.isnan(X[:, 2]) & (X[:, 0] > 1)), 0, 1)

    report = audit(hard_on_the_old, people, HARMLESS, subgroups={"old": old, "young": ~old}, margin=0.05)
    assert report.verdicts["nothing | old"] == "violated"
    assert report.verdicts["nothing | young"] == "certified"
    assert report.verdict == "violated"
    for name, flags in read_subgroups(np.where(old, "old", "young"), len(old)).items():
        np.testing.assert_array_equal(flags, old if name == "old" else ~old)


def test_sharing_effect_and_bonus_against_quotes() -> None:
    train, test = PAPER.sample(4000, 0), PAPER.sample(1500, 1)
    booster = puc.train({**QUIET, "objective": "binary", "optional": PAPER.optional}, lgb.Dataset(train.X, train.y), 20)
    effect = puc.audit(booster, test.X, test.y, margin=0.02, favourable="lower", **NO_FIT).sharing_effect
    given, withheld = booster.predict(test.X), puc.predict(booster, test.X, sharing="withheld")
    best = puc.predict(booster, test.X, sharing="best", favourable="lower")
    who = test.available.any(axis=1)
    assert effect.people == int(who.sum())
    assert effect.mean == pytest.approx((given - withheld)[who].mean())
    assert effect.share_worse_off == pytest.approx((given > withheld)[who].mean())
    assert effect.mean_bonus == pytest.approx((given - best)[who].mean())
    assert effect.share_with_better_subset == pytest.approx((given > best)[who].mean())
    assert effect.quantiles["0.5"] == pytest.approx(np.quantile((given - withheld)[who], 0.5), abs=1e-2)
    assert sum(effect.histogram.shares) == pytest.approx(1)
    higher = puc.audit(booster, test.X, test.y, margin=0.02, favourable="higher", **NO_FIT).sharing_effect
    most = puc.predict(booster, test.X, sharing="best", favourable="higher")
    assert higher.mean_bonus == pytest.approx((most - given)[who].mean())


def test_balance_is_actual_over_expected() -> None:
    people = TEASER.sample(3000, 7)
    report = audit(TEASER.puc_prediction, people, nuisance=known_nuisance(TEASER))
    f = TEASER.puc_prediction(people.X)
    everybody, nothing = report.balance[0], next(b for b in report.balance if b.name == "nothing")
    assert everybody.ratio.value == pytest.approx(people.y.sum() / f.sum())
    silent = ~people.available[:, 0]
    assert nothing.ratio.value == pytest.approx(people.y[silent].sum() / f[silent].sum())
    assert nothing.cost.value == pytest.approx((people.y - f)[silent].mean())
    # A correct model under informative withholding is not balanced on the silent.
    assert not nothing.ratio.lower <= 1 <= nothing.ratio.upper
    # The interval is that of a ratio: compare with the bootstrap.
    rng = np.random.default_rng(0)
    draws = [(lambda i: people.y[i].sum() / f[i].sum())(rng.integers(0, 3000, 3000)) for _ in range(400)]
    assert everybody.ratio.standard_error == pytest.approx(np.std(draws), rel=0.15)


def test_companions_respect_weights() -> None:
    people = TEASER.sample(900, 0)
    weight = np.where(people.X[:, 0] > 0, 3.0, 0.5)
    f = np.clip(TEASER.puc_prediction(people.X) + 0.1 * people.X[:, 1] / 10, 0.01, 0.99)
    table = {tuple(np.nan_to_num(row, nan=-9.0)): i for i, row in enumerate(people.X)}

    def model(X: Any) -> Any:
        found = [table.get(tuple(np.nan_to_num(row, nan=-9.0))) for row in X]
        return np.array([0.4 if i is None else f[i] for i in found])

    report = audit(model, people, weight=weight, truth=np.full(900, 0.5), nuisance=constants(0.4, 0.5))
    silent = ~people.available[:, 0]

    def mean(values: Any, who: Any) -> float:
        return float((weight * values)[who].sum() / weight[who].sum())

    everybody = np.ones(900, dtype=bool)
    assert report.mean_prediction == pytest.approx(mean(f, everybody))
    average = next(a for a in report.averages if a.name == "nothing")
    assert average.model == pytest.approx(mean(f, silent))
    assert average.outcome == pytest.approx(mean(people.y, silent))
    balance = next(b for b in report.balance if b.name == "nothing")
    assert balance.actual == pytest.approx(mean(people.y, silent))
    assert balance.expected == pytest.approx(mean(f, silent))
    loss = -(people.y * np.log(f) + (1 - people.y) * np.log1p(-f))
    assert report.inference_from_silence.loss == pytest.approx(mean(loss, silent))
    assert report.puc_gap.squared == pytest.approx(mean((f - 0.5) ** 2, everybody))
    assert report.sharing_effect.mean == pytest.approx(mean(f - 0.4, ~silent))
    assert report.support.effective_sample_size == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    bins = report.calibration[1].bins
    assert sum(b.people for b in bins) == 900
    assert sum(abs(b.outcome - b.prediction) for b in bins) / len(bins) < 0.15
    nothing = entry_of(report)
    assert nothing.percent == pytest.approx(100 * nothing.estimate.value / mean(f, silent))
