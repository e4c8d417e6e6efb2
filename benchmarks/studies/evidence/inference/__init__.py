"""Availability inference: what unrestricted models make of silence, and what is left of it under consent.

One optional column. ``base`` never sees it, ``full`` sees it with its gaps, ``PUC`` is trained on the exhaustive
virtual rows. All are measured on people they were not trained on.

The second question is how the numbers change if copies are split instead of people, as cross-validation after
augmenting does: a sharer's silent copy, with the label, may then be in the training data.
"""

from __future__ import annotations

from benchmarks.harness.study import Study

from .figures import figure
from .measuring import units
from .tables import table

STUDY = Study("inference", units, table, figure)
