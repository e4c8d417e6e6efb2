"""Docstrings on the site: links for the roles they use, and no word where a type says nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|class|meth|attr|mod):`(?P<name>[\w.]+)`")


class Docstrings(griffe.Extension):
    """Changes docstrings and signatures before mkdocstrings shows them."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Replace roles such as ``:func:`` by references; a name without a place in the reference stays code."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(_reference, obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Forget the type Any."""
        _forget_any(cls.attributes.values())

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Forget the type Any."""
        _forget_any(func.parameters)


def _forget_any(
    typed: Iterable[griffe.Attribute | griffe.Parameter],
) -> None:
    for one in typed:
        if str(one.annotation) == "Any":
            one.annotation = None


def _reference(found: re.Match[str]) -> str:
    name = found["name"]
    target = name if name.startswith("pucboost.") else f"pucboost.{name}"
    return f'<autoref identifier="{target}" optional><code>{name}</code></autoref>'
