"""Digests that show whether a model file is still as it was written.

A digest finds damage: a file that was cut off, converted or changed in a bit, which would stop the process inside an
engine, or change predictions without a word. It is no signature: who changes a file on purpose can write a new one.
"""

from __future__ import annotations

import hashlib

KEY = "pucboost_digest"
"""What digests are called in files. The engines read past it, and leave it out where they write a model themselves."""


class DamagedFileError(ValueError):
    """A file is not as it was written. Says what is wrong; who reads the file says which one it is."""


def digest(content: bytes) -> str:
    """Return the SHA-256 of the content of a file without its digest, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def check_digest(found: str, content: bytes) -> None:
    """Raise if the content of a file, without its digest, is not what the digest was made of."""
    if found != digest(content):
        raise DamagedFileError(
            "its content is not what was written (the digest differs). Copy it again, as a binary file. If it was "
            "changed on purpose, load it with the engine itself and write it with pucboost.save_model"
        )
