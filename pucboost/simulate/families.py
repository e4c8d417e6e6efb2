"""Families of distributions with known truth, of binary, discrete or continuous features, and the distance to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Draw = tuple[FloatArray, FloatArray, FloatArray, BoolArray]

MAX_STATES = 2**24
"""The joint table of a DiscreteFamily is held in memory as float64: this many states are 128 MB."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows drawn from a family: base columns, then optional ones.

    Z holds the optional values before withholding, or None if the family only defines those that are shared.
    """

    X: FloatArray  # (n, n_base + n_optional), NaN where withheld
    y: FloatArray  # (n,), 0.0 or 1.0
    Z: FloatArray | None  # (n, n_optional)
    available: BoolArray  # (n, n_optional)


class Family(ABC):
    """What all families share: column layout, sampling, and the three true predictions.

    A prediction is NaN where its condition has probability zero. Rows are (b, z), NaN where z is withheld.
    """

    _values_exist_when_withheld: ClassVar[bool] = True

    @abstractmethod
    def _sizes(self) -> tuple[int, int]:
        """Return the numbers of base and of optional columns."""

    @abstractmethod
    def _levels(self) -> tuple[int, ...] | None:
        """Return the number of levels 0, 1, … of each column; None if columns are continuous."""

    @abstractmethod
    def _draw(self, n: int, rng: np.random.Generator) -> Draw:
        """Return base columns, labels, optional values before withholding, availability."""

    @abstractmethod
    def _truth(self, base: FloatArray, z: FloatArray, read_silence: bool) -> FloatArray:
        """Return E[Y | b, A = a, z_a] if the silence is read, else E[Y | b, A ⊇ a, z_a]."""

    @property
    def n_base(self) -> int:
        """Number of base columns."""
        return self._sizes()[0]

    @property
    def n_optional(self) -> int:
        """Number of optional columns, each its own consent group."""
        return self._sizes()[1]

    @property
    def optional(self) -> Any:
        """What is optional: the positions of the optional columns, each its own consent group."""
        return list(range(self.n_base, self.n_base + self.n_optional))

    @property
    def feature_names(self) -> list[str]:
        """Column names b1, b2, …, z1, z2, …."""
        return [f"b{j + 1}" for j in range(self.n_base)] + [f"z{i + 1}" for i in range(self.n_optional)]

    def sample(self, n: int, seed: int) -> Sample:
        """Draw n independent rows; the same seed gives the same rows."""
        require(n >= 0, f"n must be at least 0, got {n}")
        base, y, z, available = self._draw(n, np.random.default_rng(seed))
        X = np.column_stack([base, np.where(available, z, np.nan)])
        return Sample(X, y, z if self._values_exist_when_withheld else None, available)

    def puc_prediction(self, X: npt.ArrayLike) -> FloatArray:
        """Return E[Y | b, A ⊇ a, z_a], a the set of optional values present in each row."""
        return self._truth(*self._split(X), read_silence=False)

    def unrestricted_prediction(self, X: npt.ArrayLike) -> FloatArray:
        """Return E[Y | b, A = a, z_a], which also uses that the other values are withheld."""
        return self._truth(*self._split(X), read_silence=True)

    def base_prediction(self, X: npt.ArrayLike) -> FloatArray:
        """Return E[Y | b], which is the PUC prediction of someone who shares nothing."""
        base, z = self._split(X)
        return self._truth(base, np.full_like(z, np.nan), read_silence=False)

    def _split(self, X: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Check rows and split them into base and optional columns."""
        table, names = np.asarray(X, dtype=np.float64), self.feature_names
        fits = table.ndim == 2 and table.shape[1] == len(names)
        require(fits, f"X must have {len(names)} columns ({', '.join(names)}), got shape {table.shape}")
        levels = self._levels()
        wrong = ~np.isfinite(table)
        if levels is not None:
            wrong |= (table < 0) | (table >= levels) | (table != np.floor(table))
        wrong[:, self.n_base :] &= ~np.isnan(table[:, self.n_base :])
        if wrong.any():
            row, j = np.argwhere(wrong)[0]
            domain = "a finite number" if levels is None else f"one of 0, …, {levels[j] - 1}"
            domain += " or NaN" if j >= self.n_base else ""
            raise ValueError(f"column {names[j]!r} must be {domain}, got {table[row, j]} in row {row}")
        return table[:, : self.n_base], table[:, self.n_base :]


def squared_puc_gap(prediction: npt.ArrayLike, family: Family, X: npt.ArrayLike) -> float:
    """Return mean((f − f*)²), f* the family's true PUC prediction for the rows X.

    Examples
    --------
    >>> import pucboost as puc
    >>> family = puc.simulate.BinaryFamily.paper()
    >>> X = family.sample(1000, seed=0).X
    >>> squared_puc_gap(family.puc_prediction(X), family, X)
    0.0
    """
    truth = family.puc_prediction(X)
    f = np.asarray(prediction, dtype=np.float64)
    require(f.shape == truth.shape, f"prediction must have shape {truth.shape}, got {f.shape}")
    require(f.size > 0, "X must have at least one row")
    return float(np.mean((f - truth) ** 2))


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
        require(0 < self.prior < 1, f"prior must lie in (0, 1), got {self.prior}")
        _keep(self, _probabilities, p_base=(None, 2), p_value=(None, 2))
        _keep(self, _probabilities, p_share=(len(self.p_value), 2, 2))

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
        rng = _parameter_rng(n_base, n_optional, seed)
        half = np.array([-0.5, 0.5])  # for levels 0 and 1, so that an effect is a difference of log odds
        r = (n_optional, 1, 1)
        base = rng.normal(0, 0.8, (n_base, 1)) + _effects(rng, 0.3, 1.2, (n_base, 1)) * half
        value = rng.normal(0, 0.5, (n_optional, 1)) + _effects(rng, 0.8, 2.0, (n_optional, 1)) * half
        share = rng.normal(0.2, 0.3, r) + _effects(rng, 0.8, 2.0, r) * half
        share = share + _effects(rng, 0.4, 1.5, r) * half[:, None]
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
        by_base = np.where(base == 1, _log_ratio(self.p_base), _log_ratio(1 - self.p_base))
        value = np.stack([1 - self.p_value, self.p_value], axis=1)
        by_level = _log_ratio(value * self.p_share)
        shared = np.where(z == 1, by_level[:, 1], by_level[:, 0])
        withheld = _log_ratio((value * (1 - self.p_share)).sum(axis=1)) if read_silence else 0.0
        by_optional = np.where(np.isnan(z), withheld, shared)
        return expit(_total_log_odds(np.log(self.prior / (1 - self.prior)), by_base, by_optional))


@dataclass(frozen=True, eq=False)
class DiscreteFamily(Family):
    """Discrete features with dependent values and dependent availability; truth by enumeration.

    P(b, z, y, a) = cell(b) ∏_i value_i(z_i | b, z_{i−1}) · P(y | b, z) ∏_i share_i(a_i | z_i, y, a_{i−1}).

    All states are enumerated once, when first needed, and summed over what is not observed.

    Parameters
    ----------
    cell : array of shape (levels of b1, levels of b2, …)
        P(b). A position in the flattened array is called a cell below.
    value : array of shape (n_optional, cells, K, K)
        P(z_i | b, z_{i−1}), indexed [i, cell, z_{i−1}, z_i]; the first feature uses z_{i−1} = 0.
    label : array of shape (cells, K, …, K)
        P(Y = 1 | b, z), one axis for each optional feature.
    share : array of shape (n_optional, K, 2, 2)
        P(A_i = 1 | z_i, y, a_{i−1}), indexed [i, z_i, y, a_{i−1}]; the first feature uses a_{i−1} = 1.

    Examples
    --------
    >>> family = DiscreteFamily.random(2, 4, seed=0)
    >>> family.puc_prediction(family.sample(5, seed=1).X).shape
    (5,)
    """

    cell: FloatArray
    value: FloatArray
    label: FloatArray
    share: FloatArray

    def __post_init__(self) -> None:
        _keep(self, _probabilities, cell=(None,) * max(1, np.ndim(self.cell)), share=(None, None, 2, 2))
        cells, (r, k) = self.cell.size, self.share.shape[:2]
        _check_states(cells, r, k)
        _keep(self, _probabilities, value=(r, cells, k, k), label=(cells, *(k,) * r))
        total, totals = self.cell.sum(), self.value.sum(axis=-1)
        require(bool(abs(total - 1) < 1e-9), f"cell must sum to 1, got {total}")
        require(bool(np.all(abs(totals - 1) < 1e-9)), "value must sum to 1 over its last axis")

    @classmethod
    def random(
        cls,
        n_base: int,
        n_optional: int,
        seed: int,
        levels: int = 3,
        optional_levels: int = 2,
        label_effect: float = 0.4,
        nested: bool = False,
    ) -> DiscreteFamily:
        """Return a family in which people tend to withhold values that point to one of the labels.

        Parameters
        ----------
        n_base, n_optional, seed : int
        levels, optional_levels : int
            Levels of each base and of each optional feature.
        label_effect : float
            How much the label itself moves the log odds of sharing; 0 makes Y ⟂ A | b, z.
        nested : bool
            Let people share an optional feature only with the one before it: ordered consent.
        """
        rng = _parameter_rng(n_base, n_optional, seed)
        require(levels >= 1, f"levels must be at least 1, got {levels}")
        require(optional_levels >= 2, f"optional_levels must be at least 2, got {optional_levels}")
        cells, r, k = levels**n_base, n_optional, optional_levels
        _check_states(cells, r, k)
        position = np.linspace(-1, 1, k)
        carried = _effects(rng, 0.5, 1.0, (r, 1, 1, 1)) * position[:, None]
        tilt = rng.normal(0, 0.5, (r, cells, 1, 1)) + carried + rng.normal(0, 0.2, (r, cells, k, 1))
        value = np.exp(tilt * position)
        slope = _effects(rng, 1.2, 2.0, (r,))
        label = rng.normal(0, 0.8, (cells,) + (1,) * r)
        for i in range(r):
            own = slope[i] * position.reshape((k,) + (1,) * (r - i - 1))
            beside = np.sign(slope[i - 1]) * position.reshape((k,) + (1,) * (r - i)) if i else 0
            label = label + own * (1 + 0.5 * beside)
        # One sign for all groups, so that the silences of one person add up rather than cancel.
        by_value = -rng.uniform(0.7, 1.4, r)[:, None] * np.sign(slope)[:, None] * position
        share = rng.normal(0, 0.3, (r, 1, 1, 1)) + by_value[:, :, None, None]
        share = share + label_effect * np.array([[0.5], [-0.5]]) + 0.8 * np.array([-0.5, 0.5])
        cell = rng.dirichlet(np.full(cells, 5.0)).reshape((levels,) * n_base)
        chance = expit(share)
        if nested:
            chance[1:, :, :, 0] = 0.0
        return cls(cell, value / value.sum(axis=-1, keepdims=True), expit(label), chance)

    @property
    def is_nested(self) -> bool:
        """Whether people share an optional feature only with the one before it."""
        return self.n_optional > 1 and not self.share[1:, :, :, 0].any()

    @property
    def optional(self) -> Any:
        """Positions of the optional columns, as :class:`pucboost.Levels` if the family is nested."""
        from .._consent import Levels

        positions = super().optional
        return {"z": Levels(*([position] for position in positions))} if self.is_nested else positions

    def _sizes(self) -> tuple[int, int]:
        return self.cell.ndim, len(self.share)

    def _levels(self) -> tuple[int, ...]:
        return self.cell.shape + self.share.shape[1:2] * self.n_optional

    def _draw(self, n: int, rng: np.random.Generator) -> Draw:
        cells = rng.choice(self.cell.size, n, p=self.cell.ravel())
        z = np.zeros((n, self.n_optional), dtype=np.intp)
        for i in range(self.n_optional):
            below = np.cumsum(self.value[i, cells, z[:, i - 1] if i else 0], axis=1)[:, :-1]
            z[:, i] = (rng.random((n, 1)) >= below).sum(axis=1)
        y = (rng.random(n) < self.label[(cells, *z.T)]).astype(np.intp)
        available = np.ones(z.shape, dtype=np.bool_)
        for i in range(self.n_optional):
            before = available[:, i - 1].astype(np.intp) if i else 1
            available[:, i] = rng.random(n) < self.share[i, z[:, i], y, before]
        base = np.column_stack(np.unravel_index(cells, self.cell.shape))
        return base.astype(np.float64), y.astype(np.float64), z.astype(np.float64), available

    def _truth(self, base: FloatArray, z: FloatArray, read_silence: bool) -> FloatArray:
        return self._looked_up(self._prediction_tables[read_silence], base, z)

    def _looked_up(self, table: FloatArray, base: FloatArray, z: FloatArray) -> FloatArray:
        cells = np.ravel_multi_index(tuple(base.astype(np.intp).T), self.cell.shape)
        codes = np.where(np.isnan(z), self.share.shape[1], z).astype(np.intp)
        return cast(FloatArray, table[(cells, *codes.T)])

    def _joint(self) -> FloatArray:
        """Return P(b, y, z, a) with axes cell, y, z_1 … z_r, a_1 … a_r."""
        r = self.n_optional
        z_axis, a_axis = range(2, r + 2), range(r + 2, 2 * r + 2)
        factors: list[Any] = [self.cell.ravel(), [0]]
        factors += [np.stack([1 - self.label, self.label], axis=1), [0, 1, *z_axis]]
        share = np.stack([1 - self.share, self.share], axis=-1)
        factors += [self.value[0, :, 0], [0, z_axis[0]], share[0, :, :, 1], [z_axis[0], 1, a_axis[0]]]
        for i in range(1, r):
            factors += [self.value[i], [0, z_axis[i - 1], z_axis[i]]]
            factors += [share[i], [z_axis[i], 1, a_axis[i - 1], a_axis[i]]]
        return cast(FloatArray, np.einsum(*factors, list(range(2 * r + 2))))

    @cached_property
    def _observed(self) -> tuple[FloatArray, FloatArray]:
        """P(b, Y = y, A = a, z_a) and P(b, Y = y, A ⊇ a, z_a) by cell, y and level of each z_i.

        The last level of z_i means withheld. The audit's studies take the true P(A = a | b, z_a, A ⊇ a) from it.
        """
        seen = self._joint()
        for i in range(self.n_optional):
            pair = np.moveaxis(seen, (2, 2 + self.n_optional - i), (-2, -1))  # (z_i, a_i), seen as one axis
            seen = np.concatenate([pair[..., 1], pair[..., 0].sum(axis=-1, keepdims=True)], axis=-1)
        at_least = seen
        for axis in range(2, 2 + self.n_optional):
            # A ⊇ a says nothing about the groups outside a: "withheld" gives way to "anything".
            shared = np.delete(at_least, -1, axis=axis)
            at_least = np.concatenate([shared, at_least.sum(axis=axis, keepdims=True)], axis=axis)
        return seen, at_least

    @cached_property
    def _prediction_tables(self) -> tuple[FloatArray, FloatArray]:
        """PUC and unrestricted predictions by cell and level of each z_i."""
        seen, at_least = self._observed
        with np.errstate(invalid="ignore"):  # 0 / 0: a condition of probability zero
            return at_least[:, 1] / at_least.sum(axis=1), seen[:, 1] / seen.sum(axis=1)


def _check_states(cells: int, r: int, k: int) -> None:
    states = cells * (2 * k) ** r * 2
    require(states <= MAX_STATES, f"n_optional = {r} makes {states} states, more than {MAX_STATES}")


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
        _keep(self, _parameter, w=(None,), lam=(None,))
        n, r = len(self.w), len(self.lam)
        _keep(self, _parameter, U=(r, n), V=(r, n), tau0=(r,), tau1=(r,))
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
        rng = _parameter_rng(n_base, n_optional, seed)
        w = rng.normal(size=n_base)
        U = rng.normal(0, 0.3, (n_optional, n_base)) * _shrink(n_optional, 3) * _shrink(n_base, 2)
        V = rng.normal(0, 0.4, (n_optional, n_base)) * _shrink(n_base, 2)
        lam, tau = _effects(rng, 0.4, 1.1, (n_optional,)), _effects(rng, 0.2, 0.5, (n_optional,))
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
        withheld = _log_ratio(1 - np.stack(self._share(base), axis=-1)) if read_silence else 0.0
        return expit(_total_log_odds(base @ self.w + self.t, np.where(np.isnan(z), withheld, shared)))


# ------------------------------------------------------------------------------- log odds of the label


def expit(x: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(−x)) without overflow, and without a warning for NaN and infinities."""
    return np.asarray(np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x))))


def _log_ratio(likelihood: FloatArray) -> FloatArray:
    """Return log(p(· | Y=1) / p(· | Y=0)), y being the last axis; infinite where one class is ruled out."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(likelihood[..., 1]) - np.log(likelihood[..., 0])


def _total_log_odds(start: float | FloatArray, *evidence: FloatArray) -> FloatArray:
    """Sum log odds over features; NaN where both classes are ruled out, so that the row has probability zero."""
    with np.errstate(invalid="ignore"):
        return np.asarray(start + sum(part.sum(axis=1) for part in evidence))


# ------------------------------------------------------------------------------- parameters, checked or drawn


def require(condition: bool, message: str) -> None:
    """Raise ValueError with the message unless the condition holds."""
    if not condition:
        raise ValueError(message)


Shape = tuple[int | None, ...]
"""None means any length of at least 1."""


def _keep(family: Any, checked: Callable[[str, npt.ArrayLike, Shape], FloatArray], **shapes: Shape) -> None:
    """Replace parameters of a frozen family by checked copies."""
    for name, shape in shapes.items():
        object.__setattr__(family, name, checked(name, getattr(family, name), shape))


def _parameter(name: str, value: npt.ArrayLike, shape: Shape) -> FloatArray:
    """Return a read-only copy."""
    array = np.array(value, dtype=np.float64)
    fits = array.ndim == len(shape) and all(
        length >= 1 and wanted in (None, length) for length, wanted in zip(array.shape, shape, strict=True)
    )
    wanted_text = ", ".join("any" if wanted is None else str(wanted) for wanted in shape)
    require(fits, f"{name} must have shape ({wanted_text}), got {array.shape}")
    require(bool(np.isfinite(array).all()), f"{name} must be finite")
    array.setflags(write=False)
    return array


def _probabilities(name: str, value: npt.ArrayLike, shape: Shape) -> FloatArray:
    array = _parameter(name, value, shape)
    outside = array[(array < 0) | (array > 1)]
    if outside.size:
        raise ValueError(f"{name} must lie in [0, 1], got {outside[0]}")
    return array


def _parameter_rng(n_base: int, n_optional: int, seed: int) -> np.random.Generator:
    """Return the generator that draws a family's parameters, after checking its sizes."""
    require(n_base >= 1, f"n_base must be at least 1, got {n_base}")
    require(n_optional >= 1, f"n_optional must be at least 1, got {n_optional}")
    return np.random.default_rng(seed)


def _shrink(count: int, free: int) -> float:
    """Return the factor that gives a sum of `count` effects the spread of a sum of `free` ones."""
    return float(min(1.0, np.sqrt(free / count)))


def _effects(rng: np.random.Generator, low: float, high: float, shape: tuple[int, ...]) -> FloatArray:
    """Draw effects, as many of either sign, none near zero; the more there are, the smaller they get."""
    sign = float(rng.choice([-1, 1])) * rng.permutation(np.resize([-1.0, 1.0], shape[0]))
    return sign.reshape(shape) * rng.uniform(low, high, shape) * _shrink(shape[0], 3)
