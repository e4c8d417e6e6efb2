"""Whether withholding says anything: the test written out in loops, its level, its power, and Holm's adjustment."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from audit_tools import HARMLESS, TEASER, audit
from scipy import stats

from pucboost._auditing.context import _with_holm, informativeness
from pucboost._auditing.findings import Informativeness
from pucboost._auditing.nuisance import EVENT, CrossFitter, NuisanceLoss
from pucboost._auditing.people import read_audit_people
from pucboost._auditing.scores import MaskScores
from pucboost._auditing.settings import FittingOptions
from pucboost.simulate.families import expit


class KnownView:
    """A view whose availability model is the truth."""

    def __init__(self, probability: Any) -> None:
        self.probability = probability

    def cross_fit(self, target: Any, loss: NuisanceLoss, half: int | None = None) -> Any:
        assert loss.model == "availability"
        assert half == 1  # the half the outcome model was not trained on
        return self.probability


def p_values(draws: int, n: int, dependence: float, kind: str) -> Any:
    """Test Y ⟂ A | b with both models known; the outcome shifts the log odds of sharing by ``dependence``."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(n), 3) if kind == "clusters" else np.arange(n)
    table = np.column_stack([np.zeros(len(rows)), rows])
    clusters = rows if kind == "clusters" else None
    people, _ = read_audit_people(table, rows, optional=[1], num_threads=1, clusters=clusters)
    found = []
    for _ in range(draws):
        b = rng.normal(size=n)
        g = expit(b)
        y = (rng.random(n) < g).astype(float)
        share = expit(0.5 - b + dependence * (y - g))
        shared = (rng.random(n) < share).astype(np.uint64)
        known = g * expit(0.5 - b + dependence * (1 - g)) + (1 - g) * expit(0.5 - b - dependence * g)  # P(A = 1 | b)
        weight = rng.integers(1, 5, n) if kind == "weights" else np.ones(n)
        drawn = replace(people, y=y[rows], shared=shared[rows], weight=(weight / weight.mean())[rows])
        nothing = MaskScores(0, rows, y[rows], y[rows], y[rows], (g[rows], g[rows]))
        found.append(informativeness(drawn, nothing, KnownView(known[rows]))[0].p_value)  # type: ignore[arg-type]
    return np.array(found)


@pytest.mark.parametrize("kind", ["rows", "weights", "clusters"])
def test_p_values_are_uniform_where_silence_says_nothing(kind: str) -> None:
    """Binomial bounds of three and a half standard errors on either side, at several places of the distribution."""
    found = p_values(1000, 200, 0.0, kind)
    for place in (0.05, 0.2, 0.5, 0.8):
        width = 3.5 * math.sqrt(place * (1 - place) / len(found))
        assert abs((found < place).mean() - place) < width, place


@pytest.mark.parametrize("kind", ["rows", "weights", "clusters"])
def test_p_values_are_small_where_silence_says_something(kind: str) -> None:
    found = p_values(50, 800, -1.5, kind)
    assert (found < 0.001).mean() > 0.9
    assert (found > 0).all()


def test_covariance_measure_has_its_level_with_fitted_models() -> None:
    found = []
    for seed in range(60):
        sample = HARMLESS.sample(1000, seed)
        people, _ = read_audit_people(sample.X, sample.y, optional=[2], num_threads=1)
        view = CrossFitter(people, FittingOptions(seed=seed, num_threads=1, folds=3)).view(0)
        outcome = view.cross_fit(people.y, EVENT, 0)
        nothing = MaskScores(0, view.rows, people.y, people.y, people.y, (outcome, outcome))
        found.append(informativeness(people, nothing, view)[0].p_value)
    p = np.array(found)
    assert (p < 0.1).mean() <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 60)
    for place in (0.2, 0.5):
        assert abs((p < place).mean() - place) < 3 * math.sqrt(place * (1 - place) / 60), place


def test_informative_withholding_is_noticed_and_harmless_is_not() -> None:
    noticed = audit(TEASER.puc_prediction, TEASER.sample(4000, 2)).informativeness[0]
    harmless = audit(HARMLESS.puc_prediction, HARMLESS.sample(4000, 2), HARMLESS).informativeness[0]
    assert noticed.p_value < 1e-6
    assert abs(noticed.correlation) > 0.1
    assert harmless.p_value > 0.01
    assert abs(harmless.correlation) < 0.05


# Written out ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clustered", [False, True], ids=["people", "clusters"])
def test_informativeness_in_loops(clustered: bool) -> None:
    n = 200
    rng = np.random.default_rng(4)
    cluster = np.repeat(np.arange(100), 2) if clustered else None
    table = np.column_stack([np.arange(n), *np.where(rng.random((2, n)) < 0.5, np.nan, 1.0)])
    options = {"optional": {"app": [1], "blood": [2]}, "num_threads": 1, "clusters": cluster}
    people, _ = read_audit_people(table, rng.integers(0, 2, n), weight=rng.uniform(0.5, 2, n), **options)
    g, e = rng.random((2, n))
    nothing = MaskScores(0, np.arange(n), g, g, people.y, (g, 1 - g))
    found = informativeness(people, nothing, KnownView(e))  # type: ignore[arg-type]
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
    found = informativeness(people, nothing, KnownView(flat))  # type: ignore[arg-type]
    assert [f.note for f in found] == [
        "Everybody shares it: not testable.",
        "Nobody shares it: not testable.",
        "No variation: not testable.",
    ]
    assert [f.shared for f in found] == [1.0, 0.0, 0.5]
    assert all(f.p_value is f.adjusted_p_value is f.statistic is None for f in found)
    # Whoever shares has outcome 1, all others 0: the residuals vary, their product does not.
    shares, half = np.arange(n) % 2, np.full(n, 0.5)
    table = np.column_stack([np.arange(n), np.where(shares, 1.0, np.nan)])
    people, _ = read_audit_people(table, shares, optional=[1], num_threads=1)
    nothing = MaskScores(0, np.arange(n), half, half, people.y, (half, half))
    (found,) = informativeness(people, nothing, KnownView(half))  # type: ignore[arg-type]
    assert (found.note, found.p_value) == ("No variation: not testable.", None)


def test_holm_counts_tested_groups_only_and_stops_at_one() -> None:
    p_values = {"a": 0.6, "b": None, "c": 0.001, "d": 0.55, "e": 0.0}
    found = _with_holm([Informativeness(g, 0.5, None, None, p, None) for g, p in p_values.items()])
    assert [f.group for f in found] == list(p_values)
    adjusted = {f.group: f.adjusted_p_value for f in found}
    assert adjusted == pytest.approx({"a": 1.0, "b": None, "c": 0.003, "d": 1.0, "e": 0.0})
