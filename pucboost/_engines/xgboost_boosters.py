"""The booster side of XGBoost: facts, predictions, model files, and rounds that are added to a model.

Boosters have attributes, which their files keep; the schema is one of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from .._common import Array
from .._persistence import KEY, DamagedFileError, check_digest, digest, entries
from .._tables.sources import Categories
from .base import BoosterFacts, Boosters
from .translation import loss_name
from .trees import Forest, MaskTree, same_rounds
from .xgboost_trees import forest_of_model, read_ubjson

SCHEMA_KEY, CATEGORIES_KEY, LEAVES_KEY = "pucboost", "pucboost_categories", "pucboost_leaves"
"""Attributes that keep the schema, the categories of the training table, and what the values of leaves depend on."""

MANY_CATEGORIES = 1 << 16
"""More categories than a column has whose codes were assigned by the user."""


class XGBoostBoosters(Boosters):
    """For any ``xgb.Booster``. XGBoost itself is loaded only when it is needed."""

    name: ClassVar[str] = "xgboost"

    def facts(self, booster: Any) -> BoosterFacts:
        learner = json.loads(booster.save_config())["learner"]
        trees = learner["gradient_booster"]
        size = trees.get("gbtree", trees).get("gbtree_model_param", {})  # a linear model has none
        objective = learner["objective"]
        levels = objective.get("quantile_loss_param", {}).get("quantile_alpha")
        return BoosterFacts(
            n_columns=int(booster.num_features()),
            column_names=booster.feature_names,
            rounds=int(booster.num_boosted_rounds()),
            best_round=_best_round(booster),
            n_trees=int(size.get("num_trees", 0)),
            loss=loss_name(objective["name"]) or objective["name"],
            quantile_levels=tuple(float(level) for level in str(levels).strip("[]").split(",")) if levels else (),
        )

    def categories(self, booster: Any, columns: tuple[int, ...] | None) -> Categories | None:
        """Return the categories; the booster itself holds which columns they belong to."""
        own = tuple(j for j, kind in enumerate(booster.feature_types or ()) if kind == "c")
        kept = json.loads(booster.attr(CATEGORIES_KEY) or "null")
        if kept is not None:
            values = [categories for categories in kept if categories]
            return Categories(values, own if len(own) == len(values) else None)
        found = [] if not own else [values for _, values in booster.get_categories(export_to_arrow=True).to_arrow()]
        try:
            lists = {j: values.to_pylist() for j, values in enumerate(found) if values is not None}
        except UnicodeDecodeError:
            return None
        # XGBoost 3.2 counts characters instead of bytes, so names that are not ASCII are lost.
        if any(isinstance(value, str) and not value.isascii() for values in lists.values() for value in values):
            return None
        return Categories(list(lists.values()), tuple(lists))

    def importance(self, booster: Any, kind: Literal["gain", "split"]) -> Array:
        found = booster.get_score(importance_type="total_gain" if kind == "gain" else "weight")
        names = booster.feature_names or [f"f{j}" for j in range(int(booster.num_features()))]
        return np.array([found.get(name, 0) for name in names], dtype=np.float64 if kind == "gain" else np.int64)

    def predict(self, booster: Any, rows: Array, *, raw_score: bool, best_rounds: bool = True) -> Array:
        """Return predictions; XGBoost's own ``predict`` uses all rounds."""
        rounds = _best_round(booster) if best_rounds else None
        matrix = _matrix(booster, rows)
        return np.asarray(booster.predict(matrix, output_margin=raw_score, iteration_range=(0, rounds or 0)))

    def add_trees(self, booster: Any, rows: Array, start: Array, rounds: int | None = None) -> Array:
        matrix, used = _matrix(booster, rows, base_margin=start), _range(booster, rounds)
        return np.asarray(booster.predict(matrix, output_margin=True, iteration_range=used))

    def contributions(self, booster: Any, rows: Array, start: Array, rounds: int | None = None) -> Array:
        """Return XGBoost's own values, which include ``start``."""
        matrix, used = _matrix(booster, rows, base_margin=start), _range(booster, rounds)
        return np.asarray(booster.predict(matrix, pred_contribs=True, iteration_range=used)).reshape(len(rows), -1)

    def trees(self, booster: Any, *, best_rounds: bool = True, first_only: bool = False) -> Forest | None:
        """Return the trees in XGBoost's UBJSON."""
        rounds = (_best_round(booster) if best_rounds else None) or int(booster.num_boosted_rounds())
        if first_only and rounds:
            booster, rounds = booster[:1], 1
        return forest_of_model(read_ubjson(bytes(booster.save_raw("ubj"))), rounds)

    def keep_schema(self, booster: Any, schema: dict[str, Any], categories: Any) -> None:
        """Set the attributes that keep schema, categories and marks of the trees in model files."""
        from .xgboost_protected import keep_marks

        booster.set_attr(**{SCHEMA_KEY: json.dumps(schema)})
        if categories is not None:
            keep_categories(booster, categories)
        if booster.attr(LEAVES_KEY) is None:
            keep_leaf_params(booster)
        keep_marks(booster)
        self.protect(booster, schema)

    def protect(self, booster: Any, schema: dict[str, Any]) -> None:
        """Change the class of the booster; the attributes hold the schema already."""
        from .xgboost_protected import ProtectedBooster

        booster.__class__ = ProtectedBooster

    def kept_schema(self, booster: Any) -> dict[str, Any] | None:
        kept = booster.attr(SCHEMA_KEY)
        return None if kept is None else entries(kept)

    def has_its_trees(self, booster: Any) -> bool:
        """Compare the trees with their marks: XGBoost copies the schema into models with other trees."""
        from .xgboost_protected import has_marked_trees

        # Without a schema this is a plain booster to which a caller has attached a consent.
        return booster.attr(SCHEMA_KEY) is None or has_marked_trees(booster)

    def first_rounds(self, booster: Any, rounds: int | None = None) -> Any:
        rounds = _best_round(booster) if rounds is None else rounds
        return booster if rounds is None else booster[:rounds]

    def add_mask_trees(self, booster: Any, trees: Sequence[MaskTree], categories: Categories) -> None:
        stopped = _best_round(booster)
        text = self.to_text(self.first_rounds(booster))
        kinds = booster.feature_types or ()
        listed = {j: len(values) for j, values in categories.by_column(()).items()}
        coded = {j: listed.get(j, MANY_CATEGORIES) for j, kind in enumerate(kinds) if kind == "c"}
        booster.load_model(bytearray(with_round(text, trees, coded).encode("utf-8")))
        if stopped is not None:
            booster.set_attr(best_iteration=str(stopped))

    def to_text(self, booster: Any) -> str:
        return bytes(booster.save_raw("json")).decode("utf-8")

    def to_file(self, booster: Any, schema: dict[str, Any], path: Path, **options: Any) -> bytes:
        """Return JSON or UBJSON, by the ending of ``path``; the booster already holds the schema."""
        if options:
            raise TypeError(f"save_model takes no {', '.join(options)} for an XGBoost booster; slice it instead.")
        return sealed(bytes(booster.save_raw("json" if path.suffix == ".json" else "ubj")))

    def wrote(self, content: bytes) -> bool:
        return content.startswith(b"{")

    def from_file(self, content: bytes) -> tuple[Any, dict[str, Any]] | None:
        booster = self.from_plain_file(unsealed(content))
        schema = self.kept_schema(booster)
        return None if schema is None else (booster, schema)

    def from_plain_file(self, content: bytes) -> Any:
        import xgboost as xgb

        return xgb.Booster(model_file=bytearray(content))


BOOSTERS: Boosters = XGBoostBoosters()


def _best_round(booster: Any) -> int | None:
    best = booster.attr("best_iteration")
    return None if best is None else int(best) + 1


def _range(booster: Any, rounds: int | None) -> tuple[int, int]:
    """Return a range of rounds as XGBoost takes it, where 0 stands for the end."""
    return 0, 0 if rounds is None else min(rounds, int(booster.num_boosted_rounds()))


def _matrix(booster: Any, rows: Array, **info: Any) -> Any:
    import xgboost as xgb

    return xgb.DMatrix(rows, feature_names=booster.feature_names, feature_types=booster.feature_types, **info)


def keep_categories(booster: Any, categories: Any) -> None:
    kept = json.dumps(categories, default=lambda value: value.item() if hasattr(value, "item") else str(value))
    booster.set_attr(**{CATEGORIES_KEY: kept})


def keep_leaf_params(booster: Any, custom_objective: bool = False) -> None:
    """Write the parameters that the values of leaves depend on into an attribute; XGBoost's files leave them out."""
    learner = json.loads(booster.save_config())["learner"]
    trained = learner["gradient_booster"]
    tree = trained.get("tree_train_param") or trained.get("gbtree", {}).get("tree_train_param", {})
    kept = {name: tree[name] for name in ("eta", "lambda", "alpha", "max_delta_step") if name in tree}
    booster.set_attr(**{LEAVES_KEY: json.dumps({**kept, "custom_objective": custom_objective})})


def leaf_params(booster: Any) -> dict[str, Any]:
    return dict(json.loads(booster.attr(LEAVES_KEY)))


# ----- the digest of a file: the first entry of the JSON or UBJSON object, which XGBoost skips and drops
#
# So a model that XGBoost itself has written again has no digest rather than a wrong one.

_LENGTH = 64
_IN_JSON = f'{{"{KEY}":"%s",'
_IN_UBJSON = b"{L" + len(KEY).to_bytes(8, "big") + KEY.encode() + b"SL" + _LENGTH.to_bytes(8, "big")
"""In UBJSON texts are preceded by their length; ``S`` marks one that is a value."""
_ELSEWHERE = re.compile(KEY.encode() + rb'("\s*:\s*"|SL)')
"""A digest that does not stand where we write it. A column or group may have its name."""


def sealed(content: bytes) -> bytes:
    """Return the content of a model file with its digest.

    Examples
    --------
    >>> sealed(b'{"learner":{}}')[:30]
    b'{"pucboost_digest":"79251836eb'
    >>> unsealed(sealed(b'{"learner":{}}'))
    b'{"learner":{}}'
    """
    found = digest(content)
    if content.startswith(b'{"'):
        return (_IN_JSON % found).encode() + content[1:]
    return _IN_UBJSON + found.encode() + content[1:]


def unsealed(content: bytes) -> bytes:
    """Return the content of a model file without its digest; raise if it is damaged.

    A file without digest was written by XGBoost itself. It must at least have an end.
    """
    for pattern in (re.escape(_IN_JSON).replace("%s", "(.{64})").encode(), re.escape(_IN_UBJSON) + b"(.{64})"):
        found = re.match(pattern, content, re.DOTALL)
        if found is not None:
            content = b"{" + content[found.end() :]
            check_digest(found[1].decode("latin-1"), content)
            return content
    if _ELSEWHERE.search(content):
        raise DamagedFileError("its beginning is not what was written. Copy it again, as a binary file")
    if not content.rstrip().endswith(b"}"):
        raise DamagedFileError("its end is missing. Copy it again, as a binary file")
    return content


# ----- one more round

_NO_PARENT = 2**31 - 1
_LARGEST = float(np.finfo(np.float32).max)


def with_round(content: str, trees: Sequence[MaskTree], n_categories: dict[int, int]) -> str:
    """Return the JSON of a model with one more round: trees that test only what is missing, one per class.

    A node on numbers is the split x < the largest float32, missing values to the right. On categories a split lists
    those that go right; it lists one that does not exist, so all go left. ``n_categories`` has the number of categories
    of each column that has any.
    """
    model = json.loads(content)
    learner = model["learner"]
    booster, param = learner["gradient_booster"], learner["learner_model_param"]
    forest = booster.get("gbtree", booster)["model"]
    same_rounds(trees, max(1, int(param["num_class"])))
    count = len(forest["trees"])
    forest["trees"] += [
        _written(tree, count + k, int(param["num_feature"]), n_categories) for k, tree in enumerate(trees)
    ]
    forest["tree_info"] += list(range(len(trees)))
    forest["iteration_indptr"].append(count + len(trees))
    forest["gbtree_model_param"]["num_trees"] = str(count + len(trees))
    if "weight_drop" in booster:
        booster["weight_drop"] += [1.0] * len(trees)
    return json.dumps(model)


def _written(tree: MaskTree, number: int, n_columns: int, n_categories: dict[int, int]) -> dict[str, Any]:
    n_inner, n_leaves = len(tree.column), len(tree.value)
    coded = [node for node, j in enumerate(tree.column.tolist()) if j in n_categories]
    of_inner, of_leaf = tree.parent
    parents = np.concatenate([of_inner, of_leaf])

    def nodes(inner: Array, leaf: Array) -> list[Any]:
        return list(np.concatenate([inner, leaf]).tolist())

    def child(children: Array) -> list[int]:
        return nodes(np.where(children < 0, n_inner + ~children, children), np.full(n_leaves, -1))

    nothing, value = np.zeros(n_leaves), tree.value
    split_type = np.isin(np.arange(n_inner), coded).astype(int)
    return {
        "base_weights": nodes(tree.means() if n_inner else np.zeros(0), value),
        "categories": [n_categories[int(tree.column[node])] for node in coded],
        "categories_nodes": coded,
        "categories_segments": list(range(len(coded))),
        "categories_sizes": [1] * len(coded),
        "default_left": [0] * (n_inner + n_leaves),
        "id": number,
        "left_children": child(tree.present),
        "loss_changes": nodes(tree.gains(), nothing),
        "parents": np.where(parents < 0, _NO_PARENT, parents).tolist(),
        "right_children": child(tree.missing),
        "split_conditions": nodes(np.full(n_inner, _LARGEST), value),
        "split_indices": nodes(tree.column, nothing.astype(int)),
        "split_type": nodes(split_type, nothing.astype(int)),
        "sum_hessian": nodes(tree.inner(tree.weight), tree.weight),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_columns),
            "num_nodes": str(n_inner + n_leaves),
            "size_leaf_vector": "1",
        },
    }
