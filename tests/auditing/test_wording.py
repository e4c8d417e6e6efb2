"""What a report says in words: counts that agree, singular and plural, errors about everybody told from penalties."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from audit_tools import HARMLESS, PAPER, audit
from auditing.report_examples import Reader, bare, penalty, table_after

import pucboost as puc
from pucboost._auditing import findings
from pucboost._auditing.report.rendering import render_html, render_markdown, render_text
from pucboost._auditing.settings import counted, people_in_words, roughly


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (7, "7"), (640, "640"), (999, "1,000"), (7_000, "7,000"), (12_345, "12,000"), (999_999, "1 million"),
        (2_575_612, "2.6 million"), (257_561, "260,000"), (30_000_000, "30 million"), (7_249_000_000, "7.2 billion"),
    ],
)  # fmt: skip
def test_rough_numbers(number: int, text: str) -> None:
    assert roughly(number) == text


def test_singular_and_plural() -> None:
    assert [people_in_words(n) for n in (0, 1, 2, 1500)] == ["0 people", "1 person", "2 people", "1,500 people"]
    assert counted(1, "row is", "rows are") == "1 row is"


def test_one_person_is_not_one_people() -> None:
    """One person alone shares blood, one weight is 0: no sentence of the report says 1 people or 1 rows."""
    people = HARMLESS.sample(600, 0)
    X = np.column_stack([people.X, np.where(np.arange(600) == 5, 1.0, np.nan)])
    options = {"optional": {"app": [2], "blood": [3]}, "margin": 0.5, "num_threads": 1, "folds": 3}
    model = lambda table: HARMLESS.puc_prediction(table[:, :3])  # noqa: E731
    report = puc.audit(model, X, people.y, weight=np.arange(600) != 7, **options)
    written = " ".join(Reader(report.to_html()).text) + report.to_markdown() + str(report)
    assert not re.search(r"(?<![\d,.])1 (people|rows|clusters|sets|such people)\b", written)
    assert "1 row with weight 0 is left out." in written
    assert "1 person, fewer than the 100 asked for." in written
    assert "1 of 599 people shares a set of groups too rare to be tested" in written


# The same sets are counted everywhere ---------------------------------------------------------------------------------


def facts(report: puc.typing.AuditReport) -> dict[str, str]:
    lines = [line.split("  ", 1) for line in render_text(report).split("\n\n")[1].splitlines()]
    return {term.strip(): text.strip() for term, text in lines}


def test_sets_tested_and_their_people_are_those_of_the_table() -> None:
    people = PAPER.sample(1500, 0)
    older = {"older": people.X[:, 0] > 0}
    report = audit(PAPER.puc_prediction, people, PAPER, min_count=150, folds=3, subgroups=older)
    sets = [p for p in report.penalties if p.decisive and p.groups is not None and p.subgroup is None]
    within = [p for p in report.penalties if p.decisive and p.groups is not None and p.subgroup is not None]
    withhold = int(np.isnan(people.X[:, 2:]).any(axis=1).sum())
    covered = sum(p.people for p in sets)
    assert report.support.withholding_people == withhold
    assert 0 < covered < withhold
    share = f"{100 * covered / withhold:.1f}%"
    assert facts(report)["Sets of people tested"] == (
        f"{len(sets)}, and {len(within)} within subgroups, with {covered:,} ({share}) of those who withhold something"
    )
    assert facts(report)["People audited"] == "1,500"
    said = f"{withhold - covered} of {withhold:,} people who withhold something are in sets that were not tested."
    assert said in report.to_html()
    assert f"of {len(sets)} sets of people" in report.reason or f"{len(sets)} sets of people tested" in report.reason


def test_people_who_share_nothing_come_first_among_the_untested() -> None:
    rng = np.random.default_rng(0)
    shares = rng.random((3000, 6)) < 0.5
    shares[:, 0] |= ~shares.any(axis=1)
    shares[:20] = False
    X = np.column_stack([rng.normal(size=3000), np.where(shares, 1.0, np.nan)])
    y = (rng.random(3000) < 0.5).astype(float)
    report = puc.audit(
        lambda table: np.full(len(table), 0.5), X, y, optional=list(range(1, 7)), margin=0.3, min_count=55,
        num_threads=1, folds=3,
    )  # fmt: skip
    untested = [p for p in report.penalties if p.verdict == findings.NOT_TESTABLE]
    assert len(untested) > 10
    assert untested[0].name == "nothing"
    assert report.reason.startswith("People who share nothing were not tested: 20 people, fewer than the 55 asked for.")


# Wrong for everybody, or hard on silence ------------------------------------------------------------------------------


def audited(model: Any) -> puc.typing.AuditReport:
    people = HARMLESS.sample(6000, 0)
    return audit(model, people, HARMLESS, margin=0.06, loss="squared")


def test_too_high_for_everybody_is_told_from_a_penalty_of_silence() -> None:
    def dear(X: Any) -> Any:
        return HARMLESS.puc_prediction(X) + 0.15

    def hard(X: Any) -> Any:
        return HARMLESS.puc_prediction(X) + 0.15 * np.isnan(X[:, 2])

    everybody, silence = audited(dear), audited(hard)
    assert everybody.verdict == silence.verdict == "violated"
    one, other = (next(p for p in r.penalties if p.name == "nothing").difference for r in (everybody, silence))
    assert one is not None
    assert other is not None
    assert one.lower < 0 < one.upper
    assert other.lower < 0.15 < other.upper
    assert other.lower > 0
    table = silence.penalty.set_index("shares")
    assert table.loc["nothing", "difference"] == other.value
    assert np.isnan(table.loc["everything", "difference"])
    words = "it is wrong for everybody, rather than hard on silence"
    themselves = "withholds nothing; does not count; told too much"
    for render in (render_html, render_markdown, render_text):
        assert words in render(everybody)
        assert words not in render(silence)
        assert (themselves if render is not render_text else "too much)") in render(everybody)
        assert themselves not in render(silence)
    page = everybody.to_html()
    assert "People who withhold nothing are told too much: the model is not only wrong for the others." in page
    header, rows = table_after(page, "Average penalty by what people share")
    assert rows[-1][header.index("Above those who share everything")] == "–"


def test_tables_without_a_difference_have_no_column_for_it() -> None:
    report = bare(penalties=(penalty("app", 0.01), penalty("everything", 0.01, decisive=False)))
    assert "Above those who share everything" not in render_html(report)
    d = findings.Estimate(0.01, 0.002, 0.006, 0.014)
    shown = replace(report, penalties=(penalty("app", 0.01, difference=d), report.penalties[1]))
    header, rows = table_after(render_html(shown), "Average penalty by what people share")
    assert rows[0][header.index("Above those who share everything")] == "+1.00 +0.60 to +1.40"
    assert "+1.00 (+0.60 to +1.40)" in render_markdown(shown)
