"""Behind the averages: directions learned from some and tested on others, and whom people are compared with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audit_tools import HARMLESS, QUICK, TEASER, audit, entry_of, known_nuisance, scored_of, silence_probability
from auditing.report_examples import penalty

import pucboost as puc
from pucboost._auditing.context import comparability, compared_with_themselves
from pucboost._auditing.findings import BaseFeature, Comparability, Estimate, Part, WithinSet
from pucboost._auditing.nuisance import CrossFitter
from pucboost._auditing.people import AuditedModel, Loss, read_audit_people
from pucboost._auditing.recognition import on_columns_that_tell
from pucboost._auditing.scores import ratio_estimate, score_mask
from pucboost._auditing.settings import FittingOptions
from pucboost._auditing.within import for_some, judge_within, learn_directions, rules_of_tree, teaching_folds

BINARY = Loss("binary")


def opposite(X: Any) -> Any:
    """8 points too much for one half of the silent, 8 too little for the other."""
    shift = np.where(X[:, 1] > 0, 0.08, -0.08)
    return np.clip(HARMLESS.puc_prediction(X) + np.isnan(X[:, 2]) * shift, 0, 1)


def test_penalties_that_cancel_are_found_and_it_is_said_for_whom() -> None:
    people = HARMLESS.sample(8_000, 0)
    report = audit(opposite, people, HARMLESS, margin=0.03, folds=5)
    nothing = entry_of(report)
    assert nothing.verdict == "certified"  # on average
    assert nothing.note == "on average; some are told too much, others too little"
    assert report.verdict == "violated for some"
    assert not report.passed
    assert report.reason.startswith("People who share nothing differ: some are told more and others less")
    found, everything = report.within
    assert found.beyond_margin
    assert (everything.name, everything.decisive, everything.beyond_margin) == ("everything", False, False)
    assert found.at_least > 0.03
    assert found.spread.value < 0.1
    assert {part.rule.split()[0] for part in found.parts} <= {"Column_1", "Column_0"}
    first, last = found.parts[0].penalty, found.parts[-1].penalty
    assert first.lower > 0 > last.upper
    assert sum(part.people for part in found.parts) < nothing.people  # the first people only taught
    assert found.parts[0].rule in report.to_html()


def test_a_right_model_is_rarely_accused() -> None:
    """Against a margin of 0 the test must hold its level of 5 %: bounds of three standard errors."""
    accused = 0
    for seed in range(60):
        people, view, scored = scored_of(TEASER, TEASER.puc_prediction, 800, seed, folds=3)
        found = judge_within(people, BINARY, [learn_directions(people, BINARY, view, scored)], 0.0, 0.95, "max-t", 0)
        accused += found[0].beyond_margin
    assert accused / 60 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)


def test_each_fold_is_tested_by_what_the_folds_before_it_taught(monkeypatch: pytest.MonkeyPatch) -> None:
    people, view, scored = scored_of(TEASER, TEASER.puc_prediction, 500, 0)
    trained: list[set[int]] = []
    learner = view.learner.best()
    original = type(learner).fit

    def spy(self: Any, train: Any, *rest: Any) -> Any:
        trained.append(set(train.tolist()))
        assert self._undersmooth == 1.0
        return original(self, train, *rest)

    monkeypatch.setattr(type(learner), "fit", spy)
    found = learn_directions(people, BINARY, view, scored)
    fold = view.fitter.fold
    assert teaching_folds(5) == 2
    assert [sorted(rows) for rows in trained] == [np.flatnonzero(fold < k).tolist() for k in (2, 2, 3, 3, 4, 4)]
    assert found.tested.tolist() == np.flatnonzero(fold >= 2).tolist()
    assert [teaching_folds(folds) for folds in (3, 4, 10)] == [1, 1, 4]


def test_the_statistic_person_by_person() -> None:
    """Known models: s = sign(f − g), and everybody counts as they resemble the silent."""
    sample = TEASER.sample(700, 1)
    people, _ = read_audit_people(sample.X, sample.y, optional=[2], weight=np.linspace(0.5, 1.5, 700), num_threads=1)
    fitting = FittingOptions(nuisance=known_nuisance(TEASER), num_threads=1)
    view = CrossFitter(people, fitting).view(0)

    def model(X: Any) -> Any:
        return np.clip(TEASER.puc_prediction(X) + np.where(X[:, 0] > 0.5, 0.2, -0.1), 0, 1)

    scored = score_mask(people, AuditedModel(model, people, None, 1), BINARY, view, 0)
    directed = learn_directions(people, BINARY, view, scored)
    (found,) = judge_within(people, BINARY, [directed], 0.02, 0.95, "max-t", 0)
    erased = sample.X.copy()
    erased[:, 2] = np.nan
    f, g = model(erased), TEASER.puc_prediction(erased)
    e = silence_probability(TEASER, sample.X[:, :2])
    top = bottom = 0.0
    for i in np.flatnonzero(view.fitter.fold >= 2).tolist():
        s = 1.0 if f[i] > g[i] else -1.0
        top += people.weight[i] * e[i] * s * (f[i] - people.y[i])
        bottom += people.weight[i] * e[i]
    assert found.spread.value == pytest.approx(top / bottom)
    assert found.at_least < found.spread.value
    assert found.beyond_margin
    assert found.parts == ()  # only trees of LightGBM are put into words


def test_without_direction_events_or_clusters_nothing_is_tested() -> None:
    people, view, scored = scored_of(TEASER, TEASER.puc_prediction, 500, 0)
    directed = learn_directions(people, BINARY, view, scored)

    def note(who: Any = people, **changes: Any) -> str:
        (found,) = judge_within(who, BINARY, [replace(directed, **changes)], 0.02, 0.95, "max-t", 0)
        assert found.spread is None
        assert not found.beyond_margin
        return found.note

    nowhere = np.zeros(len(directed.tested))
    assert note(direction=nowhere) == "No direction found in which the model errs."
    some = np.ones(len(directed.tested))
    assert note(direction=some, target=nowhere) == "Fewer than 20 people with the rarer outcome among those tested."
    clustered, _ = read_audit_people(
        TEASER.sample(500, 0).X, people.y, optional=[2], clusters=np.arange(500) % 29, num_threads=1
    )
    assert note(clustered, direction=some) == "Fewer than 30 clusters among those tested."


def test_rules_of_a_tree_in_words() -> None:
    rng = np.random.default_rng(0)
    n = 2_000
    town = pd.Categorical(rng.choice(["Ulm", "Bonn", "Kiel"], n))
    table = pd.DataFrame({"age": rng.uniform(18, 80, n), "town": town, "app": np.where(rng.random(n) < 0.5, 1, np.nan)})
    target = np.where(table["age"] > 50, 1.0, 0.0) + np.where(town == "Kiel", 0.4, 0.0)
    table.loc[:99, "age"] = np.nan
    people, _ = read_audit_people(table, target, optional=["app"], num_threads=1)
    learner = CrossFitter(people, FittingOptions(num_threads=1)).view(0).learner
    booster = learner.tree(np.arange(n), target, np.ones(n), 4)
    rules, leaf = rules_of_tree(booster, people), learner.leaves_of(booster, np.arange(n))
    assert len(rules) == len(np.unique(leaf)) == 4
    told = " | ".join(rules.values())
    assert "age above" in told
    assert "age up to" in told
    assert "town is one of Kiel" in told or "town is none of" in told
    assert "or missing" in told
    for number, rule in rules.items():
        inside = table["age"][leaf == number].dropna()
        if rule.startswith("age above"):
            assert inside.min() > float(rule.split()[2]) - 0.1
        if rule.startswith("age up to"):
            assert inside.max() <= float(rule.split()[3]) + 0.1


# Whom people are compared with ----------------------------------------------------------------------------------------


def test_comparison_with_those_who_share_more_person_by_person() -> None:
    people, view, scored = scored_of(TEASER, TEASER.puc_prediction, 1_500, 2)
    found = comparability(people, BINARY, view, scored, 0.95)
    f = scored.deviation + people.y
    assert found.calibration == ratio_estimate(people.weight * (f - people.y), people.weight, 0.95)
    exact, e = people.shared == 0, sum(scored.share) / 2
    alone = e > 0.95
    # Of the k people with the largest ê, at least 95 % surely share nothing: the score interval of their share.
    order, sure = [i for i in np.argsort(-e, kind="stable") if alone[i]], 0
    for k in range(1, len(order) + 1):
        rate = exact[order[:k]].mean()
        if rate > 0.95 and (rate - 0.95) ** 2 >= 1.645**2 * 0.95 * 0.05 / k:
            sure = k
    assert found.recognised == pytest.approx(exact[order[:sure]].sum() / exact.sum())
    more = np.flatnonzero(~exact)
    from pucboost._auditing.nuisance import outcome_loss

    g = view.cross_fit(people.y, outcome_loss(BINARY), 0, f, among=more)
    total = size = low = high = 0.0
    for i in range(1_500):
        odds = min(scored.share[0][i], 0.95) / (1 - min(scored.share[0][i], 0.95))
        if exact[i]:
            low += (f[i] - 1) * alone[i]
            high += f[i] * alone[i]
        if not alone[i]:
            total += f[i] - g[i] if exact[i] else -odds * (people.y[i] - g[i])
            size += exact[i]
    assert found.stricter.value == pytest.approx(total / size)
    assert found.stricter_lower == pytest.approx((total + low) / exact.sum())
    assert found.stricter_upper == pytest.approx((total + high) / exact.sum())
    width = found.stricter_upper - found.stricter_lower
    assert width == pytest.approx((exact & alone).sum() / exact.sum())  # outcomes lie between 0 and 1


def test_where_nobody_shares_more_there_is_nothing_to_compare_with() -> None:
    steps: list[int] = []
    sample = TEASER.sample(600, 0)
    people, _ = read_audit_people(sample.X, sample.y, optional=[2], num_threads=1)
    view = CrossFitter(people, FittingOptions(num_threads=1), lambda: steps.append(1)).view(1)
    scored = score_mask(people, AuditedModel(TEASER.puc_prediction, people, None, 1), BINARY, view, 1)
    before = len(steps)
    found = comparability(people, BINARY, view, scored, 0.95)
    assert (found.recognised, found.stricter, found.stricter_lower) == (None, None, None)
    assert len(steps) == before + 5  # progress is shown all the same


def test_a_warning_where_people_are_compared_with_themselves() -> None:
    nothing = Estimate(0.0, 0.1, -0.2, 0.2)
    quiet, loud = (Comparability("app", 9, 99, nothing, share) for share in (0.25, 0.4))
    assert compared_with_themselves([quiet, Comparability("everything", 9, 9, nothing, None)]) == []
    (said,) = compared_with_themselves([quiet, loud])
    assert said.startswith("Of the people who share app and no more, 40% are compared with themselves")


# Verdicts -------------------------------------------------------------------------------------------------------------


def test_violated_for_some_gives_way_only_to_violated() -> None:
    part = Part("age above 50", 5, Estimate(-0.2, 0.01, -0.22, -0.18))
    beyond = WithinSet("nothing", 9, Estimate(0.1, 0.01, 0.08, 0.12), 0.08, True, (part,))
    for before in ("certified", "inconclusive"):
        verdict, reason, (p,) = for_some(
            before, "why", [penalty("nothing", verdict=before)], [beyond], 0.05, "<{:g}>".format
        )
        assert verdict == "violated for some"
        assert "by <0.1> on average in either direction, beyond the margin of <0.05>" in reason
        assert reason.endswith("Those with age above 50 are told <0.2> less.")
        assert bool(p.note) is (before == "certified")
    assert for_some("violated", "why", [], [beyond], 0.05, str)[:2] == ("violated", "why")
    beside = replace(beyond, name="everything", decisive=False)
    assert for_some("certified", "why", [], [beside], 0.05, str)[:2] == ("certified", "why")
    assert "the model is inaccurate, not only about silence" in for_some("", "", [], [beyond, beside], 0.05, str)[1]
    within = replace(beyond, beyond_margin=False)
    assert for_some("certified", "why", [], [within], 0.05, str)[:2] == ("certified", "why")


def test_columns_that_tell_who_withholds_leave_nothing_certified_about_these() -> None:
    column = BaseFeature("form", "app", 0.99, 0.9, None, True)
    sets = [penalty("", verdict="certified", groups=groups) for groups in (None, (), ("app",))]
    sets.append(penalty("gym", verdict="violated"))
    verdict, reason, lowered = on_columns_that_tell("certified", "why", sets, [column])
    assert verdict == "inconclusive"
    assert reason.startswith("Base column 'form' gives away who withholds")
    assert [p.verdict for p in lowered] == ["inconclusive", "inconclusive", "certified", "violated"]
    assert on_columns_that_tell("violated", "why", sets, [column])[:2] == ("violated", "why")
    assert on_columns_that_tell("certified", "why", sets, []) == ("certified", "why", sets)
    silent = replace(column, group=None)
    _, _, lowered = on_columns_that_tell("certified", "why", sets, [silent])
    assert [p.verdict for p in lowered] == ["inconclusive", "inconclusive", "certified", "violated"]


def test_a_telling_column_is_not_certified_unless_it_is_justified() -> None:
    sample = HARMLESS.sample(3_000, 1)
    table = pd.DataFrame(sample.X, columns=["a", "b", "app"]).assign(form=np.isnan(sample.X[:, 2]) * 1.0)
    table = table[["a", "b", "form", "app"]]

    def model(X: Any) -> Any:
        return HARMLESS.puc_prediction(X[["a", "b", "app"]].to_numpy())

    options = {"optional": ["app"], "margin": 0.1, **QUICK}
    told = puc.audit(model, table, sample.y, **options)
    assert told.verdict == "inconclusive"
    assert "'form' gives away who withholds" in told.reason
    justified = puc.audit(model, table, sample.y, justified="form", **options)
    assert justified.verdict == "certified"
    assert justified.recognition == told.recognition  # still shown
    with pytest.raises(ValueError, match=r"justified names 'from', which is no column. Did you mean 'form'\?"):
        puc.audit(model, table, sample.y, justified=["from"], **options)
    with pytest.raises(ValueError, match="justified must hold names of base columns, got 2"):
        puc.audit(model, table, sample.y, justified=[2], **options)
