"""Discrete features with dependent values and dependent availability."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from .checks import require
from .families import Draw, Family
from .odds import FloatArray, expit
from .parameters import effects, keep, parameter_rng, probabilities

# The joint table of a DiscreteFamily is held in memory as float64: 2**24 states are 128 MB.
MAX_STATES = 2**24


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
        """Check the parameters and keep read-only copies."""
        keep(self, cell=probabilities("cell", self.cell, (None,) * max(1, np.ndim(self.cell))))
        keep(self, share=probabilities("share", self.share, (None, None, 2, 2)))
        cells, (r, k) = self.cell.size, self.share.shape[:2]
        _check_states(cells, r, k)
        keep(self, value=probabilities("value", self.value, (r, cells, k, k)))
        keep(self, label=probabilities("label", self.label, (cells, *(k,) * r)))
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
        rng = parameter_rng(n_base, n_optional, seed)
        require(levels >= 1, f"levels must be at least 1, got {levels}")
        require(optional_levels >= 2, f"optional_levels must be at least 2, got {optional_levels}")
        cells, r, k = levels**n_base, n_optional, optional_levels
        _check_states(cells, r, k)
        position = np.linspace(-1, 1, k)
        carried = effects(rng, 0.5, 1.0, (r, 1, 1, 1)) * position[:, None]
        tilt = rng.normal(0, 0.5, (r, cells, 1, 1)) + carried + rng.normal(0, 0.2, (r, cells, k, 1))
        value = np.exp(tilt * position)
        slope = effects(rng, 1.2, 2.0, (r,))
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
        from .._declarations import Levels

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
        """Return the entry of each row in a table by cell and level of each z_i."""
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
        """Return P(b, Y = y, A = a, z_a) and P(b, Y = y, A ⊇ a, z_a) by cell, y and level of each z_i.

        The last level of z_i means withheld.
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
        """PUC and unrestricted predictions by cell and level of each z_i; the last level means withheld."""
        seen, at_least = self._observed
        with np.errstate(invalid="ignore"):  # 0 / 0: a condition of probability zero
            return at_least[:, 1] / at_least.sum(axis=1), seen[:, 1] / seen.sum(axis=1)


def _check_states(cells: int, r: int, k: int) -> None:
    states = cells * (2 * k) ** r * 2
    require(states <= MAX_STATES, f"n_optional = {r} makes {states} states, more than {MAX_STATES}")
