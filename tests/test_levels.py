"""Ordered consent: how levels and groups that need others are declared, checked and kept."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import pucboost as puc
from pucboost._consent import Consent
from pucboost._tables.containers import row_source

NAMES = ["age", "steps", "pulse", "gps", "glucose"]
NUMBERED = {"fitness": puc.Levels(["steps"], "pulse", [3]), "blood": ["glucose"]}
NAMED = {"fitness": puc.Levels(basic=["steps"], full=["pulse", "gps"])}


def test_levels_are_groups_that_need_the_one_before() -> None:
    consent = Consent.declare(NUMBERED, NAMES)
    assert consent.groups == {"fitness 1": (1,), "fitness 2": (2,), "fitness 3": (3,), "blood": (4,)}
    assert consent.needs == {"fitness 2": "fitness 1", "fitness 3": "fitness 2"}
    assert consent.nesting.needed == (-1, 0, 1, -1)
    assert repr(consent) == (
        "Consent(fitness 1: [steps], fitness 2 needs fitness 1: [pulse], fitness 3 needs fitness 2: [gps], "
        "blood: [glucose]; 1 base column)"
    )
    named = Consent.declare(NAMED, NAMES)
    assert named.groups == {"fitness: basic": (1,), "fitness: full": (2, 3)}
    assert named.needs == {"fitness: full": "fitness: basic"}


def test_a_group_needs_another_one_or_a_level() -> None:
    consent = Consent.declare({"gps": puc.Needs("app", ["gps"]), "app": ["steps"]}, NAMES)
    assert (consent.group_names, consent.needs) == (("gps", "app"), {"gps": "app"})
    both = {"blood": ["glucose"], "fitness": puc.Needs("blood", puc.Levels(["steps"], ["pulse"]))}
    both["place"] = puc.Needs("fitness 1", ["gps"])
    assert Consent.declare(both, NAMES).needs == {
        "fitness 1": "blood",
        "fitness 2": "fitness 1",
        "place": "fitness 1",
    }


@pytest.mark.parametrize(
    ("optional", "message"),
    [
        ({"a": puc.Needs("b", ["steps"])}, r"Group 'a' needs 'b', but there is no group 'b'. The groups are \['a'\]"),
        ({"a": puc.Needs("a", ["steps"])}, "Group 'a' needs itself"),
        (
            {"a": puc.Needs("b", ["steps"]), "b": puc.Needs("a", ["gps"])},
            "Groups need each other in a circle: 'a' needs 'b' needs 'a'. Groups that are only shared together are one",
        ),
        (
            {"a": puc.Levels(["steps"], ["pulse"]), "b": puc.Needs("a", ["gps"])},
            r"Group 'b' needs 'a', which has levels. Name one of them: \['a 1', 'a 2'\]",
        ),
        ({"a": puc.Levels(["steps"], [])}, "Group 'a 2' of optional has no columns"),
        (
            {"a": puc.Levels(["steps"], ["steps"])},
            r"Column 'steps' is declared optional twice \(groups 'a 1' and 'a 2'\)",
        ),
        ({"a": puc.Levels(["steps"]), "a 1": ["pulse"]}, "optional has two groups with the same name, 'a 1'"),
        (
            {"a": puc.Levels(**{"b + c": ["steps"]})},
            r"is called 'a: b \+ c', but quotes and audits call a set of several",
        ),
    ],
)
def test_bad_declarations(optional: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Consent.declare(optional, NAMES)


def test_levels_are_all_named_or_none_is() -> None:
    for levels in (puc.Levels, lambda: puc.Levels(["steps"], full=["gps"])):
        with pytest.raises(ValueError, match="all with names or all without"):
            levels()


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ({"b": "c"}, "Group 'b' needs 'c', but there is no group 'c'"),
        ({"z": "a"}, "there is no group 'z'"),
        ({"b": 1}, "there is no group 1"),
        ({"b": "b"}, "Group 'b' needs itself"),
        ({"a": "b", "b": "a"}, "in a circle: 'a' needs 'b' needs 'a'"),
        ([("b", "a")], "needs of a consent schema must be a dict group -> group, got list"),
    ],
)
def test_a_schema_checks_what_it_needs_however_it_is_made(needs: Any, message: str) -> None:
    groups, names = {"a": (0,), "b": (1,)}, ("x", "y")
    with pytest.raises(ValueError, match=message):
        Consent(groups, names, needs)
    with pytest.raises(ValueError, match=message):
        Consent.from_dict({"groups": groups, "feature_names": names, "needs": needs})
    with pytest.raises(ValueError, match=message):
        replace(Consent(groups, names), needs=needs)


def test_the_relation_is_part_of_the_schema_and_cannot_be_changed() -> None:
    consent = Consent.declare(NAMED, NAMES)
    free = replace(consent, needs={})
    assert consent != free
    assert hash(consent) != hash(free)
    with pytest.raises(TypeError, match="does not support item assignment"):
        consent.needs["fitness: basic"] = "fitness: full"  # type: ignore[index]
    assert Consent.from_dict(consent.to_dict()) == consent
    assert Consent.from_dict(free.to_dict()) == free
    for again in (pickle.loads(pickle.dumps(consent)), copy.deepcopy(consent)):
        assert again == consent
        assert again.needs == consent.needs


@pytest.mark.parametrize("made", [NUMBERED["fitness"], NAMED["fitness"], puc.Needs("app", ["gps"])])
def test_declarations_can_be_compared_copied_and_pickled(made: Any) -> None:
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert again == made
        assert hash(again) == hash(made)
        assert repr(again) == repr(made)
    assert made != puc.Levels(["other"])


def test_integers_that_may_be_labels_are_found_in_levels() -> None:
    table = row_source(pd.DataFrame([[1.0, 2.0]], columns=[7, 1]))
    with pytest.raises(ValueError, match="optional names column 1, but the table has integer labels"):
        Consent.of({"a": puc.Levels([1])}, table)
