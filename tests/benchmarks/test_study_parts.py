"""The pieces of the studies whose mistakes no table would show. They guard nothing but the studies, and so are slow."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pucboost as puc
from benchmarks import data
from benchmarks.studies import (
    alternatives,
    audit_hard,
    audit_rows,
    convergence,
    degradation,
    inference,
    leakage,
    load,
    native_evidence,
    several,
    soak,
)
from benchmarks.studies.audit_worlds import World, clustered, events, worlds
from benchmarks.studies.scale import balance
from pucboost._auditing.nuisance import CrossFitter
from pucboost._auditing.scores import score_mask
from pucboost._auditing.settings import FittingOptions
from pucboost.simulate import BinaryFamily, LogisticFamily, squared_puc_gap

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every table be a made-up one."""
    monkeypatch.setenv("PUCBOOST_DATA", str(tmp_path))


# Convergence


def test_cells_of_the_binary_family() -> None:
    family = BinaryFamily.paper()
    rows, probability, truth = convergence.all_cells()
    assert rows.shape == (864, 8)
    assert probability.sum() == pytest.approx(1)
    people = family.sample(200_000, 0)
    assert np.array_equal(rows[convergence.cell_of(people.X)], people.X, equal_nan=True)
    seen = np.bincount(convergence.cell_of(people.X), minlength=864) / len(people.y)
    assert np.abs(seen - probability).sum() < 0.08
    f = np.clip(truth + 0.1 * np.nan_to_num(rows[:, 7]), 0, 1)
    drawn = squared_puc_gap(f[convergence.cell_of(people.X)], family, people.X)
    assert convergence.exact_gap(f) == pytest.approx(drawn, rel=0.03)


def test_merged_rows_stand_for_all() -> None:
    family = BinaryFamily.paper()
    people = family.sample(400, 1)
    for scheme in ("exhaustive", "fixed", "balanced"):
        X, y, weight = convergence.augmented(people, family.optional, scheme, 0)
        cell, label, weight_of_one, count = convergence.merged(X, y, weight)
        assert count.sum() == len(y)
        assert (weight_of_one * count).sum() == pytest.approx(weight.sum(), rel=1e-5)
        assert (weight_of_one * count * label).sum() == pytest.approx((weight * y).sum(), rel=1e-5)
        prediction = convergence.predict_baseline((cell, label, weight_of_one, count), 0)
        one = convergence.cell_of(X)[0]
        same = convergence.cell_of(X) == one
        assert prediction[one] == pytest.approx((weight * y)[same].sum() / (1 + weight[same].sum()), rel=1e-5)


def test_slope_of_a_known_rate() -> None:
    rows = [
        {"N": str(n), "gap": str(factor * 3 / n)} for n in (100, 1_000, 10_000, 100_000) for factor in (0.9, 1.0, 1.1)
    ]
    fitted, error = convergence.slope(rows)
    assert fitted == pytest.approx(-1, abs=1e-9)
    assert 0 < error < 0.1


# Audits


@pytest.mark.parametrize("world", worlds(), ids=lambda world: f"{world.name}, {world.rows}")
def test_worlds_know_the_truth(world: World) -> None:
    sample = audit_hard.Sample(replace(world, rows=8_000), 1)
    for scored in sample.true_scores()[:2]:
        assert scored.share is not None
        (g, _), (e, _), rows = scored.outcome, scored.share, scored.rows
        weight, first = sample.people.weight[rows], sample.drawn.X[rows, 0]
        # Nobody else is like the others in a cluster, so that only whole clusters are independent.
        owner = np.arange(len(rows)) if sample.people.cluster is None else sample.people.cluster[rows]
        for error in (weight * (scored.target - g), scored.size - weight * e):
            for part in (np.ones(len(rows)), first > first.mean()):
                added = np.bincount(owner, weights=error * part)
                assert abs(added.sum()) < 4.5 * np.sqrt((added**2).sum())


def test_scores_are_those_of_the_audit() -> None:
    world = clustered(100, 600)
    sample = audit_hard.Sample(world, 0)
    view = CrossFitter(sample.people, FittingOptions(seed=3, num_threads=1)).view(0)
    ours = audit_hard._scores(sample.people, sample.model, world, view, 0)[1]
    theirs = score_mask(sample.people, sample.model, world.loss, view, 0)
    assert np.array_equal(ours.score, theirs.score)
    assert np.array_equal(ours.size, theirs.size)


def test_counts_of_audits_add_up() -> None:
    world = events(6_000)
    rows = audit_hard.measure_others(world, 3)
    one = [audit_hard.true_audit(world, 5_000_000 + number) for number in range(3)]
    assert rows[0]["audits"] == 3
    assert rows[0]["z"] == pytest.approx(sum(found["z"] for found in one))
    assert rows[0]["tests"] + rows[0]["untested"] == 3


def test_own_intervals_certify_more_than_joint_ones() -> None:
    small, large = (audit_rows.measure(2, n, audit_rows.MODELS[0], 4) for n in (1_000, 30_000))
    assert small["by own intervals"] == 0
    assert large["by own intervals"] == large["by joint intervals"] == 4
    at_the_margin = audit_rows.measure(2, 30_000, audit_rows.MODELS[1], 4)
    assert at_the_margin["by joint intervals"] <= at_the_margin["by own intervals"] < 4


# Alternatives


def people_of(family: LogisticFamily, n: int, seed: int) -> tuple[pd.DataFrame, Any, list[str]]:
    """Return people as a table."""
    sample, names = family.sample(n, seed), family.feature_names
    return pd.DataFrame(sample.X, columns=names), sample.y, [names[j] for j in family.optional]


def test_judge_is_the_audit() -> None:
    family = LogisticFamily.paper()
    X, y, optional = people_of(family, 1_500, 0)

    def predict(table: pd.DataFrame) -> Any:
        return np.clip(family.puc_prediction(table.to_numpy()) + 0.1 * table[optional[0]].isna(), 0, 1)

    report = puc.audit(
        predict, X, y, optional=optional, margin=alternatives.MARGIN, loss="binary", seed=3, num_threads=1,
        min_count=100,
    )  # fmt: skip
    judge = alternatives.Judge(X, y, optional, seed=3, min_count=100)
    theirs = {p.name: p for p in report.penalties if p.estimate is not None}
    ours = {p.name: p for p in judge.penalties(predict) if p.estimate is not None}
    assert len(ours) > 3
    for name, penalty in ours.items():
        found, expected = penalty.estimate, theirs[name].estimate
        assert (found.value, found.standard_error) == pytest.approx((expected.value, expected.standard_error), 1e-9)
    found = judge(predict)
    assert found["penalty"] > 2
    assert sum(found[one] for one in alternatives.VERDICTS) == len(ours) - (alternatives.ALL_WITHHOLDING in ours)


@pytest.mark.parametrize("method", alternatives.METHODS)
def test_alternatives_predict_what_they_say(method: str) -> None:
    family = LogisticFamily.paper()
    X, y, optional = people_of(family, 600, 0)
    training = alternatives.Training(X, y, optional, 0, 10)
    trained = alternatives.METHODS[method](training)
    prediction = trained.predict(X)
    assert prediction.shape == y.shape
    assert 0 < prediction.min() < prediction.max() < 1
    silent = trained.predict(X.assign(**dict.fromkeys(optional, np.nan)))
    assert np.allclose(silent, prediction) == (method == "base features only")
    if method == "model per set, from all who share it":
        assert trained.n_models == len(np.unique(alternatives.shared_sets(X, optional)))
        base = alternatives.METHODS["base features only"](training).predict(X)
        assert np.allclose(silent, base)  # who shares nothing is predicted from everybody's base data


def test_credit_is_repaired() -> None:
    """The debt of people with and without an income is of one kind."""
    income, debt = np.array([3_000.0, np.nan, 800.0]), np.array([1_500.0, 700.0, 0.0])
    ratio = np.where(np.isnan(income), debt, debt / (income + 1))
    repaired = alternatives.repaired_credit(pd.DataFrame({"DebtRatio": ratio, "MonthlyIncome": income}))
    assert repaired["Debt"].tolist() == debt.tolist()
    assert "DebtRatio" not in repaired


# Tables of the paper


def test_leak_needs_sharers() -> None:
    """Split by people, no copy of a person scored is left in the training data; split by copies, some are."""
    rows = inference.measure_leak("diabetes", 0, quick=True)
    by_split = {row["split"]: row for row in rows}
    assert set(by_split) == {"copies", "people"}
    assert by_split["copies"][inference.SHARERS_LOSS] < by_split["people"][inference.SHARERS_LOSS]


def test_people_out_of_sample_are_described() -> None:
    task = data.load("diabetes", quick=True)
    y, silent = np.array([0.0, 1, 0, 1]), np.array([True, True, False, False])
    row = inference.describe(task, y, np.array([0.2, 0.4, 0.9, 0.9]), silent)
    assert row[inference.SILENT_LOSS] == 50
    assert row[inference.SHARERS_LOSS] == 50
    assert row[inference.FAVOURABLE] == 100  # class 0 is what people wish for
    assert row[inference.PROBABILITY] == pytest.approx(70)


@pytest.mark.parametrize("name", ["diabetes", "income"])
def test_strategic_people_share_what_helps(name: str) -> None:
    task = data.load(name, quick=True)
    with_it, without = degradation._advice(name, 0, True)
    X, (column,) = degradation._withheld(name, "strategic", 0, True)
    worse = with_it > without if name == "diabetes" else with_it < without
    assert np.array_equal(X[column].isna(), worse)
    assert task.X[column].notna().all()


def test_paired_comparison() -> None:
    assert several.compare([1.0, 2, 3, 4, 5], [1.5, 2.4, 3.6, 4.5, 5.5]) == "better"
    assert several.compare([1.5, 2.4, 3.6, 4.5, 5.5], [1.0, 2, 3, 4, 5]) == "worse"
    assert several.compare([1.0, 2, 3], [1.1, 1.9, 3.0]) == "level"
    assert several.compare([1.0, 2], [1.0, 2]) == "identical"
    assert several.hardly_worse([100.0, 101, 102], [100.0, 101, 101.5])
    assert not several.hardly_worse([100.0, 110, 95], [100.0, 100, 100])


@pytest.mark.parametrize("name", ["diabetes", "income"])
def test_balanced_is_exhaustive_where_it_is_not_trained_again(name: str) -> None:
    """The study copies its results where people have at most as many submasks as balanced has copies."""
    task = data.load(name, quick=True)
    X, optional = task.withhold_several(0)
    few = X[[*optional, *(c for c in X if c not in optional)][: len(optional) + 1]]
    (first, *exhaustive), (second, *balanced) = (
        puc.augment(few, task.y, optional=optional, augmentation=scheme) for scheme in ("exhaustive", "balanced")
    )
    assert len(first) / len(task.y) <= several.COPIES
    assert first.equals(second)
    assert all(np.array_equal(a, b) for a, b in zip(exhaustive, balanced, strict=True))


def test_balance_of_policies() -> None:
    claims, exposure = np.array([0.0, 1, 2, 0]), np.array([1.0, 0.5, 1, 0.5])
    withheld = np.array([[False, False], [True, False], [True, True], [False, False]])
    row = balance(np.full(4, 1.0), claims, exposure, withheld)
    assert row["predicted to observed, something withheld"] == pytest.approx(1.5 / 3)
    assert row["claims a year predicted, all withheld"] == 1
    assert balance(claims + 1e-12, claims, np.ones(4), withheld)["deviance"] == pytest.approx(0, abs=1e-9)


# The native engine beside LightGBM


def compared(measure: str, theirs: list[float], mine: list[float]) -> native_evidence.Comparison:
    return native_evidence.Comparison(measure, tuple(theirs), tuple(mine))


def test_engines_are_compared_in_pairs() -> None:
    """Losses by ratio; what should be 0 by difference, worse if further from 0."""
    losses, higher, shifts = [10.0, 20, 40, 80], [10.2, 20.3, 40.9, 81.5], [-1.0, -1.2, -0.9, -1.1]
    for measure, theirs, mine, verdict in (
        ("loss", losses, higher, "worse"),
        ("loss", higher, losses, "better"),
        ("loss", losses, [10.2, 19.5, 40.9, 79], "level"),
        ("loss", losses, [one * (1 + 1e-6) for one in losses], "identical"),
        ("loss", [1.0], [2.0], "one run"),
        (native_evidence.SECONDS, losses, [1.0, 2, 4, 8.1], ""),
        (native_evidence.SHIFT, shifts, [-0.5, -0.6, -0.4, -0.6], "better"),
        (native_evidence.SHIFT, shifts, [-1.5, -1.6, -1.4, -1.6], "worse"),
    ):
        assert compared(measure, theirs, mine).verdict == verdict


def test_chance_is_counted() -> None:
    """Of engines that differ by noise, 5 % are significant, few families by Holm; one that is far off stays."""
    rng = np.random.default_rng(0)
    noise = [compared("loss", [1.0] * 5, list(np.exp(rng.normal(0, 0.01, 5)))) for _ in range(400)]
    found = [one.verdict for one in noise]
    assert 0 < found.count("worse") < 20
    assert 0 < found.count("better") < 20
    with_any = [bool(native_evidence.remaining(noise[start : start + 10])) for start in range(0, 400, 10)]
    assert sum(with_any) <= 6  # of 40, 2 expected: Holm errs in 5 % of families
    far_off = compared("loss", [1.0] * 5, [1.1, 1.1001, 1.1, 1.1, 1.1])
    assert far_off in native_evidence.remaining([*noise, far_off])
    assert native_evidence.count([*noise, far_off]).startswith("401 comparisons tested: ")


def test_mean_over_settings() -> None:
    """Variants of a run are averaged first, as they share people: twice the same says no more than once."""
    one, other = (compared(native_evidence.SHIFT, [0.0] * 3, mine) for mine in ([1.0, 2, 3], [4.0, 4, 7]))
    single = compared(native_evidence.SHIFT, [0.0], [100.0])
    assert native_evidence.together([[one]]) == native_evidence.together([[one, one]]) == (2, pytest.approx(1 / 3**0.5))
    mean, error = native_evidence.together([[one], [other], [single]])
    assert (mean, error) == (3.5, pytest.approx(0.5 * (1 / 3 + 1) ** 0.5))


def test_engines_learn_from_the_same_people() -> None:
    """The study trains both on the same table: with nothing to learn from chance they predict the same."""
    rows = native_evidence.measure_convergence(300, 0, quick=True)
    gaps = {row["variant"]: (float(row["LightGBM"]), float(row["native"])) for row in rows}
    assert gaps["exhaustive"][0] == pytest.approx(gaps["exhaustive"][1], rel=1e-4)
    assert gaps["balanced"][0] != gaps["balanced"][1]


# Who was in training


def test_ratios_tell_members_as_well_as_can_be_told() -> None:
    """Against normal scores whose differences are known; without a difference they tell nothing."""
    rng = np.random.default_rng(0)
    n, models, questions = 3_000, 16, 3
    half = np.arange(models) < models // 2
    members = rng.permuted(np.tile(half[:, None], (1, n)), axis=0)
    y, errors = (
        rng.normal(size=n),
        rng.normal(size=(models, n, questions)) @ np.array([[1.0, 0.9, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 1.0]]),
    )
    found = {}
    for size in (0.0, 0.3):
        scores = 1e3 * (size * y[:, None] * members[..., None] + errors)
        scores[:, :1_000, 1:] = np.nan  # who shares less can ask less
        residual = 1e6 * y  # scores move little against it
        told = leakage.ratios(scores, members, residual, binary=False)
        one = leakage.ratios(scores[..., :1], members, residual, binary=False)
        found[size] = [leakage.success(part, members)[leakage.AUC] for part in (one, told)]
    assert found[0.0] == pytest.approx([50, 50], abs=1)
    # The best that can be: a person's difference is 0.3 |y| standard deviations, or more by all questions together.
    covariance = np.cov(errors.reshape(-1, questions).T)
    together = float(np.ones(3) @ np.linalg.solve(covariance, np.ones(3))) ** 0.5
    far = 0.3 * np.abs(y) * np.where(np.arange(n) < 1_000, 1.0, together)
    log_ratio = [d * (d * (members - 0.5) + rng.normal(size=members.shape)) for d in (0.3 * np.abs(y), far)]
    best = [leakage.success(one, members)[leakage.AUC] for one in log_ratio]
    assert best[1] > best[0] + 2
    assert found[0.3] == pytest.approx(best, abs=1)


# Load


def test_load_counts_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    tally = load.Tally()
    tally.ask(lambda: np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    tally.ask(lambda: np.array([1.0, np.nextafter(2.0, 3.0)]), np.array([1.0, 2.0]))
    tally.ask(lambda: "report", "report")
    tally.ask(lambda: 1 / 0, 1.0)
    tally.resident = [*[900.0] * 5, *[500.0] * 5, *[600.0] * 5, 503.0, 503.0, 800.0, 503.0, 503.0]
    row = tally.row(seconds=2.0)
    assert (row["requests"], row["errors"], row["other results"], row["per second"]) == ("4", 1, 1, "2")
    assert row["growth, MB"] == "3.0"  # neither the start nor a single moment counts
    assert "ZeroDivisionError" in capsys.readouterr().err


# Soak


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ctrl-C between opening a file and the beginning of its block
def test_soak_tells_faults_from_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What belongs to a fault is none of ours; all else is counted."""
    running, count, failures = soak.Soak(True, tmp_path), itertools.count(), itertools.count()

    def writes(world: soak.World) -> int:
        (tmp_path / "large").write_bytes(bytes(2 * soak.LARGEST_FILE))
        return 1

    def leaves(world: soak.World) -> int:
        (tmp_path / ".left").write_bytes(b"")
        return 1

    def fails(world: soak.World) -> int:
        return 1 // (next(failures) == 0)  # not when it is learned

    running.variants = {
        "steps": [lambda world: [world.step() for _ in range(world.rounds + 1)]],
        "writes": [writes],
        "waits": [lambda world: time.sleep(0.05)],
        "leaves": [leaves],
        "differs": [lambda world: next(count)],
        "fails": [fails],
    }
    running.outcomes = {what: soak.Outcomes() for what in running.variants}
    running.learn()
    for path in tmp_path.glob(".left"):
        path.unlink()
    for _ in range(300):
        running.draw()
    found = running.outcomes
    for what in ("steps", "writes", "waits"):
        assert found[what].calls > sum(found[what].faults.values()) > 0
        assert (found[what].errors, found[what].other_results, found[what].files_left) == (0, 0, 0)
    assert set(found["steps"].faults) <= {soak.MISTAKE, soak.INTERRUPT}
    assert found["writes"].faults[soak.FULL] > 0 < found["waits"].faults[soak.INTERRUPT]
    assert found["differs"].other_results > 20
    assert found["fails"].errors > 20
    assert found["leaves"].files_left > 20
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert not list(tmp_path.glob(".left"))
