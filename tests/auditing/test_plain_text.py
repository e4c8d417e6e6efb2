"""The audit as a model card and as plain text, and its numbers as people read them."""

import math
import re

import pytest
from auditing.report_examples import NAN, bare, hostile, penalty

from pucboost._auditing.report import text as numbers
from pucboost._auditing.report.rendering import render_markdown, render_text
from pucboost._auditing.report.text import columns_of


def test_markdown_table_has_as_many_cells_in_every_row():
    text = render_markdown(hostile())
    rows = [line for line in text.splitlines() if line.startswith("|")]
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in rows}
    assert bars == {9}
    assert "<" not in text
    assert r"\|\`\*\_\[x\](y)\$a\$" in text
    assert rows[1] == "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"


def test_text_is_aligned_in_columns_of_the_terminal():
    names = ["short", "数据" * 8, "x" * 100, "é́"]
    report = bare(penalties=tuple(penalty(n, v) for n, v in zip(names, (0.001, -0.5, 0.12, -0.001), strict=True)))
    lines = render_text(report).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  Shares exactly"))
    table = lines[start : start + 7]
    ends = [columns_of(line[: found.start()]) for line in table if (found := re.search(r"(Verdict|certified)$", line))]
    assert len(ends) == 5
    assert len(set(ends)) == 1
    assert "−50.00" in table[2]
    # A long name goes on in further lines and is not cut.
    assert [line.strip() for line in table[4:6]] == ["x" * 48, "xxxx"]
    assert table[3].startswith("  " + "x" * 48 + "  ")


def test_text_says_what_is_only_for_comparison():
    report = bare(penalties=(penalty("everything", 0.001, decisive=False),))
    assert "everything (withholds nothing; does not count)" in render_text(report)


def test_text_steers_no_terminal():
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", render_text(hostile()))


def test_print_shows_text(reports):
    assert str(reports["violated"]).startswith("Consent audit: VIOLATED\n")


@pytest.mark.parametrize(
    ("value", "decimals", "signed", "text"),
    [
        (1234.5, 1, False, "1,234.5"),
        (-0.004, 2, True, "0.00"),
        (-0.5, 2, True, "−0.50"),
        (0.5, 0, True, "0"),
        (3, 0, True, "+3"),
        (None, 2, True, "–"),
        (NAN, 2, True, "–"),
        (-math.inf, 2, True, "–"),
        (-1.23456e12, 2, False, "−1.235×10¹²"),
    ],
)
def test_fixed(value, decimals, signed, text):
    assert numbers.fixed(value, decimals, signed=signed) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.000"), (0.45266, "0.4527"), (7482915.1, "7,482,915"), (1.2e-7, "1.200×10⁻⁷"), (None, "–")],
)
def test_significant(value, text):
    assert numbers.significant(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1, "100%"), (0, "0%"), (0.99999, "99.9%"), (1e-9, "0.1%"), (0.123, "12.3%"), (NAN, "–")]
)
def test_share_is_not_rounded_to_all_or_nothing(value, text):
    assert numbers.share(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0004, "< 0.001"), (0.0499, "0.050"), (1, "1.000"), (None, "–")])
def test_p_value(value, text):
    assert numbers.p_value(value) == text
