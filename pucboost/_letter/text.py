"""The words and numbers of a letter: texts with named placeholders that a company replaces and translates."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from string import Formatter
from typing import Any, Self

from .._common import did_you_mean
from .._pages import decimals_for, deliver
from .._tables.files import DataError

MOST_DECIMALS = 8

_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")


@dataclass(frozen=True)
class LetterNumber:
    """How a letter shows numbers: ``prefix``, ``factor`` · value with ``decimals``, ``suffix``.

    Parameters
    ----------
    factor
        What predictions are multiplied by; 100 for percent, 12 for a yearly price from a monthly one.
    decimals
        Digits after the decimal mark.
    decimal_mark, thousands
        The decimal mark, and what separates thousands (may be empty).
    prefix, suffix
        What stands before and after a number, such as ``"€"`` or ``" € a year"``.
    difference_suffix
        What stands after a difference, if it is not ``suffix``, such as ``" percentage points"``.

    Examples
    --------
    >>> import pucboost as puc
    >>> euros = puc.letters.LetterNumber(decimal_mark=",", thousands=".", suffix=" €")
    >>> euros.show(-1234.5), euros.difference(1234.5, 1200)
    ('−1.234,50 €', '34,50 €')
    >>> puc.letters.LetterNumber(100, 1, suffix="%", difference_suffix=" points").difference(0.25, 0.125)
    '12.5 points'
    """

    factor: float = 1.0
    decimals: int = 2
    decimal_mark: str = "."
    thousands: str = ","
    prefix: str = ""
    suffix: str = ""
    difference_suffix: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.factor, (int, float)) or not math.isfinite(self.factor) or self.factor == 0:
            raise ValueError(f"factor of LetterNumber must be a number other than 0, got {self.factor!r}.")
        if not isinstance(self.decimals, int) or not 0 <= self.decimals <= MOST_DECIMALS:
            raise ValueError(
                f"decimals of LetterNumber must be a whole number from 0 to {MOST_DECIMALS}, got {self.decimals!r}."
            )
        for name in ("decimal_mark", "thousands", "prefix", "suffix", "difference_suffix"):
            value = getattr(self, name)
            if not isinstance(value, str) and not (name == "difference_suffix" and value is None):
                raise ValueError(f"{name} of LetterNumber must be text, got {value!r}.")
        if self.decimal_mark in ("", self.thousands):
            raise ValueError(
                f"decimal_mark of LetterNumber must be neither empty nor the separator of thousands, got "
                f"{self.decimal_mark!r}."
            )

    def show(self, value: float) -> str:
        """Return a number."""
        return self._with_sign(self._rounded(value), self.suffix)

    def difference(self, value: float, other: float) -> str:
        """Return how far two numbers are apart as they are shown, without a sign."""
        suffix = self.suffix if self.difference_suffix is None else self.difference_suffix
        return self._with_sign(abs(self._rounded(value) - self._rounded(other)), suffix)

    def compare(self, value: float, other: float) -> int:
        """Return 1 if a number is shown larger than another, −1 if smaller, 0 if the same."""
        a, b = self._rounded(value), self._rounded(other)
        return (a > b) - (a < b)

    def _rounded(self, value: float) -> float:
        return float(f"{self.factor * value:.{self.decimals}f}")

    def _with_sign(self, value: float, suffix: str) -> str:
        digits = f"{abs(value):,.{self.decimals}f}"
        marks = str.maketrans({",": self.thousands, ".": self.decimal_mark})
        return f"{'−' if value < 0 else ''}{self.prefix}{digits.translate(marks)}{suffix}"


PERCENT = LetterNumber(factor=100, decimals=1, suffix="%", difference_suffix=" percentage points")


def amount_like(values: Iterable[float]) -> LetterNumber:
    """Return the default for amounts of this size: four significant digits."""
    return LetterNumber(decimals=decimals_for(max(map(abs, values), default=0.0), 4))


def _text(default: str, *needs: str, may: Sequence[str] = ()) -> Any:
    """A text that must have the placeholders ``needs``; {quantity} and those in ``may`` are allowed."""
    return field(default=default, metadata={"needs": needs, "known": (*needs, *may, "quantity")})


@dataclass(frozen=True, kw_only=True)
class LetterText:
    """All that a company words itself in a letter: texts, the names of the groups, and how numbers look.

    Every text may contain ``{quantity}``, the name of what is predicted. Some have further placeholders, and those in
    their default text are needed. A brace itself is written twice. Texts are plain text, never HTML. The defaults are
    English; with another ``lang`` every text must be given, so that nobody gets a letter in two languages.

    Parameters
    ----------
    lang, direction
        Language of the letter, such as ``"de-AT"``, and the direction of its script, ``"ltr"`` or ``"rtl"``.
    quantity
        What the number is, and in which unit, as it follows the word "your": ``"yearly price in euros"``. The unit may
        stand in ``number`` instead. Needed here or in :func:`pucboost.letter`.
    groups
        What people call the groups: ``{"blood": "your blood test"}``.
    columns
        What people call the columns, where a letter names reasons.
    number
        How numbers look. None shows probabilities as percentages, and everything else with four digits.
    title, intro, promise, …
        The texts; :meth:`to_toml` writes all of them to a file.

    Examples
    --------
    >>> import pucboost as puc
    >>> text = puc.letters.LetterText(quantity="yearly price", groups={"blood": "your blood test"})
    >>> text.fill("title")
    'What you share, and your yearly price'
    >>> puc.letters.LetterText(intro="Dear {name}")
    Traceback (most recent call last):
    ...
    ValueError: intro of LetterText has a placeholder {name}; known there: {quantity}.
    """

    lang: str = "en"
    direction: str = "ltr"
    quantity: str = ""

    sender: str = _text("")
    title: str = _text("What you share, and your {quantity}")
    reference: str = _text("Reference: {reference}", "reference")
    intro: str = _text(
        "You decide which optional information you share with us. Here you can see what your {quantity} would be if "
        "you shared less."
    )
    intro_nothing: str = _text("You decide which optional information you share with us. Today you share none of it.")

    told: str = _text("Your {quantity}")
    range: str = _text(
        "Your {quantity} is worked out from an estimate, and no estimate is certain. For at least {level} of the "
        "people who share as much as you, what really happens lies within a range that is worked out like yours: from "
        "{low} to {high}.",
        "level",
        "low",
        "high",
    )
    range_part: str = _text(
        "Too few people share as much as you, so the range is worked out as if you shared {shared}.", "shared"
    )
    choose: str = _text("Switch off what you would keep to yourself")
    compared_now: str = _text("with everything you share today")
    compared_same: str = _text("the same as today")
    compared_less: str = _text("{difference} less than today", "difference")
    compared_more: str = _text("{difference} more than today", "difference")
    reset: str = _text("Switch everything back on")
    stays_here: str = _text(
        "This is only for trying out. Nothing you do on this page is sent to anybody, and it does not change what you "
        "share with us."
    )

    promise_heading: str = _text("If you keep something to yourself")
    promise: str = _text(
        "The model behind your {quantity} is built to conclude nothing from the fact that you keep something to "
        "yourself. It compares you with people who told us the same as you. Whether they told us more does not "
        "matter."
    )
    example: str = _text(
        "An example: {group}. If you keep it to yourself, you are treated like the average of the people whose other "
        "information is the same as yours. Those who do share theirs are among them.",
        may=("group",),
    )
    promise_telling: str = _text(
        "The model behind your {quantity} is not shown what you keep to yourself. But the last check found that other "
        "information, which everybody has to give us, nearly shows who keeps something to themselves. So we cannot "
        "rule out that something is concluded from it."
    )
    checked: str = _text("The model was last checked on {date}, with the result: {result}", "date", "result")
    unchecked: str = _text("Whether the model does what it is built for was not audited.")
    result_certified: str = _text(
        "certified. People who keep something to themselves are treated as their other information justifies, up to "
        "the small difference that was allowed beforehand."
    )
    result_certified_in_part: str = _text(
        "certified in part. People who keep something to themselves are treated as their other information justifies, "
        "up to the small difference that was allowed beforehand. But this could not be checked for all of them."
    )
    result_violated: str = _text(
        "violated. Some people who keep something to themselves are told something else than their other information "
        "justifies, by more than was allowed beforehand."
    )
    result_violated_for_some: str = _text(
        "violated for some. On average, people who keep something to themselves are treated as their other information "
        "justifies. But some of them are told too much and others too little, by more than was allowed beforehand."
    )
    result_inconclusive: str = _text(
        "inconclusive. The check could not decide whether people who keep something to themselves are treated as their "
        "other information justifies."
    )
    either_way: str = _text("What you share can move your {quantity} in either direction, depending on what it says.")
    bonus: str = _text(
        "Of all the numbers that this rule gives for parts of what you share, you are told the most favourable one. "
        "Sharing more therefore never makes your {quantity} less favourable."
    )
    always: str = _text("What everybody has to tell us is used in every case.")

    values_heading: str = _text("What difference it makes")
    values: str = _text(
        "Without any of this information your {quantity} would be {without}; with all of it, it is {with_all}. Each "
        "part contributes to this change, averaged over every order in which you could share them (rounded):",
        "without",
        "with_all",
    )
    values_one: str = _text(
        "Without this information your {quantity} would be {without}; with it, it is {with_all}.", "without", "with_all"
    )
    value_lowers: str = _text("lowers it by {difference}", "difference")
    value_raises: str = _text("raises it by {difference}", "difference")
    value_nothing: str = _text("makes no difference that would show")

    reasons_heading: str = _text("What moved it most")
    reasons: str = _text(
        "Your {quantity} is compared with what it is on average for {people} people who share at least what yours was "
        "worked out from. Everything else is left out for all of them, too. This moved it most:",
        "people",
    )
    reason_lowers: str = _text("lowers it")
    reason_raises: str = _text("raises it")

    withheld_heading: str = _text("What you have not shared")
    withheld: str = _text("We do not know what this would tell us, so we cannot work out what sharing it would change:")
    learned: str = _text(
        "Of people who otherwise told us the same as you, and shared this, 8 in 10 were told between {low} and {high}.",
        "low",
        "high",
    )
    learned_from: str = _text("They chose to share it, and you may differ from them. So this is no promise.")

    table_heading: str = _text("Every choice in one table ({count})", may=("count",))
    table_shared: str = _text("If you share")
    table_told: str = _text("Your {quantity}")
    table_compared: str = _text("Compared with today")
    nothing: str = _text("none of it")
    list_comma: str = _text(", ")
    list_and: str = _text(" and ")

    estimate: str = _text(
        "All numbers are estimates by a statistical model that was trained on the data of many people. They hold for "
        "this model, and for the data about you as they are today."
    )
    made: str = _text("Made on {date} with model {model}.", "date", "model")
    legal: str = _text(
        "This page is information, not a legal notice. It does not replace a notice about a decision, such as an "
        "adverse action notice, and it does not change your rights, such as those on automated decisions in Article 22 "
        "of the GDPR."
    )
    contact: str = _text("")

    groups: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    number: LetterNumber | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            if one.name not in ("groups", "columns", "number") and not isinstance(getattr(self, one.name), str):
                raise ValueError(f"{one.name} of LetterText must be text, got {getattr(self, one.name)!r}.")
        if not _LANGUAGE_TAG.fullmatch(self.lang):
            raise ValueError(f"lang of LetterText must be a language such as 'en' or 'de-AT', got {self.lang!r}.")
        if self.direction not in ("ltr", "rtl"):
            raise ValueError(f"direction of LetterText must be 'ltr' or 'rtl', got {self.direction!r}.")
        if self.number is not None and not isinstance(self.number, LetterNumber):
            raise ValueError(f"number of LetterText must be a LetterNumber, got {self.number!r}.")
        for what, named in (("group", self.groups), ("column", self.columns)):
            if not isinstance(named, Mapping):
                raise ValueError(f"{what}s of LetterText must map {what}s to what people call them, got {named!r}.")
            for key, name in named.items():
                if not isinstance(name, str) or not name.strip():
                    raise ValueError(f"{what}s of LetterText: the name of {what} {key!r} must be text, got {name!r}.")
        for name, known in _placeholders().items():
            _check_placeholders(name, getattr(self, name), needs=known["needs"], known=known["known"])
        self._check_translated()

    def _check_translated(self) -> None:
        if self.lang.lower().partition("-")[0] == "en":
            return
        english = [
            one.name for one in fields(self) if _is_english(one.default) and getattr(self, one.name) == one.default
        ]
        if self.number is None:
            english.append("number")
        if english:
            raise ValueError(
                f"lang of LetterText is {self.lang!r}, but these are the English ones: {', '.join(english)}."
            )

    def fill(self, name: str, **values: str) -> str:
        """Return a text with its placeholders filled in."""
        text: str = getattr(self, name)
        return text.format_map({"quantity": self.quantity, **values})

    def listing(self, items: Sequence[str]) -> str:
        """Return a, b and c."""
        *first, last = items
        return f"{self.list_comma.join(first)}{self.list_and}{last}" if first else last

    def to_toml(self, path: str | Path | None = None) -> str:
        """Return everything as TOML, and write it to ``path`` (whole or not at all) if one is given."""
        lines = [f"{name} = {_quoted(getattr(self, name))}" for name in ("lang", "direction", "quantity")]
        lines += [f"{name} = {_quoted(getattr(self, name))}" for name in _placeholders()]
        if self.number is not None:
            shown = {one.name: getattr(self.number, one.name) for one in fields(self.number)}
            lines += ["", "[number]"]
            lines += [f"{name} = {_quoted(value)}" for name, value in shown.items() if value is not None]
        for what, named in (("groups", self.groups), ("columns", self.columns)):
            if named:
                lines += ["", f"[{what}]", *(f"{_quoted(one)} = {_quoted(name)}" for one, name in named.items())]
        return deliver("\n".join(lines) + "\n", path)

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read a file as :meth:`to_toml` writes it; texts that it does not have keep their defaults."""
        import tomllib

        try:
            given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
            _check_keys(given, cls, "LetterText")
            number = given.pop("number", None)
            if number is not None:
                if not isinstance(number, dict):
                    raise ValueError(f"number must be a table [number], got {number!r}.")
                _check_keys(number, LetterNumber, "LetterNumber")
                given["number"] = LetterNumber(**number)
            return cls(**given)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not a TOML file in UTF-8: {error}") from None
        except ValueError as error:
            raise DataError(f"{path}: {error}") from None


def worded(text: LetterText | None, quantity: str | None) -> LetterText:
    """Return the words of a letter, which must include what its number is."""
    if text is not None and not isinstance(text, LetterText):
        raise ValueError(f"text must be a pucboost.letters.LetterText, got {type(text).__name__}.")
    text = text or LetterText()
    if quantity is not None:
        # The English texts begin with "your" themselves.
        begins_so = str(quantity)[:5].lower() == "your " and text.title == LetterText.title
        text = replace(text, quantity=quantity[5:].lstrip() if begins_so else quantity)
    if not text.quantity.strip():
        raise ValueError(
            "quantity is missing: say what the number is, and in which unit, such as 'yearly price in euros'. It "
            'follows the word "your".'
        )
    return text


def _placeholders() -> dict[str, Mapping[str, Any]]:
    """Return the texts with placeholders: name → needed and known ones."""
    return {one.name: one.metadata for one in fields(LetterText) if one.metadata}


def _check_placeholders(name: str, text: str, *, needs: Sequence[str], known: Sequence[str]) -> None:
    try:
        found = [part for part in Formatter().parse(text) if part[1] is not None]
    except ValueError as error:
        raise ValueError(f"{name} of LetterText: {error} in {text!r}. A brace itself is written twice.") from None
    for _, placeholder, spec, conversion in found:
        if placeholder not in known:
            raise ValueError(
                f"{name} of LetterText has a placeholder {{{placeholder}}}; known there: "
                f"{', '.join(f'{{{one}}}' for one in known)}.{did_you_mean(str(placeholder), known)}"
            )
        if spec or conversion:
            raise ValueError(f"{name} of LetterText: write {{{placeholder}}} without a format.")
    for placeholder in needs:
        if placeholder not in [part[1] for part in found]:
            raise ValueError(f"{name} of LetterText lacks the placeholder {{{placeholder}}}: {text!r}.")


def _is_english(default: Any) -> bool:
    """Return whether a default has words of its own, apart from placeholders."""
    if not isinstance(default, str) or default in ("en", "ltr"):
        return False
    return any(letter.isalpha() for letter in re.sub(r"\{\w+\}", "", default))


def _check_keys(given: Mapping[str, Any], kind: type, name: str) -> None:
    known = [one.name for one in fields(kind)]
    for key in given:
        if key not in known:
            raise ValueError(f"{name} has no {key!r}.{did_you_mean(key, known) or ' It has ' + ', '.join(known) + '.'}")


def _quoted(value: Any) -> str:
    """Return a string or number in TOML; its basic strings are JSON's, but for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
