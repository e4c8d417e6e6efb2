"""Results in the container of the table, people as dicts, and categories that a model does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pucboost as puc

RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "age": RNG.normal(size=300),
        "region": RNG.choice(["north", "south"], 300),
        "steps": np.where(RNG.random(300) < 0.3, np.nan, RNG.normal(size=300)),
    }
)
LABEL = PEOPLE["age"] + PEOPLE["steps"].fillna(0)
PARAMS = {"optional": ["steps"], "verbosity": -1, "num_threads": 1, "favourable": "lower"}
POLARS, ARROW = pl.from_pandas(PEOPLE), pa.Table.from_pandas(PEOPLE, preserve_index=False)


@pytest.fixture(scope="module")
def model() -> Any:
    return puc.train(PARAMS, (PEOPLE, LABEL), 5)


@pytest.fixture(scope="module")
def regressor() -> Any:
    return puc.PUCRegressor(optional=["steps"], n_estimators=5, n_jobs=1).fit(PEOPLE, LABEL)


def test_results_come_in_the_container_of_the_table(model: Any, regressor: Any) -> None:
    makes = (
        lambda table: puc.quote(model, table),
        lambda table: puc.sharing_value(model, table),
        lambda table: puc.predict(model, table, sharing="best", return_subset=True)[1],
        lambda table: regressor.quote(table),
        lambda table: regressor.sharing_value(table),
    )
    kinds = {
        pl.DataFrame: (POLARS, POLARS.lazy()),
        pa.Table: (ARROW, ARROW.combine_chunks().to_batches()[0]),
        pd.DataFrame: (PEOPLE, PEOPLE.to_dict("records")),
    }
    for make in makes:
        wanted = make(PEOPLE)
        for kind, tables in kinds.items():
            for table in tables:
                found = make(table)
                assert type(found) is kind
                as_pandas = found if kind is pd.DataFrame else found.to_pandas()
                pd.testing.assert_frame_equal(as_pandas, wanted)
    assert puc.quote(model, POLARS)["steps"].null_count() == PEOPLE["steps"].isna().sum()


def test_several_classes_have_one_level_of_names_in_polars_and_arrow() -> None:
    classes = np.array(["a", "b", "c"])[np.digitize(LABEL, [-0.5, 0.5])]
    classifier = puc.PUCClassifier(optional=["steps"], n_estimators=2, n_jobs=1).fit(PEOPLE, classes)
    quotes = classifier.quote(POLARS)
    assert quotes.columns == [f"{shared} + class {one}" for shared in ("nothing", "steps") for one in "abc"]
    np.testing.assert_array_equal(quotes.to_numpy(), classifier.quote(PEOPLE).to_numpy())
    assert classifier.quote(ARROW).column_names == quotes.columns


def test_people_as_dicts(model: Any) -> None:
    records = [
        {name: value for name, value in person.items() if value == value} for person in PEOPLE.to_dict("records")
    ]
    np.testing.assert_array_equal(puc.predict(model, records), puc.predict(model, PEOPLE))
    assert puc.predict(model, records[:1]) == puc.predict(model, PEOPLE[:1])
    again = puc.train(PARAMS, (records, LABEL), 5)
    np.testing.assert_array_equal(puc.predict(again, PEOPLE), puc.predict(model, PEOPLE))
    with pytest.raises(TypeError, match="Row 0 of the table is a dict, but row 1 is of type list"):
        puc.predict(model, [records[0], [1.0, "north", 2.0]])
    with pytest.raises(TypeError, match=r"from dict; pass .* or a list of dicts, one for each person"):
        puc.predict(model, records[0])


def test_unknown_categories_are_counted_and_shown(model: Any) -> None:
    region = ["north"] * 290 + ["Mars"] * 6 + ["a", "b", "c", None]
    expected = r"Column 'region' has values that the model does not know in 9 rows \('.*', '.*', '.*', …\); they were"
    for table in (PEOPLE.assign(region=region), POLARS.with_columns(region=pl.Series(region))):
        with pytest.warns(UserWarning, match=expected):
            puc.predict(model, table)
        with pytest.warns(UserWarning, match=r"in 1 row \('a'\)"):
            puc.predict(model, table[296:297])
