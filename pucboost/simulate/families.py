"""What families of distributions with known truth have in common, and the distance to that truth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from .checks import require
from .odds import FloatArray

BoolArray = npt.NDArray[np.bool_]
Draw = tuple[FloatArray, FloatArray, FloatArray, BoolArray]


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
