"""Training as three lists of steps, which ``train``, ``cv``, ``refit`` and the workers of a cluster run.

    tables → TABLE_STEPS → plan → VIRTUAL_STEPS → fit → FINISHERS → model

The lists stand at the end. Each step takes a :class:`Training` and returns the next one, or the same if its feature is
not used. ``train`` runs all of them (:func:`trained`). A fold of ``cv`` is a training whose validation set is the
held-out part, and in ``refit`` the engine fits leaves in place of growing trees.
"""

from __future__ import annotations

import copy
import logging
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .._common import Array, warn
from .._engines.base import NO_HOOKS, Checkpoints, EngineParams, Hooks, OwnGradient, Validation
from .._kernels.compiling import engine_threads, thread_count
from .._losses import Objective, per_unit
from .._models.schema import TrainingSummary, attach_schema, kept_of, unprotected
from .._tables.sources import SourceTable
from .._virtual.merging import (
    RowSketch,
    mean_hessian,
    merge_people,
    merge_virtual_rows,
    read_row_key,
    wants_compaction,
)
from .._virtual.plan import ENGINE_MAX_ROWS, MaskPlan, child_seed, default_copies, plan_masks
from .._virtual.rows import MaskedRows, SelectedTable, VirtualTable, erased_table, shown_table
from .request import TrainingRequest, ValidationTables

if TYPE_CHECKING:
    from .._models.anchors import Anchor

logger = logging.getLogger("pucboost")


@dataclass(frozen=True)
class Training:
    """A training on its way through the steps."""

    request: TrainingRequest
    table: SourceTable
    """The people to train on: those of the request, or of a fold."""
    max_rows: int
    """How many virtual rows there may be."""
    parallel_tables: int = 1
    """How many training tables are in memory at once."""
    valid: ValidationTables | None = None
    hooks: Hooks = NO_HOOKS
    seed: int | None = None
    """Seed of the plan; None for that of the request."""
    first_valid_seed: int = 0
    """Number of the seed of the first validation set; the others follow."""

    anchor: Anchor | None = None
    pull: Array | None = None
    """The anchor's raw score for each person, if ``anchor_strength`` pulls towards it."""
    copies: float | None = None
    """Virtual rows per row; None for the default."""
    unmerged: VirtualTable | None = None
    """The people themselves, if equal ones are merged …"""
    shared: Array | None = None
    """… and then the masks of those who are left."""
    virtual_table: VirtualTable | None = None
    virtual_valid: Validation | None = None
    model: Any = None
    coded_columns: tuple[int, ...] | None = None
    """Columns of categories that are known from an earlier training, and that an array does not show."""

    @classmethod
    def of(cls, request: TrainingRequest, parallel_tables: int = 1, **given: Any) -> Training:
        """Begin a training on the people of a request."""
        leanest, table = request.params.in_less_memory(), request.table
        # The people themselves are never refused.
        fitting = max(rows_that_fit(leanest, table.source.values_per_row, parallel_tables), table.source.n_rows)
        max_rows, copies = request.settings.max_virtual_rows or fitting, request.settings.copies
        return cls(request, table, max_rows, parallel_tables, copies=copies, **given)

    @property
    def virtual(self) -> VirtualTable:
        assert self.virtual_table is not None
        return self.virtual_table


# ----- rates from exposure
#
# pucboost._losses derives why a total Y over an exposure e is a rate Y/e that weighs e. An offset log e would
# be the same for Poisson only. It would also make LightGBM start from 0 in place of the mean, and rows with different
# offsets could not be merged. No later step sees an exposure.


def rates_from_exposure(training: Training) -> Training:
    """Make rates of totals, in tables that have an exposure."""
    table, request = training.table, training.request
    if table.exposure is not None:
        table = as_rates(table)
        request.engine.check_labels(request.objective, table.label, f"{request.label_name}, divided by the exposure,")
    return replace(training, table=table, valid=_each(training.valid, as_rates))


def as_rates(table: SourceTable) -> SourceTable:
    """Return the table with the labels Y/e and the weights w·e; the table itself if it has no exposure."""
    if table.exposure is None:
        return table
    rate, weight = per_unit(table.label, table.weight, table.exposure)
    with np.errstate(over="ignore"):  # labels that are too large for an engine are refused afterwards
        label = rate.astype(np.float32)
    return replace(table, label=label, weight=None if bool((weight == 1).all()) else weight, exposure=None)


def _each(valid: ValidationTables | None, change: Callable[[SourceTable], SourceTable]) -> ValidationTables | None:
    """Change every validation table, a repeated one only once."""
    changed: dict[int, SourceTable] = {}
    for table, _ in valid or ():
        if table is not None and id(table) not in changed:
            changed[id(table)] = change(table)
    return None if valid is None else [(None if table is None else changed[id(table)], name) for table, name in valid]


# ----- an anchor


FAR_OFF = 2.0
"""An anchor whose mean prediction is off by more than this factor is suspicious …"""

NEAR = 1.5
"""… and taken for predictions if these would be off by less than this factor."""


def scores_of_the_anchor(training: Training) -> Training:
    """Let the trees start from the raw scores of an existing model, or be pulled towards them."""
    request, given = training.request, training.request.settings.anchor
    if given is None:
        return training
    from .._models.anchors import BASE, anchor_of

    objective = _check_can_be_anchored(training)
    training = replace(training, hooks=replace(training.hooks, keep_training_booster=False))
    if isinstance(given, str) and given == BASE:
        anchor: Anchor = _train_base(training, objective)
    else:
        anchor = anchor_of(given, training.table, request.consent, objective, request.classes)
    logger.info("anchor: %s", anchor.described())
    score = _scores(training.table, anchor)
    _check_scale(anchor, score, training.table, objective)
    if request.settings.anchor_strength is not None:
        return replace(training, pull=score)
    return replace(
        training,
        anchor=anchor,
        table=replace(training.table, init_score=score),
        valid=_each(training.valid, lambda table: replace(table, init_score=_scores(table, anchor))),
    )


def _check_can_be_anchored(training: Training) -> Objective:
    """Raise if the trees cannot start from an anchor; return the loss."""
    request = training.request
    if training.hooks.init_model is not None:
        raise ValueError("anchor with init_model: the trees start from the anchor. Give one of the two.")
    if request.objective is None:
        raise ValueError("anchor needs a built-in objective whose link is known (squared error, logistic, Poisson, …).")
    if request.settings.compact is True:
        raise ValueError("compact with anchor is not supported. Leave compact out.")
    if request.options.zero_as_missing:
        raise ValueError("anchor with zero_as_missing: mark withheld values as missing (NaN) instead.")
    for table in (training.table, *(table for table, _ in training.valid or () if table is not None)):
        if table.init_score is not None:
            raise ValueError("anchor with init_score: the trees start from the anchor. Leave init_score out.")
    return request.objective


def _train_base(training: Training, objective: Objective) -> Anchor:
    from .._models.anchors import BoosterAnchor

    request, hooks = training.request, training.hooks
    engine, consent, threads = request.engine, request.consent, request.options.num_threads
    valid = [(None if one is None else erased_table(one, consent, threads), name) for one, name in training.valid or ()]
    base = engine.train(
        erased_table(training.table, consent, threads),
        replace(request.params, values=copy.deepcopy(request.params.values)),
        None if training.valid is None else valid,
        # Only copies of early-stopping callbacks: the user's callbacks belong to the final model.
        replace(hooks, callbacks=[copy.deepcopy(one) for one in hooks.callbacks or () if engine.stops_early(one)]),
    )
    return BoosterAnchor(engine.boosters.first_rounds(base), consent, objective)


def _scores(table: SourceTable, anchor: Anchor) -> Array:
    return anchor.scores(table.container(), table.source.categories).raw.astype(np.float64)


def _check_scale(anchor: Anchor, score: Array, table: SourceTable, objective: Objective) -> None:
    """Refuse an anchor that gives predictions where raw scores are meant, and warn of one that is far off.

    With a link, raw scores s and predictions h(s) are different things. If a callable returns probabilities, everybody
    who shares nothing is told about ½. The mean tells the two apart: that of h(s) should be near the mean outcome.
    """
    if score.ndim != 1 or np.array_equal(objective.response(score), score):
        return
    outcome, told, given = (
        float(np.average(values, weights=table.weight)) for values in (table.label, objective.response(score), score)
    )
    if not outcome > 0 or not told > 0:
        return
    off = abs(math.log(told / outcome))
    if off <= math.log(FAR_OFF):
        return
    means = f"a mean prediction of {told:.4g}, where the mean outcome is {outcome:.4g}"
    if anchor.returns_raw_scores and given > 0 and abs(math.log(given / outcome)) < math.log(NEAR):
        raise ValueError(
            f"The anchor's scores give {means}; taken as predictions, their mean is {given:.4g}. An anchor must return "
            f"raw scores, before the link of objective {objective.name!r}. Return the logarithm, or for probabilities "
            "log(p / (1 − p))."
        )
    reason = "does it not return raw scores" if anchor.returns_raw_scores else "for another unit of exposure"
    warn(f"The anchor's scores give {means}. Is it for another population, or {reason}?")


def leave_out_who_shares_nothing(training: Training) -> Training:
    """Leave out copies that share nothing where trees start from an anchor: those people get its prediction."""
    if training.anchor is None:
        return training
    valid = [(None if one is None else _who_shares(one, name), name) for one, name in training.virtual_valid or ()]
    return replace(
        training,
        virtual_table=_who_shares(training.virtual, "train_set"),
        virtual_valid=None if training.virtual_valid is None else valid,
    )


def _who_shares(virtual: VirtualTable, name: str) -> SelectedTable:
    selection = np.flatnonzero(virtual.shares_something())
    if len(selection) == 0:
        raise ValueError(f"Nobody in {name} shares anything, so there is nothing to add to the anchor.")
    return SelectedTable.of(virtual, selection, virtual.table)


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

    @classmethod
    def of(cls, training: Training) -> OwnGradient:
        """Return the gradient of a training, which starts from the best constant."""
        request, virtual, pull = training.request, training.virtual, training.pull
        assert request.objective is not None
        assert pull is not None
        own = cls(
            request.objective,
            request.settings.anchor_strength or 0.0,
            virtual.rows.plan.spread(pull),
            ~virtual.shares_something(),
            request.options.num_threads,
        )
        start = request.objective.initial_score(virtual.label(), virtual.weight())
        return OwnGradient(own, request.objective, start)

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


# ----- merging of equal rows (``compact``)
#
# People first (equal people have equal copies), then virtual rows. Merged rows have soft labels, for which LightGBM's
# "binary" becomes "cross_entropy", the same loss. Merging after binning would need the bins before the dataset exists.


NO_METRIC_OF_MERGED_ROWS = "metrics cannot read the mean labels of rows merged by compact. Leave one of the two out."


def merge_equal_people(training: Training) -> Training:
    """Merge people with equal rows, who have equal copies, before any copy exists."""
    request, table = training.request, training.table
    settings, threads = request.settings, request.options.num_threads
    # True was refused with an anchor or a calibration; "auto" then merges nothing.
    if not settings.compact or settings.anchor is not None or request.calibrates:
        return training
    shared, people = request.shared(table), table.source.n_rows
    if not wants_compaction(settings.compact, request.objective, table, shared):
        return training
    if any(one is None for one, _ in training.valid or ()):
        raise ValueError(f"The training set among valid_sets: {NO_METRIC_OF_MERGED_ROWS}")
    training = replace(training, unmerged=shown_table(table, request.consent, shared, threads))
    if settings.augmentation == "fixed":  # draws as many rows as people
        return training
    table, shared = merge_people(table, shared, request.objective, threads)
    # The budget still counts people before merging; it then usually covers every virtual row.
    copies = training.copies or request.engine.copies or default_copies(people)
    return replace(training, table=table, shared=shared, copies=max(1.0, copies * people / len(shared)))


def merge_equal_rows(training: Training) -> Training:
    """Merge virtual rows that are equal after masking."""
    people = training.unmerged
    if people is None:
        return training
    merged = merge_virtual_rows(training.virtual, len(people), training.request.objective)
    return replace(training, virtual_table=replace(merged, before=people))


# ----- virtual rows: which scheme, which seed, which budget


MEMORY_SHARE = 0.5
"""The share of the machine's memory that virtual rows may take by default."""


def plan(training: Training) -> Training:
    """Plan the virtual rows of the training people and of the validation sets.

    Validation sets have their own scheme and seeds, and a repeated set is built once.
    """
    request, settings, table = training.request, training.request.settings, training.table
    seed = request.options.seed if training.seed is None else training.seed
    if settings.plan is not None:
        from .._virtual.shared_plan import PartTable

        masks = settings.plan.plan_of(request.shared(table), thread_count(request.options.num_threads))
        virtual: VirtualTable = PartTable(_masked(request, table, masks), table, settings.plan)
    else:
        copies, limit = training.copies, training.max_rows
        shared = request.shared(table) if training.shared is None else training.shared
        virtual = _virtual(request, table, shared, settings.augmentation, copies, seed, limit, "training")
    built: dict[int, VirtualTable] = {}
    for other, _ in training.valid or ():
        if other is not None and id(other) not in built:
            # Numbered by how many distinct sets precede it: naming the training set must not change early stopping.
            own_seed = child_seed(request.options.seed, training.first_valid_seed + len(built))
            # A budget meant for training must not refuse a validation set that already exists.
            limit = max(training.max_rows, other.source.n_rows)
            shared, scheme = request.shared(other), settings.valid_augmentation
            built[id(other)] = _virtual(request, other, shared, scheme, settings.copies, own_seed, limit, "validation")
    valid = [(None if other is None else built[id(other)], name) for other, name in training.valid or ()]
    return replace(training, virtual_table=virtual, virtual_valid=None if training.valid is None else valid)


def _virtual(
    request: TrainingRequest,
    table: SourceTable,
    shared: Array,
    augmentation: str,
    copies: float | None,
    seed: int,
    limit: int,
    what: str,
) -> VirtualTable:
    masks = plan_masks(
        shared,
        augmentation,
        copies=copies or request.engine.copies or default_copies(table.source.n_rows),
        seed=seed,
        max_virtual_rows=limit,
        num_threads=request.options.num_threads,
        nesting=request.consent.nesting,
    )
    logger.info("%s: %s", what, masks.summary(table.weight))
    return VirtualTable(_masked(request, table, masks), table)


def _masked(request: TrainingRequest, table: SourceTable, masks: MaskPlan) -> MaskedRows:
    return MaskedRows(table.source, request.consent, masks, num_threads=request.options.num_threads)


def rows_that_fit(params: EngineParams, values_per_row: int, parallel_tables: int = 1) -> int:
    per_row = params.bytes_per_virtual_row(values_per_row)
    return int(min(float(ENGINE_MAX_ROWS), MEMORY_SHARE * memory_bytes() / (per_row * parallel_tables)))


def memory_bytes() -> float:
    """Return the memory of the machine or container; infinite if the system does not report it."""
    known = [float("inf")]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE"))
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        known.append(float(text))
    return min(known)


# ----- the engine


def fit(training: Training) -> Training:
    engine, hooks = training.request.engine, training.hooks
    params, valid = params_of(training), training.virtual_valid
    own = None if training.pull is None else PullTowardsAnchor.of(training)
    if hooks.checkpoints is not None:
        checkpoints = hooks.checkpoints

        def keep(booster: Any, rounds: int) -> None:
            checkpoints.keep(run(replace(training, model=booster), *FINISHERS).model, rounds)

        hooks = replace(hooks, checkpoints=Checkpoints(keep, checkpoints.every))
    return replace(training, model=engine.train(training.virtual, params, valid, hooks, own))


def params_of(training: Training, values: dict[str, Any] | None = None) -> EngineParams:
    """Return the engine's parameters for the virtual rows, which may be many, or merged ones."""
    request, virtual, objective = training.request, training.virtual, training.request.objective
    params = request.params if values is None else replace(request.params, values=values)
    if len(virtual) > rows_that_fit(params, request.table.source.values_per_row, training.parallel_tables):
        params = params.in_less_memory()
    if not virtual.merged or objective is None:
        return params
    weight = np.ones(len(virtual.table.label)) if virtual.table.weight is None else virtual.table.weight
    # Leaves sum weights, which need not have a mean of 1.
    per_person = mean_hessian(objective, virtual.table.label, weight) * float(weight.sum()) / virtual.people
    return replace(params, values=request.engine.for_merged_rows(params.values, objective, per_person))


# ----- from a booster to a model


LARGEST_SCORE = math.log(float(np.finfo(np.float32).max))
"""Of a loss whose predictions are eˢ. Beyond are no labels, and in single precision infinity."""


def refuse_infinite_amounts(training: Training) -> Training:
    """Raise if a loss of amounts has run off.

    Poisson's steps are larger the further labels are above predictions: from 0 in place of the mean, with a rate of 1,
    one step leads to a score of several hundred. Rows are scored only where the largest leaves could add up to that.
    """
    objective, virtual = training.request.objective, training.virtual
    if objective is None or objective.link_name != "log" or objective.n_scores > 1:
        return training
    boosters, begin = training.request.engine.boosters, virtual.init_score()
    forest = boosters.trees(training.model)
    if forest is not None:
        leaves = np.where(forest.left < 0, forest.value, -np.inf)
        most = np.maximum.reduceat(leaves, forest.tree_start[:-1]).sum() if len(forest.output) else 0.0
        start = forest.start if begin is None else begin
        if float(most) + float(start.max()) <= LARGEST_SCORE:
            return training
    for first, batch in virtual.rows.batches():
        if begin is None:
            score = boosters.predict(training.model, batch, raw_score=True)
        else:
            score = boosters.add_trees(training.model, batch, begin[first : first + len(batch), 0])
        if not score.max() <= LARGEST_SCORE:
            raise ValueError(
                f"Training with objective {objective.name!r} has run off: some people would be told "
                f"e^{score.max():.0f}, while the mean label is {training.table.label.mean():.3g}. Let it start from "
                "the mean (boost_from_average=True, or no base_score), lower the learning rate, or cap large labels."
            )
    return training


CALIBRATION_COPIES, CALIBRATION_ROWS = 16.0, 4e6
"""Constants per mask are made from so many virtual rows per person, as long as these are no more than so many."""
CALIBRATION_SEED = 1 << 33
"""Number of their seed; training numbers the seeds of its validation sets from 0."""


def cut_at_best_round(training: Training) -> Training:
    """Leave out the rounds after the best one where trees are only a part of the model."""
    if training.anchor is None:
        return training
    return replace(training, model=training.request.engine.boosters.first_rounds(training.model))


def calibrate_masks(training: Training) -> Training:
    """Add a round of one constant per mask.

    Its virtual rows are more than trees grow on, if these do not have them all: predicting a row takes less than
    growing on it, and with the rows of training alone the noise of sampled masks made shifts larger.
    """
    request, table, options = training.request, training.table, training.request.options
    if not request.calibrates:
        return training
    from .calibration import calibrate

    shared, people = request.shared(table), table.source.n_rows
    most = min(max(default_copies(people) * people, CALIBRATION_ROWS), float(training.max_rows))
    masks = plan_masks(
        shared,
        "balanced",
        copies=max(1.0, min(CALIBRATION_COPIES * people, most) / people),
        seed=child_seed(options.seed, CALIBRATION_SEED),
        num_threads=options.num_threads,
        nesting=request.consent.nesting,
    )
    rows = VirtualTable(_masked(request, table, masks), table)
    rows = rows if training.anchor is None else _who_shares(rows, "train_set")
    strength = request.settings.calibrate_masks
    seed = child_seed(options.seed, CALIBRATION_SEED)
    calibrate(training.model, request.engine.boosters, rows, request.objective, strength, seed)
    return training


def keep_schema(training: Training) -> Training:
    """Let the model keep its consent schema and summary, if something is optional."""
    request, model = training.request, training.model
    if request.consent.n_groups == 0:
        return replace(training, model=unprotected(model, request.engine.title))
    summary = _summary(training)
    if training.anchor is not None:
        from .._models.anchored import AnchoredModel

        assert request.objective is not None
        anchored = AnchoredModel(training.anchor, model, request.objective, request.consent, summary)
        return replace(training, model=anchored)
    categories = request.table.pandas_categorical
    return replace(training, model=attach_schema(model, request.engine.boosters, request.consent, summary, categories))


def _summary(training: Training) -> TrainingSummary:
    request, before = training.request, training.hooks.init_model
    favourable = request.settings.favourable
    if favourable is None and before is not None:  # said once, for the model that is continued
        favourable = getattr(kept_of(before)[1], "favourable", None)
    chosen = request.settings.engine
    engine = request.engine.name if chosen == "auto" else chosen
    return replace(_facts(training), engine=engine, favourable=favourable)


def _facts(training: Training) -> TrainingSummary:
    request, virtual, part = training.request, training.virtual, training.request.settings.plan
    if part is not None:
        return TrainingSummary.of_part(virtual, request.table, part.plan, request.per_exposure)
    sketch = None
    if request.settings.row_key is not None:
        sketch = RowSketch.of(virtual.people_as_given(), read_row_key(request.settings.row_key))
    strength = request.settings.calibrate_masks if request.calibrates else 0.0
    summary = TrainingSummary.of(virtual, request.table, sketch, request.per_exposure, strength)
    return summary if training.coded_columns is None else replace(summary, coded_columns=training.coded_columns)


# ----- the lists


Step: TypeAlias = Callable[[Training], Training]
TABLE_STEPS: tuple[Step, ...] = (rates_from_exposure, scores_of_the_anchor, merge_equal_people)
VIRTUAL_STEPS: tuple[Step, ...] = (merge_equal_rows, leave_out_who_shares_nothing)
# Rare categories of optional columns become one, and are spelled out again in the model, inside the engines that need
# it (LightGBM, native), so that sketches and anchors see what people gave.
FINISHERS: tuple[Step, ...] = (refuse_infinite_amounts, cut_at_best_round, calibrate_masks, keep_schema)


def run(training: Training, *steps: Step) -> Training:
    for step in steps:
        training = step(training)
    return training


def trained(training: Training, fit: Step = fit) -> Any:
    """Run all steps, and return the model; ``refit`` has another ``fit``."""
    with engine_threads(training.request.options.num_threads):
        return run(training, *TABLE_STEPS, plan, *VIRTUAL_STEPS, fit, *FINISHERS).model
