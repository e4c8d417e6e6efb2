"""``load_to_balance``: one loading for everybody, so that what people are told adds up to what happened.

One constant on the scale of raw scores is a factor under a log link, and keeps the order of quotes, so the bonus
balances by the same constant. Further trees would take it back, so loaded models are neither continued nor refitted.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from .._common import Array
from .._engines import boosters_of, is_booster
from .._engines.trees import Leaf, MaskTree
from .._losses import Objective, Quantile, Softmax, per_unit
from .._models.anchored import loss_of
from .._models.schema import attach_schema, kept_of
from .._tables.sources import Categories, as_exposure, as_weight, eager, read_label, rows_of
from .._training.calibration import FARTHEST, ScoredRows, mask_constants
from .predictor import Favourable, Sharing, predict

TRIED = 100
"""How many people the link of a model is tried on."""


def load_to_balance(
    model: Any,
    X: Any,
    y: Any,
    *,
    sharing: Sharing = "as_given",
    favourable: Favourable = "lower",
    sample_weight: Any = None,
    exposure: Any = None,
    num_threads: int | None = None,
) -> Any:
    """Return the model with one loading for everybody, so that the book balances: Σ w·(q − y) = 0.

    Where withholding is informative, a correct model collects too little: those who withhold are told what is justified
    for everybody like them. A bonus system (``sharing="best"``) collects even less. The loading spreads this over
    everybody, whether they share or not: a factor e^c on predictions with a log link, c added to them without a link,
    c added to log-odds. It is one more tree without any question, so quotes, bonuses, letters and files of the model
    include it, and who is best off with which subset does not change.

    An audit takes the loading out before it judges: it is the same for all, and nobody's silence has a part in it.

    Parameters
    ----------
    model
        A booster returned by :func:`pucboost.train`, or one of pucboost's estimators. It is not changed.
    X, y
        The book: people and their outcomes, best others than those of training.
    sharing, favourable
        Which predictions q are to balance, as in :func:`pucboost.predict`: people as they are, everybody silent, or
        the best of each person's quotes.
    sample_weight
        Weights of people.
    exposure
        What the outcomes add up over, as in :class:`Dataset`; needed if the model was trained with one.
    num_threads
        Threads; None means all cores.

    Returns
    -------
    model of the same kind
        With ``puc_summary.loading``, the constant c on the scale of raw scores.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)); y = rng.poisson(np.exp(X.sum(axis=1) / 2))
    >>> X[rng.random(2000) < 1 / (1 + np.exp(-2 * X[:, 1])), 1] = np.nan     # large values tend to be withheld
    >>> booster = puc.train({"objective": "poisson", "optional": [1], "verbosity": -1}, (X, y), 50)
    >>> loaded = puc.load_to_balance(booster, X, y, sharing="best")
    >>> bonus = puc.predict(loaded, X, sharing="best")
    >>> round(float(bonus.sum() / y.sum()), 6), bool(loaded.puc_summary.loading > 0)
    (1.0, True)
    """
    booster = _trees_in(model)
    consent, summary = kept_of(booster)
    if consent is None or summary is None:
        raise ValueError("The model has no consent schema; load_to_balance takes models that pucboost has trained.")
    loss = _checked_loss(booster)
    if summary.per_exposure != (exposure is not None):
        has, lacks = ("The model", "this book") if summary.per_exposure else ("This book", "the model")
        raise ValueError(f"{has} has an exposure, but {lacks} has none: give the exposure of both or of neither.")
    told = predict(model, X, sharing=sharing, favourable=favourable, num_threads=num_threads)
    outcome, weight = _book(model, y, sample_weight, exposure, len(told))
    loss.check_labels(outcome, "y")
    constant = _constant(loss, told, outcome, weight)
    summary = replace(summary, loading=summary.loading + constant)
    boosters, loaded, rows = boosters_of(booster), copy.deepcopy(booster), float(len(told))
    boosters.add_mask_trees(loaded, [MaskTree.of(Leaf(constant, rows, rows))], Categories([], ()))
    attach_schema(loaded, boosters, consent, summary, None)
    result = loaded
    if booster is not model:
        result = copy.copy(model)
        result.booster_ = loaded
    # A parameter of the engine may have changed the link, so it is tried whether predictions moved as the link says.
    some = rows_of(eager(X), np.arange(min(TRIED, len(told))))
    now = predict(result, some, sharing=sharing, favourable=favourable)
    with np.errstate(divide="ignore"):
        expected = loss.response(loss.link(told[: len(now)].astype(np.float64)) + constant)
    if not np.allclose(now, expected, rtol=1e-4, atol=1e-6):
        raise ValueError(
            f"The predictions are not those of objective {loss.name!r} with its usual link: a parameter of the engine "
            "has changed it (sigmoid, reg_sqrt). Such a model cannot be balanced."
        )
    return result


def _trees_in(model: Any) -> Any:
    booster = model if is_booster(model) else getattr(model, "booster_", None)
    if is_booster(booster):
        return booster
    if hasattr(booster or model, "anchor"):
        raise ValueError(
            "load_to_balance of an anchored model: people who share nothing are promised the anchor's prediction."
        )
    raise TypeError(
        f"load_to_balance takes a booster returned by pucboost.train or one of pucboost's estimators, got "
        f"{type(model).__name__!r}; in a pipeline, balance the last step."
    )


def _checked_loss(booster: Any) -> Objective:
    loss = loss_of(booster)
    if loss is None or isinstance(loss, (Quantile, Softmax)):
        name = boosters_of(booster).facts(booster).loss
        raise ValueError(
            f"load_to_balance with objective {name!r}: a book balances in means, on the scale of one link (regression, "
            "binary, cross_entropy, poisson, gamma, tweedie)."
        )
    return loss


def _book(model: Any, y: Any, sample_weight: Any, exposure: Any, n: int) -> tuple[Array, Array]:
    """Return outcomes and weights, as rates and with the exposure as weight if there is one."""
    classes = getattr(model, "classes_", None)
    given = y if classes is None else (np.asarray(y) == classes[1]).astype(np.float64)
    outcome = np.asarray(read_label(given, "y", n, total=exposure is not None), dtype=np.float64)
    weight = None if sample_weight is None else as_weight(sample_weight, "sample_weight", n)
    if exposure is not None:
        outcome, weight = per_unit(outcome, weight, as_exposure(exposure, "exposure", n))
    if weight is not None and not np.any(weight):
        raise ValueError("All weights are 0, so there is nothing to balance.")
    return outcome, np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)


def _constant(loss: Objective, told: Array, outcome: Array, weight: Array) -> float:
    n = len(told)
    with np.errstate(divide="ignore"):  # a prediction of 0 stays 0
        scores = loss.link(np.asarray(told, dtype=np.float64))[:, None]
    rows = ScoredRows(scores, outcome[:, None], weight, np.zeros(n, dtype=np.uint64), np.arange(n))
    constant = float(mask_constants(rows, loss, 0).depths[0].constant[0, 0])
    if not np.isfinite(constant) or (loss.link_name != "identity" and abs(constant) >= FARTHEST):
        means = np.average(told, weights=weight), np.average(outcome, weights=weight)
        raise ValueError(
            f"The mean prediction is {means[0]:.4g}, the mean outcome {means[1]:.4g}: too far apart for a loading. Are "
            "y and the model about the same thing, in the same unit?"
        )
    return constant


def without_loading(told: Array, booster: Any, loading: float) -> Array:
    """Return predictions of a booster that has a loading as they would be without it."""
    loss = loss_of(booster)
    if not loading or loss is None:
        return told
    with np.errstate(divide="ignore"):
        return loss.response(loss.link(told) - loading)
