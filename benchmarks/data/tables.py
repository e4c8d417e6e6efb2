"""The real tables of the studies, as the paper uses them.

Files come from the folder that the environment variable ``PUCBOOST_DATA`` names, else from ``shared/data`` beside the
checkout, else from OpenML where it has the same table. Quick runs never use the network: without a file they use a
small made-up table with the same columns.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import fetch_openml
from sklearn.model_selection import KFold, ShuffleSplit

import pucboost as puc
from benchmarks.harness.paths import ROOT
from benchmarks.harness.types import Array

from .sources import SOURCES, Source
from .stand_ins import QUICK_ROWS, stand_in

FEWEST_PEOPLE = 5  # with a word, in the table of a quick run


class DataMissingError(RuntimeError):
    """A table is neither on this machine nor available from OpenML."""


@dataclass(frozen=True)
class Task:
    """A table ready for training: people, labels, what is optional."""

    source: Source
    X: pd.DataFrame  # complete except for values missing by nature; numbers and categories
    y: Array

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self.source.name

    @property
    def is_classification(self) -> bool:
        """Return whether the label is a class."""
        return self.source.kind == "classification"

    def withhold_one(self, seed: int) -> tuple[pd.DataFrame, list[str]]:
        """Return the table with the one optional column partly withheld, and that column."""
        column, strength = self.source.single
        if strength is None:
            return self.X, [column]
        return puc.simulate.withhold_sigmoid(self.X, {column: strength}, seed), [column]

    def withhold_several(self, seed: int) -> tuple[pd.DataFrame, list[str]]:
        """Return the table with all optional columns partly withheld, λ = ± 1 / std, and those columns."""
        signs = dict(self.source.signs)
        return puc.simulate.withhold_sigmoid(self.X, puc.simulate.paper_strength(self.X, signs), seed), list(signs)

    def splits(self, seed: int, small: int = 10_000) -> list[tuple[Array, Array]]:
        """Split people: five folds for small tables, a fifth held out for others."""
        if len(self.y) < small:
            return list(KFold(5, shuffle=True, random_state=seed).split(self.y))
        return list(ShuffleSplit(1, test_size=0.2, random_state=seed).split(self.y))


def load(name: str, quick: bool = False) -> Task:
    """Return one of the paper's tables, ready for training."""
    source = SOURCES[name]
    table = read(name, quick)
    label = table[source.label]
    table = table.drop(columns=[source.label, *(column for column in source.drop if column in table)])
    known = label.notna()
    table, label = table[known], label[known]
    table = table.assign(**{column: (table[column] == word).astype(float) for column, word in source.ones.items()})
    y = np.asarray(source.read_label(label), dtype=np.float64)
    return Task(source, _as_numbers(table.reset_index(drop=True)), y)


@functools.lru_cache(maxsize=2)
def loaded(name: str, quick: bool) -> Task:
    """Return a table; consecutive units share one read."""
    return load(name, quick)


def _as_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers become floats; everything else becomes categories, in order of their names."""
    columns = {}
    for column in table:
        values = table[column]
        if pd.api.types.is_numeric_dtype(values):
            columns[column] = values.astype(np.float64)
        else:
            text = values.astype(str)
            columns[column] = pd.Series(pd.Categorical(text, sorted(text.unique())), index=table.index)
    return pd.DataFrame(columns)


def read(name: str, quick: bool = False) -> pd.DataFrame:
    """Return a table as it stands in its file; for a quick run some rows of it, or a stand-in."""
    path = find(name)
    if path is not None:
        table = _read_file(path).copy()
        return _few_rows(table) if quick else table
    return stand_in(name) if quick else _from_openml(name)


def _few_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return some rows for a quick run; words that hardly any of them has, such as most of 500 occupations, are one."""
    few = table.sample(min(QUICK_ROWS, len(table)), random_state=0, ignore_index=True)
    for column in few:
        if not pd.api.types.is_numeric_dtype(few[column]):
            words = few[column].astype(str)
            few[column] = words.where(words.map(words.value_counts()) >= FEWEST_PEOPLE, "other")
    return few


@functools.lru_cache(maxsize=4)
def _read_file(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path)


def find(name: str) -> Path | None:
    """Return where a table's file is, if it is on this machine."""
    folder = Path(os.environ.get("PUCBOOST_DATA") or ROOT.parent / "shared" / "data")
    path = folder / f"{name}.parquet"
    return path if path.is_file() else None


def _from_openml(name: str) -> pd.DataFrame:
    source = SOURCES[name]
    how = (
        f"Put {name}.parquet (column {source.label!r} and the others of its public source) into a folder and name that "
        "folder in the environment variable PUCBOOST_DATA."
    )
    if source.openml is None:
        raise DataMissingError(f"{name}.parquet was not found, and OpenML does not have this table. {how}")
    try:
        table = fetch_openml(data_id=source.openml, as_frame=True, parser="auto").frame
    except (OSError, ValueError) as error:
        raise DataMissingError(f"{name}.parquet was not found, and OpenML did not answer ({error}). {how}") from error
    table = table.rename(columns=dict(source.renamed))
    lacking = {source.label, source.single[0], *source.signs} - set(table.columns)
    if lacking:
        raise DataMissingError(f"OpenML's table {source.openml} lacks the columns {sorted(lacking)} of {name}. {how}")
    return table
