"""Categories as LightGBM sees them: which columns have them, and what to do with the rare ones of optional columns.

Trees grow on rows in which rare categories are one (:mod:`.._virtual.rare_categories`). In the model that comes of it
every split that sends this one to a side names them all, so that whoever predicts, LightGBM itself included, reads the
table as people gave it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import lightgbm as lgb
import numpy as np

from .._arrays import Array
from .._tables.containers import SourceTable
from .._virtual.rare_categories import LARGEST_WRITTEN, RareCategories, RowsPerPerson
from .._virtual.rows import VirtualTable
from .lightgbm_network import is_networked
from .lightgbm_trees import CATEGORICAL, lines_of, members_of
from .names import main_objective, number_of, value_of

SURELY = 3.0
"""A category that is expected so many times as often in a sample as it must be is hardly ever too rare there."""

NONE = RareCategories({})

_ROWS = 40
"""Rows of the table by which LightGBM is told columns and parameters."""
_HARDLY_ANY = 1e-9
_END = "\nend of trees"


def columns_only(params: Mapping[str, Any], table: SourceTable, n_classes: int = 1) -> lgb.Dataset:
    """Return a small Dataset with other values, by which LightGBM gets to know the columns of a table."""
    column = np.arange(_ROWS, dtype=np.float64)
    positive = main_objective(value_of(params, "objective")) == "gamma"
    data = lgb.Dataset(
        np.tile(column[:, None], table.source.n_columns),
        column % max(2, n_classes) + positive,
        feature_name=table.names,
        categorical_feature=table.categorical_feature,
        params={"verbosity": -1, "num_threads": 1},
    )
    data.pandas_categorical = table.pandas_categorical
    return data


def categorical_columns(booster: lgb.Booster) -> list[int]:
    """Return the positions of the categorical columns, as LightGBM understood table and parameters."""
    found = re.search(r"^\[categorical_feature: (?:(name):)?(.+)\]$", booster.model_to_string(), re.MULTILINE)
    if not found:
        return []
    words = found[2].split(",")
    return [booster.feature_name().index(word) if found[1] else int(word) for word in words]


def rare_categories(train: VirtualTable, params: Mapping[str, Any]) -> RareCategories:
    """Return the categories of optional columns that LightGBM could not tell from missing values.

    Workers that train together must agree on them: with a plan by its sample, without one there are none.
    """
    table = train.table
    params = {**table.params, **params}
    given = value_of(params, "categorical_feature")
    named = given or (table.categorical_feature not in ("auto", None) and len(table.categorical_feature))
    sample = train.bin_sample
    if not named or not train.rows.consent.n_groups or (sample is None and is_networked(params)):
        return NONE
    quiet = {"verbosity": -1, "num_threads": 1} | ({} if given is None else {"categorical_feature": given})
    columns = categorical_columns(lgb.Booster(quiet, columns_only({}, table)))
    if sample is None:
        return RareCategories.of(train, columns, lambda group: least_people(train, params, group))
    in_leaf, in_bin = _needed_rows(params)
    return RareCategories.of_sample(train, columns, sample, in_leaf, SURELY * in_bin)


def _needed_rows(params: Mapping[str, Any]) -> tuple[float, float]:
    """Return how many rows of a category a leaf needs to use it, and a sample to give it a bin."""
    in_bin = max(number_of(params, "min_data_in_bin", 3), 1.0)
    return max(number_of(params, "cat_smooth", 10.0), in_bin), in_bin


def least_people(train: VirtualTable, params: Mapping[str, Any], group: int, *, bins_of_people: bool = False) -> float:
    """Return how many people must share a category so that trees can tell it from others.

    A leaf uses a category that has ``cat_smooth`` rows in it, and a category gets a bin if it has ``min_data_in_bin``
    among the rows that are sampled for the bins: virtual rows, or the people themselves (``bins_of_people``).
    """
    per_person, (in_leaf, in_bin) = RowsPerPerson.of(train, group), _needed_rows(params)
    least = in_leaf / max(per_person.in_tree, _HARDLY_ANY)
    rows, each = (train.people, 1.0) if bins_of_people else (len(train), per_person.in_table)
    share = number_of(params, "bin_construct_sample_cnt", 200_000) / rows
    return least if share >= 1.0 else max(least, SURELY * in_bin / max(share * each, _HARDLY_ANY))


def with_rare(chosen: Array, column: int, rare: RareCategories) -> Array:
    """Return a set of categories with all rare ones of the column, if the one that stands for them is in it."""
    pooled = rare.columns.get(column)
    if pooled is None or pooled.stands_for_all not in chosen:
        return chosen
    largest = max(LARGEST_WRITTEN, int(chosen.max()))
    return np.union1d(chosen, pooled.members[pooled.members <= largest])


def words_of(categories: Array) -> list[int]:
    """Return a set of categories as LightGBM's row of 32-bit words."""
    words = np.zeros(int(categories.max()) // 32 + 1, dtype=np.int64)
    np.bitwise_or.at(words, categories // 32, np.int64(1) << (categories % 32))
    return [int(word) for word in words]


def spell_out(booster: lgb.Booster, rare: RareCategories, rounds_before: int) -> lgb.Booster:
    """Make the trees of a booster name all rare categories where they name the one that stands for them.

    The trees of a model that it continues, its first ``rounds_before`` rounds, have read what people gave, and stay.
    """
    if rare.columns:
        first, best = rounds_before * booster.num_model_per_iteration(), booster.best_iteration
        booster.model_from_string(spelt_out(booster.model_to_string(num_iteration=-1), rare, first))
        booster.best_iteration = best
    return booster


def spelt_out(text: str, rare: RareCategories, first: int = 0) -> str:
    """Return the text of a model whose trees name all rare categories, from the tree number ``first`` on."""
    head, end, rest = text.partition(_END)
    head, *trees = head.split("\nTree=")
    blocks = [f"Tree={tree if k < first else _tree_spelt_out(tree, rare)}\n" for k, tree in enumerate(trees)]
    sizes = " ".join(str(len(block)) for block in blocks)  # by which LightGBM finds them; only ASCII
    head = re.sub(r"^tree_sizes=.*$", f"tree_sizes={sizes}", head, count=1, flags=re.MULTILINE)
    return f"{head}\n{''.join(blocks)}{end[1:]}{rest}"


def _tree_spelt_out(tree: str, rare: RareCategories) -> str:
    lines = lines_of(tree)
    if lines.get("num_cat", "0") == "0":
        return tree
    bounds, words = (np.array(lines[name].split(), dtype=np.int64) for name in ("cat_boundaries", "cat_threshold"))
    sets = [words[lo:hi].tolist() for lo, hi in itertools.pairwise(bounds)]
    nodes = zip(*(lines[name].split() for name in ("split_feature", "decision_type", "threshold")), strict=True)
    for feature, decision, number in nodes:
        if int(decision) & CATEGORICAL:
            k = int(float(number))
            sets[k] = words_of(with_rare(np.flatnonzero(members_of(np.array(sets[k]))), int(feature), rare))
    for name, values in (
        ("cat_boundaries", np.cumsum([0, *map(len, sets)]).tolist()),
        ("cat_threshold", [word for one in sets for word in one]),
    ):
        tree = re.sub(rf"^{name}=.*$", f"{name}={' '.join(map(str, values))}", tree, count=1, flags=re.MULTILINE)
    return tree
