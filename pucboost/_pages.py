"""Pages made from templates: what the report of an audit and the letters to people have in common."""

from __future__ import annotations

import math
import re
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from jinja2 import Environment

T = TypeVar("T")

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]+")


def printable(value: T) -> T:
    """Return ``value`` with control characters in its texts, however deep, replaced by a space.

    Names come from users. Control characters are not allowed in XML, and they steer terminals or reverse text.
    """
    return _printable(value)  # type: ignore[no-any-return]


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        cleaned = _UNPRINTABLE.sub(" ", value)
        return type(value)(cleaned) if hasattr(value, "__html__") else cleaned  # figures stay figures
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _printable(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, (tuple, list)):
        return type(value)(_printable(inner) for inner in value)
    if hasattr(value, "items"):
        return {_printable(key): _printable(inner) for key, inner in value.items()}
    return value


def decimals_for(scale: float | None, digits: int) -> int:
    """Return how many decimals show ``scale`` with ``digits`` significant digits, at most 8."""
    if not scale or not math.isfinite(scale):
        return digits - 1
    return min(8, max(0, digits - 1 - math.floor(math.log10(abs(scale)))))


@cache
def templates(package: str) -> Environment:
    """Return the templates in a package's folder ``templates``; they escape everything, and a misspelt name raises."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def deliver(text: str, path: str | Path | None) -> str:
    """Return a text, and write it to ``path`` (whole or not at all) if one is given."""
    if path is not None:
        from ._tables.files import write_whole  # slow to import

        write_whole(Path(path), text.encode("utf-8"))
    return text
