"""Damaged model files are refused before an engine reads them: some would stop the process, some predict otherwise."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from cli_tools import run
from engine_kits import KITS
from tools import make_table

import pucboost as puc
from pucboost._engines import lightgbm_boosters, xgboost_boosters

KINDS = {"lightgbm": "model.txt", "xgboost": "model.json", "xgboost, UBJSON": "model.ubj", "anchored": "anchored.json"}
every_kind = pytest.mark.parametrize("kind", KINDS)


def people() -> tuple[pd.DataFrame, np.ndarray]:
    X, y = make_table(300)
    table = pd.DataFrame(X, columns=list("abcdef"))
    return table.assign(job=pd.Categorical(np.where(np.arange(300) % 3, "clerk", "nurse"))), y


@cache
def trained(kind: str) -> Any:
    kit = next(kit for kit in KITS if kit.name == ("lightgbm" if kind == "anchored" else kind.partition(",")[0]))
    table, y = people()
    anchor = lgb.train({"verbosity": -1, "objective": "binary"}, lgb.Dataset(table[["a"]], y), 2)
    return kit.fit(table, y, 3, optional=["e", "f", "job"], **({"anchor": anchor} if kind == "anchored" else {}))


def saved(kind: str, folder: Path) -> Path:
    path = folder / KINDS[kind]
    puc.save_model(trained(kind), path)
    return path


@pytest.fixture
def engines_see_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail, in place of an engine that may end the process."""

    def seen(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("an engine was given a damaged file")

    monkeypatch.setattr(lightgbm_boosters, "_booster", seen)
    monkeypatch.setattr(xgboost_boosters.XGBoostBoosters, "from_plain_file", seen)


REFUSED = "is damaged: |has no consent schema|consent schema that cannot be used|This is not a model file"


@every_kind
def test_a_whole_file_loads(kind: str, tmp_path: Path) -> None:
    path, model = saved(kind, tmp_path), trained(kind)
    assert path.read_bytes().count(b"pucboost_digest") == 1
    loaded = puc.load_model(path)
    table, _ = people()
    np.testing.assert_array_equal(puc.predict(loaded, table), puc.predict(model, table))
    puc.save_model(loaded, tmp_path / f"again_{path.name}")
    assert (tmp_path / f"again_{path.name}").read_bytes() == path.read_bytes()


@every_kind
def test_a_file_that_was_cut_off_is_refused(kind: str, tmp_path: Path, engines_see_nothing: None) -> None:
    path = saved(kind, tmp_path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for length in [0, 1, 2, *rng.integers(3, len(content), 60), *range(len(content) - 100, len(content))]:
        path.write_bytes(content[: int(length)])
        with pytest.raises(ValueError, match=REFUSED):
            puc.load_model(path)


@every_kind
def test_changed_bits_are_refused(kind: str, tmp_path: Path, engines_see_nothing: None) -> None:
    path = saved(kind, tmp_path)
    content = path.read_bytes()
    own = content.index(b"pucboost_digest")
    rng = np.random.default_rng(1)
    for place in rng.integers(0, len(content), 150):
        if own - 20 <= place < own + 100:  # without its name a digest is none, and the rest is whole
            continue
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(0, 8))
        if kind == "anchored" and changed[place] in b" \n\r\t" and content[place] in b" \n\r\t":
            continue
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=REFUSED):
            puc.load_model(path)


@every_kind
def test_what_is_wrong_is_said(kind: str, tmp_path: Path, engines_see_nothing: None) -> None:
    path = saved(kind, tmp_path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"clerk", b"clark", 1))
    message = rf"{path.name}' is damaged: its content is not what was written .* Copy it again, as a binary file"
    for read in (puc.load_model, *([] if kind == "anchored" else [puc.consent_of])):
        with pytest.raises(ValueError, match=message):
            read(path)


def test_line_ends_of_windows_are_read(tmp_path: Path) -> None:
    path, table = saved("lightgbm", tmp_path), people()[0]
    content = path.read_bytes()
    expected = puc.predict(trained("lightgbm"), table)
    for lines in (content, re.sub(rb"\npucboost_digest:.*\n", b"", content)):
        path.write_bytes(lines.replace(b"\n", b"\r\n"))
        np.testing.assert_array_equal(puc.predict(puc.load_model(path), table), expected)


def test_what_an_engine_has_written_itself_has_no_digest_and_loads(tmp_path: Path) -> None:
    table, path = people()[0], tmp_path / "again.txt"
    plain = lgb.Booster(model_file=saved("lightgbm", tmp_path))
    expected = puc.predict(trained("lightgbm"), table)
    plain.save_model(path)
    assert b"pucboost_digest" not in path.read_bytes()
    np.testing.assert_array_equal(puc.predict(puc.load_model(path), table), expected)
    plain.save_model(path, num_iteration=2)
    assert puc.load_model(path).num_trees() == 2
    xgb_table = np.asarray(table.assign(job=table["job"].cat.codes), dtype=np.float64)
    for own, other in (("model.json", "again.ubj"), ("model.ubj", "again.json"), ("model.json", "again.json")):
        kind = "xgboost" if own == "model.json" else "xgboost, UBJSON"
        plain = xgb.Booster(model_file=saved(kind, tmp_path))
        for booster in (plain, plain[:2]):
            booster.save_model(tmp_path / other)
            assert b"pucboost_digest" not in (tmp_path / other).read_bytes()
            loaded: Any = puc.load_model(tmp_path / other)
            assert loaded.num_boosted_rounds() == booster.num_boosted_rounds()
        assert np.isfinite(puc.predict(loaded, xgb_table)).all()


def test_without_digest_the_end_must_be_there(tmp_path: Path, engines_see_nothing: None) -> None:
    path = saved("lightgbm", tmp_path)
    content = re.sub(rb"\npucboost_digest:.*\n", b"", path.read_bytes())
    end = content.index(b"\nend of parameters\n")
    for length in (end, end + 10, end + 19, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"model.txt' is damaged: its end is missing|has no consent schema"):
            puc.load_model(path)


OWN_WORDS = ("end of parameters", "parameters:", "pandas_categorical:", "[pucboost: ]:")
PLACES = [("column", OWN_WORDS[0]), *((place, name) for place in ("group", "category") for name in OWN_WORDS)]
"""The engines refuse columns with colons or brackets."""


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_names_that_the_text_of_a_model_uses_itself(engine: str, tmp_path: Path) -> None:
    kit = next(kit for kit in KITS if kit.name == engine)
    for place, name in PLACES:
        table, y = people()
        optional: Any = ["f"]
        if place == "column":
            table = table.rename(columns={"f": name})
            optional = [name]
        elif place == "group":
            optional = {name: ["f"]}
        else:
            table["job"] = table["job"].cat.rename_categories({"nurse": f"\n{name}\n", "clerk": name})
        booster, path = kit.fit(table, y, 3, optional=optional), tmp_path / "model.json"
        puc.save_model(booster, path)
        for again in (path, tmp_path / "again.json"):
            loaded = puc.load_model(again)
            assert loaded.consent == booster.consent
            np.testing.assert_array_equal(puc.predict(loaded, table), puc.predict(booster, table))
            kit.module.Booster(model_file=again).save_model(tmp_path / "again.json")


def test_an_anchored_file_has_a_digest(tmp_path: Path, engines_see_nothing: None) -> None:
    """No engine writes such files itself."""
    path = saved("anchored", tmp_path)
    kept = json.loads(path.read_text())
    assert list(kept) == ["pucboost_anchored", "anchor", "trees", "objective", "pucboost_digest"]
    del kept["pucboost_digest"]
    path.write_text(json.dumps(kept))
    with pytest.raises(ValueError, match=r"is damaged: its digest is missing"):
        puc.load_model(path)


def cut(text: bytes) -> list[bytes]:
    """Return a text cut off in its head, in and between trees, behind them and within its parameters."""
    tree = text.index(b"\nTree=1")
    return [text[: text.index(b"tree_sizes")], text[: tree - 50], text[: tree + 1], text[: text.index(b"end of trees")],
            text[: text.index(b"[learning_rate")], b"", b"junk"]  # fmt: skip


@pytest.mark.parametrize("protected", [True, False])
def test_a_model_to_continue_that_was_cut_off_does_not_reach_lightgbm(
    protected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LightGBM would end the process. Without its end a file has no schema, and looks as if LightGBM had written it."""
    table, y = people()
    booster = trained("lightgbm")
    path = tmp_path / "model.txt"
    (puc.save_model if protected else lgb.Booster.save_model)(booster, path)
    whole = path.read_bytes()
    params = {"verbosity": -1, "objective": "binary", "optional": ["e", "f", "job"]}
    for engine in ("lightgbm", "native", "auto"):
        for part in cut(whole):
            path.write_bytes(part)
            with pytest.raises(
                ValueError, match=r"model.txt' is damaged: (a part of its|its end is|it does not begin)"
            ):
                puc.train({**params, "engine": engine}, puc.Dataset(table, y), 1, init_model=path)


def test_a_plain_model_that_was_cut_off_is_not_audited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, y = people()
    table.assign(claim=y).to_csv(tmp_path / "people.csv", index=False)
    path = tmp_path / "model.txt"
    lgb.train({"verbosity": -1}, lgb.Dataset(table[["a", "e"]], y), 3).save_model(path)
    path.write_bytes(cut(path.read_bytes())[1])
    given = [path, tmp_path / "people.csv", "--label", "claim", "--optional", "e", "--margin", "0.1"]
    assert run("audit", *given) == 3
    assert "is damaged: a part of its trees is missing" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "anchored"])
def test_categories_of_a_model_file_are_compared_when_it_is_continued(kind: str, tmp_path: Path) -> None:
    """The codes in its trees would mean other categories."""
    table, y = people()
    path = saved(kind, tmp_path)
    kit = next(kit for kit in KITS if kit.name == kind.partition(",")[0])
    renamed = table.assign(job=table.job.cat.rename_categories({"clerk": "artist"}))
    params = {**kit.params, "optional": ["e", "f", "job"]}
    with pytest.raises(ValueError, match=r"Column 'job' has the categories \['artist', 'nurse'\]"):
        puc.train(params, puc.Dataset(renamed, y), 1, init_model=path)
    assert puc.train(params, puc.Dataset(table, y), 1, init_model=path).consent is not None
