"""Ways of withholding the columns of a real table."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from .checks import require
from .odds import FloatArray, expit

if TYPE_CHECKING:
    from .._prediction.best_subset import Favourable

Table = TypeVar("Table")


def withhold_sigmoid(X: Table, strength: Mapping[Any, float], seed: int, optional: Any = None) -> Table:
    """Withhold values at random; higher (or lower) ones more often.

    P(A = 0 | z) = σ(λ (z − mean(z))), independently for each column, as in the paper's real-data experiments.

    Parameters
    ----------
    X : float ndarray or pandas DataFrame
        Not changed. Values already missing stay missing and do not count in the mean.
    strength : dict
        Column (name in a DataFrame, position in an array) to λ.
    seed : int
        What happens to a column depends only on the seed and its position, not on the other columns.
    optional
        As in :func:`pucboost.train`, if some groups need others: whoever withholds a group then also withholds those
        that are not shared without it.

    Returns
    -------
    A new table of the same kind, NaN where withheld; in a DataFrame, columns not named keep their type.

    Examples
    --------
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> withhold_sigmoid(X, {1: 1000.0}, seed=0)[[0, 2]]
    array([[ 0.,  1.],
           [ 4., nan]])
    """
    columns = {}
    for column, lam in strength.items():
        z, position = read_column(X, column)
        require(bool(np.isfinite(lam)), f"strength of column {column!r} must be finite, got {lam}")
        centre = z[~np.isnan(z)].mean() if not np.isnan(z).all() else 0.0
        draw = np.random.default_rng([seed, position]).random(len(z))
        columns[column] = np.where(draw < expit(lam * (z - centre)), np.nan, z)
    withheld = with_columns(X, columns)
    return withheld if optional is None else _without_lacking(withheld, optional)


def _without_lacking(X: Table, optional: Any) -> Table:
    """Return a table without groups that are not shared without another one, which is withheld."""
    from .._consent import Consent
    from .._tables.containers import row_source

    source = row_source(X)
    consent = Consent.of(optional, source)
    lacking = consent.lacking(source)
    columns = {}
    for position in np.flatnonzero(consent.column_bits):
        name = cast(Any, X).columns[position] if is_pandas(X) else int(position)
        columns[name] = np.where((lacking & consent.column_bits[position]) != 0, np.nan, read_column(X, name)[0])
    return with_columns(X, columns)


def paper_strength(X: Any, signs: Mapping[Any, str | int]) -> dict[Any, float]:
    """Return the paper's λ_i = ± 1 / std(z_i) for `withhold_sigmoid`.

    Parameters
    ----------
    X : float ndarray or pandas DataFrame
    signs : dict
        Column to "+" (or 1: higher values are withheld more often) or "-" (or -1: lower values are).

    Examples
    --------
    >>> paper_strength(np.array([[1.0], [3.0]]), {0: "-"})
    {0: -1.0}
    """
    strength = {}
    for column, sign in signs.items():
        z, _ = read_column(X, column)
        require(sign in ("+", "-", 1, -1), f"sign of column {column!r} must be '+' or '-', got {sign!r}")
        present = z[~np.isnan(z)]
        require(np.unique(present).size > 1, f"column {column!r} is constant, so 1 / std is undefined")
        strength[column] = float((1 if sign in ("+", 1) else -1) / present.std())
    return strength


def withhold_strategic(
    X: Table,
    columns: Sequence[Any] | str | int,
    prediction_with: npt.ArrayLike,
    prediction_without: npt.ArrayLike,
    favourable: Favourable = "lower",
) -> Table:
    """Let each person withhold what would worsen their own prediction.

    The columns form one bundle, shared or withheld together, because one pair of predictions decides:

    A = 1  ⇔  f(b, z) ≤ f(b)   if lower is favourable (a premium; the paper's theorem on strategic actions),
    A = 1  ⇔  f(b, z) ≥ f(b)   if higher is (a score or the chance of the positive outcome; its experiments).

    For separate decisions, call the function once per column, each time with its own predictions.

    Parameters
    ----------
    X : float ndarray or pandas DataFrame
        Not changed. Values already missing stay missing.
    columns : sequence of names or positions, or a single one
    prediction_with, prediction_without : arrays of shape (n,)
        Each person's prediction if the bundle is shared, and if it is withheld.
    favourable : "lower" or "higher"

    Returns
    -------
    A new table of the same kind, NaN where withheld.

    Examples
    --------
    >>> withhold_strategic(np.array([[7.0], [8.0]]), [0], [0.1, 0.9], [0.5, 0.5])
    array([[ 7.],
           [nan]])
    """
    require(favourable in ("lower", "higher"), f"favourable must be 'lower' or 'higher', got {favourable!r}")
    names: list[Any] = [columns] if isinstance(columns, str | int) else list(columns)
    values = {column: read_column(X, column)[0] for column in names}
    n = len(cast(Any, X))
    shared = _predictions("prediction_with", prediction_with, n)
    silent = _predictions("prediction_without", prediction_without, n)
    withheld = shared > silent if favourable == "lower" else shared < silent
    return with_columns(X, {column: np.where(withheld, np.nan, z) for column, z in values.items()})


def _predictions(name: str, value: npt.ArrayLike, n: int) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    require(array.shape == (n,), f"{name} must have one entry per row of X: ({n},), got {array.shape}")
    require(not np.isnan(array).any(), f"{name} must not be NaN")
    return array


def is_pandas(X: Any) -> bool:
    """Return whether a table is a pandas DataFrame."""
    return hasattr(X, "columns") and hasattr(X, "iloc")


def read_column(X: Any, column: Hashable) -> tuple[FloatArray, int]:
    """Return a float64 copy of a column, and its position."""
    if is_pandas(X):
        found = np.flatnonzero([name == column for name in X.columns])
        if len(found) == 0:
            raise KeyError(f"unknown column {column!r}; the table has {list(X.columns)}")
        require(len(found) == 1, f"column {column!r} occurs {len(found)} times in the table")
        position, data = int(found[0]), X.iloc[:, found[0]]
    else:
        require(isinstance(X, np.ndarray) and X.ndim == 2, "X must be a DataFrame or a 2-d ndarray")
        if not isinstance(column, int | np.integer) or not 0 <= column < X.shape[1]:
            raise KeyError(f"unknown column {column!r}; the array has columns 0 to {X.shape[1] - 1}")
        position, data = int(column), X[:, column]
    require(getattr(data.dtype, "kind", "O") in "biuf", f"column {column!r} is not numeric: {data.dtype}")
    # Nullable pandas types hold pd.NA, which only to_numpy turns into NaN.
    plain = data.to_numpy(dtype=np.float64, na_value=np.nan) if is_pandas(X) else data
    z = np.array(plain, dtype=np.float64)
    require(not np.isinf(z).any(), f"column {column!r} has infinite values")
    return z, position


def with_columns(X: Table, columns: Mapping[Any, FloatArray]) -> Table:
    """Return a copy of a table with some columns replaced."""
    result: Any = cast(Any, X).copy()
    if isinstance(result, np.ndarray) and result.dtype.kind != "f":
        result = result.astype(np.float64)
    for column, z in columns.items():
        if isinstance(result, np.ndarray):
            result[:, column] = z
        else:
            result[column] = z
    return cast(Table, result)
