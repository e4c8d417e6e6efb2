"""Usage errors, help and warnings of the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_tools import OPTIONAL, PEOPLE, ROOT, run, train_arguments, unchanged, write_table

TRAIN = ["train", "a.csv", "--label", "y", "--optional", "a", "--out", "m"]
USAGE: list[tuple[list[str], str]] = [
    ([], "required: COMMAND"),
    (["unknown"], "invalid choice: 'unknown'"),
    (["train", "a.csv", "--label", "y", "--out", "m"], "--optional: name at least one column or group that people"),
    (["train", "a.csv", "--optional", "a", "--out", "m"], "required: --label"),
    (["train", "--label", "y", "--optional", "a", "--out", "m"], "required: DATA"),
    ([*TRAIN, "--rounds", "0"], "at least 1, got '0'"),
    ([*TRAIN, "--param", "x"], "KEY=VALUE, got 'x'"),
    ([*TRAIN, "--param", "seed=1"], "for seed: --seed"),
    ([*TRAIN, "--threads", "2", "--param", "nthread=1"], "nthread and --threads are the same; give one"),
    ([*TRAIN, "--valid-fraction", "1"], "0 and 1, got"),
    ([*TRAIN, "--early-stopping", "5"], "needs --valid"),
    (["predict", "m", "a.csv"], "required: --out"),
    (["predict", "m", "a.csv", "--out", "-", "--sharing", "all"], "invalid choice: 'all'"),
    (["audit", "m", "a.csv", "--label", "y"], "required: --margin"),
    (["demo", "--rows", "12"], "at least 1000, got '12'"),
]


def test_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in USAGE:
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


def test_help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    commands = "train predict quote explain letter intervals questions audit check demo doctor warmup"
    for command in ("", *commands.split()):
        assert run(*command.split(), "--help") == 0
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) < 81
        if command not in ("audit", "demo", "doctor", "warmup"):
            assert "exit codes:\n  0    done\n  3    wrong usage" in text
        if command not in ("", "demo"):
            assert f"    pucboost {command} " in text.split("example:\n")[1]


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line(tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--ignore", "id,region,smoker,age", *OPTIONAL, "--threads", 1, "--out", tmp_path / "model.txt"]
    assert run("train", people, "--label", "claim", "--rounds", "2", "--quiet", *options) == 0
    told = capsys.readouterr()
    assert told.err.startswith("pucboost: warning: Every column is optional, ")
    assert told.err.count("\n") == 1
    assert told.out == ""


def test_help_loads_nothing_that_is_slow() -> None:
    code = (
        "import sys; from pucboost._cli.main import main\n"
        "try: main(['train', '--help'])\n"
        "except SystemExit: print(sorted({'lightgbm', 'numpy', 'pandas', 'pyarrow', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", cwd=ROOT, check=True)
    assert done.stdout.endswith("[]\n")


def test_unknown_parameters_are_errors(tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also those that ``puc.train`` would only warn of: nobody but the person who typed them has given them."""
    assert run(*train_arguments(people, tmp_path / "model.txt"), "--param", "learning_rat=0.1") == 3
    assert "Unknown parameter 'learning_rat'" in capsys.readouterr().err
    assert not (tmp_path / "model.txt").exists()


@pytest.mark.filterwarnings("default::pucboost.warnings.EncodedSilenceWarning")
def test_warnings_name_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The value that a warning advises can be given to --param as it stands."""
    encoded = PEOPLE.assign(glucose=PEOPLE["glucose"].fillna(-999), diet=PEOPLE["diet"].fillna("not given"))
    data = write_table(encoded, tmp_path / "a.csv")
    arguments = train_arguments(data, tmp_path / "model.txt")
    assert run(*arguments, "--quiet") == 0
    told = capsys.readouterr().err
    advice = 'expect_shared=["glucose", "diet"]'
    assert f"If all these values were really shared, set the parameter {advice}" in told
    assert run(*arguments, "--quiet", "--param", advice) == 0
    assert capsys.readouterr().err == ""
