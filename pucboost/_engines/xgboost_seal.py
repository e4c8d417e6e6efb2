"""Digests in XGBoost's files: the first entry of the JSON or UBJSON object, which XGBoost reads past and drops."""

from __future__ import annotations

import re

from .._digests import KEY, DamagedFileError, check_digest, digest

_LENGTH = 64
_IN_JSON = f'{{"{KEY}":"%s",'
_IN_UBJSON = b"{L" + len(KEY).to_bytes(8, "big") + KEY.encode() + b"SL" + _LENGTH.to_bytes(8, "big")
"""In UBJSON texts are preceded by their length; ``S`` marks one that is a value."""
_ELSEWHERE = re.compile(KEY.encode() + rb'("\s*:\s*"|SL)')
"""A digest that does not stand where we write it. A column or group may have its name."""


def sealed(content: bytes) -> bytes:
    """Return the content of a model file with its digest.

    Examples
    --------
    >>> sealed(b'{"learner":{}}')[:30]
    b'{"pucboost_digest":"79251836eb'
    >>> unsealed(sealed(b'{"learner":{}}'))
    b'{"learner":{}}'
    """
    found = digest(content)
    if content.startswith(b'{"'):
        return (_IN_JSON % found).encode() + content[1:]
    return _IN_UBJSON + found.encode() + content[1:]


def unsealed(content: bytes) -> bytes:
    """Return the content of a model file without its digest; raise if it is damaged.

    A file without digest was written by XGBoost itself. It must at least have an end.
    """
    for pattern in (re.escape(_IN_JSON).replace("%s", "(.{64})").encode(), re.escape(_IN_UBJSON) + b"(.{64})"):
        found = re.match(pattern, content, re.DOTALL)
        if found is not None:
            content = b"{" + content[found.end() :]
            check_digest(found[1].decode("latin-1"), content)
            return content
    if _ELSEWHERE.search(content):
        raise DamagedFileError("its beginning is not what was written. Copy it again, as a binary file")
    if not content.rstrip().endswith(b"}"):
        raise DamagedFileError("its end is missing. Copy it again, as a binary file")
    return content
