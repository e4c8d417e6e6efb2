"""Dask collections as parts: one for each partition, with everything that belongs to its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import dask
import numpy as np
from distributed import Client, Future, wait

from .._virtual.shared_plan import is_empty


@dataclass(frozen=True)
class Part:
    """One partition of a table, and the same partition of whatever belongs to its rows."""

    number: int
    X: Any
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether it has no rows."""
        return is_empty(self.X)


def is_collection(value: Any) -> bool:
    """Return whether something is a Dask DataFrame, Series or Array."""
    return dask.is_dask_collection(value) and hasattr(value, "to_delayed")


def partitions_of(collection: Any, name: str) -> list[Any]:
    """Return the partitions of a collection as delayed objects; those of an Array must hold whole rows."""
    if not is_collection(collection):
        raise TypeError(f"{name} must be a Dask DataFrame, Series or Array, got {type(collection).__name__!r}.")
    if not hasattr(collection, "numblocks"):
        return list(collection.to_delayed())
    if collection.ndim > 1 and collection.numblocks[1] > 1:
        collection = collection.rechunk({1: -1})
    return list(np.asarray(collection.to_delayed()).ravel())


def parts_of(client: Client, X: Any, fields: Mapping[str, Any]) -> list[Future]:
    """Compute the partitions of a table on the cluster, and return a :class:`Part` for each, when all are there.

    Parameters
    ----------
    client
        The cluster's.
    X
        The features.
    fields
        What else belongs to each row, by name; None is left out.
    """
    tables = partitions_of(X, "X")
    given = {name: partitions_of(values, _called(name)) for name, values in fields.items() if values is not None}
    for name, others in given.items():
        if len(others) != len(tables):
            raise ValueError(
                f"{_called(name)} has {len(others)} partitions, but X has {len(tables)}. Give both the same "
                "partitions, for example by making both from one collection."
            )
    make = dask.delayed(_part, pure=False)
    delayed = [
        make(number, table, {name: others[number] for name, others in given.items()})
        for number, table in enumerate(tables)
    ]
    futures: list[Future] = client.compute(delayed)
    wait(futures)
    failed = next((future for future in futures if future.status != "finished"), None)
    if failed is not None:
        failed.result()  # raises
    return futures


def _called(name: str) -> str:
    return "y" if name == "label" else name


def _part(number: int, X: Any, fields: dict[str, Any]) -> Part:
    n_rows = X.shape[0]
    for name, values in fields.items():
        if len(values) != n_rows:
            raise ValueError(
                f"Partition {number} of {_called(name)} has {len(values):,} rows, that of X has {n_rows:,}. Rows must "
                "be in the same partitions."
            )
    return Part(number, X, fields)
