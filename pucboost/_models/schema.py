"""What a model file keeps of the consent it was trained under."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from .._consent import Consent
from .._engines.params import is_booster
from .._tables.sources import Categories
from .._virtual.plan import PlanSummary

FORMAT = 1

SCHEMA_KEY, CATEGORIES_KEY = "pucboost", "pucboost_categories"
"""Attributes of an XGBoost booster that keep the schema and the categories of the training table in its model files."""


def label_hash(label: Any) -> str:
    """Return a hash of labels as float32, which is how engines keep them."""
    return hashlib.sha256(np.ascontiguousarray(label, dtype=np.float32).tobytes()).hexdigest()


def model_schema(consent: Consent, summary: PlanSummary | None) -> dict[str, Any]:
    """Return consent and summary as plain data."""
    return {"format": FORMAT, "consent": consent.to_dict(), "summary": None if summary is None else asdict(summary)}


def read_schema(schema: Mapping[str, Any], where: str) -> tuple[Consent, PlanSummary | None]:
    """Inverse of :func:`model_schema`; errors name ``where`` it was found."""
    if schema["format"] != FORMAT:
        raise ValueError(
            f"{where!r} has consent schema format {schema['format']}; this version of pucboost reads {FORMAT}."
        )
    consent, summary = Consent.from_dict(schema["consent"]), schema["summary"]
    if summary is None:
        return consent, None
    tuples = {name: summary.get(name) for name in ("masks_seen", "coded_columns")}
    return consent, PlanSummary(**{**summary, **{n: None if v is None else tuple(v) for n, v in tuples.items()}})


def categories_of(model: Any) -> Categories | None:
    """Return the categories of the table a model was trained on, None if it is not known whether there are any.

    LightGBM keeps them without saying of which columns they are, which the summary does. XGBoost tells the columns.

    Parameters
    ----------
    model
        A booster of either engine, or an anchored model.
    """
    booster, summary = getattr(model, "booster", model), getattr(model, "puc_summary", None)
    if is_booster(booster, "xgboost"):
        return _xgboost_categories(booster)
    columns = None if summary is None else summary.coded_columns
    values = getattr(booster, "pandas_categorical", None)
    if values is None:
        return None if columns is None else Categories([], ())
    return Categories(values, columns if columns is None or len(columns) == len(values) else None)


def _xgboost_categories(booster: Any) -> Categories | None:
    columns = tuple(j for j, kind in enumerate(booster.feature_types or ()) if kind == "c")
    kept = json.loads(booster.attr(CATEGORIES_KEY) or "null")
    if kept is not None:
        values = [categories for categories in kept if categories]
        return Categories(values, columns if len(columns) == len(values) else None)
    own = [] if not columns else [values for _, values in booster.get_categories(export_to_arrow=True).to_arrow()]
    try:
        lists = {j: values.to_pylist() for j, values in enumerate(own) if values is not None}
    except UnicodeDecodeError:
        return None
    # XGBoost 3.2 counts characters where bytes are meant, so that other names than ASCII are lost.
    if any(isinstance(value, str) and not value.isascii() for values in lists.values() for value in values):
        return None
    return Categories(list(lists.values()), tuple(lists))
