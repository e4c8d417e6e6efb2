"""``pucboost letter``: pages from table files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_tools import GROUPS, PEOPLE, by_hand, features, run, unchanged, write_table

import pucboost as puc
from pucboost._tables import table_files

TOML = 'quantity = "yearly price"\n[groups]\nfitness = "your fitness app"\n[number]\nprefix = "€"\nfactor = 1000\n'


QUANTITY = ["--quantity", "yearly risk"]


def test_one_page(tmp_path: Path, models: dict[str, Path]) -> None:
    out = tmp_path / "quote.html"
    for engine, ending in (("lightgbm", "csv"), ("lightgbm", "parquet"), ("xgboost", "csv")):
        person = write_table(PEOPLE.iloc[[5]], tmp_path / f"person.{ending}")
        assert run("letter", models[engine], person, *QUANTITY, "--out", out, "--quiet") == 0
        expected = puc.letter(by_hand(engine), features().iloc[[5]], quantity="yearly risk")
        assert out.read_text(encoding="utf-8") == expected.to_html()


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_a_page_for_each(
    tmp_path: Path, people: Path, models: dict[str, Path], engine: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(table_files, "BATCH_BYTES", 4096)  # many batches
    (tmp_path / "letter.toml").write_text(TOML, encoding="utf-8")
    out = tmp_path / "letters"
    options = ["--text", tmp_path / "letter.toml", "--sharing", "best", "--favourable", "lower"]
    assert run("letter", models[engine], people, "--name-by", "id", "--out", f"{out}/", *options) == 0
    assert f"wrote 400 pages to {out}" in capsys.readouterr().err
    text = puc.letters.LetterText.from_toml(tmp_path / "letter.toml")
    given: dict[str, Any] = {"text": text, "sharing": "best", "favourable": "lower"}
    letters = puc.letters.for_each(by_hand(engine), features(), references=PEOPLE["id"].tolist(), **given)
    assert sorted(path.name for path in out.iterdir()) == sorted(f"{name}.html" for name in PEOPLE["id"])

    def without_bars(page: str) -> str:
        return re.sub(r"<rect [^>]*>", "", page)  # lengths depend on the order of sums

    for letter in letters:
        page = (out / f"{letter.reference}.html").read_text(encoding="utf-8")
        assert without_bars(page) == without_bars(letter.to_html())
        assert f"Reference: {letter.reference}" in page


def test_one_class_among_several(tmp_path: Path) -> None:
    X = features().drop(columns=["region", "diet"])
    groups = {"fitness": GROUPS["fitness"], "glucose": GROUPS["glucose"]}
    params = {"objective": "multiclass", "num_class": 3, "optional": groups, "verbosity": -1, "num_threads": 1}
    booster = puc.train(params, puc.Dataset(X, np.arange(len(X)) % 3), 5)
    puc.save_model(booster, tmp_path / "model.txt")
    person = write_table(PEOPLE.iloc[[5]], tmp_path / "person.csv")
    arguments = ["letter", tmp_path / "model.txt", person, *QUANTITY, "--out", tmp_path / "quote.html"]
    assert run(*arguments) == 3
    assert run(*arguments, "--target-class", 2) == 0
    expected = puc.letter(booster, X.iloc[[5]], quantity="yearly risk", target_class=2).to_html()
    assert (tmp_path / "quote.html").read_text(encoding="utf-8") == expected


def test_how_sure_the_number_is(tmp_path: Path, capsys: Any) -> None:
    params = {"optional": GROUPS, "verbosity": -1, "num_threads": 1}
    cost = np.random.default_rng(0).normal(size=len(PEOPLE)).round(3)
    booster = puc.train(params, puc.Dataset(features(), cost), 5)
    puc.save_model(booster, tmp_path / "model.txt")
    data = write_table(PEOPLE.assign(cost=cost), tmp_path / "calibration.csv")
    person, found = write_table(PEOPLE.iloc[[5]], tmp_path / "person.csv"), tmp_path / "intervals.json"
    assert run("intervals", tmp_path / "model.txt", data, "--label", "cost", "--out", found) == 0
    arguments = ["letter", tmp_path / "model.txt", person, *QUANTITY, "--out", tmp_path / "quote.html"]
    assert run(*arguments, "--intervals", found) == 0
    intervals = puc.intervals(booster, features(), cost)
    expected = puc.letter(booster, features().iloc[[5]], quantity="yearly risk", intervals=intervals).to_html()
    assert (tmp_path / "quote.html").read_text(encoding="utf-8") == expected
    assert "no estimate is certain" in expected
    capsys.readouterr()
    assert run(*arguments, "--intervals", found, "--sharing", "best", "--favourable", "lower") == 3
    assert "leave them out with sharing='best'" in capsys.readouterr().err


def test_names_of_people_are_no_paths(tmp_path: Path, models: dict[str, Path]) -> None:
    some = PEOPLE.iloc[:4].assign(id=["../../../escaped", "/etc/passwd", "a b\tc", "Zoë <script>"])
    data = write_table(some, tmp_path / "people.csv")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    out = tmp_path / "deep" / "er" / "letters"
    assert run("letter", models["lightgbm"], data, *QUANTITY, "--name-by", "id", "--out", out) == 0
    names = {"_.._.._escaped.html", "_etc_passwd.html", "a_b_c.html", "Zoë_script_.html"}
    assert {path.name for path in out.iterdir()} == names
    assert {path.name for path in tmp_path.rglob("*.html")} == names
    assert "Zoë &lt;script&gt;" in (out / "Zoë_script_.html").read_text(encoding="utf-8")


def test_names_that_cannot_be_used(tmp_path: Path, models: dict[str, Path], capsys: Any) -> None:
    arguments = ["letter", *QUANTITY, "--name-by", "id", "--out", tmp_path / "letters", models["lightgbm"]]
    for ids, message in (
        (["a", "b", "a"], "row 3, column 'id': 'a' gives the same file a.html as row 1"),
        (["a", "b", "A"], "row 3, column 'id': 'A' gives the same file A.html as row 1"),
        (["a/b", "b", "a b"], "row 3, column 'id': 'a b' gives the same file a_b.html as row 1"),
        (["a", "b", None], "row 3, column 'id' is missing, so the page of this person has no name"),
        (["a", "b", ".."], "row 3, column 'id': '..' has nothing that can stand in the name of a file"),
    ):
        # They share the same, and so come in the order of the file.
        data = write_table(PEOPLE.iloc[[5, 5, 5]].assign(id=ids), tmp_path / "people.csv")
        with unchanged(tmp_path):
            assert run(*arguments, data) == 3
        assert message in capsys.readouterr().err
        assert not (tmp_path / "letters").exists()


def test_a_failure_leaves_the_folder_as_it_was(
    tmp_path: Path, people: Path, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "letters"
    out.mkdir()
    (out / "p-0003.html").write_text("old", encoding="utf-8")
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    render, made = puc.letters.Letter.to_html, []

    def fails_in_the_end(letter: puc.letters.Letter) -> str:
        made.append(letter)
        if len(made) == 390:
            raise KeyboardInterrupt
        return render(letter)

    monkeypatch.setattr(puc.letters.Letter, "to_html", fails_in_the_end)
    arguments = ["letter", models["lightgbm"], people, *QUANTITY, "--name-by", "id", "--out", out]
    with unchanged(out):
        assert run(*arguments) == 130
    assert len(list(out.iterdir())) == 2
    assert run(*arguments) == 0
    assert len(list(out.iterdir())) == 401
    assert (out / "p-0003.html").read_text(encoding="utf-8") != "old"
    assert (out / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_mistakes(tmp_path: Path, people: Path, models: dict[str, Path], capsys: Any) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "letter.toml").write_text("titel = 'x'", encoding="utf-8")
    (tmp_path / "groups.toml").write_text("[groups]\nfitnes = 'x'", encoding="utf-8")
    (tmp_path / "audit.json").write_text("[]", encoding="utf-8")
    out = [*QUANTITY, "--out", tmp_path / "quote.html"]
    each = [*QUANTITY, "--name-by", "id", "--out", tmp_path / "letters"]
    for options, message in (
        (out, "people.csv has more than one row, and a page is about one person; --name-by COL writes one for each"),
        (["--out", tmp_path / "folder"], "folder is a directory; name the pages in it with --name-by"),
        (["--name-by", "id", "--out", people], "people.csv is not a directory; with --name-by"),
        (["--name-by", "id", "--out", tmp_path / "no" / "letters"], f"there is no directory {tmp_path / 'no'}"),
        ([*each, "--name-by", "idd"], "has no column 'idd' (--name-by); did you mean 'id'?"),
        ([*out, "--sharing", "best"], "--sharing best needs --favourable lower (a price)"),
        ([*out, "--favourable", "lower"], "--favourable only goes with --sharing best"),
        ([*each, "--text", tmp_path / "letter.toml"], "letter.toml: LetterText has no 'titel'. Did you mean 'title'?"),
        ([*each, "--text", tmp_path / "none.toml"], "none.toml: No such file or directory"),
        ([*each, "--text", tmp_path / "groups.toml"], "names the group 'fitnes', but the groups of the model are"),
        ([*each, "--target-class", 1], "target_class is 1, but it has one value per person"),
        (["--out", people], "is both read and written"),
        (each[2:], "quantity is missing: say what the number is, and in which unit"),
        ([*each, "--audit", tmp_path / "none.json"], "none.json: No such file or directory"),
        ([*each, "--audit", tmp_path / "letter.toml"], "letter.toml is not the JSON file of an audit: Expecting"),
        ([*each, "--audit", tmp_path / "audit.json"], "audit must be what puc.audit returns"),
    ):
        with unchanged(tmp_path):
            assert run("letter", models["lightgbm"], people, *options) == 3
        assert message in capsys.readouterr().err
        assert not (tmp_path / "letters").exists()


def test_somebody_shares_too_much(tmp_path: Path, capsys: Any) -> None:
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(13)]
    X = pd.DataFrame(rng.normal(size=(200, 13)), columns=names)
    y = X.sum(axis=1)
    X[names[1:]] = X[names[1:]].where(rng.random((200, 12)) < 0.5)
    params = {"optional": names[1:], "verbosity": -1, "num_threads": 1}
    puc.save_model(puc.train(params, puc.Dataset(X, y), 2), tmp_path / "model.txt")
    few = X.iloc[:3].assign(id=["a", "b", "c"])
    few.loc[1, names[1:]] = 1.0
    few.loc[[0, 2], names[6:]] = np.nan
    data = write_table(few, tmp_path / "people.csv")
    arguments = ["letter", tmp_path / "model.txt", data, *QUANTITY, "--name-by", "id", "--out", tmp_path / "letters"]
    assert run(*arguments) == 3
    assert f"{data}, row 2: this person shares 12 groups, so there are 2^12 choices" in capsys.readouterr().err
    assert not (tmp_path / "letters").exists()
    few[names[1:]] = np.nan
    few.loc[2, names[1:9]] = 1.0
    assert run(*arguments[:2], write_table(few, data), *arguments[3:]) == 3
    assert f"{data}, row 3: this person shares ['x1', " in capsys.readouterr().err


def test_the_audit_in_a_file(tmp_path: Path, people: Path, models: dict[str, Path], capsys: Any) -> None:
    person, out = write_table(PEOPLE.iloc[[5]], tmp_path / "person.csv"), tmp_path / "quote.html"
    report = ["--json", tmp_path / "audit.json", "--quiet"]
    run("audit", models["lightgbm"], people, "--label", "claim", "--margin", 0.1, *report)
    arguments = [person, *QUANTITY, "--audit", tmp_path / "audit.json", "--out", out]
    assert run("letter", models["lightgbm"], *arguments) == 0
    assert "The model was last checked on 2" in out.read_text(encoding="utf-8")
    assert run("letter", models["xgboost"], *arguments) == 3
    assert "audit is about another model" in capsys.readouterr().err
