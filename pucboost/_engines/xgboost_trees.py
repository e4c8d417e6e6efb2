"""XGBoost's trees, read from the content of a model file, and a reader of its binary format, UBJSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .._common import Array
from .._kernels.leaf_sets import READ_AS_IT_IS, READ_CATEGORY_FROM_ZERO, exponential, logistic_float32, softmax
from .trees import Forest, elementwise, written

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
    import xgboost as xgb

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
