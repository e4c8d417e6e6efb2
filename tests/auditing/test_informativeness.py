"""Whether withholding says anything: the level of the test, its power, and Holm's adjustment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from audit_tools import HARMLESS, TEASER, audit

from pucboost._auditing.findings import Informativeness
from pucboost._auditing.nuisance import EVENT, CrossFitter, NuisanceLoss
from pucboost._auditing.people import read_audit_people
from pucboost._auditing.recognition import _with_holm, informativeness
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
    found = []
    for _ in range(draws):
        b = rng.normal(size=n)
        g = expit(b)
        y = (rng.random(n) < g).astype(float)
        share = expit(0.5 - b + dependence * (y - g))
        z = np.where(rng.random(n) < share, 1.0, np.nan)
        known = g * expit(0.5 - b + dependence * (1 - g)) + (1 - g) * expit(0.5 - b - dependence * g)  # P(A = 1 | b)
        rows = np.repeat(np.arange(n), 3) if kind == "clusters" else np.arange(n)
        options: dict[str, Any] = {"clusters": rows} if kind == "clusters" else {}
        if kind == "weights":
            options["weight"] = rng.integers(1, 5, n)
        people, _ = read_audit_people(np.column_stack([b, z])[rows], y[rows], optional=[1], num_threads=1, **options)
        nothing = MaskScores(0, rows, y[rows], y[rows], y[rows], (g[rows], g[rows]))
        found.append(informativeness(people, nothing, KnownView(known[rows]))[0].p_value)  # type: ignore[arg-type]
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
        view = CrossFitter(people, FittingOptions(seed=seed, num_threads=1)).view(0)
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


def test_holm_adjustment() -> None:
    found = [Informativeness(g, 0.5, 0.1, 1.0, p, None) for g, p in (("a", 0.04), ("b", 0.01), ("c", 0.03))]
    adjusted = {f.group: f.adjusted_p_value for f in _with_holm(found)}
    assert adjusted == pytest.approx({"b": 0.03, "c": 0.06, "a": 0.06})
