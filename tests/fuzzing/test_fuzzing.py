"""Whatever comes from outside is read as it was meant, or refused with an error of ours; engines never see the rest.

The same examples every time; ``pytest --hypothesis-profile=search tests/fuzzing`` looks for new ones.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import KITS
from fuzzing.strategies import JSON, NAMES, containers, damaged, edited, tables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tools import make_table

import pucboost as puc
from pucboost._consent import Consent
from pucboost._engines import lightgbm_boosters, xgboost_boosters
from pucboost._models.schema import model_schema, read_schema
from pucboost._tables.files import DataError
from pucboost._tables.sources import row_source
from pucboost._tables.table_files import open_table

few = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
many = settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])

FILES = {"lightgbm": "model.txt", "xgboost": "model.json", "ubjson": "model.ubj", "anchored": "anchored.json"}


@cache
def model(kind: str) -> Any:
    kit = next(kit for kit in KITS if kit.name == ("xgboost" if kind in ("xgboost", "ubjson") else "lightgbm"))
    X, y = make_table(200)
    table = pd.DataFrame(X, columns=list("abcdef")).assign(job=np.where(np.arange(200) % 3, "clerk", "nurse"))
    anchor = lgb.train({"verbosity": -1, "objective": "binary"}, lgb.Dataset(table[["a"]], y), 2)
    return kit.fit(table, y, 2, optional=["e", "f", "job"], **({"anchor": anchor} if kind == "anchored" else {}))


@cache
def content(kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        puc.save_model(model(kind), Path(folder) / FILES[kind])
        return (Path(folder) / FILES[kind]).read_bytes()


# Consent schemas ------------------------------------------------------------------------------------------------------


def plain_schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(
        json.dumps(model_schema(model("lightgbm").consent, model("lightgbm").puc_summary))
    )
    return schema


@many
@given(data=st.data())
def test_edited_schemas_are_refused_or_mean_what_they_say(data: st.DataObject) -> None:
    schema = data.draw(edited(plain_schema()))
    try:
        consent, summary = read_schema(schema, "here")
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = ""
    assert re.match(r"$|'here' has (consent schema format|a consent schema that cannot be used)", refusal)
    if refusal:
        return
    assert consent.to_dict() == json.loads(json.dumps(consent.to_dict()))
    again, _ = read_schema(json.loads(json.dumps(model_schema(consent, summary))), "here")
    assert again == consent
    n = len(consent.feature_names)
    assert all(0 <= column < n for columns in consent.groups.values() for column in columns)
    assert consent.availability(np.zeros((3, n))).tolist() == [(1 << consent.n_groups) - 1] * 3


@many
@given(groups=st.dictionaries(NAMES, st.lists(st.integers(-2, 6) | JSON, max_size=4), max_size=4), n=st.integers(1, 5))
def test_any_consent_is_refused_or_safe(groups: dict[str, Any], n: int) -> None:
    """Against a naive twin: a group is shared if one of its columns is there."""
    try:
        consent = Consent(groups, tuple(f"c{j}" for j in range(n)))
    except (ValueError, TypeError):
        return
    X = np.where((np.arange(8)[:, None] >> np.arange(n)) & 1, 1.0, np.nan)
    expected = [
        sum(1 << g for g, columns in enumerate(groups.values()) if not np.isnan(row[list(columns)]).all()) for row in X
    ]
    assert consent.availability(X).tolist() == expected


# Model files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FILES)
@few
@given(data=st.data())
def test_engines_never_see_a_damaged_file(kind: str, data: st.DataObject) -> None:
    """What reaches an engine is what was written, except for what stands beside the digest."""
    whole = content(kind)
    found = data.draw(damaged(whole))
    seen: list[Any] = []

    def engine(*args: Any, **kwargs: Any) -> Any:
        seen.append(args)
        raise ValueError("an engine was asked")

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(lightgbm_boosters, "_booster", engine)
        patch.setattr(xgboost_boosters.XGBoostBoosters, "from_plain_file", engine)
        path = Path(folder) / FILES[kind]
        path.write_bytes(found)
        with pytest.raises(ValueError, match=r".+"):
            puc.load_model(path)
    if seen and re.search(rb'pucboost_digest("\s*:\s*"|SL|:)', found):  # without its name a digest is none
        assert found.replace(b"\r\n", b"\n").split() == whole.split()


# Table files ----------------------------------------------------------------------------------------------------------

CSV = b'a,b,y,"t, u"\n' + b"".join(b'%d,%d.5,%d,"x""%d"\n' % (i, i, i % 2, i % 3) for i in range(30))


def read_all(path: Path) -> int:
    """Read a file as training does, and return its number of rows."""
    file = open_table(path)
    columns = [file.learn(name) for name in file.columns]
    n = 0
    with closing(file.blocks(file.columns)) as blocks:
        for block in blocks:
            assert block.matrix(columns).shape == (len(block), len(file.columns))
            n += len(block)
    return n


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz"])
@few
@given(data=st.data())
def test_csv_files_are_read_or_refused(name: str, data: st.DataObject) -> None:
    whole = CSV.replace(b",", b"\t") if name == "a.tsv" else CSV
    if name == "a.csv.gz":
        found = data.draw(damaged(gzip.compress(whole, mtime=0)) | damaged(whole).map(lambda text: gzip.compress(text)))
    else:
        found = data.draw(damaged(whole))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(found)
        with suppress(DataError):
            assert read_all(path) >= 1


@cache
def parquet() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        pd.DataFrame({"a": np.arange(50.0), "t": ["x", "y"] * 25, "b": np.arange(50) % 2 == 0}).to_parquet(path)
        return path.read_bytes()


@few
@given(data=st.data())
def test_parquet_files_are_read_or_refused(data: st.DataObject) -> None:
    found = data.draw(damaged(parquet()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        path.write_bytes(found)
        with suppress(DataError):
            assert read_all(path) >= 1


# Containers -----------------------------------------------------------------------------------------------------------


@few
@given(table=tables())
def test_every_container_holds_the_same_table(table: tuple[list[str], dict[str, list[Any]]]) -> None:
    kinds, values = table
    found = containers(kinds, values)
    expected = row_source(found["arrow"])
    whole = expected.window(0, expected.n_rows)
    for j, kind in enumerate(kinds):
        given = [value is not None and value == value for value in values[f"c{j}"]]
        assert (~np.isnan(whole[:, j])).tolist() == given, kind
    consent = Consent.of([0], expected)
    for name, container in found.items():
        before = container.copy() if name == "pandas" else None
        source = row_source(container)
        np.testing.assert_array_equal(source.window(0, source.n_rows), whole, name)
        np.testing.assert_array_equal(source.take(np.arange(source.n_rows)[::-1]), whole[::-1], name)
        if name != "numpy":
            assert consent.availability(container).tolist() == consent.availability(found["arrow"]).tolist()
        if name == "pandas":
            pd.testing.assert_frame_equal(container, before)
