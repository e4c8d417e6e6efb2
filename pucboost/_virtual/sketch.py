"""A sketch of the people a model was trained on, by which an audit recognises them.

The k smallest hashes of a table are a random sample of its distinct rows that anybody can draw again: a row of another
table whose hash is at most the largest one kept was trained on if and only if its hash is among those kept. So the
overlap of two tables can be estimated from k numbers, whatever the order of rows. Somebody who knows everything about
a person but the label can test a guess of it against a model file with probability k/n, which is kept small: k grows
with n up to 256, and is at most n/10.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import Array
from .._nesting import shared_counts
from .._pickles import pickled
from .allocation import seed_bits
from .hashing import hash_again, hash_people
from .rows import VirtualTable

SKETCH_SIZE = 256
"""How many hashes a model keeps: 4 kB in its file. On as many people as were trained on, a share of one half is known
to 3 percentage points; an audit of 1/85 as many people still compares three of them, the fewest that can decide."""

PEOPLE_PER_HASH = 10
"""A model keeps hashes of no more than one row in so many, also of small tables."""

_LAST = 2**64 - 1


@dataclass(frozen=True)
class RowSketch:
    """The smallest salted hashes of the distinct rows of a table, and how often its rows have a twin."""

    salt: int
    hashes: tuple[int, ...]
    """In ascending order."""
    complete: bool
    """Whether every row of the table is among them."""
    people: tuple[int, ...]
    """How many people share 0, 1, … groups."""
    unique: tuple[int, ...]
    """How many of them have a row, label included, that nobody else has."""

    def __reduce__(self) -> Any:
        return pickled("RowSketch", vars(self))

    @classmethod
    def of(
        cls, people: VirtualTable, seed: int, size: int | None = SKETCH_SIZE, one_in: int = PEOPLE_PER_HASH
    ) -> RowSketch:
        """Sketch a table with one row per person, as they share it; a pure function of its rows and the seed.

        Rows of weight 0 were not trained on and are left out. The salt is a hash of the seed and of the counts that the
        sketch holds anyway: the same training gives the same sketch, and sketches of tables with other counts cannot be
        compared. A hash of the rows themselves would tell whoever knows all labels but a few what these are.

        Parameters
        ----------
        people
            The table.
        seed
            Seed of the training.
        size
            How many hashes to keep at most; None keeps them all.
        one_in
            Keep no more than the hash of one row in so many.
        """
        hashes, shared = hash_people(people), shared_counts(people.rows.plan.available, people.rows.threads)
        weight = people.table.weight
        if weight is not None and not weight.all():
            hashes, shared = hashes[weight > 0], shared[weight > 0]
        # Equal rows share equally much, so twins can be looked for among those who do.
        distinct, counts, unique = [], [], []
        for number in range(people.rows.consent.n_groups + 1):
            found, times = _distinct(hashes[shared == number])
            distinct.append(found)
            counts.append(int(times.sum()))
            unique.append(int((times == 1).sum()))
        rows = np.concatenate(distinct)
        salt = _salt(seed, counts, unique)
        salted = hash_again(rows, salt, people.rows.threads)
        few = len(salted) if size is None else min(size, max(1, len(salted) // one_in))
        kept = salted if len(salted) <= few else np.partition(salted, few - 1)[:few]
        return cls(salt, tuple(np.sort(kept).tolist()), len(kept) == len(salted), tuple(counts), tuple(unique))

    @property
    def threshold(self) -> int:
        """Up to here all hashes of the table are known."""
        return _LAST if self.complete or not self.hashes else self.hashes[-1]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; hashes as one hexadecimal text, since not every reader of JSON knows 64-bit integers."""
        return {
            "salt": f"{self.salt:016x}",
            "hashes": "".join(f"{one:016x}" for one in self.hashes),
            "complete": self.complete,
            "people": list(self.people),
            "unique": list(self.unique),
        }

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> RowSketch:
        """Inverse of :meth:`to_dict`."""
        text = kept["hashes"]
        hashes = tuple(int(text[i : i + 16], 16) for i in range(0, len(text), 16))
        return cls(int(kept["salt"], 16), hashes, kept["complete"], tuple(kept["people"]), tuple(kept["unique"]))


def _distinct(hashes: Array) -> tuple[Array, Array]:
    """Return the distinct hashes in ascending order, and how often each occurs."""
    ordered = np.sort(hashes)
    starts = (
        np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else np.array([], int)
    )
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


def _salt(seed: int, people: list[int], unique: list[int]) -> int:
    digest = hashlib.sha256(repr((seed_bits(seed), people, unique)).encode()).digest()
    return int.from_bytes(digest[:8], "little")
