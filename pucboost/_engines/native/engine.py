"""The native engine: LightGBM's parameters and boosters, trees grown by pucboost itself.

To the outside it is LightGBM: its boosters are made of a text that LightGBM reads.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import lightgbm as lgb

from ..._common import Array
from ..._kernels.compiling import thread_count
from ..._virtual.rows import VirtualTable
from ..base import (
    NO_HOOKS,
    NOTHING_ELSE,
    Engine,
    EngineParams,
    FoldBuilder,
    FoldOptions,
    Hooks,
    OwnGradient,
    Validation,
)
from ..features import check_features
from ..lightgbm import LightGBMLike, run_options
from ..names import MAIN_NAME, value_of, whole_number, with_value
from .grower import Crew
from .loop import begin, best_scores, cross_validate, run_rounds, with_early_stopping
from .losses import metrics_of
from .parameters import MOST, GrowthParams, read_bin_params


class Native(LightGBMLike):
    """pucboost's own trees: people are binned once, and a copy of a person is a mask and a score."""

    name: ClassVar[str] = "native"
    title: ClassVar[str] = "the native engine"
    copies: ClassVar[float | None] = 8.0  # one costs a mask and a score

    def prepare(
        self,
        params: dict[str, Any],
        dataset_params: Mapping[str, Any],
        num_boost_round: int,
        asked: Mapping[str, Any] = NOTHING_ELSE,
    ) -> EngineParams:
        """Return the parameters with those of the Dataset that concern data, and the number of rounds they name."""
        request = {**dataset_params, **params, **asked}
        check_features(self.name, request)
        options = run_options(request)
        GrowthParams.read(request)
        read_bin_params(request)
        metrics_of(request, options.n_classes)
        given = {MAIN_NAME.get(name, name) for name in params}
        of_data = lgb.Dataset(None, params=dict(dataset_params)).get_params()
        values = {name: value for name, value in of_data.items() if MAIN_NAME.get(name, name) not in given} | params
        rounds = whole_number("num_iterations", value_of(values, "num_iterations", num_boost_round))
        if rounds <= 0:
            raise ValueError(f"Number of boosting rounds must be greater than 0. Got {rounds}.")
        if rounds > MOST:
            raise ValueError(f"Number of boosting rounds must be at most {MOST}. Got {rounds:.3g}.")
        values = with_value(values, "num_iterations", rounds)
        # Per row: a mask, its place and its scores, and part of a person's codes.
        row_bytes = 24 + 4 * max(1, options.n_classes)
        return EngineParams(values, rounds, row_bytes, 1, options=options, objective=self.objective(values))

    def train(
        self,
        train: VirtualTable,
        params: EngineParams,
        valid: Validation | None,
        hooks: Hooks = NO_HOOKS,
        own: OwnGradient | None = None,
    ) -> lgb.Booster:
        """Grow trees on the pool of the virtual rows; with ``own``, start, link and metrics are the built-in loss's."""
        values = copy.deepcopy(params.values)
        # They wait for each other by spinning, so more of them than cores would be in each other's way.
        with Crew(min(train.rows.threads, thread_count(None))) as crew:
            booster = begin(train, values, valid or (), crew, init_model=hooks.init_model, own=own)
            own_set = next((name for table, name in valid or () if table is None), None)
            if own_set is not None:
                booster.set_train_data_name(own_set)

            def evaluate() -> list[Any]:
                on_training = [] if own_set is None else booster.eval_train(hooks.feval)
                return [*on_training, *booster.eval_valid(hooks.feval)]

            first = booster.growth.next_round
            best, results = run_rounds(
                booster,
                values,
                range(first, first + params.num_boost_round),
                with_early_stopping(hooks.callbacks, values),
                booster.update,
                evaluate,
            )
            finished = booster.finished()
        finished.best_iteration = best or 0
        finished.best_score = best_scores(results)
        # As lgb.train does it: without the trees after the best round.
        return finished.model_from_string(finished.model_to_string()) if best else finished

    def cv(
        self,
        label: Array,
        folds: Sequence[tuple[Array, Array]],
        build: FoldBuilder,
        params: EngineParams,
        options: FoldOptions,
    ) -> dict[str, Any]:
        """Grow a booster on each fold, round by round."""
        threads = min(thread_count(params.options.num_threads), thread_count(None))
        return cross_validate(len(folds), build, params, options, threads)


ENGINE: Engine = Native()
