"""Table files as they come: each is read with the right number of rows, or refused with an error that names it."""

from __future__ import annotations

import datetime
import decimal
import gzip
import io
import re
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_tools import run
from fuzzing.test_fuzzing import read_all

from pucboost._tables.files import DataError

ROWS = b"1,2,0\n3,,1\n5,6,0\n"
TEXT: dict[str, tuple[bytes, int | str]] = {
    "plain": (b"a,b,y\n" + ROWS, 3),
    "no last line end": (b"a,b,y\n" + ROWS[:-1], 3),
    "Windows": (b"a,b,y\r\n" + ROWS.replace(b"\n", b"\r\n"), 3),
    "old Mac": (b"a,b,y\r" + ROWS.replace(b"\n", b"\r"), 3),
    "mixed line ends": (b"a,b,y\r\n" + ROWS, 3),
    "byte order mark": (b"\xef\xbb\xbfa,b,y\n" + ROWS, 3),
    "only a byte order mark": (b"\xef\xbb\xbf", "is empty"),
    "empty": (b"", "is empty"),
    "only line ends": (b"\n\n\n", "is empty"),
    "only a header": (b"a,b,y\n", "has columns, but no rows"),
    "only a header, no line end": (b"a,b,y", "has columns, but no rows"),
    "empty lines between": (b"a,b,y\n1,2,0\n\n3,,1\n\n", 2),
    "empty lines first": (b"\n\na,b,y\n" + ROWS, 3),
    "spaces around numbers": (b"a,b,y\n 1 , 2,0\n", 1),
    "spaces around names": (b" a , b ,y\n" + ROWS, 3),
    "quoted numbers": (b'a,b,y\n"1","2","0"\n', 1),
    "quoted line end": (b'a,b,y\n1,"x\ny",0\n', 1),
    "quoted line end in the header": (b'"a\nc",b,y\n' + ROWS, 3),
    "quote in a field": (b'a,b,y\n1,x"y,0\n', "odd number of double quotes"),
    "quote that is not closed": (b'a,b,y\n1,"x,0\n2,3,0\n', "the header has 3 fields|odd number"),
    "header that is not closed": (b'a,"b,y\n' + ROWS, "no rows|odd number|not close"),
    "too few fields": (b"a,b,y\n1,2\n", "row 1: the header has 3 fields, this row has 2$"),
    "too many fields": (b"a,b,y\n1,2,0,9\n", "row 1: the header has 3 fields, this row has 4$"),
    "field too many in all rows": (b"a,b,y\n1,2,0,\n3,4,1,\n", "this row has 4$"),
    "semicolons": (b"a;b;y\n1;2;0\n", 1),
    "two equal names": (b"a,b,a\n" + ROWS, "two columns 'a'"),
    "names that differ in case": (b"a,A,y\n" + ROWS, 3),
    "empty name": (b"a,,y\n" + ROWS, 3),
    "Latin 1": ("a,b,y\n1,caf\xe9,0\n".encode("latin-1"), "not UTF-8"),
    "Latin 1 header": ("\xe4,b,y\n".encode("latin-1") + ROWS, "header is not UTF-8"),
    "UTF-16": ("a,b,y\n1,2,0\n".encode("utf-16"), "header is not UTF-8"),
    "UTF-16 without mark": ("a,b,y\n1,2,0\n".encode("utf-16-le"), "is not|row"),
    "overlong UTF-8": (b"a,b,y\n1,\xc0\x80,0\n", "not UTF-8"),
    "surrogates": (b"a,b,y\n1,\xed\xa0\x80,0\n", "not UTF-8"),
    "null bytes": (b"a,b,y\n1,\x00,0\n", 1),
    "null bytes in the header": (b"a\x00,b,y\n" + ROWS, 3),
    "control characters": (b"a,b,y\n1,\x1b[31m,0\n", 1),
    "hexadecimal": (b"a,b,y\n1,2,0\n0x10,2,0\n", "'0x10' is not a number"),
    "exponents": (b"a,b,y\n1e3,-2E-4,+0\n", 1),
    "infinite": (b"a,b,y\ninf,-inf,0\n", 1),
    "too large": (b"a,b,y\n1e999,-1e999,0\n", 1),
    "many digits": (b"a,b,y\n" + b"9" * 400 + b",2,0\n", 1),
    "thousands": (b'a,b,y\n1,2,0\n1,"1,234",0\n', "is not a number"),
    "decimal comma": (b'a,b,y\n"1,5",2,0\n', "looks like a number with a decimal comma"),
    "negative decimal comma": (b'a,b,y\n"-1,5",2,0\n', "looks like a number with a decimal comma"),
    "grouped decimal comma": (b'a,b,y\n"1.234,5",2,0\n', "looks like a number with a decimal comma"),
    "date": (b"a,b,y\n2024-02-29,2,0\n", "looks like a date"),
    "percent": (b"a,b,y\n1,2,0\n5%,2,0\n", "'5%' is not a number"),
    "currency": ("a,b,y\n1,2,0\n5 €,2,0\n".encode(), "is not a number"),
    "true and false": (b"a,b,y\ntrue,FALSE,0\n", 1),
    "words for missing": (b"a,b,y\nNA,N/A,0\nNaN,null,1\n", 2),
    "all missing": (b"a,b,y\n,,\n,,\n", 2),
    "text after numbers": (b"a,b,y\n1,2,0\nx,2,0\n", "row 2, column 'a': 'x' is not a number"),
    "numbers after text": (b"a,b,y\nx,2,0\n1,2,0\n", "row 2, column 'a': '1' is a number"),
    "formula": (b"a,b,y\n=cmd(),2,0\n", 1),
    "Parquet": (b"PAR1" + bytes(40) + b"PAR1", "no rows|header"),
    "a model file": (b"tree\nversion=v4\nnum_class=1\n", 2),
    "JSON": (b'{"a": [1, 2]}\n', "no rows"),
    "HTML": (b"<html><body>\n<p>error</p>\n</body></html>\n", 2),
}  # fmt: skip


def check(path: Path, expected: int | str, what: str) -> None:
    """Read a file, and compare with the number of its rows or the error that is expected."""
    try:
        found: int | str = read_all(path)
    except DataError as error:
        found = str(error)
    if isinstance(expected, int) or isinstance(found, int):
        assert found == expected, what
    else:
        assert re.search(expected, found), what
        assert str(path) in found, what


def test_csv(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "a.csv", tmp_path / "a.csv.gz"
    for what, (content, expected) in TEXT.items():
        plain.write_bytes(content)
        check(plain, expected, what)
        zipped.write_bytes(gzip.compress(content, mtime=0))
        check(zipped, expected, f"{what}, zipped")


WHOLE = gzip.compress(b"a,b,y\n" + ROWS * 50, mtime=0)
ZIPPED = {
    "not zipped": (b"a,b,y\n" + ROWS, "Not a gzipped file"),
    "empty": (b"", "is empty"),
    "only a header": (WHOLE[:10], "ended before"),
    "cut off": (WHOLE[:-9], "ended before|CRC"),
    "wrong checksum": (WHOLE[:-8] + bytes(4) + WHOLE[-4:], "CRC check failed"),
    "wrong length": (WHOLE[:-4] + bytes(4), "Incorrect length"),
    "changed inside": (WHOLE[:12] + b"\xff\xff\xff" + WHOLE[15:], "decompressing|CRC|ended"),
    "zlib in place of gzip": (zlib.compress(b"a,b,y\n" + ROWS), "Not a gzipped file"),
    "something behind": (WHOLE + b"more", "Not a gzipped file"),
}


def test_gzip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.csv.gz"
    for what, (content, message) in ZIPPED.items():
        path.write_bytes(content)
        check(path, message, what)
        assert run("train", path, "--label", "y", "--optional", "b", "--out", tmp_path / "model.txt", "--quiet") == 3
        told = capsys.readouterr().err
        assert told.startswith("pucboost: error: ")
        assert told.count("\n") == 1


def column(values: Any, kind: Any = None) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array(values, kind), "y": [0, 1]}), out)
    return out.getvalue()


DAY = datetime.date(2024, 2, 29)
NEITHER = "Column 'a' has dtype .*; columns must be numbers, booleans, text or categories"
PARQUET: dict[str, tuple[bytes, int | str]] = {
    "float16": (column([1.5, None], pa.float16()), 2),
    "uint64": (column([2**64 - 1, None], pa.uint64()), 2),
    "decimal": (column([decimal.Decimal("1.50"), None]), 2),
    "boolean": (column([True, None]), 2),
    "nothing": (column([None, None], pa.null()), 2),
    "large text": (column(["x", None], pa.large_string()), 2),
    "dictionary": (column(["x", None], pa.dictionary(pa.int8(), pa.string())), 2),
    "date": (column([DAY, None]), NEITHER),
    "time": (column([datetime.time(1), None]), NEITHER),
    "timestamp": (column([datetime.datetime(2024, 2, 29), None]), NEITHER),
    "duration": (column([datetime.timedelta(1), None]), NEITHER),
    "binary": (column([b"x", None]), NEITHER),
    "list": (column([[1], None]), NEITHER),
    "struct": (column([{"b": 1}, None]), NEITHER),
    "map": (column([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), NEITHER),
    "CSV": (b"a,b,y\n" + ROWS, "not a Parquet file, or a damaged one"),
    "empty": (b"", "not a Parquet file, or a damaged one"),
    "only the mark": (b"PAR1PAR1", "not a Parquet file, or a damaged one"),
    "without its end": (column([1, 2])[:-8], "not a Parquet file, or a damaged one"),
    "without its beginning": (column([1, 2])[8:], "not a Parquet file, or a damaged one"),
    "a length that is too long": (column([1, 2])[:-8] + b"\xff\xff\xff\x7fPAR1", "not a Parquet file, or a damaged"),
    "zeros inside": (column(list("xy"))[:4] + bytes(30) + column(list("xy"))[34:], "not a Parquet file, or a damaged"),
}


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for what, (content, expected) in PARQUET.items():
        path.write_bytes(content)
        check(path, expected, what)
