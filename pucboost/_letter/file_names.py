"""Names of files made from what identifies people: valid everywhere, and never a path."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 200
"""Bytes. Systems allow 255, the ending included."""

_ODD = re.compile(r"[^\w.-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def file_name(reference: str) -> str:
    """Return ``reference`` as the name of a file without its ending; empty if nothing of it can be used.

    Letters, digits, ``-``, ``_`` and ``.`` within the name stay, everything else becomes ``_``.

    Examples
    --------
    >>> file_name("../../etc/passwd"), file_name("Müller, Ada #7"), file_name("nul.txt"), file_name("..")
    ('_.._etc_passwd', 'Müller_Ada_7', '_nul.txt', '')
    """
    name = _ODD.sub("_", unicodedata.normalize("NFC", reference).strip()).strip(".")
    name = "" if not name.strip("_") else name
    if name.startswith("-") or _RESERVED.fullmatch(name):  # an option to commands, and a device on Windows
        name = f"_{name}"
    return name.encode("utf-8")[:LONGEST].decode("utf-8", "ignore")
