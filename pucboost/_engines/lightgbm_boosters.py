"""LightGBM's boosters: predictions, files that hold the consent schema, trees as arrays, rounds that are added.

LightGBM keeps the lines of a model's section ``parameters:`` as they are, and writes them again whenever it writes the
model: to a file, into a pickle, into a copy. It skips a line ``[name: ]``, a parameter without a value, together with
all that follows on the line. So the schema is written as

    [pucboost: ]:{"format": 1, …}

and survives whatever LightGBM itself does with the model, unless it grows or refits trees: then it drops the line.

A file also has a digest of all its other lines, ``pucboost_digest:…`` after the parameters, which LightGBM drops. A
model that LightGBM has written again has no digest rather than a wrong one.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import lightgbm as lgb
import numpy as np

from .._common import Array
from .._kernels.leaf_sets import (
    READ_AS_IT_IS,
    READ_CATEGORY,
    READ_NAN_AS_ZERO,
    READ_ZERO_AS_NAN,
    exponential,
    logistic,
    softmax,
    softplus,
)
from .._kernels.rows import ZERO_THRESHOLD
from .._losses import Objective
from .._persistence import KEY, DamagedFileError, check_digest, digest, entries, pickled
from .._tables.files import write_whole
from .._tables.sources import Categories, column_names, is_frame, row_source, without_mask
from .._virtual.rare_categories import RareCategories
from .base import BoosterFacts, Boosters, Output, described
from .lightgbm_data import VirtualDataset
from .names import main_objective, value_of
from .trees import Forest, MaskTree, elementwise, same_rounds, written


class LightGBMBoosters(Boosters):
    """For any ``lgb.Booster``."""

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
        return np.asarray(lgb.Booster.predict(booster, rows, raw_score=raw_score))

    def output(self, booster: Any, rows: Array, output: Output) -> Array:
        return np.asarray(lgb.Booster.predict(booster, rows, **vars(output)))

    def add_trees(self, booster: Any, rows: Array, start: Array, rounds: int | None = None) -> Array:
        return np.asarray(start + lgb.Booster.predict(booster, rows, raw_score=True, num_iteration=rounds))

    def contributions(self, booster: Any, rows: Array, start: Array, rounds: int | None = None) -> Array:
        """Return LightGBM's own values with ``start`` added to the last of each class."""
        values = np.asarray(lgb.Booster.predict(booster, rows, pred_contrib=True, num_iteration=rounds))
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
    return lgb.Booster(model_str=text)


def with_builtin_objective(booster: Any, params: Mapping[str, Any], objective: Objective, start: Any) -> Any:
    """Return a booster trained with a custom objective as if trained with the built-in one: with its start and link.

    ``start`` is added to the leaves of the first tree(s), as LightGBM does with its own initial score. The line that
    names the objective is written into the model.
    """
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


def _has_text(frame: Any) -> bool:
    """Return whether LightGBM cannot read a frame: at text it raises, at categories that are not pandas' it aborts."""
    import narwhals as nw
    import narwhals.dependencies as nwd

    text = (nw.String, nw.Object) if nwd.is_pandas_dataframe(frame) else (nw.String, nw.Object, nw.Categorical, nw.Enum)
    return any(dtype in text for dtype in nw.from_native(frame, eager_only=True).schema.values())


class ProtectedBooster(lgb.Booster):
    """What ``train`` returns: an ``lgb.Booster`` whose text, files, pickles and copies hold the consent schema.

    ``refit`` and ``update`` on raw rows would let the trees learn from silence. They raise instead of warning,
    because the result would look like any other model; ``lgb.Booster.refit(booster, …)`` remains for those who want it.
    """

    puc_schema: dict[str, Any]
    """Consent and summary as plain data."""

    def __repr__(self) -> str:
        return described(self, int(self.current_iteration()))

    def model_to_string(self, *args: Any, **kwargs: Any) -> str:
        """Return LightGBM's text with the consent schema among the parameters."""
        return with_schema(super().model_to_string(*args, **kwargs), self.puc_schema)

    def dump_model(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return LightGBM's plain data, without the ranges of columns, as of a model that was read from the text."""
        dumped: dict[str, Any] = super().dump_model(*args, **kwargs)
        for column in dumped["feature_infos"].values():
            if not column["values"]:
                column |= {"min_value": -1e300, "max_value": 1e300}
        return dumped

    def save_model(self, filename: Any, *args: Any, **kwargs: Any) -> ProtectedBooster:
        """Write LightGBM's model file, with the consent schema among the parameters."""
        write_whole(Path(filename), sealed(self.model_to_string(*args, **kwargs)).encode())
        return self

    def predict(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Return LightGBM's predictions; raise if a table has the columns of training in another order.

        LightGBM reads columns by position, whatever their names are: withheld values would be read as base columns.
        Empty cells that do not apply are filled as in training, and text is read as the categories of training.
        """
        data = without_mask(data)
        names = column_names(data) if is_frame(data) else []
        consent = getattr(self, "consent", None)
        trained = [str(name) for name in getattr(consent, "feature_names", ())]
        if names != trained and sorted(names) == sorted(trained):
            raise ValueError(
                f"The columns are in another order than in training: {', '.join(names[:5])} …, but LightGBM expects "
                f"{', '.join(trained[:5])} …, and reads them by position. Use pucboost.predict, which goes by names, "
                "or select the columns in the order of booster.consent.feature_names."
            )
        not_applicable = () if consent is None else consent.not_applicable
        if (not_applicable and not isinstance(data, (str, Path))) or (
            consent is not None and names and _has_text(data)
        ):
            categories = LightGBMBoosters().categories(self, tuple(self.puc_schema["summary"]["coded_columns"]))
            assert categories is not None
            source = row_source(data, replace(categories, not_applicable=not_applicable))
            data = source.window(0, source.n_rows)
        return super().predict(data, *args, **kwargs)

    def refit(self, *args: Any, **kwargs: Any) -> lgb.Booster:
        """Raise: leaves that are fitted to rows as they are learn what silence says."""
        raise TypeError(
            "booster.refit would fit the leaves to the rows as they are, so they would learn what silence says. Use "
            "pucboost.refit(booster, X, y), which refits them on virtual rows and keeps the protection. If you want to "
            "lose it, call lgb.Booster.refit(booster, X, y)."
        )

    def update(self, train_set: lgb.Dataset | None = None, *args: Any, **kwargs: Any) -> bool:
        """Grow one more tree on the virtual rows that were kept; raise for any other Dataset."""
        if train_set is not None and not isinstance(train_set, VirtualDataset):
            raise TypeError(
                "booster.update would grow a tree on the rows as they are, and it would learn what silence says. Use "
                "pucboost.train(params, train_set, rounds, init_model=booster). If you want to lose the protection, "
                "call lgb.Booster.update(booster, train_set)."
            )
        if train_set is None and getattr(self, "train_set", None) is None:
            raise TypeError(
                "booster.update has no data to grow a tree on: the booster did not keep them. Use "
                "pucboost.train(params, train_set, rounds, init_model=booster)."
            )
        return bool(super().update(train_set, *args, **kwargs))

    def __deepcopy__(self, *args: Any, **kwargs: Any) -> ProtectedBooster:
        new: Any = super().__deepcopy__(*args, **kwargs)
        for name in ("puc_schema", "consent", "puc_summary", "best_iteration", "best_score"):
            if hasattr(self, name):
                setattr(new, name, getattr(self, name))
        new.__class__ = type(self)
        return new  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return pickled("LightGBMBooster", self.__getstate__())


# Tools such as MLflow look at the name of a class, not at what it is derived from.
for name in ("__module__", "__name__", "__qualname__"):
    setattr(ProtectedBooster, name, getattr(lgb.Booster, name))


# ----- the schema and the digest in a model's text

_LINE = "[pucboost: ]:"
_OURS = re.compile(rf"^{re.escape(_LINE)}.*\n", re.MULTILINE)
_END = "\nend of parameters\n"
_END_OF_TREES = "\nend of trees"
_LAST_LINE = "\npandas_categorical:"
_RANGE = re.compile(r"\[[^]]*\]")
_SEAL = f"\n{KEY}:"


def with_schema(text: str, schema: dict[str, Any]) -> str:
    r"""Return a model's text with the schema, in place of the one it may have.

    Examples
    --------
    >>> text = "tree\n…\nparameters:\n[seed: 0]\n\nend of parameters\n\npandas_categorical:null\n"
    >>> again = with_schema(with_schema(text, {"format": 0}), {"format": 1})
    >>> again.splitlines()[3:5], schema_in(again)
    (['[seed: 0]', '[pucboost: ]:{"format": 1}'], {'format': 1})
    """
    line = f"{_LINE}{json.dumps(schema)}\n"
    text = without_ranges(_OURS.sub("", text))
    head, end, rest = text.rpartition(_END)
    if end:
        return f"{head}{line}{end}{rest}"
    head, last, rest = text.rpartition(_LAST_LINE)  # a model that was written without parameters
    return f"{head}\nparameters:\n{line}{_END}{last}{rest}"


def without_ranges(text: str) -> str:
    r"""Return a model's text without the smallest and largest value of columns, which are somebody's.

    Nothing is predicted with them. That a column holds numbers, or which categories, stays: converters look there.

    Examples
    --------
    >>> without_ranges("tree\nfeature_infos=[18:103] -1:0:2 none\ntree_sizes=9")
    'tree\nfeature_infos=[-inf:inf] -1:0:2 none\ntree_sizes=9'
    """
    start = text.find("\nfeature_infos=")
    end = text.find("\n", start + 1)
    return text if min(start, end) < 0 else text[:start] + _RANGE.sub("[-inf:inf]", text[start:end]) + text[end:]


def schema_in(text: str) -> dict[str, Any] | None:
    """Return the schema in a model's text; None if there is none."""
    place = text.rfind(_END)
    found = _OURS.search(text, max(0, text.rfind("\nparameters:\n", 0, max(place, 0))))
    return None if found is None else entries(found[0].removeprefix(_LINE))


def sealed(text: str) -> str:
    r"""Return a model's text with its digest.

    Examples
    --------
    >>> text = "tree\n…\nparameters:\n[seed: 0]\n\nend of parameters\n\npandas_categorical:null\n"
    >>> sealed(text).splitlines()[7][:20]
    'pucboost_digest:6ce7'
    >>> unsealed(sealed(text)) == text
    True
    """
    head, last, rest = text.rpartition(_LAST_LINE)
    return f"{head}{_SEAL}{digest(text.encode())}\n{last}{rest}"


def unsealed(text: str) -> str:
    """Return a model's text without its digest; raise if it is not what the digest was made of.

    A text without digest was written by LightGBM itself, and is returned as it is.
    """
    head, seal, rest = text.rpartition(_SEAL)
    if not seal:
        return text
    found, _, rest = rest.partition("\n")
    check_digest(found, (head + rest).encode())
    return head + rest


def check_complete(text: str, has_categories: bool) -> None:
    """Raise if a text ends before its last line, the categories: without them, codes have another meaning.

    LightGBM writes that line in Python only.
    """
    _, last, rest = text.rpartition(_LAST_LINE)
    if (last and rest.endswith("\n")) or (not has_categories and text.endswith(_END)):
        return
    raise DamagedFileError("its end is missing. Copy it again, as a binary file")


def check_trees(text: str) -> None:
    """Raise unless a text has all its trees at the places given by ``tree_sizes``, and the end of its parameters.

    LightGBM finds trees by these sizes, in bytes, and aborts the process if it finds something else.
    """
    _, found, rest = text.partition("\ntree_sizes=")
    if not text.startswith("tree\n") or not (found or "\nend of trees\n" in text):
        raise DamagedFileError("it does not begin as LightGBM's models do")
    sizes, _, trees = rest.partition("\n\n")
    place, content = 0, trees.encode()
    parts = [(f"Tree={number}\n", size) for number, size in enumerate(sizes.split())]
    for begin, size in [*parts, ("end of trees\n", "0")] if found else ():
        if not size.isdecimal() or not content.startswith(begin.encode(), place):
            raise DamagedFileError("a part of its trees is missing. Copy it again, as a binary file")
        place += int(size)
    if "\nparameters:\n" in text and _END not in text:
        raise DamagedFileError("its end is missing. Copy it again, as a binary file")


# ----- reading trees

_READINGS = np.array([READ_NAN_AS_ZERO, READ_ZERO_AS_NAN, READ_AS_IT_IS, READ_AS_IT_IS], dtype=np.uint8)
"""By LightGBM's missing types: none, zero, NaN; there is no fourth."""
CATEGORICAL, _DEFAULT_LEFT, _MISSING_TYPE = 1, 2, 2
"""Bits of a decision type, and where the missing type begins."""
_SIGNIFICANT_DIGITS = 6
"""Number of digits that LightGBM writes of an objective's parameters."""


def forest_of_text(text: str) -> Forest | None:
    """Return all trees in the text of a model; None if leaves are linear models.

    LightGBM adds the leaves of a row in double precision, tree by tree, starting at 0. Values up to 1e-35 are 0 to it,
    and without a missing type for NaN so is NaN.
    """
    header, *trees = text.split("\nTree=")
    if trees:
        trees[-1] = trees[-1].partition("\nend of trees")[0]
    head, read = lines_of(header), [lines_of(tree) for tree in trees]
    if not read or any(tree.get("is_linear", "0") != "0" for tree in read):
        return None
    leaves = np.array([int(tree["num_leaves"]) for tree in read])
    n_outputs = int(head["num_tree_per_iteration"])
    column, decision = _numbers(read, "split_feature", np.int64), _numbers(read, "decision_type", np.int64)
    threshold, value = _numbers(read, "threshold", np.float64), _numbers(read, "leaf_value", np.float64)
    left, right = _numbers(read, "left_child", np.int64), _numbers(read, "right_child", np.int64)
    if (
        (leaves < 1).any()
        or not len(column) == len(decision) == len(threshold) == len(left) == len(right) == (leaves - 1).sum()
        or len(value) != leaves.sum()
    ):
        raise ValueError("The model is damaged: a tree has more or fewer numbers than nodes.")
    categorical = decision & CATEGORICAL != 0
    sets, place = _category_sets(read, leaves, threshold, categorical)
    counts = np.array([len(members) for members in sets], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    # Inner nodes come first in each tree, then the leaves, which LightGBM numbers −1, −2, ….
    is_inner = np.concatenate([np.arange(2 * n - 1) < n - 1 for n in leaves])
    inner_count = (leaves - 1).repeat(leaves - 1)
    nodes = partial(_at, is_inner)
    return Forest(
        n_columns=int(head["max_feature_idx"]) + 1,
        start=np.zeros(n_outputs),
        tree_start=np.concatenate([[0], np.cumsum(2 * leaves - 1)]).astype(np.int64),
        output=np.arange(len(leaves)) % n_outputs,
        left=nodes(np.where(left < 0, inner_count + ~left, left), -1),
        right=nodes(np.where(right < 0, inner_count + ~right, right), -1),
        column=nodes(column, 0),
        reading=nodes(np.where(categorical, READ_CATEGORY, _READINGS[decision >> _MISSING_TYPE & 3]), 0),
        threshold=nodes(threshold, 0),
        missing_left=nodes(~categorical & (decision & _DEFAULT_LEFT != 0), False),
        category_start=nodes(np.where(categorical, np.append(starts, 0)[place], 0), 0),
        category_count=nodes(np.where(categorical, np.append(counts, 0)[place], 0), 0),
        goes_left=np.concatenate([*sets, np.zeros(0, dtype=bool)]),
        value=_at(~is_inner, value, 0.0),
        response=_response(head, n_outputs, len(leaves) // n_outputs),
        zero=ZERO_THRESHOLD,
    )


def lines_of(part: str) -> dict[str, str]:
    """Return the part after the first = of each line, by the part before it."""
    return {key: value for key, _, value in (line.partition("=") for line in part.splitlines())}


def _numbers(trees: list[dict[str, str]], name: str, kind: Any) -> Array:
    words = [word for tree in trees for word in tree[name].split()]
    return np.array(list(map(float if kind is np.float64 else int, words)), dtype=kind)


def _at(where: Array, values: Array, other: Any) -> Array:
    out = np.full(len(where), other, dtype=values.dtype)
    out[where] = values
    return out


def _category_sets(
    trees: list[dict[str, str]], leaves: Array, threshold: Array, categorical: Array
) -> tuple[list[Array], Array]:
    """Return the sets of categories that go left, and for each inner node the number of its set.

    The threshold of a categorical node is the number of its set within the tree; a set is a row of 32-bit words. An
    unknown category goes right.
    """
    sets: list[Array] = []
    place = np.full(len(threshold), -1, dtype=np.int64)
    for tree, end, count in zip(trees, np.cumsum(leaves - 1), leaves - 1, strict=True):
        here = np.flatnonzero(categorical[end - count : end]) + end - count
        if not len(here):
            continue
        bounds = np.array(tree["cat_boundaries"].split(), dtype=np.int64)
        words = np.array(tree["cat_threshold"].split(), dtype=np.int64)
        number = threshold[here]
        exist = (number >= 0) & (number < len(bounds) - 1)
        if not exist.all() or (bounds < 0).any() or (bounds > len(words)).any():
            raise ValueError("The model is damaged: a node tests categories that do not exist.")
        place[here] = number.astype(np.int64) + len(sets)
        for lo, hi in itertools.pairwise(bounds):
            sets.append(np.append(members_of(words[lo:hi]), False))
    return sets, place


def _response(head: dict[str, str], n_outputs: int, rounds: int) -> Callable[[Array], Array] | None:
    name, *words = head.get("objective", "").split() or [""]
    given = {key: value for key, _, value in (word.partition(":") for word in words)}
    link = _link(name, given)
    if link is None:
        return None
    divisor = rounds if "average_output" in head else 1

    def response(raw: Array) -> Array:
        scores = raw / divisor if divisor != 1 else raw
        out = link(scores)
        return out[:, 0] if n_outputs == 1 else out

    return response


def _link(name: str, given: dict[str, str]) -> Callable[[Array], Array] | None:
    slope = given.get("sigmoid", "1")
    if len(slope.replace(".", "").replace("-", "").lstrip("0")) >= _SIGNIFICANT_DIGITS:
        return None  # it may have been rounded
    if name in ("binary", "multiclassova", "cross_entropy"):
        return elementwise(lambda raw, out: logistic(raw, float(slope), out))
    if name == "multiclass":
        return written(softmax)
    if name in ("poisson", "gamma", "tweedie"):
        return elementwise(exponential)
    if name == "cross_entropy_lambda":
        return elementwise(softplus)
    if "sqrt" in given:
        return lambda raw: np.sign(raw) * raw * raw
    unchanged = ("", "regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg")
    return (lambda raw: raw) if name in unchanged else None


# ----- one more round

_MISSING_ZERO, _MISSING_NAN = 1 << 2, 2 << 2
"""Decision types of a numerical split that sends missing values (0 and NaN, or NaN) to the right."""


def with_round(text: str, trees: Sequence[MaskTree], zero_as_missing: bool) -> str:
    """Return the text of a model with one more round: trees that test only what is missing, one per class.

    A node is the split x ≤ ∞, missing values to the right. LightGBM reads and writes ``inf``.
    """
    head, end, rest = text.partition(_END_OF_TREES)
    per_round = re.search(r"^num_tree_per_iteration=(\d+)$", head, re.MULTILINE)
    same_rounds(trees, int(per_round[1]) if per_round else 1)
    count = head.count("\nTree=")
    kind = _MISSING_ZERO if zero_as_missing else _MISSING_NAN
    blocks = [f"Tree={count + k}\n{_tree_text(tree, kind)}\n\n\n" for k, tree in enumerate(trees)]
    # LightGBM finds the trees by their sizes.
    sizes = "".join(f" {len(block)}" for block in blocks)
    head = re.sub(r"^tree_sizes=.*$", lambda line: f"{line[0]}{sizes}", head, count=1, flags=re.MULTILINE)
    return head + "\n" + "".join(blocks) + end.lstrip("\n") + rest


def _tree_text(tree: MaskTree, kind: int) -> str:
    n_inner, inner_rows = len(tree.column), tree.inner(tree.rows)
    lines: dict[str, str] = {
        "num_leaves": str(len(tree.value)),
        "num_cat": "0",
        "split_feature": _numbers_text(tree.column),
        "split_gain": _numbers_text(tree.gains()),
        "threshold": " ".join(["inf"] * n_inner),
        "decision_type": " ".join([str(kind)] * n_inner),
        "left_child": _numbers_text(tree.present),
        "right_child": _numbers_text(tree.missing),
        "leaf_value": _numbers_text(tree.value),
        "leaf_weight": _numbers_text(tree.weight),
        "leaf_count": _numbers_text(tree.rows.astype(int)),
        "internal_value": _numbers_text(tree.means()) if n_inner else "",
        "internal_weight": _numbers_text(tree.inner(tree.weight)),
        "internal_count": _numbers_text(inner_rows.astype(int)),
        "is_linear": "0",
        "shrinkage": "1",
    }
    return "\n".join(f"{name}={value}" for name, value in lines.items())


def _numbers_text(values: Array | Iterable[float]) -> str:
    return " ".join(repr(value.item() if hasattr(value, "item") else value) for value in values)


# ----- sets of categories, and the rare ones among them
#
# Trees grow on rows in which the rare categories of an optional column are one (:mod:`.._virtual.rare_categories`). In
# the finished model every split names them all, so that LightGBM and others read tables as people gave them.


def spell_out(booster: lgb.Booster, rare: RareCategories | None, rounds_before: int) -> lgb.Booster:
    """Let the trees of a booster name all rare categories wherever they name the one that stands for them.

    Its first ``rounds_before`` rounds, those of a model that it continues, were grown on all categories and stay.
    """
    if rare is not None and rare.columns:
        first, best = rounds_before * booster.num_model_per_iteration(), booster.best_iteration
        booster.model_from_string(spelt_out(booster.model_to_string(num_iteration=-1), rare, first))
        booster.best_iteration = best
    return booster


def spelt_out(text: str, rare: RareCategories, first: int = 0) -> str:
    """Return the text of a model whose trees name all rare categories, from the tree number ``first`` on."""
    head, end, rest = text.partition(_END_OF_TREES)
    head, *trees = head.split("\nTree=")
    blocks = [f"Tree={tree if k < first else _tree_spelt_out(tree, rare)}\n" for k, tree in enumerate(trees)]
    sizes = " ".join(str(len(block)) for block in blocks)  # LightGBM finds them by their sizes; only ASCII
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


def with_rare(chosen: Array, column: int, rare: RareCategories) -> Array:
    """Add all rare categories of a column to a set of categories that contains the one that stands for them."""
    pooled = rare.columns.get(column)
    if pooled is None or pooled.stands_for_all not in chosen:
        return chosen
    return np.union1d(chosen, pooled.members)


def words_of(categories: Array) -> list[int]:
    """Return a set of categories as LightGBM's row of 32-bit words."""
    words: list[int] = np.bincount(categories >> 5, 2.0 ** (categories & 31)).astype(np.int64).tolist()
    return words


def members_of(words: Array) -> Array:
    """Return which categories are in a set, which LightGBM writes as a row of 32-bit words."""
    return np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").astype(bool)
