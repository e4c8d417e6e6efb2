"""``train`` with ``params["anchor"]``: trees on top of an existing model, or pulled towards it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._arrays import Array
from .._engines.base import OwnGradient, Validation
from .._losses import Objective
from .._models.anchor import Anchor
from .._models.anchored import AnchoredModel
from .._tables.containers import SourceTable
from .._virtual.rows import SelectedTable, VirtualTable, erased_table
from .augmenting import Augmenter
from .request import TrainingRequest, ValidationTables


def train_anchored(
    request: TrainingRequest, valid_tables: ValidationTables | None, *, feval: Any, init_model: Any, callbacks: Any
) -> Any:
    """Return an :class:`AnchoredModel`, or with ``anchor_strength`` a booster of the engine."""
    objective = _check_can_be_anchored(request, valid_tables, init_model)
    request = replace(request, settings=replace(request.settings, compact=False))
    augmenter = Augmenter(request)
    virtual, valid = augmenter.training(), augmenter.validation_sets(valid_tables)
    anchor = Anchor(request.settings.anchor, request.consent)
    if isinstance(anchor.model, str):
        anchor = _train_base(request, valid, feval, callbacks)
    if request.settings.anchor_strength is not None:
        booster = _train_soft(request, objective, anchor, virtual, valid, feval, callbacks)
        return augmenter.finish(booster, virtual)
    trees = request.engine.train(
        start_from(virtual, anchor, "train_set"),
        request.params,
        None if valid is None else [(v and start_from(v, anchor, name), name) for v, name in valid],
        feval=feval,
        callbacks=callbacks,
    )
    trees = request.engine.boosters.up_to_best_round(trees)
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


def _train_base(request: TrainingRequest, valid: Validation | None, feval: Any, callbacks: Any) -> Anchor:
    """Train a model on base features and return it as the anchor."""
    engine, consent, threads = request.engine, request.consent, request.options.num_threads
    params = replace(request.params, values=copy.deepcopy(request.params.values))
    base = engine.train(
        erased_table(request.table, consent, threads),
        params,
        None if valid is None else [(v and erased_table(v.table, consent, threads), name) for v, name in valid],
        feval=feval,
        # Only copies of early-stopping callbacks: the user's callbacks belong to the final model.
        callbacks=[copy.deepcopy(callback) for callback in callbacks or () if engine.stops_early(callback)],
    )
    return Anchor(engine.boosters.up_to_best_round(base), consent)


def start_from(virtual: VirtualTable, anchor: Anchor, name: str) -> SelectedTable:
    """Return the virtual rows that share something, with the anchor's raw scores to start from."""
    selection = np.flatnonzero(virtual.shares_something())
    if len(selection) == 0:
        raise ValueError(f"Nobody in {name} shares anything, so there is nothing to add to the anchor.")
    table = replace(virtual.table, init_score=_anchor_scores(virtual.table, anchor))
    return SelectedTable.of(virtual, selection, table)


def _anchor_scores(table: SourceTable, anchor: Anchor) -> Array:
    """Return the anchor's raw score for each person."""
    return anchor.raw(table.container(), table.source.categories).astype(np.float64)


def _train_soft(
    request: TrainingRequest,
    objective: Objective,
    anchor: Anchor,
    virtual: VirtualTable,
    valid: Validation | None,
    feval: Any,
    callbacks: Any,
) -> Any:
    """Train from the best constant, pulling copies that share nothing towards the anchor."""
    pull = PullTowardsAnchor(
        objective,
        request.settings.anchor_strength or 0.0,
        virtual.rows.plan.spread(_anchor_scores(request.table, anchor)),
        ~virtual.shares_something(),
        request.options.num_threads,
    )
    own = OwnGradient(pull, objective, objective.initial_score(virtual.label(), virtual.weight()))
    return request.engine.train_own_gradient(virtual, request.params, valid, own, feval=feval, callbacks=callbacks)


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
