"""Which kind of anchor something is."""

from __future__ import annotations

from typing import Any

from ..._common import Array
from ..._consent import Consent
from ..._engines import is_booster
from ..._losses import Objective
from ..._tables.containers import SourceTable
from .base import Anchor
from .boosters import BoosterAnchor
from .callables import CallableAnchor
from .estimators import EstimatorAnchor
from .reading import check_fitted, is_estimator

BASE = "base"
"""The anchor that is trained first, on base features."""


def check_anchor(anchor: Any) -> Any:
    """Return the anchor, taken out of an engine's scikit-learn wrapper; raise if it cannot be an anchor."""
    if anchor is None or is_booster(anchor) or (isinstance(anchor, str) and anchor == BASE):
        return anchor
    if isinstance(anchor, type):
        raise ValueError(f"anchor is the class {anchor.__name__} itself. Pass a fitted {anchor.__name__}.")
    for unwrap in ("booster_", "get_booster"):  # scikit-learn's wrappers of the engines
        if getattr(type(anchor), unwrap, None) is not None:
            check_fitted(anchor)
            return anchor.booster_ if unwrap == "booster_" else anchor.get_booster()
    if is_estimator(anchor):
        check_fitted(anchor)
        return anchor
    if callable(anchor):
        return anchor
    raise ValueError(
        "anchor must be 'base', a booster, a fitted estimator (of scikit-learn, glum or statsmodels) or a callable "
        f"that returns raw scores; got {anchor!r}."
    )


def anchor_of(
    model: Any, table: SourceTable, consent: Consent, objective: Objective, classes: Array | None = None
) -> Anchor:
    """Return a model that :func:`check_anchor` let pass as an anchor for a table to train on.

    ``classes`` are the labels that the class numbers in the table stand for; None if they are the numbers.
    """
    if is_booster(model):
        booster = BoosterAnchor(model, consent, objective)
        booster.check_reads_base_only()
        return booster
    if is_estimator(model):
        return EstimatorAnchor.read(model, table, consent, objective, classes)
    function = CallableAnchor(model, consent, objective)
    function.check_reads_base_only(table)
    return function
