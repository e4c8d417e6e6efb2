"""What a model file keeps of the consent it was trained under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from .consent import Consent
from .plan import PlanSummary

FORMAT = 1


def model_schema(consent: Consent, summary: PlanSummary | None) -> dict[str, Any]:
    """Return consent and summary as plain data."""
    return {"format": FORMAT, "consent": consent.to_dict(), "summary": None if summary is None else asdict(summary)}


def read_schema(schema: Mapping[str, Any], where: str) -> tuple[Consent, PlanSummary | None]:
    """Inverse of :func:`model_schema`; errors name ``where`` it was found."""
    if schema["format"] != FORMAT:
        raise ValueError(
            f"{where!r} has consent schema format {schema['format']}; this version of pucboost reads {FORMAT}."
        )
    summary = schema["summary"]
    return Consent.from_dict(schema["consent"]), None if summary is None else PlanSummary(**summary)
