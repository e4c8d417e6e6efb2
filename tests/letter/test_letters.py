"""Letters: whose numbers they are, and who gets one."""

from __future__ import annotations

import itertools
from dataclasses import FrozenInstanceError, replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from engine_kits import LIGHTGBM, EngineKit, every_engine
from estimator_tools import rich_table
from letter_tools import COLUMNS, GROUPS, TEXT, people, priced, sharing
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pucboost as puc
from pucboost._letter.letters import MAX_SHARED


def subsets(groups: tuple[str, ...]) -> list[list[str]]:
    return [list(some) for size in range(len(groups) + 1) for some in itertools.combinations(groups, size)]


def assert_numbers_are_those_of_quote(letters: list[puc.letters.Letter], quotes: pd.DataFrame) -> None:
    assert len(letters) == len(quotes)
    seen = set()
    for letter, (_, quoted) in zip(letters, quotes.iterrows(), strict=True):
        assert len(letter.quotes) == quoted.notna().sum() == 2 ** len(letter.shared)
        for some in subsets(letter.shared):
            assert letter.told(some) == quoted[" + ".join(some) or "nothing"]
        assert letter.told() == letter.told(letter.shared)
        seen.add(letter.shared)
    assert len(seen) > 4  # else nearly nothing was compared


@every_engine
def test_numbers_of_boosters(kit: EngineKit) -> None:
    booster, X = priced(kit)
    assert_numbers_are_those_of_quote(puc.letters.for_each(booster, X[:60], text=TEXT), puc.quote(booster, X[:60]))


@every_engine
def test_numbers_of_estimators_and_pipelines(kit: EngineKit) -> None:
    X, y = people()
    given: dict[str, Any] = {"engine": kit.name, "optional": GROUPS, "n_estimators": 8, "n_jobs": 1}
    classifier = puc.PUCClassifier(**given).fit(X, y)
    letters = puc.letters.for_each(classifier, X[:40], text=TEXT)
    assert_numbers_are_those_of_quote(letters, puc.quote(classifier, X[:40]))
    scale = StandardScaler().set_output(transform="pandas")
    pipeline = make_pipeline(scale, puc.PUCRegressor(**given)).fit(X, y)
    assert_numbers_are_those_of_quote(puc.letters.for_each(pipeline, X[:40], text=TEXT), puc.quote(pipeline, X[:40]))


@every_engine
def test_numbers_of_anchored_models(kit: EngineKit) -> None:
    X, y = people()
    legacy = lgb.train({**LIGHTGBM.quiet, "objective": "binary"}, lgb.Dataset(X[COLUMNS[:3]], y), 5)
    model = puc.train({**kit.params, "optional": GROUPS, "anchor": legacy}, puc.Dataset(X, y), 10)
    letters = puc.letters.for_each(model, X[:40], quantity="risk")
    assert_numbers_are_those_of_quote(letters, puc.quote(model, X[:40]))
    assert [one.told([]) for one in letters] == legacy.predict(X[COLUMNS[:3]][:40]).tolist()
    assert letters[0].number.suffix == "%"


@every_engine
def test_numbers_of_one_class_among_several(kit: EngineKit) -> None:
    X, y = people()
    classes = y + (X["age"] > 0.5)
    params = {**kit.params, "objective": kit.objectives["multiclass"], "num_class": 3, "optional": GROUPS}
    booster = puc.train(params, puc.Dataset(X, classes), 6)
    quotes = puc.quote(booster, X[:40]).xs(2, axis=1, level="class")
    assert_numbers_are_those_of_quote(puc.letters.for_each(booster, X[:40], text=TEXT, target_class=2), quotes)
    with pytest.raises(ValueError, match="Choose a class with target_class"):
        puc.letter(booster, X[:1], text=TEXT)
    words = np.array(["low", "middle", "high"])[classes.astype(int)]
    model = puc.PUCClassifier(engine=kit.name, optional=GROUPS, n_estimators=6, n_jobs=1).fit(X, words)
    of_high = puc.quote(model, X[:40]).xs(0, axis=1, level="class")  # labels are sorted
    assert_numbers_are_those_of_quote(puc.letters.for_each(model, X[:40], text=TEXT, target_class="high"), of_high)


def test_one_row_is_read_as_in_its_table() -> None:
    """A table of one row knows less: text that is withheld looks like a column of nothing."""
    X, y = rich_table()
    optional = {"plan": ["plan"], "body": ["steps", "pulse", "glucose"]}
    model = puc.PUCClassifier(optional=optional, n_estimators=8, n_jobs=1).fit(X, y)
    together = puc.letters.for_each(model, X[:12], quantity="risk")
    assert {one.shared for one in together} >= {("plan", "body"), ("body",)}
    for row, among_others in enumerate(together):
        alone = puc.letter(model, X.iloc[[row]], quantity="risk")
        assert (alone.shared, alone.quotes) == (among_others.shared, among_others.quotes)
        assert alone.values == pytest.approx(among_others.values)  # sums in another order


@every_engine
def test_values_are_sharing_values(kit: EngineKit) -> None:
    booster, X = priced(kit)
    expected = puc.sharing_value(booster, X[:60])
    for letter, (_, values) in zip(puc.letters.for_each(booster, X[:60], text=TEXT), expected.iterrows(), strict=True):
        assert dict(zip(letter.shared, letter.values, strict=True)) == values[list(letter.shared)].to_dict()
        assert all(values[group] == 0 for group in letter.withheld)


@every_engine
def test_bonus_numbers_are_those_of_predict(kit: EngineKit) -> None:
    for favourable in ["lower", "higher"]:
        booster, X = priced(kit)
        letters = puc.letters.for_each(booster, X[:60], text=TEXT, sharing="best", favourable=favourable)
        plain = puc.letters.for_each(booster, X[:60], text=TEXT)
        assert all(one.bonus for one in letters)
        for groups in subsets(tuple(GROUPS)):
            erased = X[:60].copy()
            erased[[GROUPS[group][0] for group in GROUPS if group not in groups]] = np.nan
            best = puc.predict(booster, erased, sharing="best", favourable=favourable)
            told = [one.told([group for group in one.shared if group in groups]) for one in letters]
            assert told == best.tolist()
        assert [one.quotes for one in letters] != [one.quotes for one in plain]
        for one in letters:
            assert sum(one.values) == pytest.approx(one.quotes[-1] - one.quotes[0])
            sign = 1 if favourable == "lower" else -1
            assert all(sign * value <= 1e-9 for value in one.values)  # sharing never hurts


def test_who_shares_what() -> None:
    booster, X = priced()
    letter = puc.letter(booster, sharing(X, "app", "blood"), text=TEXT, reference="C-17")
    assert (letter.shared, letter.withheld, letter.reference) == (("app", "blood"), ("watch",), "C-17")
    assert repr(letter) == f"<Letter 'C-17': yearly price {letter.number.show(letter.told())}, shares app, blood>"
    silent = puc.letter(booster, sharing(X), text=TEXT)
    assert (silent.shared, silent.values, len(silent.quotes)) == ((), (), 1)
    with pytest.raises(ValueError, match=r"does not share group 'watch'; they share \['app', 'blood'\]"):
        letter.told(["watch"])
    with pytest.raises(FrozenInstanceError):
        letter.reference = "C-18"  # type: ignore[misc]


def test_probabilities_are_percentages_and_amounts_have_four_digits() -> None:
    X, y = people()
    binary = puc.train({**LIGHTGBM.params, "optional": GROUPS}, puc.Dataset(X, y), 5)
    told = puc.letter(binary, X[:1], quantity="risk")
    assert told.number.show(0.1234) == "12.3%"
    assert told.number.difference(0.5, 0.25) == "25.0 percentage points"
    booster, X = priced()
    assert puc.letter(booster, X[:1], quantity="price").number.show(567.89) == "567.9"
    assert puc.letter(booster, X[:1], text=TEXT).number.show(567.89) == "€567.89"


def test_bad_options() -> None:
    for given, message in [
        ({"text": None}, "quantity is missing: say what the number is, and in which unit"),
        ({"quantity": " "}, "quantity is missing"),
        ({"quantity": 7}, "quantity of LetterText must be text, got 7"),
        ({"sharing": "withheld"}, "sharing must be 'as_given' or 'best', got 'withheld'"),
        ({"sharing": "best"}, "sharing='best' needs favourable='lower'"),
        ({"sharing": "best", "favourable": "low"}, "favourable must be 'lower' or 'higher', got 'low'"),
        ({"favourable": "lower"}, "favourable is only used with sharing='best'"),
        ({"text": {"title": "x"}}, "text must be a pucboost.letters.LetterText, got dict"),
        (
            {"text": puc.letters.LetterText(quantity="x", groups={"blod": "x"})},
            "names the group 'blod', but the groups of the model are .*Did",
        ),
        ({"text": replace(TEXT, groups={"blood": "app"})}, "groups 'app' and 'blood' are both called 'app'"),
        ({"target_class": 1}, "target_class is 1, but it has one value per person"),
    ]:
        booster, X = priced()
        with pytest.raises(ValueError, match=message):
            puc.letter(booster, X[:1], **{"text": TEXT, **given})


def test_bad_tables() -> None:
    booster, X = priced()
    with pytest.raises(ValueError, match=r"about one person, but X has 3 rows. Select one, such as X.iloc\[\[0\]\]"):
        puc.letter(booster, X[:3], text=TEXT)
    with pytest.raises(ValueError, match="The feature table has no rows"):
        puc.letter(booster, X[:0], text=TEXT)
    with pytest.raises(ValueError, match=r"got a Series with one dimension. Select a row as a table: X.iloc\[\[0\]\]"):
        puc.letter(booster, X.iloc[0], text=TEXT)
    with pytest.raises(ValueError, match="no column 'age', which the model was trained on"):
        puc.letter(booster, X[:1].drop(columns="age"), text=TEXT)
    with pytest.raises(ValueError, match="references must have one entry per row of X, 3; got 2"):
        puc.letters.for_each(booster, X[:3], text=TEXT, references=["a", "b"])


def test_columns_go_by_name_and_absent_groups_are_not_shared() -> None:
    booster, X = priced()
    one = sharing(X, "app", "blood")
    before = one.copy()
    mixed = one[COLUMNS[::-1]].assign(id=7)
    assert puc.letter(booster, mixed, text=TEXT) == puc.letter(booster, one, text=TEXT)
    pd.testing.assert_frame_equal(one, before)
    with pytest.warns(UserWarning, match="no column of group 'app'"):
        without = puc.letter(booster, one.drop(columns="steps"), text=TEXT)
    assert without.withheld == ("app", "watch")


def test_too_many_shared_groups() -> None:
    r = MAX_SHARED + 3  # more than sharing_value takes
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, r + 1))
    y = X.sum(axis=1)
    masked = X.copy()
    masked[10:, 1:][rng.random((290, r)) < 0.5] = np.nan
    booster = puc.train({**LIGHTGBM.quiet, "optional": list(range(1, r + 1))}, puc.Dataset(masked, y), 3)
    some = X[:2].copy()
    some[0, 4:] = np.nan
    with pytest.raises(
        ValueError, match=r"Row 1 shares 13 groups, so there are 2\^13 choices; a letter has room for 10"
    ):
        puc.letters.for_each(booster, some, quantity="sum")
    some[1, 1 : r + 1 - MAX_SHARED] = np.nan
    few, most = puc.letters.for_each(booster, some, quantity="sum")
    assert (len(few.quotes), len(most.quotes), len(most.withheld)) == (8, 1024, 3)
    assert sum(most.values) == pytest.approx(most.quotes[-1] - most.quotes[0])
    assert len(most.to_html()) < 300_000
