"""Who trains on encoded silence is told so, once, and can say that all is well."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audit_tools import TEASER
from cli_tools import run
from engine_kits import EngineKit, every_engine
from scipy import sparse
from silence.encodings import ENCODINGS, people
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from tools import make_table

import pucboost as puc

SMALL: dict[str, Any] = {"n_estimators": 3, "n_jobs": 1}


def said(call: Callable[[], Any]) -> list[warnings.WarningMessage]:
    """All warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return caught


def only_message(call: Callable[[], Any]) -> str:
    [one] = said(call)
    assert one.category is puc.warnings.EncodedSilenceWarning
    assert one.filename == __file__  # the user's own call, through pipelines and estimators
    return str(one.message)


@every_engine
def test_an_imputer_in_a_pipeline(kit: EngineKit) -> None:
    table, y = people()
    model = puc.PUCClassifier(optional=["z"], engine=kit.name, **SMALL)
    for imputer in (SimpleImputer(strategy="median"), SimpleImputer(strategy="constant", fill_value=-999)):
        pipeline = make_pipeline(imputer.set_output(transform="pandas"), model)
        text = only_message(lambda pipeline=pipeline: pipeline.fit(table[["age", "z"]], y))
        assert text.startswith("Silence may have been imputed or encoded, and then the silent are not protected: ")
        assert "group 'z' is withheld by nobody in training (0 of 600 people); column 'z' is " in text
        assert text.endswith('set the parameter expect_shared=["z"].')
    assert said(lambda: model.fit(table[["age", "z"]], y)) == []


def test_other_encodings() -> None:
    table, y = people()
    for name in ("most frequent", "word 'declined'", "one-hot with nan", "one-hot with zeros", "unstored"):
        encoding = ENCODINGS[name]
        model, X = puc.PUCClassifier(optional=encoding.optional, **SMALL), encoding.encode(table)
        text = only_message(lambda model=model, X=X: model.fit(X, y))
        value = encoding.value(table)
        assert value is None or f"is {value} for " in text


@every_engine
def test_train_and_cv_warn_once(kit: EngineKit) -> None:
    """Not for every fold, nor for validation sets; also where no protection was asked for."""
    X, y = make_table(600)
    filled = np.nan_to_num(X, nan=-99.0)
    for function, augmentation in ((puc.train, "balanced"), (puc.train, "none"), (puc.cv, "balanced")):
        params = {**kit.params, "optional": [4, 5], "augmentation": augmentation, "objective": "binary"}
        more = {"nfold": 3} if function is puc.cv else {"valid_sets": [puc.Dataset(filled[:300], y[:300])]}

        def call(X: Any, function: Any = function, params: Any = params, more: Any = more) -> Any:
            return function(params, puc.Dataset(X, y), 3, **more)

        text = only_message(lambda call=call: call(filled))
        assert "groups 'Column_4', 'Column_5' are withheld by nobody in training (0 of 600 people)" in text
        assert "column 'Column_4' is -99 for " in text
        assert "column 'Column_5' is -99 for " in text
        assert said(lambda call=call: call(X)) == []


def test_other_ways_to_train() -> None:
    X, y = make_table(600)
    filled = np.nan_to_num(X, nan=-99.0)
    params = {"optional": [5], "objective": "binary", "verbosity": -1, "num_threads": 1}
    for more in ({"compact": True}, {"anchor": "base"}):
        only_message(lambda more=more: puc.train({**params, **more}, puc.Dataset(filled, y), 3))
    only_message(lambda: puc.train({**params, "zero_as_missing": True}, puc.Dataset(filled, y), 3))
    zeros = sparse.csr_matrix(np.nan_to_num(X))
    assert "not stored" in only_message(lambda: puc.train(params, puc.Dataset(zeros, y), 3))
    assert said(lambda: puc.train({**params, "zero_as_missing": True}, puc.Dataset(zeros, y), 3)) == []
    available = ~np.isnan(X[:, [5]])
    assert said(lambda: puc.train(params, puc.Dataset(zeros, y, available=available), 3)) == []
    nothing = {**params, "optional": None, "expect_shared": []}
    assert said(lambda: puc.train(nothing, puc.Dataset(filled, y), 3)) == []


@every_engine
def test_groups_that_are_really_shared(kit: EngineKit) -> None:
    X, y = make_table(600)
    filled = np.nan_to_num(X, nan=-99.0)
    params = {**kit.params, "optional": {"app": [3, 4], "blood": [5]}, "objective": "binary"}

    def train(expect_shared: Any) -> Any:
        return puc.train({**params, "expect_shared": expect_shared}, puc.Dataset(filled, y), 3)

    for everything in (["app", "blood"], [3, 5], ("app", np.int64(5))):
        assert said(lambda everything=everything: train(everything)) == []
    for some in ("app", ["app"], 4):
        text = only_message(lambda some=some: train(some))
        assert "'app'" not in text
        assert text.endswith('expect_shared=["blood"].')
    for wrong in (["blod"], [0], ["Column_5"]):
        with pytest.raises(ValueError, match=rf"expect_shared names {wrong[0]!r}; the groups are \['app', 'blood'\]"):
            train(wrong)
    for wrong in (True, 1.5):
        with pytest.raises(ValueError, match=f"expect_shared must list groups of optional columns, got {wrong}"):
            train(wrong)
    model = puc.PUCClassifier(optional=[5], engine=kit.name, expect_shared=["Column_5"], **SMALL)
    assert said(lambda: model.fit(filled, y)) == []


def test_the_model_is_the_same_with_and_without_the_warning() -> None:
    X, y = make_table(600)
    filled = np.nan_to_num(X, nan=-99.0)
    with pytest.warns(puc.warnings.EncodedSilenceWarning):
        warned = puc.PUCClassifier(optional=[5], **SMALL).fit(filled, y)
    told = puc.PUCClassifier(optional=[5], expect_shared=[5], **SMALL).fit(filled, y)
    assert np.array_equal(warned.predict_proba(filled), told.predict_proba(filled))


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, y = people(400)
    table = table.assign(z=table["z"].fillna(-999), job=table["job"].fillna("prefer not to say"), claim=y)
    table.to_csv(tmp_path / "people.csv", index=False)
    options = ["--label", "claim", "--optional", "z", "--optional", "job", "--rounds", 3, "--quiet"]
    options += ["--param", "num_threads=1", "--out", tmp_path / "model.txt"]
    arguments = ["train", tmp_path / "people.csv", *options]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert run(*arguments) == 0
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("pucboost: warning: Silence may have been imputed or encoded")
        assert "groups 'z', 'job' are withheld by nobody in training (0 of 400 people)" in line
        assert "column 'z' is -999 for " in line
        assert "column 'job' is 'prefer not to say' for " in line
        assert run(*arguments, "--param", "expect_shared=z") == 0
        assert 'the parameter expect_shared=["job"]' in capsys.readouterr().err
        assert run(*arguments, "--param", 'expect_shared=["z", "job"]') == 0
        assert capsys.readouterr().err == ""
        table.assign(asked_again=y.astype(int), z=table["z"].where(y == 0)).to_csv(tmp_path / "people.csv", index=False)
        arguments += ["--param", 'expect_shared=["z", "job"]']
        assert run(*arguments) == 0
        assert 'expect_revealing=["asked_again"]' in capsys.readouterr().err
        assert run(*arguments, "--param", "expect_revealing=asked_again") == 0
        assert capsys.readouterr().err == ""


def test_the_report_of_an_audit_repeats_it() -> None:
    family = TEASER
    sample = family.sample(1_500, seed=0)
    settings: dict[str, Any] = {"optional": family.optional, "margin": 0.05, "num_threads": 1}
    honest = puc.audit(family.puc_prediction, sample.X, sample.y, **settings)
    assert not re.search("silence", " ".join(honest.warnings), re.IGNORECASE)
    mixed = sample.X.copy()
    column = mixed[:, 2]
    silent = np.flatnonzero(np.isnan(column))
    column[silent[::2]] = -999
    report = puc.audit(lambda X: np.full(len(X), 0.5), mixed, sample.y, **settings)
    [note] = [one for one in report.warnings if "Silence" in one]
    assert note.startswith("Silence may have been encoded as a value: column 'Column_2' is -999 for ")
    assert "counted as sharing" in note
    assert note in report.to_markdown().replace("\\", "")
    column[silent] = -999
    nobody = puc.audit(lambda X: np.full(len(X), 0.5), mixed, sample.y, **settings)
    withheld = "withheld by 0 of 1,500 people; little can be said about it. Was silence imputed or encoded"
    assert any(withheld in one for one in nobody.warnings)


def test_strategic_users_who_all_share_are_no_reason_to_warn() -> None:
    family = puc.simulate.DiscreteFamily.random(1, 1, seed=0)
    params = {"objective": "binary", "optional": family.optional, "verbosity": -1, "num_threads": 1}
    game = {"cohort": 500, "reference": 500, "rounds": 2}
    assert said(lambda: puc.simulate.play(lambda X, y: puc.train(params, puc.Dataset(X, y), 3), family, **game)) == []


def test_text_and_categories_of_a_frame() -> None:
    table, y = people()
    hidden = table.assign(job=pd.Categorical(table["job"].fillna("Unknown")))
    text = only_message(lambda: puc.PUCClassifier(optional=["z", "job"], **SMALL).fit(hidden, y))
    assert "'Unknown'" in text
    assert "'z'" not in text


def test_augment_warns_as_train_does() -> None:
    table, y = people()
    filled = table[["age", "z"]].fillna({"z": -999.0})

    def augment(X: Any, **options: Any) -> Any:
        return puc.augment(X, y, optional=["z"], **options)

    text = only_message(lambda: augment(filled))
    assert text == only_message(lambda: augment(filled, augmentation="none"))
    params = {"optional": ["z"], "verbosity": -1}
    assert text == only_message(lambda: puc.train(params, (filled, y), 2))
    assert "column 'z' is -999 for " in text
    assert said(lambda: augment(filled, expect_shared=["z"])) == []
    assert said(lambda: augment(table[["age", "z"]])) == []
    with pytest.raises(ValueError, match=r"expect_shared names 'x'; the groups are \['z'\]"):
        augment(table[["age", "z"]], expect_shared=["x"])
    told = table[["age", "z"]].assign(asked_again=table["z"].isna())
    assert "'asked_again' is 1 for" in only_message(lambda: augment(told))
    assert said(lambda: augment(told, expect_revealing=["asked_again"])) == []


@every_engine
def test_a_base_column_that_tells_who_is_silent(kit: EngineKit) -> None:
    table, y = people()
    told = table[["age", "z"]].assign(asked_again=table["z"].isna().astype(int))
    model = puc.PUCClassifier(optional=["z"], engine=kit.name, **SMALL)
    text = only_message(lambda: model.fit(told, y))
    assert text.startswith("Base columns tell who is silent, and then the silent are not protected: base column ")
    assert "'asked_again' is 1 for " in text
    assert text.endswith(
        """'z': leave it out. If such a column must stay, set the parameter expect_revealing=["asked_again"]."""
    )
    # That every value was shared is another matter.
    assert text == only_message(lambda: model.set_params(expect_shared=["z"]).fit(told, y))
    model.set_params(expect_shared=None)
    for named in (["asked_again"], "asked_again", [2]):
        assert said(lambda named=named: model.set_params(expect_revealing=named).fit(told, y)) == []
    for wrong, message in [
        (["asked_agin"], "expect_revealing names column 'asked_agin', .* Did you mean 'asked_again'"),
        ([3], "expect_revealing names column 3; the table has columns 0 to 2"),
        (["z"], "expect_revealing names 'z', which is optional; .* expect_shared is meant"),
        ([1], "expect_revealing names 1, which is optional"),
        (True, "expect_revealing must list base columns, got True"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.set_params(expect_revealing=wrong).fit(told, y)
    # Such a model does read silence: erasing z and leaving the column as it is makes no difference to the silent.
    model.set_params(expect_revealing=[2], n_estimators=50).fit(told, np.where(told["z"].isna(), 1, 0))
    assert model.predict_proba(told)[told["z"].isna(), 1].min() > 0.9


def test_an_imputer_with_indicators() -> None:
    """add_indicator=True makes a base column of what people withhold."""
    table, y = people()
    steps = SimpleImputer(add_indicator=True, keep_empty_features=True).set_output(transform="pandas")
    pipeline = make_pipeline(steps, puc.PUCClassifier(optional=["z"], **SMALL))
    text = only_message(lambda: pipeline.fit(table[["age", "z"]], y))
    assert "base column 'missingindicator_z' is 1 for " in text
    assert "column 'z' is " in text
    assert 'expect_shared=["z"]. Base columns tell' in text
    model = pipeline[-1].set_params(expect_shared=["z"])
    text = only_message(lambda: pipeline.fit(table[["age", "z"]], y))
    assert text.startswith("Base columns tell")
    model.set_params(expect_revealing=["missingindicator_z"])
    assert said(lambda: pipeline.fit(table[["age", "z"]], y)) == []


def test_audits_note_base_columns_that_tell() -> None:
    sample = TEASER.sample(1_500, seed=0)
    X = np.column_stack([sample.X, np.isnan(sample.X[:, 2])])
    report = puc.audit(
        lambda X: np.full(len(X), 0.5), X, sample.y, optional=TEASER.optional, margin=0.05, num_threads=1
    )
    [note] = [one for one in report.warnings if "Base columns tell" in one]
    assert "which compares people with equal base columns, does not see it" in note


def test_base_columns_whose_values_part_the_silent_from_the_others() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(size=800), "z": rng.normal(size=800), "w": rng.normal(size=800)})
    y = (rng.random(800) < 0.5).astype(int)
    X = X.mask(rng.random((800, 3)) < [0, 0.4, 0.4])
    params = {"optional": ["z", "w"], "verbosity": -1, "num_threads": 1}
    z, w = X["z"].isna().to_numpy().astype(int), X["w"].isna().to_numpy().astype(int)
    for told, shown, who in [
        (2 * z + w, "is one of 2, 3 for", "withhold 'z'"),  # unanswered questions: the first group has two
        (z & w, "is 1 for", "share nothing"),
        (z | w, "is 1 for", "withhold something"),
        (np.where(z, 5 + w, np.arange(800) % 4), "is one of 5, 6 for", "withhold 'z'"),
    ]:
        text = only_message(lambda told=told: puc.train(params, (X.assign(told=told), y), 2))
        assert "base column 'told' " in text
        assert shown in text
        assert f"exactly those who {who}: leave it out" in text
    # Columns that only go with silence, or have many values, are no reason to warn.
    honest = X.assign(often=(rng.random(800) < 0.2 + 0.6 * z).astype(int), many=np.arange(800.0))
    assert said(lambda: puc.train(params, (honest, y), 2)) == []
