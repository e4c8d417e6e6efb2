"""Letters: whose numbers they are, and who gets one."""

from __future__ import annotations

import re
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

LEVELS = {
    "blood": ["glucose"],
    "place": puc.Needs("fitness: basic", ["pulse"]),
    "fitness": puc.Levels(basic=["steps"], full=["sex"]),
}


def check_numbers(letters: list[puc.letters.Letter], quotes: pd.DataFrame) -> None:
    """Every choice that ``quote`` knows is in the letter, and no other."""
    for letter, (_, quoted) in zip(letters, quotes.iterrows(), strict=True):
        told = quoted.dropna()
        assert len(letter.quotes) == len(letter.subsets) == len(told)
        for name, value in told.items():
            assert letter.told([] if name == "nothing" else str(name).split(" + ")) == value
        assert letter.told() == letter.told(letter.shared)
    assert len({letter.shared for letter in letters}) > 4  # else nearly nothing was compared


def with_levels(kit: EngineKit) -> tuple[Any, pd.DataFrame]:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 6)), columns=COLUMNS)
    price = 500 + 40 * X.sum(axis=1)
    X = puc.simulate.withhold_sigmoid(X, dict.fromkeys(COLUMNS[2:], -1.0), seed=0, optional=LEVELS)
    params = {**kit.params, "objective": kit.objectives["l2"], "optional": LEVELS}
    return puc.train(params, puc.Dataset(X, price), 40), X


@every_engine
def test_numbers_values_and_bonus_of_boosters(kit: EngineKit) -> None:
    """The bonus of a choice is the best number among its subsets, so sharing never hurts."""
    for booster, X in (priced(kit), with_levels(kit)):
        some = X[:60]
        plain = puc.letters.for_each(booster, some, quantity="price")
        check_numbers(plain, puc.quote(booster, some))
        for letter, (_, moved) in zip(plain, puc.sharing_value(booster, some).iterrows(), strict=True):
            assert dict(zip(letter.shared, letter.values, strict=True)) == moved[list(letter.shared)].to_dict()
            assert all(moved[group] == 0 for group in letter.withheld)
        for favourable, sign in (("lower", 1), ("higher", -1)):
            given: dict[str, Any] = {"sharing": "best", "favourable": favourable}
            best = puc.letters.for_each(booster, some, quantity="price", **given)
            assert [one.told() for one in best] == puc.predict(booster, some, **given).tolist()
            assert [one.quotes for one in best] != [one.quotes for one in plain]
            for one, bonus in zip(plain, best, strict=True):
                quoted = dict(zip(one.subsets, one.quotes, strict=True))
                wanted = [sign * min(sign * told for t, told in quoted.items() if t & s == t) for s in one.subsets]
                assert (list(bonus.quotes), bonus.bonus) == (wanted, True)
                assert sum(bonus.values) == pytest.approx(bonus.told() - bonus.told([]))
                assert all(sign * value <= 1e-9 for value in bonus.values)


@every_engine
def test_numbers_of_every_kind_of_model(kit: EngineKit) -> None:
    X, y = people()
    some, given = X[:40], {"engine": kit.name, "optional": GROUPS, "n_estimators": 6, "n_jobs": 1}
    legacy = lgb.train({**LIGHTGBM.quiet, "objective": "binary"}, lgb.Dataset(X[COLUMNS[:3]], y), 5)
    anchored = puc.train({**kit.params, "optional": GROUPS, "anchor": legacy}, puc.Dataset(X, y), 10)
    scale = StandardScaler().set_output(transform="pandas")
    for model in (
        puc.PUCClassifier(**given).fit(X, y),
        make_pipeline(scale, puc.PUCRegressor(**given)).fit(X, y),
        anchored,
    ):
        check_numbers(puc.letters.for_each(model, some, text=TEXT), puc.quote(model, some))
    letters = puc.letters.for_each(anchored, some, quantity="risk")
    assert [one.told([]) for one in letters] == legacy.predict(some[COLUMNS[:3]]).tolist()
    assert letters[0].number.suffix == "%"
    classes = y + (X["age"] > 0.5)
    params = {**kit.params, "objective": kit.objectives["multiclass"], "num_class": 3, "optional": GROUPS}
    booster = puc.train(params, puc.Dataset(X, classes), 6)
    of_class = puc.letters.for_each(booster, some, text=TEXT, target_class=2)
    check_numbers(of_class, puc.quote(booster, some).xs(2, axis=1, level="class"))
    with pytest.raises(ValueError, match="Choose a class with target_class"):
        puc.letter(booster, X[:1], text=TEXT)
    labelled = puc.PUCClassifier(**given).fit(X, np.array(["low", "middle", "high"])[classes.astype(int)])
    of_high = puc.letters.for_each(labelled, some, text=TEXT, target_class="high")
    check_numbers(of_high, puc.quote(labelled, some).xs(0, axis=1, level="class"))  # labels are sorted


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
    assert among_others.number.show(0.1234) == "12.3%"
    assert among_others.number.difference(0.5, 0.25) == "25.0 percentage points"


def test_who_shares_what() -> None:
    booster, X = priced()
    one = sharing(X, "app", "blood")
    letter = puc.letter(booster, one, text=TEXT, reference="C-17")
    assert (letter.shared, letter.withheld, letter.reference) == (("app", "blood"), ("watch",), "C-17")
    assert repr(letter) == f"<Letter 'C-17': yearly price {letter.number.show(letter.told())}, shares app, blood>"
    assert puc.letter(booster, one, quantity="price").number.show(567.89) == "567.9"
    silent = puc.letter(booster, sharing(X), text=TEXT)
    assert (silent.shared, silent.values, len(silent.quotes)) == ((), (), 1)
    with pytest.raises(ValueError, match=r"does not share group 'watch'; they share \['app', 'blood'\]"):
        letter.told(["watch"])
    with pytest.raises(FrozenInstanceError):
        letter.reference = "C-18"  # type: ignore[misc]
    mixed = one[COLUMNS[::-1]].assign(id=7)
    before = mixed.copy()
    assert puc.letter(booster, mixed, text=TEXT, reference="C-17") == letter
    pd.testing.assert_frame_equal(mixed, before)
    with pytest.warns(UserWarning, match="no column of group 'app'"):
        assert puc.letter(booster, one.drop(columns="steps"), text=TEXT).withheld == ("app", "watch")


def test_bad_input() -> None:
    booster, X = priced()
    one, odd = X[:1], puc.letters.LetterText(quantity="x", groups={"blod": "x"})
    for table, given, message in [
        (one, {"text": None}, "quantity is missing: say what the number is, and in which unit"),
        (one, {"quantity": " "}, "quantity is missing"),
        (one, {"quantity": 7}, "quantity of LetterText must be text, got 7"),
        (one, {"sharing": "withheld"}, "sharing must be 'as_given' or 'best', got 'withheld'"),
        (one, {"sharing": "best"}, "sharing='best' needs favourable='lower'"),
        (one, {"sharing": "best", "favourable": "low"}, "favourable must be 'lower' or 'higher', got 'low'"),
        (one, {"favourable": "lower"}, "favourable is only used with sharing='best'"),
        (one, {"text": {"title": "x"}}, "text must be a pucboost.letters.LetterText, got dict"),
        (one, {"text": odd}, "names the group 'blod', but the groups of the model are .*Did"),
        (one, {"text": replace(TEXT, groups={"blood": "app"})}, "groups 'app' and 'blood' are both called 'app'"),
        (one, {"target_class": 1}, "target_class is 1, but it has one value per person"),
        (X[:3], {}, r"about one person, but X has 3 rows. Select one, such as X.iloc\[\[0\]\]"),
        (X[:0], {}, "The feature table has no rows"),
        (X.iloc[0], {}, r"got a Series with one dimension. Select a row as a table: X.iloc\[\[0\]\]"),
        (one.drop(columns="age"), {}, "no column 'age', which the model was trained on"),
    ]:
        with pytest.raises(ValueError, match=message):
            puc.letter(booster, table, **{"text": TEXT, **given})
    with pytest.raises(ValueError, match="references must have one entry per row of X, 3; got 2"):
        puc.letters.for_each(booster, X[:3], text=TEXT, references=["a", "b"])


def test_switches_know_what_they_need() -> None:
    booster, X = with_levels(LIGHTGBM)
    letter = puc.letter(booster, X[X.notna().all(axis=1)][:1], quantity="price")
    assert letter.shared == ("blood", "place", "fitness: basic", "fitness: full")
    page = letter.to_html()
    found = re.findall(r'id="switch-(\d)"(?: data-needs="([\d ]+)")?', page)
    assert found == [("0", ""), ("1", "2"), ("2", ""), ("3", "2")]
    assert [int(mask) for mask in re.findall(r'tr data-set="(\d+)"', page)] == sorted(
        letter.subsets, key=lambda mask: (mask.bit_count(), mask)
    )
    without = X[X["steps"].isna() & X["glucose"].notna()][:1]
    assert "data-needs=" not in puc.letter(booster, without, quantity="price").to_html()


def test_room_for_many_levels_and_not_for_many_choices() -> None:
    r = MAX_SHARED + 3  # more than sharing_value takes
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 61))
    y, masked, params = X.sum(axis=1), X.copy(), {**LIGHTGBM.quiet, "expect_shared": []}
    masked[10:, 1:][rng.random((290, 60)) < 0.5] = np.nan
    free = puc.train({**params, "optional": list(range(1, r + 1))}, puc.Dataset(masked, y), 3)
    some = X[:2].copy()
    some[0, 4:] = np.nan
    with pytest.raises(ValueError, match=r"Row 1 shares 13 groups, so there are 2\^13 choices; .* room for 10 groups"):
        puc.letters.for_each(free, some, quantity="sum")
    some[1, 1 : r + 1 - MAX_SHARED] = np.nan
    few, most = puc.letters.for_each(free, some, quantity="sum")
    assert (len(few.quotes), len(most.quotes), len(most.withheld)) == (8, 1024, 3)
    assert sum(most.values) == pytest.approx(most.quotes[-1] - most.quotes[0])
    assert len(most.to_html()) < 300_000
    masked[10:, 1:] = np.nan
    levels = {"level": puc.Levels(*([j] for j in range(1, 61)))}
    sixty = puc.train({**params, "optional": levels}, puc.Dataset(masked, y), 3)
    assert len(puc.letter(sixty, X[[1]], quantity="sum").quotes) == 61
    pairs = {f"p{j}": puc.Levels([2 * j + 1], [2 * j + 2]) for j in range(7)}
    nested = puc.train({**params, "optional": pairs}, puc.Dataset(masked, y), 3)
    with pytest.raises(ValueError, match=r"Row 0 shares 14 groups, so there are 2,187 choices; .* has room for 1,024"):
        puc.letter(nested, X[[1]], quantity="sum")
