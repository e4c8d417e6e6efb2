"""How fast the models approach the truth as N grows, and how close they come at the paper's N = 50,000.

On the paper's binary family a row falls into one of 864 cells. The squared PUC-gap is therefore computed exactly, as a
sum over cells, and equal virtual rows are merged where a learner takes weights for repeated rows:

- the baseline μ̂ of the paper's theorem, Σ y / (1 + count) in each cell, hence 0 in an empty one;
- a forest whose bags are drawn by count: V draws with replacement from V rows are multinomial counts of the distinct
  ones, so the trees are distributed as those of a forest on all rows;
- the neural network with L-BFGS, which takes the whole gradient. Adam would normalise mini-batches of merged rows by
  their weight, which is another loss; the comparison at one N uses Adam on real rows, as the paper does;
- LightGBM and XGBoost with ``compact``. For ``balanced``, which merging would turn into ``exhaustive``, they see the
  rows unmerged, each tree a fresh N of 2 N.

"balanced" has two copies a row here: the default of four exceeds the 3.9 virtual rows that a person has on average, and
would be "exhaustive".
"""

from __future__ import annotations

from benchmarks.harness.study import Study

from .figures import figure
from .measuring import units
from .tables import table

STUDY = Study("convergence", units, table, figure)
