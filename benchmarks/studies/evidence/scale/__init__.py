"""Large tables: what training under consent costs and gains against plain training.

``scale`` draws tables of the logistic family, whose truth is known; ``freMTPL2`` is a real portfolio of motor policies
(claims per year, exposure as weight). Every training has a process of its own, so that its peak of memory is clean;
variants to be compared run one after the other. The parts of the time are taken inside the trainings that are timed.

All sizes get the same number of rounds at the same rate: with fewer rounds, the gaps of the larger tables would be
those of unfinished models.
"""

from __future__ import annotations

from benchmarks.harness.study import Study

from .figures import figure
from .listing import units
from .tables import in_short, table

STUDY = Study("scale", units, table, figure, in_short, alone=True)
