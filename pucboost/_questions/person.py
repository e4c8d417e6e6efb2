"""Which question to ask one person next: the one whose answer would move what they are told most.

Somebody shares S and has not answered g. Of people who share S + g, f(x_{S+g}) has a distribution given (b, z_S), and
its quantiles are what others like them were told who answered. They are learned as the model itself is: everybody who
shares a ∋ g stands for one virtual row per set S ⊆ a without g, with the label f(x_{S+g}), weighed so that each set
counts alike whoever shares more. The label is a prediction, so outcomes have no part in it, nor has anybody's silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._common import Array
from .._prediction.predictor import MaskedPredictor
from .._tables.sources import engine_threads_for, in_container_of
from .._virtual.plan import child_seed, plan_masks

QUANTILES = (0.1, 0.5, 0.9)
MIN_PEOPLE = 100
MOST_PEOPLE = 10_000
"""So many people, drawn at random, are enough to learn the quantiles of a question."""
ROUNDS = 60
PARAMS = {
    "objective": "quantile", "num_leaves": 15, "min_data_in_leaf": 50, "deterministic": True, "force_row_wise": True,
    "verbosity": -1,
}  # fmt: skip


class Asking:
    """What others were told who answered: quantile trees for each question, trained when they are first needed."""

    def __init__(self, model: Any, people: MaskedPredictor, target: int, num_threads: int | None, seed: int) -> None:
        self._model, self.people, self._target = model, people, target
        self._threads, self._seed = num_threads, seed
        self._trees: dict[int, list[Any]] = {}

    def next_question(self, X: Any, width: float) -> Any:
        """Return the table of :meth:`Questions.next_question`."""
        if isinstance(width, bool) or not isinstance(width, (int, float, np.number)) or not width >= 0:
            raise ValueError(f"width must be a number of at least 0, got {width!r}.")
        with engine_threads_for(self._threads, self.people.source):
            people = MaskedPredictor(self._model, X, num_threads=self._threads)
            told = people.everybody(people.shared)
            if told.ndim > 1:
                raise ValueError("With several classes there is no one result that an answer would change.")
            question = np.full(people.n_rows, None, dtype=object)
            ranges = np.full((people.n_rows, len(QUANTILES)), np.nan)
            widest = np.full(people.n_rows, float(width))
            for group, rows, found in self.ranges(people):
                wider = found[:, -1] - found[:, 0] > widest[rows]
                question[rows[wider]], ranges[rows[wider]] = group, found[wider]
                widest[rows[wider]] = (found[:, -1] - found[:, 0])[wider]
            frame = people.frame(np.column_stack([told, ranges]), ["told", "low", "middle", "high"])
            frame.insert(1, "question", question)
            return in_container_of(X, frame)

    def ranges(self, people: MaskedPredictor) -> Iterator[tuple[str, Array, Array]]:
        """Yield each question, who has not answered it but could, and the quantiles of what others were told."""
        nesting = people.consent.nesting
        for g in (g for g in range(people.consent.n_groups) if self._target >> g & 1):
            needed = np.uint64(nesting.above[g] & ~(1 << g))
            missing = (people.shared >> np.uint64(g) & np.uint64(1)) == 0
            rows = np.flatnonzero(missing & ((people.shared & needed) == needed))
            if len(rows) and self._quantiles(g):
                table = people.masked(people.block(rows), np.arange(len(rows)), people.shared[rows]).rows
                found = np.sort([np.asarray(trees.predict(table)) for trees in self._quantiles(g)], axis=0).T
                yield people.consent.group_names[g], rows, found

    def _quantiles(self, g: int) -> list[Any]:
        """Return the trees of a question; none if too few people have answered it."""
        if g not in self._trees:
            self._trees[g] = self._learned(g)
        return self._trees[g]

    def _learned(self, g: int) -> list[Any]:
        import lightgbm as lgb  # slow to load

        people, nesting, seed = self.people, self.people.consent.nesting, child_seed(self._seed, 30 + g)
        answered = np.flatnonzero((people.shared & np.uint64(nesting.above[g])) == np.uint64(nesting.above[g]))
        if len(answered) < MIN_PEOPLE:
            return []
        if len(answered) > MOST_PEOPLE:
            answered = np.sort(np.random.default_rng(seed).choice(answered, MOST_PEOPLE, replace=False))
        plan = plan_masks(people.shared[answered] & ~np.uint64(nesting.below[g]), copies=2, seed=seed, nesting=nesting)
        rows, masks = plan.rows_and_masks(0, len(plan))
        weight, needed = plan.weights(), np.uint64(nesting.above[g] & ~(1 << g))
        kept = np.flatnonzero((masks & needed) == needed)
        block, at = people.block(answered[rows[kept]]), np.arange(len(kept))
        label = people.predict(block, at, masks[kept] | np.uint64(1 << g))
        table = lgb.Dataset(
            people.masked(block, at, masks[kept]).rows,
            label,
            weight=None if weight is None else weight[kept],
            categorical_feature=list(people.source.coded),
        )
        params = {**PARAMS, "seed": self._seed, "num_threads": self._threads or 1}
        return [lgb.train({**params, "alpha": alpha}, table, ROUNDS) for alpha in QUANTILES]
