"""Several optional columns: the paper's fixed-size and exhaustive augmentation beside ``balanced``, model by model."""

from __future__ import annotations

from benchmarks.harness.study import Study

from .figures import figure
from .measuring import units
from .tables import in_short, table

STUDY = Study("several", units, table, figure, in_short)
