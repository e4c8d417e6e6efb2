"""Continuous features whose true PUC prediction is logistic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .checks import require
from .families import Draw, Family
from .odds import FloatArray, expit, log_ratio, total_log_odds
from .parameters import effects, keep, parameter, parameter_rng, shrink


@dataclass(frozen=True, eq=False)
class LogisticFamily(Family):
    """Continuous features whose PUC prediction is logistic for every set shared (the paper's C1–C5).

    b ~ N(0, base_variance · I), P(Y=1 | b) = σ(w·b + t); given b and y the features are independent with

    P(A_i=1 | b, Y=1) = N_i σ(x_i),  P(A_i=1 | b, Y=0) = N_i (1 − σ(x_i)),  x_i = U_i·b + lam_i,

    z_i | b, y, A_i=1 ~ N(V_i·b + tau_i(y), eta²), hence

    log odds(Y=1 | b, A ⊇ a, z_a) = w·b + t + Σ_{i∈a} [x_i + (τ1−τ0)/η² · (z_i − V_i·b) + (τ0²−τ1²)/(2η²)].

    The paper leaves the normaliser N_i(b) open. Here N_i = sharing / max(σ(x_i), 1 − σ(x_i)): the likelier
    class shares with probability `sharing`. At the largest possible value, 1, all of that class would share,
    and a withheld value would reveal the label outright.

    Parameters
    ----------
    w : array of shape (n_base,)
    t : float
    U, V : arrays of shape (n_optional, n_base)
    lam, tau0, tau1 : arrays of shape (n_optional,)
    eta, base_variance : float
        Both positive; the paper does not state eta.
    sharing : float
        In (0, 1].

    Examples
    --------
    >>> family = LogisticFamily.paper()
    >>> family.puc_prediction([[0.0, 0.0, float("nan"), float("nan"), float("nan")]])
    array([0.5])
    """

    w: FloatArray
    t: float
    U: FloatArray
    V: FloatArray
    lam: FloatArray
    tau0: FloatArray
    tau1: FloatArray
    eta: float = 1.0
    base_variance: float = 5.0
    sharing: float = 0.9

    # C5 describes z only given that it is shared.
    _values_exist_when_withheld: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the parameters and keep read-only copies."""
        keep(self, w=parameter("w", self.w, (None,)), lam=parameter("lam", self.lam, (None,)))
        n, r = len(self.w), len(self.lam)
        keep(self, U=parameter("U", self.U, (r, n)), V=parameter("V", self.V, (r, n)))
        keep(self, tau0=parameter("tau0", self.tau0, (r,)), tau1=parameter("tau1", self.tau1, (r,)))
        require(bool(np.isfinite(self.t)), f"t must be finite, got {self.t}")
        require(0 < self.eta < np.inf, f"eta must be positive and finite, got {self.eta}")
        require(0 < self.base_variance < np.inf, f"base_variance must be positive, got {self.base_variance}")
        require(0 < self.sharing <= 1, f"sharing must lie in (0, 1], got {self.sharing}")

    @classmethod
    def paper(cls) -> LogisticFamily:
        """Return the paper's second synthetic data set: 2 base and 3 optional features, eta = 1."""
        U = np.array([[0.8, 0.4], [0.0, 0.0], [0.0, 0.0]])
        V = np.array([[0.0, 1.0], [0.0, -0.15], [0.1, 0.2]])
        tau0 = np.array([-0.25, 0.4, -0.2])
        return cls(np.array([-1.5, 1.0]), 0.0, U, V, np.array([0.7, 1.0, 0.0]), tau0, -tau0)

    @classmethod
    def teaser(cls) -> LogisticFamily:
        """Return the paper's introductory example: 2 base features, the first optional feature of `paper`."""
        p = cls.paper()
        return cls(p.w, p.t, p.U[:1], p.V[:1], p.lam[:1], p.tau0[:1], p.tau1[:1])

    @classmethod
    def random(cls, n_base: int, n_optional: int, seed: int) -> LogisticFamily:
        """Return a family with informative availability and values, of the paper's order of magnitude.

        Effects shrink with the square root of the number of features that add up in the log odds; otherwise
        nearly all predictions would be 0 or 1 once there are many optional features.
        """
        rng = parameter_rng(n_base, n_optional, seed)
        w = rng.normal(size=n_base)
        U = rng.normal(0, 0.3, (n_optional, n_base)) * shrink(n_optional, 3) * shrink(n_base, 2)
        V = rng.normal(0, 0.4, (n_optional, n_base)) * shrink(n_base, 2)
        lam, tau = effects(rng, 0.4, 1.1, (n_optional,)), effects(rng, 0.2, 0.5, (n_optional,))
        return cls(0.6 * w / np.linalg.norm(w), float(rng.uniform(-0.5, 0.5)), U, V, lam, -tau, tau)

    def _sizes(self) -> tuple[int, int]:
        return len(self.w), len(self.lam)

    def _levels(self) -> None:
        return None

    def _share(self, base: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return P(A_i=1 | b, Y=0) and P(A_i=1 | b, Y=1): sharing · exp(min(0, ∓x)), the same as N σ(∓x)."""
        x = base @ self.U.T + self.lam
        return self.sharing * np.exp(np.minimum(0, -x)), self.sharing * np.exp(np.minimum(0, x))

    def _draw(self, n: int, rng: np.random.Generator) -> Draw:
        base = rng.normal(0, np.sqrt(self.base_variance), (n, self.n_base))
        y = (rng.random(n) < expit(base @ self.w + self.t)).astype(np.float64)
        share = np.where(y[:, None] == 1, *self._share(base)[::-1])
        tau = np.where(y[:, None] == 1, self.tau1, self.tau0)
        z = base @ self.V.T + tau + self.eta * rng.normal(size=share.shape)
        return base, y, z, rng.random(share.shape) < share

    def _truth(self, base: FloatArray, z: FloatArray, read_silence: bool) -> FloatArray:
        slope = (self.tau1 - self.tau0) / self.eta**2
        value = slope * (z - base @ self.V.T) + (self.tau0**2 - self.tau1**2) / (2 * self.eta**2)
        shared = base @ self.U.T + self.lam + value
        withheld = log_ratio(1 - np.stack(self._share(base), axis=-1)) if read_silence else 0.0
        return expit(total_log_odds(base @ self.w + self.t, np.where(np.isnan(z), withheld, shared)))
