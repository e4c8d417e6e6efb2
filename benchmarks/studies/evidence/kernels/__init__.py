"""Each kernel by itself: against its readable twin, row by row, and against the speed at which numpy copies memory.

Bytes are the least that must move: every value read and every value written counts once, so a source row that is
copied several times counts once, and what a hash table is probed beyond that does not count at all.
"""

from __future__ import annotations

from benchmarks.harness.study import Study

from .case import SEED
from .figures import figure
from .measuring import units
from .tables import table

STUDY = Study("kernels", units, table, figure, alone=True, seed=f"0 and {SEED}")
