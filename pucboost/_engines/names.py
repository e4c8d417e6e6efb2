"""The names of parameters, objectives and metrics, how their values are read, and constraints by column name.

LightGBM has several names for most things. They are listed here and nowhere else. A test compares these tables with
LightGBM's own list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from .._consent import position_of_name

_WITHOUT_OTHER_NAMES = """
    alpha auc_mu_weights bagging_by_query boost_from_average cat_l2 cat_smooth cegb_penalty_feature_coupled
    cegb_penalty_feature_lazy cegb_penalty_split cegb_tradeoff convert_model_language data_sample_strategy
    deterministic drop_seed early_stopping_min_delta extra_seed fair_c feature_fraction_seed feature_pre_filter
    first_metric_only force_col_wise force_row_wise forcedbins_filename gpu_device_id gpu_device_id_list
    gpu_platform_id gpu_use_dp interaction_constraints label_gain lambdarank_norm
    lambdarank_position_bias_regularization lambdarank_truncation_level linear_lambda max_bin_by_feature
    max_cat_threshold max_cat_to_onehot max_depth max_drop min_data_in_bin min_data_per_group multi_error_top_k
    num_gpu num_grad_quant_bins num_iteration_predict objective_seed other_rate parser_config_file path_smooth
    poisson_max_delta_step precise_float_parser pred_early_stop pred_early_stop_freq pred_early_stop_margin
    predict_disable_shape_check quant_train_renew_leaf refit_decay_rate reg_sqrt saved_feature_importance_type
    scale_pos_weight sigmoid skip_drop start_iteration_predict stochastic_rounding time_out top_rate
    tweedie_variance_power uniform_drop use_missing use_quantized_grad xgboost_dart_mode zero_as_missing
"""

PARAMETERS: dict[str, str] = {
    "objective": "app loss application objective_type",
    "boosting": "boost boosting_type",
    "num_class": "num_classes",
    "num_iterations": (
        "n_iter nrounds max_iter num_tree num_round num_trees num_rounds n_estimators num_iteration num_boost_round"
    ),
    "learning_rate": "eta shrinkage_rate",
    "num_leaves": "max_leaf num_leaf max_leaves max_leaf_nodes",
    "min_sum_hessian_in_leaf": "min_hessian min_sum_hessian min_child_weight min_sum_hessian_per_leaf",
    "lambda_l1": "reg_alpha l1_regularization",
    "lambda_l2": "lambda reg_lambda l2_regularization",
    "min_gain_to_split": "min_split_gain",
    "max_delta_step": "max_leaf_output max_tree_output",
    "monotone_constraints": "mc monotonic_cst monotone_constraint",
    "max_bin": "max_bins",
    "bagging_fraction": "bagging sub_row subsample",
    "bagging_freq": "subsample_freq",
    "feature_fraction": "sub_feature colsample_bytree",
    "feature_fraction_bynode": "colsample_bynode sub_feature_bynode",
    "seed": "random_seed random_state",
    "bagging_seed": "bagging_fraction_seed",
    "drop_rate": "rate_drop",
    "is_unbalance": "unbalance unbalanced_sets",
    "metric": "metrics metric_types",
    "early_stopping_round": "early_stopping n_iter_no_change early_stopping_rounds",
    "eval_at": "map_at ndcg_at map_eval_at ndcg_eval_at",
    "is_provide_training_metric": "train_metric training_metric is_training_metric",
    "metric_freq": "output_freq",
    "num_threads": "n_jobs nthread nthreads num_thread",
    "verbosity": "verbose",
    "device_type": "device",
    "num_machines": "num_machine",
    "machines": "nodes workers",
    "machine_list_filename": "mlist machine_list machine_list_file",
    "min_data_in_leaf": "min_data min_samples_leaf min_child_samples min_data_per_leaf",
    "pos_bagging_fraction": "pos_bagging pos_sub_row pos_subsample",
    "neg_bagging_fraction": "neg_bagging neg_sub_row neg_subsample",
    "extra_trees": "extra_tree",
    "linear_tree": "linear_trees",
    "categorical_feature": "cat_column cat_feature categorical_column categorical_features",
    "forcedsplits_filename": "fs forced_splits forced_splits_file forced_splits_filename",
    "feature_contri": "fc fp feature_contrib feature_penalty",
    "monotone_constraints_method": "mc_method monotone_constraining_method",
    "monotone_penalty": "mc_penalty ms_penalty monotone_splits_penalty",
    "input_model": "model_in model_input",
    "bin_construct_sample_cnt": "subsample_for_bin",
    "config": "config_file",
    "convert_model": "convert_model_file",
    "data": "train train_data data_filename train_data_file",
    "data_random_seed": "data_seed",
    "enable_bundle": "bundle is_enable_bundle",
    "group_column": "group query group_id query_id query_column",
    "header": "has_header",
    "histogram_pool_size": "hist_pool_size",
    "ignore_column": "blacklist ignore_feature",
    "is_enable_sparse": "sparse is_sparse enable_sparse",
    "label_column": "label",
    "local_listen_port": "port local_port",
    "output_model": "model_out model_output",
    "output_result": "name_pred pred_name predict_name predict_result prediction_name prediction_result",
    "pre_partition": "is_pre_partition",
    "predict_contrib": "contrib is_predict_contrib",
    "predict_leaf_index": "leaf_index is_predict_leaf_index",
    "predict_raw_score": "raw_score predict_rawscore is_predict_raw_score",
    "save_binary": "is_save_binary is_save_binary_file",
    "snapshot_freq": "save_period",
    "task": "task_type",
    "top_k": "topk",
    "tree_learner": "tree tree_type tree_learner_type",
    "two_round": "two_round_loading use_two_round_loading",
    "valid": "test test_data valid_data test_data_file valid_data_file valid_filenames",
    "weight_column": "weight",
    **dict.fromkeys(_WITHOUT_OTHER_NAMES.split(), ""),
}
"""All parameters: main name → other names."""

OBJECTIVES: dict[str, str] = {
    "regression": "regression_l2 l2 mean_squared_error mse l2_root root_mean_squared_error rmse",
    "regression_l1": "l1 mean_absolute_error mae",
    "cross_entropy": "xentropy",
    "multiclass": "softmax",
    "mape": "mean_absolute_percentage_error",
    "multiclassova": "multiclass_ova ova ovr",
    "cross_entropy_lambda": "xentlambda",
    "rank_xendcg": "xendcg xe_ndcg xe_ndcg_mart xendcg_mart",
    "custom": "none null na",
    **dict.fromkeys(("binary", "fair", "gamma", "huber", "lambdarank", "poisson", "quantile", "tweedie"), ""),
}
"""All objectives: main name → other names."""

METRICS: dict[str, str] = {
    "rmse": "root_mean_squared_error l2_root",
    "l2": "mean_squared_error mse regression_l2 regression",
    "l1": "mean_absolute_error mae regression_l1",
    "mape": "mean_absolute_percentage_error",
    "binary_logloss": "binary",
    "cross_entropy": "xentropy",
    "multi_logloss": "multiclass softmax multiclassova multiclass_ova ova ovr",
    "kullback_leibler": "kldiv",
    "cross_entropy_lambda": "xentlambda",
    "ndcg": "lambdarank rank_xendcg xendcg xe_ndcg xe_ndcg_mart xendcg_mart",
    "map": "mean_average_precision",
    **dict.fromkeys(("auc", "auc_mu", "average_precision", "binary_error", "multi_error", "r2"), ""),
    **dict.fromkeys(("fair", "gamma", "gamma_deviance", "huber", "poisson", "quantile", "tweedie"), ""),
}
"""All metrics: main name → other names."""


RANKING = ("lambdarank", "rank_xendcg")
"""Objectives that rank within queries."""

XGBOOST_PARAMETERS = frozenset({
    "booster", "device", "verbosity", "validate_parameters", "nthread", "n_jobs", "disable_default_eval_metric",
    "use_rmm", "use_cuda_async_pool", "eta", "learning_rate", "gamma", "min_split_loss", "max_depth",
    "min_child_weight", "max_delta_step", "subsample", "sampling_method", "colsample_bytree", "colsample_bylevel",
    "colsample_bynode", "lambda", "reg_lambda", "alpha", "reg_alpha", "tree_method", "scale_pos_weight", "updater",
    "refresh_leaf", "process_type", "grow_policy", "max_leaves", "max_bin", "num_parallel_tree", "monotone_constraints",
    "interaction_constraints", "multi_strategy", "max_cached_hist_node", "max_cat_to_onehot", "max_cat_threshold",
    "sparse_threshold", "debug_synchronize", "sample_type", "normalize_type", "rate_drop", "one_drop", "skip_drop",
    "feature_selector", "top_k", "tolerance", "max_row_perbatch", "objective", "base_score", "eval_metric", "seed",
    "random_state", "seed_per_iteration", "num_class", "num_target", "boost_from_average", "tweedie_variance_power",
    "huber_slope", "quantile_alpha", "aft_loss_distribution", "aft_loss_distribution_scale", "lambdarank_pair_method",
    "lambdarank_num_pair_per_sample", "lambdarank_normalization", "lambdarank_score_normalization",
    "lambdarank_unbiased", "lambdarank_bias_norm", "ndcg_exp_gain",
})  # fmt: skip
"""XGBoost's own parameters, under all names; which of them it uses depends on the objective and the booster."""


def by_name(table: Mapping[str, str]) -> dict[str, str]:
    return {name: main for main, others in table.items() for name in (main, *others.split())}


MAIN_NAME = by_name(PARAMETERS)
MAIN_OBJECTIVE = by_name(OBJECTIVES)
MAIN_METRIC = by_name(METRICS)


def aliases(name: str) -> tuple[str, ...]:
    """Return all names of a parameter, the main one first."""
    return (name, *PARAMETERS.get(name, "").split())


def value_of(params: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """Return the value of a parameter given under any of its names; the main name takes precedence."""
    for alias in aliases(name):
        if params.get(alias) is not None:
            return params[alias]
    return default


def without(params: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key not in aliases(name)}


def with_value(params: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    return {**without(params, name), name: value}


def main_objective(value: Any) -> str | None:
    """Return the main name of an objective; None for a callable, for None, and for a name unknown to LightGBM."""
    return MAIN_OBJECTIVE.get(value.strip().lower()) if isinstance(value, str) else None


def number_of(params: Mapping[str, Any], name: str, default: float) -> float:
    """Return a parameter as a float; None counts as not given, for every engine."""
    value = params.get(name)
    return default if value is None else float(value)


def is_true(value: Any) -> bool:
    """Read a boolean parameter as LightGBM does, from a bool, a number or a string."""
    if isinstance(value, (bool, int, float)):
        return bool(value)
    return str(value).lower() in {"true", "1", "+"}


def whole_number(name: str, value: Any) -> int:
    """Return a parameter as an int, or raise an error that names it."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or (isinstance(value, float) and number != value):
        raise ValueError(f"{name} must be a whole number, got {value!r}.")
    return number


# ----- constraints by column name
#
# They are turned into positions, which every engine reads. What the engines take themselves (lists of signs, lists of
# positions, text) is left alone. In constraints by name, a column that is not mentioned has no monotone constraint and
# interacts with no other column: it gets a list of its own, so that the engines agree. (By position, XGBoost would use
# such a column alone, and LightGBM not at all.)

_MONOTONE, _INTERACTION = aliases("monotone_constraints"), aliases("interaction_constraints")


def names_columns(params: Mapping[str, Any]) -> bool:
    return any(isinstance(params.get(key), Mapping) for key in _MONOTONE) or any(
        _lists_names(key, params.get(key)) for key in _INTERACTION
    )


def by_position(params: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the parameters with constraints by position; ``names`` are those of the table's columns.

    Examples
    --------
    >>> by_position({"monotone_constraints": {"bmi": -1}, "eta": 0.1}, ["age", "bmi", "pulse"])
    {'monotone_constraints': [0, -1, 0], 'eta': 0.1}
    >>> by_position({"interaction_constraints": [["age", "pulse"]]}, ["age", "bmi", "pulse"])
    {'interaction_constraints': [[0, 2], [1]]}
    """
    changed = dict(params)
    for key in _MONOTONE:
        if isinstance(params.get(key), Mapping):
            changed[key] = _signs(key, params[key], names)
    for key in _INTERACTION:
        if _lists_names(key, params.get(key)):
            changed[key] = _sets(key, params[key], names)
    return changed


def _signs(key: str, given: Mapping[Any, Any], names: Sequence[str]) -> list[int]:
    signs = [0] * len(names)
    for column, sign in given.items():
        position = _position(key, column, names)
        if isinstance(sign, bool) or not isinstance(sign, Real) or sign not in (-1, 0, 1):
            raise ValueError(
                f"{key} of column {column!r} must be 1 (increasing), -1 (decreasing) or 0 (neither), got {sign!r}."
            )
        signs[position] = int(float(sign))
    return signs


def _sets(key: str, given: Sequence[Any], names: Sequence[str]) -> list[list[int]]:
    sets = [[_position(key, column, names) for column in columns] for columns in given]
    listed = {position for columns in sets for position in columns}
    return sets + [[position] for position in range(len(names)) if position not in listed]


def _lists_names(key: str, given: Any) -> bool:
    if isinstance(given, str) or not isinstance(given, Sequence):
        return False
    for columns in given:
        named = isinstance(columns, str) and not columns.lstrip().startswith("[")  # LightGBM takes ["[0,1]", "[2]"]
        if named or not isinstance(columns, Iterable):
            raise ValueError(f"{key} must be a list of lists of columns; it contains {columns!r}. Write [[...], ...].")
    return any(isinstance(column, str) for columns in given if not isinstance(columns, str) for column in columns)


def _position(key: str, column: Any, names: Sequence[str]) -> int:
    if not isinstance(column, str):
        raise ValueError(f"{key} must name columns by strings, or list all by position; got {column!r}.")
    return position_of_name(column, names, key)
