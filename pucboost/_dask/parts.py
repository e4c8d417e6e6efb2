"""Dask collections as parts: one for each partition, with everything that belongs to its rows.

partitions → parts → groups of parts, one per worker → one table per worker, without copying rows. Whether silence seems
encoded is looked for in a sample of all people, never in a part, in which everybody may well share everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dask
import numpy as np
from distributed import Client, Future, wait

from .._common import Array
from .._silence import warn_of_encoded_silence
from .._tables.sources import Categories, RowSource, StackedSource, row_source, rows_of
from .._training.datasets import Dataset
from .._virtual.shared_plan import PlanPart, SharedPlan, is_empty


@dataclass(frozen=True)
class Part:
    """One partition of a table, and the same partition of whatever belongs to its rows."""

    number: int
    X: Any
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return is_empty(self.X)


def is_collection(value: Any) -> bool:
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

    ``fields`` is what else belongs to each row, by name; None is left out.
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


# ----- the parts of one worker as one table


def training_part(parts: Sequence[Part], plan: SharedPlan) -> tuple[Dataset, PlanPart]:
    """Return the Dataset of a worker, and its slice of the plan."""
    source = _stacked([plan.read(part.X) for part in parts])
    row_id = [part.fields["row_id"] for part in parts] if "row_id" in parts[0].fields else None
    numbers = [part.number for part in parts]
    return _dataset(source, parts), plan.part(*numbers, row_id=None if row_id is None else _joined(row_id))


def validation_set(parts: Sequence[Part], plan: SharedPlan) -> Dataset:
    """Return a validation set; every worker has all of it."""
    categories = Categories(plan.columns.pandas_categorical or [], plan.columns.coded)
    filled = [part for part in parts if not part.is_empty]
    if not filled:
        raise ValueError("A validation set has no rows.")
    return _dataset(_stacked([row_source(part.X, categories) for part in filled]), filled)


def _dataset(source: RowSource, parts: Sequence[Part]) -> Dataset:
    given: dict[str, Any] = {
        name: _joined([part.fields[name] for part in parts]) for name in parts[0].fields if name != "row_id"
    }
    if "sample_weight" in given:
        given["weight"] = given.pop("sample_weight")
    return Dataset(source, **given)


def _stacked(sources: Sequence[RowSource]) -> RowSource:
    return sources[0] if len(sources) == 1 else StackedSource(sources).with_columns(sources[0].columns)


def _joined(values: Sequence[Any]) -> Array:
    """Return one number, or a few, for each row: small beside the rows themselves."""
    return values[0] if len(values) == 1 else np.concatenate([np.asarray(one) for one in values])


# ----- encoded silence, in a sample of all people


_SAMPLED = 20_000


def sample_of_people(part: Part, everybody: int) -> Any:
    """Return some of the people of a part and who shares what, as given; None for a part without any."""
    if part.is_empty:
        return None
    n = part.X.shape[0]
    chosen = n if everybody <= _SAMPLED else max(1, round(n * _SAMPLED / everybody))
    rows = np.sort(np.random.default_rng(part.number).choice(n, min(n, chosen), replace=False))
    available = part.fields.get("available")
    return rows_of(part.X, rows), None if available is None else np.asarray(available)[rows]


def warn_of_encoded_silence_in(
    samples: Sequence[Any], plan: SharedPlan, expect_shared: Any, expect_revealing: Any, *, zero_as_missing: bool
) -> None:
    """Warn if silence seems to be imputed or encoded in the table that these people are a sample of."""
    found = [sample for sample in samples if sample is not None]
    if not plan.consent.n_groups:
        return
    sources = [plan.read(people) for people, _ in found]
    shared = [
        plan.consent.visible(source, available, zero_as_missing=zero_as_missing, num_threads=1)
        for source, (_, available) in zip(sources, found, strict=True)
    ]
    warn_of_encoded_silence(
        _stacked(sources),
        plan.consent,
        np.concatenate(shared),
        expect_shared,
        expect_revealing,
        zero_as_missing=zero_as_missing,
    )


# ----- which worker trains on which parts


_AS_GOOD = 1.1
"""How much larger the largest group may be if neighbours stay together."""


def group_parts(sizes: Sequence[int], n_workers: int, events: Sequence[int] | None = None) -> list[list[int]]:
    """Return which parts belong together, one group for each worker that has any.

    A tree takes as long as the slowest worker needs for its virtual rows, so groups are equal in these. Neighbours stay
    together where that costs little: Dask tends to have them on one worker already. The result depends on sizes and the
    number of workers only, not on where parts are: engines draw bags by place, and identical calls must draw the same.

    ``sizes`` are the virtual rows of each part; parts without any are left out. ``events`` are its labels above 0, if
    every group must have some: LightGBM starts Poisson and Tweedie from the logarithm of each worker's own mean. There
    are fewer groups if few parts have any.

    >>> group_parts([5, 0, 3, 2], 3), group_parts([2, 2, 2, 2], 2), group_parts([7], 2)
    ([[0], [2], [3]], [[0, 1], [2, 3]], [[0]])
    """
    filled = [number for number, size in enumerate(sizes) if size]
    total, reached = sum(sizes), 0
    neighbours: list[list[int]] = [[] for _ in range(n_workers)]
    for number in filled:
        middle = reached + sizes[number] / 2
        neighbours[min(n_workers - 1, int(middle * n_workers / total))].append(number)
        reached += sizes[number]
    by_size = sorted(filled, key=lambda i: (-sizes[i], i))
    largest_first = _dealt(by_size, sizes, [[] for _ in range(n_workers)])
    widest, narrowest = (max(sum(sizes[i] for i in group) for group in one) for one in (neighbours, largest_first))
    chosen = [group for group in (neighbours if widest <= _AS_GOOD * narrowest else largest_first) if group]
    if events is not None and not all(any(events[i] for i in group) for group in chosen):
        first = [number for number in by_size if events[number]][:n_workers]
        rest = [number for number in by_size if number not in first]
        chosen = _dealt(rest, sizes, [[number] for number in first] or [[]])
    return [sorted(group) for group in chosen if group]


def _dealt(numbers: Sequence[int], sizes: Sequence[int], groups: list[list[int]]) -> list[list[int]]:
    """Give each part in turn to the group that is smallest so far."""
    load = [sum(sizes[i] for i in group) for group in groups]
    for number in numbers:
        smallest = load.index(min(load))
        load[smallest] += sizes[number]
        groups[smallest].append(number)
    return groups


def place(
    groups: Sequence[Sequence[int]], sizes: Sequence[int], holders: Sequence[Sequence[str]], workers: Sequence[str]
) -> list[str]:
    """Return the worker of each group: one that holds most of it already, as far as it is free.

    ``holders`` are the workers that hold each part already; ``workers`` are all that may train, at least as many as
    there are groups.

    >>> place([[0], [1]], [2, 2], [["b"], ["a"]], ["a", "b", "c"])
    ['b', 'a']
    """
    held = {
        (group, worker): sum(sizes[i] for i in parts if worker in holders[i])
        for group, parts in enumerate(groups)
        for worker in workers
    }
    placed: dict[int, str] = {}
    for group, worker in sorted(held, key=lambda pair: (-held[pair], pair)):
        if group not in placed and worker not in placed.values():
            placed[group] = worker
    return [placed[group] for group in range(len(groups))]
