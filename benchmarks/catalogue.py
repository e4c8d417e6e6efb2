"""All studies by name: those of the package, and those that compare the method with the paper and with alternatives."""

from __future__ import annotations

from .harness.study import Study, in_one
from .studies import (
    alternatives,
    anchored,
    audit,
    audit_hard,
    audit_rows,
    convergence,
    degradation,
    distributed,
    engines,
    everyday,
    fairness,
    inference,
    kernels,
    larger,
    levels,
    load,
    mask_calibration,
    memory,
    monitoring,
    native,
    native_evidence,
    native_memory,
    native_numbers,
    native_quality,
    quality,
    quotes,
    rare_categories,
    scale,
    several,
    sharers,
    small_sets,
    speed,
)

PACKAGE = (
    in_one("speed", speed.study, "0"),
    in_one("engines", engines.study, "0"),
    engines.DEFAULTS,
    Study("everyday", everyday.units, page=everyday.page, alone=True, seed="0 and 1"),
    Study("native", native.units, page=native.page, alone=True, seed="0"),
    Study("native_quality", native_quality.units, native_quality.table, native_quality.figure, native_quality.page),
    Study("native_numbers", native_numbers.units, native_numbers.table, alone=True),
    Study("native_memory", native_memory.units, alone=True, seed="0"),
    Study("native_evidence", native_evidence.units, native_evidence.table, page=native_evidence.page),
    in_one("quotes", quotes.study, "0"),
    in_one("memory", memory.study, "0"),
    distributed.STUDY,
    Study("larger", larger.units, larger.table, alone=True, seed="0 to 199"),
    in_one("quality", quality.study, "0 to 5", page=quality.page),
    mask_calibration.STUDY,
    levels.STUDY,
    rare_categories.STUDY,
    in_one("anchored", anchored.study, "0 to 3"),
    in_one("audit", audit.study, "0 to 399, r=3 to 59", page=audit.page),
    in_one("audit_power", audit.power_study, "10000 to 10011"),
    audit_hard.STUDY,
    audit_hard.STUDY_AGAIN,
    small_sets.STUDY,
    audit_rows.STUDY,
    monitoring.STUDY,
    in_one("audit_time", audit.time_study, "0 and 1"),
    load.STUDY,
)

EVIDENCE = (
    inference.STUDY,
    sharers.STUDY,
    degradation.STUDY,
    several.STUDY,
    convergence.STUDY,
    fairness.STUDY,
    alternatives.STUDY,
    scale.STUDY,
    kernels.STUDY,
)

STUDIES: dict[str, Study] = {study.name: study for study in (*PACKAGE, *EVIDENCE)}
SETS = {
    "evidence": tuple(study.name for study in EVIDENCE),
    "package": tuple(study.name for study in PACKAGE),
    "all": tuple(STUDIES),
}
