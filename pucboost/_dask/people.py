"""Whether silence seems to be encoded in a table that is in parts: a sample of its people tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._silence.detector import warn_of_encoded_silence
from .._tables.containers import rows_of
from .._tables.sources import StackedSource
from .._virtual.shared_plan import SharedPlan
from .collections import Part

_SAMPLED = 20_000


def sample_of_people(part: Part, everybody: int) -> Any:
    """Return some of the people of a part and who shares what, as given; None for a part without any."""
    if part.is_empty:
        return None
    n = part.X.shape[0]
    chosen = n if everybody <= _SAMPLED else max(1, round(n * _SAMPLED / everybody))
    rows = np.sort(np.random.default_rng(part.number).choice(n, min(n, chosen), replace=False))
    available = part.fields.get("available")
    return rows_of(part.X, rows), None if available is None else np.asarray(available)[rows]


def warn_of_encoded_silence_in(
    samples: Sequence[Any], plan: SharedPlan, expect_shared: Any, *, zero_as_missing: bool
) -> None:
    """Warn if silence seems to be imputed or encoded in the table that these people are a sample of."""
    found = [sample for sample in samples if sample is not None]
    if not plan.consent.n_groups:
        return
    sources = [plan.read(people) for people, _ in found]
    shared = [
        plan.consent.visible(source, available, zero_as_missing=zero_as_missing, num_threads=1)
        for source, (_, available) in zip(sources, found, strict=True)
    ]
    whole = sources[0] if len(sources) == 1 else StackedSource(sources).with_columns(plan.columns)
    warn_of_encoded_silence(whole, plan.consent, np.concatenate(shared), expect_shared, zero_as_missing=zero_as_missing)
