"""Every LightGBM parameter, and its translation into XGBoost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..names import is_true
from . import rules
from .given import Given, integer, number
from .rules import GOSS, at_most, equals, is_, is_empty


@dataclass(frozen=True)
class Row:
    """One LightGBM parameter; an empty row is a technical parameter, which is dropped."""

    to: str | None = None
    """Name in XGBoost."""
    convert: Callable[[Any], Any] | None = None
    """Converts the value, where XGBoost's is different."""
    rule: Callable[[str, Any, Given], dict[str, Any]] | None = None
    """Instead of ``to``: returns XGBoost's parameters, where they depend on the value or on other parameters."""
    instead: str = ""
    """Why it cannot be translated, and what to use instead."""
    no_effect: Callable[[Any], bool] | None = None
    """Says which values are dropped, because XGBoost does the same without them."""
    only_if: Callable[[Given], bool] | None = None
    """Says whether LightGBM reads the parameter at all; if not, it is dropped."""


_DISTRIBUTED = (
    "distributed training is set up outside its parameters; use pucboost.dask, or a SharedPlan in workers that "
    "xgboost.collective connects"
)
_CATEGORIES = "its treatment of categories is set by max_cat_to_onehot and max_cat_threshold"

TABLE: dict[str, Row] = {
    # --- the model
    "objective": Row(rule=rules.objective),
    "boosting": Row(rule=rules.boosting),
    "num_class": Row(to="num_class"),
    "num_iterations": Row(
        to="num_boost_round",
        convert=integer,
    ),
    "learning_rate": Row(to="learning_rate"),
    "num_leaves": Row(rule=rules.num_leaves),
    "max_depth": Row(to="max_depth", convert=rules.zero_if_negative),
    # XGBoost's hessian for several classes is 2 p (1 − p), LightGBM's K / (K − 1) p (1 − p); elsewhere they agree.
    "min_sum_hessian_in_leaf": Row(to="min_child_weight"),
    "lambda_l1": Row(to="reg_alpha"),
    "lambda_l2": Row(to="reg_lambda"),
    # Both engines measure a gain as the sum of G² / (H + λ) over the children minus the parent, without the factor ½
    # of XGBoost's paper. LightGBM is stricter: once no split of a column reaches the threshold, it does not look at the
    # column further down.
    "min_gain_to_split": Row(to="gamma"),
    "max_delta_step": Row(to="max_delta_step", convert=rules.zero_if_negative),
    "monotone_constraints": Row(to="monotone_constraints", convert=rules.monotone, no_effect=is_empty),
    # LightGBM never uses a column that is in no group. XGBoost may split on it, but not together with others.
    "interaction_constraints": Row(to="interaction_constraints", convert=rules.interactions, no_effect=is_empty),
    "max_bin": Row(to="max_bin"),
    "max_cat_to_onehot": Row(to="max_cat_to_onehot"),
    "max_cat_threshold": Row(to="max_cat_threshold"),
    # --- sampling
    "bagging_fraction": Row(rule=rules.bagging_fraction),
    "bagging_freq": Row(rule=rules.bagging_freq),
    "feature_fraction": Row(to="colsample_bytree"),
    "feature_fraction_bynode": Row(to="colsample_bynode"),
    "seed": Row(to="seed"),
    "bagging_seed": Row(rule=rules.further_seed),
    "feature_fraction_seed": Row(rule=rules.further_seed),
    "drop_seed": Row(rule=rules.further_seed, only_if=Given.is_dart),
    # --- dart
    "drop_rate": Row(to="rate_drop", only_if=Given.is_dart),
    "skip_drop": Row(to="skip_drop"),
    "uniform_drop": Row(rule=rules.uniform_drop, only_if=Given.is_dart),
    "max_drop": Row(
        instead="it drops any number of trees; use a smaller drop_rate",
        no_effect=at_most(0),
        only_if=Given.is_dart,
    ),
    "xgboost_dart_mode": Row(
        instead="it always weighs dropped trees its own way; leave it out",
        no_effect=is_(True),
        only_if=Given.is_dart,
    ),
    # --- objectives
    "alpha": Row(rule=rules.alpha),
    "tweedie_variance_power": Row(to="tweedie_variance_power"),
    # XGBoost uses this number for the hessian, as LightGBM does, and also to limit a leaf's value.
    "poisson_max_delta_step": Row(to="max_delta_step", only_if=Given.is_poisson),
    "scale_pos_weight": Row(to="scale_pos_weight"),
    "is_unbalance": Row(
        instead="use scale_pos_weight = number of negatives / number of positives",
        no_effect=is_(False),
    ),
    "sigmoid": Row(instead="its sigmoid has slope 1", no_effect=equals(1)),
    "boost_from_average": Row(
        instead="write the start as base_score, in units of the prediction: 0 for squared error, 0.5 for "
        "binary:logistic, 1 for count:poisson",
        no_effect=is_(True),
    ),
    "reg_sqrt": Row(instead="take the root of the label yourself", no_effect=is_(False)),
    "fair_c": Row(),
    # --- metrics and arguments of train
    "metric": Row(rule=rules.metric),
    "early_stopping_round": Row(to="early_stopping_rounds", convert=rules.rounds_or_none),
    "early_stopping_min_delta": Row(to="early_stopping_min_delta", convert=number),
    "first_metric_only": Row(to="first_metric_only", convert=is_true),
    "multi_error_top_k": Row(instead="its merror counts the first choice only", no_effect=equals(1)),
    "eval_at": Row(
        instead="write the position with the metric, as in 'ndcg@5'",
        only_if=Given.is_ranking,
    ),
    "auc_mu_weights": Row(),
    "is_provide_training_metric": Row(),
    "metric_freq": Row(),
    # --- the machine
    "num_threads": Row(to="nthread", convert=rules.threads),
    "verbosity": Row(rule=rules.verbosity),
    "device_type": Row(rule=rules.device),
    "gpu_device_id": Row(instead="write device='cuda:0', 'cuda:1' and so on", no_effect=at_most(-1)),
    "gpu_device_id_list": Row(instead="write device='cuda:0', 'cuda:1' and so on", no_effect=is_empty),
    "num_gpu": Row(instead=_DISTRIBUTED, no_effect=at_most(1)),
    "num_machines": Row(instead=_DISTRIBUTED, no_effect=at_most(1)),
    "machines": Row(instead=_DISTRIBUTED, no_effect=is_empty),
    "machine_list_filename": Row(instead=_DISTRIBUTED, no_effect=is_empty),
    # --- parameters that change the model and that XGBoost lacks
    "min_data_in_leaf": Row(
        instead="it limits the hessian weight of a leaf, not its rows; use min_child_weight (the number of rows for "
        "squared error without weights)",
        no_effect=at_most(1),
    ),
    "data_sample_strategy": Row(instead=GOSS, no_effect=is_("bagging")),
    "pos_bagging_fraction": Row(
        instead="use subsample, and scale_pos_weight to balance the classes",
        no_effect=equals(1),
    ),
    "neg_bagging_fraction": Row(
        instead="use subsample, and scale_pos_weight to balance the classes",
        no_effect=equals(1),
    ),
    "bagging_by_query": Row(instead="it draws rows one by one", no_effect=is_(False)),
    "extra_trees": Row(instead="use colsample_bynode, another way to randomise splits", no_effect=is_(False)),
    "linear_tree": Row(instead="its leaves are constants", no_effect=is_(False)),
    "path_smooth": Row(instead="use reg_lambda, which shrinks leaves towards 0", no_effect=equals(0)),
    "cat_l2": Row(instead=_CATEGORIES, no_effect=equals(0)),
    "cat_smooth": Row(instead=_CATEGORIES, no_effect=equals(0)),
    "min_data_per_group": Row(instead=_CATEGORIES, no_effect=at_most(1)),
    "categorical_feature": Row(
        instead="it is not a parameter there; name the categorical columns in the Dataset",
        no_effect=rules.is_auto,
    ),
    "max_bin_by_feature": Row(instead="it has one max_bin for all columns", no_effect=is_empty),
    "min_data_in_bin": Row(instead="use a smaller max_bin", no_effect=at_most(1)),
    "forcedbins_filename": Row(instead="round the column yourself", no_effect=is_empty),
    "forcedsplits_filename": Row(
        instead="it chooses all splits itself",
        no_effect=is_empty,
    ),
    "feature_contri": Row(
        instead="its feature_weights set how often a column is drawn, not what its gain counts",
        no_effect=is_empty,
    ),
    "monotone_constraints_method": Row(
        instead="it has one method, close to 'basic'",
        no_effect=is_("basic"),
    ),
    "monotone_penalty": Row(
        instead="it allows monotone splits at any depth",
        no_effect=equals(0),
    ),
    "use_missing": Row(instead="it always sends missing values their own way; fill them in", no_effect=is_(True)),
    "zero_as_missing": Row(instead="it is not a parameter there; replace the zeros by NaN", no_effect=is_(False)),
    "use_quantized_grad": Row(instead="it computes with full gradients", no_effect=is_(False)),
    "cegb_penalty_split": Row(instead="use min_gain_to_split, a penalty per split", no_effect=equals(0)),
    "cegb_penalty_feature_lazy": Row(instead="leave costly columns out", no_effect=is_empty),
    "cegb_penalty_feature_coupled": Row(instead="leave costly columns out", no_effect=is_empty),
    "input_model": Row(instead="it is not a parameter there; use init_model", no_effect=is_empty),
    # --- ranking
    "label_gain": Row(instead="use ndcg_exp_gain", only_if=Given.is_ranking),
    "lambdarank_norm": Row(instead="use lambdarank_normalization", only_if=Given.is_ranking),
    "lambdarank_truncation_level": Row(instead="use lambdarank_num_pair_per_sample", only_if=Given.is_ranking),
    "lambdarank_position_bias_regularization": Row(instead="use lambdarank_unbiased", only_if=Given.is_ranking),
    # --- read only together with something that is refused above
    "cegb_tradeoff": Row(),
    "extra_seed": Row(),
    "linear_lambda": Row(),
    "num_grad_quant_bins": Row(),
    "objective_seed": Row(),
    "other_rate": Row(),
    "quant_train_renew_leaf": Row(),
    "stochastic_rounding": Row(),
    "top_rate": Row(),
    # --- technical parameters: speed, memory, files, the command line, prediction
    "bin_construct_sample_cnt": Row(),
    "config": Row(),
    "convert_model": Row(),
    "convert_model_language": Row(),
    "data": Row(),
    "data_random_seed": Row(),
    "deterministic": Row(),
    "enable_bundle": Row(),
    "feature_pre_filter": Row(),
    "force_col_wise": Row(),
    "force_row_wise": Row(),
    "gpu_platform_id": Row(),
    "gpu_use_dp": Row(),
    "group_column": Row(),
    "header": Row(),
    "histogram_pool_size": Row(),
    "ignore_column": Row(),
    "is_enable_sparse": Row(),
    "label_column": Row(),
    "local_listen_port": Row(),
    "num_iteration_predict": Row(),
    "output_model": Row(),
    "output_result": Row(),
    "parser_config_file": Row(),
    "pre_partition": Row(),
    "precise_float_parser": Row(),
    "pred_early_stop": Row(),
    "pred_early_stop_freq": Row(),
    "pred_early_stop_margin": Row(),
    "predict_contrib": Row(),
    "predict_disable_shape_check": Row(),
    "predict_leaf_index": Row(),
    "predict_raw_score": Row(),
    "refit_decay_rate": Row(),
    "save_binary": Row(),
    "saved_feature_importance_type": Row(),
    "snapshot_freq": Row(),
    "start_iteration_predict": Row(),
    "task": Row(),
    "time_out": Row(),
    "top_k": Row(),
    "tree_learner": Row(),
    "two_round": Row(),
    "valid": Row(),
    "weight_column": Row(),
}
"""All of LightGBM's parameters, under their main names."""
