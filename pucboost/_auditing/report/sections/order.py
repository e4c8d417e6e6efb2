"""The sections of the page in their order."""

from __future__ import annotations

from collections.abc import Callable

from ...findings import Findings
from ..blocks import Section
from .accuracy import losses, truth
from .basis import limits, method, provenance, support
from .penalty import asked, penalties
from .sharing import averages, balance, sharing
from .silence import agreement, informativeness, recognition
from .within import comparability, within

SECTIONS: tuple[Callable[[Findings], Section | None], ...] = (
    asked,
    penalties,
    within,
    limits,
    informativeness,
    recognition,
    comparability,
    agreement,
    sharing,
    balance,
    averages,
    losses,
    truth,
    support,
    method,
    provenance,
)
