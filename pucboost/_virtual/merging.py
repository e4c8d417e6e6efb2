"""Equal rows: merged into one, and recognised by the audit.

Hashes stand for rows: equal rows have equal hashes, whatever container holds them and however they are read. By them
virtual rows that are equal after masking are merged (128 bits), and an audit recognises people (64 bits). A model keeps
some of its people's only with a key, without which nobody can tell whose they are.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._common import Array
from .._consent import shared_counts
from .._kernels.compiling import run_in_ranges, thread_count
from .._kernels.rows import assign_cells, hash_rows
from .._losses import Objective, Softmax
from .._persistence import pickled
from .._tables.sources import SourceTable, SubsetSource
from .rows import MergedTable, SelectedRows, VirtualTable


def hash_block(block: Array, extra: Array, threads: int) -> Array:
    """Return two independent 64-bit hashes of each row of a block, and of one more integer that belongs to the row.

    Rows are told apart by the bits of their numbers, so blocks to be compared must have one type.
    """
    values = np.ascontiguousarray(block)
    bits = values.view(np.uint32 if values.dtype == np.float32 else np.uint64)
    hashes = np.empty((len(values), 2), dtype=np.uint64)
    run_in_ranges(lambda lo, hi: hash_rows(values, bits, extra, lo, hi, hashes), len(values), threads)
    return hashes


def hash_people(people: VirtualTable, label: Array | None = None) -> Array:
    """Return one 64-bit hash for each person of a table with one row per person, label included.

    What is hashed is what a model can see: numbers as float32, categories as codes, and nothing of the groups that are
    not shared. So the hash of a person is the same from a float32 and a float64 table, from zeros that ``available``
    denies and from missing values.
    """
    rows, labels = people.rows, people.table.label if label is None else label
    out = np.empty(len(rows), dtype=np.uint64)
    for start, batch in rows.batches():
        extra = _bits(labels[start : start + len(batch)])
        out[start : start + len(batch)] = hash_block(_as_float32(batch), extra, rows.threads)[:, 0]
    return out


def _as_float32(values: Array) -> Array:
    with np.errstate(over="ignore"):  # infinite is a value like any other
        return values.astype(np.float32, copy=False)


def _bits(labels: Array) -> Array:
    """Return labels as float32 in integers; −0 is 0."""
    return (_as_float32(np.asarray(labels)) + np.float32(0)).view(np.uint32).astype(np.uint64)


# ------------------------------------------------------------------------------- sketch
#
# A sketch of the people a model was trained on, by which an audit recognises them.
#
# The k smallest hashes of a table are a random sample of its distinct rows that anybody can draw again: a row of
# another table whose hash is at most the largest one kept was trained on if and only if its hash is among those kept.
# So the overlap of two tables can be estimated from k numbers, whatever the order of rows. Other people's rows can be
# equal by chance, so a sketch also tells how often its own people have a twin, by how many groups they share.
#
# Rows of a few columns are few: whoever can hash a row can hash all that are possible, and read the sketch, labels
# included. A salt that stands beside the hashes does not help. So a model keeps none unless it is given a key, which
# it does not keep, and hashes what only the key can repeat (BLAKE2 with a key).


SKETCH_SIZE = 256
"""How many hashes a model keeps: 4 kB in its file. On as many people as were trained on, a share of one half is known
to 3 percentage points; an audit of 1/85 as many people still compares three of them, the fewest that can decide."""

SHORTEST_KEY = 16
"""In bytes; who has a model can try shorter ones."""

_LAST = 2**64 - 1


def read_row_key(given: Any) -> bytes:
    """Return the secret that ``row_key`` names, 32 bytes: what is in a file, or in an environment variable.

    It is never given itself, or it would be in pickles and tracebacks.
    """
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"row_key must be the name of a file, or 'env:NAME', got {type(given).__name__!r}.")
    where = os.fspath(given)
    if where.startswith("env:"):
        secret = os.environ.get(where[4:], "").encode()
    else:
        try:
            secret = Path(where).read_bytes()
        except OSError as error:
            raise ValueError(
                f"row_key: no key can be read from a file of that name ({error.strerror}). Name a file, or an "
                "environment variable as 'env:NAME'."
            ) from None
    secret = secret.strip()
    if len(secret) < SHORTEST_KEY:
        found = f"the key has {len(secret)} bytes" if secret else "there is no key"
        raise ValueError(
            f"row_key: {found} where it should be; it needs at least {SHORTEST_KEY}. Make one with "
            'python -c "import secrets; print(secrets.token_hex(32))".'
        )
    return hashlib.blake2b(secret, digest_size=32).digest()


@dataclass(frozen=True)
class RowSketch:
    """The smallest hashes of the distinct rows of a table, and how often its rows have a twin."""

    hashes: tuple[int, ...]
    """In ascending order."""
    complete: bool
    """Whether every row of the table is among them."""
    twins: tuple[float, ...]
    """The chance that somebody who shares 0, 1, … groups has the row of another, label included."""
    salt: str = ""
    """Other models have other hashes of the same people."""
    check: str = ""
    """By which the key is recognised; empty if there is none, and then a sketch never leaves the audit."""

    def __reduce__(self) -> Any:
        return pickled("RowSketch", vars(self))

    @classmethod
    def of(cls, people: VirtualTable, key: bytes | None = None, size: int = SKETCH_SIZE) -> RowSketch:
        """Sketch a table with one row per person, as they share it; a pure function of its rows and the key.

        Rows of weight 0 were not trained on and are left out.
        """
        hashes, shared = hash_people(people), shared_counts(people.rows.plan.available, people.rows.threads)
        weight = people.table.weight
        if weight is not None and not weight.all():
            hashes, shared = hashes[weight > 0], shared[weight > 0]
        # Equal rows share equally much, so twins can be looked for among those who do.
        distinct, twins = [], []
        for number in range(people.rows.consent.n_groups + 1):
            found, times = _distinct(hashes[shared == number])
            distinct.append(found)
            have_twins = times.sum() - (times == 1).sum()
            # A half where there is nobody. Rounded up, so that two models do not tell the row of who is in one of them.
            twins.append(min(999, math.ceil(1000 * (have_twins + 1) / (times.sum() + 2))) / 1000)
        rows = np.concatenate(distinct)
        salt = "" if key is None else hashlib.blake2b(rows.tobytes(), key=key, digest_size=8).hexdigest()
        check = "" if key is None else _keyed(key, salt).hexdigest()
        kept = cls((), False, tuple(twins), salt, check).hashes_of(rows, key)
        kept = kept if len(kept) <= size else np.partition(kept, size - 1)[:size]
        return cls(tuple(np.sort(kept).tolist()), len(kept) == len(rows), tuple(twins), salt, check)

    def hashes_of(self, rows: Array, key: bytes | None) -> Array:
        """Return what this sketch has in place of the hashes of rows; raise for another key than its own."""
        if key is None:
            return rows
        self.check_key(key)
        of_model = _keyed(key, self.salt)
        bits, digests = rows.astype("<u8").tobytes(), bytearray()
        for start in range(0, len(bits), 8):
            one = of_model.copy()
            one.update(bits[start : start + 8])
            digests += one.digest()
        return np.frombuffer(digests, dtype="<u8").astype(np.uint64)

    def check_key(self, key: bytes) -> None:
        """Raise for another key than that of the sketch: by it nobody would be recognised."""
        if _keyed(key, self.salt).hexdigest() != self.check:
            raise ValueError("row_key is another key than that with which the model was trained.")

    @property
    def threshold(self) -> int:
        """Up to here all hashes of the table are known."""
        return _LAST if self.complete or not self.hashes else self.hashes[-1]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; hashes as one hexadecimal text, since not every reader of JSON knows 64-bit integers."""
        return {**vars(self), "hashes": "".join(f"{one:016x}" for one in self.hashes), "twins": list(self.twins)}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> RowSketch:
        """Inverse of :meth:`to_dict`."""
        text = kept["hashes"]
        hashes = tuple(int(text[i : i + 16], 16) for i in range(0, len(text), 16))
        return cls(hashes, kept["complete"], tuple(kept["twins"]), kept["salt"], kept["check"])


def _keyed(key: bytes, salt: str) -> Any:
    return hashlib.blake2b(key=key, salt=bytes.fromhex(salt), digest_size=8)


def _distinct(hashes: Array) -> tuple[Array, Array]:
    """Return the distinct hashes in ascending order, and how often each occurs."""
    ordered = np.sort(hashes)
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


# ------------------------------------------------------------------------------- merging
#
# Merge virtual rows that are equal after masking into one, with the sum of their weights and the mean of their
# labels.
#
# For a loss that is linear in the label, Σ_i w_i·ℓ(s, y_i) = W·ℓ(s, ȳ) + const with W = Σ w_i and ȳ = Σ w_i·y_i / W.
# The gradient and hessian of the merged row are the sums over its parts, so the trees are those of the table before
# merging, up to rounding. Class labels have no mean, so only rows with the same class are merged. People are merged
# first: equal people have equal copies, so this does most of the work before any copy exists. Values are compared and
# not bins, although that would merge more: bins do not exist before the engine's dataset does.


logger = logging.getLogger("pucboost")

SAMPLE_ROWS = 20_000
WORTHWHILE = 0.5
"""``"auto"`` compacts if at most this share of a sample of rows is distinct."""


def _check_compactable(objective: Objective | None, table: SourceTable) -> None:
    """Raise if merging rows would change the model."""
    if objective is None:
        raise ValueError(
            "compact needs a built-in loss whose rows can be merged; pucboost does not know this objective."
        )
    if not objective.linear_in_label:
        raise ValueError(
            f"compact with objective {objective.name!r}: its loss is not linear in the label, so rows with different "
            "labels cannot be merged. Leave compact out."
        )
    if table.init_score is not None:
        raise ValueError("compact with init_score: equal rows with different initial scores cannot be merged.")


def wants_compaction(compact: Any, objective: Objective | None, table: SourceTable, shared: Array) -> bool:
    """Return ``compact`` if it is True or False; decide ``"auto"`` by the share of distinct rows in a sample."""
    if compact is False or compact is None:
        return False
    try:
        _check_compactable(objective, table)
    except ValueError:
        if compact is True:
            raise
        return False
    if compact is True:
        return True
    n = table.source.n_rows
    rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLE_ROWS)).astype(np.int64))
    sample = replace(table.subset(rows), available=None)
    n_cells, _ = _people_cells(sample, _extra(sample, shared[rows], objective), 1)
    factor = len(rows) / n_cells
    logger.info("compact='auto': %d of %d sampled rows are distinct, factor %.1f", n_cells, len(rows), factor)
    return n_cells <= WORTHWHILE * len(rows)


def _extra(table: SourceTable, shared: Array, objective: Objective | None) -> Array:
    """Return what distinguishes rows besides their values: the mask, and the class where labels have no mean."""
    if isinstance(objective, Softmax):
        return np.asarray(shared * np.uint64(0x9E3779B97F4A7C15) + table.label.astype(np.uint64))
    return shared


def _cells(blocks: Iterable[Array], n_rows: int, extras: Iterable[Array], threads: int) -> tuple[int, Array]:
    """Return the number of distinct rows (cells), and the cell of each row."""
    cell = np.empty(n_rows, dtype=np.int64)
    slots, keys = np.full(1 << 10, -1, dtype=np.int64), np.empty((1 << 9, 2), dtype=np.uint64)
    n_cells = start = 0
    for block, extra in zip(blocks, extras, strict=True):
        hashes = hash_block(block, extra, threads)
        slots, keys = _make_room(slots, keys, n_cells, n_cells + len(hashes))
        n_cells = assign_cells(hashes, start, slots, keys, n_cells, cell)
        start += len(hashes)
    return n_cells, cell


def _make_room(slots: Array, keys: Array, n_cells: int, needed: int) -> tuple[Array, Array]:
    """Return a hash table that is at most half full with ``needed`` cells."""
    if needed <= len(keys):
        return slots, keys
    capacity = 1 << (2 * needed - 1).bit_length()
    larger = np.empty((capacity // 2, 2), dtype=np.uint64)
    fresh = np.full(capacity, -1, dtype=np.int64)
    assign_cells(keys[:n_cells], 0, fresh, larger, 0, np.empty(n_cells, dtype=np.int64))
    return fresh, larger


def _first_of_each(cell: Array, n_cells: int) -> Array:
    """Return the first row of each cell; cells are numbered in the order of their first rows."""
    first = np.full(n_cells, len(cell), dtype=np.int64)
    np.minimum.at(first, cell, np.arange(len(cell)))
    return first


def _people_cells(table: SourceTable, extra: Array, threads: int) -> tuple[int, Array]:
    source, bounds = table.source, list(table.source.blocks())
    windows, extras = (source.window(lo, hi) for lo, hi in bounds), (extra[lo:hi] for lo, hi in bounds)
    return _cells(windows, source.n_rows, extras, threads)


def merge_people(
    table: SourceTable, shared: Array, objective: Objective | None, num_threads: int | None
) -> tuple[SourceTable, Array]:
    """Merge people with equal rows; return the smaller table and the masks of its rows."""
    n = table.source.n_rows
    n_cells, cell = _people_cells(table, _extra(table, shared, objective), thread_count(num_threads))
    first = _first_of_each(cell, n_cells)
    weight = np.ones(n) if table.weight is None else table.weight
    label, total = _merged(cell, n_cells, table.label, weight, first)
    merged = replace(
        table.subset(first), source=SubsetSource(table.source, first), label=label, weight=total, available=None
    )
    return merged, shared[first]


def _merged(cell: Array, n_cells: int, label: Array, weight: Array, first: Array) -> tuple[Array, Array]:
    """Return the weighted mean of the labels and the total weight of each cell."""
    total = np.bincount(cell, weights=weight, minlength=n_cells)
    mean = np.bincount(cell, weights=weight * label, minlength=n_cells) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, mean, label[first]), total


def merge_virtual_rows(virtual: VirtualTable, n_people: int, objective: Objective | None) -> MergedTable:
    """Merge virtual rows that are equal after masking.

    Weights are scaled so that a bag of ``n_people`` rows, or the whole table if it is smaller, has the total weight of
    plain training.
    """
    rows = virtual.rows
    label, weight = virtual.label().astype(np.float64), virtual.weight()
    weight = np.ones(len(rows)) if weight is None else weight.astype(np.float64)
    classes = label.astype(np.uint64) if isinstance(objective, Softmax) else np.zeros(len(rows), dtype=np.uint64)
    step = rows.batch_rows
    n_cells, cell = _cells(
        (batch for _, batch in rows.batches()),
        len(rows),
        (classes[start : start + step] for start in range(0, len(rows), step)),
        rows.threads,
    )
    first = _first_of_each(cell, n_cells)
    mean, total = _merged(cell, n_cells, label, weight, first)
    user_total = float(virtual.table.weight.sum()) if virtual.table.weight is not None else float(n_people)
    scale = user_total / total.sum() * max(1.0, n_cells / n_people) if total.sum() > 0 else 1.0
    factor = len(rows) / n_cells
    logger.info("compacted %d virtual rows of %d people to %d cells, factor %.1f", len(rows), n_people, n_cells, factor)
    return MergedTable(SelectedRows(rows, first), virtual.table, mean.astype(np.float32), total * scale, n_people)


def mean_hessian(objective: Objective, label: Array, weight: Array) -> float:
    """Return the mean hessian per person at the initial score: what one person adds to ``min_sum_hessian_in_leaf``."""
    start = np.asarray(objective.initial_score(label, weight), dtype=np.float64)
    score = np.ascontiguousarray(np.broadcast_to(start, (len(label), len(start)) if start.ndim else len(label)))
    _, hessian = objective.gradient(score, label)
    per_row = hessian.mean(axis=1) if hessian.ndim == 2 else hessian
    return float(np.average(per_row, weights=weight))
