"""A consent schema that was changed by hand, or damaged, is refused before a kernel follows it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import KITS, EngineKit, every_engine
from tools import make_table

import pucboost as puc

GROUPS = {"app": ["d d", "e"], "blood": ["f"]}
NAMES = ["a a", "b", "c", "d d", "e", "f"]


@cache
def trained(engine: str, anchored: bool = False) -> Any:
    kit = next(kit for kit in KITS if kit.name == engine)
    X, y = make_table(300)
    table = pd.DataFrame(X, columns=NAMES)
    anchor = lgb.train({"verbosity": -1, "objective": "binary"}, lgb.Dataset(table[["b"]], y), 2) if anchored else None
    os.environ["PUCBOOST_TEST_KEY"] = "0123456789abcdef-a-secret"
    more = {"row_key": "env:PUCBOOST_TEST_KEY"} | ({} if anchor is None else {"anchor": anchor})
    return kit.fit(table, y, 3, optional=GROUPS, **more)


def with_schema(text: str, change: Callable[[str], str]) -> str:
    """Change the schema in the text of a LightGBM or XGBoost model; XGBoost holds it as text within JSON.

    The digest goes: who changes a schema on purpose can do without it.
    """
    text = re.sub(r'\npucboost_digest:.*\n|"pucboost_digest":"\w+",', "", text)
    line = re.search(r"^\[pucboost: \]:(.*)$", text, re.MULTILINE)
    if line is not None:
        return text.replace(line[1], change(line[1]))
    whole = json.loads(text)
    kept = whole["learner"]["attributes"]
    kept["pucboost"] = change(kept["pucboost"])
    return json.dumps(whole)


def edit(*path: str, to: Any) -> Callable[[str], str]:
    def change(text: str) -> str:
        schema = json.loads(text)
        inner = schema
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = to
        return json.dumps(schema)

    return change


def groups(**given: Any) -> Callable[[str], str]:
    return edit("consent", "groups", to=given)


BAD = {
    "far away": (groups(app=[3, 4], blood=[1_000_000_000]), "Group 'blood' .* has column 1000000000, but there are 6"),
    "beyond 64 bits": (groups(blood=[2**70]), "Group 'blood' of the consent schema has column 1180591620717411303424"),
    "negative": (groups(blood=[-1]), "Group 'blood' of the consent schema has column -1, but there are 6 columns"),
    "twice": (groups(app=[3, 4], blood=[4]), r"Column 'e' is declared optional twice \(groups 'app' and 'blood'\)"),
    "twice in one": (groups(app=[3, 3]), "Column 'd d' is declared optional twice"),
    "fraction": (groups(blood=[5.0]), "Group 'blood' of the consent schema has column 5.0, not an integer"),
    "true": (groups(blood=[True]), "has column True, not an integer"),
    "text": (groups(blood="5"), "Group 'blood' of the consent schema must list positions of columns, got '5'"),
    "a number": (groups(blood=5), "must list positions of columns, got 5"),
    "empty": (groups(app=[3], blood=[]), "Group 'blood' of the consent schema has no columns"),
    "no dict": (edit("consent", "groups", to=[3, 4]), "groups of a consent schema must be a dict"),
    "key twice": (
        lambda text: text.replace('"blood":', '"app": [2], "blood":', 1),
        "the key 'app' stands twice",
    ),
    "not JSON": (lambda text: text[:-1], "it is not JSON"),
    "no object": (lambda text: "[1, 2]", r"it is \[1, 2\], not a set of named entries"),
    "deep": (lambda text: "[" * 100_000, "it is not JSON"),
    "other name": (
        edit("consent", "feature_names", to=["a a", "b", "x", "d d", "e", "f"]),
        "its column 2 is 'x', but the trees call it 'c'",
    ),
    "other order": (
        edit("consent", "feature_names", to=["b", "a a", *NAMES[2:]]),
        "its column 0 is 'b', but the trees call it 'a",
    ),
    "names are numbers": (edit("consent", "feature_names", to=[0, 1, 2, 3, 4, 5]), "has the name 0, which is not text"),
    "fewer names": (edit("consent", "feature_names", to=NAMES[:5]), "has column 5, but there are 5 columns"),
    "more names": (edit("consent", "feature_names", to=[*NAMES, "g"]), "it is for 7 columns, but the trees have 6"),
    "name twice": (edit("consent", "feature_names", to=["b", *NAMES[1:]]), "Two columns .* are called 'b'"),
    "names as text": (edit("consent", "feature_names", to="abcdef"), "must be a list of names, got str"),
    "no names": (edit("consent", to={"groups": {}}), "consent has no 'feature_names'"),
    "no consent": (edit("consent", to=None), "consent is None, not a set of named entries"),
    "no summary": (lambda text: json.dumps({"format": 1, "consent": {}}), "the schema has no 'summary'"),
    "no needs": (edit("consent", to={"groups": {}, "feature_names": NAMES}), "consent has no 'needs'"),
    "needs itself": (edit("consent", "needs", to={"app": "app"}), "Group 'app' needs itself"),
    "needs in a circle": (edit("consent", "needs", to={"app": "blood", "blood": "app"}), "each other in a circle"),
    "needs as a list": (edit("consent", "needs", to=["app"]), "needs of a consent schema must be a dict"),
    "needs of nobody": (edit("consent", "needs", to={"blood": "gene"}), "there is no group 'gene'"),
    "two in one": (groups(**{"app + blood": [3], "blood": [5]}), "A group of optional is called 'app \\+ blood'"),
    "mask": (edit("summary", "masks_seen", to=[0, 4]), r"masks_seen has the entry 4, which is not in 0 … 3"),
    "negative mask": (edit("summary", "masks_seen", to=[-1]), "masks_seen has the entry -1, which is not in 0 … 3"),
    "fractional mask": (edit("summary", "masks_seen", to=[0.5]), "masks_seen has the entry 0.5, which is not an int"),
    "people": (edit("summary", "mask_people", to=[0.5]), r"mask_people is \[0.5\], not a list of counts of people"),
    "more people": (edit("summary", "mask_people", to=[5] * 9), "mask_people has 9 counts, but masks_seen does not"),
    "coded": (edit("summary", "coded_columns", to=[6]), r"coded_columns has the entry 6, which is not in 0 … 5"),
    "summary": (edit("summary", to=3), "summary is 3, not a set of named entries"),
    "summary is null": (edit("summary", to=None), "summary is None, not a set of named entries"),
    "summary is empty": (edit("summary", to={}), "summary has no 'augmentation'"),
    "scheme": (edit("summary", "augmentation", to="some"), "augmentation must be one of"),
    "rows": (edit("summary", "source_rows", to="many"), "source_rows is 'many', not a whole number"),
    "sample size": (edit("summary", "effective_sample_size", to=None), "effective_sample_size is None, not a number"),
    "exposure": (edit("summary", "per_exposure", to="no"), "per_exposure is 'no', not true or false"),
    "calibration": (edit("summary", "mask_calibration", to="much"), "mask_calibration is 'much', not a number"),
    "loading": (edit("summary", "loading", to=[1]), "loading is \\[1\\], not a number"),
    "sketch": (edit("summary", "row_hashes", to={"salt": "0"}), "row_hashes has no 'hashes'"),
    "hashes": (edit("summary", "row_hashes", "hashes", to="x" * 16), "invalid literal for int"),
    "twins": (edit("summary", "row_hashes", "twins", to=[1.0]), "twins of row_hashes does not have one"),
    "check": (edit("summary", "row_hashes", "check", to=""), "check of row_hashes does not tell the key"),
}


@every_engine
def test_bad_schema_is_refused(kit: EngineKit, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    puc.save_model(trained(kit.name), path)
    whole = path.read_text("utf-8")
    for change, message in BAD.values():
        path.write_text(with_schema(whole, change), encoding="utf-8")
        clear = rf"model.json' has a consent schema that cannot be used: .*{message}.* write the model again"
        for read in (puc.load_model, puc.consent_of):
            with pytest.raises(ValueError, match=clear):
                read(path)
        plain = kit.module.Booster(model_file=path)
        with pytest.raises(ValueError, match=rf"'the booster' has a consent schema that cannot be used: .*{message}"):
            puc.consent_of(plain)
        with pytest.raises(ValueError, match=message):
            puc.predict(plain, np.zeros((3, 6)))


def test_bad_schema_of_an_anchored_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    puc.save_model(trained("lightgbm", anchored=True), path)
    whole = json.loads(path.read_text("utf-8"))
    del whole["pucboost_digest"]
    old, content = json.dumps(whole["pucboost_anchored"]), json.dumps(whole)
    assert content.count(old) == 1
    for what in set(BAD) - {"not JSON", "no object", "deep"}:
        change, message = BAD[what]
        text = content.replace(old, change(old))
        kept = json.dumps(json.loads(text))  # as the digest is compared; a key that stands twice is found before
        path.write_text(f'{text[:-1]}, "pucboost_digest": "{hashlib.sha256(kept.encode()).hexdigest()}"}}', "utf-8")
        with pytest.raises(ValueError, match=rf"model.json' has a consent schema that cannot be used: .*{message}"):
            puc.load_model(path)


@pytest.mark.parametrize("anchored", [False, True])
@every_engine
def test_names_with_spaces_load(kit: EngineKit, anchored: bool, tmp_path: Path) -> None:
    """LightGBM itself calls the first column a_a."""
    booster, path = trained(kit.name, anchored), tmp_path / "model.json"
    puc.save_model(booster, path)
    assert puc.load_model(path).consent == booster.consent
