"""The page of a letter: complete without its script, escaped throughout, and nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from auditing.report_examples import HOSTILE, Reader
from letter_tools import EUROS, GROUPS, NAMES, TEXT, priced, sharing

import pucboost as puc
from pucboost._letter.letters import Range, render_html

PAGES = [("app", "watch", "blood"), ("watch",), ()]


def letter(*groups: str, text: puc.letters.LetterText = TEXT, **given: Any) -> puc.letters.Letter:
    booster, X = priced()
    return puc.letter(booster, sharing(X, *groups), text=text, **given)


def words(page: str) -> str:
    shown = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    return " ".join("".join(Reader(shown).text).split())


def content_of(page: str, tag: str) -> list[str]:
    return re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)


def test_page_is_well_formed_and_loads_nothing() -> None:
    for groups in PAGES:
        page = letter(*groups, text=replace(TEXT, lang="en-GB", direction="rtl"), reference="C-17").to_html()
        read = Reader(page)
        assert page.startswith('<!DOCTYPE html>\n<html lang="en-GB" dir="rtl">')
        assert not {"link", "img", "iframe", "object", "embed", "base", "form", "a"} & set(read.tags)
        forbidden = ("src", "href", "srcset", "action", "style")
        assert not [key for _, key, _ in read.attributes if key.startswith("on") or key in forbidden]
        assert not re.search(r"@import|url\(|://", page)
        headings = [tag for tag in read.tags if re.fullmatch("h[1-6]", tag)]
        assert headings == ["h1"] + ["h2"] * (len(headings) - 1)
        ids = read.get("id")
        assert len(ids) == len(set(ids))
        assert set(read.get("aria-labelledby")) | set(read.get("for")) <= set(ids)


def test_policy_allows_one_style_and_one_script_which_are_the_same_for_everybody() -> None:
    """They hold nothing about anybody, so a company can read them once."""
    seen = set()
    for groups in PAGES:
        page = letter(*groups).to_html()
        read = Reader(page)
        contents = [value for tag, key, value in read.attributes if (tag, key) == ("meta", "content")]
        [stated] = [value for value in contents if "-src" in value]
        assert page.index("Content-Security-Policy") < page.index("<style>")

        def digest(text: str) -> str:
            return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

        [style], scripts = content_of(page, "style"), content_of(page, "script")
        assert len(scripts) == page.count("<script") == bool(groups)
        assert dict(rule.split(" ", 1) for rule in stated.split("; ")) == {
            "default-src": "'none'",
            "style-src": digest(style),
            "script-src": " ".join(map(digest, scripts)) or "'none'",
            "base-uri": "'none'",
            "form-action": "'none'",
        }
        seen |= {style, *scripts}
    assert len(seen) == 2
    light, _, paper = re.findall(r":root \{(.*?)\}", page, flags=re.DOTALL)  # axe-core looks at screens alone
    assert light.split() == paper.split()


def test_table_has_every_choice() -> None:
    made = letter("app", "watch", "blood")
    header, *rows = Reader(made.to_html()).rows
    assert header == ["If you share", "Your yearly price", "Compared with today"]
    expected = {}
    for size in range(4):
        for some in itertools.combinations(GROUPS, size):
            names = [NAMES[group] for group in some]
            named = " and ".join([", ".join(names[:-1]), names[-1]]) if size > 1 else "".join(names) or "none of it"
            expected[named] = EUROS.show(made.told(some))
    assert {row[0]: row[1] for row in rows} == expected
    for row in rows[:-1]:
        apart = float(row[1][1:]) - float(EUROS.show(made.told())[1:])
        assert row[2] == f"€{abs(apart):.2f} {'more' if apart > 0 else 'less'} than today"
    assert rows[-1][0] == "your fitness app, your watch and your blood test"
    assert rows[-1][2] == "with everything you share today"
    numbered = re.findall(r'<tr data-set="(\d+)">.*?<td>(.*?)</td>', made.to_html())
    assert [told for _, told in numbered] == [EUROS.show(made.quotes[int(mask)]) for mask, _ in numbered]


def test_switches_are_those_of_what_is_shared_and_hidden_without_the_script() -> None:
    page = letter("app", "blood").to_html()
    assert re.findall(r'<label for="switch-(\d)">(.*?)</label><input type="checkbox" role="switch"', page) == [
        ("0", "your fitness app"),
        ("1", "your blood test"),
    ]
    assert '<fieldset id="switches" hidden>\n<legend>Switch off what you would keep to yourself</legend>' in page
    assert '<details id="table" open>' in page
    assert '<ul class="withheld">\n<li>your watch</li>\n</ul>' in page
    assert "What you have not shared" not in letter(*GROUPS).to_html()
    nothing = letter().to_html()
    assert "Today you share none of it." in nothing
    assert not {"fieldset", "table", "script", "input", "output"} & set(Reader(nothing).tags)
    assert all(shown in nothing for shown in (EUROS.show(letter().told()), *NAMES.values()))


def test_values_in_words() -> None:
    made = letter("app", "watch", "blood")
    page = render_html(replace(made, values=(12.345, -3.0, 0.001), quotes=(600.0,) * 7 + (609.35,)))
    assert "would be €600.00; with all of it, it is €609.35." in page
    assert re.findall(r'<span class="group">(.*?)</span> <span class="moved">(.*?)</span>', page) == [
        ("your fitness app", "raises it by €12.35"),  # 12.345 is a little more in binary
        ("your watch", "lowers it by €3.00"),
        ("your blood test", "makes no difference that would show"),
    ]
    bars = re.findall(r'<rect x="(.*?)" y="0" width="(.*?)"', page)
    assert bars == [("0", "100.0"), ("-24.3", "24.3"), ("0.0", "0.0")]
    one, two = letter("watch").to_html(), letter("watch", "app").to_html()
    assert "Without this information your yearly price would be" in one
    assert ["averaged over every order" in some for some in (one, two)] == [False, True]


def test_a_bonus_is_promised_only_where_it_is_given() -> None:
    for groups in PAGES:
        plain, bonus = letter(*groups).to_html(), letter(*groups, sharing="best", favourable="lower").to_html()
        assert ["in either direction" in page for page in (plain, bonus)] == [True, False]
        assert ["you are told the most favourable one" in page for page in (plain, bonus)] == [False, True]


def test_every_text_can_be_replaced() -> None:
    """Pages with and without groups, a bonus, an audit and its findings hold no words but those that were given."""
    own = {
        one.name: " ".join([f"«{one.name}", *(f"{{{name}}}" for name in one.metadata["needs"]), "»"])
        for one in fields(TEXT)
        if one.metadata
    }
    text = puc.letters.LetterText(quantity="Q", number=EUROS, groups=NAMES, columns={"age": "A", "steps": "S"}, **own)
    made = letter("app", "blood", text=text, reference="C-17")
    telling = replace(made.about, checked="2026-01-01", verdict="violated for some", telling=True)
    pages = [made, replace(made, bonus=True), replace(made, quotes=(1.0,) * 4, values=(0.0, 0.0))]
    pages += [replace(made, reasons=(("age", 1.0), ("steps", -1.0)), compared_with=20)]
    pages += [replace(made, range=Range(1.0, 2.0, ("app",), 0.9), learned=((made.withheld[0], 1.0, 2.0),))]
    pages += [letter(*groups, text=text) for groups in PAGES]
    verdicts = ("certified", "certified in part", "violated", "inconclusive")
    about = [telling, *(replace(made.about, checked="2026-01-01", verdict=verdict) for verdict in verdicts)]
    pages += [replace(made, about=one) for one in about]
    seen = " ".join(words(one.to_html()) for one in pages)
    assert not [name for name in own if f"«{name} " not in seen]
    given = re.compile("|".join(map(re.escape, [*NAMES.values(), "C-17", "2026-01-01", telling.made, telling.model])))
    rest = given.sub("", re.sub(r"«\w+", "", seen))
    assert not re.search(r"[a-z]", rest), rest


def test_hostile_names_and_words() -> None:
    plain = letter("app", "blood", text=replace(TEXT, sender="s", contact="c"), reference="r").to_html()
    for hostile in [HOSTILE, "</script><script>alert(1)</script>\u2028", "--><!--", "{{ 7 * 7 }}{% x %}"]:
        braced = hostile.replace("{", "{{").replace("}", "}}")
        number = puc.letters.LetterNumber(prefix=hostile, suffix=hostile)
        names = {group: f"{hostile} {group}" for group in GROUPS}
        texts = dict.fromkeys(("sender", "title", "intro", "contact", "promise", "choose", "table_heading"), braced)
        own = puc.letters.LetterText(quantity=hostile, groups=names, number=number, **texts)
        made = letter("app", "blood", text=own, reference=hostile)
        page = made.to_html()
        read = Reader(page)
        assert read.tags == Reader(plain).tags  # no element more
        assert [key for _, key, _ in read.attributes] == [key for _, key, _ in Reader(plain).attributes]
        assert content_of(page, "script") == content_of(plain, "script")
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u2028\u2029\u202a-\u202e]", page)
        assert " ".join(re.sub(r"[\x00-\x1f\u2028]", " ", hostile).split()) in words(page)
        Reader(made._repr_html_())
        assert page not in made._repr_html_()
    named_so = render_html(replace(letter("app"), shared=(HOSTILE,), withheld=(f"{HOSTILE}2", "c")))
    assert "<script>alert" not in named_so
    assert named_so.count("&lt;script&gt;alert(1)") >= 3


def test_page_depends_on_the_letter_alone_and_is_written_whole(tmp_path: Path) -> None:
    made = letter("app", "blood")
    target = tmp_path / "letter.html"
    assert made.to_html(target) == made.to_html() == letter("app", "blood").to_html()
    assert target.read_bytes() == made.to_html().encode("utf-8")
    with pytest.raises(OSError, match="missing"):
        made.to_html(tmp_path / "missing" / "letter.html")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.html"]
    in_notebook = Reader(made._repr_html_())  # in a frame of its own
    assert in_notebook.tags == ["iframe"]
    assert (in_notebook.get("srcdoc"), in_notebook.get("sandbox")) == ([made.to_html()], ["allow-scripts"])
