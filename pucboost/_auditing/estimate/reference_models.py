"""Two models to compare with: one with base features only, one without any restriction."""

from __future__ import annotations

import numpy as np

from ..._arrays import Array
from ..._tables.containers import SourceTable
from ..._virtual.plan import child_seed, plan_masks
from ..._virtual.rows import MaskedRows
from ..settings import FittingOptions
from .cross_fitting import CrossFitter
from .learners import LightGBMLearner, NuisanceLoss, lightgbm_params, outcome_loss
from .losses import Loss
from .people import AuditPeople
from .training_data import TrainingData


def references(people: AuditPeople, loss: Loss, fitter: CrossFitter, training: TrainingData) -> tuple[Array, Array]:
    """Return predictions of a base-features model and of an unrestricted model, which may learn from silence.

    Both are trained on the training data if these are given, else cross-fitted on the audit data.
    """
    nothing = np.zeros_like(people.shared)
    outcome = outcome_loss(loss)
    if training.table is None or training.shared is None:
        base, free = (fitter.reference_view(shown).cross_fit(people.y, outcome) for shown in (nothing, people.shared))
        return base, free
    pairs = ((np.zeros_like(training.shared), nothing), (training.shared, people.shared))
    base, free = (
        _fit_on_training_data(training.table, shown_train, people, shown, outcome, fitter.fitting)
        for shown_train, shown in pairs
    )
    return base, free


def _fit_on_training_data(
    train: SourceTable,
    shown_train: Array,
    people: AuditPeople,
    shown: Array,
    loss: NuisanceLoss,
    fitting: FittingOptions,
) -> Array:
    """Train one early-stopped model on a training table and predict the people; ``shown`` masks say what it sees."""
    num_threads = fitting.num_threads
    seen = MaskedRows(train.source, people.consent, plan_masks(shown_train, "none"), num_threads=num_threads)
    if (train.label == train.label[0]).all():
        return np.full(len(people), float(train.label[0]))
    learner = LightGBMLearner(seen, train, lightgbm_params(num_threads))
    seed = child_seed(fitting.seed, 4)
    booster = learner.train(np.arange(len(train.label)), train.label.astype(np.float64), loss.lightgbm_params, seed)
    rows = MaskedRows(people.source, people.consent, plan_masks(shown, "none"), num_threads=num_threads)
    return np.concatenate([booster.predict(batch) for _, batch in rows.batches()])
