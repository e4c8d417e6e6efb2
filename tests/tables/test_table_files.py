"""Tables that are not in memory: how files, folders and lazy frames are read and written, and what errors name."""

from __future__ import annotations

import decimal
import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pucboost._tables import files, table_files
from pucboost._tables.columns import ColumnError, Learned
from pucboost._tables.files import DataError
from pucboost._tables.sources import is_stored
from pucboost._tables.table_files import GrowingMatrix, open_table, stored_table


def test_how_csv_is_read(tmp_path: Path) -> None:
    text = '\ufeffa,b,c,d,e\r\n 1 ,NA,true,"x, ""y""",1e3\r\n\r\n-.5,null,False,"two\r\nlines",inf\r\n,3,,NA,N/A\r\n'
    for name, content in (("a.csv", text.encode()), ("a.csv.gz", gzip.compress(text.encode()))):
        (tmp_path / name).write_bytes(content)
        table = open_table(tmp_path / name)
        assert table.columns == ["a", "b", "c", "d", "e"]
        (block,) = table.blocks(table.columns)
        numbers = {"a": [1, -0.5, np.nan], "b": [np.nan, np.nan, 3], "c": [1, 0, np.nan], "e": [1000, np.inf, np.nan]}
        for column, values in numbers.items():
            np.testing.assert_array_equal(block.numbers(column), values)
        assert block.text("d").to_pylist() == ['x, "y"', "two\r\nlines", None]
        assert block.as_stored("d").to_pylist() == ['x, "y"', "two\r\nlines", "NA"]
        assert block.as_stored("a").to_pylist() == [" 1 ", "-.5", None]
    (tmp_path / "one.tsv").write_text("x\n1\n\n3\n", encoding="utf-8")
    (block,) = open_table(tmp_path / "one.tsv").blocks(["x"])
    np.testing.assert_array_equal(block.numbers("x"), [1, np.nan, 3])


def test_how_parquet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = {
        "int": pa.array([1, None, 2**60 + 1], pa.int64()),
        "bool": pa.array([True, None, False]),
        "decimal": pa.array([decimal.Decimal("1.5"), None, None]),
        "null": pa.array([None, None, None]),
        "a": pa.array([1.5, np.nan, 3], pa.float32()),
        "a.b": pa.array(["x", None, "z"]),
        "dictionary": pa.array(["x", None, "x"]).dictionary_encode(),
        "digits": pa.array(["1", None, " 2.5"]),
    }
    pq.write_table(pa.table(columns), path)
    table = open_table(path)
    kinds = ["numbers"] * 3 + ["nothing", "numbers"] + ["categories"] * 3
    assert [table.kind(name) for name in columns] == kinds
    (block,) = table.blocks(["a", *columns])
    nan = np.nan
    numbers = {"int": [1, nan, 2.0**60], "bool": [1, nan, 0], "decimal": [1.5, nan, nan], "null": [nan] * 3}
    for name, values in (numbers | {"a": [1.5, nan, 3], "digits": [1, nan, 2.5]}).items():
        np.testing.assert_array_equal(block.numbers(name), values, err_msg=name)
    texts = {"a": ["1.5", None, "3"], "bool": ["true", None, "false"]}
    for name, words in (texts | {"a.b": ["x", None, "z"], "dictionary": ["x", None, "x"]}).items():
        assert block.text(name).to_pylist() == words


def test_how_tables_are_written(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    rng = np.random.default_rng(0)
    numbers = np.concatenate([rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, 500), [np.nan, 0.1, 1 / 3]])
    text = pa.array(['a,"b"', "c\r\nd", None, *(str(i) for i in range(500))])
    columns = {"text, quoted": text, "x": numbers, "flag": numbers > 0}
    for name in ("t.csv", "t.csv.gz", "t.tsv", "t.parquet"):
        with files.table_writer(tmp_path / name) as write:
            write({key: values[:3] for key, values in columns.items()})
            write({key: values[3:] for key, values in columns.items()})
        table = open_table(tmp_path / name)
        assert table.columns == list(columns)
        blocks = list(table.blocks(table.columns))
        np.testing.assert_array_equal(np.concatenate([b.numbers("x") for b in blocks]), numbers)
        np.testing.assert_array_equal(np.concatenate([b.numbers("flag") for b in blocks]), numbers > 0)
        assert [value for b in blocks for value in b.as_stored("text, quoted").to_pylist()] == text.to_pylist()
    with files.table_writer(None) as write:
        write({"x": np.array([1.0, np.nan])})
    assert capsysbinary.readouterr().out == b"x\n1\nNaN\n"  # not an empty line, which readers skip
    # Rows written later do not need the quotes that rows written earlier did.
    assert (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()[-1] == "499,0.3333333333333333,true"


ENDLESS = [
    (b"0", "field larger than field limit"),
    (b"x,", "the header does not end within the first 2,097,152 bytes"),
    (b"a,b\n", "the header (cannot be read|does not end)"),
    (b"\r\n", "the header does not end within the first 2,097,152 bytes"),
]


def test_a_small_file_with_an_endless_header_does_not_fill_the_memory(tmp_path: Path) -> None:
    for piece, message in ENDLESS:
        with gzip.open(tmp_path / "a.csv.gz", "wb", compresslevel=1) as file:
            file.write(b'"' * (b"a" in piece) + piece * (40_000_000 // len(piece)))
        tracemalloc.start()
        try:
            with pytest.raises(DataError, match=message):
                open_table(tmp_path / "a.csv.gz")
            assert tracemalloc.get_traced_memory()[1] < 30e6
        finally:
            tracemalloc.stop()


def test_a_header_may_be_as_long_as_a_row(tmp_path: Path) -> None:
    names = [f"column_{i}" for i in range(150_000)]
    for end in ("\n", "\r\n", "\r", ""):
        (tmp_path / "a.csv").write_text(",".join(names) + end, encoding="utf-8", newline="")
        assert open_table(tmp_path / "a.csv").columns == names


def write(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def test_what_is_stored(tmp_path: Path) -> None:
    for data in (tmp_path, str(tmp_path), "people.parquet", Path("people.PQ"), pl.LazyFrame({"a": [1]})):
        assert is_stored(data)
    assert is_stored(ds.dataset(write(tmp_path / "a.parquet", a=[1])))
    for other in ("people.csv", "people", np.zeros((2, 2)), pl.DataFrame({"a": [1]}), None, [[1.0]], pa.table({})):
        assert not is_stored(other)


# ----- folders


def test_a_folder_is_read_file_after_file_with_the_columns_of_all(tmp_path: Path) -> None:
    write(tmp_path / "year=2024" / "b.parquet", x=pa.array([1, 2], pa.int32()))
    write(tmp_path / "year=2024" / "a.parquet", x=pa.array([0.5]), later=pa.array(["text"]))
    write(tmp_path / "year=2025" / "a.pq", later=pa.array(["more"]))
    write(tmp_path / "_temporary" / "a.parquet", x=pa.array([9]))
    write(tmp_path / ".hidden.parquet", x=pa.array([9]))
    (tmp_path / "README.txt").write_text("not a table")
    table = open_table(tmp_path)
    assert sorted(table.columns) == ["later", "x", "year"]
    blocks = list(table.blocks(["x", "year", "later"]))
    assert [(Path(block.path).name, block.first_row, len(block)) for block in blocks] == [
        ("a.parquet", 1, 1),
        ("b.parquet", 1, 2),
        ("a.pq", 1, 1),
    ]
    np.testing.assert_array_equal(np.concatenate([b.numbers("x") for b in blocks]), [0.5, 1, 2, np.nan])
    np.testing.assert_array_equal(np.concatenate([b.numbers("year") for b in blocks]), [2024, 2024, 2024, 2025])
    assert [value for b in blocks for value in b.text("later").to_pylist()] == ["text", None, None, "more"]


def test_columns_that_only_some_files_have_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An optional column that is spelt otherwise in one file would be a base column there, and missing here."""
    write(tmp_path / "a.parquet", x=[1.0], income=[5.0])
    assert stored_table(tmp_path).columns == ["x", "income"]
    assert not caplog.messages
    write(tmp_path / "b.parquet", x=[2.0], Income=[6.0])
    assert stored_table(tmp_path).columns == ["x", "income", "Income"]
    assert caplog.messages == [f"{tmp_path}: missing where a file lacks them: 'income' (1 of 2), 'Income' (1 of 2)"]


def test_a_column_that_a_folder_is_named_after_is_refused(tmp_path: Path) -> None:
    """Arrow would read 1 and 2 in place of what people shared."""
    write(tmp_path / "income=1" / "a.parquet", x=[1.0])
    write(tmp_path / "income=2" / "b.parquet", x=[2.0], income=[5.0])
    with pytest.raises(DataError, match=r"b.parquet has a column 'income', and its folder is called income=…"):
        stored_table(tmp_path)


def test_rows_of_a_folder_are_counted_within_their_file(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(table_files, "BATCH_BYTES", 80)
    for i in range(2):
        write(tmp_path / f"{i}.parquet", x=np.arange(25.0))
    blocks = list(open_table(tmp_path).blocks(["x"]))
    assert [(Path(b.path).name, b.first_row) for b in blocks] == [
        (f"{i}.parquet", first) for i in range(2) for first in (1, 11, 21)
    ]
    assert blocks[-1].where(2, "x").endswith("1.parquet, row 23, column 'x'")


def test_a_query_of_a_dataset_is_respected(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", x=np.arange(10.0))
    table = stored_table(ds.dataset(tmp_path).filter(ds.field("x") > 7))
    np.testing.assert_array_equal(np.concatenate([b.numbers("x") for b in table.blocks(["x"])]), [8, 9])


def test_errors_about_folders_name_the_file(tmp_path: Path) -> None:
    one, two, zero = (tmp_path / f"{name}.parquet" for name in "ab0")
    for change, message in [
        (lambda: None, r"is a folder without Parquet files, which end in \.parquet or \.pq"),
        (
            lambda: (write(one, x=[1.5]), write(two, x=["text"])),
            r"b\.parquet cannot be read .*Field x has incompat",
        ),
        (lambda: two.write_bytes(b"nonsense"), r"b\.parquet cannot be read with the other files"),
        (lambda: two.rename(zero), r"0\.parquet: not a Parquet file"),
        (lambda: write(zero, day=pa.array([0], pa.date32())), "Column 'day' has dtype date32"),
    ]:
        change()
        with pytest.raises(DataError, match=message):
            open_table(tmp_path).kind("day")


# ----- lazy frames


def test_a_query_runs_for_the_columns_that_are_read_only() -> None:
    frame = pl.LazyFrame({"a": [1, 2]}).with_columns(b=pl.col("a").map_batches(lambda _: 1 / 0, pl.Float64))
    (block,) = stored_table(frame).blocks(["a"])
    np.testing.assert_array_equal(block.numbers("a"), [1, 2])


def test_kinds_of_lazy_columns() -> None:
    frame = pl.LazyFrame(
        {"i": [1], "f": [0.5], "b": [True], "n": [None], "s": ["x"], "c": ["x"], "e": ["x"]},
        schema_overrides={"c": pl.Categorical, "e": pl.Enum(["y", "x"])},
    )
    table = stored_table(frame)
    assert [table.kind(name) for name in table.columns] == ["numbers"] * 3 + ["nothing"] + ["categories"] * 3


# ----- categories


def test_categories_that_parts_declare_differently() -> None:
    same, other = (
        nw.from_native(pa.chunked_array([pa.array(pd.Categorical(["x"], values))]), series_only=True)
        for values in (["y", "x"], ["x"])
    )
    learned = Learned("c", declares=True)
    for part, categories in ((same, ["y", "x"]), (other, ["x"]), (same, ["x"])):
        learned.encode(part)
        assert learned.settled().categories == categories  # type: ignore[union-attr]
    learned = Learned("c", declares=True, ordered=True)
    learned.encode(same)
    with pytest.raises(ColumnError, match="Column 'c' is an ordered dictionary, but its chunks have different"):
        learned.encode(other)


# ----- the temporary matrix


def grown(*blocks: Any) -> Any:
    matrix = GrowingMatrix(2)
    for block in blocks:
        matrix.append(np.asarray(block, dtype=np.float64))
    return matrix.matrix()


EXACT = [[1.0, np.nan], [-(2.0**24), np.inf], [np.float32(0.1), -0.0]]


def test_numbers_are_float32_until_one_would_be_rounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(table_files, "_COPIED_VALUES", 3)
    for limit in (0, 16, 1 << 20):  # in a file, later in a file, in memory
        monkeypatch.setattr(table_files, "MEMORY_BYTES", limit)
        narrow = grown(EXACT, EXACT)
        assert narrow.dtype == np.float32
        np.testing.assert_array_equal(narrow, EXACT + EXACT)
        for number in (0.1, 2.0**24 + 1, 1e300, 1e-320):
            wide = grown(EXACT, EXACT, [[number, 1.0]], EXACT)
            assert wide.dtype == np.float64
            np.testing.assert_array_equal(wide, [*EXACT, *EXACT, [number, 1.0], *EXACT])
            assert np.signbit(wide[2, 1])


def test_the_answer_of_a_query_is_on_the_disk_for_its_owner_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed process has left goes first."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    abandoned = tmp_path / ".pucboost-0123456789abcdef.unfinished"
    abandoned.mkdir()
    (abandoned / "query.parquet").write_bytes(b"people")
    contents = stored_table(pl.LazyFrame({"a": [1.0, 2.0]}))._contents(["a"])
    next(contents)
    (found,) = tmp_path.rglob("*.parquet")
    assert (found.stat().st_mode & 0o777, found.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    contents.close()
    assert list(tmp_path.iterdir()) == []
