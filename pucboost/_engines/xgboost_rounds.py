"""One more round in the JSON of an XGBoost model: trees that ask only what is missing.

A node on numbers is the split x < the largest float32, missing values to the right. On categories a split lists those
that go right; one that does not exist is listed, so all go left.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._arrays import Array
from .mask_tree import MaskTree, same_rounds

_NO_PARENT = 2**31 - 1
_LARGEST = float(np.finfo(np.float32).max)


def with_round(content: str, trees: Sequence[MaskTree], n_categories: dict[int, int]) -> str:
    """Return the JSON of a model with one more round, one tree per class.

    ``n_categories`` has the number of categories for each column that holds categories.
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
    """Return a tree as XGBoost writes it: inner nodes first, then leaves."""
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
