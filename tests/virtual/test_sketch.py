"""The sketch of training rows: a pure function of people and key, whatever holds them."""

from __future__ import annotations

from pathlib import Path
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
from pucboost._virtual.merging import SKETCH_SIZE, RowSketch, hash_people, read_row_key
from pucboost._virtual.rows import VirtualTable, shown_table

OPTIONAL = [3, 4, 5]
KEY, OTHER_KEY = b"1" * 32, b"2" * 32


def people(X: Any, y: Any, threads: int = 1, available: Any = None, **more: Any) -> VirtualTable:
    source = row_source(X)
    consent = Consent.of(OPTIONAL, source)
    shared = consent.visible(source, available, zero_as_missing=False, num_threads=threads)
    return shown_table(SourceTable.of(source, y, name="X", **more), consent, shared, threads)


def sketch(X: Any, y: Any, key: bytes | None = KEY, **more: Any) -> RowSketch:
    return RowSketch.of(people(X, y, **more), key)


@pytest.fixture(scope="module")
def table() -> tuple[Any, Any]:
    return make_table(6000)


def test_the_smallest_hashes_of_all_rows(table: Any) -> None:
    X, y = table
    ours, all_of_them = sketch(X, y), RowSketch.of(people(X, y), KEY, 10_000)
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
    assert RowSketch.of(people(frame, y), KEY) == expected
    for size in (1000, 100_000):
        monkeypatch.setattr(virtual_rows, "BATCH_BYTES", size)
        monkeypatch.setattr(sources, "BLOCK_BYTES", size)
        assert sketch(X, y) == expected


def test_hashes_depend_on_the_key_and_on_everybody(table: Any) -> None:
    """Two models, with and without somebody, have no hash in common, so their difference is nobody's."""
    X, y = table
    found = [sketch(X, y), sketch(X, y, OTHER_KEY), sketch(X[1:], y[1:])]
    assert len({one.salt for one in found}) == len({one.check for one in found}) == 3
    assert not set(found[0].hashes) & set(found[1].hashes)
    assert not set(found[0].hashes) & set(found[2].hashes)
    assert found[0].twins == found[2].twins


def test_whoever_has_the_model_only_finds_nobody(table: Any) -> None:
    """Not even with the rows themselves, and with everything the sketch holds besides the key."""
    X, y = table
    kept, rows = sketch(X, y), hash_people(people(X, y))
    with pytest.raises(ValueError, match="row_key is another key than that with which the model was trained"):
        kept.hashes_of(rows, OTHER_KEY)
    assert not set(rows.tolist()) & set(kept.hashes)
    guessed = RowSketch(kept.hashes, kept.complete, kept.twins, kept.salt, sketch(X, y, OTHER_KEY).check)
    for key in (kept.salt.encode(), kept.check.encode(), bytes(32)):
        with pytest.raises(ValueError, match="another key"):
            guessed.hashes_of(rows, key)
    assert set(kept.hashes) <= set(kept.hashes_of(rows, KEY).tolist())


def test_keys_from_files_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "0123456789abcdef-a-secret"
    (tmp_path / "key").write_text(secret + "\n")
    monkeypatch.setenv("PUCBOOST_TEST_KEY", secret)
    monkeypatch.setenv("PUCBOOST_SHORT_KEY", "short")
    key = read_row_key("env:PUCBOOST_TEST_KEY")
    assert (len(key), key) == (32, read_row_key(tmp_path / "key"))
    for where, message in (
        ("env:PUCBOOST_SHORT_KEY", "row_key: the key has 5 bytes where it should be; it needs at least 16"),
        ("env:PUCBOOST_NO_KEY", "row_key: there is no key where it should be"),
        (secret, "row_key: no key can be read from a file of that name"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            read_row_key(where)
        assert secret not in str(caught.value)  # somebody gave the key itself
    with pytest.raises(TypeError, match="row_key must be the name of a file, or 'env:NAME', got 'bytes'"):
        read_row_key(secret.encode())


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
    everybody, unique = np.bincount(number[twice], minlength=4), np.bincount(number[100:], minlength=4)
    assert found.twins == pytest.approx((everybody - unique + 1) / (everybody + 2), abs=0.001)
    assert all(one == round(one, 3) for one in found.twins)
    few = sketch(np.tile(X[:5], (100, 1)), np.tile(y[:5], 100))
    assert few.complete
    assert len(few.hashes) == 5
    assert min(few.twins) >= 0.5


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


def test_every_training_keeps_the_people_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merged or not, drawn or not, anchored or not."""
    X, y = make_table(500)
    X = np.nan_to_num(X.round(1), nan=np.nan)
    X = np.vstack([X, X[:50]])
    y = np.r_[y, 1 - y[:50]]  # merged with people of another label
    given = {"optional": OPTIONAL, "objective": "binary", "seed": 3, **QUIET}
    monkeypatch.setenv("PUCBOOST_TEST_KEY", "0123456789abcdef-a-secret")
    where = "env:PUCBOOST_TEST_KEY"
    expected = sketch(X, y, read_row_key(where))
    params: list[dict[str, Any]] = [{}, {"num_threads": 2}, {"compact": True}, {"augmentation": "fixed"}]
    params += [{"engine": "xgboost"}, {"anchor": "base"}, {"anchor": "base", "anchor_strength": 1.0}]
    for more in params:
        model = puc.train({**given, **more, "row_key": where}, puc.Dataset(X, y), 2)
        assert model.puc_summary.row_hashes == expected, more
    with pytest.raises(ValueError, match="there is no key"):
        puc.train({**given, "row_key": "env:PUCBOOST_NO_KEY"}, puc.Dataset(X, y), 2)


def test_each_fold_keeps_its_own_people(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(bytes(range(65, 97)))
    key = tmp_path / "key"
    X, y = make_table(300)
    folds = [(np.arange(100, 300), np.arange(100)), (np.arange(200), np.arange(200, 300))]
    for compact in (False, True):
        params = {"optional": OPTIONAL, "objective": "binary", "compact": compact, "row_key": key, **QUIET}
        result = puc.cv(params, puc.Dataset(X, y), 2, folds=folds, return_cvbooster=True)
        for booster, (train, _) in zip(result["cvbooster"].boosters, folds, strict=True):
            assert booster.puc_summary.row_hashes == sketch(X[train], y[train], read_row_key(key))
