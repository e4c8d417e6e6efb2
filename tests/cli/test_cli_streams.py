"""Standard streams that are closed or full, signals at awkward moments, pipes in place of files, names that steer."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cli_tools import PEOPLE, ROOT, run, start, train_arguments, unchanged, write_table

from pucboost._tables import table_files

posix = pytest.mark.skipif(sys.platform == "win32", reason="closed handles and full devices are POSIX's")


def shell(line: str, *arguments: Any) -> tuple[int, str, str]:
    """Run ``pucboost "$@"`` with redirections, and return exit code, output and errors."""
    command = f'exec {sys.executable} -W error -m pucboost "$@" {line}'
    running = start(command=["bash", "-c", command, "bash", *map(str, arguments)])
    out, err = running.communicate()
    return running.returncode, out, err


@pytest.mark.slow
@posix
def test_closed_and_full_streams(tmp_path: Path, people: Path, models: dict[str, Path]) -> None:
    predict = ["predict", models["lightgbm"], people, "--out", "-"]
    assert shell(">&-", *predict) == (3, "", "pucboost: error: --out -: standard output is closed\n")
    assert shell("2>&-", *predict)[0::2] == (0, "")
    nobody = ["predict", tmp_path / "nowhere", people, "--out", "-"]
    assert shell(">&- 2>&- <&-", *nobody) == (3, "", "")
    assert shell(">&-", "--version") == (0, "", "")
    if Path("/dev/full").exists():
        full = (3, "", "pucboost: error: standard output: No space left on device\n")
        assert shell(">/dev/full", *predict) == full
        assert shell("2>/dev/full", *nobody) == (3, "", "")


@posix
def test_a_model_is_written_although_nobody_listens(tmp_path: Path, people: Path) -> None:
    arguments = train_arguments(people, tmp_path / "model.txt")
    code, _, told = shell(">&-", *arguments)
    assert (code, told.count("\n")) == (0, 1)
    assert (tmp_path / "model.txt").read_bytes().startswith(b"tree\n")  # and nothing that was printed


def test_characters_that_a_terminal_does_not_know(people: Path, tmp_path: Path) -> None:
    renamed = write_table(PEOPLE.rename(columns={"glucose": "größe"}), tmp_path / "a.csv")
    arguments = ["train", renamed, "--label", "claim", "--ignore", "id", "--optional", "größe", "--rounds", "2"]
    arguments += ["--threads", "1", "--out", tmp_path / "model.txt"]
    training = start(*arguments, encoding="ascii", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert r"gr\xf6\xdfe" in training.communicate()[0]
    assert training.returncode == 0


STEERING = "a\x1b[31mred\x07\u202e\r"
COLUMN = "a\x1b(31mred\x07\u202e"


def test_names_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_table(PEOPLE.rename(columns={"glucose": COLUMN}), tmp_path / "a.parquet")
    for label, ignored, code in (
        ("nothing like it", "id", 3),  # the error shows the columns there are
        ("claim", "id", 0),  # the summary shows groups
        ("claim", "id,region,smoker,age", 0),  # and so does a warning
    ):
        arguments = ["train", data, "--label", label, "--ignore", ignored, "--rounds", 2, "--param", "num_threads=1"]
        arguments += ["--optional", f"{STEERING}={COLUMN}", "--optional", "diet"]
        assert run(*arguments, "--out", tmp_path / "model.txt") == code
        told = capsys.readouterr()
        assert "red" in told.out + told.err
        assert not any(char in told.out + told.err for char in "\x1b\x07\u202e\r")


def test_paths_are_no_markup() -> None:
    from pucboost._common import progress_bar

    with progress_bar("reading [/red] [bold]a.csv", shown=True) as report:
        report(0.5)


@posix
def test_pipes_are_refused_at_once(
    tmp_path: Path, models: dict[str, Path], people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for command, *given in (
        ["predict", models["lightgbm"], pipe],
        ["predict", pipe, people],
        ["audit", pipe, people, "--label", "claim", "--margin", 1, "--optional", "diet"],
    ):
        options = [] if command == "audit" else ["--out", tmp_path / "out.csv"]
        assert run(command, *given, *options) == 3
        assert capsys.readouterr().err == (
            f"pucboost: error: cannot read {pipe}: it is not a regular file; if it is a pipe, write its content to a "
            "file\n"
        )


@posix
def test_interrupted_while_data_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table_files, "BATCH_BYTES", 4_000)
    original, left = table_files._Watched.read, 0

    def read(self: Any, size: int = -1) -> bytes:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, size)

    monkeypatch.setattr(table_files._Watched, "read", read)
    for name in ("a.csv", "a.csv.gz"):
        data = write_table(pd.concat([PEOPLE] * 20), tmp_path / name)
        for at in (1, 3, 10):
            left = at
            with unchanged(tmp_path):
                assert run(*train_arguments(data, tmp_path / "model.txt"), "--quiet") == 130
            assert capsys.readouterr().err == "pucboost: interrupted\n"


def test_arrow_calls_it_cancelled(
    people: Path, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow as pa

    def cancelled(*_: Any) -> Any:
        raise pa.ArrowCancelled("Operation cancelled", 2)
        yield

    monkeypatch.setattr(table_files.CsvTable, "_contents", cancelled)
    assert run("predict", models["lightgbm"], people, "--out", "-") == 130
    assert capsys.readouterr().err == "pucboost: interrupted\n"


@posix
def test_interrupted_within_a_text_that_is_evaluated(tmp_path: Path) -> None:
    """Python would end by the signal, not with our exit code."""
    (tmp_path / "stopped.py").write_text(
        "import os, signal, sys\n"
        "from pucboost._cli import main\n"
        "from pucboost._cli import doctor\n"
        "doctor.run = lambda given: exec('os.kill(os.getpid(), signal.SIGINT)\\nwhile True: pass')\n"
        "sys.exit(main.main(['doctor']))\n"
    )
    stopped = start(command=[sys.executable, tmp_path / "stopped.py"], env={"PYTHONPATH": str(ROOT)})
    assert (stopped.communicate()[1], stopped.returncode) == ("pucboost: interrupted\n", 130)
