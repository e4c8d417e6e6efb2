"""Malformed files and unsuitable models: one line that says what is wrong, and nothing written."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_tools import PEOPLE, run, train_arguments, unchanged, write_table

import pucboost as puc
from pucboost._tables import table_files


def parquet_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


COLUMNS = {"age": [1.0, 2.0], "glucose": [1.0, None], "claim": [0, 1]}
GOOD = parquet_bytes(pa.table(COLUMNS))
NUMBERS = "age,glucose,claim\n" + "1,2,0\n3,,1\n" * 200
# One of each kind; tests/fuzzing/test_corpus.py reads many more.
MALFORMED: list[tuple[str, bytes | None, str]] = [
    ("a.csv", b"", "{} is empty"),
    ("a.csv", b"age,glucose,claim\n\n", "{} has columns, but no rows"),
    ("a.csv", (NUMBERS + "4,5\n").encode(), "{}, row 401: the header has 3 fields, this row has 2\n"),
    ("a.csv", (NUMBERS + '3,"1,5",1\n').encode(), "{}, row 401, column 'glucose': '1,5' is not a number"),
    (
        "a.csv",
        (NUMBERS + "caf\xe9,5,1\n").encode("latin1"),
        r"{}, row 401, column 'age': b'caf\xe9' is not UTF-8. Convert the file",
    ),
    ("a.csv", GOOD, "{}: the header "),
    ("a.csv", b"age,glucose,age,claim\n1,2,3,0\n", "{} has two columns 'age'; rename one of them"),
    ("a.csv", b'age,glucose,claim,note\n1,2,0,x\n3,,1,"y\n5,6,0,z\n', "{} has an odd number of double quotes"),
    ("a.csv", (NUMBERS + '3,4,"' + "1,2,0\n" * 9000).encode(), "{}: a row is longer than 20,000 bytes"),
    ("a.csv.gz", gzip.compress(NUMBERS.encode(), mtime=0)[:-20], "{}: Compressed file ended before"),
    ("a.parquet", GOOD[:4] + b"\xff" * 40 + GOOD[44:], "{}: not a Parquet file, or a damaged one"),
    ("a.parquet", parquet_bytes(pa.table(COLUMNS).slice(0, 0)), "{} has columns, but no rows"),
    (
        "a.parquet",
        parquet_bytes(pa.table({**COLUMNS, "glucose": [{"x": 1}, None]})),
        "{}: Column 'glucose' has dtype struct<x: int64>; columns must be",
    ),
    ("missing.parquet", None, "{}: No such file or directory"),
    ("a.xlsx", b"", "{}: a table file must end in one of .csv, "),
]


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X = PEOPLE[["age", "glucose"]]
    path = tmp_path_factory.mktemp("small") / "model.txt"
    params = {"objective": "binary", "optional": ["glucose"], "verbosity": -1, "num_threads": 1}
    puc.save_model(puc.train(params, puc.Dataset(X, PEOPLE["claim"]), 3), path)
    return path


def test_malformed_files(
    tmp_path: Path, small_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "BATCH_BYTES", 20_000)
    old = tmp_path / "old.csv"
    old.write_text("an output of before", encoding="utf-8")
    for name, content, message in MALFORMED:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        for arguments in (
            ["train", path, "--label", "claim", "--optional", "glucose", "--out", tmp_path / "model.txt", "--quiet"],
            ["predict", small_model, path, "--keep", "claim", "--out", tmp_path / "new.parquet"],
            ["quote", small_model, path, "--keep", "claim", "--out", old],
        ):
            with unchanged(tmp_path):
                assert run(*arguments) == 3
            told = capsys.readouterr()
            assert told.out == ""
            assert told.err.startswith("pucboost: error: " + message.format(path))
            assert told.err.count("\n") == 1


UNSUITABLE = [
    ("a,b,y\n1,2,yes\n", [], "row 1, column 'y': 'yes' is not a number. Labels must be numbers: encode the out"),
    ("a,b,y\n1,2,0\n1,2,\n", [], "row 2, column 'y': the value is missing; every row needs a label that is"),
    ("a,b,y\n1,2,0\n1,-2,0\n", ["--weight", "b", "--optional", "a"], "row 2, column 'b': the value is -2; every"),
    ("a,b\n1,2\n", [], "has no column 'y' (--label); its columns are a, b"),
    ("aa,bb,yy\n1,2,0\n", ["--label", "Yy"], "has no column 'Yy' (--label); did you mean 'yy'?"),
    ("a,b,y\n1,2,0\n", ["--ignore", "c"], "has no column 'c' (--ignore); its columns are a, b, y"),
    ("a,b,y\n1,2,0\n", ["--categorical", "y"], "weight, exposure or ignored, so it cannot be optional"),
    ("a,b,e,y\n1,2,1,0\n", ["--weight", "e", "--exposure", "e"], "column 'e' is both weight and exposure"),
    ("a,b,y\n1,2,0\n", ["--exposure", "e"], "no column 'e' (--exposure)"),
    ("a,b,e,y\n1,2,1,0\n1,2,0,1\n", ["--exposure", "e"], "the value is 0; every row needs an exposure that is"),
    ("a,b,e,y\n1,2,1,0\n", ["--exposure", "e", "--objective", "regression"], "exposure with objective='regression'"),
    ("a,b,y\n1,2,0\n", ["--ignore", "b"], "column 'b' is label, weight, exposure or ignored"),
    ("a,b,y\n1,2,0\n", ["--optional", "b"], "--optional names group 'b' twice"),
    ("a,b,y\n1,2,0\n", ["--optional", "g=a,b"], "Column 'b' is declared optional twice (groups 'b' and 'g')"),
    ("a,b,y\n1,2,0\n", ["--optional", "g="], "has no column '' (--optional)"),
    ("a,b,y\n1,2,0\n", ["--optional", "a,b"], "write --optional NAME=a,b for columns that are shared or withheld"),
    (",a,b,y\n0,1,2,0\n", [], "has a column without a name, perhaps the index of a DataFrame"),
    ("a [kg],b,y\n1,2,0\n", [], "lightgbm does not accept the name 'a [kg]' because of the '[' in it"),
    (
        "a < 3,b,y\n1,2,0\n",
        ["--engine", "xgboost"],
        "xgboost does not accept the name 'a < 3' because of the '<' in it",
    ),
    ("a,b,y\n2024-02-29,2,0\n", [], "row 1, column 'a': '2024-02-29' looks like a date. Convert it to a number"),
    ("a,b,y\n" + "".join(f"n{i},2,0\n" for i in range(40)), [], "Column 'a' is text with more than 30 distinct"),
    ("a,b,y\nx,2,0\n\n3,2,0\n", [], "row 2, column 'a': '3' is a number, but the column began with text. Correct"),
    ("a,b,y\n3,2,0\nx,2,0\n", [], "row 2, column 'a': 'x' is not a number. Correct it, or read the column as text"),
    ("a,b,y\n1,2,7\n", ["--objective", "binary"], "needs labels between 0 and 1. (Here rows are counted from 0.)"),
    ("a,b,y\n1,2,7\n", ["--valid-fraction", "0.1"], "--valid-fraction 0.1 of 1 people leaves one side empty"),
    ("a,b,y\n1,2,7\n", ["--objective", "reg:nonsense", "--engine", "xgboost"], "Unknown objective function: `re"),
    ("a,b,y\n1,2,7\n", ["--objective", "lambdarank"], "Protected User Consent is defined for predictions of a"),
    ("a,b,y\n1,2,7\n", ["--valid", "nowhere.csv"], "nowhere.csv: No such file or directory"),
]  # fmt: skip


def test_unsuitable_training_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "MAX_CATEGORIES", 30)
    data = tmp_path / "a.csv"
    for text, options, message in UNSUITABLE:
        data.write_text(text, encoding="utf-8")
        fixed = [] if "--label" in options else ["--label", "y"]
        fixed += [] if "--weight" in options and "a" in options else ["--optional", "b"]
        with unchanged(tmp_path):
            assert run("train", data, *fixed, *options, "--out", tmp_path / "model.txt", "--quiet") == 3
        told = capsys.readouterr().err
        assert told.startswith("pucboost: error: ")
        assert message in told


def test_validation_file_must_fit(tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    valid = write_table(PEOPLE.drop(columns="age"), tmp_path / "valid.csv")
    with unchanged(tmp_path):
        assert run(*train_arguments(people, tmp_path / "model.txt"), "--valid", valid) == 3
    assert f"{valid} has no column 'age' (as in the training data)" in capsys.readouterr().err
    write_table(PEOPLE.astype({"age": object}).assign(age="old"), valid)
    with unchanged(tmp_path):
        assert run(*train_arguments(people, tmp_path / "model.txt"), "--valid", valid) == 3
    assert "row 1, column 'age': 'old' is not a number. The training data have numbers there" in capsys.readouterr().err


def test_unsuitable_models(
    tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path]
) -> None:
    model, out = tmp_path / "model", tmp_path / "out.csv"
    ubj = models["xgboost"].read_bytes()
    for content, message in (
        (b"", "has no consent schema"),
        (models["lightgbm"].read_bytes()[:5_000], "has no consent schema"),
        (b"\x93garbage", f"{model}: This is not a model file"),
        (ubj[: len(ubj) // 2], f"cannot read a model from {model}: "),
        (b'{"a": 1}', f"cannot read a model from {model}: "),
        (b'{"pucboost_anchored": 1}', f"cannot read a model from {model}: "),
    ):
        model.write_bytes(content)
        with unchanged(tmp_path):
            assert run("predict", model, people, "--out", out) == 3
        told = capsys.readouterr().err
        assert message in told
        assert told.count("\n") == 1
    assert run("predict", tmp_path / "nowhere", people, "--out", out) == 3
    assert capsys.readouterr().err == f"pucboost: error: {tmp_path / 'nowhere'}: No such file or directory\n"
