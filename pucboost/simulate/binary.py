"""Binary features, independent given the label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .checks import require
from .families import Draw, Family
from .odds import FloatArray, expit, log_ratio, total_log_odds
from .parameters import effects, keep, parameter_rng, probabilities


@dataclass(frozen=True, eq=False)
class BinaryFamily(Family):
    """Naive Bayes with binary features and independent availability.

    p(b, a, z, y) = p(y) ∏_j p(b_j | y) ∏_i p(z_i | y) p(a_i | z_i, y), hence

    odds(Y=1 | b, A ⊇ a, z_a) = [p(1) ∏_j p(b_j|1) ∏_{i∈a} p(z_i|1) p(A_i=1|z_i,1)] / [the same for 0].

    Parameters
    ----------
    prior : float
        P(Y = 1).
    p_base : array of shape (n_base, 2)
        P(b_j = 1 | y), indexed [j, y].
    p_value : array of shape (n_optional, 2)
        P(z_i = 1 | y), indexed [i, y].
    p_share : array of shape (n_optional, 2, 2)
        P(A_i = 1 | z_i, y), indexed [i, z_i, y].

    Examples
    --------
    >>> family = BinaryFamily.paper()
    >>> family.sample(100, seed=0).X.shape, family.optional
    ((100, 8), [5, 6, 7])
    """

    prior: float
    p_base: FloatArray
    p_value: FloatArray
    p_share: FloatArray

    def __post_init__(self) -> None:
        """Check the parameters and keep read-only copies."""
        require(0 < self.prior < 1, f"prior must lie in (0, 1), got {self.prior}")
        keep(self, p_base=probabilities("p_base", self.p_base, (None, 2)))
        keep(self, p_value=probabilities("p_value", self.p_value, (None, 2)))
        keep(self, p_share=probabilities("p_share", self.p_share, (len(self.p_value), 2, 2)))

    @classmethod
    def paper(cls, prior: float = 0.6) -> BinaryFamily:
        """Return the paper's first synthetic data set: 5 base and 3 optional features.

        Availability depends on the label alone. The paper's table gives no class prior; 0.6 is our choice.
        """
        base = [[0.090, 0.141], [0.915, 0.930], [0.225, 0.020], [0.771, 0.377], [0.202, 0.347]]
        value = [[0.968, 0.322], [0.874, 0.239], [0.723, 0.159]]
        withheld = np.array([[0.920, 0.345], [0.647, 0.294], [0.508, 0.207]])
        share = np.repeat(1 - withheld[:, None, :], 2, axis=1)
        return cls(prior, np.array(base), np.array(value), share)

    @classmethod
    def random(cls, n_base: int, n_optional: int, seed: int) -> BinaryFamily:
        """Return a family whose availability depends on value and label; effects shrink with n_optional."""
        rng = parameter_rng(n_base, n_optional, seed)
        half = np.array([-0.5, 0.5])  # for levels 0 and 1, so that an effect is a difference of log odds
        r = (n_optional, 1, 1)
        base = rng.normal(0, 0.8, (n_base, 1)) + effects(rng, 0.3, 1.2, (n_base, 1)) * half
        value = rng.normal(0, 0.5, (n_optional, 1)) + effects(rng, 0.8, 2.0, (n_optional, 1)) * half
        share = rng.normal(0.2, 0.3, r) + effects(rng, 0.8, 2.0, r) * half
        share = share + effects(rng, 0.4, 1.5, r) * half[:, None]
        return cls(float(rng.uniform(0.4, 0.6)), expit(base), expit(value), expit(share))

    def _sizes(self) -> tuple[int, int]:
        return len(self.p_base), len(self.p_value)

    def _levels(self) -> tuple[int, ...]:
        return (2,) * (self.n_base + self.n_optional)

    def _draw(self, n: int, rng: np.random.Generator) -> Draw:
        y = (rng.random(n) < self.prior).astype(np.intp)
        base = rng.random((n, self.n_base)) < self.p_base.T[y]
        z = (rng.random((n, self.n_optional)) < self.p_value.T[y]).astype(np.intp)
        available = rng.random(z.shape) < self.p_share[np.arange(self.n_optional), z, y[:, None]]
        return base.astype(np.float64), y.astype(np.float64), z.astype(np.float64), available

    def _truth(self, base: FloatArray, z: FloatArray, read_silence: bool) -> FloatArray:
        by_base = np.where(base == 1, log_ratio(self.p_base), log_ratio(1 - self.p_base))
        value = np.stack([1 - self.p_value, self.p_value], axis=1)
        by_level = log_ratio(value * self.p_share)
        shared = np.where(z == 1, by_level[:, 1], by_level[:, 0])
        withheld = log_ratio((value * (1 - self.p_share)).sum(axis=1)) if read_silence else 0.0
        by_optional = np.where(np.isnan(z), withheld, shared)
        return expit(total_log_odds(np.log(self.prior / (1 - self.prior)), by_base, by_optional))
