"""Which worker trains on which parts."""

from __future__ import annotations

from collections.abc import Sequence

_AS_GOOD = 1.1
"""How much larger the largest group may be if neighbours stay together."""


def group_parts(sizes: Sequence[int], n_workers: int, events: Sequence[int] | None = None) -> list[list[int]]:
    """Return which parts belong together, one group for each worker that has any.

    A tree takes as long as the slowest worker needs for its virtual rows, so groups are equal in these. Neighbours stay
    together where that costs little: Dask tends to have them on one worker already. The result depends on nothing but
    sizes and the number of workers, so that two identical calls have the same rows in the same places.

    Parameters
    ----------
    sizes
        Virtual rows of each part; parts without any are left out.
    n_workers
        How many workers may train.
    events
        Labels above 0 of each part, if every group must have some. There are fewer groups if few parts have any.

    Examples
    --------
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

    Parameters
    ----------
    groups, sizes
        As :func:`group_parts` returns them, and as given to it.
    holders
        Which workers hold each part already.
    workers
        All workers that may train, at least as many as groups.

    Examples
    --------
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
