"""Whom the verdict is about: sets on their own, rarer ones together, and who is not covered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from audit_tools import QUICK, Known
from scipy.stats import binom

import pucboost as puc
from pucboost._auditing.findings import CERTIFIED, CERTIFIED_IN_PART, INCONCLUSIVE, RARER_SETS, VIOLATED
from pucboost._auditing.nuisance import CrossFitter
from pucboost._auditing.penalty import choose_sets
from pucboost._auditing.people import AuditedModel, Loss, read_audit_people
from pucboost._auditing.scores import score_mask
from pucboost._auditing.settings import FittingOptions, JudgementOptions
from pucboost.simulate.families import expit

TRUE_OUTCOMES: dict[str, Any] = {
    **QUICK,
    "nuisance": (Known(lambda X: expit(X[:, 0])), Known(lambda X: np.full(len(X), 0.1))),
}
"""The true outcome model: with it, estimates are right whatever the availability model says."""


def insured(n: int, shares: dict[str, float], seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """A base feature and three groups; ``shares`` says how many share exactly which of them, the others share all."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({c: rng.normal(size=n) for c in "buvw"})
    y = (rng.random(n) < expit(X.b)) * 1.0
    order, start = rng.permutation(n), 0
    for kept, share in shares.items():
        some = order[start : start + round(share * n)]
        X.loc[some, [c for c in "uvw" if c not in kept]] = np.nan
        start += len(some)
    return X, y


def surcharge(kept: str, amount: float) -> Any:
    """The true model, but for those who share exactly some groups."""

    def model(table: Any) -> Any:
        shared = table[list("uvw")].notna()
        exactly = np.all([shared[c] == (c in kept) for c in "uvw"], axis=0)
        return np.minimum(expit(table.b) + amount * exactly, 1)

    return model


def audited(model: Any, X: Any, y: Any, **options: Any) -> puc.typing.AuditReport:
    return puc.audit(model, X, y, **{"margin": 0.06, "optional": list("uvw"), "num_threads": 1, "folds": 3, **options})


# Which sets -----------------------------------------------------------------------------------------------------------


def test_sets_that_may_hold_one_percent_are_tested_on_their_own() -> None:
    X, y = insured(6_000, {"uv": 0.2, "u": 0.008, "v": 0.0065, "": 0.0068, "w": 0.001, "vw": 0.001})
    people, _ = read_audit_people(X, y, optional=list("uvw"), num_threads=1)
    sets = choose_sets(people, JudgementOptions(0.06))
    named = {people.name(mask): people.mask_counts[mask] for mask in sets.alone}
    # A set of 1 % of the people has fewer than 43 of 6,000 in at most 1 % of samples.
    assert binom.cdf(42, 6_000, 0.01) <= 0.01 < binom.cdf(43, 6_000, 0.01)
    assert named == {"nothing": 41, "u + v": 1200, "u": 48, "everything": 4660}
    assert sorted(people.name(mask) for mask in sets.pool) == ["v", "v + w", "w"]
    assert {people.name(mask) for mask in sets.rare} == {"v", "v + w", "w", "nothing"}
    # Of many people, a set of a hundred is tested however rare it is; a cap on the number leaves the others together.
    X, y = insured(30_000, {"u": 0.0034, "v": 0.0032, "w": 0.001})
    people, _ = read_audit_people(X, y, optional=list("uvw"), num_threads=1)
    named = [people.name(mask) for mask in choose_sets(people, JudgementOptions(0.06)).alone]
    assert named == ["u", "everything"]
    few = choose_sets(people, JudgementOptions(0.06, max_masks=1))
    assert [len(few.alone), len(few.pool)] == [1, 3]


def test_a_model_that_penalises_the_silent_is_not_certified_however_few_they_are() -> None:
    """87 of 6,000 share nothing: they were not tested once, and this model was certified."""
    rng = np.random.default_rng(0)
    n = 6_000
    X = pd.DataFrame({c: rng.normal(size=n) for c in "buv"})
    y = (rng.random(n) < expit(X.b)) * 1.0
    k = rng.random(n)
    X.loc[k < 0.2, "u"] = np.nan
    X.loc[(k >= 0.2) & (k < 0.4), "v"] = np.nan
    X.loc[(k >= 0.4) & (k < 0.416), ["u", "v"]] = np.nan

    def dear(t: Any) -> Any:
        return np.where(t[["u", "v"]].isna().all(axis=1), np.minimum(expit(t.b) + 0.4, 1), expit(t.b))

    options = {"margin": 0.06, "optional": ["u", "v"], **QUICK}
    report = puc.audit(dear, X, y, **options)
    assert (report.verdict, report.passed) == (VIOLATED, False)
    assert report.reason.startswith("People who share nothing are told 3")
    fair = puc.audit(lambda t: expit(t.b), X, y, **options)
    assert (fair.verdict, fair.coverage.not_covered) == (CERTIFIED, 0)
    # With so few that no test holds, nothing is certified about them, and a caller must accept that.
    left = ~X[["u", "v"]].isna().all(axis=1) | (np.cumsum(X[["u", "v"]].isna().all(axis=1)) <= 20)
    options |= TRUE_OUTCOMES
    for partial, passed in ((None, False), (0.005, False), (0.01, True), ("allow", True)):
        report = puc.audit(dear, X[left], y[left], partial=partial, **options)
        assert (report.verdict, report.passed) == (CERTIFIED_IN_PART, passed)
    assert [(gap.name, gap.people) for gap in report.coverage.gaps] == [("nothing", 20)]
    assert report.reason.startswith("The verdict does not cover 20 of 2,437 people who withhold something (0.8%)")
    assert "20 people, fewer than the 40 that a test on their own needs." in report.reason
    with pytest.raises(AssertionError, match="CERTIFIED IN PART"):
        puc.testing.assert_consent(dear, X[left], y[left], **options)
    assert puc.testing.assert_consent(dear, X[left], y[left], fail_on="violated", **options) is not None


def test_rarer_sets_are_tested_together_and_nobody_drops_out() -> None:
    small = {"u": 0.006, "v": 0.006, "w": 0.006, "uv": 0.006}
    X, y = insured(6_000, {"uw": 0.2, **small})
    fair = audited(surcharge("", 0.0), X, y)
    rows = fair.penalty.set_index("shares")
    assert (fair.verdict, rows.loc[RARER_SETS, "people"]) == (CERTIFIED, 4 * 36)
    assert rows.loc["all who withhold something", "people"] == fair.coverage.withholding == 1200 + 4 * 36
    assert (fair.coverage.alone, fair.coverage.together, fair.coverage.not_covered) == (1200, 4 * 36, 0)
    assert "and in rarer sets taken together" in fair.reason
    dear = audited(lambda t: np.maximum(surcharge("u", 0.5)(t), surcharge("v", 0.5)(t)), X, y)  # two of the four
    assert dear.verdict == VIOLATED
    assert dear.reason.startswith("People in rarer sets taken together are told ")
    assert next(one for one in dear.within if one.name == RARER_SETS).beyond_margin
    # Five people in odd sets block nothing: they are part of all who withhold something. Whom they are is not hidden.
    X, y = insured(6_000, {"uw": 0.2, "u": 0.0005, "v": 0.0003})
    odd = audited(surcharge("", 0.0), X, y, **TRUE_OUTCOMES)
    assert (odd.verdict, odd.coverage.together, odd.coverage.alone) == (CERTIFIED, 5, 1200)
    assert odd.verdicts[RARER_SETS] == "not testable"
    assert odd.penalty.set_index("shares").loc["all who withhold something", "people"] == 1205
    # Few people: a set may hold 1 % of those they stand for, and is too small for a test.
    X, y = insured(2_000, {"uw": 0.3, "u": 0.012, "v": 0.0005})
    part = audited(surcharge("", 0.0), X, y, margin=0.1, **TRUE_OUTCOMES)
    assert part.verdict == CERTIFIED_IN_PART
    assert [(gap.name, gap.people) for gap in part.coverage.gaps] == [("u", 24), (RARER_SETS, 1)]


def test_people_compared_with_themselves_are_not_covered() -> None:
    """Of the silent, 40 % live where everybody is silent; a model that reads their silence there passes."""
    rng = np.random.default_rng(3)
    n = 4_000
    where, b = rng.random(n) < 0.2, rng.normal(size=n)
    silent = np.where(where, True, rng.random(n) < 0.35)
    X = pd.DataFrame({"b": b, "region": where + rng.normal(0, 0.01, n), "u": np.where(silent, np.nan, 1.0)})
    y = (rng.random(n) < expit(b)) * 1.0
    options = {"margin": 0.06, "optional": ["u"], "justified": ["region"], **QUICK}
    report = puc.audit(lambda t: expit(t.b), X, y, **options)
    assert report.verdict == CERTIFIED_IN_PART
    (gap,) = report.coverage.gaps
    assert gap.people == pytest.approx((where & silent).sum(), rel=0.1)
    assert gap.why == "Hardly anybody with the same data shares more: compared with themselves."
    assert report.support.untested_people == report.coverage.not_covered == gap.people


# The score of rarer sets together -------------------------------------------------------------------------------------


def stacked_case(n: int = 900) -> tuple[Any, Any, list[int], Any]:
    X, y = insured(n, {"u": 0.1, "v": 0.05, "": 0.1, "uv": 0.2}, seed=5)
    people, _ = read_audit_people(X.to_numpy(), y, optional=[1, 2, 3], num_threads=1, weight=np.linspace(0.5, 1.5, n))
    model = AuditedModel(lambda t: 0.3 + 0.1 * np.isnan(t[:, 1]), people, None, 1)
    return people, model, [1, 2, 0], CrossFitter(people, FittingOptions(num_threads=1, folds=3, nuisance=known()))


def known() -> tuple[Known, Known]:
    """Models that only look at the row: base feature, zeros for what is erased, and which groups are shown."""
    return Known(lambda X: expit(X[:, 0]) + 0.1 * X[:, -1]), Known(lambda X: 0.2 + 0.1 * X[:, -3])


def test_the_stack_adds_up_the_scores_of_its_sets_person_by_person() -> None:
    people, model, pool, fitter = stacked_case()
    found = score_mask(people, model, Loss("binary"), fitter.stack(pool), None)
    added, sizes, rows = np.zeros(len(people)), np.zeros(len(people)), 0
    for i in range(len(people)):  # the definition, in loops
        for mask in pool:
            if int(people.shared[i]) & mask == mask:
                rows += 1
                exact = float(int(people.shared[i]) == mask)
                f, g = 0.3 + 0.1 * (not mask & 1), expit(people.source.take(np.array([i]))[0, 0])
                e = 0.2 + 0.1 * (mask & 1)
                added[i] += people.weight[i] * (exact * (f - g) - e * (people.y[i] - g))
                sizes[i] += people.weight[i] * exact
    assert len(found.rows) == rows
    np.testing.assert_allclose(np.bincount(found.rows, weights=found.score, minlength=len(people)), added, atol=1e-12)
    np.testing.assert_allclose(np.bincount(found.rows, weights=found.size, minlength=len(people)), sizes, atol=1e-12)


def test_sampled_comparisons_keep_every_sum_on_average() -> None:
    people, model, pool, fitter = stacked_case()
    whole = score_mask(people, model, Loss("binary"), fitter.stack(pool), None)
    wanted = np.bincount(whole.rows, weights=whole.score, minlength=len(people))
    limit, sums, kept = 900, np.zeros(len(people)), []
    for seed in range(200):
        other = CrossFitter(people, FittingOptions(num_threads=1, folds=3, seed=seed, nuisance=known()))
        view = other.stack(pool, limit)
        exact = people.shared[view.rows] == view.shown
        assert exact.sum() == sum(people.mask_counts[mask] for mask in pool)  # those judged are always kept
        kept.append(len(view.rows))
        one = score_mask(people, model, Loss("binary"), view, None)
        sums += np.bincount(one.rows, weights=one.score, minlength=len(people)) / 200
        again = other.stack(pool, limit)
        assert np.array_equal(again.rows, view.rows)
    assert np.mean(kept) == pytest.approx(limit, rel=0.01)
    error = np.sqrt(((sums - wanted) ** 2).mean())
    assert abs((sums - wanted).sum()) < 4 * error * np.sqrt(len(people))
    assert error < 0.05  # each person's own sum, too


def test_folds_and_early_stopping_hold_people_not_rows() -> None:
    people, _, pool, _ = stacked_case()
    view = CrossFitter(people, FittingOptions(num_threads=1, folds=3)).stack(pool)
    assert len(np.unique(view.rows)) < len(view.rows)
    for k in range(3):
        inside, *parts = (set(view.rows[part].tolist()) for part in view.halves(k))
        assert not inside & (parts[0] | parts[1])
        assert not parts[0] & parts[1]
    fit, stop = view.learner._split(np.arange(len(view.rows)), people.y[view.rows], 0)
    assert not set(view.rows[fit].tolist()) & set(view.rows[stop].tolist())


# Capped outcomes ------------------------------------------------------------------------------------------------------


def test_heavy_tails_are_the_reason_and_capped_outcomes_can_be_audited() -> None:
    rng = np.random.default_rng(0)
    n = 2_000
    X = pd.DataFrame({"b": rng.normal(size=n), "u": np.where(rng.random(n) < 0.5, np.nan, 1.0)})
    y = rng.lognormal(6, 2.2, n)
    mean = float(np.minimum(rng.lognormal(6, 2.2, 1_000_000), 2_000).mean())
    options = {"margin": 100.0, "optional": ["u"], **QUICK}
    heavy = puc.audit(lambda t: np.full(len(t), np.exp(6 + 2.2**2 / 2)), X, y, **options)
    assert heavy.verdict == INCONCLUSIVE
    assert "A few very large outcomes decide this average" in heavy.reason
    fair = puc.audit(lambda t: np.full(len(t), mean), X, y, cap=2_000, **options)
    dear = puc.audit(lambda t: mean + 300.0 * t.u.isna(), X, y, cap=2_000, **options)
    assert [fair.verdict, dear.verdict] == [CERTIFIED, VIOLATED]
    assert fair.cap == fair.to_dict()["cap"] == 2_000
    assert "Outcomes and predictions above 2000 count as 2000" in fair.warnings[0]
    capped = puc.audit(lambda t: np.full(len(t), mean), X, np.minimum(y, 2_000), **options)
    assert capped.penalties == fair.penalties
    high = puc.audit(lambda t: np.full(len(t), 1e9), X, y, cap=2_000, **options)
    assert high.mean_prediction == 2_000
    with pytest.raises(ValueError, match="no outcome is below it"):
        puc.audit(lambda t: np.full(len(t), mean), X, y, cap=0.0, **options)
    with pytest.raises(ValueError, match="cap is for amounts, but the loss is pinball loss"):
        puc.audit(
            lambda t: np.full(len(t), mean), X, y, cap=2_000, loss="quantile", alpha=0.5, **{**options, "margin": 0.1}
        )
