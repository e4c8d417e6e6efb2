"""Labels of people: the class to audit, subgroups, clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._engines import is_booster
from ..._tables.masked_arrays import check_no_mask

MAX_SUBGROUPS = 200


def outcome_of_class(model: Any, y: Any, target_class: Any) -> tuple[Any, int | None]:
    """Return y as 0 and 1 for the class to audit, and the number of the model's output that belongs to it.

    The classes of a scikit-learn classifier are its labels, those of other models 0, 1, …
    """
    check_no_mask(y, "y")
    classes = getattr(model, "classes_", None)
    if classes is None or is_booster(model):
        if target_class is None:
            return y, None
        return np.asarray(y) == target_class, int(target_class)
    labels = np.asarray(classes).tolist()
    if target_class is None:
        if len(labels) != 2:
            raise ValueError(f"The model returns {len(labels)} values per row. Say which class to audit: {labels}.")
        target_class = labels[1]
    if target_class not in labels:
        raise ValueError(f"target_class is {target_class!r}, but the classes of the model are {labels}.")
    given = np.asarray(y)
    strange = np.flatnonzero(~np.isin(given, np.asarray(classes)))
    if len(strange):
        raise ValueError(
            f"y is {given[strange[0]]!r} in row {strange[0]}, which is none of the classes of the model: {labels}."
        )
    return (given == target_class).astype(np.float64), labels.index(target_class)


def read_subgroups(subgroups: Any, n: int) -> dict[str, Array]:
    """Return the members of each subgroup as flags, from a dict of flags or one label per row."""
    if subgroups is None:
        return {}
    if not isinstance(subgroups, Mapping):
        code, names = _read_labels(subgroups, "subgroups", n)
        if len(names) > MAX_SUBGROUPS:
            raise ValueError(f"subgroups has {len(names)} labels; at most {MAX_SUBGROUPS} can be judged separately.")
        labelled = {("missing" if name is None else str(name)): code == k for k, name in enumerate(names)}
        if len(labelled) < len(names):
            raise ValueError("subgroups has labels of different kinds that read the same, such as 3 and '3'.")
        return labelled
    read: dict[str, Array] = {}
    for name, members in subgroups.items():
        check_no_mask(members, f"Subgroup {name!r}")
        flags = np.asarray(members)
        if flags.shape != (n,) or (flags.dtype != np.bool_ and not np.isin(flags, (0, 1)).all()):
            raise ValueError(
                f"Subgroup {name!r} must hold True or False for each of the {n} rows, got dtype {flags.dtype} and "
                f"shape {flags.shape}."
            )
        if str(name) in read:
            raise ValueError(f"Two subgroups are called {str(name)!r}; rename one of them.")
        read[str(name)] = flags.astype(bool)
    return read


def read_clusters(clusters: Any, n: int) -> Array | None:
    """Return the number of the cluster of each row."""
    if clusters is None:
        return None
    # Numbered as they appear: the folds must not depend on whether labels sort as numbers or as text.
    code, names = _read_labels(clusters, "clusters", n)
    if None in names:
        row = int(np.argmax(code == names.index(None)))
        raise ValueError(f"clusters has no label in row {row}; every row needs one.")
    return code


def _read_labels(values: Any, name: str, n: int) -> tuple[Array, list[Any]]:
    """Return labels as numbers in order of appearance, and the labels; a missing label is None."""
    import pandas as pd

    check_no_mask(values, name)
    labels = np.asarray(values)
    if labels.shape != (n,):
        raise ValueError(f"{name} must have one label for each of the {n} rows, got shape {labels.shape}.")
    code, found = pd.factorize(labels, use_na_sentinel=False)
    return np.asarray(code), [None if pd.isna(label) else label for label in found]
