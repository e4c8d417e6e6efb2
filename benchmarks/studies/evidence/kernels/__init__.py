"""Each kernel by itself: against its readable twin, row by row, and against the speed at which numpy copies memory.

Bytes are the least that must move: every value read and every value written counts once. A source row that is copied
several times counts once, and further probes of a hash table do not count.
"""

from __future__ import annotations

from benchmarks.harness.study import Study

from .case import SEED
from .figures import figure
from .measuring import units
from .tables import table

STUDY = Study("kernels", units, table, figure, alone=True, seed=f"0 and {SEED}")
