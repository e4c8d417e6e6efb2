"""How each column of a table file becomes numbers: as numbers, as category codes, or as missing values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._common import Array
from .batches import Batch, is_text
from .files import DataError
from .frame_columns import other_than_in_training
from .identifying_text import WITH_COMMA
from .names import quoted

if TYPE_CHECKING:
    import pyarrow as pa


MAX_CATEGORIES = 10_000
"""A text column with more distinct values than this probably holds names or comments."""

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
    """A column that is not in the file, because nobody shares it."""

    name: str

    def encode(self, batch: Batch) -> Array:
        """Return missing values."""
        return np.full(len(batch), np.nan)


@dataclass
class OtherKind:
    """A column of another kind than in training: of missing values, or else an error."""

    name: str
    categories: list[Any] | None
    """The categories of training, None if there were numbers."""

    def encode(self, batch: Batch) -> Array:
        """Return missing values, or raise."""
        given = np.flatnonzero(batch.text(self.name).is_valid().to_numpy(zero_copy_only=False))
        if len(given):
            error = other_than_in_training(self.name, batch.as_stored(self.name).type, self.categories)
            raise DataError(f"{batch.where(int(given[0]), self.name)}: {error}")
        return np.full(len(batch), np.nan)


@dataclass
class Known:
    """A column with the categories a model was trained on; other values are counted and read as missing."""

    name: str
    categories: list[Any]
    ordered: bool = False
    n_unknown: int = 0
    first_unknown: str = ""

    def encode(self, batch: Batch) -> Array:
        """Return codes."""
        import pyarrow as pa

        if all(isinstance(category, (int, float)) for category in self.categories):
            # From a DataFrame whose categories were numbers: 1 and 1.0 are the same.
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
            self.first_unknown = f"{quoted(batch.as_stored(self.name)[at].as_py())} in row {batch.first_row + at}"
        self.n_unknown += len(unknown)
        return codes


@dataclass(frozen=True)
class Remedies:
    """What an error about a column of a training file advises, in words of who called; ``{}`` is the column."""

    read_as_text: str = "read the column as text with --categorical {}"
    leave_out: str = "leave it out with --ignore {}"


COMMAND_LINE = Remedies()
PYTHON = Remedies("convert the whole column to text", "leave it out of feature_name")


class Learned:
    """A column of a training file: numbers, or text whose categories are collected in order of appearance.

    If the file itself does not say which, the first value that is not missing decides. A value of the other kind is
    then an error.

    Parameters
    ----------
    name
        The column.
    kind
        What the file says about it: ``"number"``, ``"text"`` or None.
    declared
        The user says that it holds categories.
    dictionary
        Whether the type of the column declares its categories: ``"categories"``, ``"ordered"`` if they have an order.
        They then count as declared, in their order, as long as all parts of the file declare the same.
    remedies
        What errors advise.
    """

    def __init__(
        self,
        name: str,
        kind: str | None,
        declared: bool = False,
        *,
        dictionary: str | None = None,
        remedies: Remedies = COMMAND_LINE,
    ) -> None:
        self.name = name
        self._kind = "text" if declared else kind
        self._may_look_like_numbers = declared or kind == "text"
        self._seen: dict[str, int] = {}
        self._values: dict[str, Any] = {}
        """The values of a dictionary that holds something else than text, by their text."""
        self._dictionary = dictionary
        self._declared: list[str] | None = None
        self._leave_out = remedies.leave_out.format(name)
        self._advice = f". Correct it, or {remedies.read_as_text.format(name)}"

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
        elif WITH_COMMA.fullmatch(value):
            raise DataError(
                f"{batch.where(at, self.name)}: {quoted(value)} looks like a number with a decimal comma. Write "
                f"numbers with a decimal point{self._advice.replace('Correct it, or', 'Or')}"
            )
        elif _DATE.match(value):
            raise DataError(
                f"{batch.where(at, self.name)}: {quoted(value)} looks like a date. Convert it to a number, such as "
                f"days since a fixed date, or {self._leave_out}"
            )
        else:
            self._kind = "text"

    def _collect(self, text: pa.Array, batch: Batch) -> None:
        import pyarrow.compute as pc

        self._remember_dictionary(batch.as_stored(self.name))
        for value in pc.unique(text).to_pylist():
            if value is None or value in self._seen:
                continue
            if not self._may_look_like_numbers and _looks_like_number(value):
                at = int(pc.index(text, value).as_py())
                raise DataError(
                    f"{batch.where(at, self.name)}: {quoted(value)} is a number, but the column began with "
                    f"text{self._advice}"
                )
            self._seen[value] = len(self._seen)
        if len(self._seen) > MAX_CATEGORIES:
            raise DataError(
                f"{batch.path}: column {self.name!r} is text with more than {MAX_CATEGORIES:,} distinct values, too "
                f"many for categories. {self._leave_out[0].upper()}{self._leave_out[1:]}"
            )

    def _remember_dictionary(self, values: pa.Array) -> None:
        """Keep what the type of the column declares; forget it if another part of the file declares something else."""
        import pyarrow as pa

        if not pa.types.is_dictionary(values.type):
            return
        text = values.dictionary.cast(pa.string()).to_pylist()
        if not is_text(values.type.value_type):
            self._values.update(zip(text, values.dictionary.to_pylist(), strict=True))
        if self._dictionary is None or text == self._declared:
            return
        if self._declared is not None and self._dictionary == "ordered":
            raise DataError(
                f"column {self.name!r} has ordered categories, but parts of the table declare different ones, so the "
                "order is not known"
            )
        self._declared = text if self._declared is None else None
        self._dictionary = None if self._declared is None else self._dictionary

    @property
    def _categories(self) -> list[str]:
        """The declared categories in their order, or those that were found, sorted."""
        if self._declared is not None:
            return self._declared
        return sorted(self._seen, key=lambda text: self._values.get(text, text))

    def settled(self) -> Number | Known:
        """Return what the column turned out to be. A column without values holds numbers."""
        if self._kind == "text" and self._categories:
            values = [self._values.get(text, text) for text in self._categories]
            return Known(self.name, values, ordered=self._dictionary == "ordered")
        return Number(self.name, ". The training data have numbers there")

    def order(self) -> Array | None:
        """Return the final code for each code that :meth:`encode` gave out; None for numbers."""
        if self._kind != "text":
            return None
        rank = {category: code for code, category in enumerate(self._categories)}
        return np.array([rank[category] for category in self._seen], dtype=np.float64)


def _codes(values: pa.Array, categories: pa.Array) -> Array:
    """Return the position of each value among the categories, NaN if it is missing or none of them."""
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


def encode(features: Sequence[Feature], batch: Batch) -> Array:
    """Return a batch as a matrix."""
    block = np.empty((len(batch), len(features)))
    for j, feature in enumerate(features):
        block[:, j] = feature.encode(batch)
    return block
