"""Values of one column of numbers that seem to stand for silence.

All rules look for a spike, a value that is strangely frequent (at least five people, and one in 200), and for a reason
why it is no measurement. Columns of one or two values, or with fewer than 50 people, are not judged.

**Average.** The spike equals the mean or the median of the other values, within the error of a sample: that is what
imputers fill in, perhaps fitted on other people. There are more than 20 values, of which it is at least five times as
frequent as any other; or it is the only one that is not a whole number. What is honest and looks like it:

- scores that pile up at an end of their scale: the spike must lie inside the range of the others;
- nothing happened, nothing changed: 0 counts only in a column that was scaled to mean 0 and deviation 1;
- round numbers that people prefer, such as 40 hours a week: where many others are multiples of five, too, it is not
  counted if it is one.

**Code.** The spike is a number such as −1, −9, −99, 999 or the smallest integer, outside the range of the others and
behind a gap: more than twice their usual distance, and either a tenth of their range, or, among whole numbers, five
times as many people as the next three values have. What is honest and looks like it:

- caps: above the others, a code needs one in 50 people and a gap wider than any other;
- the last digit, or −1 beside 0 and 1: no gap. If no other value is negative, a negative code needs none, but twice
  as many people as its neighbour: codes of categories begin with 0, and with −1 for who has none.

**Zero.** The spike is 0, and all others lie on one side, on average three standard deviations away or more: a blood
pressure of 0. Counts and amounts, for which 0 is natural, spread further than that, or are 0 for most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._arrays import Array

MIN_VALUES = 50
"""A column with fewer values is not judged."""
MIN_SPIKE = 5
"""So many people at least must have a value that is to count as a spike, …"""
SPIKE_SHARE = 0.005
"""… and this share of those with a value."""
CAP_SHARE = 0.02
"""The share that is needed where few honest values might happen to lie there: incomes are capped at 99999."""
MANY_VALUES = 20
"""From so many distinct values on a column can be a measurement."""
DOMINANT = 5
"""How many times as frequent as any other value a spike must be."""
STANDARD_ERRORS = 4.0
"""How far from the average of a sample the average of another one may be."""
HEAPED = 0.3
"""Share of multiples of five from which on people seem to prefer round numbers; one in five would be chance."""

CODES = np.array(
    sorted(
        {
            *(sign * (10**k - j) for sign in (-1, 1) for k in range(1, 10) for j in (1, 2, 3)),
            *(-11 * k for k in (7, 8)),
            *(-111 * k for k in (7, 8)),
            *(-9.99, -99.9, -99.99, -999.9, -999.99),  # 99.99 is a price
            *(-1, -(2**15), -(2**31), -(2**63), 2**31 - 1, 2**63 - 1),
        }
    ),
    dtype=np.float64,
)
"""Numbers that stand for something missing in surveys, weather data and old files."""


@dataclass(frozen=True)
class Spike:
    """A value that seems to stand for silence."""

    value: float
    count: int
    rule: str
    """``"mean"``, ``"median"``, ``"code"`` or ``"zero"``."""


def find_spikes(values: Array) -> list[Spike]:
    """Return the values of a column that seem to stand for silence.

    Parameters
    ----------
    values
        Those that are not missing.

    Examples
    --------
    >>> import numpy as np
    >>> pressure = np.random.default_rng(0).normal(80, 10, 1000)
    >>> pressure[:100] = -999
    >>> find_spikes(pressure)
    [Spike(value=-999.0, count=100, rule='code')]
    """
    values = values[np.isfinite(values)]
    if len(values) < MIN_VALUES:
        return []
    distinct, counts = np.unique(values.astype(np.float64), return_counts=True)
    if len(distinct) < 3:
        return []
    at_least = max(MIN_SPIKE, SPIKE_SHARE * len(values))
    codes = _codes(distinct, counts, at_least)
    if codes:  # what is left is judged without them
        rest = ~np.isin(distinct, [code.value for code in codes])
        distinct, counts = distinct[rest], counts[rest]
    if len(distinct) <= MANY_VALUES or counts.sum() < MIN_VALUES:
        return codes
    other = _zero(distinct, counts, at_least) or _average(distinct, counts, at_least)
    return codes + ([other] if other else [])


def _codes(distinct: Array, counts: Array, at_least: float) -> list[Spike]:
    candidate = np.isin(distinct, CODES) | np.isin(distinct, CODES.astype(np.float32))
    inner = np.flatnonzero(~candidate)
    if len(inner) < 2:
        return []
    first, last = int(inner[0]), int(inner[-1])
    low_end = [(i, 1) for i in range(first - 1, -1, -1)]
    high_end = [(i, -1) for i in range(last + 1, len(distinct))]
    spacing = float(np.median(np.diff(distinct[first : last + 1])))
    whole = bool((distinct == np.round(distinct)).all())
    honest = np.ones(len(distinct), dtype=bool)
    honest[:first] = honest[last + 1 :] = False  # until shown below
    found = []
    for i, inwards in low_end + high_end:  # from the inside out
        near, others = np.flatnonzero(honest)[::inwards][:3], distinct[honest]
        gap, count, n = abs(distinct[near[0]] - distinct[i]), counts[i], counts.sum()
        wide = gap >= 0.1 * np.ptp(others)
        if distinct[i] > 0:  # perhaps a cap, of which honest values come within chance
            wide = wide and gap > np.diff(others).max() and count >= CAP_SHARE * n
        frequent = whole and n >= 4 * MIN_VALUES and count >= max(DOMINANT * counts[near].max(), CAP_SHARE * n)
        only_negative = distinct[i] < 0 <= others[0] and len(inner) >= 3 and count >= 2 * counts[near[0]]
        if count >= at_least and ((gap > 2 * spacing and (wide or frequent)) or only_negative):
            found.append(Spike(float(distinct[i]), int(counts[i]), "code"))
        else:
            honest[i] = True
    return sorted(found, key=lambda spike: spike.value)


def _zero(distinct: Array, counts: Array, at_least: float) -> Spike | None:
    is_zero = distinct == 0
    others, frequency = distinct[~is_zero], counts[~is_zero]
    count = int(counts[is_zero].sum())
    if not at_least <= count <= frequency.sum() or others[0] < 0 < others[-1]:
        return None
    mean, deviation = _moments(others, frequency)
    return Spike(0.0, count, "zero") if abs(mean) >= 3 * deviation > 0 else None


def _average(distinct: Array, counts: Array, at_least: float) -> Spike | None:
    whole = distinct == np.round(distinct)
    place = int(np.argmax(counts))
    if (~whole).sum() == 1:  # an average among whole numbers
        place = int(np.argmin(whole))
        others, frequency = distinct[whole], counts[whole]
    else:
        others, frequency = np.delete(distinct, place), np.delete(counts, place)
        if counts[place] < DOMINANT * frequency.max() or _is_round_number(distinct[place], others, frequency):
            return None
    value, count = float(distinct[place]), int(counts[place])
    if count < at_least or not others[0] < value < others[-1]:
        return None
    mean, deviation = _moments(others, frequency)
    if value == 0 and not (abs(mean) < 0.2 * deviation and _is_standardised(distinct, counts, others, frequency)):
        return None
    n, below = int(frequency.sum()), float(frequency[others < value].sum())
    if abs(value - mean) <= STANDARD_ERRORS * deviation / np.sqrt(n):
        return Spike(value, count, "mean")
    tolerance = STANDARD_ERRORS * 0.5 / np.sqrt(n)
    at_most = float(frequency[others <= value].sum())
    return Spike(value, count, "median") if below / n - tolerance <= 0.5 <= at_most / n + tolerance else None


def _is_round_number(value: float, others: Array, frequency: Array) -> bool:
    """Return whether people seem to prefer round numbers, of which the value is one."""
    if value % 5 != 0 or (others != np.round(others)).any():
        return False
    return bool(frequency[others % 5 == 0].sum() > HEAPED * frequency.sum())


def _is_standardised(distinct: Array, counts: Array, others: Array, frequency: Array) -> bool:
    """Return whether a column was scaled to mean 0 and deviation 1, with or without its spike."""
    for values, weights in ((distinct, counts), (others, frequency)):
        mean, deviation = _moments(values, weights)
        if abs(deviation - 1) < 0.05 and abs(mean) <= STANDARD_ERRORS / np.sqrt(weights.sum()):
            return True
    return False


def _moments(values: Array, weights: Array) -> tuple[float, float]:
    mean = float(np.average(values, weights=weights))
    return mean, float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))
