"""What a model file keeps of the consent it was trained under."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from .consent import Consent
from .plan import PlanSummary

FORMAT = 1


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
    seen = summary.get("masks_seen")
    return consent, PlanSummary(**{**summary, "masks_seen": None if seen is None else tuple(seen)})
