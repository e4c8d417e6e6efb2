"""Anchored models: people who share nothing get exactly the prediction of an existing model.

An insurer who must not touch the legacy premium needs this. The model's raw score is

    anchor(b)                     for people who share nothing,
    anchor(b) + trees(b, a, z)    for everybody else.

The trees start from the anchor's score and grow only on virtual rows that share something. The anchor always sees the
table with everything optional erased.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._engines import boosters_of, is_booster
from .._losses import Objective
from .._pickles import pickled
from .._tables.containers import eager, row_source
from .anchor import Anchor
from .schema import TrainingSummary, categories_of


@dataclass(frozen=True)
class AnchoredModel:
    """The model that ``train`` returns with ``anchor=``; it predicts, pickles and saves like a booster.

    Parameters
    ----------
    anchor
        The model for people who share nothing.
    booster
        The trees that are added for everybody else.
    objective
        The loss, which defines the link.
    consent, puc_summary
        As on a booster.
    """

    anchor: Anchor
    booster: Any
    objective: Objective
    consent: Consent
    puc_summary: TrainingSummary | None

    def __reduce__(self) -> Any:
        return pickled("AnchoredModel", vars(self))

    def predict(self, X: Any, *, raw_score: bool = False) -> Array:
        """Return predictions; people who share nothing get exactly the anchor's.

        Parameters
        ----------
        X
            A table with the columns of training.
        raw_score
            Return raw scores instead of predictions.
        """
        X, codes = eager(X), categories_of(self)
        source = row_source(X, codes)
        self.consent.check_table(source)
        shares = self.consent.presence(source) != 0
        start = self.anchor.raw(X, codes)
        boosters = boosters_of(self.booster)
        out = np.array(start if raw_score else self.anchor.response(X, start, self.objective, codes))
        for lo, hi in source.blocks():
            some = np.flatnonzero(shares[lo:hi])
            if len(some):
                raw = boosters.add_trees(self.booster, source.window(lo, hi)[some], start[lo + some])
                out[lo + some] = raw if raw_score else self.objective.response(raw)
        return out


def is_tree_model(model: Any) -> bool:
    """Return whether a model is a booster of any engine, or an anchored one."""
    return is_booster(model) or isinstance(model, AnchoredModel)


def trees_of(model: Any) -> Any:
    """Return the booster of an anchored model, else the model itself."""
    return model.booster if isinstance(model, AnchoredModel) else model
