"""The native engine: how fast, how good, how exact, how large, and beside LightGBM in all that the others measure."""

from __future__ import annotations

from benchmarks.harness.study import Study

from . import comparing, evidence, memory, numbers, quality, speed

SPEED = Study("native", speed.units, in_short=speed.in_short, alone=True, seed="0")
QUALITY = Study("native_quality", quality.units, quality.table, quality.figure, quality.in_short)
NUMBERS = Study("native_numbers", numbers.units, numbers.table, alone=True)
MEMORY = Study("native_memory", memory.units, alone=True, seed="0")
EVIDENCE = Study("native_evidence", evidence.units, comparing.table, in_short=comparing.in_short)

STUDIES = (SPEED, QUALITY, NUMBERS, MEMORY, EVIDENCE)
