"""What does not apply is not withheld: values, rules and flags.

The oracle of most tests is a table in which the value stands already: a rule gives the same numbers as that.
"""

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cli_tools import run
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import pucboost as puc
from pucboost._engines import ENGINE_NAMES

ENGINES = [name for name in ENGINE_NAMES if name != "auto"]
QUIET = {"verbosity": -1, "num_threads": 1, "seed": 1}
RULE = {"income": {"status": ["child"]}, "debt": {"status": "child"}}
TEXT_RULE = {**RULE, "job": {"status": ["child"]}}


def people(n: int = 1200) -> tuple[pd.DataFrame, np.ndarray]:
    """Children have neither income nor debt nor job; of all others 30 % withhold each."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"age": rng.normal(size=n), "status": rng.choice(["child", "works", "studies"], n)})
    X["income"], X["debt"] = rng.normal(3, 1, n), rng.normal(size=n)
    X["job"] = rng.choice(["office", "field"], n)
    child = X["status"] == "child"
    y = np.where(child, -1.0, X["income"] + (X["job"] == "office")) + rng.normal(0, 0.3, n)
    for column in ("income", "debt", "job"):
        X[column] = X[column].where(~child & (rng.random(n) < 0.7))
    return X, y


X, Y = people()
NUMBERS = X.drop(columns="job").assign(status=X["status"].map({"child": 0.0, "works": 1.0, "studies": 2.0}))
NUMBER_RULE = {"income": {"status": 0}, "debt": {"status": [0]}}
BY_HAND = NUMBERS.assign(
    **{
        c: NUMBERS[c].where((NUMBERS["status"] != 0) | NUMBERS[c].notna(), puc.NOT_APPLICABLE)
        for c in ("income", "debt")
    }
)
AS_VALUES = {"income": puc.NOT_APPLICABLE, "debt": puc.NOT_APPLICABLE}


def trained(table: Any, not_applicable: Any, optional: Any = ("income", "debt"), **more: Any) -> Any:
    data = puc.Dataset(table, Y, optional=list(optional), not_applicable=not_applicable)
    return puc.train({**QUIET, **more}, data, 10)


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {engine: trained(X, TEXT_RULE, ("income", "debt", "job"), engine=engine) for engine in ENGINES}


def test_the_truth_is_hit_for_those_to_whom_it_does_not_apply() -> None:
    """Who has no car drives no miles. Base data do not tell who has one, and both kinds of people decline to answer.

    f* is −1 with the answer "none", 2z with z miles, and E[Y] = 0.6·2 − 0.4 = 0.8 for the silent.
    """
    rng = np.random.default_rng(0)
    n = 4000
    car, answers, miles = rng.random(n) < 0.6, rng.random(n) < 0.7, rng.normal(1, 0.5, n)
    y = np.where(car, 2 * miles, -1.0) + rng.normal(0, 0.3, n)
    table = pd.DataFrame({"age": rng.normal(size=n), "miles": np.where(car & answers, miles, np.nan)})
    none = answers & ~car
    for engine in ENGINES:
        params = {"engine": engine, "verbosity": -1, "num_threads": 1, "optional": ["miles"]}
        declared = puc.train(params, puc.Dataset(table, y, not_applicable={"miles": none}), 60)
        undeclared = puc.train(params, puc.Dataset(table, y), 60)
        told = table.assign(miles=np.where(none, puc.NOT_APPLICABLE, table["miles"]))
        p, before = puc.predict(declared, told), puc.predict(undeclared, table)
        assert abs(p[none] + 1).mean() < 0.15, engine
        assert abs(before[none] + 1).mean() > 1.0, engine
        assert abs(p[~answers].mean() - 0.8) < 0.1, engine
        shares = car & answers
        assert np.sqrt(np.mean((p[shares] - 2 * miles[shares]) ** 2)) < 0.3, engine
        # They may withhold it, as anything else: then they are told what the silent are told.
        quotes = puc.quote(declared, told[none][:50])
        assert abs(quotes["nothing"].mean() - 0.8) < 0.15, engine


def test_predictions_are_the_same_from_every_container_and_file(models: dict[str, Any], tmp_path: Path) -> None:
    parquet, csv = tmp_path / "people.parquet", tmp_path / "people.csv"
    X.to_parquet(parquet)
    X.to_csv(csv, index=False)
    for engine, model in models.items():
        expected = puc.predict(model, X)
        tables = [pl.from_pandas(X), pa.Table.from_pandas(X), str(parquet), pl.scan_csv(csv), X[X.columns[::-1]]]
        puc.save_model(model, tmp_path / "model.ubj" if engine == "xgboost" else tmp_path / "model.txt")
        loaded = puc.load_model(tmp_path / "model.ubj" if engine == "xgboost" else tmp_path / "model.txt")
        assert loaded.consent == model.consent
        for table in tables:
            assert np.array_equal(puc.predict(loaded, table), expected), (engine, type(table))
        by_hand = X.copy()
        child = X["status"] == "child"
        by_hand.loc[child, ["income", "debt"]] = puc.NOT_APPLICABLE
        by_hand.loc[child, "job"] = "not applicable"
        assert np.array_equal(puc.predict(model, by_hand), expected), engine
        one_by_one = np.concatenate([puc.predict(model, X[i : i + 1]) for i in range(20)])
        assert np.array_equal(one_by_one, expected[:20]), engine
        assert (model.consent.availability(X)[child] == 7).all()
        letter = puc.letter(model, X[child][:1], quantity="a score").to_html()
        assert "e+30" not in letter
    # LightGBM's own predict fills the cells, too.
    as_categories = X.astype({"status": "category", "job": "category"})
    assert np.array_equal(models["lightgbm"].predict(as_categories), puc.predict(models["lightgbm"], X))


def test_a_rule_is_the_same_as_a_table_with_the_value_in_it() -> None:
    flags = {c: np.asarray(NUMBERS["status"] == 0) for c in ("income", "debt")}
    for engine in ENGINES:
        by_hand = puc.predict(trained(BY_HAND, AS_VALUES, engine=engine), BY_HAND)
        assert np.array_equal(puc.predict(trained(NUMBERS, NUMBER_RULE, engine=engine), NUMBERS), by_hand)
        assert np.array_equal(puc.predict(trained(NUMBERS, flags, engine=engine), BY_HAND), by_hand)
    array = NUMBERS.to_numpy()
    by_position = trained(array, {2: {1: 0}, 3: {1: 0}}, (2, 3), engine="native")
    assert np.array_equal(puc.predict(by_position, array), by_hand)
    group = puc.Dataset(NUMBERS, Y, optional={"money": ["income", "debt"]}, not_applicable={"money": {"status": 0}})
    assert (puc.train(QUIET, group, 2).consent.availability(NUMBERS)[flags["income"]] == 1).all()


def test_cv_refit_augment_and_validation_read_the_same() -> None:
    ways = ((NUMBERS, NUMBER_RULE), (BY_HAND, AS_VALUES), (NUMBERS, dict.fromkeys(AS_VALUES, NUMBERS["status"] == 0)))
    scores, virtual, refitted, valid = [], [], [], []
    for table, declared in ways:
        params = {**QUIET, "optional": ["income", "debt"], "objective": "regression"}
        data = puc.Dataset(table, Y, not_applicable=declared)
        scores.append(puc.cv(params, data, 5, nfold=2, stratified=False))
        virtual.append(puc.augment(table, Y, optional=["income", "debt"], not_applicable=declared)[0].to_numpy())
        record: dict[str, Any] = {}
        flags = declared if isinstance(declared["income"], pd.Series) else {}  # rules are those of the training set
        some = {column: values[:500] for column, values in flags.items()}
        other = puc.Dataset(table[:500], Y[:500], not_applicable=some)
        model = puc.train(params, data, 5, [other], callbacks=[lgb.record_evaluation(record)])
        valid.append(record)
        refitted.append(puc.predict(puc.refit(model, BY_HAND[600:], Y[600:]), BY_HAND))
    assert scores[0] == scores[1] == scores[2]
    assert valid[0] == valid[1] == valid[2]
    for found in (virtual, refitted):
        np.testing.assert_array_equal(found[1], found[0])
        np.testing.assert_array_equal(found[2], found[0])
    assert (virtual[0] == puc.NOT_APPLICABLE).any()


def test_parts_agree_on_rules_and_on_the_category_that_means_it() -> None:
    rule, optional = {"income": {"status": "child"}, "job": {"status": "child"}}, ["income", "job"]
    table = X.drop(columns="debt")
    order = np.argsort(table["status"] == "child", kind="stable")  # one part has no child, the other one no job
    parts = [table.iloc[order[:600]], table.iloc[order[600:]]]
    facts = [puc.distributed.SharedPlan.facts(part, optional=optional, not_applicable=rule) for part in parts]
    plan = puc.distributed.SharedPlan.agree(facts, augmentation="exhaustive")
    plan = plan.complete([plan.count(part, number) for number, part in enumerate(parts)])
    rows = pd.concat(plan.augment(part, np.zeros(600), part=i)[0] for i, part in enumerate(parts))
    whole = puc.augment(table.iloc[order], Y, optional=optional, not_applicable=rule, augmentation="exhaustive")[0]
    assert rows.reset_index(drop=True).astype(object).equals(whole.reset_index(drop=True).astype(object))
    assert {"not applicable", "office"} < set(rows["job"].dropna())
    with pytest.raises(ValueError, match="Flags belong to one table"):
        puc.distributed.SharedPlan.facts(table, optional=optional, not_applicable={"income": table["age"] > 0})


def test_audits_and_estimators_count_nobody_as_silent_who_is_not() -> None:
    options = {"optional": ["income", "debt"], "n_estimators": 10, "n_jobs": 1}
    model = puc.PUCRegressor(**options, not_applicable=NUMBER_RULE).fit(NUMBERS, Y)
    by_hand = puc.PUCRegressor(**options, not_applicable=AS_VALUES).fit(BY_HAND, Y)
    assert np.array_equal(model.predict(NUMBERS), by_hand.predict(BY_HAND))
    audit = {"margin": 0.5, "folds": 3, "num_threads": 1}
    some, told, y = NUMBERS[:600], BY_HAND[:600], Y[:600]
    same = FunctionTransformer(feature_names_out="one-to-one")
    pipeline = make_pipeline(same, puc.PUCRegressor(**options, not_applicable=NUMBER_RULE)).fit(NUMBERS, Y)
    assert puc.quote(pipeline, some).equals(model.quote(some))
    found = findings(model.audit(some, y, **audit))
    assert found == findings(by_hand.audit(told, y, **audit))
    within = findings(puc.audit(pipeline, some, y, **audit))
    # A pipeline gets a table with erased cells, and fills those of children again. None of them is silent, so they have
    # next to no weight among those whom the silent are compared with.
    for one, other in zip(within["penalties"], found["penalties"], strict=True):
        assert (one["name"], one["people"], one["verdict"]) == (other["name"], other["people"], other["verdict"])
        if other["estimate"] is not None:
            assert abs(one["estimate"]["value"] - other["estimate"]["value"]) < 0.01
    # A model that does not know it, with the declaration.
    who = {**audit, "optional": ["income", "debt"]}
    declared = puc.audit(base_only, some, y, not_applicable=NUMBER_RULE, **who)
    assert findings(declared) == findings(puc.audit(base_only, told, y, not_applicable=AS_VALUES, **who))


def base_only(table: Any) -> Any:
    return np.asarray(table["age"]) * 0.1 + 2


def findings(report: Any) -> dict[str, Any]:
    """Return a report without date and identity of the model."""
    found = json.loads(report.to_json())
    return {key: value for key, value in found.items() if key != "provenance"}


def test_the_command_line_declares_it(tmp_path: Path) -> None:
    X.assign(y=Y).to_csv(tmp_path / "people.csv", index=False)
    options = ["--optional", "income", "--optional", "job", "--ignore", "debt", "--label", "y", "--rounds", "5"]
    rules = ["--not-applicable", "income:status=child", "--not-applicable", "job:status=child"]
    model = tmp_path / "model.txt"
    assert run("train", tmp_path / "people.csv", *options, *rules, "--out", model) == 0
    assert run("predict", model, tmp_path / "people.csv", "--out", tmp_path / "out.csv") == 0
    booster = puc.load_model(model)
    assert "income does not apply where status is 'child'" in repr(booster.consent)
    found = pd.read_csv(tmp_path / "out.csv")["prediction"]
    np.testing.assert_allclose(found, puc.predict(booster, X.drop(columns="debt")), rtol=1e-6)


def test_declared_values_are_no_encoded_silence() -> None:
    coded = X.assign(income=X["income"].where(X["status"] != "child", -8.0), job=X["job"].fillna("n/a"))
    optional = {"optional": ["income", "job"], "expect_shared": []}
    params = {**QUIET, **optional}
    with pytest.warns(puc.warnings.EncodedSilenceWarning, match="'income' is -8 .*'job' is 'n/a'"):
        puc.train(params, puc.Dataset(coded, Y), 2)
    coded["job"] = coded["job"].where(X["status"] == "child", X["job"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = puc.train(params, puc.Dataset(coded, Y, not_applicable={"income": [-8], "job": "n/a"}), 2)
    assert "income does not apply where it is -8" in repr(model.consent)
    # Without the rule, being a child tells who is silent.
    some = X[(X["status"] == "child") | X["income"].notna()]
    with pytest.warns(puc.warnings.EncodedSilenceWarning, match="base column 'status' is 'child'"):
        puc.train({**QUIET, "optional": ["income"]}, puc.Dataset(some[["status", "income"]], Y[some.index]), 2)
    # Of people whom a rule covers, those who have a value may withhold it, and would be taken for the others.
    with pytest.warns(puc.warnings.EncodedSilenceWarning, match="their silence is read"):
        trained(X, {"income": {"status": "works"}})


def test_errors_name_the_column_and_the_reason() -> None:
    short = {"income": np.zeros(5, dtype=bool)}
    cases: list[tuple[Any, str, dict[str, Any]]] = [
        ({"age": {"status": "child"}}, "'age', which is not optional", {}),
        ({"age": X["age"] > 0}, "'age', which is not optional", {}),
        ({"incme": -8}, "'incme', which the table does not have. Did you mean 'income'", {}),
        ({7: -8}, "column 7; there are 0 to 4", {}),
        ({"income": {"debt": 1}}, "'income' depends on 'debt', which is optional", {}),
        ({"income": {"status": "chld"}}, "nobody has 'status' = 'chld'. Did you mean 'child'", {}),
        ({"income": {"age": "child"}}, "nobody has 'age' = 'child'", {}),
        ({"income": -8}, "nobody has 'income' = -8", {}),
        ({"income": {"status": []}}, "'income' must list values", {}),
        ({"income": float("nan")}, "What is missing stays missing", {}),
        (short, "'income' has 5 flags for 1200 rows", {}),
        (["income"], "must be a dict", {}),
        (RULE, "'income': linear_tree", {"linear_tree": True}),
        (RULE, "'income': monotone_constraints", {"monotone_constraints": {"income": 1}}),
    ]
    for declared, expected, params in cases:
        with pytest.raises(ValueError, match=re.escape(expected)):
            trained(X, declared, ("income", "debt", "job"), **params)
    codes = puc.Dataset(
        NUMBERS, Y, optional=["debt"], categorical_feature=["debt"], not_applicable={"debt": {"status": 0}}
    )
    twice = {**QUIET, "optional": ["income", "debt"], "not_applicable": RULE}
    others: list[tuple[Callable[[], Any], str]] = [
        (lambda: puc.train(QUIET, puc.Dataset(X, Y, not_applicable=RULE), 2), "needs optional columns"),
        (lambda: puc.PUCRegressor(optional=["income"], not_applicable={"income": Y > 0}).fit(X, Y), "Flags belong to"),
        (lambda: puc.train(QUIET, codes, 2), "'debt': its categories are codes"),
        (lambda: puc.train(twice, puc.Dataset(X, Y, not_applicable=RULE), 2), "is given twice"),
        (lambda: continued(), "init_model was trained under"),
    ]
    for call, expected in others:
        with pytest.raises(ValueError, match=expected):
            call()


def continued() -> Any:
    before = trained(NUMBERS, NUMBER_RULE)
    return puc.train(QUIET, puc.Dataset(NUMBERS, Y, optional=["income", "debt"]), 2, init_model=before)
