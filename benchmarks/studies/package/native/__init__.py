"""The native engine: how fast, how good, how exact and how large."""

from __future__ import annotations

from benchmarks.harness.study import Study

from . import memory, numbers, quality, speed

SPEED = Study("native", speed.units, in_short=speed.in_short, alone=True, seed="0")
QUALITY = Study("native_quality", quality.units, quality.table, quality.figure, quality.in_short)
NUMBERS = Study("native_numbers", numbers.units, numbers.table, alone=True)
MEMORY = Study("native_memory", memory.units, alone=True, seed="0")

STUDIES = (SPEED, QUALITY, NUMBERS, MEMORY)
