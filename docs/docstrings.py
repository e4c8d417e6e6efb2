"""Docstrings on the site: links for the roles they use, no word where a type says nothing, nothing said twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|class|meth|attr|mod):`(?P<name>[\w.]+)`")

LISTS = (
    griffe.DocstringSectionKind.parameters,
    griffe.DocstringSectionKind.attributes,
)


class Docstrings(griffe.Extension):
    """Changes docstrings and signatures before mkdocstrings shows them."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Come first: make references, and forget the type Any."""
        for obj in _objects(pkg):
            if obj.docstring is not None:
                obj.docstring.value = _ROLE.sub(
                    _reference, obj.docstring.value
                )
            if isinstance(obj, griffe.Function):
                _forget_any(obj.parameters)
            elif isinstance(obj, griffe.Attribute):
                _forget_any([obj])

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Come after what others add to the arguments: join those that share a paragraph."""
        _join(func)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Join arguments and attributes that share a paragraph."""
        _join(cls)


def _objects(obj: griffe.Object) -> Iterator[griffe.Object]:
    yield obj
    for member in obj.members.values():
        if not member.is_alias:
            yield from _objects(member)


def _forget_any(
    typed: Iterable[griffe.Attribute | griffe.Parameter],
) -> None:
    for one in typed:
        if str(one.annotation) == "Any":
            one.annotation = None


def _join(obj: griffe.Object) -> None:
    if obj.docstring is not None:
        for section in obj.docstring.parsed:
            if section.kind in LISTS:
                section.value = _joined(section.value)


def _joined(documented: list[Any]) -> list[Any]:
    """Return arguments with neighbours of the same description as one. The signature has the defaults."""
    joined: list[Any] = []
    for one in documented:
        last = joined[-1] if joined else None
        if last is None or one.description != last.description:
            joined.append(one)
            continue
        last.name, last.value = f"{last.name}, {one.name}", None
        if str(one.annotation) != str(last.annotation):
            last.annotation = None
    return joined


def _reference(found: re.Match[str]) -> str:
    """Return a reference for a role such as ``:func:``; a name without a place in the reference stays code."""
    name = found["name"]
    target = name if name.startswith("pucboost.") else f"pucboost.{name}"
    return f'<autoref identifier="{target}" optional><code>{name}</code></autoref>'
