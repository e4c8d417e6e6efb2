"""Withholding by value, by the prediction that it brings, and in a world where users and model react to each other.

With one optional group, whose values z users know about themselves, a strategic user shares if

    f(b, 1, z) ≤ f(b, 0)        (lower is favourable; mirrored if higher is).

Sharing then depends on (b, z) alone, so that E[Y | b, z, A = 1] = E[Y | b, z]: the PUC model is what it would be if
everybody shared. Among all predictors that quote E[Y | b] to the silent, it has the least loss once users have reacted
(the paper's theorem on strategic actions): nobody shares a z for which f(b, 1, z) > E[Y | b], and of all numbers up to
E[Y | b] the one with the least expected loss is min(E[Y | b, z], E[Y | b]).

With several groups, each user picks from 2^r quotes, and the theorem no longer holds: min_s f(b, s, z_s) can lie below
E[Y | b, z], because whoever hides a bad value is quoted the average of those who do not. If Y is the sum of four fair
coins of ±1, each a group, the mean squared error is 5 under PUC with strategic users, 4 without any optional data, and
2 with the coins as one group, all or nothing: columns declared as one group are within the theorem again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..warnings import EncodedSilenceWarning
from .families import BoolArray, Family, FloatArray, expit, require

if TYPE_CHECKING:
    import pandas as pd

    from .._common import Array
    from .._consent import Consent
    from .._models.schema import Favourable

Table = TypeVar("Table")
Draw = Callable[[int, int], tuple[Any, Any]]
Loss = Callable[[FloatArray, FloatArray], FloatArray]

MAX_SUBSETS = 2**12
"""Every person is quoted all 2^r subsets."""

# ------------------------------------------------------------------------------- columns of a real table


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
        z, position = _read_column(X, column)
        require(bool(np.isfinite(lam)), f"strength of column {column!r} must be finite, got {lam}")
        centre = z[~np.isnan(z)].mean() if not np.isnan(z).all() else 0.0
        draw = np.random.default_rng([seed, position]).random(len(z))
        columns[column] = np.where(draw < expit(lam * (z - centre)), np.nan, z)
    withheld = _with_columns(X, columns)
    if optional is None:
        return withheld
    from .._consent import Consent
    from .._tables.sources import row_source

    source = row_source(withheld)
    consent = Consent.of(optional, source)
    return _withhold(withheld, ~_flags(consent.lacking(source), consent), consent)


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
        z, _ = _read_column(X, column)
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
    factor = _sign(favourable)
    names: list[Any] = [columns] if isinstance(columns, str | int) else list(columns)
    values = {column: _read_column(X, column)[0] for column in names}
    n = len(cast(Any, X))
    shared = _predictions("prediction_with", prediction_with, n)
    silent = _predictions("prediction_without", prediction_without, n)
    withheld = factor * shared > factor * silent
    return _with_columns(X, {column: np.where(withheld, np.nan, z) for column, z in values.items()})


def _predictions(name: str, value: npt.ArrayLike, n: int) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    require(array.shape == (n,), f"{name} must have one entry per row of X: ({n},), got {array.shape}")
    require(not np.isnan(array).any(), f"{name} must not be NaN")
    return array


def _is_pandas(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "iloc")


def _check_table(X: Any) -> None:
    require(_is_pandas(X) or (isinstance(X, np.ndarray) and X.ndim == 2), "X must be a DataFrame or a 2-d ndarray")


def _read_column(X: Any, column: Hashable) -> tuple[FloatArray, int]:
    """Return a float64 copy of a column, and its position."""
    if _is_pandas(X):
        found = np.flatnonzero([name == column for name in X.columns])
        if len(found) == 0:
            raise KeyError(f"unknown column {column!r}; the table has {list(X.columns)}")
        require(len(found) == 1, f"column {column!r} occurs {len(found)} times in the table")
        position, data = int(found[0]), X.iloc[:, found[0]]
    else:
        _check_table(X)
        if not isinstance(column, int | np.integer) or not 0 <= column < X.shape[1]:
            raise KeyError(f"unknown column {column!r}; the array has columns 0 to {X.shape[1] - 1}")
        position, data = int(column), X[:, column]
    require(getattr(data.dtype, "kind", "O") in "biuf", f"column {column!r} is not numeric: {data.dtype}")
    # Nullable pandas types hold pd.NA, which only to_numpy turns into NaN.
    plain = data.to_numpy(dtype=np.float64, na_value=np.nan) if _is_pandas(X) else data
    z = np.array(plain, dtype=np.float64)
    require(not np.isinf(z).any(), f"column {column!r} has infinite values")
    return z, position


def _with_columns(X: Table, columns: Mapping[Any, FloatArray]) -> Table:
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


# ------------------------------------------------------------------------------- strategic users


@dataclass(frozen=True, eq=False)
class Response:
    """What people do once they have seen all their quotes."""

    prediction: FloatArray
    """The quote they choose."""
    shared: BoolArray
    """Which groups they share for it, people × groups."""
    withheld: FloatArray
    """What they would be told if they shared nothing."""

    @property
    def silent(self) -> BoolArray:
        """Who shares nothing."""
        return np.asarray(~self.shared.any(axis=1))


def best_response(model: Any, X: Any, optional: Any = None, *, favourable: Favourable = "lower") -> Response:
    """Return what strategic users share, and what they are told then: min_s f(b, s, z_s) over all subsets s.

    If sharing more changes nothing, they share: with one group, A = 1 ⇔ f(b, 1, z) ≤ f(b, 0), as in the paper. For a
    model with a consent schema this is ``pucboost.predict(..., sharing="best", return_subset=True)``, the bonus system;
    this function also takes models that know nothing about consent.

    Parameters
    ----------
    model
        As returned by :func:`pucboost.train`, or anything with ``predict(X)``, or a function of X; one number per row.
    X : float ndarray or pandas DataFrame
        The values people have, shared or not; every person has a value in every group. Not changed.
    optional
        As in :func:`pucboost.train`; None means the model's own schema. At most 12 groups, or 4,096 subsets that can
        be shared where groups need others.
    favourable : "lower" or "higher"

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [0.0, -1.0]])
    >>> response = best_response(lambda X: np.nan_to_num(X[:, 1]), X, [1])
    >>> response.prediction.tolist(), response.shared.tolist()
    ([0.0, -1.0], [[False], [True]])
    """
    from .._prediction.predictor import TABLE_VALUES, best_subsets
    from .._tables.sources import rows_of

    consent = _consent_for(optional, model, X)
    factor = _sign(favourable)
    _check_complete(X, consent)
    quote, withheld = _quotes_of(model, consent), np.empty(len(X))

    def all_subsets(people: Array, submasks: Array) -> Iterator[tuple[Array, Array]]:
        step = max(1, TABLE_VALUES // len(submasks))
        for lo in range(0, len(people), step):
            some = people[lo : lo + step]
            table, shape = rows_of(X, some), (len(some), consent.n_groups)
            each = [quote(table, np.broadcast_to(shared, shape)) for shared in _flags(submasks, consent)]
            quotes = np.column_stack(each)
            withheld[some] = quotes[:, 0]
            yield some, quotes

    everything = np.full(len(X), 2**consent.n_groups - 1, dtype=np.uint64)
    best, used = best_subsets(everything, all_subsets, factor, nesting=consent.nesting)
    return Response(best, _flags(used, consent), withheld)


def _flags(masks: Array, consent: Consent) -> BoolArray:
    """Return masks as people × groups."""
    groups = np.arange(consent.n_groups, dtype=np.uint64)
    return ((masks[:, None] >> groups) & np.uint64(1)).astype(np.bool_)


def _consent_for(optional: Any, model: Any, X: Any) -> Consent:
    """Return what may be withheld: as declared, or the model's own schema."""
    from .._consent import Consent
    from .._models.files import consent_of
    from .._tables.sources import row_source

    _check_table(X)
    if optional is None:
        optional = consent_of(model)
        require(optional is not None, "the model has no consent schema: say with optional what may be withheld")
    if isinstance(optional, Consent):
        consent = optional
        consent.check_table(row_source(X))
    else:
        consent = Consent.of(optional, row_source(X))
    require(consent.n_groups >= 1, "optional must name at least one column")
    quotes = consent.nesting.count(2**consent.n_groups - 1)
    how_many = f"all 2^r quotes; {consent.n_groups} groups are more than 12"
    if not consent.nesting.is_free:
        how_many = f"all quotes; {quotes:,} are more than {MAX_SUBSETS:,}"
    require(quotes <= MAX_SUBSETS, f"strategic users see {how_many}")
    return consent


def _check_complete(X: Any, consent: Consent) -> None:
    """Raise unless everybody has a value in every group: nobody can withhold what they do not have."""
    lacking = consent.availability(X, num_threads=1) ^ np.uint64(2**consent.n_groups - 1)
    if lacking.any():
        row = int(np.flatnonzero(lacking)[0])
        group = consent.group_names[(int(lacking[row]) & -int(lacking[row])).bit_length() - 1]
        raise ValueError(f"everybody must have a value in every group, but row {row} has none in {group!r}")


def _withhold(X: Table, shared: BoolArray, consent: Consent) -> Table:
    """Return the table without the groups that a person does not share."""
    columns = {}
    for group, positions in enumerate(consent.groups.values()):
        for position in positions:
            name = cast(Any, X).columns[position] if _is_pandas(X) else position
            columns[name] = np.where(shared[:, group], _read_column(X, name)[0], np.nan)
    return _with_columns(X, columns)


def _quotes_of(model: Any, consent: Consent) -> Callable[[Any, BoolArray], FloatArray]:
    """Return the function that maps a table, and who shares what, to what people are told."""
    from .._engines import is_booster
    from .._models.files import consent_of
    from .._prediction.predictor import predict

    told_by: Callable[[Any], Any]
    if is_booster(model) and consent_of(model) is not None:
        told_by = partial(predict, model)  # the boosters of some engines do not take tables
    elif hasattr(model, "predict"):
        told_by = model.predict
    elif callable(model):
        told_by = model
    else:
        raise TypeError(f"a model must have predict(X) or be a function of X, got {type(model).__name__}")

    def quote(X: Any, shared: BoolArray) -> FloatArray:
        told = np.asarray(told_by(_withhold(X, shared, consent)), dtype=np.float64)
        require(told.shape == (len(X),), f"the model must predict one number per row: ({len(X)},), got {told.shape}")
        require(not np.isnan(told).any(), "the model's predictions must not be NaN")
        return told

    return quote


def _sign(favourable: Any) -> float:
    """Return 1 if lower predictions are favourable, −1 if higher ones are."""
    require(favourable in ("lower", "higher"), f"favourable must be 'lower' or 'higher', got {favourable!r}")
    return 1.0 if favourable == "lower" else -1.0


# ------------------------------------------------------------------------------- a world of them


@dataclass(frozen=True)
class Round:
    """One round of :func:`play`, measured on the reference population."""

    number: int
    people: int
    """How many people the model was trained on."""
    changed: float
    """Share of people who decide differently from the round before (in round 1: from the start)."""
    loss: float
    """Mean loss of the quotes people choose."""
    quote: float
    """Mean of the quotes people choose."""
    surcharge: float
    """What silence would cost the average person: mean of f(b, nothing) over all people, minus their mean outcome."""
    silent: float
    """Share of people who share nothing."""
    silent_quote: float
    """Mean quote of the silent; NaN if there are none."""
    silent_outcome: float
    """Mean outcome of the silent. Its excess over their quote is the cost of consent."""
    shared: dict[str, float]
    """Share of people who share each group."""


@dataclass(frozen=True, eq=False)
class StrategicWorld:
    """The result of :func:`play`: the rounds, the last model, and what the reference population does under it."""

    rounds: tuple[Round, ...]
    converged: bool
    """Whether fewer people than the tolerance changed their mind in the last round."""
    model: Any
    X: Any
    """The reference population, nothing withheld."""
    y: FloatArray
    response: Response

    def table(self) -> pd.DataFrame:
        """Return the rounds, one per row with its ``number`` as index.

        The columns are those of :class:`Round`. In place of ``shared`` there is a column ``shares <group>`` for each
        group, the share of people who share it.
        """
        import pandas as pd

        rows = []
        for played in self.rounds:
            row = asdict(played)
            shared = row.pop("shared")
            rows.append({**row, **{f"shares {group}": share for group, share in shared.items()}})
        return pd.DataFrame(rows).set_index("number")


def play(
    fit: Callable[[Any, FloatArray], Any],
    world: Family | Draw,
    optional: Any = None,
    *,
    favourable: Favourable = "lower",
    memory: str = "all",
    bonus: bool = False,
    start: float = 1.0,
    cohort: int = 5_000,
    reference: int = 10_000,
    rounds: int = 20,
    tolerance: float = 0.005,
    indifference: float = 0.0,
    patience: int = 2,
    loss: str | Loss = "squared",
    seed: int = 0,
) -> StrategicWorld:
    """Let users and a decision maker react to each other until hardly anybody changes their mind.

    Cohort 0 shares at random. In every round the decision maker trains on the cohorts so far; then a new cohort
    arrives, sees the quotes of that model, and shares what helps. Every round also measures what people of a fixed
    reference population would do.

    *Memory.* Trained on the last cohort alone, a PUC model finds nobody with bad values among those who share,
    extrapolates good quotes to them and lures them back; with them in its data it turns them away again, and so on for
    ever. With all cohorts in memory, people with bad values stay in the data. Since A ⟂ Y | b, z in every cohort, they
    show what bad values mean, whatever made them share. Quotes that are too good correct themselves, because they
    attract those who prove them wrong. Quotes that are too bad do not, because nobody takes them: there the model rests
    on cohort 0.

    *Several groups.* Quotes for some of the groups depend on who shares the others, so decisions move the quotes on
    which they rest. In our simulations loss and quotes settle within a few rounds, while people go on changing between
    subsets that are nearly equal to them; ``indifference`` counts only changes that are worth something.

    *Plain models.* A model that reads the silence quotes E[Y | b, A = 0] to the silent, which is worse than E[Y | b].
    So more people share, those who stay silent are worse still, and silence gets more expensive every round. With all
    cohorts in memory, the silent of the first rounds keep its price down, and some stay silent for long. Trained on the
    last cohort alone, the model ends with nobody silent, and knows nothing about silence from then on. (LightGBM reads
    NaN as 0 if it saw none in training; for the same reason, ``start`` below 1 with a plain model.) Its loss is below
    that of the PUC model, at the expense of the silent: the theorem is about models that quote E[Y | b] to them.

    Parameters
    ----------
    fit : function (X, y) → model
        Called each round with what is shared, NaN where withheld. The model is used as in :func:`best_response`.
    world : Family or function (n, seed) → (X, y)
        Draws people, nothing withheld. A family's own way of sharing is ignored.
    optional
        As in :func:`pucboost.train`; for a family all its optional columns by default, each a group.
    favourable : "lower" or "higher"
    memory : "all" or "last"
        Which cohorts the model is trained on.
    bonus : bool
        The decision is automated: everybody hands over everything and gets the best of their quotes. All values then
        stay in the data, and nothing oscillates, whatever the memory. (If unused values are not kept either, the bonus
        system is the strategic world itself.)
    start : float
        Share of cohort 0 that shares a group, whatever the values; 1 is a survey in which everybody takes part.
    cohort, reference : int
        Size of each cohort, and of the reference population.
    rounds : int
        Maximum number of rounds.
    tolerance, indifference, patience
        The world has converged when in ``patience`` successive rounds fewer than ``tolerance`` of the people change
        their mind, not counting those who gain less than ``indifference`` by it.
    loss : "squared", "log" or function (y, prediction) → loss of each person
        Only measured; ``fit`` decides what a model minimises.
    seed : int

    Examples
    --------
    >>> import lightgbm as lgb, pucboost as puc
    >>> family = puc.simulate.DiscreteFamily.random(1, 1, seed=0)
    >>> params = {"objective": "binary", "optional": family.optional, "verbosity": -1, "num_threads": 1}
    >>> world = puc.simulate.play(lambda X, y: puc.train(params, lgb.Dataset(X, y), 20), family, cohort=1_000)
    >>> world.converged, bool((world.response.prediction <= world.response.withheld).all())
    (True, True)
    """
    draw, consent = _world(world, optional)
    factor, loss_of = _sign(favourable), _loss(loss)
    require(memory in ("all", "last"), f"memory must be 'all' or 'last', got {memory!r}")
    require(0 <= start <= 1, f"start must lie in [0, 1], got {start}")
    for name, value in (("cohort", cohort), ("reference", reference), ("rounds", rounds), ("patience", patience)):
        require(value >= 1, f"{name} must be at least 1, got {value}")
    require(0 <= tolerance <= 1, f"tolerance must lie in [0, 1], got {tolerance}")
    require(indifference >= 0, f"indifference must be at least 0, got {indifference}")
    require(seed >= 0, f"seed must be at least 0, got {seed}")

    people, outcome = _draw(draw, reference, seed, 0)
    consent = _consent_for(consent, None, people)
    decision = _at_random(people, consent, start, seed, 0)
    X, y = _draw(draw, cohort, seed, 1)
    _check_complete(X, consent)
    cohorts = [(_withhold(X, _at_random(X, consent, start, seed, 1), consent), y)]
    played: list[Round] = []
    quiet = 0
    for number in range(1, rounds + 1):
        with warnings.catch_warnings():
            # What these people withhold is missing, and often nobody withholds anything.
            warnings.simplefilter("ignore", EncodedSilenceWarning)
            model = fit(_stack([X for X, _ in cohorts]), np.concatenate([y for _, y in cohorts]))
        response = best_response(model, people, consent, favourable=favourable)
        gain = factor * (_quotes_of(model, consent)(people, decision) - response.prediction)
        changed = float(((response.shared != decision).any(axis=1) & (gain >= indifference)).mean())
        decision = response.shared
        played.append(_measure(number, sum(len(y) for _, y in cohorts), changed, response, outcome, consent, loss_of))
        quiet = quiet + 1 if changed < tolerance else 0
        if quiet == patience or number == rounds:
            break
        X, y = _draw(draw, cohort, seed, number + 1)
        reaction = best_response(model, X, consent, favourable=favourable).shared
        newcomers = (_withhold(X, np.ones_like(reaction) if bonus else reaction, consent), y)
        cohorts = [*cohorts, newcomers] if memory == "all" else [newcomers]
    return StrategicWorld(tuple(played), quiet == patience, model, people, outcome, response)


def _measure(
    number: int, people: int, changed: float, response: Response, outcome: FloatArray, consent: Consent, loss: Loss
) -> Round:
    losses = np.asarray(loss(outcome, response.prediction), dtype=np.float64)
    require(losses.shape == outcome.shape, f"loss must give one number per person: {outcome.shape}, got {losses.shape}")
    silent = response.silent
    return Round(
        number=number,
        people=people,
        changed=changed,
        loss=float(losses.mean()),
        quote=float(response.prediction.mean()),
        surcharge=float(response.withheld.mean() - outcome.mean()),
        silent=float(silent.mean()),
        silent_quote=float(response.prediction[silent].mean()) if silent.any() else float("nan"),
        silent_outcome=float(outcome[silent].mean()) if silent.any() else float("nan"),
        shared=dict(zip(consent.group_names, response.shared.mean(axis=0).tolist(), strict=True)),
    )


def _world(world: Any, optional: Any) -> tuple[Draw, Any]:
    """Return the function that draws people, and what they may withhold."""
    if not isinstance(world, Family):
        require(callable(world), f"world must be a Family or a function of n and seed, got {type(world).__name__}")
        require(optional is not None, "optional is missing: say which columns people may withhold")
        return world, optional
    from .._consent import Consent

    family = world

    def draw(n: int, seed: int) -> tuple[Any, Any]:
        sample = family.sample(n, seed)
        if sample.Z is None:
            raise ValueError(f"a {type(family).__name__} defines optional values only where they are shared")
        return np.column_stack([sample.X[:, : family.n_base], sample.Z]), sample.y

    return draw, Consent.declare(family.optional if optional is None else optional, family.feature_names)


def _draw(draw: Draw, n: int, seed: int, number: int) -> tuple[Any, FloatArray]:
    """Draw a population; each has its own seed, so that none repeats another or what the user drew themselves."""
    X, label = draw(n, int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))
    y = np.asarray(label, dtype=np.float64)
    _check_table(X)
    require(len(X) == n and y.shape == (n,), f"world must draw {n} rows, got X of {len(X)} and y of shape {y.shape}")
    return X, y


def _at_random(X: Any, consent: Consent, start: float, seed: int, number: int) -> BoolArray:
    """Return who shares what at the start, from a stream that no population is drawn from."""
    shared = np.random.default_rng([seed, number, 1]).random((len(X), consent.n_groups)) < start
    if consent.nesting.is_free:
        return shared
    bits = np.uint64(1) << np.arange(consent.n_groups, dtype=np.uint64)
    return _flags(consent.nesting.largest((shared * bits).sum(axis=1, dtype=np.uint64)), consent)


def _stack(tables: list[Any]) -> Any:
    if _is_pandas(tables[0]):
        import pandas as pd

        return pd.concat(tables, ignore_index=True)
    return np.concatenate(tables)


def _loss(loss: str | Loss) -> Loss:
    if callable(loss):
        return loss
    require(loss in ("squared", "log"), f"loss must be 'squared', 'log' or a function, got {loss!r}")
    return _log_loss if loss == "log" else lambda y, prediction: (y - prediction) ** 2


def _log_loss(y: FloatArray, prediction: FloatArray) -> FloatArray:
    outside = (prediction < 0) | (prediction > 1)
    require(not outside.any(), "loss='log' needs predictions in [0, 1]")
    p = np.clip(prediction, 1e-15, 1 - 1e-15)
    return np.asarray(-(y * np.log(p) + (1 - y) * np.log1p(-p)))
