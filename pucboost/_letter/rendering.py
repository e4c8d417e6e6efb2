"""A letter as one HTML page: nothing to load, nothing sent, readable without its script.

The table holds every number. The script only shows the row that the switches choose, so it is the same for every
letter, and no data of anybody stand in it.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from .._pages import printable, templates
from .contents import Contents

_PACKAGE = "pucboost._letter"


@dataclass(frozen=True)
class Row:
    """One choice of what is shared: bit g of ``mask`` is shared group number g."""

    mask: int
    shared: str
    told: str
    compared: str


@dataclass(frozen=True)
class Value:
    """How much one group moves the number, in words, and as a bar from 0 to ``length`` percent of the largest."""

    group: str
    sentence: str
    length: float


def render_html(letter: Contents) -> str:
    """Return one complete HTML page, with all text escaped."""
    from markupsafe import Markup

    letter = printable(letter)
    text, number = letter.text, letter.number
    names = {group: text.groups.get(group, group) for group in (*letter.shared, *letter.withheld)}
    rows = _rows(letter, names)
    style, script = _asset("letter.css"), _asset("letter.js")
    allowed = f"'{_digest(script)}'" if letter.shared else "'none'"
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src {allowed}; base-uri 'none'; form-action 'none'"
    )
    return (
        templates(_PACKAGE)
        .get_template("letter.html")
        .render(
            text=text,
            fill=text.fill,
            title=text.fill("title"),
            reference=letter.reference,
            bonus=letter.bonus,
            switches=[
                (names[group], needed)
                for group, needed in zip(letter.shared, letter.needs or (-1,) * len(letter.shared), strict=True)
            ],
            withheld=[names[group] for group in letter.withheld],
            now=rows[-1],
            rows=rows,
            values=_values(letter, names),
            without=number.show(letter.quotes[0]),
            with_all=number.show(letter.quotes[-1]),
            policy=Markup(policy),
            style=Markup(style),
            script=Markup(script),
        )
    )


def _rows(letter: Contents, names: dict[str, str]) -> list[Row]:
    """Return all choices, those with fewest groups first, so that what is shared today comes last."""
    text, number, today = letter.text, letter.number, letter.quotes[-1]
    rows = []
    choices = sorted(zip(letter.subsets, letter.quotes, strict=True), key=lambda choice: choice[0].bit_count())
    for mask, told in choices:
        groups = [names[group] for g, group in enumerate(letter.shared) if mask >> g & 1]
        difference = number.difference(told, today)
        compared = {
            0: text.fill("compared_same"),
            1: text.fill("compared_more", difference=difference),
            -1: text.fill("compared_less", difference=difference),
        }[number.compare(told, today)]
        is_today = mask.bit_count() == len(letter.shared)
        rows.append(
            Row(
                mask,
                text.listing(groups) if groups else text.fill("nothing"),
                number.show(told),
                text.fill("compared_now") if is_today else compared,
            )
        )
    return rows


def _values(letter: Contents, names: dict[str, str]) -> list[Value]:
    text, number = letter.text, letter.number
    largest = max(map(abs, letter.values), default=0.0)
    values = []
    for group, value in zip(letter.shared, letter.values, strict=True):
        direction = number.compare(value, 0.0)
        sentence = (
            text.fill("value_raises" if direction > 0 else "value_lowers", difference=number.difference(value, 0.0))
            if direction
            else text.fill("value_nothing")
        )
        # Bars of differences that are too small to show would contradict the words.
        values.append(Value(names[group], sentence, round(100 * value / largest, 2) if direction else 0.0))
    return values


@cache
def _asset(name: str) -> str:
    return (files(_PACKAGE) / "templates" / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """Return how a Content-Security-Policy names an element with this content."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")
