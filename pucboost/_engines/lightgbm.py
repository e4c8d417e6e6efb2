"""Masked rows into LightGBM.

Training itself is left to ``lgb.train`` and ``lgb.cv``: they get a :class:`VirtualDataset`, a Dataset that builds
itself from the stream, and behave as ever.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import lightgbm as lgb
import numpy as np

from .._arrays import Array
from .._kernels.rows import append_nonzero_columns, count_nonzero_columns
from .._virtual.rows import MaskedRows
from .base import EngineFacts, Validation, VirtualTable, rows_per_tree, times_rows
from .params import is_true, lightgbm_value, objective_name, whole_number, with_lightgbm_value

_RANKING_OBJECTIVES = {"lambdarank", "rank_xendcg", "xendcg", "xe_ndcg", "xe_ndcg_mart", "xendcg_mart"}
_RANKING_METRICS = {"ndcg", "lambdarank", "rank_xendcg", "map", "mean_average_precision"} | _RANKING_OBJECTIVES


class MaskedSequence(lgb.Sequence):
    """Masked rows behind LightGBM's public interface for data that do not fit into memory."""

    def __init__(self, rows: MaskedRows) -> None:
        self.rows = rows
        self.batch_size = rows.batch_rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Array:
        got = self.rows[index]
        return got.astype(np.float64) if got.ndim == 1 else got


class VirtualDataset(lgb.Dataset):
    """A Dataset over the virtual rows of a table.

    LightGBM can construct it through its public ``Sequence`` interface alone. The underscored methods below only
    replace slow or memory-hungry steps of that path by better ones; should LightGBM rename the originals, they are
    simply no longer called, and the public path remains.

    Parameters
    ----------
    virtual
        The virtual table.
    weight_scale
        Factor on all weights, see :func:`sample_rows`.
    keep_copy_weight
        Keep the copy weights for a callable objective.
    reference
        The training set, for a validation set.
    """

    def __init__(
        self,
        virtual: VirtualTable,
        *,
        weight_scale: float = 1.0,
        keep_copy_weight: bool = False,
        reference: lgb.Dataset | None = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        table, scores = virtual.table, virtual.init_score()
        super().__init__(
            MaskedSequence(virtual.rows),
            label=virtual.label(),
            weight=virtual.weight(weight_scale),
            init_score=None if scores is None else scores.ravel(order="F"),
            reference=reference,
            # A validation set takes both from its reference.
            feature_name=table.feature_name if reference is None else "auto",
            categorical_feature=table.categorical_feature if reference is None else "auto",
            params={**table.params, **(params or {})},
        )
        self.pandas_categorical = table.pandas_categorical
        self.copy_weight = virtual.copy_weight(weight_scale) if keep_copy_weight else None
        self._user_weight = virtual.user_weight() if keep_copy_weight else None
        self._constructing = self._in_objective = False

    @contextmanager
    def as_seen_by_objective(self) -> Iterator[VirtualDataset]:
        """Show the user's weights alone: a callable objective applies those, pucboost the copy weights."""
        shown = self.weight
        self.weight, self._in_objective = self._user_weight, True
        try:
            yield self
        finally:
            self.weight, self._in_objective = shown, False

    def get_field(self, field_name: str) -> Array | None:
        """As in LightGBM, except that a callable objective sees no copy weights."""
        if field_name == "weight" and self._in_objective:
            return self._user_weight
        return super().get_field(field_name)

    @functools.wraps(lgb.Dataset._lazy_init)
    def _lazy_init(self, *args: Any, **kwargs: Any) -> lgb.Dataset:  # type: ignore[override]
        self._constructing = True
        try:
            super()._lazy_init(*args, **kwargs)
        finally:
            self._constructing = False
        if self.reference is not None and self.weight is None and self.get_field("weight") is not None:
            # Rows pushed behind a reference that has weights start with weights of 0, not 1.
            self.set_field("weight", np.ones(self.num_data(), dtype=np.float32))
        return self

    def get_params(self) -> dict[str, Any]:
        """As in LightGBM; while constructing, all parameters.

        From a matrix LightGBM constructs with all of them (`seed` decides which rows are sampled for the bins,
        `min_data_in_leaf` which features are dropped as useless), from a Sequence with a selection. The stream must
        give what the table gives.
        """
        return dict(self.params or {}) if self._constructing else super().get_params()

    def _Dataset__init_from_seqs(self, seqs: list[MaskedSequence], ref_dataset: Any) -> lgb.Dataset:  # noqa: N802
        """Construct from the stream at the speed of a matrix.

        The original fetches up to 200,000 sample rows one by one.
        """
        (sequence,) = seqs
        rows = sequence.rows
        if ref_dataset is not None:
            self._init_from_ref_dataset(len(rows), ref_dataset)
        else:
            sampled = self._create_sample_indices(total_nrow=len(rows))
            values, positions = _nonzero_sample_columns(rows, sampled)
            self._init_from_sample(values, positions, len(sampled), len(rows))
        for _, batch in rows.batches():
            self._push_rows(batch)
        return self

    def _set_init_score_by_predictor(self, predictor: Any, data: Any, used_indices: Any) -> lgb.Dataset:
        """Score the virtual rows with ``init_model`` batch by batch; the original materialises the table."""
        if predictor is None or not isinstance(data, MaskedSequence):
            return super()._set_init_score_by_predictor(predictor, data, used_indices)
        scores = np.empty((len(data), predictor.num_class), order="F")
        for start, batch in data.rows.batches():
            raw = predictor.predict(data=batch, raw_score=True)
            scores[start : start + len(batch)] = raw.reshape(len(batch), -1)
        return self.set_init_score(scores.ravel(order="F"))


class FoldRows(lgb.Dataset):
    """Stand-in for the table while ``lgb.cv`` makes folds: it has row numbers and labels, but no features."""

    def __init__(self, label: Array) -> None:
        # One feature of two values, so that LightGBM does not complain about useless data.
        feature = (np.arange(len(label), dtype=np.float32) % 2)[:, None]
        super().__init__(feature, label=label, params={"verbosity": -1, "min_data_in_bin": 1})

    def _update_params(self, params: dict[str, Any] | None) -> lgb.Dataset:
        return self  # the parameters belong to the real table

    def _set_init_score_by_predictor(self, predictor: Any, data: Any, used_indices: Any) -> lgb.Dataset:
        return self  # scored on the virtual rows of each fold


def _nonzero_sample_columns(rows: MaskedRows, sampled: Array) -> tuple[list[Array], list[Array]]:
    """Return for each column the non-zero values among the sampled virtual rows, and their places in the sample."""
    blocks = [(start, sampled[start : start + rows.batch_rows]) for start in range(0, len(sampled), rows.batch_rows)]
    counts = np.zeros(rows.source.n_columns, dtype=np.int64)
    for _, index in blocks:
        count_nonzero_columns(rows.take(index), counts)
    bounds = np.concatenate(([0], np.cumsum(counts)))
    values, positions = np.empty(bounds[-1], dtype=np.float64), np.empty(bounds[-1], dtype=np.int32)
    next_slot = bounds[:-1].copy()
    for start, index in blocks:
        append_nonzero_columns(rows.take(index), start, next_slot, values, positions)
    cut = [slice(lo, hi) for lo, hi in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
    return [values[part] for part in cut], [positions[part] for part in cut]


def check_supported(params: Mapping[str, Any]) -> None:
    """Refuse what the method or the stream cannot do, before anything is built."""
    objective = objective_name(params)
    if objective in _RANKING_OBJECTIVES:
        raise ValueError(
            f"objective={objective!r} with optional features: Protected User Consent is defined for predictions of a "
            "person's outcome, not for rankings within a query. Use a regression or classification objective."
        )
    if objective in ("cross_entropy_lambda", "xentlambda"):
        raise ValueError(
            f"objective={objective!r} reads weights as exposures, so copies cannot be weighted. Use 'cross_entropy'."
        )
    if objective in ("multiclassova", "multiclass_ova", "ova", "ovr") and is_true(_is_unbalance(params)):
        raise ValueError(
            f"is_unbalance with objective={objective!r} counts virtual rows instead of people. Use sample weights."
        )
    metrics = lightgbm_value(params, "metric", ())
    for metric in metrics.split(",") if isinstance(metrics, str) else metrics:
        if str(metric).strip().split("@")[0] in _RANKING_METRICS:
            raise ValueError(f"metric={metric!r} needs queries, which are not defined with optional features.")
    if is_true(lightgbm_value(params, "linear_tree", False)):
        raise ValueError(
            "linear_tree with optional features: linear leaves cannot be built from a stream, and their treatment "
            "of missing values would mix silence with zeros. Set linear_tree=False."
        )
    if not is_true(params.get("use_missing", True)):
        raise ValueError(
            "use_missing=False makes LightGBM read a withheld value as the number 0. Remove it when features are "
            "optional."
        )
    if is_true(params.get("bagging_by_query", False)):
        raise ValueError("bagging_by_query needs queries, which are not defined with optional features.")


def sample_rows(params: dict[str, Any], n_source: int, n_virtual: int) -> tuple[dict[str, Any], float]:
    """Let each tree grow on a fresh N of the V virtual rows, on top of the user's own row sampling.

    With φ = min(1, N / V), ``bagging_fraction`` (or the ``pos_``/``neg_`` pair) is multiplied by φ. A bagging
    frequency the user asked for is kept, otherwise it is 1. GOSS excludes bagging and draws rows anew for every tree
    itself, so it is left alone.

    Returns the parameters and the factor on all weights that keeps the total weight a tree sees at that of N rows,
    and so the meaning of ``min_sum_hessian_in_leaf`` and ``lambda_l2``: 1 with bagging, φ without.
    """
    share = rows_per_tree(n_source, n_virtual)
    if share == 1.0:
        return params, 1.0
    if "goss" in (params.get("data_sample_strategy"), lightgbm_value(params, "boosting")):
        return params, share
    frequency = int(lightgbm_value(params, "bagging_freq", 0))
    users = frequency > 0
    sampled = with_lightgbm_value(params, "bagging_freq", frequency if users else 1)
    pair = ("pos_bagging_fraction", "neg_bagging_fraction")
    by_class = users and any(float(lightgbm_value(params, name, 1.0)) < 1.0 for name in pair)
    for name in pair if by_class else ("bagging_fraction",):
        asked = float(lightgbm_value(params, name, 1.0)) if users else 1.0
        sampled = with_lightgbm_value(sampled, name, _without_copying(asked * share, n_virtual))
    return sampled, 1.0


def _without_copying(fraction: float, n_virtual: int) -> float:
    """Lift a fraction at or just below one half to just above it.

    At one half or less LightGBM copies every bag into a dataset of its own before it grows the tree. At two copies a
    row that costs more than it saves.
    """
    return 0.5 + 2.0 / n_virtual if 0.49 <= fraction <= 0.5 and n_virtual > 100 else fraction


def _is_unbalance(params: Mapping[str, Any]) -> Any:
    return lightgbm_value(params, "is_unbalance", False)


def balance_classes(params: dict[str, Any], label: Array) -> tuple[dict[str, Any], float]:
    """Replace ``is_unbalance`` by the class weights of the *people*; LightGBM would count virtual rows.

    LightGBM multiplies the weight of the rarer class by the ratio of the counts. ``scale_pos_weight`` acts on the
    positive class alone; where that is the more frequent one, a factor on all weights, returned too, makes up for it.
    """
    if objective_name(params) != "binary" or not is_true(_is_unbalance(params)):
        return params, 1.0
    positive = int((label > 0).sum())
    negative = len(label) - positive
    if positive == 0 or negative == 0:
        return params, 1.0
    params = with_lightgbm_value(params, "is_unbalance", False)
    return {**params, "scale_pos_weight": negative / positive}, max(1.0, positive / negative)


def weigh_copies(params: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Wrap a callable objective so that its gradients carry the copy weights, which LightGBM would ignore."""
    objective = lightgbm_value(params, "objective")
    if not callable(objective):
        return params, False
    return with_lightgbm_value(params, "objective", _WeightedObjective(objective)), True


class _WeightedObjective:
    """gradient and hessian of the user's objective × copy weight, row by row."""

    def __init__(self, objective: Callable[..., Any]) -> None:
        self.objective = objective

    def __call__(self, preds: Array, data: VirtualDataset) -> tuple[Array, Array]:
        with data.as_seen_by_objective():
            gradient, hessian = self.objective(preds, data)
        if data.copy_weight is None:
            return gradient, hessian
        return times_rows(gradient, data.copy_weight), times_rows(hessian, data.copy_weight)


def bytes_per_virtual_row(n_columns: int, n_classes: int) -> int:
    """Estimate what LightGBM keeps per row: bins, label, weight, bag index; score and gradients per class."""
    return n_columns + 16 + 20 * max(1, n_classes)


def prepare(
    params: dict[str, Any], dataset_params: Mapping[str, Any], num_boost_round: int
) -> tuple[dict[str, Any], int]:
    """Return both as they are: LightGBM resolves its aliases itself, and reads the Dataset's parameters there."""
    return params, num_boost_round


def facts(params: Mapping[str, Any]) -> EngineFacts:
    """Read seed, threads and the like under whichever of their names they are given."""
    return EngineFacts(
        seed=whole_number("seed", lightgbm_value(params, "seed", 0)),
        num_threads=whole_number("num_threads", lightgbm_value(params, "num_threads", 0)) or None,
        zero_as_missing=is_true(params.get("zero_as_missing", False)),
        n_classes=whole_number("num_class", lightgbm_value(params, "num_class", 1)),
    )


def train(
    train: VirtualTable,
    params: dict[str, Any],
    num_boost_round: int,
    valid: Validation | None,
    *,
    feval: Any,
    init_model: Any,
    keep_training_booster: bool,
    callbacks: Any,
) -> lgb.Booster:
    """Hand the virtual rows to ``lgb.train``."""
    train_set, params = _training_set(train, params)
    valid_sets: list[lgb.Dataset] | None = None
    valid_names = None
    if valid is not None:
        valid_sets = [train_set if v is None else VirtualDataset(v, reference=train_set) for v, _ in valid]
        valid_names = [name for _, name in valid]
    return lgb.train(
        params,
        train_set,
        num_boost_round,
        valid_sets,
        valid_names,
        feval,
        init_model,
        keep_training_booster,
        callbacks=callbacks,  # by name: MLflow's autolog adds its own to what it finds there
    )


def _training_set(virtual: VirtualTable, params: dict[str, Any]) -> tuple[VirtualDataset, dict[str, Any]]:
    params, scale = sample_rows(params, virtual.people, len(virtual))
    params, balance = balance_classes(params, virtual.table.label)
    params, wrapped = weigh_copies(params)
    return VirtualDataset(virtual, weight_scale=scale * balance, keep_copy_weight=wrapped), params


def cv(
    label: Array,
    folds: Sequence[tuple[Array, Array]],
    build: Callable[[int, dict[str, Any]], tuple[VirtualTable, VirtualTable, dict[str, Any]]],
    params: dict[str, Any],
    num_boost_round: int,
    **options: Any,
) -> dict[str, Any]:
    """Hand the folds to ``lgb.cv``; its ``fpreproc`` hook exchanges each for the virtual tables."""
    # Wrapped here, not per fold: lgb.cv takes the objective out of the parameters before it makes the folds.
    params, wrapped = weigh_copies(params)
    done = 0

    def exchange(train_rows: Any, valid_rows: Any, fold_params: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        nonlocal done
        train, valid, fold_params = build(done, fold_params)
        done += 1
        fold_params, scale = sample_rows(fold_params, train.people, len(train))
        fold_params, balance = balance_classes(fold_params, train.table.label)
        train_set = VirtualDataset(train, weight_scale=scale * balance, keep_copy_weight=wrapped)
        valid_set = VirtualDataset(valid, reference=train_set)
        for part in (train_set, valid_set):
            part._update_params(fold_params)._set_predictor(train_rows._predictor)
        return train_set, valid_set, fold_params

    return dict(lgb.cv(params, FoldRows(label), num_boost_round, folds=iter(folds), fpreproc=exchange, **options))


def for_merged_rows(params: dict[str, Any], objective: Any, hessian_per_person: float) -> dict[str, Any]:
    """Make LightGBM treat merged rows as the people they stand for.

    - ``binary`` reads every label above 0 as 1; ``cross_entropy`` is the same loss with soft labels.
    - ``min_data_in_leaf`` counts rows, which now stand for many: it becomes 0, and ``min_sum_hessian_in_leaf`` at least
      the hessian of as many people at the initial score. For squared error, whose hessian is the weight, this is exact.
    """
    params = dict(params)
    for name in ("path_smooth", "cat_smooth"):
        if params.get(name):
            raise ValueError(
                f"{name} counts rows, which stand for many people under compact. Leave one of the two out."
            )
    if objective.name == "binary":
        params = with_lightgbm_value(params, "objective", "cross_entropy")
        if lightgbm_value(params, "metric") is None:
            params["metric"] = "binary_logloss"
    people = float(lightgbm_value(params, "min_data_in_leaf", 20))
    at_least = float(lightgbm_value(params, "min_sum_hessian_in_leaf", 1e-3))
    params = with_lightgbm_value(params, "min_data_in_leaf", 0)
    params = with_lightgbm_value(params, "min_sum_hessian_in_leaf", max(at_least, people * hessian_per_person))
    # Categories with fewer rows than cat_smooth would not be used at all.
    return {"min_data_in_bin": 1, "min_data_per_group": 1, "cat_smooth": 0, **params}


def _leaves(node: dict[str, Any]) -> Iterator[tuple[int, float]]:
    if "leaf_value" in node:
        yield int(node.get("leaf_index", 0)), float(node["leaf_value"])
        return
    for side in ("left_child", "right_child"):
        yield from _leaves(node[side])


def with_builtin_objective(booster: lgb.Booster, params: Mapping[str, Any], objective: Any, start: Any) -> lgb.Booster:
    """Return a booster trained with a custom objective as if the built-in one had been: with its start and its link.

    ``start`` is added to the leaves of the first tree(s), as LightGBM does with its own initial score, and the line
    that names the objective goes into the model.
    """
    starts = np.atleast_1d(np.asarray(start, dtype=np.float64))
    first = booster.dump_model(num_iteration=1)["tree_info"]
    for tree, (shift, info) in enumerate(zip(starts, first, strict=False)):
        for leaf, value in _leaves(info["tree_structure"]):
            booster.set_leaf_output(tree, leaf, value + float(shift))
    n_classes = len(starts)
    label = np.arange(40) % n_classes if n_classes > 1 else np.arange(40) % 2 + (objective.name == "gamma")
    named = {
        name: lightgbm_value(params, name) for name in ("objective", "num_class", "tweedie_variance_power", "alpha")
    }
    small = lgb.Booster(
        {**{name: value for name, value in named.items() if value is not None}, "verbosity": -1},
        lgb.Dataset(np.arange(40.0)[:, None], label, params={"verbosity": -1}),
    )
    line = next(text for text in small.model_to_string().splitlines() if text.startswith("objective="))
    text = booster.model_to_string(num_iteration=-1).replace("\nfeature_names=", f"\n{line}\nfeature_names=", 1)
    whole = lgb.Booster(model_str=text)
    whole.best_iteration, whole.best_score = booster.best_iteration, booster.best_score
    return whole


def attach(booster: Any, consent: Any, summary: Any, categories: Any) -> Any:
    """Set ``consent`` and ``puc_summary``; pickle keeps them, a model file needs ``puc.save_model``.

    LightGBM keeps the categories itself.
    """
    booster.consent, booster.puc_summary = consent, summary
    return booster
