"""All studies by name."""

from __future__ import annotations

from . import (
    alternatives,
    anchored,
    audit,
    audit_time,
    convergence,
    degradation,
    engines,
    fairness,
    inference,
    kernels,
    memory,
    quality,
    quotes,
    scale,
    several,
    sharers,
    speed,
)
from .studies import Rows, Study, Table, in_one


def _ratios_in_short(rows: Rows) -> Table:
    return ["", "compared with", "ratio"], [[row["what"], row["compared with"], row["ratio"]] for row in rows]


_ALL = [
    in_one("speed", speed.study, in_short=_ratios_in_short),
    in_one("engines", engines.study, in_short=_ratios_in_short),
    in_one("quotes", quotes.study),
    in_one("memory", memory.study),
    in_one("quality", quality.study, in_short=quality.in_short),
    in_one("anchored", anchored.study),
    in_one("audit", audit.study, in_short=audit.in_short),
    in_one("audit_power", audit.power_study),
    in_one("audit_time", audit_time.study),
    inference.STUDY,
    sharers.STUDY,
    degradation.STUDY,
    several.STUDY,
    convergence.STUDY,
    fairness.STUDY,
    alternatives.STUDY,
    scale.STUDY,
    kernels.STUDY,
]

STUDIES: dict[str, Study] = {study.name: study for study in _ALL}
