"""Formulas as MathML, made when the site is built: nothing to load, readable offline and by screen readers."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\(?P<kind>[(\[])(?P<latex>.*?)\\[)\]]\s*</(?P=tag)>',
    re.DOTALL,
)


def on_page_content(content: str, **_: Any) -> str:
    """Replace what the Markdown extension ``arithmatex`` marked as LaTeX."""
    return _FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    display = "inline" if found["kind"] == "(" else "block"
    return str(convert(html.unescape(found["latex"]), display=display))
