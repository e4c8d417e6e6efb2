"""Text that names single people is warned of; errors show no more of people's values than helps to find the cell."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_tools import run
from tools import QUIET

import pucboost as puc
from pucboost._tables.columns import warn_of_identifying_text
from pucboost._tables.sources import row_source

N = 400
PEOPLE = [f"person {i}" for i in range(N)]


def warned(column: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_identifying_text(row_source(pd.DataFrame({"x": np.arange(float(N)), "text": column})))
    assert all(one.category is puc.warnings.IdentifyingTextWarning for one in caught)
    return [str(one.message) for one in caught]


IDENTIFYING = {
    "names": PEOPLE,
    "e-mail": [f"{i}@example.org" for i in range(N)],
    "names of households": [f"family {i // 3}" for i in range(N)],
    "names of those who gave one": [PEOPLE[i] if i < 80 else None for i in range(N)],
    "half of them names": [PEOPLE[i] if i % 2 else "company" for i in range(N)],
    "categories": pd.Categorical(PEOPLE),
}
HARMLESS = {
    "regions": [f"region {i % 60}" for i in range(N)],
    "few values": [PEOPLE[i % 49] for i in range(N)],
    "a long tail": [f"street {int(i**0.75)}" if i < 150 else f"street {i % 10}" for i in range(N)],
    "numbers": np.arange(float(N)),
    "pairs": [f"{i % 2},x" for i in range(N)],
    "numbers as text": [str(i % 7) for i in range(N)],
    "nothing": [None] * N,
    "unused categories": pd.Categorical(["a", "b"] * (N // 2), categories=["a", "b", *PEOPLE]),
}


def test_names_are_noticed() -> None:
    for case, column in IDENTIFYING.items():
        (said,) = warned(column)
        assert said.startswith("Column 'text' has "), case
        assert "most of which fewer than 5 people have" in said
        assert not any(name in said for name in ("person 1", "@example", "family 1"))


def test_other_columns_are_left_alone() -> None:
    assert {case: warned(column) for case, column in HARMLESS.items()} == {case: [] for case in HARMLESS}


def test_decimal_commas_are_noticed() -> None:
    for values in (["1,5", "2,25", "3"], ["-1.234,5"], [f"{i / 7:.3f}".replace(".", ",") for i in range(N)]):
        (said,) = warned([values[i % len(values)] for i in range(N)])
        assert said.startswith("Column 'text' is text that looks like numbers with a decimal comma, and was read as")


def test_one_warning_where_a_model_is_trained() -> None:
    X = pd.DataFrame({"a": np.arange(float(N)), "bmi": np.where(np.arange(N) % 2, np.nan, 1.0), "who": PEOPLE})
    X["income"] = [f"{i % 13},5" for i in range(N)]
    params = {"optional": ["bmi"], **QUIET}
    for train in (
        lambda: puc.train(params, puc.Dataset(X, X["a"]), 2),
        lambda: puc.cv(params, puc.Dataset(X, X["a"]), 2, nfold=2, stratified=False),
        lambda: puc.PUCRegressor(optional=["bmi"], n_estimators=2, n_jobs=1).fit(X, X["a"]),
    ):
        with pytest.warns(
            puc.warnings.IdentifyingTextWarning, match=r"'who' has 400 .* coarser\. Column 'income' .*"
        ) as caught:
            train()
        mine = [one for one in caught if one.category is puc.warnings.IdentifyingTextWarning]
        assert len(mine) == 1
        assert mine[0].filename == __file__


@pytest.mark.filterwarnings("default::pucboost.warnings.IdentifyingTextWarning")
def test_commands_refuse_decimal_commas_and_warn_of_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "a.csv"
    rows = [f'{i},"{i},5",{PEOPLE[i]},{i % 2}' for i in range(N)]
    data.write_text("\n".join(["a,income,who,y", *rows]), encoding="utf-8")
    fixed = ["train", data, "--label", "y", "--optional", "a", "--rounds", "2", "--out", tmp_path / "m", "--quiet"]
    fixed += ["--param", "num_threads=1", "--param", "expect_shared=a"]
    assert run(*fixed) == 3
    assert capsys.readouterr().err == (
        f"pucboost: error: {data}, row 1, column 'income': '0,5' looks like a number with a decimal comma. Write "
        "numbers with a decimal point, or read the column as text (--categorical income reads it as text, --ignore "
        "income leaves it out)\n"
    )
    assert run(*fixed, "--ignore", "income") == 0
    assert capsys.readouterr().err.startswith("pucboost: warning: Column 'who' has 400 categories, most of which")


SECRET = "Jane Doe of 7 Elm Street, born 1970-01-01, jane@example.org"


def test_errors_show_little_of_a_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, model = tmp_path / "a.csv", tmp_path / "m"
    header, good = "a,b,y", "1,2,0"
    for rows in (
        [f'"{SECRET}",2,0', "1,2,0"],
        [good, f'"{SECRET}",2,0'],
        [good, f'1,2,0,"{SECRET}"'],
        [good, f"1,{SECRET}"],
    ):
        data.write_text("\n".join([header, *rows]), encoding="utf-8")
        assert run("train", data, "--label", "y", "--optional", "b", "--out", model, "--quiet") == 3
        told = capsys.readouterr().err
        assert "row " in told
        assert SECRET[:21] not in told
    mixed = pd.DataFrame({"a": [1.0, 2.0], "b": np.array([SECRET, 3], dtype=object)})
    for column in ([SECRET, 3], [1, SECRET], [{"name": SECRET}, None]):
        with pytest.raises(ValueError, match=r"Column 'b' .*row \d") as raised:
            row_source(mixed.assign(b=pd.Series(column, dtype=object)))
        assert SECRET[:21] not in str(raised.value)
