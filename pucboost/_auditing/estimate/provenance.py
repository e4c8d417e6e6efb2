"""Where an audit's figures come from: data, model, versions, settings."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from ..._engines import PACKAGES
from ..findings import Provenance
from ..settings import FittingOptions, NuisanceEstimators
from .audited_model import AuditedModel
from .learners import LIGHTGBM_PARAMS
from .people import AuditPeople
from .training_data import TrainingData

_TELLING = ("learning_rate", "num_leaves", "min_data_in_leaf")
_PACKAGES = sorted((*PACKAGES, "numpy", "scikit-learn", "scipy"))


def provenance(
    people: AuditPeople,
    model: AuditedModel,
    training: TrainingData,
    fitting: FittingOptions,
    min_count: int,
    seconds: float,
) -> Provenance:
    """Return what somebody else needs to repeat the audit."""
    consent = people.consent
    optional = set(consent.group_columns.tolist())
    from ... import __version__

    versions = {"python": sys.version.split()[0], "pucboost": __version__}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # not installed as a package
            continue
    nuisance = fitting.nuisance
    if isinstance(nuisance, NuisanceEstimators):
        described = f"scikit-learn: {nuisance.outcome!r}, {nuisance.availability!r}"
    else:
        settings = ", ".join(f"{k}={v}" for k, v in {**LIGHTGBM_PARAMS, **nuisance}.items() if k in _TELLING)
        described = f"LightGBM, early-stopped ({settings})"
    return Provenance(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        rows=len(people),
        seed=fitting.seed,
        folds=fitting.folds,
        min_count=min_count,
        reference_data="the audit data, cross-fitted" if training.table is None else "the training data",
        data_hash=people.fingerprint(),
        model_hash=model.fingerprint,
        model_kind=model.kind,
        consent={g: tuple(consent.feature_names[c] for c in columns) for g, columns in consent.groups.items()},
        base_features=tuple(name for j, name in enumerate(consent.feature_names) if j not in optional),
        versions=versions,
        nuisance=described,
        seconds=round(seconds, 1),
        needs=dict(consent.needs),
    )
