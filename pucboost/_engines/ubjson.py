"""Universal Binary JSON, as XGBoost writes it: arrays of numbers are read as they lie in memory."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_ARRAYS: dict[int, Any] = {
    ord("i"): np.dtype("i1"),
    ord("U"): np.dtype("u1"),
    ord("I"): np.dtype(">i2"),
    ord("l"): np.dtype(">i4"),
    ord("L"): np.dtype(">i8"),
    ord("d"): np.dtype(">f4"),
    ord("D"): np.dtype(">f8"),
}
_NUMBERS = {kind: struct.Struct(f">{code}") for kind, code in zip(_ARRAYS, "bBhiqfd", strict=True)}
_CONSTANTS = {ord("T"): True, ord("F"): False, ord("Z"): None}
_STRING, _OBJECT, _END_OF_OBJECT, _LIST, _END_OF_LIST, _TYPE, _COUNT = b"S{}[]$#"


def read_ubjson(content: bytes) -> Any:
    r"""Return what is written: dictionaries, lists, strings and numbers; an array of one type is a numpy array.

    Examples
    --------
    >>> read_ubjson(b"{i\x01a[$U#i\x02\x05\x06}")
    {'a': array([5, 6], dtype=uint8)}
    """
    try:
        return _value(content, 0)[0]
    except (IndexError, KeyError, struct.error, UnicodeDecodeError) as error:
        raise ValueError("The model is damaged: it is not UBJSON.") from error


def _value(content: bytes, at: int) -> tuple[Any, int]:
    """Return the value that begins at a position, and the position behind it."""
    kind, at = content[at], at + 1
    if kind in _NUMBERS:
        number = _NUMBERS[kind]
        return number.unpack_from(content, at)[0], at + number.size
    if kind == _STRING:
        return _text(content, at)
    if kind == _OBJECT:
        members: dict[str, Any] = {}
        while content[at] != _END_OF_OBJECT:
            name, at = _text(content, at)
            members[name], at = _value(content, at)
        return members, at + 1
    return _items(content, at) if kind == _LIST else (_CONSTANTS[kind], at)


def _text(content: bytes, at: int) -> tuple[str, int]:
    size, at = _value(content, at)
    return content[at : at + size].decode("utf-8"), at + size


def _items(content: bytes, at: int) -> tuple[Any, int]:
    items: list[Any] = []
    if content[at] == _TYPE:
        dtype = _ARRAYS[content[at + 1]]
        if content[at + 2] != _COUNT:
            raise IndexError(at)
        count, at = _value(content, at + 3)
        end = at + count * dtype.itemsize
        if not at <= end <= len(content):
            raise IndexError(end)
        return np.frombuffer(content, dtype, count, at), end
    if content[at] == _COUNT:
        count, at = _value(content, at + 1)
        for _ in range(count):
            item, at = _value(content, at)
            items.append(item)
        return items, at
    while content[at] != _END_OF_LIST:
        item, at = _value(content, at)
        items.append(item)
    return items, at + 1
