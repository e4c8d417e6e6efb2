"""Monitoring: changes of sharing, exposed sets, and penalties with bounds that hold at every look."""

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from engine_kits import every_engine
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import binom, fisher_exact
from sklearn.linear_model import LinearRegression

import pucboost as puc
from pucboost._auditing import sequence
from pucboost._auditing.drift import MIN_EXPECTED, SharingCounts, holm, newcombe, two_samples
from pucboost._auditing.sequence import State, Sums, rho_for, time_uniform_bound
from pucboost.typing import MonitorReport

QUIET = {"verbosity": -1, "num_threads": 1}


def people(n=600, seed=0, keeps=(0.7, 0.6)):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"b": rng.normal(size=n), "u": rng.normal(size=n), "job": rng.choice(["x", "y", "z"], n)})
    y = (rng.random(n) < 1 / (1 + np.exp(-X["b"] - X["u"]))).astype(float)
    X.loc[rng.random(n) > keeps[0], "u"] = np.nan
    X.loc[rng.random(n) > keeps[1], "job"] = None
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def booster():
    X, y = people(1500)
    return puc.train({"objective": "binary", "optional": ["u", "job"], **QUIET}, puc.Dataset(X, y), 10)


@pytest.fixture(scope="module")
def months(booster):
    """Three months in a row, with the reports after each."""
    report, reports = None, []
    for seed in (11, 12, 13):
        report = puc.monitor(booster, *people(400, seed), margin=0.1, previous=report, num_threads=1)
        reports.append(report)
    return reports


# --- the bound


def test_bound_is_at_least_that_of_the_mixture_and_not_much_more():
    """The twin integrates exp(λs − λ²V/2) over a half-normal λ and finds where it reaches 1/α."""

    def mixture(s, variance, rho):
        top = s / (variance + rho)
        width = 12 / math.sqrt(variance + rho)
        density = math.sqrt(2 * rho / math.pi)

        def value(x):
            return density * math.exp(x * s - x * x * (variance + rho) / 2)

        return quad(value, max(0.0, top - width), top + width)[0]

    for variance, rho, error in ((0.1, 1.0, 0.05), (5.0, 1.0, 0.05), (400.0, 3.0, 0.005), (1e4, 50.0, 0.2)):
        exact = brentq(lambda s, v=variance, r=rho, a=error: mixture(s, v, r) - 1 / a, 0, 9 * math.sqrt(variance + rho))
        bound = time_uniform_bound(variance, rho, error)
        assert exact <= bound <= 1.06 * exact + 1e-9


def test_rho_makes_the_bound_tight_where_it_is_meant_to_be():
    for error in (0.05, 0.005):
        best = min(time_uniform_bound(100.0, rho, error) for rho in np.geomspace(0.1, 1000, 400))
        assert time_uniform_bound(100.0, rho_for(100.0, error), error) < 1.02 * best


def test_random_walks_rarely_cross_the_bound():
    steps = np.random.default_rng(3).normal(size=(2000, 800)).cumsum(axis=1)
    bound = [time_uniform_bound(n, 10.0, 0.05) for n in range(1, 801)]
    crossed = int((steps > bound).any(axis=1).sum())
    assert crossed <= binom.ppf(0.999, 2000, 0.05)
    assert crossed > 20  # not idle either


# --- sums


def test_sums_of_batches_are_those_of_all_people_and_intervals_those_of_a_search():
    rng = np.random.default_rng(0)
    size = (rng.random(900) < 0.4).astype(float)
    score = size * 0.3 + rng.normal(size=900)
    whole = Sums().plus(Sums.of(score, size, 5, 6, 7), 0.05)
    parts = Sums()
    for some in np.array_split(np.arange(900), 4):
        parts = parts.plus(Sums.of(score[some], size[some], 5, 6, 7), 0.05)
    assert (parts.people, parts.compared, parts.events) == (20, 24, 28)
    for name in ("score", "size", "score_score", "score_size", "size_size"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name))
    assert parts.rho < whole.rho  # fixed by the first batch
    same = replace(parts, rho=whole.rho)
    lower, upper = whole.interval(0.02)
    assert same.interval(0.02) == pytest.approx((lower, upper))
    grid = np.linspace(-2, 2, 8001)
    kept = [
        m for m in grid
        if abs(np.sum(score - m * size)) <= time_uniform_bound(float(np.sum((score - m * size) ** 2)), whole.rho, 0.02)
    ]  # fmt: skip
    assert (min(kept), max(kept)) == pytest.approx((lower, upper), abs=1e-3)
    assert whole.exceeds(lower - 1e-6, 0.02)
    assert not whole.exceeds(lower + 1e-6, 0.02)


def test_too_few_to_bound_is_infinite():
    assert Sums().interval(0.05) == (-math.inf, math.inf)
    few = Sums().plus(Sums.of(np.array([0.1, -0.2]), np.array([1.0, 0.0]), 1, 2, 1), 0.05)
    assert few.interval(0.05) == (-math.inf, math.inf)


def test_verdicts():
    def state(**more):
        sums = Sums(score=0, size=400, score_score=9, score_size=0, size_size=400, people=400, compared=900, events=200)
        sums = replace(sums, rho=1.0, **more)
        return State(0.1, 0.95, "binary", 0.5, 40, 3, 900, (0,), {"nothing": sums}).with_verdicts()

    assert state().judged()[0].verdict == "certified"
    assert state(score=400 * 0.5, score_score=110).judged()[0].verdict == "violated"
    assert state(score=-400 * 0.5, score_score=110).judged()[0].verdict == "violated"
    assert state(score_score=9000).judged()[0].verdict == "not decided yet"
    for more in ({"people": 39}, {"compared": 410}, {"events": 19}, {"events": 890}):
        assert state(score=400 * 0.5, score_score=110, **more).judged()[0].note.startswith("Fewer than")
    once = state(score=400 * 0.5, score_score=110)
    later = replace(once, looks=4, sums={"nothing": replace(once.sums["nothing"], score=0.0)}).with_verdicts()
    assert later.judged()[0].verdict == "violated"
    assert later.judged()[0].note == "Found at look 3."


# --- batches


def test_models_never_see_the_batch_they_score(months, booster, monkeypatch):
    """The scores of a later batch are those of the models in the state before it, computed here from its text."""
    import lightgbm as lgb

    X, y = people(400, 12)
    before = months[0].state
    seen = {}
    learn = sequence._learn

    def watched(state, view, audited, scores, loss):
        seen.update(scores=scores, view=view)
        return learn(state, view, audited, scores, loss)

    monkeypatch.setattr(sequence, "_learn", watched)
    puc.monitor(booster, X, y, previous=months[0], num_threads=1)
    scores, shown = seen["scores"], seen["view"].shown
    codes = pd.DataFrame({"b": X["b"], "u": X["u"], "job": X["job"].map({"x": 0.0, "y": 1.0, "z": 2.0})}).to_numpy(
        float
    )
    table = codes[scores.rows]
    table[:, 1][shown & np.uint64(1) == 0] = np.nan
    table[:, 2][shown & np.uint64(2) == 0] = np.nan
    f = scores.deviation + scores.target
    (((_, outcome),), ((levels, availability),)) = before.outcome, before.availability
    assert len(levels) == len(before.sets) + 1
    level = np.select([shown == np.uint64(mask) for mask in before.sets], levels[:-1], levels[-1])

    def added(text):
        return lgb.Booster(model_str=text).predict(table) if text else 0.0

    g, e = f + added(outcome), np.clip(level + added(availability), 0, 1)
    exact = scores.size > 0
    np.testing.assert_allclose(scores.score, exact * (f - g) - e * (scores.target - g), atol=1e-9)
    # Its own outcomes change nothing but e·(Y − g).
    puc.monitor(booster, X, 1 - y, previous=months[0], num_threads=1)
    np.testing.assert_allclose(seen["scores"].outcome[0], g, atol=1e-9)


def test_months_add_up(months):
    assert [report.looks for report in months] == [1, 2, 3]
    assert months[-1].state.people == 1200
    assert set(months[-1].to_frame()["name"]) >= {"nothing", "all who withhold something", "rarer sets together"}
    widths = [report.to_frame().set_index("name").eval("upper - lower")["nothing"] for report in months]
    assert widths[2] < widths[1] < widths[0]


def test_a_penalty_is_found_and_the_truth_is_not_blamed():
    def model(penalty):
        def predict(X):
            justified = 1 / (1 + np.exp(-X[:, 0]))
            return np.clip(justified + penalty * np.isnan(X[:, 1]), 0, 1)

        return predict

    verdicts = {}
    for penalty in (0.0, 0.3):
        report, fair = None, model(penalty)
        for seed in range(3):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(500, 2))
            y = (rng.random(500) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
            X[rng.random(500) < 0.4, 1] = np.nan
            report = puc.monitor(fair, X, y, margin=0.1, previous=report, optional=[1], num_threads=1)
        verdicts[penalty] = report.verdict
        assert [p.name for p in report.penalties] == ["nothing"]  # with one group there is nobody else
    assert verdicts == {0.0: "certified", 0.3: "violated"}


def test_round_trip_through_a_file(months, booster, tmp_path):
    path = tmp_path / "state.json"
    text = months[1].to_json(path)
    again = MonitorReport.from_json(path)
    assert again.to_json() == text == MonitorReport.from_json(text).to_json()
    assert again.verdict == json.loads(text)["verdict"]
    resumed = puc.monitor(booster, *people(400, 13), previous=path, num_threads=1)
    assert resumed.penalties == months[2].penalties
    assert resumed.state.outcome == months[2].state.outcome


def test_a_report_that_is_damaged_is_refused(months):
    """Trees of the audit's own models are in it, and LightGBM ends the process when it reads damaged ones."""
    text = months[1].to_json()
    tree = text.index("Tree=0")
    for damaged in (text.replace("Tree=0", "Tree?0", 1), text[:tree] + text[tree + 1 :], text[:tree]):
        with pytest.raises(ValueError, match=r"is not a report of pucboost\.monitor: it(s content)? is not"):
            MonitorReport.from_json(damaged)
    with pytest.raises(ValueError, match="its digest is missing"):
        MonitorReport.from_json(json.dumps(months[1].to_dict()))


def test_the_state_holds_no_rows_of_people(booster):
    X, y = people(300, 21)
    X["b"] += 1234.5
    texts = json.dumps(puc.monitor(booster, X, y, margin=0.1, num_threads=1).to_dict())
    assert not any(f"{value:.6f}" in texts for value in X["b"])


# --- sharing


def test_two_samples_newcombe_and_holm_are_as_in_the_books():
    assert two_samples(3, 50, 9, 60) == pytest.approx(fisher_exact([[3, 47], [9, 51]])[1])
    z = (200 / 1000 - 300 / 1200) / math.sqrt(500 / 2200 * 1700 / 2200 * (1 / 1000 + 1 / 1200))
    assert two_samples(200, 1000, 300, 1200) == pytest.approx(math.erfc(abs(z) / math.sqrt(2)))
    assert two_samples(0, 10, 0, 10) == 1.0
    # Newcombe 1998, table II, example a: 56/70 − 48/80
    assert newcombe(48, 80, 56, 70) == pytest.approx((0.0524, 0.3339), abs=1e-4)
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_rounded_counts_contain_the_true_ones():
    rng = np.random.default_rng(0)
    for _ in range(200):
        true = rng.integers(1, 60, 16)
        exact = SharingCounts(int(true.sum()), tuple(enumerate(true.tolist())), 1)
        kept = exact.kept()
        assert all(n % 5 == 0 for _, n in kept.sets)
        for mask in range(16):
            low, high = kept.between(lambda s, m=mask: s & m == m)
            assert low <= exact.between(lambda s, m=mask: s & m == m)[0] <= high


def test_sharing_is_compared_with_training_a_table_or_a_report(booster):
    X, _ = people(1500)
    same, fewer = people(1000, 5)[0], people(1000, 6, keeps=(0.4, 0.6))[0]
    for reference in (None, X, puc.monitor(booster, X, num_threads=1)):
        assert not puc.monitor(booster, same, reference=reference, num_threads=1).changed
        report = puc.monitor(booster, fewer, reference=reference, num_threads=1)
        changed = {(c.kind, c.name) for c in report.changed}
        assert ("at least", "u") in changed
        assert ("at least", "job") not in changed
        assert report.exposed == ("u",)
        (change,) = (c for c in report.changed if (c.kind, c.name) == ("at least", "u"))
        assert change.lower <= change.difference <= change.upper < -0.2
    assert report.verdict == "no outcomes yet"
    assert set(report.to_frame()["kind"]) == {"exactly", "at least"}


def test_false_alarms_about_sharing_are_rare():
    """Many small sets, so that rounding, rare sets and the choice of sets matter."""
    rng, alarms = np.random.default_rng(1), 0
    X = rng.normal(size=(2000, 7))
    X[rng.random((2000, 7)) < 0.5] = np.nan
    X[:, 0] = 1.0
    for seed in range(60):
        rng = np.random.default_rng(100 + seed)
        old, new = rng.normal(size=(2, 1500, 7))
        for table in (old, new):
            table[:, 1:][rng.random((1500, 6)) < 0.5] = np.nan
        first = puc.monitor(lambda X: X[:, 0], old, optional=[1, 2, 3, 4, 5, 6], num_threads=1)
        report = puc.monitor(lambda X: X[:, 0], new, reference=first, optional=[1, 2, 3, 4, 5, 6], num_threads=1)
        alarms += bool(report.changed)
        assert len(report.sharing) > 20
    assert alarms <= binom.ppf(0.999, 60, 0.05)
    assert MIN_EXPECTED == 20


def test_new_sets_and_unknown_categories_are_named(booster):
    X, _ = people(300, 3)
    few = puc.train({"optional": ["u", "job"], **QUIET}, puc.Dataset(*people(600, 1, keeps=(1.0, 0.5))), 3)
    report = puc.monitor(few, X, num_threads=1)
    assert {name for name, _ in report.new_sets} == {"nothing", "job"}
    X.loc[:4, "job"], X.loc[5, "job"] = "pilot", "poet"
    with pytest.warns(UserWarning, match="does not know"):
        report = puc.monitor(booster, X, num_threads=1)
    (unknown,) = report.unknown
    assert (unknown.column, unknown.rows, unknown.values) == ("job", 6, ("pilot", "poet"))
    assert "pilot" in str(report)


# --- the face


def test_containers_give_the_same(booster, months):
    X, y = people(400, 11)
    for table in (pl.from_pandas(X), pl.from_pandas(X).to_arrow()):
        assert puc.monitor(booster, table, y, margin=0.1, num_threads=1).penalties == months[0].penalties


@every_engine
def test_models_of_every_engine_and_estimators(kit):
    X, y = people(400, 1)
    model = kit.fit(X[["b", "u"]].to_numpy(), y, 3, optional=[1])
    report = puc.monitor(model, X[["b", "u"]].to_numpy(), y, margin=0.2, num_threads=1)
    assert report.compared_with == "training"
    assert report.looks == 1
    assert not report.changed


def test_wrappers_weights_exposures_and_clusters():
    X, y = people(400, 1)
    estimator = puc.PUCClassifier(optional=["u", "job"], n_estimators=3, n_jobs=1).fit(X, y)
    report = puc.monitor(estimator, X, y, margin=0.2, num_threads=1)
    assert report.compared_with == "training"
    assert not report.changed
    again = puc.monitor(estimator, *people(400, 2), previous=report, num_threads=1)
    assert again.looks == 2
    numbers = X[["b", "u"]].to_numpy()
    rates = puc.train(
        {"objective": "poisson", **QUIET}, puc.Dataset(numbers, y, optional=[1], exposure=np.full(400, 2.0)), 3
    )
    with pytest.raises(ValueError, match="exposure is needed"):
        puc.monitor(rates, numbers, y, margin=0.2)
    doubled = puc.monitor(rates, numbers, 2 * y, margin=0.2, exposure=np.full(400, 4.0), num_threads=1)
    plain = puc.monitor(rates, numbers, y, margin=0.2, exposure=np.full(400, 2.0), num_threads=1)
    assert doubled.penalties == plain.penalties
    weighted = puc.monitor(
        rates,
        numbers,
        y,
        margin=0.2,
        exposure=np.full(400, 2.0),
        weight=np.r_[np.zeros(100), np.ones(300)],
        num_threads=1,
    )
    assert weighted.people == 300
    pairs = puc.monitor(
        rates, numbers, y, margin=0.2, exposure=np.full(400, 2.0), clusters=np.arange(400) // 2, num_threads=1
    )
    assert pairs.penalties[0].people == plain.penalties[0].people


def test_quantiles_and_months_without_events():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = X[:, 0] + rng.normal(size=600)
    X[::3, 1] = np.nan
    report = puc.monitor(lambda X: X[:, 0], X, y, margin=0.2, optional=[1], loss="quantile", alpha=0.5, num_threads=1)
    assert abs(report.penalties[0].value) < 0.15

    def fair(X):
        return np.full(len(X), 0.1)

    report = None
    for outcomes in ((rng.random(600) < 0.1) * 1.0, np.zeros(600), (rng.random(600) < 0.1) * 1.0):
        report = puc.monitor(fair, X, outcomes, margin=0.2, optional=[1], previous=report, num_threads=1)
    assert report.looks == 3


def test_pages_and_files(months, tmp_path):
    report = months[-1]
    for text in (report.to_html(tmp_path / "m.html"), report.to_markdown(), str(report), report._repr_html_()):
        assert "Penalties of withholding" in text
        assert "all who withhold something" in text
    assert (tmp_path / "m.html").read_text("utf-8") == report.to_html()


def test_bad_input_is_refused(booster, months, tmp_path):
    X, y = people(200, 1)
    other = puc.train({"objective": "binary", "optional": ["u", "job"], **QUIET}, puc.Dataset(X, y), 2)
    plain = {"optional": [1]}
    damaged = months[0].to_json().replace('"looks"', '"lucks"')
    (tmp_path / "no.json").write_text("[1]", encoding="utf-8")
    calls = [
        (lambda: puc.monitor(booster, X, y), "The first outcomes need a margin"),
        (lambda: puc.monitor(booster, X, margin=0.1), "margin is about outcomes"),
        (lambda: puc.monitor(booster, X, y, margin=-1), "margin must be a positive number"),
        (lambda: puc.monitor(booster, X, y, margin=5), "no model could exceed it"),
        (lambda: puc.monitor(booster, X, y, margin=0.2, previous=months[0]), "margin is 0.2, but 0.1 in previous"),
        (lambda: puc.monitor(booster, X, y, level=0.9, previous=months[0]), "level is 0.9, but 0.95 in previous"),
        (lambda: puc.monitor(other, X, y, previous=months[0]), "about another model"),
        (lambda: puc.monitor(booster, X, y, margin=0.1, level=0.3), "level must lie"),
        (lambda: puc.monitor(booster, X, y[:5], margin=0.1), "y"),
        (lambda: puc.monitor(LinearRegression(), X, y, margin=0.1), "what is optional"),
        (lambda: puc.monitor(np.sum, X[["b", "u"]].to_numpy(), reference=months[0], **plain), "other columns"),
        (lambda: puc.monitor(booster, X, y, margin=0.1, nuisance=(LinearRegression(),) * 2), "LightGBM parameters"),
        (lambda: MonitorReport.from_json(damaged), "is not a report of pucboost.monitor"),
        (lambda: MonitorReport.from_json(tmp_path / "no.json"), "no.json' is not a report of pucboost.monitor"),
    ]  # fmt: skip
    for call, message in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match=message):
                call()
    with pytest.raises(TypeError, match="previous must be what monitor returned"):
        puc.monitor(booster, X, previous=3)
