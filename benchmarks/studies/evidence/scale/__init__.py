"""Large tables: what training under consent costs beside plain training, and what it brings.

``scale`` draws tables of the logistic family, whose truth is known; ``freMTPL2`` is a real portfolio of motor policies
(claims per year, exposure as weight). Every training has a process of its own, so that its peak of memory is clean;
variants to be compared run one after the other. The parts of the time are taken inside the very trainings that are
timed.

Every size of table gets as many rounds at the same rate: with fewer the gaps of the larger tables would be those of
unfinished models.
"""

from __future__ import annotations

from benchmarks.harness.study import Study

from .figures import figure
from .listing import units
from .tables import in_short, table

STUDY = Study("scale", units, table, figure, in_short, alone=True)
