"""For whom: the leaves of one small tree in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from .people import AuditPeople

MAX_CATEGORIES_NAMED = 5
NEARLY_ZERO = 1e-30
"""LightGBM splits at 1e-35 where 0 is meant."""


@dataclass
class _Condition:
    """What a path through a tree says about one column."""

    above: float | None = None
    up_to: float | None = None
    among: list[str] = field(default_factory=list)
    missing: bool = False


def rules_of_tree(booster: Any, people: AuditPeople) -> dict[int, str]:
    """Return in words who is in each leaf of the first tree of a LightGBM booster, by number of the leaf."""
    found: dict[int, str] = {}
    names = people.consent.feature_names
    labels = people.source.categories.by_column(people.source.coded) if people.source.coded else {}

    def walk(node: dict[str, Any], path: list[tuple[dict[str, Any], bool]]) -> None:
        if "split_feature" not in node:
            found[int(node.get("leaf_index", 0))] = _in_words(path, names, labels)
            return
        walk(node["left_child"], [*path, (node, True)])
        walk(node["right_child"], [*path, (node, False)])

    walk(booster.dump_model()["tree_info"][0]["tree_structure"], [])
    return found


def _in_words(path: list[tuple[dict[str, Any], bool]], names: Any, labels: dict[int, Any]) -> str:
    conditions: dict[int, _Condition] = {}
    for node, left in path:
        column = int(node["split_feature"])
        condition = conditions.setdefault(column, _Condition())
        condition.missing = node.get("missing_type") != "None" and bool(node["default_left"]) is left
        if node["decision_type"] == "==":
            codes = [int(code) for code in str(node["threshold"]).split("||")]
            known = labels.get(column, ())
            named = [str(known[code]) if code < len(known) else str(code) for code in codes]
            listed = ", ".join(named[:MAX_CATEGORIES_NAMED]) + (", …" if len(named) > MAX_CATEGORIES_NAMED else "")
            condition.among.append(f"{'one of' if left else 'none of'} {listed}")
            condition.missing = False
        elif left:
            condition.up_to = min(_threshold(node), *([] if condition.up_to is None else [condition.up_to]), math.inf)
        else:
            condition.above = max(_threshold(node), *([] if condition.above is None else [condition.above]), -math.inf)
    said = [_condition_in_words(names[column], condition) for column, condition in conditions.items()]
    return " and ".join(said) or "all of them"


def _threshold(node: dict[str, Any]) -> float:
    threshold = float(node["threshold"])
    return 0.0 if abs(threshold) < NEARLY_ZERO else threshold


def _condition_in_words(name: str, condition: _Condition) -> str:
    said = [f"{name} is {among}" for among in condition.among]
    above, up_to = condition.above, condition.up_to
    if above is not None and up_to is not None:
        said.append(f"{name} above {above:.4g} and up to {up_to:.4g}")
    elif above is not None:
        said.append(f"{name} above {above:.4g}")
    elif up_to is not None:
        said.append(f"{name} up to {up_to:.4g}")
    return " and ".join(said) + (" or missing" if condition.missing else "")
