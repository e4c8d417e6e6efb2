"""The sketch of training rows: a pure function of people and seed, whatever holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from tools import QUIET, make_table

import pucboost as puc
from pucboost._consent import Consent
from pucboost._tables import sources
from pucboost._tables.sources import SourceTable, row_source
from pucboost._virtual import rows as virtual_rows
from pucboost._virtual.merging import SKETCH_SIZE, RowSketch, hash_people
from pucboost._virtual.rows import VirtualTable, shown_table

OPTIONAL = [3, 4, 5]


def people(X: Any, y: Any, threads: int = 1, available: Any = None, **more: Any) -> VirtualTable:
    source = row_source(X)
    consent = Consent.of(OPTIONAL, source)
    shared = consent.visible(source, available, zero_as_missing=False, num_threads=threads)
    return shown_table(SourceTable.of(source, y, name="X", **more), consent, shared, threads)


def sketch(X: Any, y: Any, seed: int = 0, **more: Any) -> RowSketch:
    return RowSketch.of(people(X, y, **more), seed)


@pytest.fixture(scope="module")
def table() -> tuple[Any, Any]:
    return make_table(6000)


def test_the_smallest_hashes_of_all_rows(table: Any) -> None:
    X, y = table
    ours, all_of_them = sketch(X, y), RowSketch.of(people(X, y), 0, None)
    assert len(set(all_of_them.hashes)) == 6000
    assert ours.hashes == tuple(sorted(all_of_them.hashes)[:SKETCH_SIZE])
    assert (ours.complete, all_of_them.complete) == (False, True)
    assert ours.threshold == ours.hashes[-1]
    assert all_of_them.threshold == 2**64 - 1
    # A random sample of the rows: uniform hashes, of which the 256th smallest of 6000 lies near 256/6001.
    assert ours.threshold / 2**64 == pytest.approx(256 / 6001, rel=0.25)


def test_neither_order_nor_threads_nor_blocks_nor_types_matter(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table
    X = X.astype(np.float32).astype(np.float64)
    expected, order = sketch(X, y), np.random.default_rng(0).permutation(len(y))
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["a"] = frame["a"].astype(np.float32)
    assert sketch(X[order], y[order]) == expected
    assert sketch(X, y, threads=4) == expected
    assert sketch(np.asfortranarray(X), y, threads=2) == expected
    assert sketch(X.astype(np.float32), y.astype(bool)) == expected
    assert RowSketch.of(people(frame, y), 0) == expected
    for size in (1000, 100_000):
        monkeypatch.setattr(virtual_rows, "BATCH_BYTES", size)
        monkeypatch.setattr(sources, "BLOCK_BYTES", size)
        assert sketch(X, y) == expected


def test_the_salt_depends_on_seed_and_number_of_people(table: Any) -> None:
    X, y = table
    salts = {sketch(X, y, seed).salt for seed in (0, 1, -1)} | {sketch(X[1:], y[1:]).salt}
    assert len(salts) == 4
    one, other = sketch(X, y, 0), sketch(X, y, 1)
    assert not set(one.hashes) & set(other.hashes)


def test_labels_cannot_be_guessed_from_a_sketch() -> None:
    """Who knows all features, and tries labels: for nine people in ten, both labels give the same sketch."""
    for n in (20, 300, 6000):
        X, y = make_table(n)
        kept = sketch(X, y)
        tried = min(n, 60)
        told = 0
        for i in range(tried):
            other = y.copy()
            other[i] = 1 - other[i]
            guess = sketch(X, other)
            assert (guess.salt, guess.people, guess.unique) == (kept.salt, kept.people, kept.unique)
            told += guess.hashes != kept.hashes
        assert told <= 0.3 * tried  # the true row is kept, or the false one would have been
        assert len(kept.hashes) <= n / 10


def test_rows_that_are_equal_to_a_model_have_equal_hashes() -> None:
    base = [1.0, 2.0, 0.0, np.nan, np.nan, 7.0]
    quiet_nan = np.frombuffer(np.uint64(0x7FF8000000000123).tobytes(), dtype=np.float64)[0]
    X = np.array([base, base, base, base, base])
    X[1, 2], X[2, 3], X[3, 0], X[4, 0] = -0.0, quiet_nan, 1.0 + 1e-12, 1.0 + 1e-6
    hashes = hash_people(people(X, [0.0, -0.0, 0, 0, 0]))
    assert len(set(hashes[:4].tolist())) == 1
    assert hashes[4] != hashes[0]
    assert hash_people(people(X[:1], [1.0]))[0] != hashes[0]
    huge = np.full((2, 6), 1e300)  # infinite as float32
    assert hash_people(people(huge, [1.0, 1.0]))[0] == hash_people(people(np.full((1, 6), np.inf), [1.0]))[0]


def test_what_is_not_shared_is_not_hashed(table: Any) -> None:
    """In a CSR matrix values that are not stored are zeros; ``available`` denies them."""
    X, y = table[0][:300], table[1][:300]
    available = ~np.isnan(X[:, OPTIONAL])
    matrix = sp.csr_matrix(np.nan_to_num(X, nan=0.0))
    assert sketch(matrix, y, available=available) == sketch(X, y)
    assert sketch(matrix, y) != sketch(X, y)


def test_equal_rows_count_once_and_tell_how_common_twins_are() -> None:
    X, y = make_table(400)
    twice = np.r_[np.arange(400), np.arange(100)]
    found = sketch(X[twice], y[twice])
    number = (~np.isnan(X[:, OPTIONAL])).sum(axis=1)
    assert found.people == tuple(np.bincount(number[twice], minlength=4).tolist())
    assert found.unique == tuple(np.bincount(number[100:], minlength=4).tolist())
    few = RowSketch.of(people(np.tile(X[:5], (100, 1)), np.tile(y[:5], 100)), 0, one_in=1)
    assert few.complete
    assert len(few.hashes) == 5
    assert sum(few.unique) == 0


def test_rows_of_weight_0_were_not_trained_on() -> None:
    X, y = make_table(600)
    weight = np.where(np.arange(600) < 200, 0.0, 2.0)
    whole, part = sketch(X, y, weight=weight), sketch(X[200:], y[200:])
    assert whole == part


def test_plain_data_and_back(table: Any) -> None:
    found = sketch(*table)
    kept = found.to_dict()
    assert RowSketch.from_dict(kept) == found
    assert len(kept["hashes"]) == 16 * SKETCH_SIZE
    assert all(isinstance(one, int) for one in found.hashes)


def test_every_training_keeps_the_people_themselves() -> None:
    """Merged or not, drawn or not, anchored or not."""
    X, y = make_table(500)
    X = np.nan_to_num(X.round(1), nan=np.nan)
    X = np.vstack([X, X[:50]])
    y = np.r_[y, 1 - y[:50]]  # merged with people of another label
    given = {"optional": OPTIONAL, "objective": "binary", "seed": 3, **QUIET}
    expected = sketch(X, y, 3)
    params: list[dict[str, Any]] = [{}, {"num_threads": 2}, {"compact": True}, {"augmentation": "fixed"}]
    params += [{"engine": "xgboost"}, {"anchor": "base"}, {"anchor": "base", "anchor_strength": 1.0}]
    for more in params:
        model = puc.train({**given, **more}, puc.Dataset(X, y), 2)
        assert model.puc_summary.training_sketch == expected, more
    without = puc.train({**given, "keep_row_hashes": False}, puc.Dataset(X, y), 2)
    assert without.puc_summary.training_sketch is None
    with pytest.raises(ValueError, match="keep_row_hashes must be True or False, got 'no'"):
        puc.train({**given, "keep_row_hashes": "no"}, puc.Dataset(X, y), 2)


def test_each_fold_keeps_its_own_people() -> None:
    X, y = make_table(300)
    folds = [(np.arange(100, 300), np.arange(100)), (np.arange(200), np.arange(200, 300))]
    for compact in (False, True):
        params = {"optional": OPTIONAL, "objective": "binary", "compact": compact, **QUIET}
        result = puc.cv(params, puc.Dataset(X, y), 2, folds=folds, return_cvbooster=True)
        for booster, (train, _) in zip(result["cvbooster"].boosters, folds, strict=True):
            kept = booster.puc_summary.training_sketch
            assert kept == sketch(X[train], y[train], booster.puc_summary.seed)
            assert sum(kept.people) == 200
