"""``puc.questions``: whose losses are compared, and how f_S is made comparable on them.

Everybody here shares all groups G that are asked about, and is told f_S for every set S ⊆ G. But f_S is meant for all
who share *at least* S, and those who share G are only some of them. Where sharing goes along with the outcome, f_∅ is
wrong for them, and any question would seem to help merely because those who answer it are others. That is no property
of the answers, and no reason to ask. So each f_S is first put right for these people, on average and along each base
column, which every form knows: β_S, added to raw scores s with link h, solves

    Σ w·(h(s + x·β_S) − y)·x = 0,        x = (1, base columns).

It minimises the loss of a canonical link, so that the error of β_S has no part in that of a value, to first order, and
what it gains by being fitted to these very people is the same for all S.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._auditing.blocks import count, listing
from .._auditing.drift import holm
from .._auditing.people import read_clusters
from .._common import Array, progress_bar
from .._consent import Consent
from .._losses import Objective, Quantile, Softmax, per_unit
from .._models.anchored import loss_of
from .._models.schema import kept_of
from .._prediction.predictor import MaskedPredictor, mask_of, subset_names
from .._prediction.sharing import shapley_weights
from .._tables.sources import as_exposure, as_vector, as_weight, class_numbers, engine_threads_for
from .._training.calibration import ScoredRows, mask_constants
from .._training.request import check_both_or_neither
from .._virtual.plan import child_seed
from .findings import NEEDED, NOT_KNOWN, NOT_NEEDED, Form, Question, Questions, SetValue
from .person import Asking
from .values import SetValues, curve, keeps, p_positive

MAX_SETS = 1_024
"""All sets of 10 questions."""
MIN_PEOPLE = 100
MOST_PREDICTIONS = 2**25
"""More people are not looked at than have so many predictions together, which are held in memory."""
MOST_COLUMNS = 30
"""Along so many base columns forms are put right: those that tell most of what f_∅ misses."""
FARTHEST = 3.0
"""Base columns count up to so many standard deviations."""
PRIOR = 10
"""So many people hold a coefficient at 0, where people are few for so many columns."""
STEPS, CLOSE = 30, 1e-8
_CLIP = 1e-9
_TITLES = {
    "binary": "log loss", "cross_entropy": "log loss", "multiclass": "log loss", "regression": "squared error",
    "poisson": "Poisson deviance", "gamma": "gamma deviance", "tweedie": "Tweedie deviance", "quantile": "pinball loss",
}  # fmt: skip


def questions(
    model: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    exposure: Any = None,
    clusters: Any = None,
    share: float = 0.95,
    level: float = 0.95,
    seed: int = 0,
    num_threads: int | None = None,
    progress: bool | None = None,
) -> Questions:
    """Measure what each question adds to the predictions, and how few questions carry most of what all of them add.

    Among held-out people who share all groups G, every set S ⊆ G of questions is worth

        v(S) = mean of L(f_∅, Y) − L(f_S, Y),

    by how much its answers lower the loss of the model, each f_S being right on average for these people. A question
    gets its Shapley value, the average of v(S ∪ g) − v(S) over all orders of asking, and what it adds to all others.
    A shorter form is recommended only if it is proven to keep ``share`` of v(G), all statements together with
    confidence ``level``: "not significant" is no proof that a question is not needed.

    Parameters
    ----------
    model
        As returned by :func:`pucboost.train`, one of pucboost's estimators, or a pipeline that ends in one.
    X, y
        People and their outcomes; not those that the model was trained on.
    groups
        The questions to look at, by name; None for all, at most 10 (1,024 sets). Others count as not asked. Fewer
        questions are shared by more people.
    sample_weight, exposure
        Weights of people, and what the outcomes add up over, as in :class:`Dataset`.
    clusters
        One label per row, as in :func:`audit`: rows with the same label (several years of one person) are not
        independent, and count as one for standard errors and folds.
    share
        A shorter form is good enough if it keeps this share of what all questions add.
    level
        Confidence of each kind of statement: which questions are useful, needed and not needed.
    seed
        Seed of the folds in which the curve is measured.
    num_threads
        As in :func:`predict`.
    progress
        Show a progress bar; by default on a terminal and in notebooks.

    Returns
    -------
    Questions
        ``conclusion``, ``enough``, ``to_frame`` (a row per question), ``plot``, ``to_html``, ``to_json``, and
        ``next_question`` for single people. It is about people who share all that is asked about; others may differ.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(6000, 4)); y = X[:, 0] + X[:, 1] + rng.normal(size=6000)   # the last two say nothing
    >>> X[rng.random((6000, 4)) < [0, 0.3, 0.3, 0.3]] = np.nan
    >>> params = {"optional": {"blood": [1], "app": [2], "diary": [3]}, "verbosity": -1}
    >>> booster = puc.train(params, puc.Dataset(X[:3000], y[:3000]), 50)
    >>> found = puc.questions(booster, X[3000:], y[3000:])
    >>> found.enough
    ('blood',)
    >>> print(found.conclusion)
    One of your three questions, blood, carries at least 95% of what all three add; the other two are not needed.
    """
    for name, value in (("share", share), ("level", level)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1, such as 0.95; got {value!r}.")
    from threadpoolctl import threadpool_limits

    # Threads of small matrix products mostly wait for each other, and change the last bits of what they return.
    with engine_threads_for(num_threads, X), threadpool_limits(1, "blas"):
        predictor = MaskedPredictor(model, X, num_threads=num_threads)
        classes = getattr(model, "classes_", None)
        sharers = _read(predictor, y, classes, groups, sample_weight, exposure, clusters, seed)
        losses = _losses(predictor, sharers, progress)
        found = _findings(sharers, losses, share, level, seed)
    return replace(found, _asking=Asking(model, predictor, sharers.target, num_threads, seed))


@dataclass(frozen=True)
class Sharers:
    """The people who share all that is asked about, or as many of them as are looked at."""

    everybody: int
    sharing: int
    rows: Array
    outcome: Array
    weight: Array
    objective: Objective
    consent: Consent
    target: int
    """The mask of all questions."""
    cluster: Array | None
    """The number of the cluster of each."""

    @property
    def masks(self) -> Array:
        """All admissible sets of questions, ascending."""
        return self.consent.nesting.submasks(self.target)


def _findings(sharers: Sharers, losses: Array, share: float, level: float, seed: int) -> Questions:
    """Return all that is said about losses, people × sets, which are overwritten."""
    consent, objective, masks = sharers.consent, sharers.objective, sharers.masks
    nesting, target, error = consent.nesting, sharers.target, 1 - level
    without, with_all = np.average(losses[:, [0, -1]], axis=0, weights=sharers.weight).tolist()
    values = SetValues.of(losses, sharers.weight, masks, sharers.cluster)
    groups = [g for g in range(consent.n_groups) if target >> g & 1]
    shapley, shapley_errors = values.linear(shapley_weights(target, nesting))
    p_values = holm(p_positive(shapley, shapley_errors).tolist())
    useful = [p <= error for p in p_values]
    rest = [values.place(target & ~nesting.below[g]) for g in groups]
    last, last_errors = values.linear(np.eye(len(masks))[:, [-1]] - np.eye(len(masks))[:, rest])
    kept = keeps(values, share, level, seed)
    errors, total = np.sqrt(np.diag(values.covariance)), float(values.value[-1])
    helps = bool(p_positive(values.value, errors)[-1] <= error)
    lacking = [helps and p <= error for p in holm(p_positive(-kept.margin, kept.error)[rest].tolist())]
    needed = np.where(kept.proven[rest], NOT_NEEDED, np.where(lacking, NEEDED, NOT_KNOWN)).tolist()
    names = [consent.group_names[g] for g in groups]
    columns = (shapley.tolist(), shapley_errors.tolist(), p_values, useful, last.tolist(), last_errors.tolist(), needed)
    short = _shortest(
        values, kept.proven, sum(1 << g for g, is_useful in zip(groups, useful, strict=True) if is_useful)
    )
    forms = [
        Form(j, consent.groups_of(int(masks[best])), v, e, v / total if helps else None, bool(kept.proven[best]))
        for j, (best, v, e) in enumerate(curve(values, seed))
    ]
    return Questions(
        people=len(sharers.rows),
        sharing=sharers.sharing,
        everybody=sharers.everybody,
        loss=_TITLES[objective.name] + (f" at {objective.alpha:g}" if isinstance(objective, Quantile) else ""),
        loss_without=without,
        loss_with=with_all,
        value=total,
        error=float(errors[-1]),
        helps=helps,
        share=share,
        level=level,
        questions=tuple(map(Question, names, *columns)),
        forms=tuple(forms),
        enough=None if short is None else consent.groups_of(short),
        sets=tuple(map(SetValue, subset_names(masks.tolist(), consent), values.value.tolist(), errors.tolist())),
    )


def _shortest(values: SetValues, proven: Array, useful: int) -> int | None:
    """Return the best of the smallest sets that are proven to keep their share, if they are fewer than all.

    Of sets as small, one without questions that may be useless is better, whatever chance says.
    """

    def order(place: int) -> tuple[int, int, float]:
        mask = int(values.masks[place])
        return mask.bit_count(), (mask & ~useful).bit_count(), -float(values.value[place])

    found = np.flatnonzero(proven[:-1]).tolist()
    return int(values.masks[min(found, key=order)]) if found else None


# ----- who is compared


def _read(
    predictor: MaskedPredictor,
    y: Any,
    classes: Any,
    groups: Any,
    sample_weight: Any,
    exposure: Any,
    clusters: Any,
    seed: int,
) -> Sharers:
    """Return the people to compare; raise if they are too few, or their losses are not known."""
    objective = loss_of(predictor.model)
    if objective is None:
        raise ValueError(
            "The loss of the model is not known here, so neither is what an answer is worth. Known are those of "
            f"objectives {', '.join(map(repr, _TITLES))}."
        )
    outcome, weight = _outcomes(predictor, y, classes, sample_weight, exposure, objective)
    target, cluster = _target(predictor.consent, groups), read_clusters(clusters, predictor.n_rows)
    rows = np.flatnonzero(((predictor.shared & np.uint64(target)) == np.uint64(target)) & (weight > 0))
    _check_people(predictor, target, weight, len(rows))
    sharing = len(rows)
    most = max(MIN_PEOPLE, MOST_PREDICTIONS // (predictor.consent.nesting.count(target) * objective.n_scores))
    if sharing > most:
        rows = np.sort(np.random.default_rng(child_seed(seed, 22)).choice(rows, most, replace=False))
    outcome, weight = outcome[rows], weight[rows]
    if (outcome == outcome[0]).all():
        raise ValueError(
            f"y is {outcome[0]:g} for all {count(len(rows))} people who share everything that is asked about, so there "
            "is nothing to predict."
        )
    if cluster is not None:
        cluster = np.unique(cluster[rows], return_inverse=True)[1]
        if cluster.max() + 1 < MIN_PEOPLE:
            raise ValueError(
                f"The {count(sharing)} rows that share everything that is asked about are of {cluster.max() + 1} "
                f"clusters; at least {MIN_PEOPLE} are needed for standard errors. Give more people, or fewer groups."
            )
    return Sharers(predictor.n_rows, sharing, rows, outcome, weight, objective, predictor.consent, target, cluster)


def _outcomes(
    predictor: MaskedPredictor, y: Any, classes: Any, sample_weight: Any, exposure: Any, objective: Objective
) -> tuple[Array, Array]:
    """Return outcomes and weights of everybody; totals over an exposure become rates."""
    n = predictor.n_rows
    if classes is not None:
        y = class_numbers(y, "y", n, classes)
    outcome = as_vector(y, "y", n, np.float64)
    weight = np.ones(n) if sample_weight is None else as_weight(sample_weight, "sample_weight", n)
    summary = kept_of(predictor.model)[1]
    if summary is not None:
        check_both_or_neither(summary.per_exposure, exposure is not None, "this table", "the model")
    if exposure is not None:
        outcome, weight = per_unit(outcome, weight, as_exposure(exposure, "exposure", n))
    objective.check_labels(outcome, "y")
    return outcome, weight


def _target(consent: Consent, groups: Any) -> int:
    """Return the mask of all questions to look at, with all that they need."""
    target = mask_of(
        consent.group_names if groups is None else [groups] if isinstance(groups, str) else groups, consent
    )
    if target == 0:
        raise ValueError("There is no question to look at: the model has nothing optional, or groups is empty.")
    n_sets = consent.nesting.count(target)
    if n_sets > MAX_SETS:
        raise ValueError(
            f"{target.bit_count()} questions have {n_sets:,} sets, and all are compared, up to {MAX_SETS:,}, those of "
            "10 questions. Choose some with groups=, or make one group of columns that are asked together."
        )
    return target


def _check_people(predictor: MaskedPredictor, target: int, weight: Array, found: int) -> None:
    """Raise if too few people share all questions, and say without which enough would."""
    if found >= MIN_PEOPLE:
        return
    consent, some = predictor.consent, predictor.shared[weight > 0]

    def sharing(mask: int) -> int:
        return int(np.count_nonzero((some & np.uint64(mask)) == np.uint64(mask)))

    fewer = target
    while fewer and sharing(fewer) < MIN_PEOPLE:
        smaller = [fewer & ~consent.nesting.below[g] for g in range(consent.n_groups) if fewer >> g & 1]
        fewer = max(smaller, key=sharing)
    hint = f"groups={list(consent.groups_of(fewer))} are shared by {count(sharing(fewer))}. " if fewer else ""
    raise ValueError(
        f"{count(found)} people share all of {listing(map(repr, consent.groups_of(target)))}, and values are compared "
        f"on the same people; at least {MIN_PEOPLE} are needed. {hint}Give more people, or fewer groups."
    )


# ----- what they lose


def _losses(predictor: MaskedPredictor, sharers: Sharers, progress: bool | None) -> Array:
    """Return the loss of each person under each set, f_S being right on average."""
    objective, masks, n, k = sharers.objective, sharers.masks, len(sharers.rows), sharers.objective.n_scores
    told, done = np.empty((n, len(masks), k)), 0
    with progress_bar("comparing questions", progress) as report:
        for some, values in predictor.subsets(sharers.rows, masks):
            told[done : done + len(some)] = values.reshape(len(some), len(masks), k)
            done += len(some)
            report(0.5 * done / n)
        losses = told[:, :, 0] if k == 1 else np.empty(told.shape[:2])
        base = _base_columns(predictor, sharers.rows)
        for place in range(len(masks)):
            scores = objective.link(_within(told[:, place, 0] if k == 1 else told[:, place], objective))
            if place == 0 and k == 1:
                base = _telling(base, sharers.outcome - objective.response(scores), sharers.weight)
            scores = put_right(objective, scores, base, sharers.outcome, sharers.weight)
            losses[:, place] = _deviance(objective, scores, sharers.outcome)
            report(0.5 + 0.5 * (place + 1) / len(masks))
    return losses


def _within(told: Array, objective: Objective) -> Array:
    """Return predictions a little inside the range of the link: certainty would cost infinitely much."""
    if objective.link_name == "identity":
        return told
    return np.clip(told, _CLIP, 1 - _CLIP if objective.link_name == "log-odds" else None)


def _base_columns(predictor: MaskedPredictor, rows: Array) -> Array:
    """Return what is known of everybody as columns of mean 0 and variance 1; a frequent category is a column."""
    optional, columns = set(predictor.consent.group_columns.tolist()), []
    table = predictor.source.take(rows)
    for j in (j for j in range(table.shape[1]) if j not in optional):
        values = np.asarray(table[:, j], dtype=np.float64)
        levels, counts = np.unique(values, return_counts=True)
        coded = j in predictor.source.coded
        columns += [values == level for level in levels[counts >= 0.05 * len(rows)]] if coded else [values]
    x = np.column_stack([np.empty((len(rows), 0)), *columns])
    x[~np.isfinite(x)] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # columns without any value
        x = (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0)
    return np.asarray(np.nan_to_num(np.clip(x, -FARTHEST, FARTHEST), nan=0.0))


def _telling(base: Array, missed: Array, weight: Array) -> Array:
    """Return the columns that go most with what a form without any answer misses, after a column of ones."""
    strength = np.abs((weight * missed) @ base)
    chosen = np.sort(np.argsort(-strength, kind="stable")[:MOST_COLUMNS])
    return np.column_stack([np.ones(len(base)), base[:, chosen]])


def put_right(objective: Objective, scores: Array, base: Array, outcome: Array, weight: Array) -> Array:
    """Return scores that are right on average and along base columns; of classes and quantiles on average only."""
    if isinstance(objective, Quantile):
        return scores + objective.initial_score(outcome - scores, weight)
    if isinstance(objective, Softmax):
        classes = np.eye(objective.n_scores)[outcome.astype(np.intp)]
        rows = ScoredRows(scores, classes, weight, np.zeros(len(scores), dtype=np.uint64), np.arange(len(scores)))
        return np.asarray(scores + mask_constants(rows, objective, 0).depths[0].constant)
    moved = scores
    beta, holds = np.zeros(base.shape[1]), np.full(base.shape[1], float(PRIOR))
    holds[0] = 0.0  # everybody counts for the average
    for _ in range(STEPS):
        told = objective.response(moved)
        slope = weight * objective.slope(told)
        prior = holds * slope.mean()
        step = np.linalg.solve(
            (base * slope[:, None]).T @ base + np.diag(prior), base.T @ (weight * (outcome - told)) - prior * beta
        )
        beta += np.clip(step, -1.0, 1.0) if objective.link_name != "identity" else step
        moved = scores + base @ beta
        if objective.link_name == "identity" or np.abs(step).max() < CLOSE:
            break
    return moved


def _deviance(objective: Objective, scores: Array, outcome: Array) -> Array:
    """Return the loss as people know it: losses of amounts become deviances, 0 for a perfect prediction."""
    found = objective.losses(scores, outcome)
    if objective.n_scores > 1 or objective.link_name == "log-odds" or isinstance(objective, Quantile):
        return found
    perfect = outcome if objective.link_name == "identity" else np.log(np.maximum(outcome, np.finfo(float).tiny))
    return 2 * (found - objective.losses(perfect, outcome))
