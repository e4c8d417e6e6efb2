"""The words and numbers of a letter: formats, placeholders, files."""

from __future__ import annotations

import string
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import pucboost as puc
from pucboost._letter.letters import LONGEST, file_name

Number, Text = puc.letters.LetterNumber, puc.letters.LetterText


def test_numbers() -> None:
    for given, value, shown in [
        ({}, 1234.567, "1,234.57"),
        ({}, -0.001, "0.00"),
        ({"decimals": 0, "prefix": "€"}, -1234567.8, "−€1,234,568"),
        ({"decimal_mark": ",", "thousands": ".", "suffix": " €"}, 1234.5, "1.234,50 €"),
        ({"thousands": "\u202f", "decimal_mark": ","}, 1234567, "1\u202f234\u202f567,00"),
        ({"thousands": ""}, 1234567, "1234567.00"),
        ({"factor": 100, "decimals": 1, "suffix": "%"}, 0.12345, "12.3%"),
        ({"factor": 12, "decimals": 0}, 10.1, "121"),
    ]:
        assert Number(**given).show(value) == shown


def test_differences_are_those_of_the_numbers_shown() -> None:
    """412.4 and 400.6 are shown as 412 and 401, so they are 11 apart, not 12."""
    whole = Number(decimals=0, prefix="€")
    assert whole.difference(412.4, 400.6) == "€11"
    assert (whole.compare(412.4, 411.6), whole.compare(412.6, 411.6), whole.compare(400, 412)) == (0, 1, -1)
    assert Number(100, 1, suffix="%", difference_suffix=" points").difference(0.2, 0.123) == "7.7 points"


def test_bad_numbers_and_texts() -> None:
    for kind, given, message in [
        (Number, {"factor": 0}, "factor of LetterNumber must be a number other than 0, got 0"),
        (Number, {"factor": "100"}, "factor of LetterNumber must be a number"),
        (Number, {"factor": float("nan")}, "factor of LetterNumber must be a number"),
        (Number, {"decimals": 9}, "decimals of LetterNumber must be a whole number from 0 to 8, got 9"),
        (Number, {"decimals": 1.5}, "decimals of LetterNumber must be a whole number"),
        (Number, {"prefix": None}, "prefix of LetterNumber must be text, got None"),
        (Number, {"decimal_mark": ""}, "decimal_mark of LetterNumber must be neither empty nor the separator"),
        (Number, {"decimal_mark": ","}, "decimal_mark of LetterNumber must be neither empty nor the separator"),
        (Text, {"title": "{quantty}"}, r"title of LetterText has a placeholder \{quantty\}; .*Did you mean 'quantity'"),
        (Text, {"intro": "{group}"}, r"intro of LetterText has a placeholder \{group\}; known there: \{quantity\}"),
        (Text, {"intro": "{}"}, r"intro of LetterText has a placeholder \{\}"),
        (Text, {"title": "{quantity.__class__}"}, r"has a placeholder \{quantity.__class__\}"),
        (Text, {"title": "{quantity!r}"}, r"title of LetterText: write \{quantity\} without a format"),
        (Text, {"title": "{quantity:>9}"}, r"title of LetterText: write \{quantity\} without a format"),
        (Text, {"title": "50 { off"}, "title of LetterText: .* in '50 { off'. A brace itself is written twice"),
        (Text, {"compared_less": "less"}, r"compared_less of LetterText lacks the placeholder \{difference\}"),
        (Text, {"values": "from {without}"}, r"values of LetterText lacks the placeholder \{with_all\}"),
        (Text, {"made": "on {date}"}, r"made of LetterText lacks the placeholder \{model\}"),
        (Text, {"promise": None}, "promise of LetterText must be text, got None"),
        (Text, {"quantity": 7}, "quantity of LetterText must be text, got 7"),
        (Text, {"lang": "<b>"}, "lang of LetterText must be a language such as 'en' or 'de-AT', got '<b>'"),
        (Text, {"direction": "up"}, "direction of LetterText must be 'ltr' or 'rtl', got 'up'"),
        (Text, {"groups": ["blood"]}, "groups of LetterText must map groups to what people call them"),
        (Text, {"groups": {"blood": " "}}, "the name of group 'blood' must be text, got ' '"),
        (Text, {"number": "€"}, "number of LetterText must be a LetterNumber, got '€'"),
        (Text, {"lang": "de", "title": "Titel"}, "lang of LetterText is 'de', but these are the English ones: ref"),
        (Text, translated(promise=Text().promise), "these are the English ones: promise"),
        (Text, translated(number=None), "these are the English ones: number"),
    ]:
        with pytest.raises(ValueError, match=message):
            kind(**given)


def translated(**given: Any) -> dict[str, Any]:
    """All texts in another language, as far as a test can speak one."""
    texts = {one.name: getattr(Text(), one.name).replace(" ", " ⸱ ") + "…" for one in fields(Text) if one.metadata}
    return {"lang": "fr-CA", "quantity": "prix", "number": Number(), **texts, **given}


def test_texts_are_filled_in_one_language_and_braces_written_twice() -> None:
    text = Text(quantity="price {x}", title="{{{quantity}}}", list_and=" & ")
    assert text.fill("title") == "{price {x}}"
    assert [text.listing(list(some)) for some in ("a", "ab", "abc")] == ["a", "a & b", "a, b & c"]
    assert Text(**translated(list_comma=", ", sender="", contact="")).lang == "fr-CA"  # no words in these
    assert Text(lang="en-GB").promise == Text().promise


def test_files_keep_everything(tmp_path: Path) -> None:
    path = tmp_path / "letter.toml"
    odd = Text(
        quantity='a "price"\\\n\x7f\u2028é',
        groups={"blood sugar": "your 'test'", "ünï.x": "b"},
        number=Number(100, 1, ",", ".", "€", "%", " p"),
    )
    for text in [Text(), odd, Text(**translated())]:
        assert text.to_toml(path) == path.read_text(encoding="utf-8")
        assert Text.from_toml(path) == text
        assert {one.name for one in fields(text) if one.metadata} <= set(tomllib.loads(text.to_toml()))


def test_bad_files(tmp_path: Path) -> None:
    for content, message in [
        ("titel = 'x'", "letter.toml: LetterText has no 'titel'. Did you mean 'title'?"),
        ("xyzzy = 'x'", "letter.toml: LetterText has no 'xyzzy'. It has lang, direction"),
        ("[number]\ndecimal = 3", "letter.toml: LetterNumber has no 'decimal'. Did you mean 'decimals'?"),
        ("number = 3", r"letter.toml: number must be a table \[number\], got 3"),
        ("title = 3", "letter.toml: title of LetterText must be text, got 3"),
        ("title = '{x}'", r"letter.toml: title of LetterText has a placeholder \{x\}"),
        ("[number]\ndecimals = 1.5", "letter.toml: decimals of LetterNumber must be a whole number"),
        ("title = ", "letter.toml is not a TOML file in UTF-8: "),
        ("title = 'für'".encode("latin-1"), "letter.toml is not a TOML file in UTF-8"),
    ]:
        (tmp_path / "letter.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(ValueError, match=message):
            Text.from_toml(tmp_path / "letter.toml")
    with pytest.raises(FileNotFoundError):
        Text.from_toml(tmp_path / "nothing.toml")


def test_names_of_files_are_short_and_never_paths() -> None:
    for reference, name in [
        ("p-0001", "p-0001"),
        ("a.b_C", "a.b_C"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("..\\..\\windows", "_.._windows"),
        ("/root", "_root"),
        ("C:\\x", "C_x"),
        ("a\x00b\nc\u202ed", "a_b_c_d"),
        ("~user $(rm) 'x' \"y\" <z> | *?", "_user_rm_x_y_z_"),
        ("-rf", "_-rf"),
        ("CON", "_CON"),
        ("lpt1.html", "_lpt1.html"),
        (".hidden", "hidden"),
        (" Zoë ", "Zoë"),
        ("Zoe\u0308", "Zoë"),
        ("数据", "数据"),
        ("..", ""),
        ("///", ""),
        ("", ""),
        ("x" * 500, "x" * LONGEST),
    ]:
        assert file_name(reference) == name
    assert len(file_name("数" * 500).encode("utf-8")) <= LONGEST
    for reference in (string.printable, "a/b", "a\\b", "\u2215\u29f8/x", "..%2f..%2fx"):
        name = file_name(reference)
        assert name == Path(name).name
        assert not set(name) & set("/\\:%\x00")


def test_a_quantity_that_begins_with_your_is_not_said_twice():
    from pucboost._letter.text import LetterText, worded

    assert worded(None, "Your yearly price").quantity == "yearly price"
    assert worded(None, "yourself rating").quantity == "yourself rating"
    other = LetterText(title="Your share", quantity="x")
    assert worded(other, "your price").quantity == "your price"
