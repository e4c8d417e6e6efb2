"""Cross-validation with the native engine, with the results of ``lgb.cv``."""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Any

import lightgbm as lgb
import numpy as np

from ..base import EngineParams, FoldBuilder, FoldOptions
from ..names import with_value
from .beginning import begin
from .crew import Crew
from .growing import GrowingBooster
from .loop import run_rounds, with_early_stopping
from .scored_rows import EvalResult


def cross_validate(
    n_folds: int, build: FoldBuilder, params: EngineParams, options: FoldOptions, threads: int
) -> dict[str, Any]:
    """Grow a booster on each fold, all of them round by round; return the mean and the spread of their metrics."""
    values = copy.deepcopy(params.values)
    if options.metrics is not None:
        values = with_value(values, "metric", options.metrics)
    history: dict[str, Any] = defaultdict(list)
    with Crew(threads) as crew:
        model: Any = lgb.CVBooster()
        for fold in range(n_folds):
            train, held_out, fold_values = build(fold, dict(values))
            sets = [(None, "train")] if options.eval_train_metric else []
            model.boosters.append(
                begin(train, fold_values, [*sets, (held_out, "valid")], crew, init_model=options.init_model)
            )

        def evaluate() -> list[Any]:
            results = _averaged([_train_first(booster, options) for booster in model.boosters])
            for data_name, metric_name, mean, _, spread in results:
                history[f"{data_name} {metric_name}-mean"].append(mean)
                history[f"{data_name} {metric_name}-stdv"].append(spread)
            return results

        best, _ = run_rounds(
            model,
            values,
            range(params.num_boost_round),
            with_early_stopping(options.callbacks, values),
            lambda: [booster.update() for booster in model.boosters],
            evaluate,
        )
        model.boosters = [booster.finished() for booster in model.boosters]
    if best is not None:
        model.best_iteration = best
        for booster in model.boosters:
            booster.best_iteration = best
        history = {name: values[:best] for name, values in history.items()}
    return {**history, "cvbooster": model} if options.return_cvbooster else dict(history)


def _train_first(booster: GrowingBooster, options: FoldOptions) -> list[Any]:
    train = booster.set_train_data_name("train").eval_train(options.feval) if options.eval_train_metric else []
    return [*train, *booster.eval_valid(options.feval)]


def _averaged(folds: list[list[Any]]) -> list[Any]:
    """Return mean and standard deviation over the folds, for each set and metric."""
    values: dict[tuple[str, str], list[float]] = {}
    higher: dict[tuple[str, str], bool] = {}
    for results in folds:
        for data_name, metric_name, value, higher_is_better in results:
            values.setdefault((data_name, metric_name), []).append(value)
            higher[data_name, metric_name] = higher_is_better
    return [EvalResult(*key, float(np.mean(each)), higher[key], float(np.std(each))) for key, each in values.items()]
