"""A booster while the native engine grows it.

To LightGBM's callbacks it is an ``lgb.Booster``: whatever they ask of it, LightGBM answers from the text of the trees
so far. Only growing, evaluating and resetting parameters are the native engine's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Never

import lightgbm as lgb
import numpy as np

from ..._arrays import Array
from ..._tables.containers import SourceTable
from ..lightgbm_categories import columns_only
from ..names import MAIN_NAME, aliases, value_of, whole_number, with_value, without
from .grower import Grower
from .metrics import Metric
from .model_text import ModelText
from .scored_rows import ScoredRows
from .scoring import add_tree
from .trees import Tree


@dataclass
class Growth:
    """What a booster grows by, and what it is evaluated on."""

    grower: Grower
    text: ModelText
    train: ScoredRows
    valid: Sequence[tuple[ScoredRows, str]]
    metrics: Sequence[Metric]
    response: Callable[[Array], Array]
    """From raw scores to what a user's metric sees."""
    next_round: int
    constant: Array | None = None
    """What a class that cannot be split in the first round is told, if training does not start from averages."""


class GrowingBooster(lgb.Booster):
    """A booster of the native engine, as LightGBM's own, before and while it grows.

    Parameters
    ----------
    params
        LightGBM's parameters, without callables.
    table
        The table it will be trained on; only names and categories are used.
    n_classes
        Number of scores of a row.
    """

    _stale = False
    growth: Growth

    def __init__(self, params: Mapping[str, Any], table: SourceTable, n_classes: int) -> None:
        super().__init__(
            with_value(with_value(params, "verbosity", -1), "num_threads", 1), columns_only(params, table, n_classes)
        )
        self.free_dataset()
        # Quiet only as long as LightGBM looks at a table that is not the user's. LightGBM itself needs one thread, and
        # in a forked process more of them would never come.
        ours = (*aliases("verbosity"), *aliases("num_threads"))
        self.params = without(without(self.params, "verbosity"), "num_threads") | {
            name: value for name, value in params.items() if name in ours
        }

    @property
    def _handle(self) -> Any:
        """LightGBM's own booster, made of the trees so far when it is asked for."""
        if self._stale:
            self._stale = False
            self.model_from_string(self.growth.text.text())
        return self.__dict__["_handle"]

    @_handle.setter
    def _handle(self, handle: Any) -> None:
        self.__dict__["_handle"] = handle

    def __del__(self) -> None:
        self._stale = False
        super().__del__()

    def untrained_text(self) -> str:
        """Return LightGBM's text of the booster without trees."""
        text = self.model_to_string()
        for name, here, default in (("verbosity", -1, 1), ("num_threads", 1, 0)):
            given = whole_number(name, value_of(self.params, name, default))
            text = text.replace(f"\n[{name}: {here}]\n", f"\n[{name}: {given}]\n")
        return text

    def update(self, train_set: Any = None, fobj: Any = None) -> bool:
        """Grow the trees of one round, and return whether none of them has a split.

        Such a round adds nothing to a model, except to an empty one.
        """
        if train_set is not None or fobj is not None:
            raise TypeError("booster.update with 'engine': 'native' takes neither data nor an objective of its own.")
        growth = self.growth
        trees = growth.grower.step(growth.next_round)
        growth.next_round += 1
        without_split = all(len(tree.feature) == 0 for tree in trees)
        if without_split and len(growth.text):
            return True
        if growth.constant is not None and not len(growth.text):
            trees = [self._with_constant(tree, k) for k, tree in enumerate(trees)]
        growth.text.append(trees)
        self._stale = True
        for pool in {id(rows): rows.pool for rows, _ in growth.valid}.values():  # a set may have two names
            for k, tree in enumerate(trees):
                add_tree(pool, growth.grower.layout, tree.code, tree.leaf_value, k, growth.grower.crew.size)
        return without_split

    def _with_constant(self, tree: Tree, class_index: int) -> Tree:
        """Return a tree without a split with the best constant, as LightGBM has it."""
        constant = self.growth.constant
        if constant is None or len(tree.feature):
            return tree
        self.growth.train.pool.scores[class_index] += np.float32(constant[class_index])
        return replace(tree, leaf_value=constant[[class_index]], shrinkage=1.0)

    def reset_parameter(self, params: dict[str, Any]) -> lgb.Booster:
        """Set the learning rate of the rounds to come; raise for any other parameter."""
        for name, value in params.items():
            if MAIN_NAME.get(name) != "learning_rate":
                raise ValueError(
                    f"{name!r} cannot change during a training with 'engine': 'native', only the learning rate can. "
                    "Use 'engine': 'lightgbm'."
                )
            if not (isinstance(value, (int, float)) and 0.0 < value < math.inf):
                raise ValueError(f"learning_rate must be a number above 0, got {value!r}.")
            self.growth.grower.learning_rate = float(value)
        self.params.update(params)
        return self

    def eval_train(self, feval: Any = None) -> list[Any]:
        """Evaluate on the training rows."""
        return self._evaluate([(self.growth.train, self._train_data_name)], feval)

    def eval_valid(self, feval: Any = None) -> list[Any]:
        """Evaluate on the validation rows."""
        return self._evaluate(self.growth.valid, feval)

    def _evaluate(self, sets: Sequence[tuple[ScoredRows, str]], feval: Any) -> list[Any]:
        functions = [one for one in (feval if isinstance(feval, list) else [feval]) if one is not None]
        metrics, response = self.growth.metrics, self.growth.response
        return [result for rows, name in sets for result in rows.evaluate(name, metrics, functions, response)]

    def _refuse(self, what: str) -> Never:
        raise TypeError(
            f"booster.{what} during a training with 'engine': 'native', whose trees LightGBM does not hold: it would "
            "be forgotten. Call it on the booster that train returns, or use 'engine': 'lightgbm'."
        )

    def rollback_one_iter(self) -> Never:
        """Raise: the trees so far stay."""
        self._refuse("rollback_one_iter")

    def shuffle_models(self, start_iteration: int = 0, end_iteration: int = -1) -> Never:
        """Raise: the trees so far stay."""
        self._refuse("shuffle_models")

    def set_leaf_output(self, tree_id: int, leaf_id: int, value: float) -> Never:
        """Raise: the trees so far stay."""
        self._refuse("set_leaf_output")

    def add_valid(self, data: lgb.Dataset, name: str) -> Never:
        """Raise: validation sets are given to ``train``, which augments them."""
        self._refuse("add_valid")

    def __reduce__(self) -> Any:
        """Pickle the trees so far, as LightGBM's own booster."""
        return _booster_of, (self.model_to_string(),)

    def finished(self) -> lgb.Booster:
        """Return LightGBM's own booster with all trees, which this one becomes."""
        booster: Any = self
        _ = booster._handle  # the trees so far
        for name in ("growth", "_stale"):
            booster.__dict__.pop(name, None)
        booster.__class__ = lgb.Booster
        return booster  # type: ignore[no-any-return]


def _booster_of(text: str) -> lgb.Booster:
    return lgb.Booster(model_str=text)
