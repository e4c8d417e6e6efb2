"""Letters with reasons: what moved the number that is told most, in the words of the company, and never silence."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from auditing.report_examples import Reader
from engine_kits import EngineKit, every_engine
from letter_tools import COLUMNS, TEXT, priced, sharing

import pucboost as puc

SAYS = replace(TEXT, columns={column: f"your {column} & more" for column in COLUMNS[1:]})


@every_engine
def test_reasons_are_those_of_explain(kit: EngineKit) -> None:
    booster, X = priced(kit)
    person = sharing(X, "app", "blood")
    letter = puc.letter(booster, person, text=SAYS, background=X)
    values = puc.explain(booster, person, X).to_frame().iloc[0, 2:].astype(float)
    largest = values.abs().sort_values(ascending=False).index[:4]
    assert letter.reasons == tuple((column, float(values[column])) for column in largest)
    assert letter.compared_with == (X[["steps", "glucose"]].notna().all(axis=1)).sum()
    read = Reader(letter.to_html())
    shown = " ".join("".join(read.text).split())
    assert f"on average for {letter.compared_with} people who share at least what yours was worked out from" in shown
    for column, value in letter.reasons:
        says = SAYS.columns.get(column, column)
        assert f"{says} {'raises it' if value > 0 else 'lowers it'}" in shown
    assert letter.to_html().count(" &amp; more</span>") >= 3


def test_what_is_withheld_is_no_reason() -> None:
    booster, X = priced()
    letters = puc.letters.for_each(booster, X[:80], text=TEXT, background=X)
    for one, (_, person) in zip(letters, X[:80].iterrows(), strict=True):
        assert len(one.reasons) >= 2
        assert person[[column for column, _ in one.reasons]].notna().all()


def test_reasons_are_about_the_number_that_is_told() -> None:
    """Under the bonus the number is that of the best subset, and so are its reasons."""
    booster, X = priced()
    for one, used in zip(
        puc.letters.for_each(booster, X[:40], text=TEXT, background=X, sharing="best", favourable="lower"),
        puc.predict(booster, X[:40], sharing="best", favourable="lower", return_subset=True)[1].to_numpy(),
        strict=True,
    ):
        unused = {column for column, is_used in zip(("steps", "pulse", "glucose"), used, strict=True) if not is_used}
        assert not unused & {column for column, _ in one.reasons}


def test_bars_point_where_the_number_goes() -> None:
    """A negative factor turns directions round, as it does for the number."""
    booster, X = priced()
    person = sharing(X, "app")
    turned = replace(TEXT, number=puc.letters.LetterNumber(factor=-1.0))
    letter, other = (puc.letter(booster, person, text=text, background=X) for text in (TEXT, turned))
    said = [re.findall("(raises|lowers) it</span>", one.to_html()) for one in (letter, other)]
    assert said[0] == ["raises" if value > 0 else "lowers" for _, value in letter.reasons]
    assert [word == "raises" for word in said[1]] == [word == "lowers" for word in said[0]]


def test_without_a_background_there_are_none() -> None:
    booster, X = priced()
    letter = puc.letter(booster, X[:1], text=TEXT)
    assert letter.reasons == ()
    assert "What moved it most" not in letter.to_html()


def test_how_sure_the_number_is() -> None:
    booster, X = priced()
    price = 500 + 40 * X.sum(axis=1)
    for groups, level in ((["app"], 0.975), (["app", "watch", "blood"], 0.8)):
        found = puc.intervals(booster, X, price, level=level, subsets=["nothing", ["app"]])
        person = sharing(X, *groups)
        letter = puc.letter(booster, person, text=TEXT, intervals=found)
        told = found.predict_interval(person).iloc[0]
        assert letter.range is not None
        assert (letter.range.low, letter.range.high, letter.range.groups) == (told["lower"], told["upper"], ("app",))
        shown = " ".join("".join(Reader(letter.to_html()).text).split())
        assert f"For at least {100 * level:g}% of the people who share as much as you" in shown
        assert f"from {TEXT.number.show(told['lower'])} to {TEXT.number.show(told['upper'])}." in shown
        assert ("worked out as if you shared your fitness app." in shown) == (len(groups) > 1)
    turned = replace(TEXT, number=puc.letters.LetterNumber(factor=-1.0))
    nothing = puc.letter(booster, sharing(X), text=turned, intervals=found)
    assert nothing.range is not None
    assert nothing.range.groups == ()
    low, high = (turned.number.show(end) for end in (nothing.range.high, nothing.range.low))
    assert f"from {low} to {high}." in nothing.to_html()
    assert "certain" not in puc.letter(booster, sharing(X), text=TEXT).to_html()


def test_what_others_learned() -> None:
    booster, X = priced()
    many = pd.concat([X] * 10, ignore_index=True)
    found = puc.questions(booster, many, 500 + 40 * many.sum(axis=1))
    letters = puc.letters.for_each(booster, X[:40], text=TEXT, questions=found)
    asked = found.next_question(X[:40])
    for one, (_, line) in zip(letters, asked.iterrows(), strict=True):
        assert {group for group, *_ in one.learned} == set(one.withheld)
        if one.withheld:  # the widest range is that of the next question
            group, low, high = max(one.learned, key=lambda learned: learned[2] - learned[1])
            assert (group, low, high) == (line["question"], line["low"], line["high"])
            page = one.to_html()
            assert f"8 in 10 were told between {TEXT.number.show(low)} and {TEXT.number.show(high)}." in page
            assert "They chose to share it, and you may differ from them." in page
        else:
            assert "8 in 10" not in one.to_html()


def test_what_is_wrong_with_intervals_and_questions_is_said() -> None:
    booster, X = priced()
    other = puc.train({"optional": ["steps"], "verbosity": -1, "objective": "binary"}, (X, X["age"] > 0), 2)
    many = pd.concat([X] * 4, ignore_index=True)
    found, asked = puc.intervals(booster, X, X["age"]), puc.questions(booster, many, many["age"], groups=["app"])
    for model, given, message in (
        (booster, {"intervals": "x.json"}, "intervals must be what puc.intervals returned, got str"),
        (booster, {"questions": pickle.loads(pickle.dumps(asked))}, "questions must be what puc.questions returned"),
        (booster, {"questions": 3}, "questions must be what puc.questions returned"),
        (other, {"intervals": found}, "intervals are of another model"),
        (other, {"questions": asked}, "questions are about another model"),
        (other, {"intervals": puc.intervals(other, X, X["age"] > 0)}, "Letters show intervals of numbers"),
        (booster, {"intervals": found, "sharing": "best", "favourable": "lower"}, "leave them out with sharing='best'"),
        (booster, {"questions": asked, "sharing": "best", "favourable": "lower"}, "leave them out with sharing='best'"),
    ):
        with pytest.raises(ValueError, match=message):
            puc.letter(model, X[:1], quantity="price", **given)


def test_what_is_wrong_is_said() -> None:
    booster, X = priced()
    everything = sharing(X, "app", "watch", "blood")
    few = pd.concat([X[X["glucose"].isna()], X[X.notna().all(axis=1)][:19]])
    with pytest.raises(
        ValueError, match=r"Row 0 shares 'app \+ watch \+ blood', as 19 people of the background do: too"
    ):
        puc.letter(booster, everything, text=TEXT, background=few)
    with pytest.raises(
        ValueError, match=r"columns of LetterText names the column 'gluco', .* Did you mean 'glucose'\?"
    ):
        puc.letter(booster, everything, text=replace(TEXT, columns={"gluco": "x"}), background=X)
    with pytest.raises(ValueError, match="columns of LetterText: the name of column 'bmi' must be text, got 7"):
        replace(TEXT, columns={"bmi": 7})  # type: ignore[dict-item]
    assert np.isfinite(puc.letter(booster, everything, text=TEXT, background=X).told())
