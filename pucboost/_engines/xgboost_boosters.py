"""XGBoost's boosters: predictions, files that hold the consent schema, trees as arrays, rounds that are added.

A booster's attributes hold the schema. XGBoost copies them into every model that it derives from a booster: a copy or a
slice, but also a model that it has continued or refreshed on the original rows. So each round of protected trees is
identified by its predictions for a few fixed rows (a *mark*); if other trees are found, the schema no longer
holds. Predictions, not a hash of the file, because the bytes may change with the version of XGBoost.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import xgboost as xgb

from .._common import Array, warn
from .._kernels.leaf_sets import READ_AS_IT_IS, READ_CATEGORY_FROM_ZERO, exponential, logistic_float32, softmax
from .._persistence import KEY, DamagedFileError, check_digest, digest, entries, pickled
from .._tables.sources import Categories, without_mask
from .base import BoosterFacts, Boosters, Output, described
from .translation import loss_name
from .trees import Forest, MaskTree, elementwise, same_rounds, written
from .xgboost_data import unreadable_named

SCHEMA_KEY, CATEGORIES_KEY, LEAVES_KEY, MARKS_KEY = (
    "pucboost", "pucboost_categories", "pucboost_leaves", "pucboost_trees"
)  # fmt: skip
"""Attributes that keep the schema, the categories of the training table, what the values of leaves depend on, and the
marks of the trees."""

PROBES = 16
"""Number of rows that the marks are computed on."""
NOT_FOR_OTHERS = ("consent", "puc_summary")
"""Attributes that XGBoost must not copy into the models that it derives from a booster."""

MANY_CATEGORIES = 1 << 16
"""More categories than a column has whose codes were assigned by the user."""


class XGBoostBoosters(Boosters):
    """For any ``xgb.Booster``."""

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

    def output(self, booster: Any, rows: Array, output: Output) -> Array:
        used = output.rounds(_best_round(booster), int(booster.num_boosted_rounds()))
        if used[0] >= used[1]:  # XGBoost itself reads an empty range as all rounds
            raise ValueError(f"start_iteration={output.start_iteration}, but there are {used[1]} rounds.")
        values = np.asarray(
            booster.predict(
                _matrix(booster, rows),
                output_margin=output.raw_score and not (output.pred_leaf or output.pred_contrib),
                pred_leaf=output.pred_leaf,
                pred_contribs=output.pred_contrib,
                iteration_range=used,
            )
        )
        return values.reshape(len(rows), -1) if output.pred_leaf or output.pred_contrib else values

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
        booster.set_attr(**{SCHEMA_KEY: json.dumps(schema)})
        if categories is not None:
            keep_categories(booster, categories)
        if booster.attr(LEAVES_KEY) is None:
            keep_leaf_params(booster)
        keep_marks(booster)
        self.protect(booster, schema)

    def protect(self, booster: Any, schema: dict[str, Any]) -> None:
        """Change the class of the booster; the attributes hold the schema already."""
        booster.__class__ = ProtectedBooster

    def kept_schema(self, booster: Any) -> dict[str, Any] | None:
        kept = booster.attr(SCHEMA_KEY)
        return None if kept is None else entries(kept)

    def has_its_trees(self, booster: Any) -> bool:
        """Compare the trees with their marks: XGBoost copies the schema into models with other trees."""
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

    def from_file(self, content: bytes) -> tuple[Any, dict[str, Any]] | None:
        booster = self.from_plain_file(unsealed(content))
        schema = self.kept_schema(booster)
        return None if schema is None else (booster, schema)

    def from_plain_file(self, content: bytes) -> Any:
        return xgb.Booster(model_file=bytearray(content))


BOOSTERS: Boosters = XGBoostBoosters()


def _best_round(booster: Any) -> int | None:
    best = booster.attr("best_iteration")
    return None if best is None else int(best) + 1


def _range(booster: Any, rounds: int | None) -> tuple[int, int]:
    """Return a range of rounds as XGBoost takes it, where 0 stands for the end."""
    return 0, 0 if rounds is None else min(rounds, int(booster.num_boosted_rounds()))


def _matrix(booster: Any, rows: Array, **info: Any) -> Any:
    names = booster.feature_names or [f"Column_{j}" for j in range(rows.shape[1])]
    with unreadable_named(lambda: [(None, rows)], names):  # a block of a table, which may be larger
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


class ProtectedBooster(xgb.Booster):
    """What ``train`` returns: an ``xgb.Booster`` whose copies, slices and pickles keep the consent schema.

    Growing trees on raw rows raises instead of warning: the result would look like any other model.
    """

    def __repr__(self) -> str:
        return described(self, int(self.num_boosted_rounds()))

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


# ----- marks of protected trees


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
        "split_conditions": nodes(np.full(n_inner, LARGEST), value),
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


# ----- reading trees

LARGEST = float(np.finfo(np.float32).max)
"""XGBoost refuses larger numbers."""

_LOGISTIC = ("binary:logistic", "reg:logistic")
_EXPONENTIAL = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
_IDENTITY = (
    "binary:logitraw",
    "rank:map",
    "rank:ndcg",
    "rank:pairwise",
    "reg:absoluteerror",
    "reg:pseudohubererror",
    "reg:quantileerror",
    "reg:squarederror",
    "reg:squaredlogerror",
)

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


def forest_of_model(model: dict[str, Any], rounds: int) -> Forest | None:
    """Return the trees of the first rounds of a model; None if it has anything but trees with one value per leaf.

    ``model`` is the content of a model file, in JSON or UBJSON.

    XGBoost adds the leaves of a row (with DART: leaf × weight of the tree) in single precision, tree by tree, starting
    at the base score. So do we, and with the same bits. It rounds values to single precision first, and goes left if
    x < threshold, which is x ≤ the next smaller number.
    """
    learner = model["learner"]
    booster = learner["gradient_booster"]
    dropout = booster.get("weight_drop")
    if booster["name"] not in ("gbtree", "dart"):
        return None
    content_of_trees = booster.get("gbtree", booster)["model"]
    ends = content_of_trees["iteration_indptr"]
    trees = content_of_trees["trees"][: ends[min(rounds, len(ends) - 1)]]
    if not trees or any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in trees):
        return None
    start = _start(model, learner, booster, content_of_trees)
    sizes = np.array([len(tree["left_children"]) for tree in trees], dtype=np.int64)
    condition = _joined(trees, "split_conditions", np.float32)
    left = _joined(trees, "left_children", np.int64)
    categorical = _joined(trees, "split_type", np.int64) != 0
    goes_left, category_start, category_count = _category_sets(trees, sizes)
    value = (
        condition if dropout is None else condition * np.array(dropout[: len(trees)], dtype=np.float32).repeat(sizes)
    )
    return Forest(
        n_columns=int(learner["learner_model_param"]["num_feature"]),
        start=start,
        tree_start=np.concatenate([[0], np.cumsum(sizes)]),
        output=np.array(content_of_trees["tree_info"][: len(trees)], dtype=np.int64),
        left=left,
        right=_joined(trees, "right_children", np.int64),
        column=_joined(trees, "split_indices", np.int64),
        reading=np.where(categorical, READ_CATEGORY_FROM_ZERO, READ_AS_IT_IS).astype(np.uint8),
        threshold=np.nextafter(condition, np.float32(-np.inf)),
        missing_left=_joined(trees, "default_left", np.int64) != 0,
        category_start=category_start,
        category_count=category_count,
        goes_left=goes_left,
        value=value,
        response=_response(learner["objective"]["name"], len(start)),
        sums_from_start=True,
        largest=LARGEST,
    )


def _joined(trees: Iterable[dict[str, Any]], name: str, kind: Any) -> Array:
    return np.concatenate([np.asarray(tree[name], dtype=kind) for tree in trees])


def _category_sets(trees: Sequence[dict[str, Any]], sizes: Array) -> tuple[Array, Array, Array]:
    """Return which categories go left, and where those of each node begin and how many there are.

    A node lists the categories that go right. All others go left, also those that were never seen.
    """
    sets: list[Array] = []
    start, count = np.zeros(sizes.sum(), dtype=np.int64), np.zeros(sizes.sum(), dtype=np.int64)
    used = 0
    for tree, first, size in zip(trees, np.cumsum(sizes) - sizes, sizes, strict=True):
        nodes, begins, lengths = (tree[f"categories_{name}"] for name in ("nodes", "segments", "sizes"))
        if not len(nodes) == len(begins) == len(lengths):
            raise ValueError("The model is damaged: a node tests categories that do not exist.")
        for node, begin, length in zip(nodes, begins, lengths, strict=True):
            listed = np.array(tree["categories"][begin : begin + length], dtype=np.int64)
            if not 0 <= node < size or len(listed) != length or not length or listed.min() < 0:
                raise ValueError("The model is damaged: a node tests categories that do not exist.")
            members = np.ones(int(listed.max()) + 2, dtype=bool)
            members[listed] = False
            sets.append(members)
            start[first + node], count[first + node] = used, len(members)
            used += len(members)
    return np.concatenate([*sets, np.zeros(0, dtype=bool)]), start, count


def _start(
    model: dict[str, Any], learner: dict[str, Any], booster: dict[str, Any], content_of_trees: dict[str, Any]
) -> Array:
    """Return the raw score without any trees, one per output, as XGBoost itself computes it from the base score."""
    empty = {"trees": [], "tree_info": [], "iteration_indptr": [0]}
    param = content_of_trees["gbtree_model_param"]
    bare = {
        "name": "gbtree",
        "model": {**content_of_trees, **empty, "gbtree_model_param": {**param, "num_trees": "0"}},
    }
    # Without this entry a model without trees counts as not fitted yet.
    fitted = {**learner["learner_model_param"], "boost_from_average": "0"}
    without = {**model, "learner": {**learner, "gradient_booster": bare, "learner_model_param": fitted}}
    stump = xgb.Booster(model_file=bytearray(json.dumps(without, default=np.ndarray.tolist).encode()))
    row = np.full((1, int(fitted["num_feature"])), np.nan, dtype=np.float32)
    scores = stump.predict(xgb.DMatrix(row), output_margin=True, validate_features=False)
    return np.asarray(scores, dtype=np.float32).reshape(-1)


def _response(name: str, n_outputs: int) -> Callable[[Array], Array] | None:
    link = _link(name)
    if link is None:
        return None
    return lambda raw: link(raw)[:, 0] if n_outputs == 1 else link(raw)


def _link(name: str) -> Callable[[Array], Array] | None:
    if name in _LOGISTIC:
        return elementwise(logistic_float32)
    if name in _EXPONENTIAL:
        return elementwise(exponential)
    if name == "multi:softprob":
        return written(softmax)
    return (lambda raw: raw) if name in _IDENTITY else None


# ----- UBJSON


def read_ubjson(content: bytes) -> Any:
    r"""Return the content of Universal Binary JSON; arrays of one type become numpy arrays without a copy.

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
    """Return the value that starts at a position, and the position after it."""
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
