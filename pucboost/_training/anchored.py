"""``train`` with ``params["anchor"]``: trees on top of an existing model, or pulled towards it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from .._arrays import Array
from .._engines.base import Validation, VirtualTable
from .._engines.params import LIGHTGBM_ALIASES, is_booster
from .._models.anchoring import Anchor, AnchoredModel, SoftAnchorObjective, erased, shares_something, start_from
from ..objectives import Objective, Softmax
from .job import TrainingJob


def train_anchored(
    job: TrainingJob, train_set: Any, valid_sets: Any, valid_names: Any, *, feval: Any, init_model: Any, callbacks: Any
) -> Any:
    """Return an :class:`AnchoredModel`, or with ``anchor_strength`` a booster of the engine."""
    if init_model is not None:
        raise ValueError("anchor with init_model: the trees start from the anchor. Give one of the two.")
    objective = job.objective
    if objective is None:
        raise ValueError("anchor needs a built-in objective whose link is known (squared error, logistic, Poisson, …).")
    if job.settings.compact is True:
        raise ValueError("compact with anchor is not supported. Leave compact out.")
    if job.params.get("objective") == "multi:softmax":
        raise ValueError(
            "anchor with objective 'multi:softmax': class numbers cannot be added to. Use 'multi:softprob'."
        )
    if job.facts.zero_as_missing:
        raise ValueError("anchor with zero_as_missing: mark withheld values as missing (NaN) instead.")
    job = replace(job, settings=replace(job.settings, compact=False))
    anchor = Anchor(job.settings.anchor, job.consent)
    options = {"feval": feval, "init_model": None, "keep_training_booster": False}
    virtual = job.training_rows()
    valid = job.validation(valid_sets, valid_names, train_set)
    for table in (job.table, *(v.table for v, _ in valid or () if v is not None)):
        if table.init_score is not None:
            raise ValueError("anchor with init_score: the trees start from the anchor. Leave init_score out.")
    if isinstance(anchor.model, str):
        # The base model is trained with copies of what stops early, and no other callback: those belong to the result.
        base_valid = None if valid is None else [(v and _erased(job, v), name) for v, name in valid]
        base = job.engine.train(
            erased(job.table, job.consent, job.facts.num_threads),
            copy.deepcopy(job.params),
            job.num_boost_round,
            base_valid,
            callbacks=[copy.deepcopy(c) for c in callbacks or () if "EarlyStopping" in type(c).__name__],
            **options,
        )
        anchor = Anchor(_best(base), job.consent)
    if job.settings.anchor_strength is not None:
        return _train_soft(job, objective, anchor, virtual, valid, feval, callbacks)
    trees = job.engine.train(
        start_from(virtual, anchor, "train_set"),
        job.params,
        job.num_boost_round,
        None if valid is None else [(v and start_from(v, anchor, name), name) for v, name in valid],
        callbacks=callbacks,
        **options,
    )
    return AnchoredModel(anchor, _best(trees), objective, job.consent, job.summary(virtual))


def _erased(job: TrainingJob, virtual: VirtualTable) -> VirtualTable:
    return erased(virtual.table, job.consent, job.facts.num_threads)


def _best(booster: Any) -> Any:
    """Return an XGBoost booster up to its best round; LightGBM's predict by that round anyway."""
    if is_booster(booster, "xgboost") and booster.attr("best_iteration") is not None:
        return booster[: booster.best_iteration + 1]
    return booster


def _train_soft(
    job: TrainingJob,
    objective: Objective,
    anchor: Anchor,
    virtual: VirtualTable,
    valid: Validation | None,
    feval: Any,
    callbacks: Any,
) -> Any:
    """Train from the best constant, with a pull towards the anchor on copies that share nothing."""
    start = objective.initial_score(virtual.label(), virtual.weight())
    pulled = SoftAnchorObjective(
        objective,
        job.settings.anchor_strength or 0.0,
        virtual.rows.plan.spread(anchor.raw(job.table.container()).astype(np.float64)),
        ~shares_something(virtual),
        job.facts.num_threads,
    )
    if job.settings.engine == "xgboost":
        pulled.builtin_params = {
            "objective": objective.xgboost_name,
            "base_score": np.asarray(start).tolist()
            if isinstance(objective, Softmax)
            else float(objective.response(start)),
        }
        tables, metric = (virtual, valid), feval
    else:
        tables = (
            _constant_start(virtual, start),
            None if valid is None else [(v and _constant_start(v, start), name) for v, name in valid],
        )
        # LightGBM's own metrics would read raw scores as predictions.
        metric = [_LossMetric(objective), *(feval if isinstance(feval, list) else [feval] if feval else [])]
    booster = job.engine.train(
        tables[0],
        {**_without(job.params, "metric"), "objective": pulled},
        job.num_boost_round,
        tables[1],
        feval=metric,
        init_model=None,
        keep_training_booster=False,
        callbacks=callbacks,
    )
    if job.settings.engine == "lightgbm":
        from .._engines.lightgbm import with_builtin_objective

        booster = with_builtin_objective(booster, job.params, objective, start)
    return job.finish(booster, virtual)


def _without(params: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key not in LIGHTGBM_ALIASES[name]}


def _constant_start(virtual: VirtualTable, start: float | Array) -> VirtualTable:
    n = virtual.table.source.n_rows
    scores = np.tile(np.atleast_1d(np.asarray(start, dtype=np.float64)), (n, 1))
    return replace(virtual, table=replace(virtual.table, init_score=scores))


class _LossMetric:
    """The loss itself as a metric of raw scores."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective

    def __call__(self, preds: Array, data: Any) -> tuple[str, float, bool]:
        return self.objective.name, float(self.objective.loss(preds, data.get_label(), data.get_weight())), False
