"""Docstrings on the site: links for the roles they use, and no word where a type says nothing."""

from __future__ import annotations

import re
from typing import Any

_ANY = r"<code><(?P<tag>\w+)[^>]*>Any</(?P=tag)></code>"
_ONLY_ANY = re.compile(rf"\s*\({_ANY}\)")
_ANY_BEFORE_DEFAULT = re.compile(rf"\({_ANY},\s*")
_ROLE = re.compile(
    r":(?:func|class|meth|attr|mod):<code>(?P<name>[\w.]+)</code>"
)


def on_page_content(content: str, **_: Any) -> str:
    """Replace roles such as ``:func:`` by references that mkdocstrings resolves; a name without a page stays code."""
    content = _ANY_BEFORE_DEFAULT.sub("(", _ONLY_ANY.sub("", content))
    return _ROLE.sub(_reference, content)


def _reference(found: re.Match[str]) -> str:
    name = found["name"]
    target = name if name.startswith("pucboost.") else f"pucboost.{name}"
    return f'<autoref identifier="{target}" optional><code>{name}</code></autoref>'
