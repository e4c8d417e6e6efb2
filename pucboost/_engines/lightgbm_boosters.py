"""The booster side of LightGBM. A model file is text, which holds the schema (:mod:`.lightgbm_text`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from .._common import Array
from .._losses import Objective
from .._tables.sources import Categories
from .base import BoosterFacts, Boosters
from .lightgbm_text import (
    check_complete,
    check_trees,
    forest_of_text,
    schema_in,
    sealed,
    unsealed,
    with_round,
    with_schema,
)
from .names import main_objective, value_of
from .trees import Forest, MaskTree


class LightGBMBoosters(Boosters):
    """For any ``lgb.Booster``. LightGBM itself is loaded only to create a booster."""

    name: ClassVar[str] = "lightgbm"
    space: ClassVar[str] = "_"  # spaces separate names in LightGBM's text

    def facts(self, booster: Any) -> BoosterFacts:
        text = booster.model_to_string(num_iteration=1)

        def found(pattern: str) -> str | None:
            match = re.search(pattern, text, re.MULTILINE)
            return None if match is None else match[1]

        loss = found(r"^objective=(\S+)")
        level = found(r"^\[alpha: (\S+)\]$") if loss == "quantile" else None
        return BoosterFacts(
            n_columns=int(booster.num_feature()),
            column_names=booster.feature_name(),
            rounds=int(booster.current_iteration()),
            best_round=int(booster.best_iteration) if booster.best_iteration > 0 else None,
            n_trees=int(booster.num_trees()),
            loss=main_objective(loss) or loss,
            quantile_levels=() if level is None else (float(level),),
            zero_as_missing=found(r"^\[zero_as_missing: (1)\]$") is not None,
        )

    def categories(self, booster: Any, columns: tuple[int, ...] | None) -> Categories | None:
        """Return the categories; LightGBM does not keep which columns they belong to."""
        values = getattr(booster, "pandas_categorical", None)
        if values is None:
            return None if columns is None else Categories([], ())
        return Categories(values, columns if columns is None or len(columns) == len(values) else None)

    def importance(self, booster: Any, kind: Literal["gain", "split"]) -> Array:
        return np.asarray(booster.feature_importance(kind), dtype=np.float64 if kind == "gain" else np.int64)

    def predict(self, booster: Any, rows: Array, *, raw_score: bool, best_rounds: bool = True) -> Array:
        """Return predictions; ``best_rounds`` makes no difference: LightGBM's own ``predict`` stops there anyway."""
        return np.asarray(booster.predict(rows, raw_score=raw_score))

    def add_trees(self, booster: Any, rows: Array, start: Array, rounds: int | None = None) -> Array:
        return np.asarray(start + booster.predict(rows, raw_score=True, num_iteration=rounds))

    def contributions(self, booster: Any, rows: Array, start: Array, rounds: int | None = None) -> Array:
        """Return LightGBM's own values with ``start`` added to the last of each class."""
        values = np.asarray(booster.predict(rows, pred_contrib=True, num_iteration=rounds))
        by_class = values.reshape(len(rows), -1, booster.num_feature() + 1)
        by_class[:, :, -1] += start.reshape(len(rows), -1)
        return by_class.reshape(len(rows), -1)

    def trees(self, booster: Any, *, best_rounds: bool = True, first_only: bool = False) -> Forest | None:
        """Return the trees in LightGBM's text, which stops at the best round, as predictions do."""
        return forest_of_text(str(booster.model_to_string(num_iteration=1 if first_only else None)))

    def keep_schema(self, booster: Any, schema: dict[str, Any], categories: Any) -> None:
        """Protect the booster; LightGBM itself keeps the categories."""
        self.protect(booster, schema)

    def protect(self, booster: Any, schema: dict[str, Any]) -> None:
        """Change the class of the booster to one whose text holds the schema."""
        from .lightgbm_protected import ProtectedBooster

        booster.puc_schema = schema
        booster.__class__ = ProtectedBooster

    def kept_schema(self, booster: Any) -> dict[str, Any] | None:
        return schema_in(booster.model_to_string(num_iteration=1))

    def first_rounds(self, booster: Any, rounds: int | None = None) -> Any:
        """Return the booster itself for None: its predictions stop at the best round anyway."""
        return booster if rounds is None else _booster(booster.model_to_string(num_iteration=rounds))

    def add_mask_trees(self, booster: Any, trees: Sequence[MaskTree], categories: Categories) -> None:
        """Add trees to the text, and let the booster read it. Codes of categories are numbers to these trees."""
        before = self.facts(booster)
        text = booster.model_to_string(num_iteration=before.used_rounds)
        booster.model_from_string(with_round(text, trees, before.zero_as_missing))
        if before.best_round is not None:
            booster.best_iteration = int(booster.current_iteration())

    def to_text(self, booster: Any) -> str:
        return str(booster.model_to_string())

    def to_file(self, booster: Any, schema: dict[str, Any], path: Path, **options: Any) -> bytes:
        return sealed(with_schema(booster.model_to_string(**options), schema)).encode()

    def wrote(self, content: bytes) -> bool:
        return not content.startswith(b"{")

    def from_file(self, content: bytes) -> tuple[Any, dict[str, Any]] | None:
        """Return booster and schema. A text without a schema is not passed to LightGBM: it might be anything."""
        text = unsealed(_decoded(content))
        schema = schema_in(text)
        if schema is None:
            return None
        summary = schema.get("summary")
        check_complete(text, isinstance(summary, dict) and bool(summary.get("coded_columns")))
        return _booster(text), schema

    def from_plain_file(self, content: bytes) -> Any:
        """Return the booster; raise if a part of its trees is missing, at which LightGBM would stop the process."""
        text = _decoded(content)
        check_trees(text)
        return _booster(text)


BOOSTERS: Boosters = LightGBMBoosters()


def _decoded(content: bytes) -> str:
    """Return the text of a file with LightGBM's line ends: it aborts the process at those that Windows tools write."""
    try:
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ValueError("This is not a model file: neither LightGBM's text nor XGBoost's JSON or UBJSON.") from None


def _booster(text: str) -> Any:
    import lightgbm as lgb

    return lgb.Booster(model_str=text)


def with_builtin_objective(booster: Any, params: Mapping[str, Any], objective: Objective, start: Any) -> Any:
    """Return a booster trained with a custom objective as if trained with the built-in one: with its start and link.

    ``start`` is added to the leaves of the first tree(s), as LightGBM does with its own initial score. The line that
    names the objective is written into the model.
    """
    import lightgbm as lgb

    starts = np.atleast_1d(np.asarray(start, dtype=np.float64))
    first = booster.dump_model(num_iteration=1)["tree_info"]
    for tree, (shift, info) in enumerate(zip(starts, first, strict=False)):
        for leaf in range(info["num_leaves"]):
            booster.set_leaf_output(tree, leaf, booster.get_leaf_output(tree, leaf) + float(shift))
    n_classes = len(starts)
    label = np.arange(40) % n_classes if n_classes > 1 else np.arange(40) % 2 + (objective.name == "gamma")
    named = {name: value_of(params, name) for name in ("objective", "num_class", "tweedie_variance_power", "alpha")}
    small = lgb.Booster(
        {**{name: value for name, value in named.items() if value is not None}, "verbosity": -1},
        lgb.Dataset(np.arange(40.0)[:, None], label, params={"verbosity": -1}),
    )
    line = next(text for text in small.model_to_string().splitlines() if text.startswith("objective="))
    text = booster.model_to_string(num_iteration=-1).replace("\nfeature_names=", f"\n{line}\nfeature_names=", 1)
    whole = _booster(text)
    whole.best_iteration, whole.best_score = booster.best_iteration, booster.best_score
    return whole
