"""Letters to people whose groups need others: only choices that they have, and switches that keep to them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pucboost as puc

COLUMNS = ["age", "steps", "pulse", "gps", "glucose"]
OPTIONAL = {
    "blood": ["glucose"],
    "place": puc.Needs("fitness: basic", ["gps"]),
    "fitness": puc.Levels(basic=["steps"], full=["pulse"]),
}


@pytest.fixture(scope="module")
def priced() -> tuple[Any, pd.DataFrame]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 5)), columns=COLUMNS)
    price = 500 + 40 * X.sum(axis=1)
    X = puc.simulate.withhold_sigmoid(X, dict.fromkeys(COLUMNS[1:], -1.0), seed=0, optional=OPTIONAL)
    params = {"objective": "l2", "optional": OPTIONAL, "verbosity": -1, "num_threads": 1}
    return puc.train(params, puc.Dataset(X, price), 40), X


def test_every_choice_a_person_has_and_no_other(priced: tuple[Any, pd.DataFrame]) -> None:
    for favourable in [None, "lower"]:
        booster, X = priced
        best = {} if favourable is None else {"sharing": "best", "favourable": favourable}
        quotes, values = puc.quote(booster, X[:80]), puc.sharing_value(booster, X[:80])
        letters = puc.letters.for_each(booster, X[:80], quantity="price", **best)
        assert len({letter.shared for letter in letters}) > 4
        for letter, (_, quoted), (_, moved) in zip(letters, quotes.iterrows(), values.iterrows(), strict=True):
            told = quoted.dropna()
            assert len(letter.quotes) == len(letter.subsets) == len(told)
            for name, value in told.items():
                groups = [] if name == "nothing" else str(name).split(" + ")
                if favourable is None:
                    assert letter.told(groups) == value
                else:
                    mask = letter.subsets[letter.quotes.index(letter.told(groups))]
                    assert letter.told(groups) <= value
                    assert mask in letter.subsets
            if favourable is None:
                assert dict(zip(letter.shared, letter.values, strict=True)) == moved[list(letter.shared)].to_dict()
            else:
                assert letter.told() == told.min()
                assert sum(letter.values) == pytest.approx(letter.told() - letter.told([]))


def test_the_bonus_is_the_best_of_less(priced: tuple[Any, pd.DataFrame]) -> None:
    booster, X = priced
    everything = X[X[COLUMNS[1:]].notna().all(axis=1)][:5]
    plain, bonus = (
        puc.letters.for_each(booster, everything, quantity="price"),
        puc.letters.for_each(booster, everything, quantity="price", sharing="best", favourable="lower"),
    )
    for one, best in zip(plain, bonus, strict=True):
        quoted = dict(zip(one.subsets, one.quotes, strict=True))
        wanted = [min(value for t, value in quoted.items() if t & s == t) for s in one.subsets]
        assert list(best.quotes) == wanted


def test_switches_say_what_they_need(priced: tuple[Any, pd.DataFrame]) -> None:
    booster, X = priced
    everything = X[X[COLUMNS[1:]].notna().all(axis=1)][:1]
    letter = puc.letter(booster, everything, quantity="price")
    assert letter.shared == ("blood", "place", "fitness: basic", "fitness: full")
    page = letter.to_html()
    found = re.findall(r'id="switch-(\d)"(?: data-needs="([\d ]+)")?', page)
    assert found == [("0", ""), ("1", "2"), ("2", ""), ("3", "2")]
    assert [int(mask) for mask in re.findall(r'tr data-set="(\d+)"', page)] == sorted(
        letter.subsets, key=lambda mask: (mask.bit_count(), mask)
    )
    no_steps = X[X["steps"].isna() & X["glucose"].notna()]
    assert "data-needs=" not in puc.letter(booster, no_steps[:1], quantity="price").to_html()


def test_many_levels_fit_and_many_choices_do_not() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 61))
    params = {"objective": "l2", "verbosity": -1, "num_threads": 1, "expect_shared": []}
    levels = {"level": puc.Levels(*([j] for j in range(1, 61)))}
    X[::2, 31:] = np.nan
    X[::4, 1:] = np.nan
    booster = puc.train({**params, "optional": levels}, puc.Dataset(X, X[:, 0]), 3)
    assert len(puc.letter(booster, X[[1]], quantity="price").quotes) == 61
    pairs = {f"p{j}": puc.Levels([2 * j + 1], [2 * j + 2]) for j in range(7)}
    X[1, 1:15] = 1.0
    X[::2, 1:15] = np.nan
    booster = puc.train({**params, "optional": pairs}, puc.Dataset(X, X[:, 0]), 3)
    with pytest.raises(ValueError, match=r"Row 0 shares 14 groups, so there are 2,187 choices; .* has room for 1,024"):
        puc.letter(booster, X[[1]], quantity="price")
