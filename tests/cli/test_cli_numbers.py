"""The command line on real files gives the same numbers as Python."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pyarrow.csv as pa_csv
import pytest
from cli_tools import (
    ENGINES,
    GROUPS,
    OPTIONAL,
    PEOPLE,
    by_hand,
    features,
    read,
    run,
    start,
    train_arguments,
    write_table,
)

import pucboost as puc
from pucboost._tables import table_files


def test_summary_of_a_training_and_the_real_command(
    tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.txt"
    assert run(*train_arguments(people, model)) == 0
    said, noted = capsys.readouterr()
    assert noted == "pucboost: the label is 0 or 1, so the objective is binary (--objective chooses another)\n"
    lines = said.splitlines()
    assert lines[0] == "400 people, 7 features, objective binary"
    assert lines[2].split() == ["fitness", f"{PEOPLE['steps'].notna().mean():.1%}", "(steps,", "pulse)"]
    assert lines[3].split() == ["glucose", f"{PEOPLE['glucose'].notna().mean():.1%}"]
    assert lines[5].endswith("virtual rows of 400 people (balanced)")
    assert lines[6].startswith("12 rounds, engine lightgbm, ")
    assert lines[-1] == f"model in {model}"

    predicting = start("predict", model, people, "--keep", "id", "--out", "-")
    said, noted = predicting.communicate()
    assert (predicting.returncode, noted) == (0, "")
    got = pa_csv.read_csv(io.BytesIO(said.encode())).to_pandas()
    assert got["id"].tolist() == PEOPLE["id"].tolist()
    np.testing.assert_array_equal(got["prediction"], puc.predict(by_hand(), features()))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("engine", ENGINES)
def test_same_as_in_python(engine: str, ending: str, tmp_path: Path, models: dict[str, Path]) -> None:
    data = write_table(PEOPLE, tmp_path / f"people.{ending}")
    model, out = tmp_path / models[engine].name, tmp_path / f"out.{ending}"
    assert run(*train_arguments(data, model, engine), "--quiet") == 0
    booster = puc.load_model(models[engine])
    assert puc.load_model(model).consent == booster.consent
    if engine != "xgboost":
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
    predicted, quoted = ([tmp_path / f"{number}.{ending}" for number in range(2)] for ending in ("csv", "parquet"))
    for number, batch_bytes in enumerate((table_files.BATCH_BYTES, 800)):
        monkeypatch.setattr(table_files, "BATCH_BYTES", batch_bytes)
        assert (len(list(table_files.open_table(people).blocks(["age"]))) > 20) == (number == 1)
        assert run("predict", models["lightgbm"], people, "--keep", "id", "--out", predicted[number]) == 0
        assert run("quote", models["lightgbm"], parquet, "--keep", "id", "--out", quoted[number]) == 0
    assert predicted[0].read_bytes() == predicted[1].read_bytes()
    pd.testing.assert_frame_equal(*map(read, quoted))

    monkeypatch.setattr(table_files, "MEMORY_BYTES", 5_000)
    mapped = []
    matrix = table_files.GrowingMatrix.matrix
    monkeypatch.setattr(table_files.GrowingMatrix, "matrix", lambda rows: mapped.append(matrix(rows)) or mapped[-1])
    assert run(*train_arguments(people, tmp_path / "model.txt"), "--quiet") == 0
    assert isinstance(mapped[0].base, np.memmap)
    assert (tmp_path / "model.txt").read_bytes() == models["lightgbm"].read_bytes()


def test_folders_of_parquet_files(tmp_path: Path, models: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "people"
    folder.mkdir()
    for i in range(3):
        write_table(PEOPLE[150 * i : 150 * (i + 1)], folder / f"{i}.parquet")
    assert run(*train_arguments(folder, tmp_path / "model.txt"), "--quiet") == 0
    assert (tmp_path / "model.txt").read_bytes() == models["lightgbm"].read_bytes()
    assert run("predict", models["lightgbm"], folder, "--keep", "id", "--out", tmp_path / "out.csv") == 0
    got = read(tmp_path / "out.csv")
    assert got["id"].tolist() == PEOPLE["id"].tolist()
    np.testing.assert_array_equal(got["prediction"], puc.predict(puc.load_model(models["lightgbm"]), features()))
    write_table(PEOPLE[300:].assign(claim=np.nan), folder / "2.parquet")
    capsys.readouterr()
    assert run(*train_arguments(folder, tmp_path / "model.txt"), "--quiet") == 3
    assert "2.parquet, row 1, column 'claim': the value is missing" in capsys.readouterr().err


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
    held_out = features(PEOPLE.iloc[300:])
    held_out["region"] = held_out["region"].where(held_out["region"] != "east")
    params = {"objective": "binary", "seed": 0, "verbosity": -1, "optional": GROUPS, "early_stopping_round": 5}
    scores: dict[str, Any] = {}
    booster = puc.train(
        {**params, **ENGINES["lightgbm"]},
        puc.Dataset(features(PEOPLE.iloc[:300]), PEOPLE["claim"][:300], weight=weighted["weight"][:300]),
        300,
        valid_sets=[puc.Dataset(held_out, PEOPLE["claim"][300:], weight=weighted["weight"][300:])],
        callbacks=[lgb.record_evaluation(scores)],
    )
    best = scores["valid_0"]["binary_logloss"][booster.best_iteration - 1]
    assert f"validated on 100 people: binary_logloss {best:.6g}\n" in told
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
            assert re.search(r"validated on 100 people: (binary_)?logloss 0\.\d+\n", told)
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


def test_threads_reach_every_command(
    tmp_path: Path, people: Path, models: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    def asked(params: Any, *_: Any, num_threads: int | None = None, **more: Any) -> Any:
        raise ValueError(f"{num_threads or params['num_threads']} threads")

    out, model = ["--out", tmp_path / "out.csv"], models["lightgbm"]
    for name in puc.__all__:
        getattr(puc, name)  # a module that is first loaded below would keep what is patched
    for place, arguments in (
        ("_training.train.train", ["train", people, "--label", "claim", "--ignore", "id", *OPTIONAL, *out]),
        ("_prediction.predictor.predict", ["predict", model, people, *out]),
        ("_prediction.predictor.quote", ["quote", model, people, *out]),
        (
            "_prediction.predictor.MaskedPredictor",
            ["letter", model, people, "--name-by", "id", "--quantity", "price", *out],
        ),
        ("_auditing.run.audit", ["audit", model, people, "--label", "claim", "--margin", 1]),
        ("demo.run", ["demo"]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"pucboost.{place}", asked)
            assert run(*arguments, "--threads", 3) == 3
            assert capsys.readouterr().err.endswith("pucboost: error: 3 threads\n")


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
    for option, strength in ((["--calibrate-masks"], 1.0), (["--calibrate-masks", "0.5"], 0.5)):
        assert run(*train_arguments(people, model), *option, "--quiet") == 0
        assert puc.load_model(model).puc_summary.mask_calibration == strength
        wanted = puc.predict(by_hand(calibrate_masks=strength), features())
        np.testing.assert_array_equal(puc.predict(puc.load_model(model), features()), wanted)
