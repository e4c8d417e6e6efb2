"""What one would do instead of Protected User Consent, all with LightGBM: what silence costs people, and what it costs.

Simulated people have a known truth f*, so that the gap to it is the penalty. On real tables the audit estimates it, on
people no model was trained on; outcome and availability models of the audit do not depend on what is audited, so they
are fitted once per split and every method is judged by the same ones, as ``puc.audit`` would judge it.
"""

from __future__ import annotations

from benchmarks.harness.study import Study

from .figures import figure
from .measuring import units
from .tables import in_short, table

STUDY = Study("alternatives", units, table, figure, in_short)
