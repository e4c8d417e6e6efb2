"""Outputs of the command line are written whole or not at all, whatever goes wrong."""

from __future__ import annotations

import gzip
import io
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cli_tools import GROUPS, PEOPLE, run, start, train_arguments, unchanged, write_table

import pucboost as puc
from pucboost._cli.predict import people_in_batches
from pucboost._tables import files, table_files
from pucboost._tables.columns import Numbers
from pucboost._tables.table_files import open_table


def test_outputs_that_cannot_be_written_are_known_at_once(
    tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path], monkeypatch: Any
) -> None:
    monkeypatch.setattr(
        "pucboost._tables.table_files.open_table", lambda path: pytest.fail("read before the output was checked")
    )
    model = models["lightgbm"]
    (tmp_path / "folder.csv").mkdir()
    for name, message in (
        ("nowhere/out.csv", f"there is no directory {tmp_path / 'nowhere'}"),
        ("folder.csv", "it is a directory"),
        ("people.csv", "is both read and written"),
        ("n" * 252 + ".csv", "File name too long"),
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


@pytest.mark.parametrize("failure", ["interrupt", "termination", "full disk", "bug"])
def test_failure_half_way_leaves_the_old_output(
    failure: str,
    tmp_path: Path,
    people: Path,
    capsys: pytest.CaptureFixture[str],
    models: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_files, "BATCH_BYTES", 800)
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
    monkeypatch.setattr("pucboost._prediction.predictor.predict", predict)
    before = signal.getsignal(signal.SIGTERM)
    for ending in ("csv", "csv.gz", "parquet"):
        (tmp_path / f"old.{ending}").write_text("an output of before", encoding="utf-8")
        for out in (tmp_path / f"old.{ending}", tmp_path / f"new.{ending}"):
            done.clear()
            with unchanged(tmp_path):
                code = run("predict", models["lightgbm"], people, "--out", out)
            assert code == {"interrupt": 130, "termination": 143}.get(failure, 3)
            told = capsys.readouterr().err
            if failure == "full disk":
                assert told == f"pucboost: error: {out}: No space left on device\n"
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
    assert capsys.readouterr().err == f"pucboost: error: {model}: No space left on device\n"

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

    monkeypatch.setattr(table_files, "MEMORY_BYTES", 5_000)
    monkeypatch.setattr(table_files.tempfile, "TemporaryFile", Full)
    monkeypatch.setattr("pucboost._cli.train.check_can_be_written", lambda *_: None)
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
        assert training.communicate(timeout=300) == ("", "pucboost: interrupted\n")
    assert training.returncode == 130


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are POSIX's")
def test_reader_that_has_seen_enough(tmp_path: Path, models: dict[str, Path]) -> None:
    # More than any pipe holds: a command that can write all of it would end well before its reader leaves.
    many = write_table(pd.concat([PEOPLE] * 100), tmp_path / "many.csv")
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


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="asks Linux which files are open")
def test_a_file_is_closed_when_its_reader_fails(tmp_path: Path) -> None:
    """Not when the error is forgotten, which a debugger or a test report may never do."""
    path = tmp_path / "people.csv.gz"
    path.write_bytes(gzip.compress(b"a\n1\n"))

    def fail() -> None:
        with people_in_batches([Numbers("a")], open_table(path), [], "reading", quiet=True) as batches:
            for _ in batches:
                raise KeyError

    with pytest.raises(KeyError) as kept:
        fail()
    assert path not in [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    del kept
