"""Which base features tell who withholds: leaks are found, honest families are left alone."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audit_tools import PAPER, TEASER
from auditing.report_examples import bare

import pucboost as puc
from pucboost._auditing import recognition
from pucboost._auditing.findings import Recognition
from pucboost._auditing.people import read_audit_people
from pucboost._auditing.recognition import area, bins_of, recognise, recognition_in_words
from pucboost._auditing.settings import FittingOptions
from pucboost.demo import insurance_family
from pucboost.simulate import BinaryFamily, DiscreteFamily

PEOPLE = PAPER.sample(3000, 0)
SILENT = np.isnan(PEOPLE.X[:, PAPER.optional])


def look(X: Any, optional: Any, y: Any = None, seed: int = 0, **options: Any) -> Recognition | None:
    outcome = np.arange(len(X)) % 2 if y is None else y
    people, _ = read_audit_people(X, outcome, optional=optional, num_threads=1, **options)
    return recognise(people, FittingOptions(num_threads=1, seed=seed))


def warnings_of(found: Recognition | None) -> list[str]:
    return recognition_in_words([] if found is None else [column for column in found.columns if column.conspicuous])


def with_column(*columns: Any) -> Recognition:
    found = look(np.column_stack([PEOPLE.X, *columns]), PAPER.optional)
    assert found is not None
    return found


# Families with nothing to find ---------------------------------------------------------------------------------------

FAMILIES = {
    "teaser": TEASER,
    "paper": PAPER,
    "insurance": insurance_family(),
    "binary": BinaryFamily.paper(),
    "discrete": DiscreteFamily.random(2, 4, 0),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_no_false_alarm(name: str) -> None:
    family = FAMILIES[name]
    for n, seed in ((400, 0), (400, 1), (400, 2), (4000, 0)):
        people = family.sample(n, seed)
        found = look(people.X, family.optional, people.y, seed)
        assert found is not None
        assert warnings_of(found) == []
        assert not any(column.conspicuous for column in found.columns)
        assert max(column.alone for column in found.columns) < 0.9


def test_columns_of_noise_tell_nothing() -> None:
    n, rng = len(PEOPLE.X), np.random.default_rng(1)
    noise = [rng.normal(size=n), rng.integers(0, 3, n), rng.integers(0, 2000, n)]
    noise.append(np.where(rng.random(n) < 0.9, np.nan, 1))
    found = {column.name: column for column in with_column(*noise).columns}
    for number in range(5, 9):
        column = found[f"Column_{number}"]
        assert column.alone < 0.56
        assert column.recognised < 0.02
        assert column.beyond_others < 0.02


# Leaks ---------------------------------------------------------------------------------------------------------------

LEAKS = {
    "indicator": lambda silent, rng: silent,
    "upside down": lambda silent, rng: ~silent,
    "date that is missing": lambda silent, rng: np.where(silent, np.nan, rng.normal(size=len(silent))),
    "date that is given": lambda silent, rng: np.where(silent, rng.normal(size=len(silent)), np.nan),
    "two ranges": lambda silent, rng: rng.random(len(silent)) + np.where(silent, 0, rng.choice([-2, 2], len(silent))),
    "nearly": lambda silent, rng: silent ^ (rng.random(len(silent)) < 0.02),
}


@pytest.mark.parametrize("kind", LEAKS)
def test_a_column_that_tells_one_group_is_found(kind: str) -> None:
    first = with_column(LEAKS[kind](SILENT[:, 1], np.random.default_rng(1))).columns[0]
    assert (first.name, first.group, first.conspicuous) == ("Column_5", "Column_3", True)
    assert first.alone > 0.95
    assert first.beyond_others > 0.15
    assert first.recognised > 0.8 or kind == "nearly"


def test_columns_that_say_the_same_are_all_found() -> None:
    one, two, *others = with_column(SILENT[:, 0], 3.0 * SILENT[:, 0]).columns
    assert {one.name, two.name} == {"Column_5", "Column_6"}
    assert one.conspicuous
    assert two.conspicuous
    assert min(one.beyond_others, two.beyond_others) == pytest.approx(0)  # one of them is not missed
    assert not any(column.conspicuous for column in others)


def test_a_column_that_gives_away_some_of_them_for_certain() -> None:
    rng = np.random.default_rng(1)
    refused = np.where(SILENT[:, 2] & (rng.random(3000) < 0.4), rng.normal(size=3000), np.nan)
    found = with_column(refused)
    first = found.columns[0]
    assert (first.name, first.group, first.conspicuous) == ("Column_5", "Column_4", True)
    assert first.recognised == pytest.approx(0.4, abs=0.06)
    assert first.alone == pytest.approx(0.7, abs=0.04)
    (said,) = warnings_of(found)
    assert said.startswith(f"Base column 'Column_5' gives away about {first.recognised:.0%} of the people who withhold")


def test_a_column_that_counts_what_is_shared() -> None:
    found = with_column(SILENT.sum(axis=1))
    first = found.columns[0]
    assert (first.name, first.group, first.conspicuous) == ("Column_5", None, True)
    (said,) = warnings_of(found)
    assert said.startswith("Base column 'Column_5' predicts almost perfectly who shares nothing. Whoever withholds")


def test_columns_that_only_tell_together() -> None:
    coin = np.random.default_rng(1).random(3000) < 0.5
    found = with_column(coin, coin ^ SILENT[:, 0])
    assert {column.name for column in found.columns if column.conspicuous} == {"Column_5", "Column_6"}
    assert {column.group for column in found.columns[:2]} == {"Column_2"}
    assert next(one.together for one in found.groups if one.group == "Column_2") > 0.99
    (said,) = warnings_of(found)
    assert re.match(r"Base columns 'Column_\d', 'Column_\d' together predict .* who withholds 'Column_2'\. Who", said)


def test_categories_need_no_order() -> None:
    frame = pd.DataFrame(PEOPLE.X, columns=["a", "b", "x", "y", "z"])
    codes = 2 * np.random.default_rng(1).integers(0, 150, 3000) + SILENT[:, 0]
    frame["form"] = pd.Categorical([f"form {code}" for code in np.random.default_rng(2).permutation(300)[codes]])
    frame["office"] = pd.Categorical(np.where(SILENT[:, 0], "north", "south"))
    found = look(frame, ["x", "y", "z"])
    assert found is not None
    flagged = {column.name for column in found.columns if column.conspicuous}
    assert "office" in flagged
    assert len(bins_of(np.arange(500.0) % 300, True)) == 500
    assert bins_of(np.arange(500.0) % 300, True).max() <= recognition.MAX_VALUES_OF_THEIR_OWN


# By hand --------------------------------------------------------------------------------------------------------------


def test_the_area_is_the_share_of_pairs() -> None:
    rng = np.random.default_rng(0)
    score, positive, weight = rng.integers(0, 6, 80).astype(float), rng.random(80) < 0.4, rng.uniform(0.5, 2, 80)
    pairs = won = 0.0
    for i, j in product(np.flatnonzero(positive), np.flatnonzero(~positive)):
        pairs += weight[i] * weight[j]
        won += weight[i] * weight[j] * ((score[i] > score[j]) + 0.5 * (score[i] == score[j]))
    assert area(score, positive, weight) == pytest.approx(won / pairs)
    assert area(score, np.ones(80, dtype=bool), weight) == 0.5


def test_bins_by_hand() -> None:
    few = np.array([3.0, np.nan, 1.0, 3.0, 7.0])
    bins = bins_of(few, False)
    assert bins[1] == 0
    assert bins[0] == bins[3]
    assert len(set(bins.tolist())) == 4
    many = np.append(np.arange(3200.0), np.nan)
    bins = bins_of(many, False)
    assert bins[-1] == 0
    assert np.bincount(bins).tolist() == [1] + [100] * 32


def test_weights_and_clusters_count() -> None:
    """People of weight 0 and the other half of a cluster are not there to be learned from."""
    leak = np.where(np.arange(3000) < 1500, SILENT[:, 0], np.random.default_rng(1).random(3000) < 0.5)
    X = np.column_stack([PEOPLE.X, leak])
    assert look(X, PAPER.optional, weight=np.arange(3000) < 1500).columns[0].name == "Column_5"  # type: ignore[union-attr]
    unweighted = look(X, PAPER.optional)
    assert unweighted is not None
    assert not any(column.conspicuous for column in unweighted.columns)
    # Many rows of few people: their number says who withholds, but only of people one has seen.
    person = np.arange(3000) // 10
    silent = np.random.default_rng(3).random(300)[person] < 0.5
    table = np.column_stack([person, np.where(silent, np.nan, 1.0)])
    (alone,) = look(table, [1], clusters=person).columns  # type: ignore[union-attr]
    assert alone.alone < 0.65


def test_nothing_to_say() -> None:
    X = np.column_stack([np.arange(400.0), np.where(np.arange(400) < 390, 1.0, np.nan)])
    assert look(X, [1]) is None  # ten people are too few
    assert look(np.where(np.arange(400)[:, None] % 2, np.nan, X[:, :1]), [0]) is None  # no base features
    assert warnings_of(None) == []


def test_a_sample_stands_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition, "MAX_PEOPLE", 1000)
    found = with_column(SILENT[:, 1])
    assert found.people == 1000
    assert found.columns[0].conspicuous
    assert found.groups[1].people == int(SILENT[:, 1].sum())  # counts are those of everybody


# The report -----------------------------------------------------------------------------------------------------------


def test_the_report_says_it_everywhere() -> None:
    frame = pd.DataFrame(PEOPLE.X, columns=["a", "b", "x", "y", "z"]).assign(**{"date of consent form": SILENT[:, 0]})

    def model(table: Any) -> Any:
        """Reads silence through the date: no penalty shows it."""
        return PAPER.unrestricted_prediction(table[["a", "b", "x", "y", "z"]].to_numpy())

    report = puc.audit(model, frame, PEOPLE.y, optional=["x", "y", "z"], margin=0.05, num_threads=1)
    said = "Base column 'date of consent form' predicts almost perfectly who withholds 'x'. Whoever withholds can be"
    assert report.warnings[0].startswith(said)
    assert report.warnings[0] in str(report)
    read = json.loads(report.to_json())["recognition"]
    assert read["columns"][0]["name"] == "date of consent form"
    assert read["columns"][0]["conspicuous"] is True
    assert [one["group"] for one in read["groups"]] == ["x", "y", "z", None]
    table = report.base_features
    assert table.columns.tolist() == ["group", "alone", "recognised", "beyond_others", "conspicuous"]
    assert table.index[0] == "date of consent form"
    assert table.loc["date of consent form", "alone"] == pytest.approx(1)
    assert bare().base_features.empty
