"""Feature tables in files: which columns are numbers and which categories, and all of them as one matrix."""

from __future__ import annotations

import difflib
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._arrays import Array
from .._engines import boosters_of
from .._models.schema import categories_of
from .files import Batch, DataError, TableFile
from .sources import ArraySource

if TYPE_CHECKING:
    import pyarrow as pa


MAX_CATEGORIES = 10_000
"""Text with more distinct values than this is taken for names, comments or the like."""

MEMORY_BYTES = 64 << 20
"""A larger matrix is kept in a temporary file."""

_DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{4})(\D|$)")


class Feature(Protocol):
    """One column of the matrix."""

    name: str

    def encode(self, batch: Batch) -> Array:
        """Return the column as numbers, NaN where it is missing."""


@dataclass
class Number:
    """A column of numbers."""

    name: str
    advice: str = ""

    def encode(self, batch: Batch) -> Array:
        """Return the numbers."""
        return batch.numbers(self.name, self.advice)


@dataclass
class Withheld:
    """A column the file does not have, because nobody shares it."""

    name: str

    def encode(self, batch: Batch) -> Array:
        """Return missing values."""
        return np.full(len(batch), np.nan)


@dataclass
class Known:
    """A column with the categories a model was trained on; other values are missing, and counted."""

    name: str
    categories: list[Any]
    n_unknown: int = 0
    first_unknown: str = ""

    def encode(self, batch: Batch) -> Array:
        """Return codes."""
        import pyarrow as pa

        if all(isinstance(category, (int, float)) for category in self.categories):
            # Of a DataFrame whose categories were numbers; 1 and 1.0 are the same.
            numbers = pa.array(batch.numbers(self.name), from_pandas=True)
            codes = _codes(numbers, pa.array([float(category) for category in self.categories], pa.float64()))
            given = numbers.is_valid()
        else:
            text = batch.text(self.name)
            codes = _codes(text, pa.array([str(category) for category in self.categories], pa.string()))
            given = text.is_valid()
        unknown = np.flatnonzero(np.isnan(codes) & given.to_numpy(zero_copy_only=False))
        if len(unknown) and not self.n_unknown:
            at = int(unknown[0])
            self.first_unknown = f"{batch.as_stored(self.name)[at].as_py()!r} in row {batch.first_row + at}"
        self.n_unknown += len(unknown)
        return codes


class Learned:
    """A column of a training file: numbers, or text whose categories are collected in order of appearance.

    Where the file does not tell, the first value that is not missing decides; a value of the other sort is an error.
    """

    def __init__(self, name: str, kind: str | None, declared: bool = False) -> None:
        self.name = name
        self._kind = "text" if declared else kind
        self._may_look_like_numbers = declared or kind == "text"
        self._seen: dict[str, int] = {}
        self._advice = f". Correct it, or read the column as text with --categorical {name}"

    def encode(self, batch: Batch) -> Array:
        """Return numbers or codes."""
        if self._kind is None:
            self._decide(batch)
        if self._kind is None:
            return np.full(len(batch), np.nan)
        if self._kind == "number":
            return batch.numbers(self.name, self._advice)
        import pyarrow as pa

        text = batch.text(self.name)
        self._collect(text, batch)
        return _codes(text, pa.array(list(self._seen), pa.string()))

    def _decide(self, batch: Batch) -> None:
        import pyarrow.compute as pc

        given = pc.is_valid(batch.text(self.name))
        at = int(pc.index(given, True).as_py())
        if at < 0:
            return
        value = batch.text(self.name)[at].as_py()
        if _looks_like_number(value):
            self._kind = "number"
        elif _DATE.match(value):
            raise DataError(
                f"{batch.where(at, self.name)}: {value!r} looks like a date. Convert it to a number, such as days "
                f"since a fixed date, or leave it out with --ignore {self.name}"
            )
        else:
            self._kind = "text"

    def _collect(self, text: pa.Array, batch: Batch) -> None:
        import pyarrow.compute as pc

        for value in pc.unique(text).to_pylist():
            if value is None or value in self._seen:
                continue
            if not self._may_look_like_numbers and _looks_like_number(value):
                at = int(pc.index(text, value).as_py())
                raise DataError(
                    f"{batch.where(at, self.name)}: {value!r} is a number, but the column began with text "
                    f"({next(iter(self._seen))!r}){self._advice}"
                )
            self._seen[value] = len(self._seen)
        if len(self._seen) > MAX_CATEGORIES:
            raise DataError(
                f"{batch.path}: column {self.name!r} is text with more than {MAX_CATEGORIES:,} distinct values, which "
                f"is too much for categories. Leave it out with --ignore {self.name}"
            )

    def settled(self) -> Number | Known:
        """Return what the column turned out to be; categories are sorted. A column without values is one of numbers."""
        if self._kind == "text":
            return Known(self.name, sorted(self._seen))
        return Number(self.name, ". The training data have numbers there")

    def order(self) -> Array | None:
        """Return the sorted code of each code given out by :meth:`encode`; None for numbers."""
        if self._kind != "text":
            return None
        rank = {category: code for code, category in enumerate(sorted(self._seen))}
        return np.array([rank[category] for category in self._seen], dtype=np.float64)


def _codes(values: pa.Array, categories: pa.Array) -> Array:
    """Return the place of each value among the categories, NaN where it is missing or none of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes = pc.index_in(values, value_set=categories).cast(pa.float64())
    return np.asarray(codes.to_numpy(zero_copy_only=False))


def _looks_like_number(value: str) -> bool:
    import pyarrow as pa

    text = value.strip().lower()
    try:
        pa.scalar(text).cast(pa.float64())
    except pa.ArrowInvalid:
        return text in ("true", "false")
    return True


class _Rows:
    """Rows of numbers as they come: in memory while they are few, then in a temporary file without a name."""

    def __init__(self, n_columns: int) -> None:
        self._n_rows, self._n_columns = 0, n_columns
        self._blocks: list[Array] = []
        self._file: Any = None

    def append(self, block: Array) -> None:
        self._n_rows += len(block)
        self._blocks.append(block)
        if self._file is None and self._n_rows * self._n_columns * 8 > MEMORY_BYTES:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
        if self._file is not None:
            try:
                for kept in self._blocks:
                    self._file.write(kept.data)
            except OSError as error:
                raise DataError(
                    f"the table does not fit into {tempfile.gettempdir()} ({error.strerror}); set TMPDIR to a "
                    "directory with more room"
                ) from None
            self._blocks = []

    def matrix(self) -> Array:
        if self._file is None:
            return np.concatenate(self._blocks)
        self._file.flush()
        mapped = np.memmap(self._file, np.float64, "r+", shape=(self._n_rows, self._n_columns))
        self._file.close()  # the mapping remains; with it goes the file
        return np.asarray(mapped)


@dataclass(frozen=True)
class FileTable:
    """A table file as numbers."""

    source: ArraySource
    features: list[Feature]
    """How each column was read; a second file read with these gets the same codes."""
    label: Array
    weight: Array | None


def read_table(
    file: TableFile,
    features: Sequence[Feature],
    label: str,
    weight: str | None = None,
    report: Callable[[float], None] = lambda share: None,
) -> FileTable:
    """Read features, label and weight of everybody in a file; the matrix may be larger than memory.

    Parameters
    ----------
    file
        The file, read once.
    features
        How each column is to be read.
    label, weight
        Columns of numbers.
    report
        Is told the share of the file that was read.
    """
    rows = _Rows(len(features))
    labels, weights = [], []
    wanted = [feature.name for feature in features if not isinstance(feature, Withheld)]
    for batch in file.batches([*wanted, label, *([] if weight is None else [weight])], report):
        rows.append(encode(features, batch))
        labels.append(_read_label(batch, label))
        if weight is not None:
            weights.append(_read_weight(batch, weight))
    matrix = rows.matrix()
    _recode(matrix, features)
    settled = [feature.settled() if isinstance(feature, Learned) else feature for feature in features]
    return FileTable(
        source=_source(matrix, settled),
        features=settled,
        label=np.concatenate(labels),
        weight=np.concatenate(weights) if weights else None,
    )


def encode(features: Sequence[Feature], batch: Batch) -> Array:
    """Return a batch as a matrix."""
    block = np.empty((len(batch), len(features)))
    for j, feature in enumerate(features):
        block[:, j] = feature.encode(batch)
    return block


def _source(matrix: Array, features: Sequence[Feature]) -> ArraySource:
    """Return the matrix with its category columns declared as LightGBM and XGBoost are used to from DataFrames."""
    source = ArraySource(matrix, [feature.name for feature in features])
    source.coded = source.categorical = [j for j, feature in enumerate(features) if isinstance(feature, Known)]
    source.pandas_categorical = [feature.categories for feature in features if isinstance(feature, Known)]
    return source


def _recode(matrix: Array, features: Sequence[Feature]) -> None:
    """Replace codes in order of appearance by codes in sorted order."""
    orders = {j: feature.order() for j, feature in enumerate(features) if isinstance(feature, Learned)}
    changed = {j: order for j, order in orders.items() if order is not None and (np.diff(order) < 0).any()}
    step = 1 << 16
    for lo in range(0, len(matrix) if changed else 0, step):
        for j, order in changed.items():
            codes = matrix[lo : lo + step, j]
            given = ~np.isnan(codes)
            codes[given] = order[codes[given].astype(np.int64)]


def _read_label(batch: Batch, label: str) -> Array:
    values = batch.numbers(label, ". Labels must be numbers: encode the outcome, for example as 0 and 1")
    _check(~np.isfinite(values), values, batch, label, "every row needs a label that is a finite number")
    return values


def _read_weight(batch: Batch, weight: str) -> Array:
    values = batch.numbers(weight, ". Weights must be numbers")
    bad = ~(np.isfinite(values) & (values >= 0))
    _check(bad, values, batch, weight, "every row needs a weight that is finite and not negative")
    return values


def _check(bad: Array, values: Array, batch: Batch, column: str, expected: str) -> None:
    at = np.flatnonzero(bad)
    if len(at):
        found = "missing" if np.isnan(values[at[0]]) else f"{values[at[0]]:g}"
        raise DataError(f"{batch.where(int(at[0]), column)}: the value is {found}; {expected}")


def check_columns(file: TableFile, wanted: Iterable[str], option: str) -> None:
    """Raise for the first column that a file does not have, and say which one may be meant."""
    for column in wanted:
        if column not in file.columns:
            raise DataError(f"{file.path} has no column {column!r} ({option}){similar(column, file.columns)}")


def similar(column: str, columns: Sequence[str]) -> str:
    """Return the end of an error about an unknown column: those with a similar name, or some of all."""
    by_lower = {name.lower(): name for name in columns}
    close = [by_lower[name] for name in difflib.get_close_matches(column.lower(), by_lower)]
    if close:
        return f"; did you mean {' or '.join(map(repr, close))}?"
    return f"; its columns are {', '.join(columns[:10])}{', …' if len(columns) > 10 else ''}"


def category_columns(model: Any, feature_names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the categories of each category column a model was trained on.

    Of a LightGBM model without a summary, or of an earlier version, it is only known which columns were named in the
    parameter ``categorical_feature``.
    """
    categories = categories_of(model)
    if categories is None or not categories.values:
        return {}
    positions = categories.columns
    if positions is None:
        trees = getattr(model, "booster", model)  # an anchored model has its trees in there
        positions = boosters_of(trees).named_categorical_columns(trees)
    if len(positions) != len(categories.values):
        raise DataError(
            "the model was trained on a DataFrame with ordered categories, or with a categorical_feature of its own, "
            "and does not tell which columns have which categories; use puc.predict or puc.quote in Python"
        )
    return {feature_names[j]: list(values) for j, values in zip(positions, categories.values, strict=True)}
