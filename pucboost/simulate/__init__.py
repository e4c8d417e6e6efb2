"""Families of distributions with known truth, and ways of withholding the columns of a real table.

A person has base features b, optional values z, a set A of those that are shared, and a label Y. Each family
computes E[Y | b, A ⊇ a, z_a], the prediction that Protected User Consent (PUC) asks for, and
E[Y | b, A = a, z_a], the limit of a model that also reads the silence.
"""

from __future__ import annotations

from .families import BinaryFamily, DiscreteFamily, Family, LogisticFamily, Sample, squared_puc_gap
from .withholding import (
    Response,
    Round,
    StrategicWorld,
    best_response,
    paper_strength,
    play,
    withhold_sigmoid,
    withhold_strategic,
)

__all__ = [
    "BinaryFamily",
    "DiscreteFamily",
    "Family",
    "LogisticFamily",
    "Response",
    "Round",
    "Sample",
    "StrategicWorld",
    "best_response",
    "paper_strength",
    "play",
    "squared_puc_gap",
    "withhold_sigmoid",
    "withhold_strategic",
]


def __dir__() -> list[str]:
    return sorted(__all__)
