"""XGBoost boosters that keep their consent schema, and refuse what would silently undo the protection.

A booster's attributes hold the schema. XGBoost copies them into every model that it derives from a booster: a copy or a
slice, but also a model that it has continued or refreshed on the original rows. So each round of protected trees is
identified by its predictions for a few fixed rows (a *mark*); if other trees are found, the schema no longer
holds. Predictions, not a hash of the file, because the bytes may change with the version of XGBoost.

This module is apart from ``xgboost_boosters`` because it loads XGBoost.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xgboost as xgb

from .._common import Array, warn
from .._persistence import pickled
from .._tables.sources import without_mask

MARKS_KEY = "pucboost_trees"
"""Attribute that keeps the marks."""
PROBES = 16
"""Number of rows that the marks are computed on."""
NOT_FOR_OTHERS = ("consent", "puc_summary")
"""Attributes that XGBoost must not copy into the models that it derives from a booster."""


class ProtectedBooster(xgb.Booster):
    """What ``train`` returns: an ``xgb.Booster`` whose copies, slices and pickles keep the consent schema.

    Growing trees on raw rows raises instead of warning: the result would look like any other model.
    """

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Raise: trees that grow on rows as they are learn what silence says."""
        raise TypeError(
            "booster.update would grow a tree on the rows as they are, and it would learn what silence says. Use "
            "pucboost.train(params, train_set, rounds, init_model=booster). If you want to lose the protection, "
            "call xgb.Booster.update(booster, …)."
        )

    def inplace_predict(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Return XGBoost's predictions; warn about sparse matrices, whose unstored values it reads as missing."""
        if hasattr(data, "tocsr") and data.nnz < data.shape[0] * data.shape[1]:
            warn(
                "XGBoost reads what a sparse matrix does not store as missing, that is as withheld; in training it was "
                "the number 0. Use pucboost.predict, or a dense matrix.",
            )
        return super().inplace_predict(without_mask(data), *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name not in NOT_FOR_OTHERS}

    def __reduce__(self) -> Any:
        kept = {name: self.__dict__[name] for name in NOT_FOR_OTHERS if name in self.__dict__}
        return pickled("XGBoostBooster", {**self.__getstate__(), **kept})

    def __deepcopy__(self, memo: Any) -> ProtectedBooster:
        return self._protected(super().__deepcopy__(memo))

    def __getitem__(self, val: Any) -> ProtectedBooster:
        return self._protected(super().__getitem__(val))

    def _protected(self, new: Any) -> ProtectedBooster:
        for name in NOT_FOR_OTHERS:
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name])
        new.__class__ = type(self)
        return new  # type: ignore[no-any-return]


# Tools such as MLflow look at the name of a class, not at what it is derived from.
for name in ("__module__", "__name__", "__qualname__"):
    setattr(ProtectedBooster, name, getattr(xgb.Booster, name))


def probes(booster: xgb.Booster) -> xgb.DMatrix:
    """Return a few fixed rows, with numbers of any size, some missing, and small codes for categories."""
    rng, shape = np.random.default_rng(0), (PROBES, int(booster.num_features()))
    rows = rng.normal(size=shape) * 10.0 ** rng.integers(-2, 6, shape)
    kinds = booster.feature_types or []
    coded = [j for j, kind in enumerate(kinds) if kind == "c"]
    rows[:, coded] = rng.integers(0, 2, (PROBES, len(coded)))
    rows[rng.random(shape) < 0.3] = np.nan
    return xgb.DMatrix(
        rows.astype(np.float32), feature_names=booster.feature_names, feature_types=booster.feature_types, nthread=1
    )


def keep_marks(booster: xgb.Booster) -> None:
    """Mark all rounds of a booster as protected: by the mark of all together, and that of each by itself."""
    matrix, rounds = probes(booster), range(int(booster.num_boosted_rounds()))
    marks = {"total": _mark(booster, matrix), "rounds": [_mark(booster, matrix, (t, t + 1)) for t in rounds]}
    booster.set_attr(**{MARKS_KEY: json.dumps(marks)})


def has_marked_trees(booster: xgb.Booster) -> bool:
    """Return whether all rounds of a booster are marked ones.

    If there are as many, comparing the total is enough, which takes one prediction. The rounds of a slice are compared
    one by one, with a tolerance of a few units in the last place of single precision.
    """
    kept = booster.attr(MARKS_KEY)
    if kept is None:
        return False
    marks, matrix, count = json.loads(kept), probes(booster), int(booster.num_boosted_rounds())
    if count == len(marks["rounds"]):
        return _equal(_mark(booster, matrix), marks["total"])
    if count > len(marks["rounds"]):
        return False
    found = (_mark(booster, matrix, (t, t + 1)) for t in range(count))
    return all(any(_equal(mark, known) for known in marks["rounds"]) for mark in found)


def _mark(booster: xgb.Booster, matrix: xgb.DMatrix, rounds: tuple[int, int] = (0, 0)) -> float:
    """Return the mean raw score for the probes, with classes weighted 1, 2, …."""
    scores: Array = np.asarray(booster.predict(matrix, output_margin=True, iteration_range=rounds), dtype=np.float64)
    by_class = scores.reshape(PROBES, -1).mean(axis=0)
    return float(f"{by_class @ np.arange(1, len(by_class) + 1):.8g}")


def _equal(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-5 * max(1.0, abs(other))
