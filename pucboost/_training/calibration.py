"""``calibrate_masks``: one constant per mask, so that people are told on average what is justified, set by set.

What those who share exactly S are told too much is E[f − f* | A = S]. Their own outcomes must not answer that: they are
what silence goes with. But f*(b, S, z_S) is the mean outcome of everybody with the same b and z_S who shares at least
S, so their outcomes do, each counted with

    e(b, z_S) = P(A = S | b, z_S, A ⊇ S),

how much they resemble those who share exactly S: E[e·(f − Y) | A ⊇ S] = P(A = S | A ⊇ S)·E[f − f* | A = S]. The
virtual rows of mask S stand for exactly these people. c_S, added to raw scores s with link h, solves

    Σ w·e·(h(s + c_S) − y) = 0    over the virtual rows of mask S.

e is learned by LightGBM from the other half of the people. A model that had seen a person's own choice would count
whoever withholds more than e says, and their outcomes with them: silence would be read after all.

With many groups most masks have few people, and c_S is mostly noise. So masks are refined group by group, the most
informative group first. A node at depth d holds the masks that agree in the first d groups; ĉ solves the equation over
all its rows. The constant of a node is that of its parent plus a share B of the difference of the two ĉ:

    c(node) = c(parent) + B·(ĉ(node) − ĉ(parent)),        B = τ² / (τ² + σ²)

with σ² the variance of the difference and τ² = (Σ δ²/σ² − n) / Σ 1/σ², the variance that the n differences δ of a depth
have beyond noise (DerSimonian and Laird's estimate). With people enough B is 1 and c_S solves its equation. The trees
have followed part of the noise already, which makes δ² small and τ² too small. So τ² is at least the variance of a mean
of :data:`PEOPLE_TRUSTED` people, divided by the number of groups, over which a mask's constant is spread.

σ² is that of sums over people, not rows. A person's rows have one outcome, so their residuals are nearly the same and
cancel in the difference. Person i moves ĉ(node) by Σ w·(y − f) / H over their rows in the node, H = Σ w·∂f/∂s. For
|y − f| we take √(φ·V(f)), with the variance function V of the loss and φ from all rows: a mask in which nobody happened
to have a claim would otherwise look certain.

A node whose masks fewer than :data:`FEWEST_PEOPLE` people share exactly has the constant of its parent: there is hardly
anybody whom its own would help. Nor has one of fewer than five people a place in the tree: the model would tell whoever
knows one of them what that person shared.

The constants are a last round of trees that ask only what is missing, in the engine's own text or JSON, so that
everything that reads models knows them. The round cuts at the best round of early stopping, ``init_model`` keeps it as
trees like any others, ``refit`` removes it and makes it again, and ``cv``, which scores models round by round, refuses
it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._common import Array
from .._consent import Consent
from .._engines.base import Boosters
from .._engines.trees import Ask, Leaf, MaskTree, Question, count_leaves
from .._kernels.masks import STREAM_HALVES, hash_pairs
from .._losses import Objective, Softmax
from .._tables.sources import RowSource
from .._virtual.plan import MIN_PEOPLE_OF_MASK
from .._virtual.rows import VirtualTable

MOST_LEAVES = 1_024
"""A tree has at most this many leaves; groups of several columns, which must be asked one by one, need more."""
MOST_NODES = 1_024
"""Groups are no longer refined when a depth would have more nodes."""
FARTHEST = 3.0
"""How far a constant may move log or log-odds: without any events it would be infinite."""
PEOPLE_TRUSTED = 3_000
"""How many people make half of a constant count, if there is one group and nothing speaks for more."""
FEWEST_PEOPLE = 40
"""As many as the audit asks for before it tests a set."""
MOST_ROWS = 100_000
"""Virtual rows from which each of the two models of who resembles whom is learned."""
ROUNDS, LEAVES, PEOPLE_OF_A_LEAF = 60, 31, 20
"""Their size: in trials smaller ones left more of the shift, larger ones no less."""
_STEPS = 30
_CLOSE = 1e-10


def calibrate(
    booster: Any, boosters: Boosters, virtual: VirtualTable, objective: Objective | None, strength: float, seed: int
) -> None:
    """Add a round to a booster that makes it right on average for those who share exactly a mask."""
    if objective is None:
        raise ValueError("calibrate_masks needs a loss whose link is known.")
    consent, source = virtual.rows.consent, virtual.table.source
    rows = _masked_rows(booster, boosters, virtual, objective)
    rows = replace(rows, weight=rows.weight * _resemblance(virtual, rows, seed))
    constants = mask_constants(rows, objective, consent.n_groups, strength)
    first = _first_columns(consent, source)
    outputs = range(rows.scores.shape[1])
    boosters.add_mask_trees(booster, [_tree(constants, consent, k, first) for k in outputs], source.categories)


def _masked_rows(booster: Any, boosters: Boosters, virtual: VirtualTable, objective: Objective) -> ScoredRows:
    """Return the raw scores of all virtual rows, and what belongs to them."""
    n, rows, begin = len(virtual), virtual.rows, virtual.init_score()
    rounds = boosters.facts(booster).used_rounds
    scores, masks = np.empty((n, objective.n_scores)), np.empty(n, dtype=np.uint64)
    buffer = np.empty((min(n, rows.batch_rows), rows.source.n_columns), dtype=rows.dtype)
    for start in range(0, n, len(buffer)):
        part = slice(start, min(n, start + len(buffer)))
        block = rows.read_into(start, buffer[: part.stop - start], masks[part])
        if begin is None:
            raw = boosters.predict(booster, block, raw_score=True)
        else:  # in place of the booster's own constant, if it has one
            start_at = begin[part] if begin.shape[1] > 1 else begin[part, 0]
            raw = boosters.add_trees(booster, block, start_at, rounds)
        scores[part] = raw.reshape(len(block), -1)
    weight, label = virtual.weight(), virtual.label()
    outcome = np.eye(objective.n_scores)[label.astype(np.int64)] if isinstance(objective, Softmax) else label[:, None]
    own = rows.plan.available
    weight = np.ones(n) if weight is None else weight.astype(np.float64)
    return ScoredRows(scores, outcome, weight, masks, virtual.source_rows(), own)


def _resemblance(virtual: VirtualTable, rows: ScoredRows, seed: int) -> Array:
    """Return e = P(A = S | b, z_S, A ⊇ S) for every virtual row, learned from the other half of the people."""
    import lightgbm as lgb

    masked, people = virtual.rows, virtual.rows.plan.n_source
    numbers, bits = np.arange(people, dtype=np.uint64), np.empty(people, dtype=np.uint64)
    hash_pairs(np.uint64(seed), STREAM_HALVES, numbers, np.zeros_like(numbers), 0, people, bits)
    half = (bits >> np.uint64(63))[rows.person]
    exactly = rows.masks == masked.plan.available[rows.person]
    params = {
        "objective": "binary", "num_leaves": LEAVES, "verbosity": -1, "seed": seed % 2**31,
        "min_data_in_leaf": math.ceil(PEOPLE_OF_A_LEAF * len(exactly) / people), "num_threads": masked.threads,
        "deterministic": True, "force_row_wise": True,
    }  # fmt: skip
    groups = np.uint64(1) << np.arange(masked.consent.n_groups, dtype=np.uint64)

    def shown(index: Array) -> Array:
        """Return rows with what is shared as columns of their own, which a tree finds sooner than missing values."""
        return np.column_stack([masked.take(index), (rows.masks[index][:, None] & groups) != 0])

    out = np.ones(len(exactly))
    for k in range(2):
        learn, new = np.flatnonzero((half != k) & (rows.weight > 0)), np.flatnonzero(half == k)
        if len(learn) > MOST_ROWS:
            learn = np.sort(np.random.default_rng([seed, k]).choice(learn, MOST_ROWS, replace=False))
        if min(np.bincount(exactly[learn], minlength=2)) < FEWEST_PEOPLE:
            continue  # too few to learn from: all count alike
        data = lgb.Dataset(
            shown(learn), exactly[learn], weight=rows.weight[learn],
            categorical_feature=list(masked.source.categories.columns or ()),
        )  # fmt: skip
        model = lgb.train(params, data, ROUNDS)
        for part in np.array_split(new, math.ceil(len(new) / masked.batch_rows)) if len(new) else ():
            out[part] = model.predict(shown(part))
    return out


def _first_columns(consent: Consent, source: RowSource) -> list[tuple[float, ...]]:
    """Return, for each group, how often each of its columns is the first with a value where there is one."""
    counts = np.zeros(len(consent.group_columns))
    starts = consent.group_start
    for lo, hi in source.blocks():
        present = source.present(np.arange(lo, hi), consent.group_columns)
        for a, b in itertools.pairwise(starts):
            some = present[:, a:b].any(axis=1)
            counts[a:b] += np.bincount(present[some, a:b].argmax(axis=1), minlength=b - a)
    parts = [counts[a:b] / max(1.0, counts[a:b].sum()) for a, b in itertools.pairwise(starts)]
    return [tuple(part.tolist()) for part in parts]


def _tree(constants: MaskConstants, consent: Consent, output: int, first: list[tuple[float, ...]]) -> MaskTree:
    """Return the tree of one output, with as many groups as fit."""
    for depth in range(len(constants.order), -1, -1):
        question = _ask(constants, consent, output, first, depth)
        if count_leaves(question) <= MOST_LEAVES:
            break
    return MaskTree.of(question)


# A group of several columns is asked column by column, so that it counts as shared exactly as Consent.availability has
# it. What follows is repeated for each column, and the last groups are left out when leaves become too many.
def _ask(
    constants: MaskConstants, consent: Consent, output: int, first: list[tuple[float, ...]], deepest: int
) -> Question:
    """Return the questions about the first ``deepest`` groups, leaving out those whose answers make no difference."""
    columns = list(consent.groups.values())
    nodes = [_nodes(depth, output) for depth in constants.depths]

    def ask(depth: int, key: int, here: Leaf) -> Question:
        if depth == deepest:
            return here
        g = constants.order[depth]
        below = [nodes[depth + 1].get(k, Leaf(here.value, 0.0, 0.0)) for k in (key, key | 1 << g)]
        withheld, shared = (ask(depth + 1, k, one) for k, one in zip((key, key | 1 << g), below, strict=True))
        if isinstance(shared, Leaf) and isinstance(withheld, Leaf) and shared.value == withheld.value:
            return Leaf(shared.value, here.rows, here.weight)
        return Ask(columns[g], shared, withheld, first[g])

    return ask(0, 0, nodes[0][0])


def _nodes(depth: Depth, output: int) -> dict[int, Leaf]:
    known = zip(depth.keys, depth.constant[:, output], depth.rows, depth.weight[:, output], strict=True)
    return {int(key): Leaf(float(value), float(rows), float(weight)) for key, value, rows, weight in known}


@dataclass(frozen=True)
class ScoredRows:
    """What constants depend on, by virtual row; raw scores and outcomes are rows × outputs."""

    scores: Array
    outcome: Array
    weight: Array
    masks: Array
    person: Array
    own: Array | None = None
    """What every person shares; None if no mask may be left out."""


@dataclass(frozen=True)
class Depth:
    keys: Array
    """Sorted; the part of a mask that belongs to the groups so far."""
    constant: Array
    """Nodes × outputs."""
    rows: Array
    weight: Array
    """H, nodes × outputs."""

    def only(self, chosen: Array) -> Depth:
        return Depth(self.keys[chosen], self.constant[chosen], self.rows[chosen], self.weight[chosen])


@dataclass(frozen=True)
class MaskConstants:
    """Constants by mask, refined group by group."""

    order: tuple[int, ...]
    """The groups, the first one first."""
    depths: tuple[Depth, ...]
    """One more than groups in ``order``: the first is the root."""


def mask_constants(rows: ScoredRows, objective: Objective, n_groups: int, strength: float = 1.0) -> MaskConstants:
    """Return the constants, each times ``strength``."""
    moves = _Moves.of(rows, objective)
    order = _by_information(rows.masks, moves, n_groups)
    root = np.zeros(len(rows.masks), dtype=np.int64)
    exact = _solve(rows, objective, root, 1)
    constant, depths = exact, [_depth(np.zeros(1, dtype=np.uint64), exact, root, moves)]
    parent, used = root, np.uint64(0)
    for g in order:
        used |= np.uint64(1) << np.uint64(g)
        keys, first, node = np.unique(rows.masks & used, return_index=True, return_inverse=True)
        if len(keys) > MOST_NODES:
            break
        above = parent[first]
        finer = _solve(rows, objective, node, len(keys))
        difference = finer - exact[above]
        variance = moves.variance_of_difference(rows.person, node, parent, above)
        share = _reliable(difference, variance, moves.variance_of_one / (PEOPLE_TRUSTED * n_groups))
        constant = constant[above] + share * difference
        enough = _people(rows.person, node, len(keys)) >= MIN_PEOPLE_OF_MASK
        if rows.own is not None:
            enough &= _who_share_exactly(rows.own & used, keys) >= FEWEST_PEOPLE
        if not enough.any():
            break
        depths.append(_depth(keys, constant, node, moves).only(enough))
        parent, exact = node, finer
    scaled = [Depth(one.keys, strength * one.constant, one.rows, one.weight) for one in depths]
    return MaskConstants(tuple(order[: len(depths) - 1]), tuple(scaled))


@dataclass(frozen=True)
class _Moves:
    """How rows move the sums of a node, outputs as columns."""

    gradient: Array
    """w·(f − y)."""
    hessian: Array
    """w·∂f/∂s."""
    noise: Array
    """w·√(φ·V(f)), what w·|f − y| typically is."""

    @classmethod
    def of(cls, rows: ScoredRows, objective: Objective) -> _Moves:
        told = _told(objective, rows.scores)
        weight = rows.weight[:, None]
        variance = objective.variance(told)
        squares = weight**2 * (told - rows.outcome) ** 2
        phi = squares.sum(axis=0) / np.maximum((weight**2 * variance).sum(axis=0), np.finfo(float).tiny)
        return cls(weight * (told - rows.outcome), weight * objective.slope(told), weight * np.sqrt(phi * variance))

    @property
    def variance_of_one(self) -> Array:
        return np.asarray((self.noise.sum(axis=0) * _inverse(self.hessian.sum(axis=0))) ** 2)

    def variance_of_difference(self, person: Array, node: Array, parent: Array, above: Array) -> Array:
        """Return Σ_i (N_i(node) / H(node) − N_i(parent) / H(parent))² for each node; N_i sums the noise of person i."""
        n_parents, n_nodes = int(above.max()) + 1, len(above)
        out = np.empty((n_nodes, self.noise.shape[1]))
        pairs, at_node = np.unique(person * n_nodes + node, return_inverse=True)
        pairs_above, at_parent = np.unique(person * n_parents + parent, return_inverse=True)
        which, which_above = pairs % n_nodes, pairs_above % n_parents
        same = np.searchsorted(pairs_above, pairs // n_nodes * n_parents + above[which])
        for k in range(out.shape[1]):
            inverse = _inverse(np.bincount(node, self.hessian[:, k], n_nodes))
            inverse_above = _inverse(np.bincount(parent, self.hessian[:, k], n_parents))
            mine = np.bincount(at_node, self.noise[:, k]) * inverse[which]
            whole = np.bincount(at_parent, self.noise[:, k]) * inverse_above[which_above]
            squares_above = np.bincount(which_above, whole**2, n_parents)
            out[:, k] = np.bincount(which, mine**2 - 2 * mine * whole[same], n_nodes) + squares_above[above]
        return out


def _inverse(values: Array) -> Array:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


def _told(objective: Objective, scores: Array) -> Array:
    return objective.response(scores if scores.shape[1] > 1 else scores[:, 0]).reshape(scores.shape)


def _people(person: Array, node: Array, n_nodes: int) -> Array:
    return np.bincount(np.unique(person * n_nodes + node) % n_nodes, minlength=n_nodes)


def _who_share_exactly(own: Array, keys: Array) -> Array:
    found, people = np.unique(own, return_counts=True)
    place = np.minimum(np.searchsorted(found, keys), len(found) - 1)
    return np.where(found[place] == keys, people[place], 0)


def _depth(keys: Array, constant: Array, node: Array, moves: _Moves) -> Depth:
    weight = [np.bincount(node, hessian, len(keys)) for hessian in moves.hessian.T]
    return Depth(keys, constant, np.bincount(node, minlength=len(keys)), np.stack(weight, axis=1))


def _by_information(masks: Array, moves: _Moves, n_groups: int) -> list[int]:
    """Return the groups, those first whose presence goes with the largest residuals, compared with their noise."""
    apart = []
    for g in range(n_groups):
        has = (masks >> np.uint64(g) & np.uint64(1)).astype(np.int64)
        statistic = 0.0
        for gradient, hessian, noise in zip(moves.gradient.T, moves.hessian.T, moves.noise.T, strict=True):
            inverse = _inverse(np.bincount(has, hessian, 2))
            mean = np.bincount(has, gradient, 2) * inverse
            variance = (np.bincount(has, noise**2, 2) * inverse**2).sum()
            statistic += float((mean[1] - mean[0]) ** 2 / variance) if variance > 0 and inverse.all() else 0.0
        apart.append(statistic)
    return sorted(range(n_groups), key=lambda g: -apart[g])


def _reliable(difference: Array, variance: Array, least: Array) -> Array:
    """Return B for each node and output, with τ² at least ``least``; 0 where a node is its parent."""
    out = np.zeros_like(difference)
    for k in range(difference.shape[1]):
        known = variance[:, k] > 1e-12 * variance[:, k].max(initial=0.0)
        if not known.any():
            continue
        precision = 1.0 / variance[known, k]
        beyond = float(((difference[known, k] ** 2 * precision).sum() - known.sum()) / precision.sum())
        between = max(float(least[k]), beyond)
        out[known, k] = between / (between + variance[known, k])
    return out


def _solve(rows: ScoredRows, objective: Objective, node: Array, n_nodes: int) -> Array:
    """Return ĉ for each node and output: Σ w·(h(s + ĉ) − y) = 0 over its rows.

    With an identity or a log link one step is exact. Log-odds take Newton's steps, classes are scaled in turn
    (iterative proportional fitting).
    """
    classes, link = isinstance(objective, Softmax), objective.link_name
    constant = np.zeros((n_nodes, rows.scores.shape[1]))
    target = _sums(node, rows.weight[:, None] * rows.outcome, n_nodes)
    for _ in range(_STEPS):
        told = _told(objective, rows.scores + constant[node])
        now = _sums(node, rows.weight[:, None] * told, n_nodes)
        if link == "log":
            with np.errstate(divide="ignore", invalid="ignore"):
                step = np.where(now > 0, np.log(target / now), 0.0)
        else:
            slope = _sums(node, rows.weight[:, None] * objective.slope(told), n_nodes)
            step = (target - now) * _inverse(slope)
        if link != "identity":
            step = np.clip(constant + np.clip(step, -1.0, 1.0), -FARTHEST, FARTHEST) - constant
        constant = constant + step
        if link == "identity" or np.abs(step).max(initial=0.0) < _CLOSE:
            break
    return constant - constant.mean(axis=1, keepdims=True) if classes else constant


def _sums(node: Array, values: Array, n_nodes: int) -> Array:
    return np.stack([np.bincount(node, column, n_nodes) for column in values.T], axis=1)
