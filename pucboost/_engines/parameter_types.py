"""The parameters of ``train`` for type checkers: by their keys a checker sees what ``train`` returns.

No other module loads this one when it runs. Pyright (and so Pylance) reads ``extra_items``: keys that are not listed
here are allowed. Mypy does not read it yet, so the names of both engines are listed, and a test compares them with the
tables. A dict with any other key, or one made before the call, tells a checker nothing about the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import TypedDict

    from .._consent import OptionalColumns
    from .._virtual.plan import Augmentation

    NamesOfEngines = TypedDict("NamesOfEngines", {
        "aft_loss_distribution": Any, "aft_loss_distribution_scale": Any, "alpha": Any, "app": Any, "application": Any,
        "auc_mu_weights": Any, "bagging": Any, "bagging_by_query": Any, "bagging_fraction": Any,
        "bagging_fraction_seed": Any, "bagging_freq": Any, "bagging_seed": Any, "base_score": Any,
        "bin_construct_sample_cnt": Any, "blacklist": Any, "boost": Any, "boost_from_average": Any, "booster": Any,
        "boosting": Any, "boosting_type": Any, "bundle": Any, "cat_column": Any, "cat_feature": Any, "cat_l2": Any,
        "cat_smooth": Any, "categorical_column": Any, "categorical_feature": Any, "categorical_features": Any,
        "cegb_penalty_feature_coupled": Any, "cegb_penalty_feature_lazy": Any, "cegb_penalty_split": Any,
        "cegb_tradeoff": Any, "colsample_bylevel": Any, "colsample_bynode": Any, "colsample_bytree": Any,
        "config": Any, "config_file": Any, "contrib": Any, "convert_model": Any, "convert_model_file": Any,
        "convert_model_language": Any, "data": Any, "data_filename": Any, "data_random_seed": Any,
        "data_sample_strategy": Any, "data_seed": Any, "debug_synchronize": Any, "deterministic": Any, "device": Any,
        "device_type": Any, "disable_default_eval_metric": Any, "drop_rate": Any, "drop_seed": Any,
        "early_stopping": Any, "early_stopping_min_delta": Any, "early_stopping_round": Any,
        "early_stopping_rounds": Any, "enable_bundle": Any, "enable_sparse": Any, "eta": Any, "eval_at": Any,
        "eval_metric": Any, "extra_seed": Any, "extra_tree": Any, "extra_trees": Any, "fair_c": Any, "fc": Any,
        "feature_contri": Any, "feature_contrib": Any, "feature_fraction": Any, "feature_fraction_bynode": Any,
        "feature_fraction_seed": Any, "feature_penalty": Any, "feature_pre_filter": Any, "feature_selector": Any,
        "first_metric_only": Any, "force_col_wise": Any, "force_row_wise": Any, "forced_splits": Any,
        "forced_splits_file": Any, "forced_splits_filename": Any, "forcedbins_filename": Any,
        "forcedsplits_filename": Any, "fp": Any, "fs": Any, "gamma": Any, "gpu_device_id": Any,
        "gpu_device_id_list": Any, "gpu_platform_id": Any, "gpu_use_dp": Any, "group": Any, "group_column": Any,
        "group_id": Any, "grow_policy": Any, "has_header": Any, "header": Any, "hist_pool_size": Any,
        "histogram_pool_size": Any, "huber_slope": Any, "ignore_column": Any, "ignore_feature": Any,
        "input_model": Any, "interaction_constraints": Any, "is_enable_bundle": Any, "is_enable_sparse": Any,
        "is_pre_partition": Any, "is_predict_contrib": Any, "is_predict_leaf_index": Any, "is_predict_raw_score": Any,
        "is_provide_training_metric": Any, "is_save_binary": Any, "is_save_binary_file": Any, "is_sparse": Any,
        "is_training_metric": Any, "is_unbalance": Any, "l1_regularization": Any, "l2_regularization": Any,
        "label": Any, "label_column": Any, "label_gain": Any, "lambda": Any, "lambda_l1": Any, "lambda_l2": Any,
        "lambdarank_bias_norm": Any, "lambdarank_norm": Any, "lambdarank_normalization": Any,
        "lambdarank_num_pair_per_sample": Any, "lambdarank_pair_method": Any,
        "lambdarank_position_bias_regularization": Any, "lambdarank_score_normalization": Any,
        "lambdarank_truncation_level": Any, "lambdarank_unbiased": Any, "leaf_index": Any, "learning_rate": Any,
        "linear_lambda": Any, "linear_tree": Any, "linear_trees": Any, "local_listen_port": Any, "local_port": Any,
        "loss": Any, "machine_list": Any, "machine_list_file": Any, "machine_list_filename": Any, "machines": Any,
        "map_at": Any, "map_eval_at": Any, "max_bin": Any, "max_bin_by_feature": Any, "max_bins": Any,
        "max_cached_hist_node": Any, "max_cat_threshold": Any, "max_cat_to_onehot": Any, "max_delta_step": Any,
        "max_depth": Any, "max_drop": Any, "max_iter": Any, "max_leaf": Any, "max_leaf_nodes": Any,
        "max_leaf_output": Any, "max_leaves": Any, "max_row_perbatch": Any, "max_tree_output": Any, "mc": Any,
        "mc_method": Any, "mc_penalty": Any, "metric": Any, "metric_freq": Any, "metric_types": Any, "metrics": Any,
        "min_child_samples": Any, "min_child_weight": Any, "min_data": Any, "min_data_in_bin": Any,
        "min_data_in_leaf": Any, "min_data_per_group": Any, "min_data_per_leaf": Any, "min_gain_to_split": Any,
        "min_hessian": Any, "min_samples_leaf": Any, "min_split_gain": Any, "min_split_loss": Any,
        "min_sum_hessian": Any, "min_sum_hessian_in_leaf": Any, "min_sum_hessian_per_leaf": Any, "mlist": Any,
        "model_in": Any, "model_input": Any, "model_out": Any, "model_output": Any,
        "monotone_constraining_method": Any, "monotone_constraint": Any, "monotone_constraints": Any,
        "monotone_constraints_method": Any, "monotone_penalty": Any, "monotone_splits_penalty": Any,
        "monotonic_cst": Any, "ms_penalty": Any, "multi_error_top_k": Any, "multi_strategy": Any, "n_estimators": Any,
        "n_iter": Any, "n_iter_no_change": Any, "n_jobs": Any, "name_pred": Any, "ndcg_at": Any, "ndcg_eval_at": Any,
        "ndcg_exp_gain": Any, "neg_bagging": Any, "neg_bagging_fraction": Any, "neg_sub_row": Any,
        "neg_subsample": Any, "nodes": Any, "normalize_type": Any, "nrounds": Any, "nthread": Any, "nthreads": Any,
        "num_boost_round": Any, "num_class": Any, "num_classes": Any, "num_gpu": Any, "num_grad_quant_bins": Any,
        "num_iteration": Any, "num_iteration_predict": Any, "num_iterations": Any, "num_leaf": Any, "num_leaves": Any,
        "num_machine": Any, "num_machines": Any, "num_parallel_tree": Any, "num_round": Any, "num_rounds": Any,
        "num_target": Any, "num_thread": Any, "num_threads": Any, "num_tree": Any, "num_trees": Any, "objective": Any,
        "objective_seed": Any, "objective_type": Any, "one_drop": Any, "other_rate": Any, "output_freq": Any,
        "output_model": Any, "output_result": Any, "parser_config_file": Any, "path_smooth": Any,
        "poisson_max_delta_step": Any, "port": Any, "pos_bagging": Any, "pos_bagging_fraction": Any,
        "pos_sub_row": Any, "pos_subsample": Any, "pre_partition": Any, "precise_float_parser": Any,
        "pred_early_stop": Any, "pred_early_stop_freq": Any, "pred_early_stop_margin": Any, "pred_name": Any,
        "predict_contrib": Any, "predict_disable_shape_check": Any, "predict_leaf_index": Any, "predict_name": Any,
        "predict_raw_score": Any, "predict_rawscore": Any, "predict_result": Any, "prediction_name": Any,
        "prediction_result": Any, "process_type": Any, "quant_train_renew_leaf": Any, "quantile_alpha": Any,
        "query": Any, "query_column": Any, "query_id": Any, "random_seed": Any, "random_state": Any, "rate_drop": Any,
        "raw_score": Any, "refit_decay_rate": Any, "refresh_leaf": Any, "reg_alpha": Any, "reg_lambda": Any,
        "reg_sqrt": Any, "sample_type": Any, "sampling_method": Any, "save_binary": Any, "save_period": Any,
        "saved_feature_importance_type": Any, "scale_pos_weight": Any, "seed": Any, "seed_per_iteration": Any,
        "shrinkage_rate": Any, "sigmoid": Any, "skip_drop": Any, "snapshot_freq": Any, "sparse": Any,
        "sparse_threshold": Any, "start_iteration_predict": Any, "stochastic_rounding": Any, "sub_feature": Any,
        "sub_feature_bynode": Any, "sub_row": Any, "subsample": Any, "subsample_for_bin": Any, "subsample_freq": Any,
        "task": Any, "task_type": Any, "test": Any, "test_data": Any, "test_data_file": Any, "time_out": Any,
        "tolerance": Any, "top_k": Any, "top_rate": Any, "topk": Any, "train": Any, "train_data": Any,
        "train_data_file": Any, "train_metric": Any, "training_metric": Any, "tree": Any, "tree_learner": Any,
        "tree_learner_type": Any, "tree_method": Any, "tree_type": Any, "tweedie_variance_power": Any,
        "two_round": Any, "two_round_loading": Any, "unbalance": Any, "unbalanced_sets": Any, "uniform_drop": Any,
        "updater": Any, "use_cuda_async_pool": Any, "use_missing": Any, "use_quantized_grad": Any, "use_rmm": Any,
        "use_two_round_loading": Any, "valid": Any, "valid_data": Any, "valid_data_file": Any, "valid_filenames": Any,
        "validate_parameters": Any, "verbose": Any, "verbosity": Any, "weight": Any, "weight_column": Any,
        "workers": Any, "xgboost_dart_mode": Any, "zero_as_missing": Any,
    }, total=False)  # fmt: skip

    class CommonParams(NamesOfEngines, total=False, extra_items=Any):  # type: ignore[call-arg]
        """The engines' parameters, and pucboost's own, but for those that decide what ``train`` returns."""

        optional: OptionalColumns
        augmentation: Augmentation
        valid_augmentation: Augmentation | None
        copies: float | None
        max_virtual_rows: int | None
        external_memory: str | PathLike[str] | None
        compact: bool | Literal["auto"] | None
        calibrate_masks: bool | float | None
        expect_shared: Any
        training_sketch: bool
        plan: Any

    class AnchoredParams(CommonParams, extra_items=Any):  # type: ignore[call-arg]
        """An anchor that people who share nothing keep exactly."""

        anchor: Any
        anchor_strength: NotRequired[None]
        engine: NotRequired[str]

    class LightGBMParams(CommonParams, total=False, extra_items=Any):  # type: ignore[call-arg]
        """LightGBM, named or by default, or the native engine, whose boosters are LightGBM's."""

        engine: Literal["lightgbm", "native", "auto"]
        anchor: Any
        anchor_strength: float | None

    class XGBoostParams(CommonParams, extra_items=Any):  # type: ignore[call-arg]
        """XGBoost."""

        engine: Literal["xgboost"]
        anchor: NotRequired[Any]
        anchor_strength: NotRequired[float | None]
