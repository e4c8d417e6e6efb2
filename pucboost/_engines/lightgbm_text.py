"""The consent schema inside LightGBM's own text of a model.

LightGBM keeps the lines of a model's section ``parameters:`` as they are, and writes them again whenever it writes the
model: to a file, into a pickle, into a copy. A line ``[name: ]`` is a parameter without a value, which it skips, with
all that follows on the line. So the schema is written as

    [pucboost: ]:{"format": 1, …}

and survives whatever LightGBM itself does with the model, unless it makes other trees of it.

A file also has a digest of all its other lines, ``pucboost_digest:…`` behind the parameters, where LightGBM does not
keep it: what LightGBM has written itself is not what the digest was made of.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .._digests import KEY, DamagedFileError, check_digest, digest
from .._plain_data import entries

_LINE = "[pucboost: ]:"
_OURS = re.compile(rf"^{re.escape(_LINE)}.*\n", re.MULTILINE)
_END = "\nend of parameters\n"
_LAST_LINE = "\npandas_categorical:"
_SEAL = f"\n{KEY}:"


def with_schema(text: str, schema: dict[str, Any]) -> str:
    r"""Return a model's text with the schema, in place of the one it may have.

    Examples
    --------
    >>> text = "tree\n…\nparameters:\n[seed: 0]\n\nend of parameters\n\npandas_categorical:null\n"
    >>> again = with_schema(with_schema(text, {"format": 0}), {"format": 1})
    >>> again.splitlines()[3:5], schema_in(again)
    (['[seed: 0]', '[pucboost: ]:{"format": 1}'], {'format': 1})
    """
    line = f"{_LINE}{json.dumps(schema)}\n"
    text = _OURS.sub("", text)
    head, end, rest = text.rpartition(_END)
    if end:
        return f"{head}{line}{end}{rest}"
    head, last, rest = text.rpartition(_LAST_LINE)  # a model that was written without parameters
    return f"{head}\nparameters:\n{line}{_END}{last}{rest}"


def schema_in(text: str) -> dict[str, Any] | None:
    """Return the schema in a model's text; None if there is none."""
    place = text.rfind(_END)
    found = _OURS.search(text, max(0, text.rfind("\nparameters:\n", 0, max(place, 0))))
    return None if found is None else entries(found[0].removeprefix(_LINE))


def sealed(text: str) -> str:
    r"""Return a model's text with its digest.

    Examples
    --------
    >>> text = "tree\n…\nparameters:\n[seed: 0]\n\nend of parameters\n\npandas_categorical:null\n"
    >>> sealed(text).splitlines()[7][:20]
    'pucboost_digest:6ce7'
    >>> unsealed(sealed(text)) == text
    True
    """
    head, last, rest = text.rpartition(_LAST_LINE)
    return f"{head}{_SEAL}{digest(text.encode())}\n{last}{rest}"


def unsealed(text: str) -> str:
    """Return a model's text without its digest; raise if it is not what the digest was made of.

    A text without digest was written by LightGBM itself, and is returned as it is.
    """
    head, seal, rest = text.rpartition(_SEAL)
    if not seal:
        return text
    found, _, rest = rest.partition("\n")
    check_digest(found, (head + rest).encode())
    return head + rest


def check_complete(text: str, has_categories: bool) -> None:
    """Raise if a text ends before the categories, which come last: without them, codes would mean something else.

    LightGBM outside Python leaves that line out.
    """
    _, last, rest = text.rpartition(_LAST_LINE)
    if (last and rest.endswith("\n")) or (not has_categories and text.endswith(_END)):
        return
    raise DamagedFileError("its end is missing. Copy it again, as a binary file")


def check_trees(text: str) -> None:
    """Raise unless a text of LightGBM has all its trees where it says that they are, and the end of its parameters.

    LightGBM finds trees by ``tree_sizes``, in bytes, and stops the process if there is something else.
    """
    _, found, rest = text.partition("\ntree_sizes=")
    if not text.startswith("tree\n") or not (found or "\nend of trees\n" in text):
        raise DamagedFileError("it does not begin as LightGBM's models do")
    sizes, _, trees = rest.partition("\n\n")
    place, content = 0, trees.encode()
    parts = [(f"Tree={number}\n", size) for number, size in enumerate(sizes.split())]
    for begin, size in [*parts, ("end of trees\n", "0")] if found else ():
        if not size.isdecimal() or not content.startswith(begin.encode(), place):
            raise DamagedFileError("a part of its trees is missing. Copy it again, as a binary file")
        place += int(size)
    if "\nparameters:\n" in text and _END not in text:
        raise DamagedFileError("its end is missing. Copy it again, as a binary file")
