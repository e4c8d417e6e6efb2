"""Whom a person is compared with, and what each column adds: the game behind ``puc.explain``.

Somebody who shares S is compared with people who share at least S, masked to S. The game of a person x pays, for a set
C of columns, the mean over these people b of f(x_C, b_∖C), and each column gets its Shapley value of that game. What is
withheld is missing in x and in every b, so it cannot make any difference: its value is exactly 0. The values add up to
f(x_S) minus the mean of f over the people compared with.

The game is played with raw scores, where it is a sum over trees and has an exact solution in a walk through each tree
(:mod:`.._kernels.shapley`). A link is no sum over trees: there the game would need a prediction for every set of
columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from .._common import Array, progress_bar, similar, threads_for
from .._consent import Consent, is_whole
from .._engines.trees import Forest
from .._kernels.compiling import run_in_ranges, thread_count
from .._kernels.leaf_sets import read_values
from .._kernels.shapley import MOST_PLAYERS, add_shapley_values
from .._models.anchored import AnchoredModel
from .._prediction.leaf_sets import Block, forest_of, nodes_of
from .._prediction.predictor import MaskedPredictor, people_by_mask, subset_name
from .._virtual.plan import child_seed

FEWEST_COMPARED = 20
"""With fewer people the mean they give is too uncertain to say what is usual, and begins to tell about single ones."""
ANCHOR = "anchor"
"""What an anchor's part is called; it uses no column that can be withheld."""

_SEED_OF_BACKGROUND = 1_000_003
_READINGS = 8
"""More than there are ways to read a column."""
_PEOPLE_PER_ROUND, _COMPARED_PER_ROUND = 16_384, 4_096
_PEOPLE_PER_BLOCK = 2_048
"""Words of as many people, for each level of a tree, stay in the cache."""
_LEAST_PER_THREAD, _WORTH_A_BAR = 256, 2_048
_AGREE = 1e-4
"""Engines add in single precision, or in another order."""


@dataclass(frozen=True)
class ComparedWith:
    """Whom people who share ``shared`` are compared with."""

    shared: str
    people: int
    """How many of the background share at least that much."""
    used: int
    """How many of them they are compared with; 0 if there are fewer than 20, and then there is no explanation."""


class Players:
    """Columns that play alone, and columns that play together.

    Parameters
    ----------
    consent
        The schema, which knows names and groups.
    together
        None, ``"groups"`` for the columns of each consent group, or names → columns.
    """

    def __init__(self, consent: Consent, together: Any) -> None:
        columns = list(consent.feature_names)
        named = self._named(consent, together)
        owner = {column: name for name, members in named.items() for column in members}
        self.names = tuple(dict.fromkeys(owner.get(column, column) for column in columns))
        """In the order in which their first columns come."""
        place = {name: j for j, name in enumerate(self.names)}
        self.of_column = np.array([place[owner.get(column, column)] for column in columns], dtype=np.int64)

    @staticmethod
    def _named(consent: Consent, together: Any) -> dict[str, list[str]]:
        columns = consent.feature_names
        if together is None:
            return {}
        if isinstance(together, str) and together == "groups":
            together = {group: [columns[j] for j in members] for group, members in consent.groups.items()}
        if not isinstance(together, Mapping):
            raise ValueError(f"together must be None, 'groups' or a dict of name → columns, got {together!r}.")
        named: dict[str, list[str]] = {}
        owner: dict[str, str] = {}
        for name, members in together.items():
            if isinstance(members, str):
                raise ValueError(f"together[{name!r}] must be a list of columns, got {members!r}.")
            named[str(name)] = [columns[one] if one in range(len(columns)) else str(one) for one in members]
            for column in named[str(name)]:
                if column not in columns:
                    raise ValueError(f"together[{name!r}] names the column {column!r}{similar(column, columns)}")
                if column in owner:
                    raise ValueError(f"together: column {column!r} is in {owner[column]!r} and in {name!r}.")
                owner[column] = str(name)
        alone = next((name for name in named if name in columns and owner.get(name) != name), None)
        if alone is not None:
            raise ValueError(f"together has the name {alone!r}, which is a column that is not in it.")
        return named


class Background:
    """People to compare with: a random sample of those who share at least as much, in an order that never changes."""

    def __init__(self, predictor: MaskedPredictor, max_samples: int | None) -> None:
        if max_samples is not None and not (is_whole(max_samples) and max_samples >= FEWEST_COMPARED):
            raise ValueError(
                f"max_samples must be a whole number from {FEWEST_COMPARED} on, or None; got {max_samples!r}."
            )
        if predictor.n_rows < FEWEST_COMPARED:
            raise ValueError(
                f"background has {predictor.n_rows} people, but nobody is compared with fewer than {FEWEST_COMPARED}. "
                "Give more, such as the people of training."
            )
        self._predictor, self._most = predictor.of_raw_scores(), max_samples
        self._order = np.random.default_rng(child_seed(0, _SEED_OF_BACKGROUND)).permutation(predictor.n_rows)
        self._shared = predictor.shared[self._order]

    def of(self, mask: int) -> tuple[ComparedWith, Array]:
        """Return whom people who share ``mask`` are compared with, and the rows of these."""
        m = np.uint64(mask)
        people = self._order[(self._shared & m) == m]
        rows = people[: self._most] if len(people) >= FEWEST_COMPARED else people[:0]
        return ComparedWith(subset_name(mask, self._predictor.consent), len(people), len(rows)), rows

    def masked(self, rows: Array, mask: int) -> Any:
        """Return some rows with all groups outside ``mask`` erased."""
        block = self._predictor.block(rows)
        return self._predictor.masked(block, np.arange(len(rows)), np.full(len(rows), mask, dtype=np.uint64))


class TreeGame:
    """The trees of a model, ready to be played with."""

    def __init__(self, forest: Forest, players: Players, threads: int) -> None:
        self._forest, self._threads, self._n_players = forest, threads, len(players.names)
        inner = np.flatnonzero((forest.left >= 0) & (forest.leaf_order.first >= 0))
        self._player = np.zeros(len(forest.left), dtype=np.int64)
        self._player[inner] = players.of_column[forest.column[inner]]
        self._value, self.start = forest.value.astype(np.float64), forest.start.astype(np.float64)
        # What nodes see of a column depends on how they read it, so each way of reading has its own values.
        ways, number = np.unique(forest.column[inner] * _READINGS + forest.reading[inner], return_inverse=True)
        self._columns, self._readings = ways // _READINGS, (ways % _READINGS).astype(np.uint8)
        slot = np.zeros(len(forest.left), dtype=np.int64)
        slot[inner] = number
        everything = np.arange(len(forest.left))
        self._nodes = nodes_of(forest, everything, slot, np.zeros(len(slot), dtype=np.uint64))
        self._deepest = self._longest_path()

    def _longest_path(self) -> int:
        """Return how many inner nodes the longest path has; raise if one tests more players than a word has bits."""
        forest, length = self._forest, 0
        bits = np.array([1 << player for player in range(self._n_players)], dtype=object)
        root = node = np.asarray(forest.tree_start[:-1], dtype=np.int64)
        tested = np.zeros(len(root), dtype=object)
        while True:  # a level of all trees at a time
            inner = forest.left[node] >= 0
            root, node = root[inner], node[inner]
            if not len(node):
                return length
            tested = tested[inner] | bits[self._player[node]]
            too_many = next((i for i, one in enumerate(tested.tolist()) if one.bit_count() > MOST_PLAYERS), None)
            if too_many is not None:
                tree = np.searchsorted(forest.tree_start, root[too_many])
                raise ValueError(
                    f"Tree {tree} tests more than {MOST_PLAYERS} columns on one path. Report some columns together "
                    "(together=), or train with smaller trees."
                )
            node = np.concatenate([root + forest.left[node], root + forest.right[node]])
            root, tested, length = np.tile(root, 2), np.tile(tested, 2), length + 1

    def solve(self, people: Array, background: Array) -> tuple[Array, Array]:
        """Return what each player adds (people × players × outputs), and the mean score of the background."""
        forest = self._forest
        seen, value = self._seen(people), self._value / len(background)
        base = self.start.copy()
        values = np.zeros((len(people), self._n_players, len(base)))

        def work(compared: Array, lo: int, hi: int) -> None:
            add_shapley_values(
                seen,
                compared,
                forest.tree_start,
                forest.output,
                forest.left,
                forest.right,
                self._player,
                value,
                self._nodes,
                forest.goes_left,
                _shares(),
                self._deepest,
                _PEOPLE_PER_BLOCK,
                lo,
                hi,
                base,
                values,
            )

        for first in range(0, len(background), _COMPARED_PER_ROUND):
            some = self._seen(background[first : first + _COMPARED_PER_ROUND])
            run_in_ranges(partial(work, some), len(people), self._threads, _LEAST_PER_THREAD)
        return values, base

    def _seen(self, rows: Array) -> Array:
        rows = np.ascontiguousarray(rows)
        out = np.empty((len(self._columns), len(rows)), dtype=self._forest.start.dtype)
        read_values(rows, self._columns, self._readings, self._forest.zero, 0, len(rows), out)
        return out


@cache
def _shares() -> Array:
    """Return (p − 1)! q! / (p + q)! for p, q = 0 … 64; the row p = 0 is never used."""
    n = range(MOST_PLAYERS + 1)
    return np.array([[1 / (p * math.comb(p + q, p)) if p else 0.0 for q in n] for p in n])


def solve(
    predictor: MaskedPredictor, used: Array, background: Background, players: Players, num_threads: int | None
) -> tuple[Array, Array, dict[int, ComparedWith]]:
    """Return values (people × players × classes), base values (people × classes), and whom each mask is compared with.

    A single output has no axis of classes, and an anchor is one more player. Both are NaN for people who have nobody to
    be compared with.

    Raises
    ------
    ValueError
        If trees cannot be read, or the engine predicts something else than what was explained.
    """
    raw = predictor.of_raw_scores()
    scores = raw.everybody(used)
    forest = forest_of(raw.model, raw.consent)
    if forest is None:
        raise ValueError(
            "This version of pucboost cannot read the trees of the model, so there is no exact explanation. Train it "
            "again with this version, or without what is unusual about its trees."
        )
    game = TreeGame(forest, players, thread_count(threads_for(num_threads)))
    outputs, n_players, anchored = len(forest.start), len(players.names), isinstance(raw.model, AnchoredModel)
    values = np.full((raw.n_rows, n_players + anchored, outputs), np.nan)
    base = np.full((raw.n_rows, outputs), np.nan)
    compared, done = {}, 0
    with progress_bar("explaining", None if raw.n_rows > _WORTH_A_BAR else False) as report:
        for mask, everybody in people_by_mask(used):
            compared[mask], rows = background.of(mask)
            others = background.masked(rows, mask)
            for lo in range(0, len(everybody), _PEOPLE_PER_ROUND):
                people = everybody[lo : lo + _PEOPLE_PER_ROUND]
                if len(rows):
                    block = raw.masked(raw.block(people), np.arange(len(people)), used[people])
                    values[people], base[people] = _of_set(game, block, others, mask, values.shape[1:])
                done += len(people)
                report(done / raw.n_rows)
    if outputs == 1 or raw.target_class is not None:
        values, base = (np.ascontiguousarray(one[..., raw.target_class or 0]) for one in (values, base))
    _check(values, base, scores)
    return values, base, compared


def _of_set(game: TreeGame, people: Block, others: Block, mask: int, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the solution for people who share the same."""
    if people.start is None or others.start is None:
        return game.solve(people.rows, others.rows)
    # An anchor's score is added for everybody; who shares nothing has no trees.
    own, usual = (one.raw.reshape(-1, shape[1]) for one in (people.start, others.start))
    values, base = np.zeros((len(own), *shape)), usual.mean(axis=0)
    values[:, -1] = own - base
    if mask:
        values[:, :-1], trees = game.solve(people.rows, others.rows)
        base = base + trees - game.start
    return values, base


def _check(values: Array, base: Array, scores: Array) -> None:
    """Trees that were read are tried before they are trusted: values must add up to what the engine predicts."""
    known = ~np.isnan(base)
    found, told = (base + values.sum(axis=1))[known], scores.reshape(base.shape)[known]
    scale = np.abs(values).sum(axis=1)[known] + np.abs(base[known]) + 1.0
    wrong = np.abs(found - told) > _AGREE * scale
    if wrong.any():
        raise ValueError(
            "The engine predicts something else than the trees that were read from the model, so its predictions "
            f"cannot be explained: {told[wrong][0]:.6g} instead of {found[wrong][0]:.6g}. Please report this, with the "
            "versions of pucboost and of the engine."
        )
