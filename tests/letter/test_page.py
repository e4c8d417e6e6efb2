"""The page of a letter: complete without its script, escaped throughout, and nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest
from auditing.report_examples import HOSTILE, Reader
from letter_tools import EUROS, GROUPS, NAMES, TEXT, priced, sharing

import pucboost as puc
from pucboost._letter.letters import render_html


def letter(*groups: str, text: puc.letters.LetterText = TEXT, **given: str) -> puc.letters.Letter:
    booster, X = priced()
    return puc.letter(booster, sharing(X, *groups), text=text, **given)


def words(page: str) -> str:
    shown = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    return " ".join("".join(Reader(shown).text).split())


def content_of(page: str, tag: str) -> list[str]:
    return re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)


PAGES = [("app", "watch", "blood"), ("watch",), ()]


def test_page_is_well_formed_and_loads_nothing() -> None:
    for groups in PAGES:
        page = letter(*groups, reference="C-17").to_html()
        read = Reader(page)
        assert page.startswith("<!DOCTYPE html>")
        assert ("html", "lang", "en") in read.attributes
        assert not {"link", "img", "iframe", "object", "embed", "base", "form", "a"} & set(read.tags)
        forbidden = ("src", "href", "srcset", "action", "style")
        assert not [key for _, key, _ in read.attributes if key.startswith("on") or key in forbidden]
        assert not re.search(r"@import|url\(|://", page)
        headings = [tag for tag in read.tags if re.fullmatch("h[1-6]", tag)]
        assert headings == ["h1"] + ["h2"] * (len(headings) - 1)
        ids = read.get("id")
        assert len(ids) == len(set(ids))
        assert set(read.get("aria-labelledby")) | set(read.get("for")) <= set(ids)


def test_policy_allows_this_style_and_this_script_and_nothing_else() -> None:
    for groups in PAGES:
        page = letter(*groups).to_html()
        read = Reader(page)
        contents = [value for tag, key, value in read.attributes if (tag, key) == ("meta", "content")]
        [stated] = [value for value in contents if "-src" in value]
        assert page.index("Content-Security-Policy") < page.index("<style>")
        policy = dict(rule.split(" ", 1) for rule in stated.split("; "))

        def digest(text: str) -> str:
            return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

        [style], scripts = content_of(page, "style"), content_of(page, "script")
        assert len(scripts) == page.count("<script") == bool(groups)
        assert policy == {
            "default-src": "'none'",
            "style-src": digest(style),
            "script-src": " ".join(map(digest, scripts)) or "'none'",
            "base-uri": "'none'",
            "form-action": "'none'",
        }


def test_script_is_the_same_for_everybody() -> None:
    """It holds nothing about anybody, so a company can read it once."""
    first, second = letter("app", "blood").to_html(), letter("watch").to_html()
    assert first != second
    assert content_of(first, "script") == content_of(second, "script")
    assert content_of(first, "style") == content_of(second, "style")


def test_table_has_every_choice() -> None:
    made = letter("app", "watch", "blood")
    header, *rows = Reader(made.to_html()).rows
    assert header == ["If you share", "Your yearly price", "Compared with today"]
    assert len(rows) == 8
    expected = {}
    for size in range(4):
        for some in itertools.combinations(GROUPS, size):
            names = [NAMES[group] for group in some]
            named = " and ".join([", ".join(names[:-1]), names[-1]]) if size > 1 else "".join(names) or "none of it"
            expected[named] = EUROS.show(made.told(some))
    assert {row[0]: row[1] for row in rows} == expected
    today = made.told()
    for row in rows[:-1]:
        apart = float(row[1][1:]) - float(EUROS.show(today)[1:])
        assert row[2] == f"€{abs(apart):.2f} {'more' if apart > 0 else 'less'} than today"
    assert rows[-1][0] == "your fitness app, your watch and your blood test"
    assert rows[-1][2] == "with everything you share today"


def test_rows_are_numbered_by_what_is_shared() -> None:
    made = letter("app", "blood")
    rows = re.findall(r'<tr data-set="(\d+)"><th scope="row">(.*?)</th><td>(.*?)</td>', made.to_html())
    assert [(int(mask), named) for mask, named, _ in rows] == [
        (0, "none of it"),
        (1, "your fitness app"),
        (2, "your blood test"),
        (3, "your fitness app and your blood test"),
    ]
    assert [told for *_, told in rows] == [EUROS.show(made.quotes[int(mask)]) for mask, *_ in rows]


def test_without_script_there_are_no_dead_switches() -> None:
    page = letter("app", "blood").to_html()
    assert '<fieldset id="switches" hidden>' in page
    assert '<details id="table" open>' in page


def test_switches_are_those_of_what_is_shared() -> None:
    page = letter("app", "blood").to_html()
    read = Reader(page)
    assert read.get("role").count("switch") == 2
    assert re.findall(r'<label for="switch-(\d)">(.*?)</label><input type="checkbox" role="switch"', page) == [
        ("0", "your fitness app"),
        ("1", "your blood test"),
    ]
    assert "<legend>Switch off what you would keep to yourself</legend>" in page
    assert '<ul class="withheld">\n<li>your watch</li>\n</ul>' in page
    assert "We do not know what this would tell us" in page


def test_who_shares_everything_or_nothing() -> None:
    everything, nothing = letter(*GROUPS).to_html(), letter().to_html()
    assert "What you have not shared" not in everything
    assert "Today you share none of it." in nothing
    assert not {"fieldset", "table", "script", "input", "output"} & set(Reader(nothing).tags)
    assert EUROS.show(letter().told()) in nothing
    assert all(name in nothing for name in NAMES.values())


def test_values_in_words() -> None:
    made = letter("app", "watch", "blood")
    moved = replace(made, values=(12.345, -3.0, 0.001), quotes=(600.0,) * 7 + (609.35,))
    page = render_html(moved)
    assert "would be €600.00; with all of it, it is €609.35." in page
    found = re.findall(r'<span class="group">(.*?)</span> <span class="moved">(.*?)</span>', page)
    assert found == [
        ("your fitness app", "raises it by €12.35"),  # 12.345 is a little more in binary
        ("your watch", "lowers it by €3.00"),
        ("your blood test", "makes no difference that would show"),
    ]
    assert re.findall(r'<rect x="(.*?)" y="0" width="(.*?)"', page) == [
        ("0", "100.0"),
        ("-24.3", "24.3"),
        ("0.0", "0.0"),
    ]


def test_one_value_is_no_average() -> None:
    one, two = letter("watch").to_html(), letter("watch", "app").to_html()
    assert "Without this information your yearly price would be" in one
    assert "averaged over every order" not in one
    assert "averaged over every order" in two


def test_the_promise_stands_on_every_page_and_the_bonus_only_where_it_is_given() -> None:
    booster, X = priced()
    for groups in PAGES:
        plain = letter(*groups).to_html()
        assert puc.letters.LetterText(quantity="yearly price").fill("promise") in plain
        assert "in either direction" in plain
        assert "most favourable" not in plain
        bonus = puc.letter(booster, sharing(X, *groups), text=TEXT, sharing="best", favourable="lower").to_html()
        assert puc.letters.LetterText(quantity="yearly price").fill("promise") in bonus
        assert "you are told the most favourable one" in bonus
        assert "in either direction" not in bonus


def test_own_words() -> None:
    own = replace(
        TEXT,
        sender="Acme",
        title="T {quantity}",
        intro="I {quantity}",
        choose="C",
        told="Y",
        reset="R",
        stays_here="S",
        promise_heading="PH",
        promise="P",
        example="X {group}",
        unchecked="U",
        either_way="E",
        always="A",
        values_heading="VH",
        values="{without} → {with_all}",
        value_lowers="↓ {difference}",
        value_raises="↑ {difference}",
        withheld_heading="WH",
        withheld="W",
        table_heading="{count}",
        table_shared="TS",
        table_told="TT",
        table_compared="TC",
        nothing="N",
        compared_now="now",
        compared_less="< {difference}",
        compared_more="> {difference}",
        compared_same="=",
        list_and=" & ",
        estimate="est",
        made="{date} {model}",
        legal="L",
        contact="K",
        reference="№ {reference}",
        groups={"app": "a", "watch": "w", "blood": "b"},
    )
    made = letter("app", "blood", text=own, reference="C-17")
    without, app, blood, both = map(EUROS.show, made.quotes)
    app_moves, blood_moves = (f"{'↑' if value > 0 else '↓'} {EUROS.difference(value, 0)}" for value in made.values)
    against = [
        f"{'>' if quoted > made.told() else '<'} {EUROS.difference(quoted, made.told())}" for quoted in made.quotes
    ]
    assert words(made.to_html()) == (
        f"T yearly price Acme T yearly price № C-17 I yearly price Y {both} now C a b R S PH P X w U E A "
        f"VH {without} → {both} a {app_moves} b {blood_moves} WH W w 4 TSTTTC "
        f"N{without}{against[0]} a{app}{against[1]} b{blood}{against[2]} a & b{both}now "
        f"est {made.about.made} {made.about.model} L K"
    )


def test_language_and_direction() -> None:
    page = letter("app", text=replace(TEXT, lang="en-GB", direction="rtl")).to_html()
    assert '<html lang="en-GB" dir="rtl">' in page


def test_hostile_names_and_words() -> None:
    for hostile in [HOSTILE, "</script><script>alert(1)</script>\u2028", "--><!--", "{{ 7 * 7 }}{% x %}"]:
        braced = hostile.replace("{", "{{").replace("}", "}}")
        number = puc.letters.LetterNumber(prefix=hostile, suffix=hostile)
        names = {group: f"{hostile} {group}" for group in GROUPS}
        texts = dict.fromkeys(("sender", "title", "intro", "contact", "promise", "choose", "table_heading"), braced)
        own = puc.letters.LetterText(quantity=hostile, groups=names, number=number, **texts)
        made = letter("app", "blood", text=own, reference=hostile)
        page = made.to_html()
        plain = letter("app", "blood", text=replace(TEXT, sender="s", contact="c"), reference="r").to_html()
        read = Reader(page)
        assert read.tags == Reader(plain).tags  # no element more
        assert [key for _, key, _ in read.attributes] == [key for _, key, _ in Reader(plain).attributes]
        assert content_of(page, "script") == content_of(plain, "script")
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u2028\u2029\u202a-\u202e]", page)
        visible = " ".join(re.sub(r"[\x00-\x1f\u2028]", " ", hostile).split())
        assert visible in words(page)
        Reader(made._repr_html_())
        assert page not in made._repr_html_()


def test_hostile_groups_of_a_model() -> None:
    booster, X = priced()
    one = puc.letter(booster, sharing(X, "app"), text=TEXT)
    page = render_html(replace(one, shared=(HOSTILE,), withheld=(f"{HOSTILE}2", "c")))
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)") >= 3


def test_page_depends_on_the_letter_alone_and_is_written_whole(tmp_path: Path) -> None:
    made = letter("app", "blood")
    target = tmp_path / "letter.html"
    assert made.to_html(target) == made.to_html() == letter("app", "blood").to_html()
    assert target.read_bytes() == made.to_html().encode("utf-8")
    with pytest.raises(OSError, match="missing"):
        made.to_html(tmp_path / "missing" / "letter.html")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.html"]


def test_notebooks_show_the_page_in_a_frame_of_its_own() -> None:
    made = letter("app", "blood")
    box = Reader(made._repr_html_())
    assert box.tags == ["iframe"]
    assert box.get("srcdoc") == [made.to_html()]
    assert box.get("sandbox") == ["allow-scripts"]


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_have_contrast_in_light_dark_and_print() -> None:
    themes = re.findall(r":root \{(.*?)\}", letter("app").to_html(), flags=re.DOTALL)
    light, dark, paper = (dict(re.findall(r"--([\w-]+): (#\w{6})", theme)) for theme in themes)
    assert light == paper
    pairs = [(text, ground) for text in ("ink", "soft", "accent") for ground in ("paper", "raised")] + [
        ("on", "accent")
    ]
    for theme in (light, dark):
        for text, ground in pairs:
            lower, higher = sorted((_luminance(theme[text]), _luminance(theme[ground])))
            assert (higher + 0.05) / (lower + 0.05) >= 4.5, (text, ground)
