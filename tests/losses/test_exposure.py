"""Exposure as label and weight, and as an offset: the same for Poisson, another model for the others."""

from __future__ import annotations

import numpy as np
import pytest

from pucboost._losses import per_unit
from pucboost.objectives import Gamma, Objective, Poisson, Tweedie

RNG = np.random.default_rng(3)
SCORE, EXPOSURE = RNG.normal(size=200), RNG.uniform(0.05, 20, 200)
TOTAL = RNG.gamma(2.0, 1.0, 200)
RATE, WEIGHT = per_unit(TOTAL, None, EXPOSURE)


@pytest.mark.parametrize("max_delta_step", [0.0, 0.7])
def test_poisson_with_an_offset_has_the_same_gradients(max_delta_step: float) -> None:
    loss = Poisson(max_delta_step)
    offset = loss.gradient(SCORE + np.log(EXPOSURE), TOTAL)
    ours = loss.gradient(SCORE, RATE, WEIGHT)
    for theirs, mine in zip(offset, ours, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)  # float32


@pytest.mark.parametrize(("loss", "power"), [(Gamma(), 2.0), (Tweedie(1.5), 1.5), (Tweedie(1.1), 1.1)])
def test_others_with_an_offset_weigh_less(loss: Objective, power: float) -> None:
    offset = loss.gradient(SCORE + np.log(EXPOSURE), TOTAL)
    as_weight = loss.gradient(SCORE, RATE, EXPOSURE ** (2 - power))
    for theirs, mine, ours in zip(offset, as_weight, loss.gradient(SCORE, RATE, WEIGHT), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)  # float32
        assert not np.allclose(ours, theirs, rtol=0.01)


def test_variance_of_a_rate_falls_with_its_exposure() -> None:
    """What the weight assumes: Var[Y/e] = φ·μ^p / e for counts, sums of gamma amounts, and amounts of e claims."""
    n, claims = 200_000, 4
    for exposure in (1.0, 4.0):
        counts = RNG.poisson(exposure * 0.5, n)
        assert np.var(counts / exposure) == pytest.approx(0.5 / exposure, rel=0.03)
        sums = RNG.gamma(2.0 * np.maximum(counts, 1e-12), 3.0)
        # λ·E[amount²] per unit: 0.5 · (2·9 + 36)
        assert np.var(sums / exposure) == pytest.approx(27.0 / exposure, rel=0.03)
    means = RNG.gamma(2.0, 3.0, (n, claims)).mean(axis=1)
    assert np.var(means) == pytest.approx(18.0 / claims, rel=0.03)


def test_weights_multiply_exposures() -> None:
    rate, weight = per_unit(np.array([2.0, 3.0]), np.array([10.0, 1.0]), np.array([0.5, 6.0]))
    assert rate.tolist() == [4.0, 0.5]
    assert weight.tolist() == [5.0, 6.0]
