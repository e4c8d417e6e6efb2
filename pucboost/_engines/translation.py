"""LightGBM's parameter names in XGBoost's words.

With ``engine="xgboost"`` parameters may be XGBoost's own, which pass through untouched, or LightGBM's, which are
translated by the tables below. Three principles decide every case:

- A name that XGBoost has means what XGBoost says. Where LightGBM gives the same name another meaning, the name of the
  objective tells whose it is; where that does not help, the name is refused.
- What changes the model is translated or refused, never ignored. A value is dropped only if XGBoost does just that
  anyway, or if it has no influence on what is learned.
- Defaults are XGBoost's: what is not said is not translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from .params import is_true


@dataclass(frozen=True)
class Translated:
    """What ``xgboost.train`` is called with."""

    params: dict[str, Any]
    num_boost_round: int | None = None
    early_stopping_rounds: int | None = None
    first_metric_only: bool = False
    """Stop early on the first metric; XGBoost by itself stops on the last one."""
    early_stopping_min_delta: float = 0.0


def to_xgboost(params: Mapping[str, Any]) -> Translated:
    """Translate parameters, given under LightGBM's or XGBoost's names, into XGBoost's.

    Parameters
    ----------
    params : mapping
        Parameter names and values; not changed. None counts as not given. Names that neither table knows pass
        through, XGBoost reports them itself.

    Returns
    -------
    Translated
        The parameters of ``xgboost.train``, and those of LightGBM's that are arguments of it.

    Raises
    ------
    ValueError
        If a parameter changes the model and XGBoost has no counterpart, if a name is ambiguous, or if one parameter
        is given twice with different values.

    Examples
    --------
    >>> translated = to_xgboost({"objective": "binary", "num_leaves": 31, "lambda_l2": 2.0, "n_estimators": 50})
    >>> translated.params["objective"], translated.params["max_leaves"], translated.params["reg_lambda"]
    ('binary:logistic', 31, 2.0)
    >>> translated.params["grow_policy"], translated.params["max_depth"], translated.num_boost_round
    ('lossguide', 0, 50)
    >>> to_xgboost({"objective": "reg:squarederror", "eta": 0.1, "gamma": 1.0}).params
    {'objective': 'reg:squarederror', 'eta': 0.1, 'gamma': 1.0}
    >>> to_xgboost({"min_data_in_leaf": 20})
    Traceback (most recent call last):
    ...
    ValueError: min_data_in_leaf=20 has no counterpart in XGBoost: it limits the hessian weight of a leaf, not its \
rows; use min_child_weight (the number of rows for squared error without weights).
    """
    given = _Given(params)
    result = _Result()
    for name, value in given.items.items():
        try:
            translated = _translate(name, value, given)
        except _NotANumberError as error:
            raise ValueError(f"{name}={value!r}: expected a number, got {error}.") from None
        for target, new_value in translated.items():
            result.put(target, new_value, f"{name}={value!r}")
    _add_defaults_of_lightgbms_words(given, result)
    return _split(result.params())


def _translate(name: str, value: Any, given: _Given) -> dict[str, Any]:
    """Return the XGBoost parameters that one given parameter stands for."""
    if name not in _MAIN_NAME or name in _SHARED_NAMES:
        return {name: value}
    row = TABLE[_MAIN_NAME[name]]
    if (row.only_if is not None and not row.only_if(given)) or (row.no_effect is not None and row.no_effect(value)):
        return {}
    if row.instead:
        _refuse(name, value, row.instead)
    if row.rule is not None:
        return row.rule(name, value, given)
    if row.to is None:
        return {}
    return {row.to: value if row.convert is None else row.convert(value)}


def _add_defaults_of_lightgbms_words(given: _Given, result: _Result) -> None:
    """Add what some of LightGBM's words imply, unless the user says otherwise."""
    leaves_first = given.says_in_lightgbms_words("num_leaves")
    if given.unlimited_depth() and not given.says("num_leaves"):
        # What limits LightGBM then is its default of num_leaves. XGBoost would grow until no row can be split.
        result.default("max_leaves", 31)
        leaves_first = True
    if leaves_first:
        result.default("grow_policy", "lossguide")
        result.default("max_depth", 0)
    if given.lightgbm_objective == "quantile":
        result.default("quantile_alpha", 0.9)
    if given.says_in_lightgbms_words("boosting") and given.is_dart():
        # By default XGBoost's dart drops no tree, so it would be plain boosting.
        result.default("rate_drop", 0.1)
        result.default("skip_drop", 0.5)


def _split(params: dict[str, Any]) -> Translated:
    """Separate the arguments of ``xgboost.train`` from its ``params``."""
    rounds = params.pop("num_boost_round", None)
    patience = params.pop("early_stopping_rounds", None)
    first_only = params.pop("first_metric_only", False)
    min_delta = params.pop("early_stopping_min_delta", 0.0)
    return Translated(params, rounds, patience, first_only, min_delta)


class _Given:
    """The parameters as given, and what several rules ask of them."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        given = {name: value for name, value in params.items() if value is not None}
        # The objective goes first: if it is refused, there is no point in complaining of its parameters.
        order = sorted(given, key=lambda name: _MAIN_NAME.get(name) != "objective")
        self.items = {name: given[name] for name in order}
        self._check_given_once()
        self.objective: Any = self.get("objective")
        self.lightgbm_objective = _lightgbm_objective(self.objective)
        """Main name of the objective in LightGBM's words; None if it is XGBoost's, a function or not given."""

    def _check_given_once(self) -> None:
        first: dict[str, str] = {}
        for name, value in self.items.items():
            other = first.setdefault(_MAIN_NAME.get(name, name), name)
            if _plain(self.items[other]) != _plain(value):
                raise ValueError(
                    f"{other}={self.items[other]!r} and {name}={value!r} are the same parameter; give one of them."
                )

    def names(self, main: str) -> list[str]:
        return [name for name in self.items if _MAIN_NAME.get(name) == main]

    def says(self, main: str) -> bool:
        return bool(self.names(main))

    def says_in_lightgbms_words(self, main: str) -> bool:
        return any(name not in _SHARED_NAMES for name in self.names(main))

    def get(self, main: str, default: Any = None) -> Any:
        return next((self.items[name] for name in self.names(main)), default)

    def has_xgboosts_objective(self) -> bool:
        return isinstance(self.objective, str) and self.lightgbm_objective is None

    def is_dart(self) -> bool:
        return "dart" in (self.items.get("booster"), str(self.get("boosting")).lower())

    def is_ranking(self) -> bool:
        return str(self.objective).startswith("rank:")

    def is_poisson(self) -> bool:
        return self.lightgbm_objective == "poisson" or self.objective == "count:poisson"

    def unlimited_depth(self) -> bool:
        # 0 is XGBoost's own way to say so, a negative number only LightGBM's.
        return self.says("max_depth") and _number(self.get("max_depth")) < 0


class _Result:
    """XGBoost's parameters as they are collected, each with what it was translated from."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, Any, str]] = {}

    def put(self, target: str, value: Any, source: str) -> None:
        key = _XGBOOST_ALIASES.get(target, target)
        if key not in self._found:
            self._found[key] = (target, value, source)
            return
        _, other, other_source = self._found[key]
        if _plain(other) != _plain(value):
            raise ValueError(f"{other_source} and {source} are the same parameter in XGBoost, {key}; give one of them.")

    def default(self, target: str, value: Any) -> None:
        self._found.setdefault(_XGBOOST_ALIASES.get(target, target), (target, value, target))

    def params(self) -> dict[str, Any]:
        return {target: value for target, value, _ in self._found.values()}


def _refuse(name: str, value: Any, why: str) -> NoReturn:
    raise ValueError(f"{name}={value!r} has no counterpart in XGBoost: {why}.")


class _NotANumberError(ValueError):
    """Raised with the value, caught where the name is known."""


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _NotANumberError(repr(value)) from None


def _integer(value: Any) -> int:
    return int(_number(value))


def _plain(value: Any) -> Any:
    """Return arrays and tuples as lists, which compare as a whole."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


# ----- conditions: when a value has no effect, or XGBoost does the same anyway


def _is(expected: bool | str) -> Callable[[Any], bool]:
    if isinstance(expected, bool):
        return lambda value: is_true(value) is expected
    return lambda value: str(value).lower() == expected


def _equals(expected: float) -> Callable[[Any], bool]:
    return lambda value: _number(value) == expected


def _at_most(limit: float) -> Callable[[Any], bool]:
    return lambda value: _number(value) <= limit


def _is_empty(value: Any) -> bool:
    return (len(value) == 0) if hasattr(value, "__len__") else False


def _is_auto(value: Any) -> bool:
    return _is_empty(value) or (isinstance(value, str) and value == "auto")


# ----- conversions of values


def _threads(value: Any) -> Any:
    return 0 if _number(value) <= 0 else value


def _zero_if_negative(value: Any) -> Any:
    # "No limit" is any number up to 0 in LightGBM, exactly 0 in XGBoost.
    return 0 if _number(value) < 0 else value


def _rounds_or_none(value: Any) -> int | None:
    return _integer(value) if _number(value) > 0 else None


def _monotone(value: Any) -> Any:
    # XGBoost takes a tuple, a dict by name, or "(1,0,-1)"; LightGBM a list, or "1,0,-1".
    if isinstance(value, str):
        return value if value.strip().startswith("(") else f"({value})"
    return value if isinstance(value, (dict, tuple)) else tuple(int(sign) for sign in value)


def _interactions(value: Any) -> Any:
    # XGBoost reads lists as column names; column numbers must be text, "[[0,1],[2]]". LightGBM's text is "[0,1],[2]".
    if isinstance(value, str):
        return value if value.replace(" ", "").startswith("[[") else f"[{value}]"
    groups = [list(group) for group in value]
    if any(isinstance(column, str) for group in groups for column in group):
        return value
    return str([[int(column) for column in group] for group in groups])


# ----- rules that depend on other parameters


def _num_leaves(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if given.items.get("tree_method") == "exact":
        raise ValueError(f"{name}={value!r} with tree_method='exact': XGBoost then knows max_depth only; use that.")
    return {"max_leaves": value}


def _bagging_fraction(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if _number(value) == 1 or _number(given.get("bagging_freq", 0)) > 0:
        return {"subsample": value}
    raise ValueError(
        f"{name}={value!r} has no effect in LightGBM without bagging_freq, so it is not clear what is meant. To draw "
        f"that share of the rows for every tree, write subsample={value!r}; else leave it out."
    )


def _bagging_freq(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if _number(value) > 1:
        _refuse(name, value, f"it draws rows anew for every tree; use {name}=1")
    share = given.items.get("subsample", 1)
    if _number(value) <= 0 and _number(share) != 1:
        raise ValueError(f"{name}={value!r} switches row sampling off, subsample={share!r} on; give one of them.")
    return {}


def _alpha(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if given.lightgbm_objective == "quantile":
        return {"quantile_alpha": value}
    if given.has_xgboosts_objective():
        return {"alpha": value}
    raise ValueError(
        f"{name}={value!r} is ambiguous: it is the quantile level in LightGBM and L1 regularisation in XGBoost. Write "
        "quantile_alpha for the level, reg_alpha for the regularisation."
    )


def _verbosity(name: str, value: Any, given: _Given) -> dict[str, Any]:
    # XGBoost's scale is one higher: 0 silent, 1 warnings, 2 information, 3 debugging.
    if _number(value) < 0:
        return {"verbosity": 0}
    if name == "verbosity" and given.lightgbm_objective is None:
        return {name: value}
    return {"verbosity": min(_integer(value), 2) + 1}


def _objective(name: str, value: Any, given: _Given) -> dict[str, Any]:
    main = _lightgbm_objective(value)
    if main is None:
        return {"objective": value}
    if OBJECTIVES[main].instead:
        _refuse(name, value, OBJECTIVES[main].instead)
    return {"objective": OBJECTIVES[main].to}


def _lightgbm_objective(value: Any) -> str | None:
    return _OBJECTIVE_NAMES.get(value.lower()) if isinstance(value, str) else None


def _metric(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if callable(value):
        return {"eval_metric": value}
    words = [word for word in _words(value) if word]
    if not words:
        # As in LightGBM, nothing named means the metric of the objective.
        return {}
    metrics = [_one_metric(name, word, given) for word in words if word.lower() not in NO_METRIC]
    if not metrics:
        return {"disable_default_eval_metric": True}
    metrics = list(dict.fromkeys(metrics))
    return {"eval_metric": metrics[0] if len(metrics) == 1 else metrics}


def _one_metric(name: str, word: str, given: _Given) -> str:
    main = _METRIC_NAMES.get(word.lower())
    if main is None:
        return word
    if METRICS[main].instead:
        _refuse(name, word, METRICS[main].instead)
    return METRICS[main].to.format(rho=given.get("tweedie_variance_power", 1.5))


def _words(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return [word.strip() for word in value.split(",")]
    # A set has no order; sorted, the same call gives the same model log every time.
    return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else [str(word) for word in value]


def _boosting(name: str, value: Any, given: _Given) -> dict[str, Any]:
    kind = str(value).lower()
    if kind in {"rf", "random_forest"}:
        _refuse(name, value, _FOREST)
    if kind == "goss":
        _refuse(name, value, _GOSS)
    return {"booster": {"gbdt": "gbtree", "gbrt": "gbtree"}.get(kind, kind)}


def _device(name: str, value: Any, given: _Given) -> dict[str, Any]:
    return {} if str(value).lower() == "cpu" else {"device": "cuda"}


def _uniform_drop(name: str, value: Any, given: _Given) -> dict[str, Any]:
    return {"sample_type": "uniform" if is_true(value) else "weighted"}


def _further_seed(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if given.get("seed") != value:
        _refuse(name, value, "it draws everything from one seed; use seed")
    return {}


# ----- the tables


@dataclass(frozen=True)
class Word:
    """One objective or metric of LightGBM's: its other names, XGBoost's name, or why there is none."""

    aliases: str = ""
    to: str = ""
    instead: str = ""


_RANKING = "the two engines form and weigh pairs differently; write objective='rank:ndcg' and XGBoost's parameters"

OBJECTIVES: dict[str, Word] = {
    "regression": Word(
        "regression_l2 l2 mean_squared_error mse l2_root root_mean_squared_error rmse", "reg:squarederror"
    ),
    "regression_l1": Word("l1 mean_absolute_error mae", "reg:absoluteerror"),
    "quantile": Word(to="reg:quantileerror"),
    "poisson": Word(to="count:poisson"),
    "gamma": Word(to="reg:gamma"),
    "tweedie": Word(to="reg:tweedie"),
    "binary": Word(to="binary:logistic"),
    # XGBoost's logistic loss takes labels anywhere between 0 and 1, so it is LightGBM's cross_entropy as well.
    "cross_entropy": Word("xentropy", "binary:logistic"),
    "multiclass": Word("softmax", "multi:softprob"),
    "huber": Word(instead="use reg:pseudohubererror, a smooth relative, with huber_slope"),
    "fair": Word(instead="use reg:pseudohubererror, or a function as objective"),
    "mape": Word(
        "mean_absolute_percentage_error",
        instead="use reg:absoluteerror with weights 1 / max(1, |label|), which is the same loss",
    ),
    "multiclassova": Word("multiclass_ova ova ovr", instead="use multi:softprob, or one binary model per class"),
    "cross_entropy_lambda": Word("xentlambda", instead="use cross_entropy if the weights are plain weights"),
    "lambdarank": Word(instead=_RANKING),
    "rank_xendcg": Word("xendcg xe_ndcg xe_ndcg_mart xendcg_mart", instead=_RANKING),
    "custom": Word("none null na", instead="give the function itself as objective"),
}
"""LightGBM's objectives. Any other text is taken for XGBoost's."""

METRICS: dict[str, Word] = {
    "rmse": Word("root_mean_squared_error l2_root", "rmse"),
    "l2": Word("mean_squared_error mse regression_l2 regression", instead="XGBoost has rmse, its root"),
    "l1": Word("mean_absolute_error mae regression_l1", "mae"),
    "quantile": Word(to="quantile"),
    # LightGBM divides by max(1, |label|), XGBoost by |label|.
    "mape": Word("mean_absolute_percentage_error", "mape"),
    # Up to terms that do not depend on the model.
    "poisson": Word(to="poisson-nloglik"),
    "gamma": Word(to="gamma-nloglik"),
    "gamma_deviance": Word(to="gamma-deviance"),
    "tweedie": Word(to="tweedie-nloglik@{rho}"),
    "auc": Word(to="auc"),
    "average_precision": Word(to="aucpr"),
    "binary_logloss": Word("binary", "logloss"),
    "binary_error": Word(to="error"),
    "cross_entropy": Word("xentropy", "logloss"),
    "multi_logloss": Word("multiclass softmax multiclassova multiclass_ova ova ovr", "mlogloss"),
    "multi_error": Word(to="merror"),
    "huber": Word(instead="use mphe, the pseudo-Huber error"),
    "fair": Word(instead="use mphe, or feval"),
    "r2": Word(instead="use rmse, which orders models in the same way"),
    "auc_mu": Word(instead="use auc, which averages over each class against the rest"),
    "kullback_leibler": Word("kldiv", instead="use logloss, which differs by a constant"),
    "cross_entropy_lambda": Word("xentlambda", instead="use logloss"),
    "ndcg": Word("lambdarank rank_xendcg xendcg xe_ndcg xe_ndcg_mart xendcg_mart", "ndcg"),
    "map": Word("mean_average_precision", "map"),
}
"""LightGBM's metrics. Any other text is taken for XGBoost's."""

NO_METRIC = frozenset({"none", "na", "null", "custom"})
"""What LightGBM reads as: no metric at all."""


@dataclass(frozen=True)
class Row:
    """One parameter of LightGBM's; a row with aliases only is a technicality that is dropped."""

    aliases: str = ""
    to: str | None = None
    """Name in XGBoost."""
    convert: Callable[[Any], Any] | None = None
    """Value in XGBoost, if it is another one."""
    rule: Callable[[str, Any, _Given], dict[str, Any]] | None = None
    """Instead of ``to``: XGBoost's parameters, where they depend on the value or on other parameters."""
    instead: str = ""
    """Why it cannot be translated, and what to use instead."""
    no_effect: Callable[[Any], bool] | None = None
    """Values that are dropped, because XGBoost does the same without."""
    only_if: Callable[[_Given], bool] | None = None
    """When LightGBM reads the parameter at all; else it is dropped."""


_FOREST = "use num_parallel_tree with subsample, colsample_bynode, learning_rate=1 and num_boost_round=1"
_GOSS = "use subsample, or sampling_method='gradient_based' where XGBoost supports it"
_DISTRIBUTED = "distributed training is set up outside its parameters; train on one machine"
_CATEGORIES = "its treatment of categories is set by max_cat_to_onehot and max_cat_threshold"

TABLE: dict[str, Row] = {
    # --- the model
    "objective": Row("app loss application objective_type", rule=_objective),
    "boosting": Row("boost boosting_type", rule=_boosting),
    "num_class": Row("num_classes", to="num_class"),
    "num_iterations": Row(
        "n_iter nrounds max_iter num_tree num_round num_trees num_rounds n_estimators num_iteration num_boost_round",
        to="num_boost_round",
        convert=_integer,
    ),
    "learning_rate": Row("eta shrinkage_rate", to="learning_rate"),
    "num_leaves": Row("max_leaf num_leaf max_leaves max_leaf_nodes", rule=_num_leaves),
    "max_depth": Row(to="max_depth", convert=_zero_if_negative),
    # XGBoost's hessian for several classes is 2 p (1 − p), LightGBM's K / (K − 1) p (1 − p); elsewhere they agree.
    "min_sum_hessian_in_leaf": Row(
        "min_hessian min_sum_hessian min_child_weight min_sum_hessian_per_leaf", to="min_child_weight"
    ),
    "lambda_l1": Row("reg_alpha l1_regularization", to="reg_alpha"),
    "lambda_l2": Row("lambda reg_lambda l2_regularization", to="reg_lambda"),
    # Both engines measure a gain as the sum of G² / (H + λ) over the children minus the parent, without the factor ½
    # of XGBoost's paper. LightGBM is stricter: once no split of a column reaches the threshold, it does not look at the
    # column further down.
    "min_gain_to_split": Row("min_split_gain", to="gamma"),
    "max_delta_step": Row("max_leaf_output max_tree_output", to="max_delta_step", convert=_zero_if_negative),
    "monotone_constraints": Row(
        "mc monotonic_cst monotone_constraint", to="monotone_constraints", convert=_monotone, no_effect=_is_empty
    ),
    # A column in no group is never used by LightGBM; XGBoost may split on it, but not together with others.
    "interaction_constraints": Row(to="interaction_constraints", convert=_interactions, no_effect=_is_empty),
    "max_bin": Row("max_bins", to="max_bin"),
    "max_cat_to_onehot": Row(to="max_cat_to_onehot"),
    "max_cat_threshold": Row(to="max_cat_threshold"),
    # --- sampling
    "bagging_fraction": Row("bagging sub_row subsample", rule=_bagging_fraction),
    "bagging_freq": Row("subsample_freq", rule=_bagging_freq),
    "feature_fraction": Row("sub_feature colsample_bytree", to="colsample_bytree"),
    "feature_fraction_bynode": Row("colsample_bynode sub_feature_bynode", to="colsample_bynode"),
    "seed": Row("random_seed random_state", to="seed"),
    "bagging_seed": Row("bagging_fraction_seed", rule=_further_seed),
    "feature_fraction_seed": Row(rule=_further_seed),
    "drop_seed": Row(rule=_further_seed, only_if=_Given.is_dart),
    # --- dart
    "drop_rate": Row("rate_drop", to="rate_drop", only_if=_Given.is_dart),
    "skip_drop": Row(to="skip_drop"),
    "uniform_drop": Row(rule=_uniform_drop, only_if=_Given.is_dart),
    "max_drop": Row(
        instead="it drops any number of trees; use a smaller drop_rate",
        no_effect=_at_most(0),
        only_if=_Given.is_dart,
    ),
    "xgboost_dart_mode": Row(
        instead="it always weighs dropped trees its own way; leave it out",
        no_effect=_is(True),
        only_if=_Given.is_dart,
    ),
    # --- objectives
    "alpha": Row(rule=_alpha),
    "tweedie_variance_power": Row(to="tweedie_variance_power"),
    # XGBoost uses the one number for the hessian, as LightGBM does, and as limit of a leaf's value.
    "poisson_max_delta_step": Row(to="max_delta_step", only_if=_Given.is_poisson),
    "scale_pos_weight": Row(to="scale_pos_weight"),
    "is_unbalance": Row(
        "unbalance unbalanced_sets",
        instead="use scale_pos_weight = number of negatives / number of positives",
        no_effect=_is(False),
    ),
    "sigmoid": Row(instead="its sigmoid has slope 1", no_effect=_equals(1)),
    "boost_from_average": Row(
        instead="write the start as base_score, in units of the prediction: 0 for squared error, 0.5 for "
        "binary:logistic, 1 for count:poisson",
        no_effect=_is(True),
    ),
    "reg_sqrt": Row(instead="take the root of the label yourself", no_effect=_is(False)),
    "fair_c": Row(),
    # --- metrics and arguments of train
    "metric": Row("metrics metric_types", rule=_metric),
    "early_stopping_round": Row(
        "early_stopping n_iter_no_change early_stopping_rounds", to="early_stopping_rounds", convert=_rounds_or_none
    ),
    "early_stopping_min_delta": Row(to="early_stopping_min_delta", convert=_number),
    "first_metric_only": Row(to="first_metric_only", convert=is_true),
    "multi_error_top_k": Row(instead="its merror counts the first choice only", no_effect=_equals(1)),
    "eval_at": Row(
        "map_at ndcg_at map_eval_at ndcg_eval_at",
        instead="write the position with the metric, as in 'ndcg@5'",
        only_if=_Given.is_ranking,
    ),
    "auc_mu_weights": Row(),
    "is_provide_training_metric": Row("train_metric training_metric is_training_metric"),
    "metric_freq": Row("output_freq"),
    # --- the machine
    "num_threads": Row("n_jobs nthread nthreads num_thread", to="nthread", convert=_threads),
    "verbosity": Row("verbose", rule=_verbosity),
    "device_type": Row("device", rule=_device),
    "gpu_device_id": Row(instead="write device='cuda:0', 'cuda:1' and so on", no_effect=_at_most(-1)),
    "gpu_device_id_list": Row(instead="write device='cuda:0', 'cuda:1' and so on", no_effect=_is_empty),
    "num_gpu": Row(instead=_DISTRIBUTED, no_effect=_at_most(1)),
    "num_machines": Row("num_machine", instead=_DISTRIBUTED, no_effect=_at_most(1)),
    "machines": Row("nodes workers", instead=_DISTRIBUTED, no_effect=_is_empty),
    "machine_list_filename": Row("mlist machine_list machine_list_file", instead=_DISTRIBUTED, no_effect=_is_empty),
    # --- what changes the model and XGBoost does not have
    "min_data_in_leaf": Row(
        "min_data min_samples_leaf min_child_samples min_data_per_leaf",
        instead="it limits the hessian weight of a leaf, not its rows; use min_child_weight (the number of rows for "
        "squared error without weights)",
        no_effect=_at_most(1),
    ),
    "data_sample_strategy": Row(instead=_GOSS, no_effect=_is("bagging")),
    "pos_bagging_fraction": Row(
        "pos_bagging pos_sub_row pos_subsample",
        instead="use subsample, and scale_pos_weight to balance the classes",
        no_effect=_equals(1),
    ),
    "neg_bagging_fraction": Row(
        "neg_bagging neg_sub_row neg_subsample",
        instead="use subsample, and scale_pos_weight to balance the classes",
        no_effect=_equals(1),
    ),
    "bagging_by_query": Row(instead="it draws rows one by one", no_effect=_is(False)),
    "extra_trees": Row(
        "extra_tree", instead="use colsample_bynode, another way to randomise splits", no_effect=_is(False)
    ),
    "linear_tree": Row("linear_trees", instead="its leaves are constants", no_effect=_is(False)),
    "path_smooth": Row(instead="use reg_lambda, which shrinks leaves towards 0", no_effect=_equals(0)),
    "cat_l2": Row(instead=_CATEGORIES, no_effect=_equals(0)),
    "cat_smooth": Row(instead=_CATEGORIES, no_effect=_equals(0)),
    "min_data_per_group": Row(instead=_CATEGORIES, no_effect=_at_most(1)),
    "categorical_feature": Row(
        "cat_column cat_feature categorical_column categorical_features",
        instead="it is no parameter; name the categorical columns in the Dataset",
        no_effect=_is_auto,
    ),
    "max_bin_by_feature": Row(instead="it has one max_bin for all columns", no_effect=_is_empty),
    "min_data_in_bin": Row(instead="use a smaller max_bin", no_effect=_at_most(1)),
    "forcedbins_filename": Row(instead="round the column yourself", no_effect=_is_empty),
    "forcedsplits_filename": Row(
        "fs forced_splits forced_splits_file forced_splits_filename",
        instead="it chooses all splits itself",
        no_effect=_is_empty,
    ),
    "feature_contri": Row(
        "fc fp feature_contrib feature_penalty",
        instead="its feature_weights set how often a column is drawn, not what its gain counts",
        no_effect=_is_empty,
    ),
    "monotone_constraints_method": Row(
        "mc_method monotone_constraining_method",
        instead="it knows one method, close to 'basic'",
        no_effect=_is("basic"),
    ),
    "monotone_penalty": Row(
        "mc_penalty ms_penalty monotone_splits_penalty",
        instead="it allows monotone splits at any depth",
        no_effect=_equals(0),
    ),
    "use_missing": Row(instead="it always sends missing values their own way; fill them in", no_effect=_is(True)),
    "zero_as_missing": Row(instead="it is no parameter; replace the zeros by NaN", no_effect=_is(False)),
    "use_quantized_grad": Row(instead="it computes with full gradients", no_effect=_is(False)),
    "cegb_penalty_split": Row(instead="use min_gain_to_split, a penalty per split", no_effect=_equals(0)),
    "cegb_penalty_feature_lazy": Row(instead="leave costly columns out", no_effect=_is_empty),
    "cegb_penalty_feature_coupled": Row(instead="leave costly columns out", no_effect=_is_empty),
    "input_model": Row("model_in model_input", instead="it is no parameter; use init_model", no_effect=_is_empty),
    # --- ranking
    "label_gain": Row(instead="use ndcg_exp_gain", only_if=_Given.is_ranking),
    "lambdarank_norm": Row(instead="use lambdarank_normalization", only_if=_Given.is_ranking),
    "lambdarank_truncation_level": Row(instead="use lambdarank_num_pair_per_sample", only_if=_Given.is_ranking),
    "lambdarank_position_bias_regularization": Row(instead="use lambdarank_unbiased", only_if=_Given.is_ranking),
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
    # --- technicalities: speed, memory, files, the command line, prediction
    "bin_construct_sample_cnt": Row("subsample_for_bin"),
    "config": Row("config_file"),
    "convert_model": Row("convert_model_file"),
    "convert_model_language": Row(),
    "data": Row("train train_data data_filename train_data_file"),
    "data_random_seed": Row("data_seed"),
    "deterministic": Row(),
    "enable_bundle": Row("bundle is_enable_bundle"),
    "feature_pre_filter": Row(),
    "force_col_wise": Row(),
    "force_row_wise": Row(),
    "gpu_platform_id": Row(),
    "gpu_use_dp": Row(),
    "group_column": Row("group query group_id query_id query_column"),
    "header": Row("has_header"),
    "histogram_pool_size": Row("hist_pool_size"),
    "ignore_column": Row("blacklist ignore_feature"),
    "is_enable_sparse": Row("sparse is_sparse enable_sparse"),
    "label_column": Row("label"),
    "local_listen_port": Row("port local_port"),
    "num_iteration_predict": Row(),
    "output_model": Row("model_out model_output"),
    "output_result": Row("name_pred pred_name predict_name predict_result prediction_name prediction_result"),
    "parser_config_file": Row(),
    "pre_partition": Row("is_pre_partition"),
    "precise_float_parser": Row(),
    "pred_early_stop": Row(),
    "pred_early_stop_freq": Row(),
    "pred_early_stop_margin": Row(),
    "predict_contrib": Row("contrib is_predict_contrib"),
    "predict_disable_shape_check": Row(),
    "predict_leaf_index": Row("leaf_index is_predict_leaf_index"),
    "predict_raw_score": Row("raw_score predict_rawscore is_predict_raw_score"),
    "refit_decay_rate": Row(),
    "save_binary": Row("is_save_binary is_save_binary_file"),
    "saved_feature_importance_type": Row(),
    "snapshot_freq": Row("save_period"),
    "start_iteration_predict": Row(),
    "task": Row("task_type"),
    "time_out": Row(),
    "top_k": Row("topk"),
    "tree_learner": Row("tree tree_type tree_learner_type"),
    "two_round": Row("two_round_loading use_two_round_loading"),
    "valid": Row("test test_data valid_data test_data_file valid_data_file valid_filenames"),
    "weight_column": Row("weight"),
}
"""All of LightGBM's parameters, under their main names."""

_SHARED_NAMES = frozenset({
    "colsample_bynode", "colsample_bytree", "device", "eta", "lambda", "learning_rate", "max_bin", "max_cat_threshold",
    "max_cat_to_onehot", "max_leaves", "min_child_weight", "n_jobs", "nthread", "num_class", "random_state",
    "rate_drop", "reg_alpha", "reg_lambda", "scale_pos_weight", "seed", "skip_drop", "subsample", "top_k",
    "tweedie_variance_power",
})  # fmt: skip
"""LightGBM's names that are XGBoost's too and pass through.

XGBoost also has alpha, interaction_constraints, max_delta_step, max_depth, monotone_constraints, objective and
verbosity; they are not listed because the table reads values of theirs that only LightGBM knows.
"""

_XGBOOST_ALIASES = {
    "alpha": "reg_alpha",
    "eta": "learning_rate",
    "lambda": "reg_lambda",
    "min_split_loss": "gamma",
    "n_jobs": "nthread",
    "random_state": "seed",
}


def _by_name(table: Mapping[str, Row] | Mapping[str, Word]) -> dict[str, str]:
    """Return the main name for every name in a table."""
    return {name: main for main, row in table.items() for name in (main, *row.aliases.split())}


_MAIN_NAME = _by_name(TABLE)
_OBJECTIVE_NAMES = _by_name(OBJECTIVES)
_METRIC_NAMES = _by_name(METRICS)
