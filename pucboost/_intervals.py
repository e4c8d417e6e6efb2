"""``puc.intervals``: intervals and sets of classes that hold for everybody who shares at least the same.

For each set S of groups, the calibration people with A ⊇ S are masked to S, and their scores s(x_S, y) say how far
outcomes lie from predictions. With n of them and k = ⌈(n + 1)·level⌉, the threshold is the k-th smallest score, and a
person is told C_S(x) = {y : s(x_S, y) ≤ threshold}.

**Why it holds.** Given n, the n scores and that of a new person with A ⊇ S, masked to S, are independent and of one
distribution, so the rank of the new one is uniform on 1 … n + 1 (with ties: at most that): P(Y ∈ C_S) ≥ k / (n + 1) ≥
level. The model, the score and what decides who shares may be anything. Scores are fixed functions of x_S and y, and
whether S has a threshold is decided by n alone.

Where n is too small, people get C_T of the largest T ⊂ S that has a threshold, with predictions from T alone; it holds
for A ⊇ T. No outcome has a part in the choice of T, but that few people share S has: in samples in which few do, those
who share T are not quite a sample of A ⊇ T. The study of intervals measures by how much coverage differs given that a
part was needed. Those who share exactly S are never looked at alone: nothing is learned from silence.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._common import Array, progress_bar
from ._consent import Consent
from ._engines import boosters_of
from ._kernels.masks import STREAM_CLASSES, hash_pairs
from ._losses import Logistic, Quantile
from ._models.anchored import loss_of, trees_of
from ._models.files import consent_of, model_hash, summary_of
from ._models.schema import rounded_people
from ._pages import deliver, printable
from ._persistence import NotValidError, sealed, unsealed
from ._prediction.people import predicts_per_exposure
from ._prediction.predictor import MAX_SUBSETS, MaskedPredictor, subset_masks, subset_name
from ._tables.sources import as_exposure, as_vector, class_numbers, engine_threads_for, in_container_of
from ._virtual.plan import seed_bits

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1

BEYOND = 5
"""A set has a threshold if at least so many people's scores are expected to lie beyond it. With fewer the largest of
them would decide, which varies much, and is one person's secret."""

DIGITS = 3
"""Thresholds are kept with so many digits, rounded up: they hold all the same, and nobody's residual is in a file."""

MOST_BARS = 20
SETS_AT_ONCE = 16
"""How many sets the calibration people are predicted for at a time."""

RESIDUAL = "absolute residual"
SCALED = "residual over the model of its scale"
PEARSON = "residual over the standard deviation of the loss"
QUANTILES = "distance to two quantiles"
CLASSES = "probability of likelier classes"
RANDOMISED = "probability of likelier classes, randomised"


def intervals(
    model: Any,
    X_cal: Any,
    y_cal: Any,
    *,
    level: float = 0.9,
    scale: Any = None,
    exposure: Any = None,
    subsets: Any = None,
    seed: int | None = None,
    num_threads: int | None = None,
) -> Intervals:
    """Return intervals, or sets of classes, that cover outcomes with probability ``level``, whatever people share.

    For each set S of groups, everybody in the calibration data who shares at least S, masked to S, says how far
    outcomes lie from predictions (split conformal prediction). Then P(Y ∈ C_S | A ⊇ S) ≥ ``level`` for a new person of
    the same population, in finite samples, whatever the model and whatever decides who shares. Where too few people
    share S, people get the interval of the largest part of it that enough people share, as if they shared only that.

    Parameters
    ----------
    model
        As in :func:`predict`. Probabilities give sets of classes; counts and amounts (``poisson``, ``gamma``,
        ``tweedie``) intervals that do not go below 0 and grow with the standard deviation that the loss stands for;
        everything else intervals of one width. Or a pair ``(low, high)`` of quantile models.
    X_cal, y_cal
        Calibration people and their outcomes: one row per person, drawn like those to come, and **not used to train
        the model**, not for early stopping either. Otherwise nothing is guaranteed. There are no weights.
    level
        The probability to cover. Sets that fewer than 5 / (1 − level) − 1 people share (49 for 0.9) have no interval of
        their own.
    scale
        A model of the distance between outcome and prediction, with objective ``"poisson"``, ``"gamma"`` or
        ``"tweedie"``, on the same columns: intervals are wide where it is large.
    exposure
        What the outcomes add up over, as in :class:`Dataset`; needed if the model was trained with one.
    subsets
        The sets to calibrate, as in :func:`quote`; nothing is always one of them. By default all, and of more than 64
        those that the model has seen in training, and each group alone.
    seed
        Sets of classes only: with a seed they are randomised, and so smaller on average. Chance is a function of seed
        and probabilities, so that the same data always get the same set.
    num_threads
        As in :func:`predict`.

    Returns
    -------
    Intervals
        ``predict_interval``, ``coverage``, ``to_frame``, ``plot``, ``to_json``, ``from_json``.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(900, 2)); y = X[:, 0] + 3 * X[:, 1]
    >>> X[rng.random(900) < 0.4, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X[:300], y[:300]), 50)
    >>> found = puc.intervals(booster, X[300:600], y[300:600], level=0.8)
    >>> told = found.predict_interval(X[600:])
    >>> told.columns.to_list(), sorted(set(told["based_on"]))
    (['lower', 'upper', 'based_on'], ['Column_1', 'nothing'])
    >>> bool(np.mean((told["lower"] <= y[600:]) & (y[600:] <= told["upper"])) > 0.75)
    True
    """
    if isinstance(level, bool) or not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.9; got {level!r}.")
    level, models = float(level), _Models.of(model, scale, seed)
    with engine_threads_for(num_threads, X_cal):
        people = _People(models, X_cal, num_threads, exposure)
        outcome = people.outcomes(y_cal, "y_cal")
        masks = _sets_to_calibrate(people.predictors[0], subsets)
        found: list[CalibratedSet] = []
        with progress_bar("calibrating") as report:
            for lo in range(0, len(masks), SETS_AT_ONCE):
                some = np.array(masks[lo : lo + SETS_AT_ONCE], dtype=np.uint64)
                told = [predictor.quotes(some) for predictor in people.predictors]
                for number, mask in enumerate(some.tolist()):
                    rows = people.at_least(mask)
                    shape = people.shape([one[rows, number] for one in told], rows)
                    if len(rows) >= least_people(level):
                        found.append(_calibrated(mask, shape, outcome[rows], level, models.consent))
                report((lo + len(some)) / len(masks))
    if not found or found[0].mask:
        raise ValueError(
            f"There are {people.n_rows} calibration people, but level={level:g} needs {least_people(level)}: at least "
            f"{BEYOND} should lie outside. Give more people, or a lower level."
        )
    classes = tuple(map(str, people.classes)) or None
    return Intervals(level, models.score, tuple(found), classes, seed, models.hashes, models)


def least_people(level: float) -> int:
    """Return how many people must share a set for a threshold: (n + 1)(1 − level) ≥ 5."""
    return math.ceil(round(BEYOND / (1 - level) - 1, 9))


def _sets_to_calibrate(predictor: MaskedPredictor, subsets: Any) -> list[int]:
    """Return masks, the empty one first. They do not depend on who shares what in the calibration data."""
    consent = predictor.consent
    if subsets is None and consent.nesting.count((1 << consent.n_groups) - 1) > MAX_SUBSETS:
        summary = summary_of(predictor.model)
        seen = None if summary is None else summary.masks_seen
        if seen is None:
            raise ValueError(
                f"There are too many sets of {consent.n_groups} groups, and the model keeps no list of those it has "
                "seen. Choose some: subsets=['nothing', 'alone', 'all'], or lists of group names."
            )
        masks = [*seen, *subset_masks(consent, ["alone"])]
    else:
        masks = subset_masks(consent, subsets)
    return sorted({0, *masks})


def _calibrated(mask: int, shape: _Band | _Ranking, outcome: Array, level: float, consent: Consent) -> CalibratedSet:
    """Return the threshold of a set that enough people share."""
    n = len(outcome)
    rank = math.ceil(round((n + 1) * level, 9))
    threshold = _rounded_up(float(np.partition(shape.scores(outcome), rank - 1)[rank - 1]))
    width = float(f"{shape.width(threshold).mean():.{DIGITS}g}")
    return CalibratedSet(subset_name(mask, consent), mask, rounded_people([n])[0], threshold, width)


def _rounded_up(value: float) -> float:
    if not math.isfinite(value):  # a prediction of 0 for a count above it
        return value
    exact = Decimal(value)
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - DIGITS + 1), ROUND_CEILING))


# ----- the models, and the people as they see them


@dataclass(frozen=True)
class _Models:
    """The models whose predictions make a score: one, the low and the high one, or one and that of its scale."""

    score: str
    parts: tuple[Any, ...]
    consent: Consent
    per_exposure: bool
    n_classes: int
    seed: int | None

    @classmethod
    def of(cls, model: Any, scale: Any, seed: int | None) -> _Models:
        pair = isinstance(model, (tuple, list))
        if pair and (len(model) != 2 or scale is not None):
            raise ValueError(
                "model must be one model, or a pair (low, high) of quantile models without scale; got "
                f"{len(model)} models{'' if scale is None else ' and a scale'}."
            )
        parts = tuple(model) if pair else (model,) if scale is None else (model, scale)
        trees = [_trees_within(part) for part in parts]
        consents = [_consent(one) for one in trees]
        losses = [loss_of(one) for one in trees]
        if pair:
            levels = [loss.alpha if isinstance(loss, Quantile) else None for loss in losses]
            if None in levels or not levels[0] < levels[1]:  # type: ignore[operator]
                raise ValueError(
                    "The pair must be two quantile models, the lower one first: objective='quantile' with "
                    f"alpha=0.05 and alpha=0.95, say. These have {levels[0]} and {levels[1]}."
                )
        loss, n_classes, per_exposure = losses[0], _n_classes(trees[0]), [predicts_per_exposure(part) for part in parts]
        for is_wrong, message in (
            (any(one != consents[0] for one in consents), "The two models must have the same columns and groups."),
            (n_classes and scale is not None, "scale is about numbers; leave it out for a model of classes."),
            (seed is not None and not n_classes, "seed randomises sets of classes; leave it out for numbers."),
            (
                scale is not None and (losses[1] is None or losses[1].link_name != "log"),
                "scale must be a model whose predictions are above 0: train it on |y − prediction| with objective "
                "'poisson', 'gamma' or 'tweedie'.",
            ),
            (
                scale is not None and any(per_exposure),
                "A model that was trained with an exposure knows how spread grows with it; leave scale out.",
            ),
        ):
            if is_wrong:
                raise ValueError(message)
        if n_classes:
            score = CLASSES if seed is None else RANDOMISED
        elif pair:
            score = QUANTILES
        elif scale is not None:
            score = SCALED
        else:
            score = PEARSON if loss is not None and loss.link_name == "log" else RESIDUAL
        return cls(score, parts, consents[0], per_exposure[0], n_classes, seed)

    @cached_property
    def hashes(self) -> tuple[str | None, ...]:
        return tuple(_hash(part) for part in self.parts)


def _trees_within(model: Any) -> Any:
    """Return the booster or anchored model in an estimator, a search or a pipeline."""
    steps = getattr(model, "steps", None)
    inner = steps[-1][1] if isinstance(steps, list) and steps else getattr(model, "best_estimator_", None)
    if inner is not None:
        return _trees_within(inner)
    return getattr(model, "booster_", model)


def _hash(model: Any) -> str | None:
    trees = _trees_within(model)
    return model_hash(trees) or model_hash(trees_of(trees))  # an anchor may have no hash


def _n_classes(trees: Any) -> int:
    """Return the number of classes, 0 for a model of numbers."""
    loss = loss_of(trees)
    if isinstance(loss, Logistic):
        return 2
    if loss is not None:
        scores = loss.n_scores
    else:
        boosters = boosters_of(trees)
        nobody = np.full((1, boosters.facts(trees).n_columns), np.nan)
        scores = boosters.predict(trees, nobody, raw_score=True).size
    return scores if scores > 1 else 0


def _consent(trees: Any) -> Consent:
    consent = consent_of(trees)
    if consent is None:
        raise ValueError(
            "The model has no consent schema, so it is not known what is optional. Train it with pucboost.train, or "
            "load it with pucboost.load_model."
        )
    facts = boosters_of(trees_of(trees)).facts(trees_of(trees))
    if len(facts.quantile_levels) > 1:
        raise ValueError("The model predicts several quantiles at once. Give a pair of models, (low, high).")
    return consent


class _People:
    """A table of people before the models: who shares what, and the shape that predictions give their scores."""

    def __init__(self, models: _Models, X: Any, num_threads: int | None, exposure: Any) -> None:
        self.models, self.has_exposure = models, exposure is not None
        self.predictors = [MaskedPredictor(part, X, num_threads=num_threads) for part in models.parts]
        self.n_rows, self.shared = self.predictors[0].n_rows, self.predictors[0].shared
        if exposure is not None and not models.per_exposure:
            raise ValueError("The model was trained without an exposure; leave exposure out.")
        self.units = np.ones(self.n_rows) if exposure is None else as_exposure(exposure, "exposure", self.n_rows)
        self.loss = loss_of(self.predictors[0].model)

    def at_least(self, mask: int) -> Array:
        return np.flatnonzero((self.shared & np.uint64(mask)) == np.uint64(mask))

    def shape(self, told: Sequence[Array], rows: Array) -> _Band | _Ranking:
        """Return the shape of the scores of some rows, from what each model predicts for them."""
        values = [np.asarray(one, dtype=np.float64) for one in told]
        if self.models.n_classes:
            chances = values[0] if values[0].ndim == 2 else np.column_stack([1 - values[0], values[0]])
            if chances.shape[1] != self.models.n_classes:
                raise ValueError(
                    f"The model has {self.models.n_classes} classes but predicts one number per person, no "
                    "probabilities (objective 'multi:softmax'). Train it with 'multi:softprob'."
                )
            return _Ranking(chances, None if self.models.seed is None else _uniforms(self.models.seed, chances))
        if self.models.score == QUANTILES:  # where the models cross, they are exchanged
            return _Band(np.minimum(*values), np.maximum(*values), np.ones(len(rows)))
        lowest = 0.0 if self.loss is not None and self.loss.link_name == "log" else -math.inf
        spread = np.ones(len(rows))
        if self.models.score == SCALED:
            spread = values[1]
        elif self.models.score == PEARSON:
            assert self.loss is not None
            # Over e units the mean is e·f, and the variance is proportional to e·V(f).
            spread = np.sqrt(self.units[rows] * self.loss.variance(values[0]))
        middle = self.units[rows] * values[0]
        return _Band(middle, middle, np.maximum(spread, np.finfo(np.float64).tiny), lowest)

    @property
    def classes(self) -> list[Any]:
        """The labels of the classes, in the order of the model's probabilities; none for numbers."""
        return list(getattr(self.models.parts[0], "classes_", range(self.models.n_classes)))

    def outcomes(self, y: Any, name: str) -> Array:
        """Return outcomes: numbers, or numbers of classes."""
        if self.models.per_exposure and not self.has_exposure:
            raise ValueError("The model predicts per unit of exposure, so outcomes need their exposure.")
        if self.models.n_classes:
            return class_numbers(y, name, self.n_rows, self.classes)
        outcome = as_vector(y, name, self.n_rows, np.float64)
        log_link = self.loss is not None and self.loss.link_name == "log"
        bad = np.flatnonzero(~np.isfinite(outcome) | ((outcome < 0) & log_link))
        if len(bad):
            needs = "finite and not negative" if log_link else "finite"
            raise ValueError(f"{name} is {outcome[bad[0]]} in row {bad[0]} ({len(bad)} such rows); it must be {needs}.")
        return outcome


class _Band(NamedTuple):
    """Scores of numbers: max(low − y, y − high) / spread, how far an outcome lies outside [low, high]."""

    low: Array
    high: Array
    spread: Array
    lowest: float = -math.inf

    def scores(self, outcome: Array) -> Array:
        return np.asarray(np.maximum(self.low - outcome, outcome - self.high) / self.spread)

    def bounds(self, threshold: Array | float) -> tuple[Array, Array]:
        lower, upper = self.low - threshold * self.spread, self.high + threshold * self.spread
        middle = (lower + upper) / 2  # quantiles that are too far apart may be moved past each other
        return np.maximum(np.minimum(lower, middle), self.lowest), np.maximum(upper, middle)

    def width(self, threshold: Array | float) -> Array:
        lower, upper = self.bounds(threshold)
        return np.asarray(upper - lower)


class _Ranking(NamedTuple):
    """Scores of classes (Romano, Sesia and Candès 2020): the probability of all classes that are likelier.

    Randomised scores add U times the probability of the class itself, U uniform on [0, 1), unless it is the likeliest.
    So that one has the score 0 and is in every set. Adding all of the probability would be no use with two classes: the
    less likely one would always have the score 1.
    """

    chances: Array
    uniform: Array | None

    def of_classes(self) -> Array:
        """Return the score that each class would have, people × classes."""
        chances = self.chances / self.chances.sum(axis=1, keepdims=True)
        order = np.argsort(-chances, axis=1, kind="stable")
        ranked = np.take_along_axis(chances, order, axis=1)
        ranked_scores = np.zeros_like(chances)
        ranked_scores[:, 1:] = np.cumsum(ranked, axis=1)[:, :-1]
        if self.uniform is not None:
            ranked_scores[:, 1:] += self.uniform[:, None] * ranked[:, 1:]
        scores: Array = np.empty_like(chances)
        np.put_along_axis(scores, order, ranked_scores, axis=1)
        return scores

    def scores(self, outcome: Array) -> Array:
        return np.asarray(self.of_classes()[np.arange(len(outcome)), outcome])

    def members(self, threshold: Array | float) -> Array:
        """Return which classes are in the set of each person."""
        return np.asarray(self.of_classes() <= np.reshape(threshold, (-1, 1)))

    def width(self, threshold: Array | float) -> Array:
        return np.asarray(self.members(threshold).sum(axis=1))


def _uniforms(seed: int, chances: Array) -> Array:
    """Return numbers in [0, 1), a pure function of seed and probabilities.

    Not of row numbers: whoever predicts one person at a time would give everybody the chance of the first row, and the
    score of a new person would not be of the distribution of those in calibration.
    """
    key, bits = np.uint64(seed_bits(seed)), np.zeros(len(chances), dtype=np.uint64)
    for rounded in np.rint(chances.T * 2.0**30).astype(np.uint64):  # the same from engines that differ in last bits
        hash_pairs(key, STREAM_CLASSES, np.ascontiguousarray(rounded), bits.copy(), 0, len(bits), bits)
    return np.asarray((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53)


# ----- the result


@dataclass(frozen=True)
class CalibratedSet:
    """A set of groups, and the threshold that everybody gives it who shares at least the set."""

    shared: str
    """Its name, as in quotes."""
    mask: int
    people: int
    """How many calibration people share at least the set, to the nearest multiple of five."""
    threshold: float
    """Of scores, rounded up to three digits."""
    width: float
    """How wide their intervals are, or how many classes their sets have, on average."""


@dataclass(frozen=True)
class Intervals:
    """Intervals with a guarantee, as :func:`pucboost.intervals` returns them.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2)); y = rng.random(1000) < 1 / (1 + np.exp(-2 * X.sum(axis=1)))
    >>> X[rng.random(1000) < 0.4, 1] = np.nan
    >>> params = {"objective": "binary", "optional": [1], "verbosity": -1}
    >>> booster = puc.train(params, puc.Dataset(X[:500], y[:500]), 20)
    >>> found = puc.intervals(booster, X[500:], y[500:])
    >>> found
    <Intervals: level 0.9, 2 sets, probability of likelier classes>
    >>> found.predict_interval(X[:2]).columns.to_list()
    ['0', '1', 'based_on']
    """

    level: float
    score: str
    """What the thresholds are thresholds of."""
    sets: tuple[CalibratedSet, ...]
    classes: tuple[str, ...] | None
    """Names of the classes; None for intervals of numbers."""
    seed: int | None
    model_hashes: tuple[str | None, ...]
    _models: _Models = field(repr=False, compare=False)

    def of_people(self, X: Any) -> list[tuple[float, float, tuple[str, ...]]]:
        """Return for each person both ends of their interval, and the groups that it is based on."""
        _, number, shape, threshold = self._told(X, None, None)
        assert isinstance(shape, _Band)
        lower, upper = shape.bounds(threshold)
        groups = [self._models.consent.groups_of(self.sets[j].mask) for j in number.tolist()]
        return list(zip(lower.tolist(), upper.tolist(), groups, strict=True))

    def predict_interval(self, X: Any, *, exposure: Any = None, num_threads: int | None = None) -> Any:
        """Return what holds for each person, from what they share.

        Parameters
        ----------
        X
            A table with the columns of training.
        exposure
            What outcomes will add up over, for a model that was trained with an exposure; one unit without it.
        num_threads
            As in :func:`predict`.

        Returns
        -------
        DataFrame
            Of the kind of ``X``, as :func:`quote` returns it, with one row per person.

            - ``lower``, ``upper``: the interval, ends included; for classes, one column each, whether it is in the set
            - ``based_on``: the groups that were used, the largest set that enough people share
        """
        people, number, shape, threshold = self._told(X, exposure, num_threads)
        frame = people.predictors[0].frame(np.empty((people.n_rows, 0)), [])
        if isinstance(shape, _Band):
            frame["lower"], frame["upper"] = shape.bounds(threshold)
        else:
            frame[list(self.classes or ())] = shape.members(threshold)
        frame["based_on"] = np.array([one.shared for one in self.sets], dtype=object)[number]
        return in_container_of(X, frame)

    def _told(self, X: Any, exposure: Any, num_threads: int | None) -> tuple[_People, Array, _Band | _Ranking, Array]:
        """Return people, the number of the set that each gets, and what its threshold is to be used with."""
        with engine_threads_for(num_threads, X):
            people = _People(self._models, X, num_threads, exposure)
            number = self._set_of_each(people.shared)
            masks = np.array([one.mask for one in self.sets], dtype=np.uint64)[number]
            told = [predictor.everybody(masks) for predictor in people.predictors]
            shape = people.shape(told, np.arange(people.n_rows))
        return people, number, shape, np.array([one.threshold for one in self.sets])[number]

    def _set_of_each(self, shared: Array) -> Array:
        """Return the number of the set each person gets: the largest that they share, then that of most people."""
        order = sorted(range(len(self.sets)), key=lambda j: (-self.sets[j].mask.bit_count(), -self.sets[j].people, j))
        masks, owner = np.unique(shared, return_inverse=True)
        best = [next(j for j in order if self.sets[j].mask & ~mask == 0) for mask in masks.tolist()]
        return np.array(best, dtype=np.int64)[owner]

    def coverage(self, X: Any, y: Any, *, exposure: Any = None, num_threads: int | None = None) -> pd.DataFrame:
        """Return how often outcomes of other people are covered, set by set, with standard errors.

        The guarantee is about everybody who shares at least a set, masked to it. Those who share exactly the set get
        the same interval, but where silence is informative they are covered more or less often. No interval may learn
        that from their silence; this tells it.

        Parameters
        ----------
        X, y
            People who are in neither training nor calibration, and their outcomes.
        exposure, num_threads
            As in :func:`pucboost.intervals`.

        Returns
        -------
        DataFrame
            One row for each set that has a threshold, or that somebody shares exactly.

            - ``shared``, ``based_on``: the set, and the one whose threshold is used
            - ``people``, ``coverage``, ``se``: of all who share at least the set, masked to it
            - ``people_exactly``, ``coverage_exactly``, ``se_exactly``: of those who share this set and no more

            Where ``based_on`` is another set, nothing is promised. A standard error is that of a share with two more
            successes and failures, which is never 0.
        """
        import pandas as pd

        rows = []
        with engine_threads_for(num_threads, X):
            people = _People(self._models, X, num_threads, exposure)
            outcome = people.outcomes(y, "y")
            masks = sorted({*(one.mask for one in self.sets), *np.unique(people.shared).tolist()})
            used = self._set_of_each(np.array(masks, dtype=np.uint64))
            for mask, number in zip(masks, used.tolist(), strict=True):
                one, some = self.sets[number], people.at_least(mask)
                covered = np.zeros(0, dtype=bool)
                if len(some):
                    shape = people.shape([part.people(some, one.mask) for part in people.predictors], some)
                    covered = shape.scores(outcome[some]) <= one.threshold
                exactly = covered[people.shared[some] == np.uint64(mask)]
                name = subset_name(mask, self._models.consent)
                rows.append((name, one.shared, *_share(covered), *_share(exactly)))
        columns = ["people", "coverage", "se", "people_exactly", "coverage_exactly", "se_exactly"]
        return pd.DataFrame(rows, columns=["shared", "based_on", *columns])

    def check_fits(self, model: Any, what: str) -> None:
        """Raise unless these are intervals of numbers that a model predicts."""
        if self.classes is not None:
            raise ValueError(
                f"{what} show intervals of numbers. This model's are probabilities; predict_interval gives sets."
            )
        is_own = model is self._models.parts[0] or _hash(model) == self.model_hashes[0]
        # The middle between two quantiles is no prediction, so quotes beside these come from a third model.
        if (not is_own and self.score != QUANTILES) or _consent(_trees_within(model)) != self._models.consent:
            raise ValueError("intervals are of another model. Calibrate them with puc.intervals and this model.")

    def beside_quotes(self, model: Any, X: Any, subsets: Any, num_threads: int | None) -> Any:
        """Return quotes with the intervals of the same subsets, for :func:`quote`."""
        self.check_fits(model, "Quotes")
        people = _People(self._models, X, num_threads, None)
        predictor = MaskedPredictor(model, X, num_threads=num_threads)
        masks = np.array(subset_masks(predictor.consent, subsets), dtype=np.uint64)
        thresholds = {one.mask: one.threshold for one in self.sets}
        quotes = predictor.quotes(masks)
        told = [part.quotes(masks) for part in people.predictors]
        columns: dict[str, Array] = {}
        for number, mask in enumerate(masks.tolist()):
            name = subset_name(mask, predictor.consent)
            shape = people.shape([one[:, number] for one in told], np.arange(people.n_rows))
            assert isinstance(shape, _Band)
            columns[name] = quotes[:, number]
            bounds = shape.bounds(thresholds.get(mask, math.nan))
            columns |= dict(zip((f"{name}: lower", f"{name}: upper"), bounds, strict=True))
        return in_container_of(X, predictor.frame(np.column_stack(list(columns.values())), list(columns)))

    def to_frame(self) -> pd.DataFrame:
        """Return the sets with their people, thresholds and widths."""
        import pandas as pd

        return pd.DataFrame([asdict(one) for one in self.sets]).drop(columns="mask")

    def plot(self, ax: Any = None) -> Any:
        """Draw how wide intervals are, or how many classes sets have, by what is shared; needs matplotlib.

        Of many sets those that most people share.
        """
        shown = sorted(sorted(self.sets, key=lambda one: -one.people)[:MOST_BARS], key=lambda one: one.width)
        if ax is None:
            from matplotlib import pyplot as plt

            ax = plt.subplots(figsize=(7, 0.8 + 0.32 * len(shown)), layout="constrained")[1]
        bars = ax.barh(range(len(shown)), [one.width for one in shown], color="#4c78a8")
        names = [textwrap.shorten(printable(one.shared), 50, placeholder=" …") for one in shown]
        ax.set_yticks(range(len(shown)), names, parse_math=False)
        ax.bar_label(bars, [f"{one.width:g}" for one in shown], padding=3)
        ax.margins(x=0.12)
        ax.set_xlabel(f"{'Mean width' if self.classes is None else 'Mean number of classes'}, level {self.level:g}")
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def __repr__(self) -> str:
        return f"<Intervals: level {self.level:g}, {len(self.sets)} sets, {self.score}>"

    def _repr_html_(self) -> str:
        return f"<p>Level {self.level:g}, {self.score}</p>{self.to_frame().to_html(index=False)}"

    # ----- files

    def to_json(self, path: str | Path | None = None) -> str:
        """Return everything but the models as JSON, and write it to ``path`` (whole or not at all) if one is given.

        It holds a few rounded numbers for each set, and nothing else about the calibration people.
        """
        kept = {"level": self.level, "score": self.score, "classes": self.classes, "seed": self.seed}
        sets = [asdict(one) for one in self.sets]
        return deliver(sealed({"format": FORMAT, **kept, "model_hashes": self.model_hashes, "sets": sets}), path)

    @classmethod
    def from_json(cls, source: str | Path, model: Any, *, scale: Any = None) -> Intervals:
        """Return the intervals in a file that ``to_json`` wrote, or in its text.

        Parameters
        ----------
        source
            The file or text.
        model, scale
            The models they were calibrated with; others are refused.
        """
        is_text = isinstance(source, str) and source.lstrip().startswith("{")
        text, where = (str(source), "the text") if is_text else (Path(source).read_text("utf-8"), f"{str(source)!r}")
        try:
            given = unsealed(text)  # by its digest, a file is what to_json wrote
            if given["format"] != FORMAT:
                raise NotValidError(f"it has another format than {FORMAT}")
        except (KeyError, ValueError) as error:
            raise ValueError(f"{where} does not hold intervals of pucboost: {error}.") from error
        score, seed, hashes = given["score"], given["seed"], tuple(given["model_hashes"])
        models = _Models.of(model, scale, seed)
        if models.hashes != hashes or models.score != score:
            raise ValueError(
                f"{where} holds intervals of other models ({score}). Give the models they were calibrated with, or "
                "calibrate these."
            )
        sets, classes = tuple(CalibratedSet(**one) for one in given["sets"]), given["classes"]
        return cls(given["level"], score, sets, classes and tuple(classes), seed, hashes, models)


def _share(flags: Array) -> tuple[int, float, float]:
    """Return the number of flags, the share that is set, and its standard error."""
    n, hits = len(flags), int(flags.sum())
    shrunk = (hits + 2) / (n + 4)
    return n, hits / n if n else math.nan, math.sqrt(shrunk * (1 - shrunk) / (n + 4)) if n else math.nan
