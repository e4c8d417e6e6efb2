"""The page of a letter in a real browser: switches, keyboard, accessibility, sizes, paper."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser_tools import Page, axe_source, browser, why_not
from letter_tools import EUROS, GROUPS, NAMES, TEXT, priced, sharing

import pucboost as puc

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

AXE = axe_source() if why_not() is None else None


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Letters to people who share all, some or nothing, one with long names, and one with ten groups."""
    folder = tmp_path_factory.mktemp("pages")
    booster, X = priced()
    long = puc.letters.LetterText(
        quantity="price " + "x" * 90,
        groups={group: f"{name} {'word ' * 30}{'y' * 200}" for group, name in NAMES.items()},
        columns={"glucose": "g" * 200, "age": "word " * 40, "bmi": "w" * 150},
        number=puc.letters.LetterNumber(prefix="€", suffix=" and value added tax in every year of the contract"),
        sender="Acme " * 30,
        contact="z" * 300,
    )
    ten = np.random.default_rng(0).normal(size=(300, 12))
    masked = ten.copy()
    masked[:, 2:][np.random.default_rng(1).random((300, 10)) < 0.3] = np.nan
    model = puc.train({"optional": list(range(2, 12)), "verbosity": -1}, puc.Dataset(masked, ten.sum(axis=1)), 3)
    price = 500 + 40 * X.sum(axis=1)
    more = {
        "intervals": puc.intervals(booster, X, price),
        "questions": puc.questions(booster, X, price, groups="watch"),
    }
    letters = {
        "all": puc.letter(booster, sharing(X, *GROUPS), text=TEXT, reference="C-17"),
        "some": puc.letter(booster, sharing(X, "app", "blood"), text=TEXT, background=X, **more),
        "nothing": puc.letter(booster, sharing(X), text=TEXT),
        "long": puc.letter(booster, sharing(X, "app", "blood"), text=long, reference="r" * 200, background=X, **more),
        "rtl": puc.letter(booster, sharing(X, "app"), text=puc.letters.LetterText(quantity="price", direction="rtl")),
        "ten": puc.letter(model, ten[[0]], quantity="price"),
    }
    for name, letter in letters.items():
        letter.to_html(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in letters}


def told(page: Page) -> tuple[str, str]:
    number, compared = page.evaluate("['told', 'compared'].map(id => document.getElementById(id).textContent)")
    return number, compared


def test_switches_show_what_quote_says(page: Page, pages: dict[str, Path]) -> None:
    booster, X = priced()
    quotes = puc.quote(booster, sharing(X, *GROUPS)).iloc[0]
    today = quotes[" + ".join(GROUPS)]
    page.open(pages["all"])
    assert told(page) == (EUROS.show(today), "with everything you share today")
    on = dict.fromkeys(GROUPS, True)
    numbers = set()
    # A walk through all subsets that changes one group at a time: a Gray code.
    for step in range(1, 9):
        place = (step & -step).bit_length() - 1 if step < 8 else 2
        group = list(GROUPS)[place]
        page.click(f"#switch-{place}")
        on[group] = not on[group]
        number, compared = told(page)
        expected = quotes[" + ".join(one for one in GROUPS if on[one]) or "nothing"]
        assert number == EUROS.show(expected)
        numbers.add(number)
        if not all(on.values()):
            word = "more" if expected > today else "less"
            assert compared == f"{EUROS.difference(expected, today)} {word} than today"
        chosen = page.evaluate("[...document.querySelectorAll('.chosen')].map(row => row.cells[1].textContent)")
        assert chosen == [number]
    assert len(numbers) == 8


def test_switches_move_what_they_need_and_what_needs_them(page: Page, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200, 4))
    y = X.sum(axis=1)
    X[::2, 1:] = np.nan
    levels = {"fitness": puc.Levels([1], [2], [3])}
    booster = puc.train({"optional": levels, "verbosity": -1}, puc.Dataset(X, y), 20)
    letter = puc.letter(booster, X[[1]], quantity="price")
    letter.to_html(tmp_path / "levels.html")
    page.open(tmp_path / "levels.html")
    for place, level in ((1, 1), (2, 3), (0, 0), (1, 2), (2, 3), (2, 2)):
        page.click(f"#switch-{place}")
        on = page.evaluate("[...document.querySelectorAll('#switches input')].map(one => one.checked)")
        assert on == [k < level for k in range(3)]
        assert told(page)[0] == letter.number.show(letter.quotes[level])


def test_label_reset_and_keyboard_alone(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["some"], width=360)
    before, reached = told(page), []
    page.click("label[for=switch-1]")
    assert told(page) != before
    page.click("#reset")
    assert told(page) == before
    assert page.evaluate("[...document.querySelectorAll('input')].every(one => one.checked)")
    page.open(pages["some"])
    for _ in range(4):
        page.press("Tab", 9)
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert reached == ["switch-0", "switch-1", "reset", "SUMMARY"]
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press("Enter", 13, "\r")
    assert page.evaluate("document.getElementById('table').open")
    page.evaluate("document.getElementById('switch-1').focus()")
    numbers = []
    for key in ([" ", 32, " "], ["Enter", 13, "\r"], [" ", 32, " "]):
        page.press(*key)
        numbers.append(told(page))
    assert numbers[0] == numbers[2] != before == numbers[1]
    page.press("Tab", 9)
    page.press("Enter", 13, "\r")
    assert told(page) == before


def test_what_a_screen_reader_is_told(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["some"])
    page.click("#switch-0")
    nodes = [node for node in page.call("Accessibility.getFullAXTree")["nodes"] if not node.get("ignored")]
    switches = [
        (node["name"]["value"], {p["name"]: p["value"].get("value") for p in node["properties"]}["checked"])
        for node in nodes
        if node["role"]["value"] == "switch"
    ]
    assert switches == [("Your fitness app", "false"), ("Your blood test", "true")]
    status = next(node for node in nodes if node["role"]["value"] == "status")
    states = {p["name"]: p["value"].get("value") for p in status["properties"]}
    assert (states["live"], states["atomic"]) == ("polite", True)
    groups = [node["name"]["value"] for node in nodes if node["role"]["value"] == "group"]
    assert "Switch off what you would keep to yourself" in groups


def test_without_scripts(page: Page, pages: dict[str, Path]) -> None:
    page.open(pages["all"], scripts=False)
    tree = page.call("DOMSnapshot.captureSnapshot", computedStyles=["display"])
    strings = tree["strings"]
    shown = {strings[i] for i in tree["documents"][0]["layout"]["text"] if i >= 0}
    booster, X = priced()
    for quoted in puc.quote(booster, sharing(X, *GROUPS)).iloc[0]:
        assert EUROS.show(quoted) in shown
    assert "Switch off what you would keep to yourself" not in shown
    page.open(pages["all"])
    assert not page.evaluate("document.getElementById('table').open")


def test_nothing_is_loaded_and_nothing_refused(page: Page, pages: dict[str, Path]) -> None:
    for name in ["all", "nothing", "ten"]:
        page.open(pages[name])
        if name != "nothing":
            page.click("#switch-0")
        asked = [request["request"]["url"] for request in page.happened("Network.requestWillBeSent")]
        assert asked == [pages[name].as_uri()]
        assert page.happened("Log.entryAdded") == []  # a refused style or script would be logged
        assert page.happened("Runtime.exceptionThrown") == []


def test_policy_refuses_what_is_not_in_it(page: Page, pages: dict[str, Path], tmp_path: Path) -> None:
    """A page somebody tampered with: neither a further script, nor a style, an image or a connection."""
    foreign = (
        "<script>document.title = 'owned'</script><p id=x style='color: red' onclick='1'>x</p>"
        "<img src='https://example.invalid/x.png'></body>"
    )
    tampered = tmp_path / "tampered.html"
    tampered.write_text(pages["some"].read_text(encoding="utf-8").replace("</body>", foreign), encoding="utf-8")
    page.open(tampered)
    assert page.evaluate("document.title") == "What you share, and your yearly price"
    assert page.evaluate("getComputedStyle(document.getElementById('x')).color") != "rgb(255, 0, 0)"
    assert page.evaluate("fetch('https://example.invalid/').then(() => 'sent', () => 'refused')") == "refused"
    reasons = [entry["entry"]["text"] for entry in page.happened("Log.entryAdded")]
    for directive in ("script-src", "style-src", "default-src", "connect-src"):  # the last two fall back to default-src
        assert [text for text in reasons if "Content Security Policy" in text and directive in text], directive
    assert not [text for text in reasons if "net::" in text]  # nothing was even tried


SIZES = list(itertools.product((360, 1280), (False, True)))


def test_fits_light_and_dark_phone_and_desktop(page: Page, pages: dict[str, Path]) -> None:
    """And axe-core finds nothing serious, such as a low contrast, where it is installed."""
    for name, (width, dark) in itertools.product(pages, SIZES):
        page.open(pages[name], width=width, dark=dark)
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
        targets = "[...document.querySelectorAll('label, button, summary')]"
        heights = page.evaluate(f"{targets}.map(one => one.getBoundingClientRect().height)")
        assert all(height >= 40 for height in heights)  # large enough for a finger
        if AXE is None or name == "ten":  # a thousand rows would take minutes
            continue
        if name != "nothing":
            page.click("#switch-0")
        page.call("Runtime.evaluate", expression=AXE)
        found = page.evaluate("axe.run().then(done => JSON.stringify([done.passes.length, done.violations]))")
        passed, violations = json.loads(found)
        assert passed > 15
        serious = [one for one in violations if one["impact"] in ("serious", "critical")]
        assert [(one["id"], one["help"], [node["html"] for node in one["nodes"]]) for one in serious] == []


def test_on_paper(page: Page, pages: dict[str, Path]) -> None:
    for name, unfolded in (("ten", False), ("all", True)):  # all choices are on paper, but not a thousand
        page.open(pages[name], dark=True)
        before = "addEventListener('beforeprint', () => { window.onPaper = document.getElementById('table').open; })"
        page.evaluate(before)
        assert page.print().startswith(b"%PDF")
        assert page.evaluate("window.onPaper") is unfolded
        assert page.evaluate("document.getElementById('table').open") is False
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.getElementById('reset')).display") == "none"
