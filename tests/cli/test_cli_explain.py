"""``pucboost explain`` writes what ``puc.explain`` returns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_tools import PEOPLE, by_hand, features, read, run, unchanged, write_table

import pucboost as puc


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost", "native"])
def test_reasons_are_those_of_python(engine: str, tmp_path: Path, people: Path, models: dict[str, Path]) -> None:
    new, out = write_table(PEOPLE.iloc[:50], tmp_path / "new.parquet"), tmp_path / "reasons.csv"
    options = ["--background", people, "--keep", "id", "--favourable", "lower", "--top", 2, "--threads", 1]
    assert run("explain", models[engine], new, *options, "--out", out, "--quiet") == 0
    written = read(out)
    wanted = puc.explain(by_hand(engine), features()[:50], features(), favourable="lower", num_threads=1).reasons(2)
    assert written["id"].tolist() == PEOPLE["id"][:50].tolist()
    assert list(written.columns[1:]) == list(wanted.columns)
    for k in (1, 2):
        assert written[f"reason_{k}"].fillna("").tolist() == wanted[f"reason_{k}"].fillna("").tolist()
        np.testing.assert_allclose(written[f"value_{k}"], wanted[f"value_{k}"], rtol=1e-6)
    cited = {i: column for i, column in enumerate(wanted["reason_1"]) if isinstance(column, str)}
    assert len(cited) > 30
    assert all(pd.notna(PEOPLE[column].iloc[i]) for i, column in cited.items())


def test_what_is_missing_is_said_before_anything_is_written(
    tmp_path: Path, people: Path, capsys: pytest.CaptureFixture[str], models: dict[str, Path]
) -> None:
    few = write_table(PEOPLE.iloc[:5], tmp_path / "few.csv")
    for options, message in (
        (["--background", people], "explain needs --favourable lower (a price) or --favourable higher (an approval)"),
        (["--background", tmp_path / "none.csv", "--favourable", "lower"], "none.csv"),
        (["--background", few, "--favourable", "lower"], "background has 5 people, but nobody is compared with fewer"),
    ):
        with unchanged(tmp_path):
            assert run("explain", models["lightgbm"], people, *options, "--out", tmp_path / "out.csv") == 3
        assert message in capsys.readouterr().err


def test_letters_name_reasons(tmp_path: Path, people: Path, models: dict[str, Path]) -> None:
    new = write_table(PEOPLE.iloc[:3], tmp_path / "new.csv")
    options = ["--quantity", "price", "--name-by", "id", "--background", people, "--out", tmp_path / "letters"]
    assert run("letter", models["lightgbm"], new, *options, "--quiet") == 0
    wanted = puc.letters.for_each(by_hand(), features()[:3], quantity="price", background=features())
    for one, name in zip(wanted, PEOPLE["id"], strict=False):
        page = (tmp_path / "letters" / f"{name}.html").read_text(encoding="utf-8")
        assert [column for column, _ in one.reasons]
        assert all(f'<span class="group">{column}</span>' in page for column, _ in one.reasons)
