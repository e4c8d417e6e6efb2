"""The one reader of columns: what a column of a DataFrame, an Arrow table or a file holds, and how it becomes numbers.

A column holds numbers, categories or nothing (:func:`kind_of`). A reader turns parts of a column, series of narwhals,
into numbers. There are six: :class:`Numbers`; :class:`Codes` by given categories; :class:`Learned` for a training table
that is read only once; :class:`FirstValueDecides` for a training file without types; :class:`OtherKind` for a column
that was something else in training; :class:`Absent`. The last section warns of text that identifies people.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache, cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common import Array, quoted, warn
from ..warnings import IdentifyingTextWarning
from .sources import Categories, ColumnTypes, RowSource, check_unique, has_other_integer_labels

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa

logger = logging.getLogger("pucboost")

NUMBERS, CATEGORIES, NOTHING = "numbers", "categories", "nothing"
"""What a column can hold; nothing if all its values are missing and its type says no more."""

MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
"""What stands for a missing value in a file of text, and in text that is read as numbers."""

BLOCK_ROWS = 1 << 16
"""How many values of a column are read at a time while its kind or its categories are unknown."""


class ColumnError(ValueError):
    """A column cannot be read. ``row`` is the first one at fault within the part, None if the whole column is."""

    def __init__(self, message: str, column: str = "", row: int | None = None) -> None:
        super().__init__(message)
        self.column, self.row = column, row


# What a column holds --------------------------------------------------------------------------------------------------


def kind_of(name: str, series: nw.Series[Any]) -> str:
    """Return what a column holds, or raise if it is neither numbers nor categories."""
    import narwhals as nw

    own = native_dtype(series)
    if isinstance(own, np.dtype) and own.kind == "O":
        return _kind_of_objects(name, series.to_native())
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        return NUMBERS
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        values = str(getattr(own, "value_type", "string")).removeprefix("large_")  # those of an Arrow dictionary
        if values.startswith(("string", "int", "uint", "float", "double", "halffloat", "bool", "null")):
            return CATEGORIES
    if dtype == nw.Unknown:
        kind = getattr(own, "type", None)
        is_sparse = isinstance(kind, type) and issubclass(kind, (np.integer, np.floating, np.bool_))  # of pandas
        if is_sparse or str(own).startswith("decimal"):
            return NUMBERS
        if str(own).lower() == "null" or 0 < len(series) == series.null_count():
            return NOTHING
    raise ColumnError(
        f"Column {name!r} has dtype {own}; columns must be numbers, booleans, text or categories. Convert it (a "
        "date, for example, to days since a fixed date), or leave it out.",
        name,
    )


def _kind_of_objects(name: str, column: Any) -> str:
    """Return what the Python objects of a pandas column are; all of them must be of one kind."""
    first: tuple[int, Any, str] | None = None
    for lo, hi in blocks_of(len(column)):
        part = column.iloc[lo:hi]
        given = np.flatnonzero(part.notna().to_numpy())
        kinds = {_kind_of_type(kind) for kind in set(map(type, part.array[given]))}
        if first is not None and kinds <= {first[2]}:
            continue
        for at in given.tolist():
            row, value = lo + at, part.iloc[at]
            kind = _kind_of_type(type(value))
            if kind == NOTHING:
                raise ColumnError(
                    f"Column {name!r} holds a {type(value).__name__} in row {row} ({quoted(value)}); columns must be "
                    "numbers, booleans, text or categories. Convert it, or leave it out.",
                    name,
                    row,
                )
            first = first or (row, value, kind)
            if kind != first[2]:
                raise ColumnError(
                    f"Column {name!r} mixes text and numbers: row {first[0]} holds {quoted(first[1])}, row {row} "
                    f"{quoted(value)}. Make it one or the other, for example with astype(str).",
                    name,
                    row,
                )
            if kinds == {kind}:
                break
    return NOTHING if first is None else first[2]


def _kind_of_type(kind: type) -> str:
    if issubclass(kind, str):
        return CATEGORIES
    # To numpy, time differences are integers.
    is_number = issubclass(kind, (Real, Decimal, np.bool_)) and not issubclass(kind, np.timedelta64)
    return NUMBERS if is_number else NOTHING


def native_dtype(series: nw.Series[Any]) -> Any:
    native = series.to_native()
    return getattr(native, "dtype", getattr(native, "type", None))


def is_pandas_category(series: nw.Series[Any]) -> bool:
    return hasattr(series.to_native(), "iloc") and hasattr(native_dtype(series), "categories")


def has_order(series: nw.Series[Any]) -> bool:
    """Return whether the type of a column orders its categories.

    Conversion turns an Enum of polars into an ordered dictionary of Arrow or an ordered category of pandas, so an Enum
    counts as ordered.
    """
    import narwhals as nw

    return isinstance(series.dtype, nw.Enum) or bool(getattr(native_dtype(series), "ordered", False))


def blocks_of(n_rows: int) -> Iterator[tuple[int, int]]:
    for lo in range(0, n_rows, BLOCK_ROWS):
        yield lo, min(lo + BLOCK_ROWS, n_rows)


def pandas_notes(schema: Any, name: str) -> list[Any]:
    """Return a list from the metadata that pandas leaves in an Arrow schema; an empty one if it cannot be read."""
    try:
        notes = getattr(schema, "pandas_metadata", None)
    except ValueError:  # damaged, or not JSON
        return []
    found = notes.get(name) if isinstance(notes, dict) else None
    return found if isinstance(found, list) else []


def pandas_categories(schema: Any) -> set[str]:
    """Return the columns of an Arrow schema that were categories of a pandas table."""
    columns = [column for column in pandas_notes(schema, "columns") if isinstance(column, dict)]
    return {str(column.get("field_name")) for column in columns if column.get("pandas_type") == "categorical"}


# Parts of a column as numbers, as text, as a dictionary ---------------------------------------------------------------


def floats(part: nw.Series[Any]) -> Array:
    """Return numbers or booleans as a numpy array, NaN where they are missing."""
    import narwhals as nw

    native = part.to_native()
    if hasattr(native, "iloc"):
        if isinstance(native.dtype, np.dtype) and native.dtype.kind != "O":
            return np.asarray(native.to_numpy())
        return np.asarray(native.to_numpy(dtype=np.float64, na_value=np.nan))
    if part.dtype in (nw.Int128, nw.UInt128):  # Arrow has no such type
        part = part.cast(nw.Float64)
    return _floats_of_arrow(_whole(part))


def _floats_of_arrow(values: pa.Array) -> Array:
    import pyarrow as pa

    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())  # Arrow's own cast of decimals to floats is off in the last bit
    # Unsafe, so that integers above 2^53 are rounded, as everywhere.
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def as_numbers(name: str, part: nw.Series[Any], ending: str = "") -> Array:
    """Return a part as :func:`floats` does, where text may stand for numbers; true and false are 1 and 0.

    ``ending`` ends the error about a value that is not a number.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    values = _decoded(part)
    if not _is_text(values.type):
        return _floats_of_arrow(values)
    try:
        return _floats_of_arrow(values)
    except pa.ArrowInvalid:
        pass  # there are spaces, words for missing values or for true and false, or something else
    text = without_missing(pc.utf8_trim_whitespace(values.cast(pa.string())))
    truth = pc.index_in(pc.utf8_lower(text), value_set=pa.array(["false", "true"])).cast(pa.float64())
    rest = pc.if_else(pc.is_valid(truth), pa.scalar(None, pa.string()), text)
    try:
        return np.asarray(pc.coalesce(truth, rest.cast(pa.float64())).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        row = first_failure(rest, lambda some: some.cast(pa.float64()))
    raise ColumnError(f"{quoted(text[row].as_py())} is not a number{ending}", name, row)


def as_text(part: nw.Series[Any]) -> pa.Array:
    """Return a part as text, null where it is missing."""
    import pyarrow as pa

    values = _decoded(part)
    if pa.types.is_floating(values.type):  # NaN is missing, not a category
        values = pa.array(values.to_numpy(zero_copy_only=False), from_pandas=True)
    return values.cast(pa.string())


def as_dictionary(part: nw.Series[Any] | pa.Array) -> tuple[Array, Any]:
    """Return categories as positions in a list, −1 where they are missing, and the list, of pandas or Arrow."""
    import pyarrow as pa

    if isinstance(part, pa.Array):
        values = part
    elif is_pandas_category(part):
        native = part.to_native()
        return native.cat.codes.to_numpy(), native.cat.categories
    else:
        values = _whole(part)
    if not pa.types.is_dictionary(values.type):
        if pa.types.is_string_view(values.type):  # which Arrow cannot encode
            values = values.cast(pa.large_string())
        values = values.dictionary_encode()
    indices = values.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return indices, values.dictionary


def without_missing(text: pa.Array) -> pa.Array:
    """Return text with null where it stands for a missing value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.is_in(text, value_set=pa.array(MISSING)), pa.scalar(None, pa.string()), text)


def first_failure(values: pa.Array, convert: Callable[[pa.Array], Any]) -> int:
    """Return the position of the first value that cannot be converted, by bisection."""
    import pyarrow as pa

    lo, hi = 0, len(values)
    while hi - lo > 1:
        middle = (lo + hi) // 2
        try:
            convert(values[lo:middle])
            lo = middle
        except pa.ArrowInvalid:
            hi = middle
    return lo


def _whole(part: nw.Series[Any]) -> pa.Array:
    import pyarrow as pa

    native = part.to_native()
    if isinstance(native, pa.ChunkedArray) and native.num_chunks == 1:
        return native.chunk(0)
    values = part.to_arrow()
    # Text that pandas has read from several files comes in chunks.
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _decoded(part: nw.Series[Any]) -> pa.Array:
    import pyarrow as pa

    values = _whole(part)
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


# Readers --------------------------------------------------------------------------------------------------------------


class Column:
    """How the parts of a column become numbers; ``advice`` ends errors about a column of a file."""

    n_unknown = 0
    """How many values were none of the categories of training."""

    def __init__(self, name: str, advice: str = "") -> None:
        self.name, self.advice = name, advice

    def encode(self, part: nw.Series[Any]) -> Any:
        """Return some rows as numbers, NaN where they are missing."""
        raise NotImplementedError


class Absent(Column):
    """A column without values, or one that the table does not have: nobody shares it."""

    def encode(self, part: nw.Series[Any]) -> Any:
        return np.nan


class Numbers(Column):
    """A column of numbers or booleans; in a file they may be written as text."""

    def encode(self, part: nw.Series[Any]) -> Array:
        import narwhals as nw

        return as_numbers(self.name, part) if part.dtype in (nw.String, nw.Categorical, nw.Enum) else floats(part)


class OtherKind(Column):
    """A column of another kind than in training, where ``categories`` were expected or, if these are None, numbers.

    It fits as long as nobody shares it. It raises only when a value is read, so that a wrong order of columns is
    reported first.
    """

    def __init__(self, name: str, categories: Sequence[Any] | None) -> None:
        super().__init__(name)
        self._categories = categories

    def encode(self, part: nw.Series[Any]) -> Any:
        if self._categories is None:
            given = ~np.asarray(part.is_null().to_numpy(), dtype=bool)
        else:
            given = ~np.isnan(np.asarray(floats(part), dtype=np.float64))
        if not given.any():
            return np.nan
        if self._categories is None:
            here, there = f"text or categories (dtype {native_dtype(part)})", "numbers"
            advice = "Give every table the same column types."
        else:
            here, there = f"numbers (dtype {native_dtype(part)})", f"categories ({_some(self._categories)})"
            advice = "Give the categories themselves, as text or in a column of a category type."
        raise ColumnError(
            f"Column {self.name!r} holds {here}, but {there} in the training table or other parts of it. {advice}",
            self.name,
            int(np.argmax(given)),
        )


class Codes(Column):
    """A column of text or categories, read as positions among given categories; any other value is missing.

    If it ``converts``, text stands for numbers where the categories are numbers, and the reverse, as in a file without
    types. ``ordered`` is kept for the caller.
    """

    def __init__(self, name: str, categories: Sequence[Any], *, ordered: bool = False, converts: bool = False) -> None:
        super().__init__(name)
        self.categories, self.ordered = list(categories), ordered
        self.first_unknown = ""
        self._converts, self._n_rows = converts, 0
        self._is_text = {isinstance(value, str) for value in categories}
        has_text = converts and not all(isinstance(value, (int, float)) for value in categories)
        self._code = {str(value) if has_text else value: code for code, value in enumerate(categories)}
        self.unknown: dict[Any, None] = {}
        """The first few distinct values that are none of the categories."""
        self._values: Any = None
        self._listed: list[Any] = []
        self._codes_of_values = np.empty(0)
        self._is_unknown = np.zeros(1, dtype=bool)

    def encode(self, part: nw.Series[Any]) -> Array:
        indices, values = as_dictionary(self._converted(part) if self._converts else part)
        if self._values is None or not values.equals(self._values):  # blocks of a file often share a dictionary
            listed = values.tolist()
            self._check(listed)
            self._values, self._listed = values, listed
            self._codes_of_values = np.array([*(self._code.get(value, np.nan) for value in listed), np.nan])
            given = [value is not None and value == value for value in (*listed, None)]
            self._is_unknown = np.isnan(self._codes_of_values) & given
        if self._is_unknown.any():
            self._count(indices, part)
        self._n_rows += len(part)
        return np.asarray(self._codes_of_values[indices])

    def _converted(self, part: nw.Series[Any]) -> pa.Array:
        import pyarrow as pa

        if any(isinstance(value, str) for value in self._code):
            return as_text(part)
        return pa.array(as_numbers(self.name, part), pa.float64(), from_pandas=True)

    def _count(self, indices: Array, part: nw.Series[Any]) -> None:
        rows = np.flatnonzero(self._is_unknown[indices])
        if len(rows) and not self.n_unknown:
            self.first_unknown = f"{quoted(part.item(int(rows[0])))} in row {self._n_rows + int(rows[0]) + 1}"
        self.n_unknown += len(rows)
        if len(self.unknown) <= SHOWN:
            self.unknown |= dict.fromkeys(self._listed[i] for i in np.unique(indices[rows])[: SHOWN + 1])

    def _check(self, values: list[Any]) -> None:
        """Refuse values that could only become missing: text where all categories are numbers, or the reverse."""
        is_text = {isinstance(value, str) for value in values if value is not None}
        if not self._converts and len(is_text) == len(self._is_text) == 1 and is_text != self._is_text:
            here, there = ("text", "numbers") if is_text == {True} else ("numbers", "text")
            raise ColumnError(
                f"The categories of column {self.name!r} are {here} ({_some(values)}), those of the training table or "
                f"other parts of it are {there} ({_some(self.categories)}). Convert them.",
                self.name,
            )


class Learned(Column):
    """A column of a training table. Categories are collected as they come, and put in order in the end.

    If the type of the column ``declares`` its categories, and all parts of the table declare the same ones, these are
    the categories, in their order; otherwise they are the sorted distinct values. With ``reads_text`` the column holds
    categories whatever its type is. More than ``max_categories`` distinct values are an error.
    """

    def __init__(
        self,
        name: str,
        *,
        declares: bool = False,
        ordered: bool = False,
        reads_text: bool = False,
        max_categories: int | None = None,
        advice: str = "",
    ) -> None:
        super().__init__(name, advice)
        self.declared: list[Any] | None = None
        self._declares, self._ordered, self._reads_text = declares, ordered, reads_text
        self._max_categories = max_categories
        self._codes: dict[Any, int] = {}

    def encode(self, part: nw.Series[Any]) -> Any:
        """Return numbers, or codes in the order in which the categories were found."""
        kind = kind_of(self.name, part)
        if kind == NOTHING:
            return np.nan
        if kind == NUMBERS and not self._reads_text:
            return floats(part)
        return self._collect(as_text(part) if kind == NUMBERS else part)

    def declare(self, categories: list[Any]) -> None:
        """Keep the categories that a part of the table declares; drop them if another part declares different ones."""
        if not self._declares or categories == self.declared:
            return
        if self.declared is not None and self._ordered:
            raise ColumnError(
                f"Column {self.name!r} is an ordered dictionary, but its chunks have different dictionaries, so the "
                "order is not known. Unify them, for example with pyarrow's Table.unify_dictionaries.",
                self.name,
            )
        self._declares = self.declared is None
        self.declared = categories if self._declares else None

    def _collect(self, part: nw.Series[Any] | pa.Array) -> Array:
        indices, dictionary = as_dictionary(part)
        values = dictionary.tolist()
        self.declare(values)
        known = self._codes
        codes = np.array([*(known.get(value, np.nan) for value in values), np.nan])
        unseen = {i for i, value in enumerate(values) if value not in known and value is not None and value == value}
        if unseen:  # in most parts of a table there is none
            for i in (i for i in np.unique(indices).tolist() if i in unseen):
                self._check_new(values[i], lambda i=i: int(np.argmax(indices == i)))  # type: ignore[misc]
                known[values[i]] = codes[i] = len(known)
        if self._max_categories is not None and len(self._codes) > self._max_categories:
            raise ColumnError(
                f"Column {self.name!r} is text with more than {self._max_categories:,} distinct values, too many for "
                "categories. Leave it out, or make it coarser",
                self.name,
            )
        return np.asarray(codes[indices])

    def _check_new(self, value: Any, row: Callable[[], int]) -> None:
        """Raise if a value that was not seen before must not be there."""

    @property
    def categories(self) -> list[Any]:
        """The declared categories in their order, or those that were found, sorted."""
        return sorted(self._codes) if self.declared is None else self.declared

    def settled(self) -> Numbers | Codes:
        """Return how to read the same column of another table. A column without values holds numbers."""
        if self._codes or self.declared:
            ordered = self._ordered and self._declares
            return Codes(self.name, self.categories, ordered=ordered, converts=True)
        return Numbers(self.name, ". The training data have numbers there")

    def order(self) -> Array:
        """Return the final code for each code that :meth:`encode` gave out; nothing for numbers."""
        rank = {category: code for code, category in enumerate(self.categories)}
        return np.array([rank[category] for category in self._codes], dtype=np.float64)


class FirstValueDecides(Learned):
    """A column of a training file without types, which arrives as text: the first value decides what it holds.

    A value of the other kind is then an error.
    """

    _kind: str | None = None

    def encode(self, part: nw.Series[Any]) -> Any:
        if self._kind is None:
            self._decide(part)
        if self._kind is None:
            return np.nan
        if self._kind == NUMBERS:
            return as_numbers(self.name, part, ". Correct it, or read the column as text")
        return self._collect(part)

    def _decide(self, part: nw.Series[Any]) -> None:
        given = ~np.asarray(part.is_null().to_numpy(), dtype=bool)
        if not given.any():
            return
        row = int(np.argmax(given))
        value = part.item(row)
        if _looks_like_number(value):
            self._kind = NUMBERS
        elif WITH_COMMA.fullmatch(value):
            raise ColumnError(
                f"{quoted(value)} looks like a number with a decimal comma. Write numbers with a decimal point, or "
                "read the column as text",
                self.name,
                row,
            )
        elif _DATE.match(value):
            raise ColumnError(
                f"{quoted(value)} looks like a date. Convert it to a number, such as days since a fixed date, or "
                "leave the column out",
                self.name,
                row,
            )
        else:
            self._kind = CATEGORIES

    def _check_new(self, value: Any, row: Callable[[], int]) -> None:
        if _looks_like_number(value):
            raise ColumnError(
                f"{quoted(value)} is a number, but the column began with text. Correct it, or read the column as text",
                self.name,
                row(),
            )


def reader_of(name: str, kind: str, categories: Sequence[Any] | None) -> Column:
    """Return how to read a column of a certain kind: by the categories of training or, if these are None, as numbers.

    A column without a single value fits everywhere: nobody shares it.
    """
    if kind == NOTHING:
        return Absent(name)
    if kind == CATEGORIES and categories is not None:
        return Codes(name, categories)
    if kind == NUMBERS and categories is None:
        return Numbers(name)
    return OtherKind(name, categories)


def warn_of_unknown_values(column: Codes) -> None:
    rows = "1 row" if column.n_unknown == 1 else f"{column.n_unknown:,} rows"
    warn(
        f"Column {column.name!r} has values that the model does not know in {rows} ({_some(list(column.unknown))}); "
        "they were read as missing, and so as withheld if the column is optional."
    )


SHOWN = 3
"""How many values of a column a message shows."""


_DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{4})(\D|$)")
WITH_COMMA = re.compile(r"\s*[+-]?\d[\d.  ]*,\d+\s*")
"""A number as much of the world writes it, and as nothing here reads it."""


def _looks_like_number(value: str) -> bool:
    import pyarrow as pa

    text = value.strip().lower()
    try:
        pa.scalar(text).cast(pa.float64())
    except pa.ArrowInvalid:
        return text in ("true", "false")
    return True


def _some(values: Sequence[Any]) -> str:
    return ", ".join(quoted(value) for value in values[:SHOWN]) + (", …" if len(values) > SHOWN else "")


# DataFrames and Arrow tables ------------------------------------------------------------------------------------------

KEPT_BYTES = 32 << 20
"""A DataFrame is kept as numbers, once these were asked for, if they take no more than this."""


class FrameSource(RowSource):
    """A table of pandas, polars, Arrow or another library narwhals reads, with numbers, booleans, text and categories.

    Missing values (NaN, null or None) become NaN. Text and categories become codes: their positions among the
    ``categories`` of the training table, where any other value is missing. In a training table these are

    - the declared ones, in their order: those of pandas categories (also in an Arrow table made from a pandas one), of
      polars Enums and of ordered Arrow dictionaries (see :func:`has_order`);
    - the sorted distinct values of everything else: text, polars Categoricals, other Arrow dictionaries.
    """

    def __init__(self, frame: Any, categories: Categories | None = None) -> None:
        n_rows, n_columns = frame.shape
        named = _columns_of(frame)
        kinds = [kind_of(name, series) for name, series in named]
        coded = [j for j, kind in enumerate(kinds) if kind == CATEGORIES]
        ordered = {j for j in coded if has_order(named[j][1])}
        if categories is None:
            from_pandas = pandas_categories(getattr(frame, "schema", None))
            found = {j: _own_categories(*named[j], named[j][0] in from_pandas) for j in coded}
            # Text without a single value could be anything.
            lists = {j: values for j, values in found.items() if values is not None}
        else:
            lists = {j: list(values) for j, values in categories.by_column(coded).items() if j < n_columns}
        self._series = [series for _, series in named]
        self._readers = [reader_of(name, kinds[j], lists.get(j)) for j, (name, _) in enumerate(named)]
        categorical = [j for j in sorted(lists) if j not in ordered]
        columns = ColumnTypes(
            names=tuple(name for name, _ in named),
            coded=tuple(sorted(lists)),
            categorical=tuple(categorical),
            never_numbers=tuple(j for j in categorical if not is_pandas_category(named[j][1])),
            # Plain LightGBM keeps a list for every pandas DataFrame, even an empty one, and none for others.
            pandas_categorical=[list(lists[j]) for j in sorted(lists)] if lists or hasattr(frame, "iloc") else None,
            has_other_integer_labels=has_other_integer_labels(frame.columns),
        )
        # LightGBM's rule for DataFrames: the smallest float type that holds every column, at least float32.
        numbers = [s for s, reader in zip(self._series, self._readers, strict=True) if isinstance(reader, Numbers)]
        dtype = np.dtype(np.result_type(np.float32, *map(_numpy_type, numbers)))
        super().__init__((n_rows, n_columns), dtype, columns)

    def _encode(self, n_rows: int, pick: Callable[[nw.Series[Any]], nw.Series[Any]]) -> Array:
        out = np.empty((n_rows, self.n_columns), dtype=self.dtype, order="F")
        for j, (series, reader) in enumerate(zip(self._series, self._readers, strict=True)):
            n_unknown = reader.n_unknown
            out[:, j] = reader.encode(pick(series))
            if isinstance(reader, Codes) and reader.n_unknown and not n_unknown:
                # This is but a part of the table, and parts may be read again.
                whole = Codes(reader.name, reader.categories)
                for lo, hi in blocks_of(len(series)):
                    whole.encode(series[lo:hi])
                warn_of_unknown_values(whole)
        return out

    @cached_property
    def _numbers(self) -> Array | None:
        """The whole table, if it is small: training reads it a dozen times. A larger one is made block by block."""
        if self.n_values * self.dtype.itemsize > KEPT_BYTES:
            return None
        return self._encode(self.n_rows, lambda series: series)

    def window(self, lo: int, hi: int) -> Array:
        if self._numbers is None:
            return self._encode(hi - lo, lambda series: series[lo:hi])
        return np.asfortranarray(self._numbers[lo:hi])

    def take(self, rows: Array) -> Array:
        if self._numbers is None:
            return self._encode(len(rows), lambda series: series[rows])
        return np.take(self._numbers.T, rows, axis=1).T


def _own_categories(name: str, series: nw.Series[Any], from_pandas: bool) -> list[Any] | None:
    """Return the categories of a category column, declared or found in it; None if there are none."""
    import narwhals as nw

    if is_pandas_category(series):
        return list(native_dtype(series).categories)
    if isinstance(series.dtype, nw.Enum):
        return list(series.dtype.categories)
    declares = (from_pandas or has_order(series)) and hasattr(native_dtype(series), "value_type")
    learned = Learned(name, declares=declares, ordered=has_order(series))
    for chunk in series.to_native().chunks if declares else ():
        learned.declare(chunk.dictionary.tolist())
    if learned.declared is not None:
        return learned.declared
    for lo, hi in blocks_of(len(series)):
        learned.encode(series[lo:hi])
    return learned.categories or None


def _numpy_type(series: nw.Series[Any]) -> Any:
    kind = getattr(getattr(series.to_native(), "dtype", None), "type", None)  # pandas dtypes name a type of numpy
    if not (isinstance(kind, type) and issubclass(kind, np.generic)):
        kind = getattr(np, str(series.dtype).lower().replace("boolean", "bool_"), np.float64)
    return np.float64 if kind is np.object_ else kind


def _columns_of(frame: Any) -> list[tuple[str, nw.Series[Any]]]:
    """Return the columns of a table with their names; Arrow columns inside a pandas table as Arrow."""
    import narwhals as nw
    import narwhals.dependencies as nwd

    if not nwd.is_pandas_dataframe(frame):
        names = list(getattr(frame, "column_names", frame.columns))
        check_unique(names)
        table = nw.from_native(frame, eager_only=True)
        return [(name, table.get_column(name)) for name in table.columns]
    import pandas as pd

    check_unique(list(frame.columns))
    natives = [frame.iloc[:, j] for j in range(frame.shape[1])]
    natives = [s.array.__arrow_array__() if isinstance(s.dtype, pd.ArrowDtype) else s for s in natives]
    return [
        (str(label), nw.from_native(native, series_only=True))
        for label, native in zip(frame.columns, natives, strict=True)
    ]


# Text that hardly anybody shares with others --------------------------------------------------------------------------


MIN_CATEGORIES = 50
MIN_PEOPLE = 5


def warn_of_identifying_text(source: RowSource) -> None:
    """Warn of columns of a training table whose categories identify single people, or are numbers in fact.

    Where only some categories are of a few people, a line in the log says so: that is common, and the names may matter
    little, but they are in the model.
    """
    said = []
    columns = source.categories.by_column(source.coded)
    for (j, categories), counts in zip(columns.items(), _people_per_category(source, columns), strict=True):
        name, few = source.names[j], (counts > 0) & (counts < MIN_PEOPLE)
        if looks_like_numbers(categories):
            said.append(
                f"Column {name!r} is text that looks like numbers with a decimal comma, and was read as "
                f"{len(categories):,} categories, which the model keeps. Convert it to numbers"
            )
        elif len(categories) >= MIN_CATEGORIES and 2 * counts[few].sum() >= max(1, counts.sum()):
            said.append(
                f"Column {name!r} has {len(categories):,} categories, most of which fewer than {MIN_PEOPLE} people "
                "have. The model keeps them, and so what these people wrote. Leave the column out, or make it coarser"
            )
        elif few.any():
            _log_few(name, int(few.sum()))
    if said:
        warn(f"{'. '.join(said)}.", IdentifyingTextWarning)


def looks_like_numbers(categories: Sequence[Any]) -> bool:
    """Return whether categories are numbers, some of them with a decimal comma.

    Examples
    --------
    >>> looks_like_numbers(["1,5", "-2,25", "3"])
    True
    >>> looks_like_numbers(["1,5", "unknown"]), looks_like_numbers(["1", "2"])
    (False, False)
    """
    texts = [one for one in categories if isinstance(one, str)]
    with_comma = sum(WITH_COMMA.fullmatch(one) is not None for one in texts)
    others = (one for one in texts if WITH_COMMA.fullmatch(one) is None)
    return len(texts) == len(categories) and with_comma > 0 and all(one.strip().isdecimal() for one in others)


@cache
def _log_few(name: str, number: int) -> None:
    """Log once per process; a search trains many models."""
    logger.warning(
        "column %r: the model names %s that fewer than %d people have",
        name,
        "a category" if number == 1 else f"{number:,} categories",
        MIN_PEOPLE,
    )


def _people_per_category(source: RowSource, columns: Mapping[int, Sequence[Any]]) -> list[Array]:
    """Return how many people have each category of some columns."""
    counted = [np.zeros(len(categories), dtype=np.int64) for categories in columns.values()]
    for lo, hi in source.blocks() if columns else ():
        window = source.window(lo, hi)
        for j, counts in zip(columns, counted, strict=True):
            codes = window[:, j]
            codes = codes[(codes >= 0) & (codes < len(counts))]
            counts += np.bincount(codes.astype(np.int64), minlength=len(counts))
    return counted
