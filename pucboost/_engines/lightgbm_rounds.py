"""One more round in the text of a LightGBM model: trees that ask only what is missing.

A node is the split x ≤ ∞, missing values to the right. LightGBM reads and writes ``inf``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .._arrays import Array
from .mask_tree import MaskTree, same_rounds

_MISSING_ZERO, _MISSING_NAN = 1 << 2, 2 << 2
"""Decision types of a numerical split: what is missing (0 and NaN, or NaN) goes right."""
_END = "\nend of trees"


def with_round(text: str, trees: Sequence[MaskTree], zero_as_missing: bool) -> str:
    """Return the text of a model with one more round, one tree per class."""
    head, end, rest = text.partition(_END)
    per_round = re.search(r"^num_tree_per_iteration=(\d+)$", head, re.MULTILINE)
    same_rounds(trees, int(per_round[1]) if per_round else 1)
    count = head.count("\nTree=")
    kind = _MISSING_ZERO if zero_as_missing else _MISSING_NAN
    blocks = [f"Tree={count + k}\n{_written(tree, kind)}\n\n\n" for k, tree in enumerate(trees)]
    # LightGBM finds the trees by their sizes.
    sizes = "".join(f" {len(block)}" for block in blocks)
    head = re.sub(r"^tree_sizes=.*$", lambda line: f"{line[0]}{sizes}", head, count=1, flags=re.MULTILINE)
    return head + "\n" + "".join(blocks) + end.lstrip("\n") + rest


def _written(tree: MaskTree, kind: int) -> str:
    n_inner, inner_rows = len(tree.column), tree.inner(tree.rows)
    lines: dict[str, str] = {
        "num_leaves": str(len(tree.value)),
        "num_cat": "0",
        "split_feature": _joined(tree.column),
        "split_gain": _joined(tree.gains()),
        "threshold": " ".join(["inf"] * n_inner),
        "decision_type": " ".join([str(kind)] * n_inner),
        "left_child": _joined(tree.present),
        "right_child": _joined(tree.missing),
        "leaf_value": _joined(tree.value),
        "leaf_weight": _joined(tree.weight),
        "leaf_count": _joined(tree.rows.astype(int)),
        "internal_value": _joined(tree.means()) if n_inner else "",
        "internal_weight": _joined(tree.inner(tree.weight)),
        "internal_count": _joined(inner_rows.astype(int)),
        "is_linear": "0",
        "shrinkage": "1",
    }
    return "\n".join(f"{name}={value}" for name, value in lines.items())


def _joined(values: Array | Iterable[float]) -> str:
    return " ".join(repr(value.item() if hasattr(value, "item") else value) for value in values)
