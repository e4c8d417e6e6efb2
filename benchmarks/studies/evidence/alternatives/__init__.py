"""The alternatives to Protected User Consent, all with LightGBM: their penalty for silence, their loss and their time.

For simulated people the truth f* is known, and the gap to it is the penalty. On real tables the audit estimates it, on
people no model was trained on. The audit's outcome and availability models do not depend on the model audited, so they
are fitted once per split, and the same ones judge every method, as ``puc.audit`` would.
"""

from __future__ import annotations

from benchmarks.harness.study import Study

from .figures import figure
from .measuring import units
from .tables import in_short, table

STUDY = Study("alternatives", units, table, figure, in_short)
