"""Table files, CSV and Parquet: how they are read and written."""

from __future__ import annotations

import decimal
import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pucboost._tables import files, table_files


def test_how_csv_is_read(tmp_path: Path) -> None:
    text = '\ufeffa,b,c,d,e\r\n 1 ,NA,true,"x, ""y""",1e3\r\n\r\n-.5,null,False,"two\r\nlines",inf\r\n,3,,NA,N/A\r\n'
    for name, content in (("a.csv", text.encode()), ("a.csv.gz", gzip.compress(text.encode()))):
        (tmp_path / name).write_bytes(content)
        table = table_files.open_table(tmp_path / name)
        assert table.columns == ["a", "b", "c", "d", "e"]
        (block,) = table.blocks(table.columns)
        np.testing.assert_array_equal(block.numbers("a"), [1, -0.5, np.nan])
        np.testing.assert_array_equal(block.numbers("b"), [np.nan, np.nan, 3])
        np.testing.assert_array_equal(block.numbers("c"), [1, 0, np.nan])
        np.testing.assert_array_equal(block.numbers("e"), [1000, np.inf, np.nan])
        assert block.text("d").to_pylist() == ['x, "y"', "two\r\nlines", None]
        assert block.as_stored("d").to_pylist() == ['x, "y"', "two\r\nlines", "NA"]
        assert block.as_stored("a").to_pylist() == [" 1 ", "-.5", None]
    (tmp_path / "one.tsv").write_text("x\n1\n\n3\n", encoding="utf-8")
    (block,) = table_files.open_table(tmp_path / "one.tsv").blocks(["x"])
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
    table = table_files.open_table(path)
    kinds = ["numbers"] * 3 + ["nothing", "numbers"] + ["categories"] * 3
    assert [table.kind(name) for name in columns] == kinds
    (block,) = table.blocks(["a", *columns])
    np.testing.assert_array_equal(block.numbers("int"), [1, np.nan, 2.0**60])
    np.testing.assert_array_equal(block.numbers("bool"), [1, np.nan, 0])
    np.testing.assert_array_equal(block.numbers("decimal"), [1.5, np.nan, np.nan])
    np.testing.assert_array_equal(block.numbers("null"), [np.nan] * 3)
    np.testing.assert_array_equal(block.numbers("a"), [1.5, np.nan, 3])
    np.testing.assert_array_equal(block.numbers("digits"), [1, np.nan, 2.5])
    assert block.text("a").to_pylist() == ["1.5", None, "3"]
    assert block.text("bool").to_pylist() == ["true", None, "false"]
    assert block.text("a.b").to_pylist() == ["x", None, "z"]
    assert block.text("dictionary").to_pylist() == ["x", None, "x"]


def test_how_tables_are_written(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    rng = np.random.default_rng(0)
    numbers = np.concatenate([rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, 500), [np.nan, 0.1, 1 / 3]])
    text = pa.array(['a,"b"', "c\r\nd", None, *(str(i) for i in range(500))])
    columns = {"text, quoted": text, "x": numbers, "flag": numbers > 0}
    for name in ("t.csv", "t.csv.gz", "t.tsv", "t.parquet"):
        with files.table_writer(tmp_path / name) as write:
            write({key: values[:3] for key, values in columns.items()})
            write({key: values[3:] for key, values in columns.items()})
        table = table_files.open_table(tmp_path / name)
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


ENDLESS = {
    "one field": (b"0", "field larger than field limit"),
    "many fields": (b"x,", "the header does not end within the first 2,097,152 bytes"),
    "an open quote": (b"a,b\n", "the header (cannot be read|does not end)"),
    "empty lines": (b"\r\n", "the header does not end within the first 2,097,152 bytes"),
}


@pytest.mark.parametrize(("piece", "message"), ENDLESS.values(), ids=ENDLESS.keys())
def test_a_small_file_with_an_endless_header_does_not_fill_the_memory(
    tmp_path: Path, piece: bytes, message: str
) -> None:
    with gzip.open(tmp_path / "a.csv.gz", "wb", compresslevel=1) as file:
        file.write(b'"' * (b"a" in piece) + piece * (40_000_000 // len(piece)))
    tracemalloc.start()
    try:
        with pytest.raises(table_files.DataError, match=message):
            table_files.open_table(tmp_path / "a.csv.gz")
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", ""])
def test_a_header_may_be_as_long_as_a_row(tmp_path: Path, end: str) -> None:
    names = [f"column_{i}" for i in range(150_000)]
    (tmp_path / "a.csv").write_text(",".join(names) + end, encoding="utf-8", newline="")
    assert table_files.open_table(tmp_path / "a.csv").columns == names
