"""``refit``: the same trees with leaves fitted to other people, under the same consent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .._common import warn
from .._engines import boosters_of, engine_named
from .._engines.base import RunOptions
from .._models.anchored import AnchoredModel
from .._models.loss import loss_of
from .._models.schema import TrainingSummary, attach_schema, categories_of, kept_of
from .._tables.containers import SourceTable, eager, row_source
from .._virtual.merging import RowSketch
from .._virtual.plan import check_augmentation, check_copies, plan_masks
from .._virtual.rows import MaskedRows, VirtualTable
from .augmenting import calibration_table
from .calibrating import calibrate
from .continuing import READS_SILENCE
from .rates import as_rates, check_both_or_neither

NO_CONSENT = (
    "The model has no consent schema, so it is not known what is optional. Refit it with the engine itself, or train "
    "it with pucboost.train."
)


def refit(
    booster: Any,
    X: Any,
    y: Any,
    *,
    decay_rate: float | None = None,
    sample_weight: Any = None,
    exposure: Any = None,
    available: Any = None,
    augmentation: str = "balanced",
    copies: float | None = None,
    seed: int = 0,
    training_sketch: bool = True,
    num_threads: int | None = None,
) -> Any:
    """Return a booster with the same trees whose leaves are fitted to other people, on virtual rows.

    The engines' own ways to refit take the rows as they are, and then leaves learn what silence says. Here each person
    stands for one row per subset of what they share, as in :func:`train`. The virtual rows are in memory.

    Parameters
    ----------
    booster
        As returned by :func:`pucboost.train`.
    X, y
        People, in a table with the columns of training, and their outcomes.
    decay_rate
        As in ``lgb.Booster.refit``: a leaf becomes decay_rate · old + (1 − decay_rate) · new; 0.9 by default. XGBoost
        replaces leaves (``updater="refresh"``), so it takes none.
    sample_weight
        Weights of people.
    exposure
        What the outcomes add up over, as in :class:`Dataset`; needed if the booster was trained with one.
    available
        Who shares what, if the values do not show it, as in :class:`Dataset`.
    augmentation, copies, seed
        Which virtual rows are used, as in :func:`train`.
    training_sketch
        False leaves out the hashes by which an audit recognises the people in X, as in :func:`train`.
    num_threads
        Threads for the kernels; None means all cores.

    Returns
    -------
    lgb.Booster or xgb.Booster
        With ``consent`` and ``puc_summary``; the given one is not changed.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(300, 2)); y = X.sum(axis=1); X[::3, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, y), 20)
    >>> next_year = puc.refit(booster, X, y + 1, decay_rate=0.0)
    >>> next_year.consent == booster.consent, round(float((next_year.predict(X) - booster.predict(X)).mean()), 1)
    (True, 1.0)
    """
    if isinstance(booster, AnchoredModel):
        raise ValueError("An anchored model cannot be refitted; train it again.")
    boosters, (consent, before) = boosters_of(booster), kept_of(booster)
    if consent is None or before is None:
        raise ValueError(NO_CONSENT)
    if before.augmentation == "none":
        warn(f"The booster {READS_SILENCE}")
    if before.loading:
        raise ValueError("The booster has a loading (balance). Refit the model it was made of, and balance it again.")
    if decay_rate is not None and not 0 <= decay_rate <= 1:
        raise ValueError(f"decay_rate must be between 0 and 1, got {decay_rate!r}.")
    check_augmentation(augmentation)
    if copies is not None:
        check_copies(copies)
    source = row_source(eager(X), categories_of(booster))
    consent.check_table(source)
    engine = engine_named(boosters.name)
    check_both_or_neither(before.per_exposure, exposure is not None, "this refit", "the booster")
    names = list(consent.feature_names)
    table = as_rates(SourceTable.of(source, y, sample_weight, name="X", feature_name=names, exposure=exposure))
    zero = boosters.reads_zero_as_missing(booster)
    shared = consent.visible(source, available, zero_as_missing=zero, num_threads=num_threads)
    plan = plan_masks(shared, augmentation, copies=copies, seed=seed, num_threads=num_threads, nesting=consent.nesting)
    virtual = VirtualTable(MaskedRows(source, consent, plan, num_threads=num_threads), table)
    # The constants per mask are no leaves to be refitted a little: they are made again for the refitted trees.
    strength = before.mask_calibration
    trees = boosters.first_rounds(booster, boosters.used_rounds(booster) - 1) if strength else booster
    refitted = engine.refit(trees, virtual, decay_rate)
    if strength:
        rows = calibration_table(table, consent, shared, RunOptions(seed, num_threads))
        calibrate(refitted, boosters, rows, loss_of(booster), strength)
    sketch = RowSketch.of(virtual.people_as_given(), seed) if training_sketch else None
    summary = TrainingSummary.of(virtual, table, sketch, before.per_exposure, strength)
    summary = replace(summary, coded_columns=before.coded_columns)  # an array does not show them
    return attach_schema(refitted, boosters, consent, summary, None)
