"""Whether training may continue an earlier model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._common import warn
from .._consent import Consent
from .._engines import boosters_of, is_booster
from .._engines.base import Engine
from .._models.files import consent_of, load_engine_model, summary_of
from .._models.schema import TrainingSummary, categories_of
from .rates import check_both_or_neither
from .request import TrainingRequest

READS_SILENCE = (
    "was trained with augmentation='none': what its trees inferred from silence stays in the model. Train it again "
    "with another augmentation."
)


def model_to_continue(request: TrainingRequest, init_model: Any) -> Any:
    """Return the booster to continue, read from its file if it is one; None for None.

    Raise if it was trained under another consent schema, or reads categories differently.
    """
    if init_model is None:
        return None
    # Read here, not by the engine: a file that was cut off would stop the process there.
    model = load_engine_model(init_model)[0] if isinstance(init_model, (str, Path)) else init_model
    check_is_of(request.engine, model)
    known = check_same_consent(model, request.consent if request.consent.n_groups else None)
    summary = summary_of(model) if known else None
    if request.consent.n_groups and not known:
        warn(
            "init_model has no consent schema: what its trees inferred from silence stays in the model.",
        )
    if summary is not None:
        if request.settings.augmentation != "none" and summary.augmentation == "none":
            warn(f"init_model {READS_SILENCE}")
        check_both_or_neither(summary.per_exposure, request.totals is not None, "train_set", "init_model")
        _check_no_loading(summary)
    _check_same_categories(request, model)
    return model


def _check_no_loading(summary: TrainingSummary) -> None:
    """Raise if new trees would take back what the model adds for everybody."""
    if summary.loading:
        raise ValueError(
            "init_model has a loading (balance), which further trees would take back. Continue the model it was made "
            "of, and balance the result."
        )


def check_is_of(engine: Engine, init_model: Any) -> None:
    """Raise for what an engine ignores without a word: estimators, anchored models, boosters of another engine."""
    if is_booster(init_model) and boosters_of(init_model) is engine.boosters:
        return
    hint = " Pass its booster_." if hasattr(init_model, "booster_") else ""
    raise TypeError(
        f"init_model must be a booster of {engine.title} or a model file, got {type(init_model).__name__!r}.{hint}"
    )


def _check_same_categories(request: TrainingRequest, init_model: Any) -> None:
    """Raise if category codes in the trees of ``init_model`` mean other categories than those in the table."""
    before, now = categories_of(init_model), request.table.source.categories
    if before is None or not before.values or not now.values:
        return  # nothing is known, or the user assigned the codes
    there, here = before.by_column(request.table.source.coded), now.by_column(())
    for j, name in enumerate(request.table.names):
        known, given = list(there.get(j, ())), list(here.get(j, ()))
        if given[: len(known)] != known:  # new categories may follow
            raise ValueError(
                f"Column {name!r} has the categories {given[:5]} …, but init_model was trained on {known[:5]} …, so "
                "its codes would be misread. Make the column a pandas category with the categories of init_model, in "
                "their order, followed by any new ones."
            )


def check_same_consent(init_model: Any, consent: Consent | None) -> bool:
    """Raise if ``init_model`` was trained under another consent schema than ``consent``; return whether it has one."""
    before = consent_of(init_model)
    if before is not None and before != consent:
        raise ValueError(
            f"init_model was trained under {before}, but this call declares {consent or 'nothing optional'}. Declare "
            "the same optional features to continue it."
        )
    return before is not None
