"""The command line on real files: the same numbers as in Python, and nothing half-written whatever goes wrong."""

from __future__ import annotations

import gzip
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import pucboost as puc
from pucboost._cli.main import main
from pucboost._tables import file_columns as feature_files
from pucboost._tables import files

ROOT = Path(__file__).parents[2]
GROUPS = {"fitness": ["steps", "pulse"], "glucose": ["glucose"], "diet": ["diet"]}
OPTIONAL = ["--optional", "fitness=steps,pulse", "--optional", "glucose", "--optional", "diet"]
ENGINES = {
    "lightgbm": {"num_threads": 1, "deterministic": True, "force_row_wise": True},
    "xgboost": {"nthread": 1},
}


def make_people(n: int = 400) -> pd.DataFrame:
    """People with numbers and categories among base and optional columns; categories do not appear in sorted order."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "id": [f"p-{i:04}" for i in range(n)],
            "age": rng.integers(18, 80, n),
            "region": rng.choice(["south", "north", "east"], n),
            "smoker": rng.random(n) < 0.3,
            "steps": rng.normal(8000, 2000, n),
            "pulse": rng.normal(65, 8, n),
            "glucose": rng.normal(5, 1, n),
            "diet": rng.choice(["vegan", "meat"], n),
        }
    )
    risk = people["age"] / 40 + people["glucose"] - 5 + people["smoker"] + rng.normal(size=n)
    people["claim"] = (risk > 1.5).astype(int)
    people.loc[rng.random(n) < 0.4, ["steps", "pulse"]] = np.nan
    people.loc[(people["glucose"] > 5.2) & (rng.random(n) < 0.7), "glucose"] = np.nan
    people["diet"] = people["diet"].where(rng.random(n) < 0.5)
    return people


PEOPLE = make_people()


def features(people: pd.DataFrame = PEOPLE) -> pd.DataFrame:
    """The feature table as one would make it in Python."""
    X = people.drop(columns=["id", "claim"])
    for column, categories in (("region", ["east", "north", "south"]), ("diet", ["meat", "vegan"])):
        X[column] = pd.Categorical(X[column], categories=categories)
    return X


def by_hand(engine: str = "lightgbm", **params: Any) -> Any:
    given = {"objective": "binary", "seed": 0, "verbosity": -1, "optional": GROUPS, "engine": engine, **ENGINES[engine]}
    return puc.train({**given, **params}, puc.Dataset(features(), PEOPLE["claim"]), 12)


def write_table(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


def read(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pa_csv.read_csv(path).to_pandas()


def train_arguments(data: Path, out: Path, engine: str = "lightgbm") -> list[str]:
    params = [text for key, value in ENGINES[engine].items() for text in ("--param", f"{key}={str(value).lower()}")]
    options = ["--label", "claim", "--ignore", "id", "--rounds", "12", "--engine", engine]
    return ["train", str(data), *options, *OPTIONAL, *params, "--out", str(out)]


def run(*arguments: Any) -> int:
    """Run the command line in this process."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)


def start(*arguments: Any, **options: Any) -> subprocess.Popen[Any]:
    """Start the real command; warnings are errors there, too."""
    command = [sys.executable, "-W", "error", "-m", "pucboost", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    # Tables are small, and threads that wait for one another are slow on a busy machine.
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, **{**pipes, **options})


@pytest.fixture(autouse=True)
def _no_temporaries(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary tables go to a directory that must be empty afterwards."""
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    yield
    assert list(scratch.iterdir()) == []


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Assert that no file appears, disappears or changes."""
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    yield
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One model of each engine."""
    folder = tmp_path_factory.mktemp("models")
    paths = {"lightgbm": folder / "model.txt", "xgboost": folder / "model.ubj"}
    for engine, path in paths.items():
        puc.save_model(by_hand(engine), path)
    return paths


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_table(PEOPLE, tmp_path / "people.csv")


# The same numbers as in Python


def test_the_real_commands(tmp_path: Path, people: Path) -> None:
    model, out, quotes = tmp_path / "model.txt", tmp_path / "out.csv", tmp_path / "quotes.parquet"
    training = start(*train_arguments(people, model))
    said, noted = training.communicate()
    assert training.returncode == 0, noted
    assert noted == "pucboost: the label is 0 or 1, so the objective is binary (--objective chooses another)\n"
    lines = said.splitlines()
    assert lines[0] == "400 people, 7 features, objective binary"
    assert lines[2].split() == ["fitness", f"{PEOPLE['steps'].notna().mean():.1%}", "(steps,", "pulse)"]
    assert lines[3].split() == ["glucose", f"{PEOPLE['glucose'].notna().mean():.1%}"]
    assert lines[5].endswith("virtual rows of 400 people (balanced)")
    assert lines[6].startswith("12 rounds, ")
    assert lines[-1] == f"model in {model}"
    booster = by_hand()

    predicting = start("predict", model, people, "--keep", "id", "--out", "-")
    said, noted = predicting.communicate()
    assert (predicting.returncode, noted) == (0, "")
    got = pa_csv.read_csv(io.BytesIO(said.encode())).to_pandas()
    assert got["id"].tolist() == PEOPLE["id"].tolist()
    np.testing.assert_array_equal(got["prediction"], puc.predict(booster, features()))

    quoting = start("quote", model, people, "--out", quotes)
    assert (quoting.wait(), quoting.communicate()) == (0, ("", ""))
    pd.testing.assert_frame_equal(read(quotes), puc.quote(booster, features()), check_exact=True)
    assert not out.exists()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("engine", ENGINES)
def test_same_as_in_python(engine: str, ending: str, tmp_path: Path, models: dict[str, Path]) -> None:
    data = write_table(PEOPLE, tmp_path / f"people.{ending}")
    model, out = tmp_path / models[engine].name, tmp_path / f"out.{ending}"
    assert run(*train_arguments(data, model, engine), "--quiet") == 0
    booster = puc.load_model(models[engine])
    assert puc.load_model(model).consent == booster.consent
    if engine == "lightgbm":
        assert model.read_bytes() == models[engine].read_bytes()

    for options, keywords in (
        ([], {}),
        (["--raw-score"], {"raw_score": True}),
        (["--sharing", "withheld"], {"sharing": "withheld"}),
        (["--sharing", "best", "--favourable", "higher"], {"sharing": "best", "favourable": "higher"}),
    ):
        assert run("predict", model, data, "--out", out, "--subset", "--keep", "id", *options) == 0
        prediction, used = puc.predict(booster, features(), return_subset=True, **keywords)
        wanted = used.rename(columns=lambda group: f"used_{group}")
        wanted.insert(0, "prediction", prediction.astype(np.float64))
        wanted.insert(0, "id", PEOPLE["id"])
        pd.testing.assert_frame_equal(read(out), wanted, check_exact=True)

    subsets = ["nothing", "alone", ["fitness", "diet"]]
    assert run("quote", model, data, "--out", out, "--subsets", "nothing,alone,fitness+diet") == 0
    pd.testing.assert_frame_equal(read(out), puc.quote(booster, features(), subsets=subsets), check_exact=True)


def test_small_batches_and_temporary_files_change_nothing(
    tmp_path: Path, people: Path, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = write_table(PEOPLE, tmp_path / "people.parquet")
    outs = {name: [tmp_path / f"{name}-{size}" for size in ("large", "small")] for name in ("p.csv", "q.parquet")}
    outs = {name: [path.with_suffix(Path(name).suffix) for path in paths] for name, paths in outs.items()}
    for number, batch_bytes in enumerate((files.BATCH_BYTES, 800)):
        monkeypatch.setattr(files, "BATCH_BYTES", batch_bytes)
        assert (len(list(files.open_table(people).batches(["age"]))) > 20) == (number == 1)
        assert run("predict", models["lightgbm"], people, "--keep", "id", "--out", outs["p.csv"][number]) == 0
        assert run("quote", models["lightgbm"], parquet, "--keep", "id", "--out", outs["q.parquet"][number]) == 0
    assert outs["p.csv"][0].read_bytes() == outs["p.csv"][1].read_bytes()
    pd.testing.assert_frame_equal(*map(read, outs["q.parquet"]))

    monkeypatch.setattr(feature_files, "MEMORY_BYTES", 5_000)
    mapped = []
    matrix = feature_files._Rows.matrix
    monkeypatch.setattr(feature_files._Rows, "matrix", lambda rows: mapped.append(matrix(rows)) or mapped[-1])
    assert run(*train_arguments(people, tmp_path / "model.txt"), "--quiet") == 0
    assert isinstance(mapped[0].base, np.memmap)
    assert (tmp_path / "model.txt").read_bytes() == models["lightgbm"].read_bytes()


def test_weights_validation_and_early_stopping(
    tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path]
) -> None:
    weighted = PEOPLE.assign(weight=np.linspace(0.5, 2, len(PEOPLE)))
    data, valid = tmp_path / "weighted.parquet", tmp_path / "valid.csv"
    weighted.iloc[:300].to_parquet(data)
    # Other column order, and a category that was not there in training.
    weighted.iloc[300:].replace({"region": {"east": "west"}})[weighted.columns[::-1]].to_csv(valid, index=False)
    model = tmp_path / "model.txt"
    arguments = [*train_arguments(data, model), "--weight", "weight", "--rounds", 300]
    assert run(*arguments, "--valid", valid, "--early-stopping", 5) == 0
    told = capsys.readouterr().out
    assert "300 people" in told
    assert "validated on 100 people" in told
    held_out = features(PEOPLE.iloc[300:])
    held_out["region"] = held_out["region"].where(held_out["region"] != "east")
    params = {"objective": "binary", "seed": 0, "verbosity": -1, "optional": GROUPS, "early_stopping_round": 5}
    booster = puc.train(
        {**params, **ENGINES["lightgbm"]},
        puc.Dataset(features(PEOPLE.iloc[:300]), PEOPLE["claim"][:300], weight=weighted["weight"][:300]),
        300,
        valid_sets=[puc.Dataset(held_out, PEOPLE["claim"][300:], weight=weighted["weight"][300:])],
    )
    assert f"the best round is {booster.best_iteration}\n" in told
    np.testing.assert_array_equal(
        puc.predict(puc.load_model(model), features()), puc.predict(booster, features(), num_threads=2)
    )

    for engine in ENGINES:
        again = []
        for number in range(2):
            out = tmp_path / f"{number}-{models[engine].name}"
            fraction = ["--valid-fraction", "0.25", "--rounds", "60", "--early-stopping", "3", "--seed", "7"]
            assert run(*train_arguments(people, out, engine), *fraction) == 0
            told = capsys.readouterr().out
            assert "virtual rows of 300 people" in told
            assert "validated on 100 people" in told
            assert "the best round is" in told
            again.append(out.read_bytes())
        assert again[0] == again[1]


def test_objectives_and_classes(tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tmp_path / "model.txt", tmp_path / "out.csv"
    base = ["train", people, "--ignore", "id,claim", "--optional", "glucose", "--rounds", 3, "--out", model]
    base += ["--param", "num_threads=1"]
    assert run(*base, "--label", "age") == 0
    told = capsys.readouterr()
    assert "objective regression" in told.out
    assert told.err == (
        "pucboost: the label is not just 0 and 1, so the objective is regression (--objective chooses another)\n"
    )
    assert run(*base, "--label", "age", "--objective", "poisson", "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert "objective=poisson" in model.read_text(encoding="utf-8")

    classes = write_table(PEOPLE.assign(claim=np.arange(len(PEOPLE)) % 3), tmp_path / "classes.csv")
    arguments = ["--label", "claim", "--ignore", "id", *OPTIONAL, "--rounds", 3, "--out", model]
    arguments += ["--param", "num_threads=1"]
    assert run("train", classes, *arguments, "--objective", "multiclass", "--param", "num_class=3") == 0
    assert run("predict", model, classes, "--out", out) == 0
    wanted = puc.predict(puc.load_model(model), features())
    np.testing.assert_array_equal(read(out)[[f"prediction_{k}" for k in range(3)]], wanted)
    quotes = puc.quote(puc.load_model(model), features(), subsets=["all"])
    assert run("quote", model, classes, "--out", out, "--subsets", "all") == 0
    got = read(out)
    assert list(got) == [f"fitness + glucose + diet_{k}" for k in range(3)]
    np.testing.assert_array_equal(got, quotes)


def test_parameters_reach_the_engine(tmp_path: Path, people: Path) -> None:
    model = tmp_path / "model.txt"
    given = ["--augmentation", "exhaustive", "--seed", "3", "--param", "num_leaves=5", "--param", "metric=auc"]
    assert run(*train_arguments(people, model), *given, "--param", "compact=true", "--quiet") == 0
    text = model.read_text(encoding="utf-8")
    for line in ("[num_leaves: 5]", "[metric: auc]", "[seed: 3]", "objective=cross_entropy"):
        assert line in text
    assert puc.load_model(model).puc_summary.augmentation == "exhaustive"
    assert run(*train_arguments(people, model), "--copies", "1.5", "--quiet") == 0
    assert puc.load_model(model).puc_summary.virtual_rows == pytest.approx(600, abs=30)
    assert run(*train_arguments(people, model), "--param", "anchor=base", "--quiet") == 0
    assert run("predict", model, people, "--out", tmp_path / "anchored.csv") == 0
    wanted = puc.predict(puc.load_model(model), features())
    np.testing.assert_array_equal(read(tmp_path / "anchored.csv")["prediction"], wanted)


# What stands in the files


def test_how_csv_is_read(tmp_path: Path) -> None:
    text = '\ufeffa,b,c,d,e\r\n 1 ,NA,true,"x, ""y""",1e3\r\n\r\n-.5,null,False,"two\r\nlines",inf\r\n,3,,NA,N/A\r\n'
    for name, content in (("a.csv", text.encode()), ("a.csv.gz", gzip.compress(text.encode()))):
        (tmp_path / name).write_bytes(content)
        table = files.open_table(tmp_path / name)
        assert table.columns == ["a", "b", "c", "d", "e"]
        (batch,) = table.batches(table.columns)
        np.testing.assert_array_equal(batch.numbers("a"), [1, -0.5, np.nan])
        np.testing.assert_array_equal(batch.numbers("b"), [np.nan, np.nan, 3])
        np.testing.assert_array_equal(batch.numbers("c"), [1, 0, np.nan])
        np.testing.assert_array_equal(batch.numbers("e"), [1000, np.inf, np.nan])
        assert batch.text("d").to_pylist() == ['x, "y"', "two\r\nlines", None]
        assert batch.as_stored("d").to_pylist() == ['x, "y"', "two\r\nlines", "NA"]
        assert batch.as_stored("a").to_pylist() == [" 1 ", "-.5", None]
    (tmp_path / "one.tsv").write_text("x\n1\n\n3\n", encoding="utf-8")
    (batch,) = files.open_table(tmp_path / "one.tsv").batches(["x"])
    np.testing.assert_array_equal(batch.numbers("x"), [1, np.nan, 3])


def test_how_parquet_is_read(tmp_path: Path) -> None:
    import decimal

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
    table = files.open_table(path)
    assert [table.kind(name) for name in columns] == ["number"] * 5 + ["text"] * 3
    (batch,) = table.batches(["a", *columns])
    np.testing.assert_array_equal(batch.numbers("int"), [1, np.nan, 2.0**60])
    np.testing.assert_array_equal(batch.numbers("bool"), [1, np.nan, 0])
    np.testing.assert_array_equal(batch.numbers("decimal"), [1.5, np.nan, np.nan])
    np.testing.assert_array_equal(batch.numbers("null"), [np.nan] * 3)
    np.testing.assert_array_equal(batch.numbers("a"), [1.5, np.nan, 3])
    np.testing.assert_array_equal(batch.numbers("digits"), [1, np.nan, 2.5])
    assert batch.text("a").to_pylist() == ["1.5", None, "3"]
    assert batch.text("bool").to_pylist() == ["true", None, "false"]
    assert batch.text("a.b").to_pylist() == ["x", None, "z"]
    assert batch.text("dictionary").to_pylist() == ["x", None, "x"]


def test_how_tables_are_written(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    rng = np.random.default_rng(0)
    numbers = np.concatenate([rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, 500), [np.nan, 0.1, 1 / 3]])
    text = pa.array(['a,"b"', "c\r\nd", None, *(str(i) for i in range(500))])
    columns = {"text, quoted": text, "x": numbers, "flag": numbers > 0}
    for name in ("t.csv", "t.csv.gz", "t.tsv", "t.parquet"):
        with files.table_writer(tmp_path / name) as write:
            write({key: values[:3] for key, values in columns.items()})
            write({key: values[3:] for key, values in columns.items()})
        table = files.open_table(tmp_path / name)
        assert table.columns == list(columns)
        batches = list(table.batches(table.columns))
        np.testing.assert_array_equal(np.concatenate([b.numbers("x") for b in batches]), numbers)
        np.testing.assert_array_equal(np.concatenate([b.numbers("flag") for b in batches]), numbers > 0)
        assert [value for b in batches for value in b.as_stored("text, quoted").to_pylist()] == text.to_pylist()
    with files.table_writer(None) as write:
        write({"x": np.array([1.0, np.nan])})
    assert capsysbinary.readouterr().out == b"x\n1\nNaN\n"  # not an empty line, which readers skip
    # Rows written later do not need the quotes that rows written earlier did.
    assert (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()[-1] == "499,0.3333333333333333,true"


def test_the_model_says_which_columns_are_categories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path]
) -> None:
    out = tmp_path / "out.csv"
    train = PEOPLE.assign(region=np.where(PEOPLE["region"] == "north", "12", PEOPLE["region"]))
    data = write_table(train, tmp_path / "train.csv")
    model = tmp_path / "model.txt"
    with unchanged(tmp_path):
        assert run(*train_arguments(data, model)) == 3
    message = capsys.readouterr().err
    assert "column 'region': '12' is a number, but the column began with text ('east')" in message
    assert "--categorical region" in message
    assert run(*train_arguments(data, model), "--categorical", "region") == 0
    booster = puc.load_model(model)
    assert booster.pandas_categorical[0] == ["12", "east", "south"]

    # All the regions look like numbers now, and one is unknown.
    digits = PEOPLE.assign(region="12")
    digits.loc[3, "region"] = "13"
    X = features()
    X["region"] = pd.Categorical(digits["region"].where(digits["region"] == "12"), categories=["12", "east", "south"])
    wanted = puc.predict(booster, X)
    capsys.readouterr()
    for name, frame in (("a.csv", digits), ("b.parquet", digits), ("c.parquet", digits.astype({"region": int}))):
        assert run("predict", model, write_table(frame, tmp_path / name), "--out", out) == 0
        np.testing.assert_array_equal(read(out)["prediction"], wanted)
        shown = "13" if name == "c.parquet" else "'13'"
        assert capsys.readouterr().err == (
            f"pucboost: column 'region' has 1 values that the model does not know, the first {shown} in row 4; they "
            "were read as missing\n"
        )

    text = write_table(PEOPLE.astype({"age": object}).replace({"age": {PEOPLE["age"][5]: "old"}}), tmp_path / "d.csv")
    for engine in ENGINES:
        with unchanged(tmp_path):
            assert run("predict", models[engine], text, "--out", out) == 3
        first = int((PEOPLE["age"] == PEOPLE["age"][5]).argmax()) + 1
        assert capsys.readouterr().err == (
            f"pucboost: error: {text}, row {first}, column 'age': 'old' is not a number. The model was trained on "
            "numbers there\n"
        )


@pytest.mark.parametrize("engine", ENGINES)
def test_models_trained_in_python_on_numeric_categories(
    engine: str, tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    X = features()[["smoker", "region", "age", "glucose"]].assign(one=pd.Categorical(["k"] * len(PEOPLE)))
    X["age"] = pd.Categorical(PEOPLE["age"] // 10)
    model, out = tmp_path / ("model.txt" if engine == "lightgbm" else "model.ubj"), tmp_path / "out.csv"
    params = {"objective": "binary", "verbosity": -1, "optional": ["glucose"], "engine": engine, **ENGINES[engine]}
    booster = puc.train(params, puc.Dataset(X, PEOPLE["claim"]), 5)
    puc.save_model(booster, model)
    for age in (PEOPLE["age"] // 10, (PEOPLE["age"] // 10).astype(float)):
        data = write_table(PEOPLE.assign(age=age, one="k"), tmp_path / "data.csv")
        assert run("predict", model, data, "--out", out) == 0
        np.testing.assert_array_equal(read(out)["prediction"], puc.predict(booster, X))
    if engine == "lightgbm":
        X["region"] = X["region"].cat.as_ordered()
        booster = puc.train(params, puc.Dataset(X, PEOPLE["claim"]), 5)
        puc.save_model(booster, model)
        assert run("predict", model, data, "--out", out) == 0
        np.testing.assert_array_equal(read(out)["prediction"], puc.predict(booster, X))
        # Models of earlier versions do not tell which columns have which categories.
        model.write_text(re.sub(r', "coded_columns": \[[^]]*\]', "", model.read_text()))
        capsys.readouterr()
        assert run("predict", model, data, "--out", out) == 3
        assert "ordered categories" in capsys.readouterr().err


def test_columns_of_a_table_to_predict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path]
) -> None:
    out, booster = tmp_path / "out.csv", puc.load_model(models["lightgbm"])
    shuffled = PEOPLE[PEOPLE.columns[::-1]].drop(columns=["diet", "claim"]).assign(more=[[1]] * len(PEOPLE))
    data = write_table(shuffled.rename(columns={"glucose": "Glucose"}), tmp_path / "a.parquet")
    assert run("predict", models["lightgbm"], data, "--out", out) == 0
    wanted = puc.predict(booster, features(PEOPLE.assign(diet=None, glucose=np.nan)))
    np.testing.assert_array_equal(read(out)["prediction"], wanted)
    assert capsys.readouterr().err == (
        f"pucboost: {data} has no column of group 'glucose' (glucose), so it counts as withheld by everybody; did you "
        "mean 'Glucose'?\n"
        f"pucboost: {data} has no column of group 'diet' (diet), so it counts as withheld by everybody\n"
    )
    for missing, message in (
        ("age", "has no column 'age', which the model was trained on; its columns are id, region, smoker"),
        ("pulse", "has no column 'pulse', which the model was trained on"),  # only one of the two of its group
    ):
        data = write_table(PEOPLE.drop(columns=missing), tmp_path / "b.csv")
        with unchanged(tmp_path):
            assert run("quote", models["xgboost"], data, "--out", out) == 3
        assert message in capsys.readouterr().err


def test_kept_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path]) -> None:
    kept = PEOPLE.assign(
        id=[f"{i:03}" for i in range(len(PEOPLE))],
        note=['say "NA", please', "NA", ""] + ["x"] * (len(PEOPLE) - 3),
        day=pd.Timestamp("2024-02-29"),
        kind=pd.Categorical(["a"] * len(PEOPLE)),
        tags=[[1, 2]] * len(PEOPLE),
    )
    data = write_table(kept.drop(columns="tags"), tmp_path / "a.csv")
    out = tmp_path / "out.csv"
    arguments = ["predict", models["lightgbm"], data, "--out", out]
    assert run(*arguments, "--keep", "id,note", "--keep", "age,id") == 0
    got = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert list(got) == ["id", "note", "age", "prediction"]
    assert got.loc[:2, "id"].tolist() == ["000", "001", "002"]
    assert got.loc[:2, "note"].tolist() == ['say "NA", please', "NA", ""]

    parquet = write_table(kept, tmp_path / "a.parquet")
    out = tmp_path / "out.parquet"
    assert run("predict", models["lightgbm"], parquet, "--out", out, "--keep", "age,day,kind,tags") == 0
    schema = pq.read_schema(out)
    assert [str(schema.field(name).type) for name in ("age", "prediction")] == ["int64", "double"]
    assert read(out)["day"].tolist() == kept["day"].tolist()
    assert read(out)["tags"][0].tolist() == [1, 2]

    capsys.readouterr()
    for table, options, message in (
        (data, ["--keep", "idd"], "has no column 'idd' (--keep); did you mean 'id'?"),
        (parquet, ["--keep", "tags"], "column 'tags' is of type list<element: int64>, which CSV cannot hold"),
        (
            write_table(kept[kept.columns[:8]].assign(prediction=1), tmp_path / "b.csv"),
            ["--keep", "prediction"],
            "the output would have two columns 'prediction'",
        ),
    ):
        with unchanged(tmp_path):
            assert run("predict", models["lightgbm"], table, "--out", tmp_path / "new.csv", *options) == 3
        assert message in capsys.readouterr().err


def test_too_many_subsets_are_counted_in_the_rows_of_the_file(
    tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path], monkeypatch: Any
) -> None:
    monkeypatch.setattr(files, "BATCH_BYTES", 800)
    X = features()
    shared = X["steps"].notna() * 1 + X["glucose"].notna() + X["diet"].notna()
    data = write_table(PEOPLE[(shared < 3) | (PEOPLE.index > 300)], tmp_path / "a.csv")
    row = int((pd.read_csv(data)[["steps", "glucose", "diet"]].notna().sum(axis=1) == 3).argmax()) + 1
    arguments = ["predict", models["lightgbm"], data, "--sharing", "best", "--max-subsets", 4, "--out"]
    with unchanged(tmp_path):
        assert run(*arguments, tmp_path / "out.csv") == 3
    assert f"{data}, row {row}: this person shares 3 groups, 2^3 subsets, more than --max-subsets 4" in (
        capsys.readouterr().err
    )
    assert row > 100
    assert run(*arguments, tmp_path / "out.csv", "--search", "greedy") == 0


# Malformed files


def parquet_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


COLUMNS = {"age": [1.0, 2.0], "glucose": [1.0, None], "claim": [0, 1]}
GOOD = parquet_bytes(pa.table(COLUMNS))
NUMBERS = "age,glucose,claim\n" + "1,2,0\n3,,1\n" * 200
MALFORMED = [
    ("a.csv", b"", "{} is empty"),
    ("a.csv", b"\n\n", "{} is empty"),
    ("a.csv", b"age,glucose,claim", "{} has columns, but no rows"),
    ("a.csv", b"age,glucose,claim\n\n", "{} has columns, but no rows"),
    (
        "a.csv",
        (NUMBERS + "4,5\n").encode(),
        "{}, row 401: the header has 3 fields, this row has 2: 4,5",
    ),
    ("a.csv", (NUMBERS + "4,5,6,7\n").encode(), "{}, row 401: the header has 3 fields, this row has 4: 4,5,6,7"),
    ("a.csv", (NUMBERS + "abc,5,1\n").encode(), "{}, row 401, column 'age': 'abc' is not a number"),
    ("a.csv", (NUMBERS + '3,"1,5",1\n').encode(), "{}, row 401, column 'glucose': '1,5' is not a number"),
    (
        "a.csv",
        (NUMBERS + "caf\xe9,5,1\n").encode("latin1"),
        r"{}, row 401, column 'age': b'caf\xe9' is not UTF-8. Convert the file",
    ),
    ("a.csv", "\xe4ge,glucose,claim\n1,2,0\n".encode("latin1"), "{}: the header is not UTF-8 text"),
    ("a.csv", NUMBERS.encode("utf-16"), "{}: the header is not UTF-8 text"),
    ("a.csv", GOOD, "{}: the header "),
    ("a.csv", b"age,glucose,age,claim\n1,2,3,0\n", "{} has two columns 'age'; rename one of them"),
    ("a.csv", b'age,glucose,claim,note\n1,2,0,x\n3,,1,"y\n5,6,0,z\n', "{} has an odd number of double quotes"),
    ("a.csv", (NUMBERS + '3,4,"' + "1,2,0\n" * 9000).encode(), "{}: a row is longer than 20,000 bytes"),
    ("a.csv.gz", gzip.compress(NUMBERS.encode(), mtime=0)[:-20], "{}: Compressed file ended before"),
    ("a.csv.gz", NUMBERS.encode(), "{}: Not a gzipped file"),
    ("a.parquet", NUMBERS.encode(), "{}: not a Parquet file, or a damaged one"),
    ("a.parquet", b"", "{}: not a Parquet file, or a damaged one"),
    ("a.parquet", GOOD[: len(GOOD) // 2], "{}: not a Parquet file, or a damaged one"),
    ("a.parquet", GOOD[:4] + b"\xff" * 40 + GOOD[44:], "{}: not a Parquet file, or a damaged one"),
    ("a.parquet", parquet_bytes(pa.table(COLUMNS).slice(0, 0)), "{} has columns, but no rows"),
    (
        "a.parquet",
        parquet_bytes(pa.table({**COLUMNS, "age": [[1], [2]]})),
        "{}: column 'age' is of type list<element: int64>, neither number nor text",
    ),
    (
        "a.parquet",
        parquet_bytes(pa.table({**COLUMNS, "glucose": [{"x": 1}, None]})),
        "{}: column 'glucose' is of type struct<x: int64>, neither number nor text",
    ),
    (
        "a.parquet",
        parquet_bytes(pa.table({**COLUMNS, "age": pa.array([1, 2], pa.timestamp("ms"))})),
        "{}: column 'age' is of type timestamp[ms], neither number nor text",
    ),
    ("missing.csv", None, "{}: No such file or directory"),
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


@pytest.mark.parametrize(
    ("name", "content", "message"), MALFORMED, ids=[f"{i}-{name}" for i, (name, _, _) in enumerate(MALFORMED)]
)
def test_malformed_files(
    name: str,
    content: bytes | None,
    message: str,
    tmp_path: Path,
    small_model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "BATCH_BYTES", 20_000)
    path, old = tmp_path / name, tmp_path / "old.csv"
    old.write_text("an output of before", encoding="utf-8")
    if content is not None:
        path.write_bytes(content)
    for arguments in (
        ["train", path, "--label", "claim", "--optional", "glucose", "--out", tmp_path / "model.txt", "--quiet"],
        ["predict", small_model, path, "--keep", "claim", "--out", tmp_path / "new.parquet"],
        ["predict", small_model, path, "--keep", "claim", "--out", old],
        ["quote", small_model, path, "--keep", "claim", "--out", tmp_path / "new.csv.gz"],
    ):
        with unchanged(tmp_path):
            assert run(*arguments) == 3
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith("pucboost: error: " + message.format(path))
        assert told.err.count("\n") == 1


def test_malformed_file_of_a_real_command(tmp_path: Path) -> None:
    data = tmp_path / "a.csv"
    data.write_text(NUMBERS + "4,5\n", encoding="utf-8")
    with unchanged(tmp_path):
        command = start("train", data, "--label", "claim", "--optional", "glucose", "--out", tmp_path / "model.txt")
        told = command.communicate()
    assert command.returncode == 3
    assert told == (
        "", f"pucboost: error: {data}, row 401: the header has 3 fields, this row has 2: 4,5\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b,y\n1,2,yes\n", [], "row 1, column 'y': 'yes' is not a number. Labels must be numbers: encode the out"),
        ("a,b,y\n1,2,0\n1,2,\n", [], "row 2, column 'y': the value is missing; every row needs a label that is"),
        ("a,b,y\n1,2,inf\n", [], "row 1, column 'y': the value is inf; every row needs a label"),
        ("a,b,y\n1,2,0\n1,-2,0\n", ["--weight", "b", "--optional", "a"], "row 2, column 'b': the value is -2; every"),
        ("a,b,y\n1,2,0\n1,,0\n", ["--weight", "b", "--optional", "a"], "row 2, column 'b': the value is missing; ev"),
        ("a,b\n1,2\n", [], "has no column 'y' (--label); its columns are a, b"),
        ("aa,bb,yy\n1,2,0\n", ["--label", "Yy"], "has no column 'Yy' (--label); did you mean 'yy'?"),
        ("a,b,y\n1,2,0\n", ["--ignore", "c"], "has no column 'c' (--ignore); its columns are a, b, y"),
        ("a,b,y\n1,2,0\n", ["--categorical", "y"], "column 'y' is label, weight or ignored, so it cannot be optional"),
        ("a,b,y\n1,2,0\n", ["--weight", "y"], "column 'y' is both label and weight"),
        ("a,b,y\n1,2,0\n", ["--ignore", "b"], "column 'b' is label, weight or ignored"),
        ("a,b,y\n1,2,0\n", ["--optional", "b"], "--optional names group 'b' twice"),
        ("a,b,y\n1,2,0\n", ["--optional", "g=a,b"], "Column 'b' is declared optional twice (groups 'b' and 'g')"),
        ("a,b,y\n1,2,0\n", ["--optional", "g="], "has no column '' (--optional)"),
        ("a,b,y\n1,2,0\n", ["--optional", "a,b"], "write --optional NAME=a,b for columns that are shared or withheld"),
        (",a,b,y\n0,1,2,0\n", [], "has a column without a name, maybe the index of a DataFrame"),
        ("a [kg],b,y\n1,2,0\n", [], "lightgbm does not take the name 'a [kg]' because of the '[' in it"),
        ("a < 3,b,y\n1,2,0\n", ["--engine", "xgboost"], "xgboost does not take the name 'a < 3' because of the '<' in"),
        ("a,b,y\n2024-02-29,2,0\n", [], "row 1, column 'a': '2024-02-29' looks like a date. Convert it to a number"),
        ("a,b,y\n31.12.2024,2,0\n", [], "'31.12.2024' looks like a date"),
        ("a,b,y\n" + "".join(f"n{i},2,0\n" for i in range(40)), [], "column 'a' is text with more than 30 distinct"),
        ("a,b,y\nx,2,0\n\n3,2,0\n", [], "row 2, column 'a': '3' is a number, but the column began with text ('x')"),
        ("a,b,y\n3,2,0\nx,2,0\n", [], "row 2, column 'a': 'x' is not a number. Correct it, or read the column as text"),
        ("a,b,y\n1,2,7\n", ["--objective", "binary"], "needs labels between 0 and 1. (Here rows are counted from 0.)"),
        ("a,b,y\n1,2,7\n", ["--valid-fraction", "0.1"], "--valid-fraction 0.1 of 1 people leaves one side empty"),
        ("a,b,y\n1,2,7\n", ["--objective", "reg:nonsense", "--engine", "xgboost"], "Unknown objective function: `re"),
        ("a,b,y\n1,2,7\n", ["--objective", "lambdarank"], "Protected User Consent is defined for predictions of a"),
        ("a,b,y\n1,2,7\n", ["--valid", "nowhere.csv"], "nowhere.csv: No such file or directory"),
    ],
)  # fmt: skip
def test_unsuitable_training_data(
    text: str,
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feature_files, "MAX_CATEGORIES", 30)
    data = tmp_path / "a.csv"
    data.write_text(text, encoding="utf-8")
    with unchanged(tmp_path):
        fixed = [] if "--label" in options else ["--label", "y"]
        fixed += [] if "--weight" in options and "a" in options else ["--optional", "b"]
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


# Outputs, whole or not at all


def test_outputs_that_cannot_be_written_are_known_at_once(
    tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path], monkeypatch: Any
) -> None:
    monkeypatch.setattr(
        "pucboost._tables.files.open_table", lambda path: pytest.fail("read before the output was checked")
    )
    model = models["lightgbm"]
    (tmp_path / "folder.csv").mkdir()
    for name, message in (
        ("nowhere/out.csv", f"there is no directory {tmp_path / 'nowhere'}"),
        ("folder.csv", "it is a directory"),
        ("people.csv", "is both read and written"),
    ):
        for arguments in (train_arguments(people, tmp_path / name), ["quote", model, people, "--out", tmp_path / name]):
            with unchanged(tmp_path):
                assert run(*arguments) == 3
            assert message in capsys.readouterr().err
    assert run("predict", model, people, "--out", tmp_path / "out.xlsx") == 3
    assert "out.xlsx: a table file must end in one of" in capsys.readouterr().err
    assert run("train", people, "--label", "claim", "--optional", "diet", "--out", os.devnull) == 3
    assert "not a regular file" in capsys.readouterr().err
    if os.geteuid() != 0:  # root may write everywhere
        locked = tmp_path / "locked"
        locked.mkdir(0o500)
        assert run("predict", model, people, "--out", locked / "out.csv") == 3
        assert "Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("failure", ["interrupt", "termination", "full disk", "bug"])
def test_failure_half_way_leaves_the_old_output(
    ending: str,
    failure: str,
    tmp_path: Path,
    people: Path,
    capsys: pytest.CaptureFixture[str],
    models: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "BATCH_BYTES", 800)
    monkeypatch.setattr(files, "ROW_GROUP", 10)
    done = []

    def predict(*arguments: Any, **options: Any) -> Any:
        done.append(1)
        if len(done) == 5:
            if failure == "interrupt":
                raise KeyboardInterrupt
            if failure == "termination":
                os.kill(os.getpid(), signal.SIGTERM)
            if failure == "full disk":
                raise OSError(28, "No space left on device")
            raise RuntimeError("a mistake of ours")
        return original(*arguments, **options)

    original = puc.predict
    monkeypatch.setattr("pucboost._prediction.prediction.predict", predict)
    old = tmp_path / f"old.{ending}"
    old.write_text("an output of before", encoding="utf-8")
    before = signal.getsignal(signal.SIGTERM)
    for out in (old, tmp_path / f"new.{ending}"):
        done.clear()
        with unchanged(tmp_path):
            code = run("predict", models["lightgbm"], people, "--out", out)
        assert code == {"interrupt": 130, "termination": 143}.get(failure, 3)
        told = capsys.readouterr().err
        if failure == "full disk":
            assert told == "pucboost: error: No space left on device\n"
        assert ("Traceback" in told) == (failure == "bug")
    assert signal.getsignal(signal.SIGTERM) is before


def test_model_is_written_whole_or_not_at_all(
    tmp_path: Path, people: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.txt"
    model.write_text("a model of before", encoding="utf-8")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, unchanged(tmp_path):
        patch.setattr("os.replace", fail)
        assert run(*train_arguments(people, model), "--quiet") == 3
    assert capsys.readouterr().err == "pucboost: error: No space left on device\n"

    link = tmp_path / "link.txt"
    link.symlink_to(model)
    assert run(*train_arguments(people, link), "--quiet") == 0
    assert link.is_symlink()
    assert puc.load_model(model).consent.group_names == tuple(GROUPS)


def test_full_temporary_directory(
    tmp_path: Path, people: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(feature_files, "MEMORY_BYTES", 5_000)
    monkeypatch.setattr(feature_files.tempfile, "TemporaryFile", Full)
    monkeypatch.setattr("pucboost._tables.files.check_can_be_written", lambda *_: None)
    with unchanged(tmp_path):
        assert run(*train_arguments(people, tmp_path / "model.txt")) == 3
    assert "No space left on device); set TMPDIR to a directory with more room" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_interrupted_training(tmp_path: Path, people: Path) -> None:
    with unchanged(tmp_path):
        training = start(*train_arguments(people, tmp_path / "model.txt"), "--rounds", 10**8)
        assert training.stderr is not None
        assert "the objective is binary" in training.stderr.readline()  # training begins now
        training.send_signal(signal.SIGINT)
        assert training.communicate() == ("", "pucboost: interrupted\n")
    assert training.returncode == 130


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are POSIX's")
def test_reader_that_has_seen_enough(tmp_path: Path, models: dict[str, Path]) -> None:
    many = write_table(pd.concat([PEOPLE] * 10), tmp_path / "many.csv")
    quoting = start("quote", models["lightgbm"], many, "--out", "-")
    assert quoting.stdout is not None
    assert quoting.stdout.readline().startswith("nothing,fitness,glucose,fitness + glucose,diet")
    quoting.stdout.close()
    assert quoting.wait() == 141
    assert quoting.stderr is not None
    assert quoting.stderr.read() == ""
    quoting.stderr.close()


@pytest.mark.skipif(sys.platform == "win32", reason="terminals are POSIX's")
def test_progress_on_a_terminal(tmp_path: Path, people: Path) -> None:
    ours, theirs = os.openpty()
    training = start(*train_arguments(people, tmp_path / "model.ubj", "xgboost"), stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux's way of saying that the other side is closed
            part = b""
        if not part:
            break
        shown += part
    os.close(ours)
    assert training.communicate()[0].endswith(f"model in {tmp_path / 'model.ubj'}\n")
    assert training.returncode == 0
    assert b"reading" in shown
    assert b"training" in shown


# Usage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "a.csv", "--label", "y", "--out", "m"], "--optional: name at least one column or group that people"),
        (["train", "a.csv", "--optional", "a", "--out", "m"], "required: --label"),
        (["train", "--label", "y", "--optional", "a", "--out", "m"], "required: DATA"),
        (["predict", "m", "a.csv"], "required: --out"),
        (["predict", "m", "a.csv", "--out", "-", "--sharing", "all"], "invalid choice: 'all'"),
        (["train", "a.csv", "--label", "y", "--optional", "a", "--out", "m", "--rounds", "0"], "at least 1, got '0'"),
        (["train", "a.csv", "--label", "y", "--optional", "a", "--out", "m", "--param", "x"], "KEY=VALUE, got 'x'"),
        (["train", "a.csv", "--label", "y", "--optional", "a", "--out", "m", "--param", "seed=1"], "for seed: --seed"),
        (["train", "a.csv", "--label", "y", "--optional", "a", "--out", "m", "--valid-fraction", "1"], "0 and 1, got"),
        (["train", "a.csv", "--label", "y", "--optional", "a", "--out", "m", "--early-stopping", "5"], "needs --valid"),
        (["unknown"], "invalid choice: 'unknown'"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 3
    told = capsys.readouterr().err
    assert told.startswith("usage: pucboost")
    assert message in told


def test_unknown_subsets(
    tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path]
) -> None:
    with unchanged(tmp_path):
        arguments = ["quote", models["lightgbm"], people, "--subsets", "nothing,fitness+blood"]
        assert run(*arguments, "--out", tmp_path / "out.csv") == 3
    assert "Group 'blood' is not in the consent schema; its groups are ['fitness', " in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["train"], ["predict"], ["quote"], ["demo"]])
def test_help(command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*command, "--help") == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) < 81
    if command != ["demo"]:
        assert "exit codes:\n  0    done\n  3    wrong usage" in text
    if command and command != ["demo"]:
        assert f"    pucboost {command[0]} " in text.split("example:\n")[1]


def test_warnings_are_one_line(tmp_path: Path, people: Path) -> None:
    command = [sys.executable, "-m", "pucboost", "train", people, "--label", "claim", "--rounds", "2", "--quiet"]
    options = ["--ignore", "id,region,smoker,age", *OPTIONAL, "--out", tmp_path / "model.txt"]
    options += ["--param", "num_threads=1"]
    done = subprocess.run([*command, *options], capture_output=True, encoding="utf-8", cwd=ROOT, check=True)
    assert done.stderr.startswith("pucboost: warning: Every column is optional, ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_help_loads_nothing_that_is_slow() -> None:
    code = (
        "import sys; from pucboost._cli.main import main\n"
        "try: main(['train', '--help'])\n"
        "except SystemExit: print(sorted({'lightgbm', 'numpy', 'pandas', 'pyarrow', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", cwd=ROOT, check=True)
    assert done.stdout.endswith("[]\n")
