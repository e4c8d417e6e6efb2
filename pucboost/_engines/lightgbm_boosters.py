"""The booster side of LightGBM. A model file is text, which holds the schema (:mod:`.lightgbm_text`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .._common import Array
from .._losses import Objective
from .._tables.sources import Categories
from .base import Boosters, TrainedObjective
from .forest import Forest
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
from .mask_tree import MaskTree
from .names import main_objective, value_of


class LightGBMBoosters(Boosters):
    """Questions about any ``lgb.Booster``. LightGBM itself is loaded only to create a booster."""

    name: ClassVar[str] = "lightgbm"

    def predict(self, booster: Any, rows: Array, *, raw_score: bool, best_rounds: bool = True) -> Array:
        """Return predictions; ``best_rounds`` makes no difference: LightGBM's own ``predict`` stops there anyway."""
        return np.asarray(booster.predict(rows, raw_score=raw_score))

    def add_trees(self, booster: Any, rows: Array, start: Array, rounds: int | None = None) -> Array:
        """Return ``start`` + the sum of the trees."""
        return np.asarray(start + booster.predict(rows, raw_score=True, num_iteration=rounds))

    def contributions(self, booster: Any, rows: Array, start: Array, rounds: int | None = None) -> Array:
        """Return LightGBM's own values with ``start`` added to the last of each class."""
        values = np.asarray(booster.predict(rows, pred_contrib=True, num_iteration=rounds))
        by_class = values.reshape(len(rows), -1, booster.num_feature() + 1)
        by_class[:, :, -1] += start.reshape(len(rows), -1)
        return by_class.reshape(len(rows), -1)

    def trees(self, booster: Any, *, best_rounds: bool = True) -> Forest | None:
        """Return the trees in LightGBM's text, which stops at the best round, as predictions do."""
        return forest_of_text(str(booster.model_to_string()))

    def leaves_of_first_tree(self, booster: Any) -> int:
        """Return the number of leaves, from the text of the first round."""
        found = re.search(r"^num_leaves=(\d+)$", booster.model_to_string(num_iteration=1), re.MULTILINE)
        return int(found[1]) if found else 1

    def rounds(self, booster: Any) -> int:
        """Return how many rounds the booster was trained for."""
        return int(booster.current_iteration())

    def best_round(self, booster: Any) -> int | None:
        """Return the best round."""
        return int(booster.best_iteration) if booster.best_iteration > 0 else None

    def columns(self, booster: Any) -> tuple[list[str] | None, int]:
        """Return the names and the number of the columns."""
        return booster.feature_name(), int(booster.num_feature())

    def column_name(self, name: str) -> str:
        """Return the name with underscores for spaces, which separate names in LightGBM's text."""
        return name.replace(" ", "_")

    def objective(self, booster: Any) -> TrainedObjective:
        """Return the loss; a quantile level is read from the parameters at the end of the model's text."""
        given = next(iter((booster.dump_model(num_iteration=1).get("objective") or "").split()), None)
        level = re.search(r"^\[alpha: (\S+)\]$", booster.model_to_string(num_iteration=1), re.MULTILINE)
        return TrainedObjective(
            main_objective(given) or given, (float(level[1]),) if given == "quantile" and level else ()
        )

    def reads_zero_as_missing(self, booster: Any) -> bool:
        """Return whether the booster was trained with ``zero_as_missing``."""
        text = booster.model_to_string(num_iteration=1)
        return re.search(r"^\[zero_as_missing: 1\]$", text, re.MULTILINE) is not None

    def categories(self, booster: Any, columns: tuple[int, ...] | None) -> Categories | None:
        """Return the categories; LightGBM does not keep which columns they belong to."""
        values = getattr(booster, "pandas_categorical", None)
        if values is None:
            return None if columns is None else Categories([], ())
        return Categories(values, columns if columns is None or len(columns) == len(values) else None)

    def gains(self, booster: Any) -> Array:
        """Return the total gain by column."""
        return np.asarray(booster.feature_importance("gain"), dtype=np.float64)

    def split_counts(self, booster: Any) -> Array:
        """Return the number of splits by column."""
        return np.asarray(booster.feature_importance("split"), dtype=np.int64)

    def tree_count(self, booster: Any) -> int:
        """Return the number of trees."""
        return int(booster.num_trees())

    def keep_schema(self, booster: Any, schema: dict[str, Any], categories: Any) -> None:
        """Protect the booster; LightGBM itself keeps the categories."""
        self.protect(booster, schema)

    def protect(self, booster: Any, schema: dict[str, Any]) -> None:
        """Change the class of the booster to one whose text holds the schema."""
        from .lightgbm_protected import protect

        protect(booster, schema)

    def kept_schema(self, booster: Any) -> dict[str, Any] | None:
        """Return the schema in the booster's text."""
        return schema_in(booster.model_to_string(num_iteration=1))

    def up_to_best_round(self, booster: Any) -> Any:
        """Return the booster itself: its predictions stop at the best round anyway."""
        return booster

    def first_rounds(self, booster: Any, rounds: int) -> Any:
        """Return a booster from the text of the first rounds."""
        return self.from_text(booster.model_to_string(num_iteration=rounds))

    def add_mask_trees(self, booster: Any, trees: Sequence[MaskTree], categories: Categories) -> None:
        """Add trees to the text, and let the booster read it. Codes of categories are numbers to these trees."""
        stopped = self.best_round(booster) is not None
        text = booster.model_to_string(num_iteration=self.used_rounds(booster))
        booster.model_from_string(with_round(text, trees, self.reads_zero_as_missing(booster)))
        if stopped:
            booster.best_iteration = self.rounds(booster)

    def to_text(self, booster: Any) -> str:
        """Return LightGBM's own text."""
        return str(booster.model_to_string())

    def from_text(self, text: str) -> Any:
        """Return the booster from LightGBM's own text."""
        import lightgbm as lgb

        return lgb.Booster(model_str=text)

    def to_file(self, booster: Any, schema: dict[str, Any], path: Path, **options: Any) -> bytes:
        """Return LightGBM's text with the schema."""
        return sealed(with_schema(booster.model_to_string(**options), schema)).encode()

    def wrote(self, content: bytes) -> bool:
        """Return whether the content may be LightGBM's text."""
        return not content.startswith(b"{")

    def from_file(self, content: bytes) -> tuple[Any, dict[str, Any]] | None:
        """Return booster and schema. A text without a schema is not passed to LightGBM: it might be anything."""
        text = unsealed(_decoded(content))
        schema = schema_in(text)
        if schema is None:
            return None
        summary = schema.get("summary")
        check_complete(text, isinstance(summary, dict) and bool(summary.get("coded_columns")))
        return self.from_text(text), schema

    def from_plain_file(self, content: bytes) -> Any:
        """Return the booster; raise if a part of its trees is missing, at which LightGBM would stop the process."""
        text = _decoded(content)
        check_trees(text)
        return self.from_text(text)


def _decoded(content: bytes) -> str:
    """Return the text of a file with LightGBM's line ends: it aborts the process at those that Windows tools write."""
    try:
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ValueError("This is not a model file: neither LightGBM's text nor XGBoost's JSON or UBJSON.") from None


BOOSTERS: Boosters = LightGBMBoosters()


def _leaves(node: dict[str, Any]) -> Iterator[tuple[int, float]]:
    if "leaf_value" in node:
        yield int(node.get("leaf_index", 0)), float(node["leaf_value"])
        return
    for side in ("left_child", "right_child"):
        yield from _leaves(node[side])


def with_builtin_objective(booster: Any, params: Mapping[str, Any], objective: Objective, start: Any) -> Any:
    """Return a booster trained with a custom objective as if trained with the built-in one: with its start and link.

    ``start`` is added to the leaves of the first tree(s), as LightGBM does with its own initial score. The line that
    names the objective is written into the model.
    """
    import lightgbm as lgb

    starts = np.atleast_1d(np.asarray(start, dtype=np.float64))
    first = booster.dump_model(num_iteration=1)["tree_info"]
    for tree, (shift, info) in enumerate(zip(starts, first, strict=False)):
        for leaf, value in _leaves(info["tree_structure"]):
            booster.set_leaf_output(tree, leaf, value + float(shift))
    n_classes = len(starts)
    label = np.arange(40) % n_classes if n_classes > 1 else np.arange(40) % 2 + (objective.name == "gamma")
    named = {name: value_of(params, name) for name in ("objective", "num_class", "tweedie_variance_power", "alpha")}
    small = lgb.Booster(
        {**{name: value for name, value in named.items() if value is not None}, "verbosity": -1},
        lgb.Dataset(np.arange(40.0)[:, None], label, params={"verbosity": -1}),
    )
    line = next(text for text in small.model_to_string().splitlines() if text.startswith("objective="))
    text = booster.model_to_string(num_iteration=-1).replace("\nfeature_names=", f"\n{line}\nfeature_names=", 1)
    whole = lgb.Booster(model_str=text)
    whole.best_iteration, whole.best_score = booster.best_iteration, booster.best_score
    return whole
