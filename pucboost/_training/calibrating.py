"""``calibrate_masks``: one more round of trees, which ask only what is missing and add one constant per mask."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from .._consent import Consent
from .._engines.base import Boosters, Hooks
from .._engines.mask_tree import Ask, Leaf, MaskTree, Question, count_leaves
from .._losses import Objective, Quantile, Softmax
from .._tables.sources import RowSource
from .._virtual.rows import VirtualTable
from .mask_constants import Depth, MaskConstants, ScoredRows, mask_constants
from .request import TrainingRequest

MOST_LEAVES = 1_024
"""A tree has at most this many leaves; groups of several columns, which must be asked one by one, need more."""


def check_can_be_calibrated(request: TrainingRequest, hooks: Hooks) -> TrainingRequest:
    """Raise if constants per mask are not defined or not possible; return the request without merging of rows."""
    settings, loss = request.settings, request.objective
    if not request.calibrates:
        return request
    if loss is None or isinstance(loss, Quantile):
        given = "this objective" if loss is None else f"objective {loss.name!r}"
        raise ValueError(
            f"calibrate_masks with {given}: constants make the mean outcome right, on the scale of a link that is "
            "known (regression, binary, cross_entropy, multiclass, poisson, gamma, tweedie, without class weights or "
            "transformations of the engine). Leave calibrate_masks out."
        )
    if settings.augmentation == "none":
        raise ValueError(
            "calibrate_masks with augmentation='none': people as they are tell what silence says. Leave one out."
        )
    if settings.anchor_strength is not None:
        raise ValueError(
            "calibrate_masks with anchor_strength: one makes people who share nothing right on average, the other "
            "pulls them towards the anchor. Leave one out."
        )
    if settings.compact is True:
        raise ValueError("calibrate_masks with compact is not supported. Leave compact out.")
    if hooks.keep_training_booster:
        raise ValueError(
            "calibrate_masks with keep_training_booster: the calibration comes after the last round, and trees that "
            "grow later would not know of it. Continue the model with init_model instead."
        )
    return replace(request, settings=replace(settings, compact=False))


def calibrate(
    booster: Any, boosters: Boosters, virtual: VirtualTable, objective: Objective | None, strength: float
) -> None:
    """Add a round to a booster that makes it right on average for everybody who shares at least a mask."""
    if objective is None:
        raise ValueError("calibrate_masks needs a loss whose link is known.")
    consent, source = virtual.rows.consent, virtual.table.source
    rows = _masked_rows(booster, boosters, virtual, objective)
    constants = mask_constants(rows, objective, consent.n_groups, strength)
    first = _first_columns(consent, source)
    outputs = range(rows.scores.shape[1])
    boosters.add_mask_trees(booster, [_tree(constants, consent, k, first) for k in outputs], source.categories)


def _masked_rows(booster: Any, boosters: Boosters, virtual: VirtualTable, objective: Objective) -> ScoredRows:
    """Return the raw scores of all virtual rows, and what belongs to them."""
    n, rows, begin = len(virtual), virtual.rows, virtual.init_score()
    scores, masks = np.empty((n, objective.n_scores)), np.empty(n, dtype=np.uint64)
    buffer = np.empty((min(n, rows.batch_rows), rows.source.n_columns), dtype=rows.dtype)
    for start in range(0, n, len(buffer)):
        part = slice(start, min(n, start + len(buffer)))
        block = rows.read_into(start, buffer[: part.stop - start], masks[part])
        if begin is None:
            raw = boosters.predict(booster, block, raw_score=True)
        else:  # in place of the booster's own constant, if it has one
            start_at = begin[part] if begin.shape[1] > 1 else begin[part, 0]
            raw = boosters.add_trees(booster, block, start_at, boosters.used_rounds(booster))
        scores[part] = raw.reshape(len(block), -1)
    weight, label = virtual.weight(), virtual.label()
    outcome = np.eye(objective.n_scores)[label.astype(np.int64)] if isinstance(objective, Softmax) else label[:, None]
    person = virtual.source_rows()
    return ScoredRows(scores, outcome, np.ones(n) if weight is None else weight.astype(np.float64), masks, person)


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
