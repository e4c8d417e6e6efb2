"""How many of the audited people the model was trained on, from the sketch of its training rows.

All training rows whose hash is at most t, the largest one kept, are known. An audited row with a hash up to t was
therefore trained on if and only if its hash was kept, and since hashes do not depend on what a row says, these rows are
a random sample of the distinct audited rows: with N of them, X of which were kept,

    E[X / N] = π + (1 − π)·c

where π is the share of the audited rows that were trained on and c the chance that somebody else's row is equal to a
training row. By exchangeability (Good and Turing's estimate), a new person has a twin in training as often as one of
the training people has: c is the share of training people whose row is not unique. It is taken by how many groups
people share, since those who share little are more alike, and an audit may have more of them than training had. So

    π̂ = (X/N − c) / (1 − c),

with the exact binomial interval of X/N. The other direction, the share of kept hashes that were audited times
n_train/n_audit, has the same X and only replaces N by its expectation k·n_audit/n_train: where N is too small to say
anything, so is X, and nothing is said.

Decision: too many were trained on if X is too large for π ≤ :data:`TOLERATED`, at the level :data:`DOUBT` of a
one-sided binomial test. Twins are allowed to be more frequent than training says, by :data:`TWIN_ODDS` in odds:
audited people may be alike for reasons that training does not show. Nothing is said at all where the test could not
decide even if X = N, because N is small or nearly everybody has a twin (few distinct rows), and where it did not decide
although c is above :data:`MANY_TWINS`: rows that are rare have fewer twins than people have, so π̂ is then too small.
"""

from __future__ import annotations

import numpy as np

from ..._arrays import Array
from ..._virtual.hashing import hash_again
from ..._virtual.sketch import RowSketch
from ..findings import TrainedOn

TOLERATED = 0.05
"""So few cannot hide much: even if the model fitted those it has seen perfectly, a penalty would look a twentieth
smaller."""
DOUBT = 1e-3
TWIN_ODDS = 3.0
MANY_TWINS = 0.25
LEVEL = 0.95
"""Of the interval that is shown."""


def estimate_overlap(sketch: RowSketch, hashes: Array, shared: Array, threads: int) -> TrainedOn:
    """Estimate how many of the audited rows were trained on.

    Parameters
    ----------
    sketch
        Of the training table.
    hashes
        Of the audited people, not yet salted.
    shared
        How many groups each of them shares.
    """
    rows, first = np.unique(hashes, return_index=True)
    salted, number = hash_again(rows, sketch.salt, threads), shared[first]
    known = salted <= np.uint64(sketch.threshold)
    found = int(np.isin(salted[known], np.array(sketch.hashes, dtype=np.uint64)).sum())
    twin = _twin_chance(sketch)[number[known]]
    return judge_overlap(found, int(known.sum()), twin)


def judge_overlap(found: int, compared: int, twin: Array) -> TrainedOn:
    """Estimate and decide from counts and each row's chance of a twin."""
    if compared == 0:
        return TrainedOn(None, None, None, 0, 0, None, False)
    chance = float(twin.mean())
    odds = TWIN_ODDS * twin / (1 - twin)
    doubtful = float((odds / (1 + odds)).mean())
    tolerated = TOLERATED + (1 - TOLERATED) * doubtful
    # The mean of unequal chances is on the safe side: a binomial has heavier tails (Hoeffding 1956).
    too_many = _at_least(found, compared, tolerated) <= DOUBT
    if not too_many and (tolerated**compared > DOUBT or chance > MANY_TWINS):
        return TrainedOn(None, None, None, compared, found, chance, False)
    share, lower, upper = (
        (p - chance) / (1 - chance) for p in (found / compared, *_binomial_interval(found, compared))
    )
    return TrainedOn(_clipped(share), _clipped(lower), _clipped(upper), compared, found, chance, too_many)


def _twin_chance(sketch: RowSketch) -> Array:
    """Return the chance of a twin in training by the number of groups shared; a half where training had nobody."""
    people, unique = np.array(sketch.people, dtype=np.float64), np.array(sketch.unique, dtype=np.float64)
    return np.asarray((people - unique + 1) / (people + 2))


def _at_least(found: int, compared: int, chance: float) -> float:
    from scipy.stats import binom

    return float(binom.sf(found - 1, compared, chance))


def _binomial_interval(found: int, compared: int) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson."""
    from scipy.stats import beta

    tail = (1 - LEVEL) / 2
    lower = 0.0 if found == 0 else float(beta.ppf(tail, found, compared - found + 1))
    upper = 1.0 if found == compared else float(beta.ppf(1 - tail, found + 1, compared - found))
    return lower, upper


def _clipped(share: float) -> float:
    return float(min(max(share, 0.0), 1.0))
