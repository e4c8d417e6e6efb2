"""LightGBM's parameters, translated into XGBoost's.

With ``engine="xgboost"`` parameters may be XGBoost's own, which pass through unchanged, or LightGBM's, which are
translated by the tables below. Three principles decide every case:

- A name that XGBoost has means what it means in XGBoost. Where LightGBM gives the same name another meaning, the name
  of the objective shows which engine is meant. Where it does not, the parameter is refused.
- What changes the model is translated or refused, never ignored. A value is dropped only if XGBoost does the same
  anyway, or if it does not affect what is learned.
- Defaults are XGBoost's: what is not given is not translated. Only where something is optional, rate and size of trees
  are LightGBM's (:func:`with_defaults_under_consent`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from .names import MAIN_METRIC, MAIN_NAME, PARAMETERS, XGBOOST_PARAMETERS, is_true, main_objective

SHARED_NAMES = (XGBOOST_PARAMETERS & MAIN_NAME.keys()) - {
    # XGBoost has these as well, but some of their values are LightGBM's only: the table translates them.
    "alpha", "interaction_constraints", "max_delta_step", "max_depth", "monotone_constraints", "objective", "verbosity",
    # A field of XGBoost's model that users cannot set.
    "boost_from_average",
}  # fmt: skip
"""Names that both engines have, which pass through."""

_XGBOOST_ALIASES = {
    "alpha": "reg_alpha",
    "eta": "learning_rate",
    "lambda": "reg_lambda",
    "min_split_loss": "gamma",
    "n_jobs": "nthread",
    "random_state": "seed",
}


@dataclass(frozen=True)
class Translated:
    """What ``xgboost.train`` is called with."""

    params: dict[str, Any]
    num_boost_round: int | None = None
    early_stopping_rounds: int | None = None
    first_metric_only: bool = False
    """Stop early on the first metric; XGBoost's default is the last one."""
    early_stopping_min_delta: float = 0.0


def to_xgboost(params: Mapping[str, Any]) -> Translated:
    """Translate parameters, given under LightGBM's or XGBoost's names, into XGBoost's.

    Parameters
    ----------
    params : mapping
        Parameter names and values; not changed. None counts as not given. Unknown names pass through; XGBoost reports
        them itself.

    Returns
    -------
    Translated
        The ``params`` of ``xgboost.train``, and those of LightGBM's parameters that are separate arguments there.

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
    found: dict[str, tuple[str, Any, str]] = {}  # XGBoost's main name → name there, value, where it comes from
    for name, value in given.items.items():
        source = f"{name}={value!r}"
        try:
            translated = _translate(name, value, given)
        except _NotANumberError as error:
            raise ValueError(f"{source}: expected {error}.") from None
        for target, new in translated.items():
            key = _XGBOOST_ALIASES.get(target, target)
            _, other, other_source = found.setdefault(key, (target, new, source))
            if other is not new and _plain(other) != _plain(new):
                raise ValueError(
                    f"{other_source} and {source} are the same parameter in XGBoost, {key}; give one of them."
                )
    for target, new in _implied(given).items():
        found.setdefault(target, (target, new, ""))
    result = {target: value for target, value, _ in found.values()}
    rounds, patience = result.pop("num_boost_round", None), result.pop("early_stopping_rounds", None)
    first_only, min_delta = result.pop("first_metric_only", False), result.pop("early_stopping_min_delta", 0.0)
    return Translated(result, rounds, patience, first_only, min_delta)


_SIZE_OF_TREES = {"grow_policy": "lossguide", "max_leaves": 31, "max_depth": 0}


def with_defaults_under_consent(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return XGBoost's parameters with the rate and the size of trees that LightGBM has by default, unless given.

    XGBoost's own rate, 0.3, overfits before the 100th round (study ``xgboost_defaults``). Of the size nothing is set if
    any part of it is given: a depth alone means trees of that depth.

    Examples
    --------
    >>> with_defaults_under_consent({"max_depth": 4})
    {'learning_rate': 0.1, 'max_depth': 4}
    """
    given = {_XGBOOST_ALIASES.get(name, name) for name, value in params.items() if value is not None}
    rate = {} if "learning_rate" in given else {"learning_rate": 0.1}
    return rate | ({} if given & _SIZE_OF_TREES.keys() else _SIZE_OF_TREES) | dict(params)


def _translate(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if name not in MAIN_NAME or name in SHARED_NAMES:
        return {name: value}
    row = TABLE[MAIN_NAME[name]]
    if (row.only_if is not None and not row.only_if(given)) or (row.no_effect is not None and row.no_effect(value)):
        return {}
    if row.instead:
        _refuse(name, value, row.instead)
    if row.rule is not None:
        return row.rule(name, value, given)
    if row.to is None:
        return {}
    return {row.to: value if row.convert is None else row.convert(value)}


def _implied(given: _Given) -> dict[str, Any]:
    """Return defaults of LightGBM that go with some of its names, where XGBoost's are different."""
    implied: dict[str, Any] = {}
    leaves_first = given.has_in_lightgbms_words("num_leaves")
    # XGBoost writes an unlimited depth as 0; a negative number is LightGBM's way.
    if not given.names("num_leaves") and given.names("max_depth") and _number(given.get("max_depth")) < 0:
        # LightGBM is then limited by its default num_leaves. XGBoost would grow until no row can be split.
        implied["max_leaves"] = 31
        leaves_first = True
    if leaves_first:
        implied |= {"grow_policy": "lossguide", "max_depth": 0}
    if given.lightgbm_objective == "quantile":
        implied["quantile_alpha"] = 0.9
    if given.has_in_lightgbms_words("boosting") and given.is_dart():
        # By default XGBoost's dart drops no trees, so it would be plain boosting.
        implied |= {"rate_drop": 0.1, "skip_drop": 0.5}
    return implied


class _Given:
    """The given parameters, by LightGBM's main names."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        given = {name: value for name, value in params.items() if value is not None}
        # The objective goes first: if it is refused, there is no point in complaining about its parameters.
        order = sorted(given, key=lambda name: MAIN_NAME.get(name) != "objective")
        self.items = {name: given[name] for name in order}
        first: dict[str, str] = {}
        for name, value in self.items.items():
            other = first.setdefault(MAIN_NAME.get(name, name), name)
            if other != name and _plain(given[other]) != _plain(value):
                raise ValueError(
                    f"{other}={given[other]!r} and {name}={value!r} are the same parameter; give one of them."
                )
        self.objective: Any = self.get("objective")
        self.lightgbm_objective = main_objective(self.objective)
        """LightGBM's main name of the objective; None if it is XGBoost's, a function or not given."""

    def names(self, main: str) -> list[str]:
        return [name for name in self.items if MAIN_NAME.get(name) == main]

    def get(self, main: str, default: Any = None) -> Any:
        return next((self.items[name] for name in self.names(main)), default)

    def has_in_lightgbms_words(self, main: str) -> bool:
        return any(name not in SHARED_NAMES for name in self.names(main))

    def is_dart(self) -> bool:
        return "dart" in (self.items.get("booster"), str(self.get("boosting")).lower())

    def is_ranking(self) -> bool:
        return str(self.objective).startswith("rank:")

    def is_poisson(self) -> bool:
        return self.lightgbm_objective == "poisson" or self.objective == "count:poisson"


def _plain(value: Any) -> Any:
    """Return arrays and tuples as lists, so that ``==`` gives a single answer."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _refuse(name: str, value: Any, instead: str) -> NoReturn:
    raise ValueError(f"{name}={value!r} has no counterpart in XGBoost: {instead}.")


class _NotANumberError(ValueError):
    """Holds what was expected and the value; caught where the name of the parameter is known."""


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _NotANumberError(f"a number, got {value!r}") from None


def _integer(value: Any) -> int:
    number = _number(value)
    if not number.is_integer():  # infinite, or not a number at all
        raise _NotANumberError(f"a whole number, got {value!r}")
    return int(number)


# ----- values that have no effect, or that XGBoost takes for granted


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


def _signs(value: Any) -> Any:
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


# ----- rules: translations that depend on the name, or on other parameters


def _objective(name: str, value: Any, given: _Given) -> dict[str, Any]:
    main = main_objective(value)
    return {"objective": value if main is None else _word(name, value, OBJECTIVES[main])}


def _boosting(name: str, value: Any, given: _Given) -> dict[str, Any]:
    kind = str(value).lower()
    return {"booster": _word(name, value, BOOSTING[kind]) if kind in BOOSTING else kind}


def _metric(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if callable(value):
        return {"eval_metric": value}
    words = [word for word in _metric_names(value) if word]
    if not words:
        # As in LightGBM, no name means the metric of the objective.
        return {}
    rho = given.get("tweedie_variance_power", 1.5)
    metrics: dict[str, None] = {}  # a set that keeps the order
    for word in words:
        if word.lower() not in _NO_METRIC:
            main = MAIN_METRIC.get(word.lower())
            metrics[word if main is None else _word(name, word, METRICS[main]).format(rho=rho)] = None
    if not metrics:
        return {"disable_default_eval_metric": True}
    return {"eval_metric": list(metrics) if len(metrics) > 1 else next(iter(metrics))}


def _metric_names(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return [word.strip() for word in value.split(",")]
    # A set has no order; sorting makes the same call give the same log every time.
    return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else [str(word) for word in value]


def _word(name: str, value: Any, row: Row) -> str:
    if row.to is None:
        _refuse(name, value, row.instead)
    return row.to


def _num_leaves(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if given.items.get("tree_method") == "exact":
        raise ValueError(f"{name}={value!r} with tree_method='exact': XGBoost then has only max_depth; use that.")
    return {"max_leaves": value}


def _bagging_fraction(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if _number(value) == 1 or _number(given.get("bagging_freq", 0)) > 0:
        return {"subsample": value}
    raise ValueError(
        f"{name}={value!r} has no effect in LightGBM without bagging_freq, so it is not clear what is meant. To draw "
        f"that share of the rows for every tree, write subsample={value!r}; otherwise leave it out."
    )


def _bagging_freq(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if _number(value) > 1:
        _refuse(name, value, f"it draws new rows for every tree; use {name}=1")
    share = given.items.get("subsample", 1)
    if _number(value) <= 0 and _number(share) != 1:
        raise ValueError(
            f"{name}={value!r} switches row sampling off, but subsample={share!r} switches it on; give one of them."
        )
    return {}


def _further_seed(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if given.get("seed") != value:
        _refuse(name, value, "it draws everything from one seed; use seed")
    return {}


def _alpha(name: str, value: Any, given: _Given) -> dict[str, Any]:
    if given.lightgbm_objective == "quantile":
        return {"quantile_alpha": value}
    if isinstance(given.objective, str) and given.lightgbm_objective is None:
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


# ----- the tables


@dataclass(frozen=True)
class Row:
    """A LightGBM parameter, or a word it takes as a value: its name in XGBoost, or the reason why it has none."""

    to: str | None = None
    """Name in XGBoost; an empty row is dropped."""
    convert: Callable[[Any], Any] | None = None
    """Converts the value, where XGBoost's is different."""
    rule: Callable[[str, Any, _Given], dict[str, Any]] | None = None
    """Instead of ``to``: returns XGBoost's parameters, where they depend on the value or on other parameters."""
    instead: str = ""
    """Why it cannot be translated, and what to use instead."""
    no_effect: Callable[[Any], bool] | None = None
    """Whether a value is dropped, because XGBoost does the same without it."""
    only_if: Callable[[_Given], bool] | None = None
    """Whether LightGBM reads the parameter at all; if not, it is dropped."""


def _no(
    instead: str, no_effect: Callable[[Any], bool] | None = None, only_if: Callable[[_Given], bool] | None = None
) -> Row:
    """Return the row of what XGBoost does not have."""
    return Row(instead=instead, no_effect=no_effect, only_if=only_if)


_RANKING = "the two engines form and weigh pairs differently; write objective='rank:ndcg' and XGBoost's parameters"
_FOREST = "use num_parallel_tree with subsample, colsample_bynode, learning_rate=1 and num_boost_round=1"
_GOSS = "use subsample, or sampling_method='gradient_based' where XGBoost supports it"
_CUDA = "write device='cuda:0', 'cuda:1' and so on"
_BALANCE = "use subsample, and scale_pos_weight to balance the classes"
_CATEGORIES = "its treatment of categories is set by max_cat_to_onehot and max_cat_threshold"
_DISTRIBUTED = (
    "distributed training is set up outside its parameters; use pucboost.dask, or a SharedPlan in workers that "
    "xgboost.collective connects"
)

OBJECTIVES: dict[str, Row] = {
    "regression": Row("reg:squarederror"),
    "regression_l1": Row("reg:absoluteerror"),
    "quantile": Row("reg:quantileerror"),
    "poisson": Row("count:poisson"),
    "gamma": Row("reg:gamma"),
    "tweedie": Row("reg:tweedie"),
    "binary": Row("binary:logistic"),
    # XGBoost's logistic loss takes labels anywhere between 0 and 1, so it is LightGBM's cross_entropy as well.
    "cross_entropy": Row("binary:logistic"),
    "multiclass": Row("multi:softprob"),
    "huber": _no("use reg:pseudohubererror, a smooth relative, with huber_slope"),
    "fair": _no("use reg:pseudohubererror, or a function as objective"),
    "mape": _no("use reg:absoluteerror with weights 1 / max(1, |label|), which is the same loss"),
    "multiclassova": _no("use multi:softprob, or one binary model per class"),
    "cross_entropy_lambda": _no("use cross_entropy if the weights are plain weights"),
    "lambdarank": _no(_RANKING),
    "rank_xendcg": _no(_RANKING),
    "custom": _no("give the function itself as objective"),
}
"""LightGBM's objectives. Any other text is taken as an XGBoost name."""

METRICS: dict[str, Row] = {
    "rmse": Row("rmse"),
    "l2": _no("XGBoost has rmse, its root"),
    "l1": Row("mae"),
    "quantile": Row("quantile"),
    # LightGBM divides by max(1, |label|), XGBoost by |label|.
    "mape": Row("mape"),
    # Up to terms that do not depend on the model.
    "poisson": Row("poisson-nloglik"),
    "gamma": Row("gamma-nloglik"),
    "gamma_deviance": Row("gamma-deviance"),
    "tweedie": Row("tweedie-nloglik@{rho}"),
    "auc": Row("auc"),
    "average_precision": Row("aucpr"),
    "binary_logloss": Row("logloss"),
    "binary_error": Row("error"),
    "cross_entropy": Row("logloss"),
    "multi_logloss": Row("mlogloss"),
    "multi_error": Row("merror"),
    "huber": _no("use mphe, the pseudo-Huber error"),
    "fair": _no("use mphe, or feval"),
    "r2": _no("use rmse, which orders models in the same way"),
    "auc_mu": _no("use auc, which averages over each class against the rest"),
    "kullback_leibler": _no("use logloss, which differs by a constant"),
    "cross_entropy_lambda": _no("use logloss"),
    "ndcg": Row("ndcg"),
    "map": Row("map"),
}
"""LightGBM's metrics. Any other text is taken as an XGBoost name."""

_NO_METRIC = frozenset({"none", "na", "null", "custom"})  # names that LightGBM reads as no metric at all

BOOSTING: dict[str, Row] = {
    "gbdt": Row("gbtree"),
    "gbrt": Row("gbtree"),
    "rf": _no(_FOREST),
    "random_forest": _no(_FOREST),
    "goss": _no(_GOSS),
}

_dart, _ranking = _Given.is_dart, _Given.is_ranking

TABLE: dict[str, Row] = {
    **{name: Row(name) for name in SHARED_NAMES if name in PARAMETERS},
    # --- the model
    "objective": Row(rule=_objective),
    "boosting": Row(rule=_boosting),
    "num_iterations": Row("num_boost_round", _integer),
    "num_leaves": Row(rule=_num_leaves),
    "max_depth": Row("max_depth", _zero_if_negative),
    # XGBoost's hessian for several classes is 2 p (1 − p), LightGBM's K / (K − 1) p (1 − p); elsewhere they agree.
    "min_sum_hessian_in_leaf": Row("min_child_weight"),
    "lambda_l1": Row("reg_alpha"),
    "lambda_l2": Row("reg_lambda"),
    # Both engines measure a gain as the sum of G² / (H + λ) over the children minus the parent, without the factor ½
    # of XGBoost's paper. LightGBM is stricter: once no split of a column reaches the threshold, it does not look at the
    # column further down.
    "min_gain_to_split": Row("gamma"),
    "max_delta_step": Row("max_delta_step", _zero_if_negative),
    "monotone_constraints": Row("monotone_constraints", _signs, no_effect=_is_empty),
    # LightGBM never uses a column that is in no group. XGBoost may split on it, but not together with others.
    "interaction_constraints": Row("interaction_constraints", _interactions, no_effect=_is_empty),
    # --- sampling
    "bagging_fraction": Row(rule=_bagging_fraction),
    "bagging_freq": Row(rule=_bagging_freq),
    "feature_fraction": Row("colsample_bytree"),
    "feature_fraction_bynode": Row("colsample_bynode"),
    "bagging_seed": Row(rule=_further_seed),
    "feature_fraction_seed": Row(rule=_further_seed),
    "drop_seed": Row(rule=_further_seed, only_if=_dart),
    # --- dart
    "drop_rate": Row("rate_drop", only_if=_dart),
    "uniform_drop": Row("sample_type", lambda value: "uniform" if is_true(value) else "weighted", only_if=_dart),
    "max_drop": _no("it drops any number of trees; use a smaller drop_rate", _at_most(0), only_if=_dart),
    "xgboost_dart_mode": _no("it always weighs dropped trees its own way; leave it out", _is(True), only_if=_dart),
    # --- objectives
    "alpha": Row(rule=_alpha),
    # XGBoost uses this number for the hessian, as LightGBM does, and also to limit a leaf's value.
    "poisson_max_delta_step": Row("max_delta_step", only_if=_Given.is_poisson),
    "is_unbalance": _no("use scale_pos_weight = number of negatives / number of positives", _is(False)),
    "sigmoid": _no("its sigmoid has slope 1; leave it out", _equals(1)),
    "boost_from_average": _no(
        "write the start as base_score, in units of the prediction: 0 for squared error, 0.5 for "
        "binary:logistic, 1 for count:poisson",
        _is(True),
    ),
    "reg_sqrt": _no("take the root of the label yourself", _is(False)),
    # --- metrics and arguments of train
    "metric": Row(rule=_metric),
    "early_stopping_round": Row("early_stopping_rounds", _rounds_or_none),
    "early_stopping_min_delta": Row("early_stopping_min_delta", _number),
    "first_metric_only": Row("first_metric_only", is_true),
    "multi_error_top_k": _no("its merror counts the first choice only; leave it out", _equals(1)),
    "eval_at": _no("write the position with the metric, as in 'ndcg@5'", only_if=_ranking),
    # --- the machine
    "num_threads": Row("nthread", _threads),
    "verbosity": Row(rule=_verbosity),
    "device_type": Row("device", lambda value: "cuda", no_effect=_is("cpu")),
    "gpu_device_id": _no(_CUDA, _at_most(-1)),
    "gpu_device_id_list": _no(_CUDA, _is_empty),
    "num_gpu": _no(_DISTRIBUTED, _at_most(1)),
    "num_machines": _no(_DISTRIBUTED, _at_most(1)),
    "machines": _no(_DISTRIBUTED, _is_empty),
    "machine_list_filename": _no(_DISTRIBUTED, _is_empty),
    # --- parameters that change the model and that XGBoost lacks
    "min_data_in_leaf": _no(
        "it limits the hessian weight of a leaf, not its rows; use min_child_weight (the number of rows for "
        "squared error without weights)",
        _at_most(1),
    ),
    "data_sample_strategy": _no(_GOSS, _is("bagging")),
    "pos_bagging_fraction": _no(_BALANCE, _equals(1)),
    "neg_bagging_fraction": _no(_BALANCE, _equals(1)),
    "bagging_by_query": _no("it draws rows one by one; leave it out", _is(False)),
    "extra_trees": _no("use colsample_bynode, another way to randomise splits", _is(False)),
    "linear_tree": _no("its leaves are constants; leave it out", _is(False)),
    "path_smooth": _no("use reg_lambda, which shrinks leaves towards 0", _equals(0)),
    "cat_l2": _no(_CATEGORIES, _equals(0)),
    "cat_smooth": _no(_CATEGORIES, _equals(0)),
    "min_data_per_group": _no(_CATEGORIES, _at_most(1)),
    "categorical_feature": _no("it is not a parameter there; name the categorical columns in the Dataset", _is_auto),
    "max_bin_by_feature": _no("it has one max_bin for all columns; use that", _is_empty),
    "min_data_in_bin": _no("use a smaller max_bin", _at_most(1)),
    "forcedbins_filename": _no("round the column yourself", _is_empty),
    "forcedsplits_filename": _no("it chooses all splits itself; leave it out", _is_empty),
    "feature_contri": _no(
        "its feature_weights set how often a column is drawn, not what its gain counts; leave it out", _is_empty
    ),
    "monotone_constraints_method": _no("it has one method, close to 'basic'; leave it out", _is("basic")),
    "monotone_penalty": _no("it allows monotone splits at any depth; leave it out", _equals(0)),
    "use_missing": _no("it always sends missing values their own way; fill them in", _is(True)),
    "zero_as_missing": _no("it is not a parameter there; replace the zeros by NaN", _is(False)),
    "use_quantized_grad": _no("it computes with full gradients; leave it out", _is(False)),
    "cegb_penalty_split": _no("use min_gain_to_split, a penalty per split", _equals(0)),
    "cegb_penalty_feature_lazy": _no("leave costly columns out", _is_empty),
    "cegb_penalty_feature_coupled": _no("leave costly columns out", _is_empty),
    "input_model": _no("it is not a parameter there; use init_model", _is_empty),
    # --- ranking
    "label_gain": _no("use ndcg_exp_gain", only_if=_ranking),
    "lambdarank_norm": _no("use lambdarank_normalization", only_if=_ranking),
    "lambdarank_truncation_level": _no("use lambdarank_num_pair_per_sample", only_if=_ranking),
    "lambdarank_position_bias_regularization": _no("use lambdarank_unbiased", only_if=_ranking),
}
"""All of LightGBM's parameters, under their main names."""

# Read only together with something that is refused above.
_DROPPED = """
    cegb_tradeoff extra_seed fair_c auc_mu_weights linear_lambda num_grad_quant_bins objective_seed other_rate
    quant_train_renew_leaf stochastic_rounding top_rate
"""
# Speed, memory, logs, files, the command line, prediction: nothing that is learned depends on them.
_DROPPED += """
    bin_construct_sample_cnt config convert_model convert_model_language data data_random_seed deterministic
    enable_bundle feature_pre_filter force_col_wise force_row_wise gpu_platform_id gpu_use_dp group_column header
    histogram_pool_size ignore_column is_enable_sparse is_provide_training_metric label_column local_listen_port
    metric_freq num_iteration_predict output_model output_result parser_config_file pre_partition precise_float_parser
    pred_early_stop pred_early_stop_freq pred_early_stop_margin predict_contrib predict_disable_shape_check
    predict_leaf_index predict_raw_score refit_decay_rate save_binary saved_feature_importance_type snapshot_freq
    start_iteration_predict task time_out top_k tree_learner two_round valid weight_column
"""
TABLE |= dict.fromkeys(_DROPPED.split(), Row())

_LIGHTGBM_NAME = {"reg:logistic": "binary"} | {row.to: main for main, row in reversed(OBJECTIVES.items()) if row.to}


def loss_name(objective: Any) -> str | None:
    """Return LightGBM's main name of an objective given under either engine's name; None for any other."""
    if not isinstance(objective, str):
        return None
    return main_objective(objective) or _LIGHTGBM_NAME.get(objective.strip().lower())
