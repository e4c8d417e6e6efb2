"""Tables are found, prepared, withheld from and split, or their absence is explained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import data


def test_tables_from_files(folder: Path) -> None:
    for name, source in data.SOURCES.items():
        table = data.stand_in(name, 300)
        table.to_parquet(folder / f"{name}.parquet")
        task = data.load(name)
        assert source.label not in task.X
        assert not set(source.drop) & set(task.X.columns)
        assert all(isinstance(kind, pd.CategoricalDtype) or kind == np.float64 for kind in task.X.dtypes)
        assert not np.isnan(task.y).any()
        if source.kind == "classification":
            assert set(task.y) == {0.0, 1.0}
        elif source.kind == "regression":
            assert source.to_natural is (np.expm1 if name == "insurance_hi" else np.exp)
            assert np.allclose(source.to_natural(task.y), table[source.label])
        assert len(data.load(name, quick=True).y) <= data.QUICK_ROWS


@pytest.mark.parametrize("name", data.PAPER)
def test_withholding(folder: Path, name: str) -> None:
    task = data.load(name, quick=True)
    X, optional = task.withhold_one(seed=3)
    assert 0.1 < X[optional[0]].isna().mean() < 0.9
    assert task.withhold_one(seed=3)[0].equals(X)
    assert X.drop(columns=optional).equals(task.X.drop(columns=optional))
    if name in data.INDUCED:
        assert task.X[optional].notna().all().all()
        if name != "insurance_hi":  # there λ is so strong that nothing is left to chance
            assert not task.withhold_one(seed=4)[0].equals(X)
        several, columns = task.withhold_several(seed=3)
        assert columns == list(task.source.signs)
        assert several[columns].isna().any().all()


def test_people_are_split(folder: Path) -> None:
    task = data.load("compas", quick=True)
    for small in (10_000, 10):
        held_out = [test for train, test in task.splits(0, small) if not set(train) & set(test)]
        assert len(held_out) == (5 if small > 10 else 1)
    assert sorted(np.concatenate([test for _, test in task.splits(0)])) == list(range(len(task.y)))


def test_missing_tables_are_explained(folder: Path) -> None:
    with pytest.raises(data.DataMissingError, match=r"compas\.parquet was not found.*PUCBOOST_DATA"):
        data.load("compas")
    with pytest.raises(
        data.DataMissingError, match=r"adult\.parquet was not found, and OpenML did not answer.*network"
    ):
        data.load("adult")


def test_tables_from_openml(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = data.SOURCES["diabetes"]
    back = {name: theirs for theirs, name in source.renamed.items()}
    table = data.stand_in("diabetes", 50)
    theirs = table.rename(columns=back)
    theirs["class"] = np.where(table["Outcome"] == 1, "tested_positive", "tested_negative")

    class Bunch:
        frame = theirs

    monkeypatch.setattr(data, "fetch_openml", lambda **_: Bunch)
    assert np.array_equal(data.load("diabetes").y, table["Outcome"])
    Bunch.frame = theirs.drop(columns="plas")
    with pytest.raises(data.DataMissingError, match=r"lacks the columns \['Glucose'\] of diabetes"):
        data.load("diabetes")
