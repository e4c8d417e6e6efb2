"""Learners that are fitted to the predictions of another: calibrators and stacking estimators.

Fitted to rows as they are, they bring back what silence tells. The silent get scores near the middle, and their
outcomes, which are worse than justified where withholding is informative, move the whole curve there: so a calibrated
premium of the silent is what silence suggests. On virtual rows the scores of a protected model are calibrated already.
"""

from __future__ import annotations

import warnings

import numpy as np

from .._callers import ProtectionLostWarning, second_learner, users_level
from .._consent import Consent
from .._tables.sources import RowSource

FIRST_ROWS = 20_000
"""How many rows are looked at."""
AUGMENTED = 0.05
"""The share of people who share something with a twin in the base columns, from which on rows may be virtual ones."""


def warn_of_second_learner(consent: Consent, source: RowSource, shared: np.ndarray) -> None:
    """Warn if scikit-learn is fitting something to predictions for rows as they are.

    Parameters
    ----------
    consent
        What is optional.
    source, shared
        The people that predictions are asked for, and their masks.
    """
    learner = second_learner() if consent.n_groups else None
    if learner is None or not looks_raw(consent, source, shared):
        return
    warnings.warn(
        f"The protection is lost: {learner} is fitted to predictions for rows as they are, and learns from them what "
        "silence tells. Leave it out: predictions under consent are calibrated for everybody who shares at least as "
        "much. Or freeze the fitted model (sklearn.frozen.FrozenEstimator) and fit the second learner to virtual rows "
        "of other people, pucboost.augment(X_held_out, y_held_out, optional=[…]).",
        ProtectionLostWarning,
        stacklevel=users_level(),
    )


def looks_raw(consent: Consent, source: RowSource, shared: np.ndarray) -> bool:
    """Return whether rows are surely people as they are, and no virtual rows.

    A virtual row that shares something has a twin that shares less, with the same base columns. Where hardly any row
    has one, these are people. Where base columns take few values, people have twins as well, and nothing is said.
    """
    n = min(source.n_rows, FIRST_ROWS)
    base = np.flatnonzero(consent.column_bits == 0)
    sharing = shared[:n] != 0
    if not len(base) or sharing.all() or not sharing.any():
        return False
    rows = np.ascontiguousarray(np.nan_to_num(source.window(0, n)[:, base], nan=-3e38))
    _, number, count = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    return bool((count[number.reshape(-1)][sharing] > 1).mean() < AUGMENTED)
