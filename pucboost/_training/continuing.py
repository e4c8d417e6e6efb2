"""Whether a training may continue an earlier model."""

from __future__ import annotations

import warnings
from typing import Any

from .._consent import Consent
from .._engines import is_booster
from .._models.files import consent_of
from .._models.schema import categories_of
from .request import TrainingRequest


def check_continues(request: TrainingRequest, init_model: Any) -> None:
    """Raise if ``init_model`` was trained under another consent schema, or reads categories differently."""
    if init_model is None:
        return
    known = check_same_consent(init_model, request.consent if request.consent.n_groups else None)
    if request.consent.n_groups and not known:
        warnings.warn(
            "init_model has no consent schema: what its trees concluded from silence stays in the model.",
            UserWarning,
            stacklevel=3,
        )
    if is_booster(init_model):
        _check_same_categories(request, init_model)


def _check_same_categories(request: TrainingRequest, init_model: Any) -> None:
    """Raise if the codes in the trees of ``init_model`` stand for other categories than those of the table."""
    before, now = categories_of(init_model), request.table.source.categories
    if before is None or not before.values or not now.values:
        return  # nothing known, or codes given by hand
    there, here = before.by_column(request.table.source.coded), now.by_column(())
    for j, name in enumerate(request.table.names):
        known, given = list(there.get(j, ())), list(here.get(j, ()))
        if given[: len(known)] != known:  # more of them may follow
            raise ValueError(
                f"Column {name!r} has the categories {given[:5]} …, init_model was trained on {known[:5]} …, so "
                "its codes would be misread. Give the column the categories of init_model, in their order, as a "
                "pandas category, and new ones behind them."
            )


def check_same_consent(init_model: Any, consent: Consent | None) -> bool:
    """Raise if ``init_model`` was trained under another consent schema than ``consent``; return whether it has one."""
    before = consent_of(init_model)
    if before is not None and before != consent:
        raise ValueError(
            f"init_model was trained under {before}, this call declares {consent or 'nothing optional'}. Declare the "
            "same optional features to continue it."
        )
    return before is not None
