"""``train`` with ``params["anchor"]``: trees on top of an existing model, or pulled towards it."""

from __future__ import annotations

import copy
import logging
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._common import Array, warn
from .._engines.base import Hooks, OwnGradient, Validation
from .._losses import Objective
from .._models.anchored import AnchoredModel
from .._models.anchors.base import Anchor
from .._models.anchors.boosters import BoosterAnchor
from .._models.anchors.choice import BASE, anchor_of
from .._tables.containers import SourceTable
from .._virtual.rows import SelectedTable, VirtualTable, erased_table
from .augmenting import Augmenter
from .calibrating import calibrate
from .request import TrainingRequest, ValidationTables

logger = logging.getLogger("pucboost")

FAR_OFF = 2.0
"""An anchor whose mean prediction is off by more than this factor is suspicious …"""

NEAR = 1.5
"""… and taken for predictions if these would be off by less than this factor."""


def train_anchored(request: TrainingRequest, valid_tables: ValidationTables | None, hooks: Hooks) -> Any:
    """Return an :class:`AnchoredModel`, or with ``anchor_strength`` a booster of the engine."""
    objective = _check_can_be_anchored(request, valid_tables, hooks.init_model)
    request = replace(request, settings=replace(request.settings, compact=False))
    hooks = replace(hooks, keep_training_booster=False)
    augmenter = Augmenter(request)
    virtual, valid = augmenter.training(), augmenter.validation_sets(valid_tables)
    given = request.settings.anchor
    if isinstance(given, str) and given == BASE:
        anchor: Anchor = _train_base(request, objective, valid, hooks)
    else:
        anchor = anchor_of(given, request.table, request.consent, objective, request.classes)
    logger.info("anchor: %s", anchor.described())
    score = _anchor_scores(request.table, anchor)
    _check_scale(anchor, score, request.table, objective)
    if request.settings.anchor_strength is not None:
        booster = _train_soft(request, objective, score, virtual, valid, hooks)
        return augmenter.finish(booster, virtual)
    others = [(v and start_from(v, _anchor_scores(v.table, anchor), name), name) for v, name in valid or ()]
    start = start_from(virtual, score, "train_set")
    trees = request.engine.train(start, request.params, None if valid is None else others, hooks)
    trees = request.engine.boosters.up_to_best_round(trees)
    if request.calibrates:
        rows = start_from(augmenter.calibration(), score, "train_set")
        calibrate(trees, request.engine.boosters, rows, objective, request.settings.calibrate_masks)
    return AnchoredModel(anchor, trees, objective, request.consent, augmenter.summary(virtual))


def _check_can_be_anchored(
    request: TrainingRequest, valid_tables: ValidationTables | None, init_model: Any
) -> Objective:
    """Raise if the trees cannot start from an anchor; return the loss."""
    if init_model is not None:
        raise ValueError("anchor with init_model: the trees start from the anchor. Give one of the two.")
    if request.objective is None:
        raise ValueError("anchor needs a built-in objective whose link is known (squared error, logistic, Poisson, …).")
    if request.settings.compact is True:
        raise ValueError("compact with anchor is not supported. Leave compact out.")
    if request.options.zero_as_missing:
        raise ValueError("anchor with zero_as_missing: mark withheld values as missing (NaN) instead.")
    for table in (request.table, *(table for table, _ in valid_tables or () if table is not None)):
        if table.init_score is not None:
            raise ValueError("anchor with init_score: the trees start from the anchor. Leave init_score out.")
    return request.objective


def _check_scale(anchor: Anchor, score: Array, table: SourceTable, objective: Objective) -> None:
    """Refuse an anchor that gives predictions where raw scores are meant, and warn of one that is far off.

    With a link, raw scores s and predictions h(s) are different things. If a callable returns probabilities, everybody
    who shares nothing is told about ½. The mean tells the two apart: that of h(s) should be near the mean outcome.
    """
    if score.ndim != 1 or np.array_equal(objective.response(score), score):
        return
    outcome, told, given = (
        float(np.average(values, weights=table.weight)) for values in (table.label, objective.response(score), score)
    )
    if not outcome > 0 or not told > 0:
        return
    off = abs(math.log(told / outcome))
    if off <= math.log(FAR_OFF):
        return
    means = f"a mean prediction of {told:.4g}, where the mean outcome is {outcome:.4g}"
    if anchor.returns_raw_scores and given > 0 and abs(math.log(given / outcome)) < math.log(NEAR):
        raise ValueError(
            f"The anchor's scores give {means}; taken as predictions, their mean is {given:.4g}. An anchor must return "
            f"raw scores, before the link of objective {objective.name!r}. Return the logarithm, or for probabilities "
            "log(p / (1 − p))."
        )
    reason = "does it not return raw scores" if anchor.returns_raw_scores else "for another unit of exposure"
    warn(
        f"The anchor's scores give {means}. Is it for another population, or {reason}?",
    )


def _train_base(request: TrainingRequest, objective: Objective, valid: Validation | None, hooks: Hooks) -> Anchor:
    """Train a model on base features and return it as the anchor."""
    engine, consent, threads = request.engine, request.consent, request.options.num_threads
    params = replace(request.params, values=copy.deepcopy(request.params.values))
    base = engine.train(
        erased_table(request.table, consent, threads),
        params,
        None if valid is None else [(v and erased_table(v.table, consent, threads), name) for v, name in valid],
        # Only copies of early-stopping callbacks: the user's callbacks belong to the final model.
        replace(hooks, callbacks=[copy.deepcopy(one) for one in hooks.callbacks or () if engine.stops_early(one)]),
    )
    return BoosterAnchor(engine.boosters.up_to_best_round(base), consent, objective)


def start_from(virtual: VirtualTable, score: Array, name: str) -> SelectedTable:
    """Return the virtual rows that share something, with the anchor's raw ``score`` of each person to start from."""
    selection = np.flatnonzero(virtual.shares_something())
    if len(selection) == 0:
        raise ValueError(f"Nobody in {name} shares anything, so there is nothing to add to the anchor.")
    return SelectedTable.of(virtual, selection, replace(virtual.table, init_score=score))


def _anchor_scores(table: SourceTable, anchor: Anchor) -> Array:
    """Return the anchor's raw score for each person."""
    return anchor.scores(table.container(), table.source.categories).raw.astype(np.float64)


def _train_soft(
    request: TrainingRequest,
    objective: Objective,
    anchor_score: Array,
    virtual: VirtualTable,
    valid: Validation | None,
    hooks: Hooks,
) -> Any:
    """Train from the best constant, pulling copies that share nothing towards the anchor."""
    pull = PullTowardsAnchor(
        objective,
        request.settings.anchor_strength or 0.0,
        virtual.rows.plan.spread(anchor_score),
        ~virtual.shares_something(),
        request.options.num_threads,
    )
    own = OwnGradient(pull, objective, objective.initial_score(virtual.label(), virtual.weight()))
    return request.engine.train(virtual, request.params, valid, hooks, own)


@dataclass
class PullTowardsAnchor:
    """ℓ(s, y) + λ/2·(s − anchor)² on copies that share nothing, ℓ(s, y) on all others.

    The engine's adapter applies the copy weights to both parts.
    """

    objective: Objective
    strength: float
    anchor_score: Array
    shares_nothing: Array
    threads: int | None

    def __call__(self, preds: Array, data: Any) -> tuple[Array, Array]:
        """Return gradient and hessian, with the user's weights but without the copy weights."""
        score = np.asarray(preds, dtype=np.float64)
        weight = data.get_weight()
        weight = None if weight is None or len(weight) == 0 else np.asarray(weight)
        gradient, hessian = self.objective.gradient(score, np.asarray(data.get_label()), weight, self.threads)
        pull = self.strength if weight is None else self.strength * weight[self.shares_nothing]
        pull = np.asarray(pull)[..., None] if score.ndim == 2 else pull
        gradient[self.shares_nothing] += (pull * (score - self.anchor_score)[self.shares_nothing]).astype(np.float32)
        hessian[self.shares_nothing] += np.asarray(pull, dtype=np.float32)
        return gradient, hessian
