"""The rounds of a training, in the order of ``lgb.train``: callbacks, trees, metrics, callbacks."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import lightgbm as lgb

from ..names import is_true, value_of


def with_early_stopping(callbacks: Any, params: Mapping[str, Any]) -> list[Any]:
    """Return the callbacks, with early stopping if the parameters ask for it."""
    rounds = value_of(params, "early_stopping_round", 0)
    if isinstance(rounds, bool) or not isinstance(rounds, int):
        raise TypeError(f"early_stopping_round should be an integer. Got '{type(rounds).__name__}'")
    given = list(callbacks or ())
    if rounds <= 0:
        return given
    stopping = lgb.early_stopping(
        rounds,
        first_metric_only=is_true(params.get("first_metric_only", False)),
        verbose=int(value_of(params, "verbosity", 1)) > 0,
        min_delta=float(value_of(params, "early_stopping_min_delta", 0.0)),
    )
    return [*given, stopping]


def run_rounds(
    model: Any,
    params: dict[str, Any],
    rounds: range,
    callbacks: Sequence[Any],
    grow: Callable[[], Any],
    evaluate: Callable[[], list[Any]],
) -> tuple[int | None, list[Any]]:
    """Run the rounds; return the number of the best one if training stopped early, and the results of that round.

    Parameters
    ----------
    model
        What callbacks see: a booster, or those of all folds.
    params
        What callbacks see, and may change.
    rounds
        Numbers of the rounds, from that of the first on if a model is continued.
    callbacks
        LightGBM's callbacks, by their ``order``; without one, in the order of the list, before all others.
    grow, evaluate
        What happens in a round, and how its results are found.
    """
    before, after = _in_order(callbacks)
    results: list[Any] = []

    def call(callback: Any, number: int, known: list[Any] | None) -> None:
        callback(lgb.callback.CallbackEnv(model, params, number, rounds.start, rounds.stop, known))

    for number in rounds:
        for callback in before:
            call(callback, number, None)
        grow()
        results = evaluate()
        try:
            for callback in after:
                call(callback, number, results)
        except lgb.callback.EarlyStopException as stop:
            return stop.best_iteration + 1, list(stop.best_score)
    return None, results


def _in_order(callbacks: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the callbacks to call before a round and after it; one that is given twice is called once."""
    once = list({id(one): one for one in callbacks}.values())
    ordered = [(getattr(one, "order", i - len(once)), one) for i, one in enumerate(once)]
    ordered.sort(key=itemgetter(0))
    before = [one for _, one in ordered if getattr(one, "before_iteration", False)]
    return before, [one for _, one in ordered if not getattr(one, "before_iteration", False)]


def best_scores(results: Sequence[Any]) -> dict[str, dict[str, float]]:
    """Return results as ``best_score`` of a booster has them: set → metric → value."""
    found: dict[str, dict[str, float]] = defaultdict(OrderedDict)
    for data_name, metric_name, value, *_ in results:
        found[data_name][metric_name] = value
    return found
