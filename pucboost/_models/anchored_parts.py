"""The parts of an anchored model as plain data: its trees, its loss and its anchor.

Estimators go through skops, which keeps them as data and loads only types that are trusted. A pickle would run whatever
is in the file.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from .._consent import Consent
from .._engines import all_boosters, boosters_of
from .._losses import LOSSES, Objective
from .anchors.base import Anchor
from .anchors.boosters import BoosterAnchor
from .anchors.estimators import CONTAINERS, METHODS, AnchorQuestion, EstimatorAnchor
from .anchors.reading import is_statsmodels

_PICKLE = "Pickle the model"
_HARMLESS = ("sklearn.compose._column_transformer._RemainderColsList",)
"""A list of columns, which scikit-learn 1.6 has in every ColumnTransformer and skops does not trust of itself."""


def booster_to_dict(booster: Any) -> dict[str, str]:
    """Return a booster of any engine as plain data."""
    boosters = boosters_of(booster)
    return {"engine": boosters.name, "model": boosters.to_text(booster)}


def booster_from_dict(kept: Mapping[str, str], where: str) -> Any:
    """Inverse of :func:`booster_to_dict`; errors name ``where`` it was found."""
    boosters = {one.name: one for one in all_boosters()}
    return _known(boosters, kept.get("engine"), "boosters of the engine", where).from_text(kept["model"])


def objective_to_dict(objective: Objective) -> dict[str, Any]:
    """Return a loss as plain data."""
    return {"class": type(objective).__name__, "fields": asdict(objective)}


def objective_from_dict(kept: Mapping[str, Any], where: str) -> Objective:
    """Inverse of :func:`objective_to_dict`; only the losses of this package are known."""
    loss = _known(LOSSES, kept.get("class"), "the loss", where)
    try:
        objective: Objective = loss(**kept["fields"])
    except TypeError as error:
        raise ValueError(
            f"{where!r} has parameters of its loss that this version of pucboost does not know."
        ) from error
    return objective


def _known(known: Mapping[str, Any], name: Any, what: str, where: str) -> Any:
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"{where!r} has {what} {name!r}, which this version of pucboost does not know; it knows "
            f"{', '.join(sorted(known))}. The file is damaged, or of a later version."
        )
    return known[name]


def anchor_to_dict(anchor: Anchor) -> dict[str, Any]:
    """Return an anchor as plain data; raise if it cannot be written."""
    if isinstance(anchor, BoosterAnchor):
        return booster_to_dict(anchor.model)
    if isinstance(anchor, EstimatorAnchor):
        return {"skops": _with_skops(anchor), "question": asdict(anchor.question)}
    raise ValueError(
        f"The anchor is a callable, which cannot be written into a model file. {_PICKLE} yourself, or make the anchor "
        "a booster or an estimator of scikit-learn."
    )


def anchor_from_dict(
    kept: Mapping[str, Any], consent: Consent, objective: Objective, where: str, trusted: Sequence[str]
) -> Anchor:
    """Inverse of :func:`anchor_to_dict`.

    Parameters
    ----------
    where
        Where it was found, for errors.
    trusted
        Types that may be loaded besides those that skops trusts.
    """
    if "skops" not in kept:
        return BoosterAnchor(booster_from_dict(kept, where), consent, objective)
    return EstimatorAnchor(
        _trusted(base64.b64decode(kept["skops"]), where, trusted),
        consent,
        objective,
        _question(kept["question"], where),
    )


def _question(kept: Mapping[str, Any], where: str) -> AnchorQuestion:
    if kept["method"] not in METHODS or kept["container"] not in CONTAINERS:
        raise ValueError(
            f"{where!r} asks its anchor by {kept['method']!r} about a table of kind {kept['container']!r}; this "
            f"version of pucboost knows {', '.join(METHODS)} and {', '.join(CONTAINERS)}."
        )
    columns, constant = kept["columns"], kept["constant"]
    return AnchorQuestion(
        kept["method"],
        None if columns is None else tuple(int(j) for j in columns),
        kept["container"],
        None if constant is None else (int(constant[0]), str(constant[1])),
    )


def _with_skops(anchor: EstimatorAnchor) -> str:
    """Return an estimator as text; raise if skops cannot write it, or cannot read what it has written."""
    if is_statsmodels(anchor.model):
        raise ValueError(
            f"The anchor ({anchor.name}) cannot be written into a model file: skops does not know statsmodels. "
            f"{_PICKLE} yourself, or make the anchor an estimator of scikit-learn."
        )
    skops = _skops("write")
    try:
        data = skops.dumps(anchor.model)
        skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    except Exception as error:  # types outside skops raise errors of all kinds, lambdas only when they are read
        raise ValueError(
            f"The anchor ({anchor.name}) cannot be written into a model file: skops fails with {error!s}. {_PICKLE} "
            "yourself, or build the anchor from estimators of scikit-learn."
        ) from error
    return base64.b64encode(data).decode("ascii")


def _trusted(data: bytes, where: str, trusted: Sequence[str]) -> Any:
    """Return the estimator in a file if all its types are trusted."""
    skops = _skops("read")
    trusted = [*trusted, *_HARMLESS]
    unknown = [name for name in skops.get_untrusted_types(data=data) if name not in trusted]
    if unknown:
        raise ValueError(
            f"The anchor in {where!r} has types that are not trusted: {', '.join(unknown)}. To load them runs their "
            f"code. If you trust the file, call load_model({where!r}, trusted={unknown!r})."
        )
    return skops.loads(data, trusted=trusted)


def _skops(verb: str) -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            f"To {verb} a model whose anchor is an estimator, pucboost needs skops: pip install 'pucboost[skops]'."
        ) from error
    return skops.io
