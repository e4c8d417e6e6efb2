"""puc.questions where the truth is known, what it refuses, and what its result shows."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cli_tools import run
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tools import QUIET

import pucboost as puc
from pucboost._common import Array
from pucboost._questions import asking
from pucboost._questions.findings import NEEDED, NOT_NEEDED

GROUPS = ["blood", "app", "diary", "shoes", "colour"]


def world(n: int, seed: int) -> tuple[pd.DataFrame, Array]:
    """The diary says what the app says. Shoes and colour say nothing, but who claims seldom tells their colour."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 6)), columns=["age", *GROUPS])
    X["diary"] = X["app"] + 0.01 * X["diary"]
    score = 0.5 * X["age"] + 1.2 * X["blood"] + 1.2 * X["app"]
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(float)
    for group in GROUPS:
        sharing = 1 / (1 + np.exp(-1.8 + (2.0 * y if group == "colour" else 0)))
        X.loc[rng.random(n) > sharing, group] = np.nan
    return X, np.asarray(y)


@cache
def case() -> tuple[Any, pd.DataFrame, Array, puc.typing.Questions]:
    X, y = world(8_000, 0)
    params = {**QUIET, "objective": "binary", "optional": GROUPS, "num_leaves": 8, "learning_rate": 0.2}
    booster = puc.train(params, puc.Dataset(X, y), 40)
    people, outcome = world(6_000, 1)
    return booster, people, outcome, puc.questions(booster, people, outcome, num_threads=1)


def test_useful_and_useless_questions_are_told_apart() -> None:
    found = case()[3]
    assert [one.group for one in found.questions if one.useful] == ["blood", "app", "diary"]
    by_name = {one.group: one for one in found.questions}
    assert by_name["blood"].needed == NEEDED
    assert {by_name[name].needed for name in ("shoes", "colour")} == {NOT_NEEDED}
    assert NEEDED not in (by_name["app"].needed, by_name["diary"].needed)
    assert found.enough in (("blood", "app"), ("blood", "diary"))
    other = found.enough[1]
    assert found.conclusion == (
        f"Two of your five questions, blood and {other}, carry at least 95% of what all five add; the other three are "
        "not needed."
    )
    assert [form.questions for form in found.forms] == [0, 1, 2, 3, 4, 5]
    assert [form.proven for form in found.forms[:3]] == [False, False, True]
    assert found.forms[0].value == found.forms[0].error == 0
    assert found.loss == "log loss"
    assert found.value == pytest.approx(found.loss_without - found.loss_with)


def test_a_question_is_not_useful_because_those_who_answer_it_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colour says nothing, yet who tells it claims less: told as they are it would seem to be worth asking."""
    booster, people, outcome, found = case()
    monkeypatch.setattr(asking, "put_right", lambda _, scores, *rest: scores)
    naive = puc.questions(booster, people, outcome, num_threads=1).to_frame()
    assert naive.loc["colour", "useful"]
    assert not found.to_frame().loc["colour", "useful"]


def test_half_a_share_needs_fewer_questions_and_nearly_all_of_it_more() -> None:
    booster, people, outcome, found = case()
    assert puc.questions(booster, people, outcome, share=0.3, num_threads=1).enough in (
        ("blood",),
        ("app",),
        ("diary",),
    )
    few = puc.questions(booster, people, outcome, groups=["blood", "app"], num_threads=1)
    assert few.enough is None
    assert (
        few.conclusion
        == "Both questions are needed: without any one of them more than 5% of what they add together is lost."
    )
    assert few.sharing > found.sharing
    assert puc.questions(booster, people, outcome, groups="shoes", num_threads=1).helps is False


def test_a_model_that_hears_nothing_needs_no_question() -> None:
    _, people, outcome, _ = case()
    X, y = world(500, 2)
    deaf = puc.train(
        {**QUIET, "objective": "binary", "optional": GROUPS, "interaction_constraints": [[0]]}, puc.Dataset(X, y), 3
    )
    assert set(deaf.feature_importance()[1:]) == {0}
    found = puc.questions(deaf, people, outcome, num_threads=1)
    assert found.enough == ()
    assert found.conclusion == "None of your five questions is needed: without any answer the predictions are no worse."
    assert found.to_html()
    assert found.value == found.error == 0


@pytest.mark.parametrize("of", [pl.from_pandas, pa.Table.from_pandas, lambda X: X.to_numpy()])
def test_any_container(of: Any) -> None:
    booster, people, outcome, found = case()
    assert puc.questions(booster, of(people), of(pd.DataFrame({"y": outcome})), num_threads=1) == found


def test_weights_count_people() -> None:
    booster, people, outcome, _ = case()
    X, y = people[:2_500], outcome[:2_500]
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = puc.questions(booster, X, y, sample_weight=weight, num_threads=1)
    repeated = puc.questions(booster, X.loc[X.index.repeat(weight)], y.repeat(weight), num_threads=1)
    assert weighted.value == pytest.approx(repeated.value)
    assert [one.last for one in weighted.questions] == pytest.approx([one.last for one in repeated.questions], abs=1e-6)
    assert weighted.sharing < repeated.sharing


def test_rows_of_one_cluster_count_once() -> None:
    booster, people, outcome, _ = case()
    X, y, label = people[:2_500], outcome[:2_500], [f"person {i}" for i in range(2_500)]
    once = puc.questions(booster, X, y, num_threads=1)
    four = pd.concat([X] * 4, ignore_index=True), np.tile(y, 4)
    ignored = puc.questions(booster, *four, num_threads=1)
    together = puc.questions(booster, *four, clusters=label * 4, num_threads=1)
    assert together.error == pytest.approx(once.error, rel=0.01)
    assert ignored.error == pytest.approx(once.error / 2, rel=0.01)
    for mine, single in zip(together.questions, once.questions, strict=True):
        assert (mine.error, mine.last_error) == pytest.approx((single.error, single.last_error), rel=0.02)
    assert [form.error for form in together.forms][1:] == pytest.approx(
        [form.error for form in once.forms][1:], rel=0.2
    )
    with pytest.raises(
        ValueError, match=r"rows that share everything that is asked about are of 99 clusters; at least"
    ):
        puc.questions(booster, *four, clusters=np.arange(10_000) % 99)
    with pytest.raises(ValueError, match="clusters must have one label for each of the 10000 rows"):
        puc.questions(booster, *four, clusters=label)


def test_exposure_makes_rates() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_500, 3))
    years = rng.uniform(0.2, 2, 1_500)
    claims = rng.poisson(years * np.exp(X[:, 1]))
    X[rng.random(X.shape) < [0, 0.3, 0.3]] = np.nan
    params = {**QUIET, "objective": "poisson", "optional": [1, 2]}
    booster = puc.train(params, puc.Dataset(X, claims, exposure=years), 10)
    found = puc.questions(booster, X, claims, exposure=years, num_threads=1)
    booster.puc_summary = replace(booster.puc_summary, per_exposure=False)
    same = puc.questions(booster, X, claims / years, sample_weight=years, num_threads=1)
    assert found.questions == same.questions
    assert found.loss == "Poisson deviance"
    with pytest.raises(ValueError, match="this table has an exposure, but the model has none"):
        puc.questions(booster, X, claims, exposure=years)


def test_estimators_and_pipelines() -> None:
    X, y = world(3_000, 3)
    label = np.where(y > 0, "yes", "no")
    model = puc.PUCClassifier(optional=GROUPS, n_estimators=20, n_jobs=1).fit(X, label)
    found = model.questions(X, label, groups=["blood", "shoes"])
    assert found == puc.questions(model.booster_, X, y, groups=["blood", "shoes"], num_threads=1)
    assert found == puc.questions(model, X, label, groups=["blood", "shoes"], num_threads=1)
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), puc.PUCRegressor(optional=GROUPS)).fit(
        X, y
    )
    assert puc.questions(pipeline, X, y, num_threads=1).loss == "squared error"
    with pytest.raises(ValueError, match="y is 'maybe' in row 2, which is none of the classes of the model"):
        model.questions(X, ["yes", "no", "maybe", *label[3:]])
    with pytest.raises(ValueError, match="fitted with nothing optional, so there is no question to look at"):
        puc.PUCRegressor(n_estimators=2).fit(X, y).questions(X, y)


def test_very_many_people_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    booster, people, outcome, found = case()
    monkeypatch.setattr(asking, "MOST_PREDICTIONS", 32 * 500)
    some = puc.questions(booster, people, outcome, num_threads=1)
    assert (some.people, some.sharing) == (500, found.sharing)
    assert some.value == pytest.approx(found.value, abs=4 * some.error)
    assert "Of these looked at" in str(some)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": ["blod"]}, "Group 'blod' is not in the consent schema"),
        ({"groups": []}, "There is no question to look at"),
        ({"share": 95}, "share must lie between 0 and 1, such as 0.95; got 95"),
        ({"level": True}, "level must lie between 0 and 1"),
        ({"exposure": np.ones(6_000)}, "this table has an exposure, but the model has none"),
        ({"sample_weight": -np.ones(6_000)}, "The sample_weight is -1.0 in row 0"),
        ({"y": np.full(6_000, 2.0)}, "y is 2.0 in row 0; objective 'binary' needs labels between 0 and 1"),
        ({"y": np.ones(5)}, "y must have one value for each of the 6000 rows"),
        ({"y": np.zeros(6_000)}, "y is 0 for all [0-9,]+ people who share everything that is asked about"),
    ],
)
def test_bad_input_is_named(options: dict[str, Any], message: str) -> None:
    booster, people, outcome, _ = case()
    with pytest.raises(ValueError, match=message):
        puc.questions(booster, people, options.pop("y", outcome), **options)


def test_too_few_people_or_too_many_questions() -> None:
    booster, people, outcome, _ = case()
    few, y = people[:400].copy(), outcome[:400]
    few.loc[few.index[:350], "shoes"] = np.nan
    with pytest.raises(
        ValueError, match=r"people share all of 'blood', .*groups=\['blood', 'app', 'diary', 'colour'\] are shared"
    ):
        puc.questions(booster, few, y)
    with pytest.raises(ValueError, match=r"^0 people share all of 'blood'.*at least 100 are needed\. Give more people"):
        puc.questions(booster, few[:50].assign(blood=np.nan), y[:50], groups="blood")
    X = np.random.default_rng(0).normal(size=(200, 12))
    wide = puc.train({**QUIET, "optional": list(range(1, 12))}, puc.Dataset(X, X[:, 0]), 1)
    with pytest.raises(ValueError, match=r"11 questions have 2,048 sets, and all are compared, up to 1,024"):
        puc.questions(wide, X, X[:, 0])
    absolute = puc.train({**QUIET, "objective": "l1", "optional": [1]}, puc.Dataset(X, X[:, 0]), 1)
    with pytest.raises(ValueError, match="The loss of the model is not known here"):
        puc.questions(absolute, X, X[:, 0])


def test_the_result_shows_itself(tmp_path: Path) -> None:
    found = case()[3]
    kept = json.loads(found.to_json(tmp_path / "asked.json"))
    assert json.loads((tmp_path / "asked.json").read_text("utf-8")) == kept
    assert kept["conclusion"] == found.conclusion
    assert kept["questions"][0]["group"] == "blood"
    assert len(kept["sets"]) == 32
    for page in (found.to_html(tmp_path / "asked.html"), found._repr_html_()):
        assert "<svg" in page
        assert "&lt;svg" not in page
        assert "Those who do not may differ" in page
    for page in (str(found), found.to_markdown()):
        assert found.conclusion in page
        assert "Those who do not may differ" in re.sub(r"\s+", " ", page)
    table = found.to_frame()
    assert table.loc["blood", "last"] == found.questions[0].last
    assert table.index.tolist() == GROUPS
    assert table["enough"].sum() == 2
    lines = found.plot().get_lines()
    assert max(len(line.get_xdata()) for line in lines) == 6
    assert "blood" in repr(found)


def test_names_are_escaped() -> None:
    X, y = world(1_200, 5)
    groups = {"<b>blood</b>": ["blood"], "a$b_c$": ["app"]}
    booster = puc.train({**QUIET, "objective": "binary", "optional": groups}, puc.Dataset(X, y), 5)
    page = puc.questions(booster, X, y, num_threads=1).to_html()
    assert "<b>blood" not in page
    assert "&lt;b&gt;blood" in page


def test_words_of_other_endings() -> None:
    found = case()[3]
    unsure = [replace(one, needed="not known") for one in found.questions]
    none = replace(found, enough=None, questions=tuple(unsure))
    assert none.conclusion == "No shorter form is proven to keep 95% of what all five questions add together."
    assert "too few to tell" in replace(none, helps=False).conclusion
    one = replace(found, questions=found.questions[:1], enough=None)
    assert one.conclusion == "Your question is needed: its answers make the predictions better."
    assert replace(one, enough=()).conclusion.startswith("Your question is not needed")
    two = replace(found, questions=found.questions[:2], enough=("blood",))
    assert (
        "One of your two questions, blood, carries at least 95% of what both add; the other is not needed"
        in two.conclusion
    )


def test_the_command_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    booster, people, outcome, _ = case()
    model, data, out = tmp_path / "model.txt", tmp_path / "people.csv", tmp_path / "asked.json"
    puc.save_model(booster, model)
    people.assign(claim=outcome, w=2, id=np.arange(len(people)) // 2).to_csv(data, index=False)
    options = ["--label", "claim", "--weight", "w", "--cluster", "id", "--threads", 1]
    page = ["--json", out, "--html", tmp_path / "asked.html", "--markdown", tmp_path / "asked.md"]
    assert run("questions", model, data, *options, *page, "--groups", "blood,shoes", "--share", 0.9) == 0
    assert "One of your two questions, blood, carries at least 90%" in capsys.readouterr().out
    twin = puc.questions(
        puc.load_model(model),
        pd.read_csv(data)[people.columns],
        outcome,
        groups=["blood", "shoes"],
        share=0.9,
        clusters=np.arange(len(people)) // 2,
    )
    assert json.loads(out.read_text("utf-8"))["error"] == pytest.approx(twin.error)
    assert json.loads(out.read_text("utf-8"))["value"] == pytest.approx(twin.value)
    assert "<svg" in (tmp_path / "asked.html").read_text("utf-8")
    assert run("questions", model, data, *options, "--json", out, "--html", out) == 3
    assert run("questions", model, data, "--label", "claimed") == 3
    assert "has no column 'claimed'" in capsys.readouterr().err


def test_the_next_question_is_the_one_that_moves_most() -> None:
    booster, _, _, found = case()
    people, _ = world(3_000, 7)
    asked = found.next_question(people[:300])
    assert asked.columns.tolist() == ["told", "question", "low", "middle", "high"]
    assert asked.index.equals(people.index[:300])
    assert np.array_equal(asked["told"], puc.predict(booster, people[:300]))
    complete = people[:300].notna().all(axis=1)
    assert asked.loc[complete, ["question", "low", "high"]].isna().all(axis=None)
    silent = people[:300].assign(**dict.fromkeys(GROUPS, np.nan))
    assert set(found.next_question(silent)["question"]) <= {"blood", "app", "diary"}
    # Who has told what the app says is not asked for the diary, which says the same.
    knows = silent.assign(app=people["app"])[people["app"][:300].notna()]
    assert (found.next_question(knows)["question"] == "blood").mean() > 0.95
    # People who do share it find their result in the range, in about 80 % of cases; half of them below the middle.
    shares = people[people["blood"].notna()]
    told, before = puc.predict(booster, shares), found.next_question(shares.assign(blood=np.nan))
    about = (before["question"] == "blood").to_numpy()
    inside = ((before["low"] <= told) & (told <= before["high"])).to_numpy()[about].mean()
    assert about.sum() > 1_000
    assert 0.72 < inside < 0.88
    assert 0.4 < (told < before["middle"]).to_numpy()[about].mean() < 0.6
    narrow = found.next_question(people[:300], width=0.2)
    wide = (asked["high"] - asked["low"] > 0.2).to_numpy()
    assert 0 < wide.sum() < 300
    assert np.array_equal(narrow["question"].notna(), wide)


def test_the_next_question_in_other_containers_and_with_levels() -> None:
    _, people, outcome, found = case()
    few = people[:50]
    asked = found.next_question(few)
    other = found.next_question(pl.from_pandas(few))
    assert isinstance(other, pl.DataFrame)
    assert other["question"].to_list() == [None if pd.isna(one) else one for one in asked["question"]]
    assert np.allclose(other["high"].to_numpy(), asked["high"], equal_nan=True)
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    with pytest.raises(ValueError, match="next_question learns from people, which are not saved"):
        again.next_question(few)
    X = people.assign(app=people["app"].where(people["blood"].notna()))[[*people.columns[:3]]]
    levels = puc.train(
        {**QUIET, "objective": "binary", "optional": {"tests": puc.Levels(["blood"], ["app"])}}, (X, outcome), 10
    )
    first, second = levels.consent.group_names
    asked = puc.questions(levels, X, outcome, num_threads=1).next_question(X)
    none, one = X["blood"].isna(), X["blood"].notna() & X["app"].isna()
    assert set(asked.loc[none, "question"]) == {first}  # the second is not shared without it
    assert set(asked.loc[one, "question"]) == {second}


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost", "native"])
def test_every_engine_and_an_anchor(engine: str) -> None:
    X, y = world(3_000, 8)
    params = {"objective": "binary", "engine": engine, "optional": GROUPS, "verbosity": -1, "num_threads": 1}
    params |= {"objective": "binary:logistic", "verbosity": 0} if engine == "xgboost" else {}
    anchor = LogisticRegression().fit(X[["age"]], y)
    for more in ({}, {"anchor": anchor}):
        model = puc.train({**params, **more}, puc.Dataset(X, y), 10)
        found = puc.questions(model, X, y, groups=["blood", "shoes"], num_threads=1)
        assert found.enough == ("blood",)
        assert found.next_question(X.assign(blood=np.nan))["question"].notna().any()
