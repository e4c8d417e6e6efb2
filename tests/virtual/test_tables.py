"""Virtual tables and merged ones: rows, labels, weights and scores by loops; and the rows that scorers count."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from twins import masks as naive

from pucboost._consent import Consent
from pucboost._losses import Softmax
from pucboost._tables.sources import SourceTable, SubsetSource, row_source
from pucboost._virtual import rows as rows_module
from pucboost._virtual.merging import merge_people, merge_virtual_rows
from pucboost._virtual.plan import plan_masks
from pucboost._virtual.rows import MaskedRows, SelectedRows, SelectedTable, VirtualTable, erased_table, shown_table
from pucboost.metrics import given_shares, virtual_rows

N = 60
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.integers(0, 2, N), RNG.integers(0, 2, (N, 3))]).astype(float)
X[:, 1:][RNG.random((N, 3)) < 0.4] = np.nan
CONSENT = Consent.declare({"app": [1, 2], "blood": [3]}, ["age", "steps", "pulse", "blood"])
SHARED = np.array(naive.pack_shared(X, [[1, 2], [3]]), dtype=np.uint64)
LABEL, WEIGHT = RNG.integers(0, 3, N).astype(float), RNG.uniform(0.5, 2, N)
SOURCES = {"array": row_source(X), "subset": SubsetSource(row_source(X), np.arange(N))}


def virtual_table(source: str = "array", scheme: str = "balanced", weight: Any = WEIGHT, **more: Any) -> VirtualTable:
    rows = MaskedRows(SOURCES[source], CONSENT, plan_masks(SHARED, scheme, copies=1.7), num_threads=1)
    return VirtualTable(rows, SourceTable(SOURCES[source], LABEL, weight, **more))


def pairs(virtual: VirtualTable) -> list[tuple[int, int]]:
    plan = virtual.rows.plan
    return [
        (row, naive.copy_mask(plan.scheme, plan.seed, row, copy, int(SHARED[row])))
        for row in range(N)
        for copy in range(int(plan.copies[row]))
    ]


def erased(row: int, mask: int) -> list[float]:
    out = X[row].tolist()
    for group, columns in enumerate(([1, 2], [3])):
        for column in columns if not mask >> group & 1 else ():
            out[column] = np.nan
    return out


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("scheme", ["none", "exhaustive", "fixed", "balanced"])
def test_every_way_of_reading_gives_the_same_rows(source: str, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = virtual_table(source, scheme).rows
    wanted = np.array([erased(row, mask) for row, mask in pairs(virtual_table(source, scheme))])
    v = len(wanted)
    assert (len(rows), rows.shape) == (v, (v, 4))
    monkeypatch.setattr(rows_module, "BATCH_BYTES", 7 * 4 * 8)  # batches of seven rows
    assert rows.batch_rows == 7
    np.testing.assert_array_equal(rows.materialise(), wanted)
    for step in (None, 1, 11, 1000):
        starts, parts = zip(*((start, batch.copy()) for start, batch in rows.batches(step)), strict=True)
        assert list(starts) == list(range(0, v, step or 7))
        np.testing.assert_array_equal(np.concatenate(parts), wanted)
    for part in (slice(None), slice(5, 20), slice(20, 5), slice(-3, None), slice(None, None, 3), slice(9, 2, -2)):
        np.testing.assert_array_equal(rows[part], wanted[part])
    np.testing.assert_array_equal(rows[[4, 4, 0]], wanted[[4, 4, 0]])
    for one in (0, v - 1, -1, -v):
        np.testing.assert_array_equal(rows[one], wanted[one])
    for none in (v, -v - 1):
        with pytest.raises(IndexError, match="out of range"):
            rows[none]
    masks = np.array([mask for _, mask in pairs(virtual_table(source, scheme))])
    with_flags = rows.materialise(indicators=True)
    np.testing.assert_array_equal(with_flags[:, :4], wanted)
    np.testing.assert_array_equal(with_flags[:, 4:], np.column_stack([masks & 1, masks >> 1]))
    chosen = RNG.permutation(v)[:23]
    selected = SelectedRows(rows, chosen)
    assert (len(selected), selected.shape) == (23, (23, 4))
    np.testing.assert_array_equal(selected.materialise(indicators=True), with_flags[chosen])
    np.testing.assert_array_equal(selected.take(np.array([22, 3])), wanted[chosen[[22, 3]]])
    monkeypatch.setattr(rows_module, "BATCH_BYTES", 1)
    assert rows.batch_rows == 1


def test_what_belongs_to_each_virtual_row() -> None:
    for weight in (None, WEIGHT):
        scores = RNG.normal(size=(N, 3))
        virtual = virtual_table(weight=weight, init_score=scores)
        who = [row for row, _ in pairs(virtual)]
        copy = virtual.rows.plan.copy_weight
        user = np.ones(N) if weight is None else weight
        # Not sorted, one row twice, and not everybody.
        picked = np.array([len(who) - 1, 5, 5, 0, *range(7, 40)])
        table = SelectedTable.of(virtual, picked, virtual.table)
        assert (virtual.people, table.people) == (N, len({who[v] for v in picked}))
        for seed in range(20):
            some = np.random.default_rng(seed).choice(len(who), 12, replace=False)
            assert SelectedTable.of(virtual, some, virtual.table).people == len({who[v] for v in some})
        assert virtual.share_per_tree == pytest.approx(N / len(who))
        assert table.share_per_tree == pytest.approx(table.people / len(picked))
        assert virtual_table(scheme="none").share_per_tree == 1.0
        for found, index in ((virtual, np.arange(len(who))), (table, picked)):
            owners = [who[v] for v in index]
            assert len(found) == len(index)
            np.testing.assert_array_equal(found.label(), LABEL[owners])
            np.testing.assert_allclose(found.weight(0.5), 0.5 * (copy * user)[owners], rtol=1e-6)
            np.testing.assert_allclose(found.weight(), (copy * user)[owners], rtol=1e-6)
            np.testing.assert_allclose(found.copy_weight(0.5), 0.5 * copy[owners], rtol=1e-6)
            np.testing.assert_allclose(found.copy_weight(), copy[owners], rtol=1e-6)
            if weight is None:
                assert found.user_weight() is None
            else:
                np.testing.assert_allclose(found.user_weight(), user[owners], rtol=1e-6)
            np.testing.assert_array_equal(found.init_score(), scores[owners])
        flat = virtual_table(init_score=scores.T.ravel())  # class after class, as LightGBM has it
        np.testing.assert_array_equal(flat.init_score(), scores[who])
        assert virtual_table().init_score() is None
        assert SelectedTable.of(virtual_table(), picked, virtual_table().table).init_score() is None
        assert virtual.shares_something().tolist() == [mask != 0 for _, mask in pairs(virtual)]


def test_tables_that_show_what_is_asked() -> None:
    table = SourceTable(SOURCES["array"], LABEL)
    np.testing.assert_array_equal(erased_table(table, CONSENT, 1).rows[:], [erased(i, 0) for i in range(N)])
    masks = np.arange(N, dtype=np.uint64) % np.uint64(4)
    np.testing.assert_array_equal(
        shown_table(table, CONSENT, masks, 1).rows[:], [erased(i, int(masks[i])) for i in range(N)]
    )


def key(row: list[float], *more: Any) -> tuple[Any, ...]:
    return (*("missing" if value != value else value for value in row), *more)  # NaN is what is missing


@pytest.mark.parametrize("classes", [False, True], ids=["mean labels", "classes"])
@pytest.mark.parametrize("weighted", [False, True])
def test_merged_rows_by_a_dict(classes: bool, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells in the order of their first rows, with total weight and mean label; classes merge with themselves only."""
    monkeypatch.setattr(rows_module, "BATCH_BYTES", 7 * 4 * 8)  # batches of seven rows
    weight = WEIGHT * (np.arange(N) > 9) if weighted else None  # some of weight 0
    user = np.ones(N) if weight is None else weight
    objective = Softmax(3) if classes else None
    virtual = virtual_table(weight=weight)
    copy = virtual.rows.plan.copy_weight

    def collect(parts: Any) -> tuple[Any, Any, Any]:
        total: dict[Any, float] = defaultdict(float)
        labels: dict[Any, float] = defaultdict(float)
        first: dict[Any, float] = {}
        for cell, w, y in parts:
            total[cell] += w
            labels[cell] += w * y
            first.setdefault(cell, y)
        return list(total), np.array(list(total.values())), [
            labels[cell] / total[cell] if total[cell] > 0 else first[cell] for cell in total
        ]  # fmt: skip

    # Who shares what may differ between equal rows, where it is declared and not seen: these are not merged.
    declared = SHARED & np.arange(N, dtype=np.uint64)
    people = [(key(X[i].tolist(), int(declared[i]), LABEL[i] if classes else 0), user[i], LABEL[i]) for i in range(N)]
    cells, total, mean = collect(people)
    merged, shared = merge_people(virtual.table, declared, objective, 1)
    assert merged.source.n_rows == len(cells) < N
    np.testing.assert_array_equal(
        merged.source.window(0, len(cells)), [[np.nan if v == "missing" else v for v in cell[:4]] for cell in cells]
    )
    assert shared.tolist() == [cell[4] for cell in cells]
    np.testing.assert_allclose(merged.weight, total)
    np.testing.assert_allclose(merged.label, mean)

    copies = [
        (key(erased(row, mask), LABEL[row] if classes else 0), copy[row] * user[row], LABEL[row])
        for row, mask in pairs(virtual)
    ]
    cells, total, mean = collect(copies)
    for n_people in (N, 5):
        found = merge_virtual_rows(virtual, n_people, objective)
        assert len(found) == len(cells) < len(copies)
        np.testing.assert_array_equal(
            found.rows[:], [[np.nan if v == "missing" else v for v in cell[:4]] for cell in cells]
        )
        np.testing.assert_allclose(found.label(), mean, rtol=1e-6)
        # A bag of all people, or all cells if these are fewer, weighs what the people weigh.
        bag = min(n_people, len(cells))
        weighs = user.sum() if weighted else n_people
        np.testing.assert_allclose(found.weight(), total / total.sum() * weighs * len(cells) / bag, rtol=1e-5)
        np.testing.assert_allclose(found.weight(0.5), 0.5 * found.weight(), rtol=1e-6)
        assert found.people == n_people
        assert found.share_per_tree == min(1.0, n_people / len(cells))


def test_merged_rows_without_any_weight() -> None:
    found = merge_virtual_rows(virtual_table(weight=np.zeros(N)), N, None)
    assert found.weight().tolist() == [0.0] * len(found)


def test_virtual_rows_of_a_score_by_loops() -> None:
    shared = np.array([0, 1, 2, 3, 3, 1, 7], dtype=np.uint64)
    weight = np.array([1.0, 2.0, 3.0, 4.0, 0.0, 6.0, 7.0])
    shares = {3: 0.5, 8: 0.2, 0: 0.2, 2: 0.1}
    for max_masks, kept in ((9, [3, 0, 2]), (3, [3, 0, 2]), (2, [3, 0]), (1, [3])):  # nobody shares set 8
        cells = virtual_rows(shared, weight, shares, max_masks)
        assert [cell.mask for cell in cells] == kept
        for cell in cells:
            who = [i for i in range(7) if int(shared[i]) & cell.mask == cell.mask and weight[i] > 0]
            part = shares[cell.mask] / sum(shares[mask] for mask in kept)
            assert cell.rows.tolist() == who
            np.testing.assert_allclose(cell.weight, [part * weight[i] / sum(weight[who]) for i in who])
        assert sum(cell.weight.sum() for cell in cells) == pytest.approx(1)
    with pytest.raises(ValueError, match="Nobody in X shares any of the sets"):
        virtual_rows(shared, weight, {8: 1.0}, 9)


def test_frequencies_as_they_may_be_given() -> None:
    given = {"app": 1, ("app",): 2, "nothing": 2, (): 1, "everything": 5, "app + blood": 1, "blood": 0}
    assert list(given_shares(given, CONSENT).items()) == [(3, 6.0), (0, 3.0), (1, 3.0)]  # most frequent first
    assert given_shares({"blood": 0.0, "nothing": 1e-9}, CONSENT) == {0: 1e-9}
    for bad in (-0.1, np.inf, np.nan, "1", 1j):
        with pytest.raises(ValueError, match="must be a non-negative number"):
            given_shares({"app": bad}, CONSENT)
