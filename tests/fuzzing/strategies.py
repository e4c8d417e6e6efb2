"""What may come from outside, as strategies of Hypothesis: consent schemas, model files, table files, containers."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.sampled_from([2**63, 2**64, -(2**63), 10**30])
    | st.floats()
    | st.text(max_size=5)
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner), max_leaves=6
)


@st.composite
def edited(draw: st.DrawFn, schema: dict[str, Any]) -> Any:
    """A schema in which one to three entries, however deep, are replaced, left out, doubled or added."""
    schema = copy.deepcopy(schema)
    for _ in range(draw(st.integers(1, 3))):
        inner: Any = schema
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(inner[key], (dict, list)) and inner[key] and draw(st.booleans()):
                inner = inner[key]
                continue
            what = draw(st.sampled_from(["replace", "leave out", "double", "add"]))
            if what == "replace":
                inner[key] = draw(JSON)
            elif what == "leave out":
                del inner[key]
            elif isinstance(inner, list):
                inner.append(copy.deepcopy(inner[key]) if what == "double" else draw(JSON))
            else:
                inner[draw(st.text(max_size=5))] = copy.deepcopy(inner[key]) if what == "double" else draw(JSON)
            break
    return schema


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes that were cut off, changed, repeated, filled in or converted at one to three places."""
    found = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        size = max(1, len(found))
        at = draw(st.integers(0, size - 1))
        to = min(size, at + draw(st.integers(1, 64)))
        what = draw(st.sampled_from(["cut", "bit", "bytes", "remove", "repeat", "zero", "lines", "swap"]))
        if what == "cut":
            del found[at:]
        elif what == "bit" and at < len(found):
            found[at] ^= 1 << draw(st.integers(0, 7))
        elif what == "bytes":
            found[at:at] = draw(st.binary(min_size=1, max_size=12))
        elif what == "remove":
            del found[at:to]
        elif what == "repeat":
            found[at:at] = found[at:to]
        elif what == "zero":
            found[at:to] = bytes(to - at)
        elif what == "lines":
            found = bytearray(found.replace(b"\n", draw(st.sampled_from([b"\r\n", b"\r", b"", b"\n\n"]))))
        elif what == "swap":
            middle = (at + to) // 2
            found[at:to] = found[middle:to] + found[at:middle]
    return bytes(found)


COLUMNS: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
    "float": lambda: st.floats(width=32) | st.none(),
    "bool": st.booleans,
    "int": lambda: st.integers(-1000, 1000),
    "text": lambda: st.sampled_from(["a", "b", "é", "", " ", "nan", "0"]) | st.none(),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], dict[str, list[Any]]]:
    """Kinds and values of the columns of a small table, None where a value is missing."""
    n = draw(st.integers(1, 12))
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=5))
    values = {f"c{j}": draw(st.lists(COLUMNS[kind](), min_size=n, max_size=n)) for j, kind in enumerate(kinds)}
    return kinds, values


def containers(kinds: list[str], values: dict[str, list[Any]]) -> dict[str, Any]:
    """A table in every container that can hold it."""
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"float": pa.float64(), "bool": pa.bool_(), "int": pa.int64(), "text": pa.string()}
    arrow = pa.table(
        {name: pa.array(column, types[kind]) for kind, (name, column) in zip(kinds, values.items(), strict=True)}
    )
    objects = {"float": np.float64, "bool": bool, "int": np.int64, "text": object}
    frame = pd.DataFrame(
        {
            name: pd.Series(column, dtype=objects[kind])
            for kind, (name, column) in zip(kinds, values.items(), strict=True)
        }
    )
    file = io.BytesIO()
    pq.write_table(arrow, file)
    found = {
        "arrow": arrow,
        "pandas": frame,
        "polars": pl.from_arrow(arrow),
        "pandas with Arrow types": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "parquet and back": pq.read_table(io.BytesIO(file.getvalue())),
        "arrow in chunks": pa.concat_tables([arrow.slice(0, 1), arrow.slice(1)]),
    }
    if "text" not in kinds:
        found["numpy"] = frame.to_numpy(np.float64)
    return found
