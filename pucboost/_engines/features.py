"""What each engine can do: one table of features, and the sentence that an engine refuses each by.

A *request* is one mapping: the engine's parameters under its own names, pucboost's own (``compact``, ``anchor``,
``calibrate_masks``, ``external_memory``), and three things that are not parameters of a table in one place: ``plan``
(why the table is in parts, as in "with Dask"), ``shuffled`` (whether its rows are), ``keep_training_booster``.

:func:`check_features` walks the table and raises for the first requested feature that the engine lacks.
``docs/guides/engines.md`` is made from the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from . import ENGINES, engine_named
from .names import MAIN_METRIC, RANKING, is_true, main_objective, value_of

Request: TypeAlias = Mapping[str, Any]
_OWN = (
    "compact",
    "anchor",
    "calibrate_masks",
    "silence_first",
    "external_memory",
    "plan",
    "shuffled",
    "keep_training_booster",
)
"""Keys of a request that are not parameters of an engine."""


@dataclass(frozen=True)
class Feature:
    """One row of the table."""

    name: str
    example: Request
    """A request for the feature; empty where it would mean something else to another engine."""
    asked: Callable[[Request], Any] = lambda request: None
    """Returns the value that requests the feature; None if the feature is not requested."""
    no: Mapping[str, str] = field(default_factory=dict)
    """Engine → why it does not have the feature, and what to use instead. The others have it, or refuse it when they
    read their parameters."""


def check_features(engine: str, request: Request) -> None:
    """Raise for the first requested feature that the engine does not have."""
    name = engine_named(engine).name
    for row in FEATURES:
        if name in row.no and (value := row.asked(request)) is not None:
            raise ValueError(row.no[name].format(value=value, plan=request.get("plan")))


def why_not(engine: str, row: Feature) -> str | None:
    """Return why an engine refuses the example of a feature; None if it does not."""
    known = engine_named(engine)
    params = {name: value for name, value in row.example.items() if name not in _OWN}
    asked = {name: value for name, value in row.example.items() if name in _OWN}
    for name in known.unknown_parameters(params):
        return f"{name} is a parameter that {known.title} does not know."
    try:
        known.prepare(params, {}, 1, asked)
    except ValueError as error:
        return str(error)
    return None


# ----- how features are recognised: by functions that return the value in a request that names the feature, or None


def _if(name: str, test: Callable[[Any], bool]) -> Callable[[Request], Any]:
    """Recognise a parameter by a value, other than None, that passes a test."""

    def asked(request: Request) -> Any:
        value = value_of(request, name)
        return value if value is not None and test(value) else None

    return asked


def _value_in(name: str, *values: str) -> Callable[[Request], Any]:
    return _if(name, lambda value: isinstance(value, str) and value in values)


def _value_other_than(name: str, *usual: str) -> Callable[[Request], Any]:
    return _if(name, lambda value: str(value).lower() not in usual)


def _given(name: str, without_effect: Any) -> Callable[[Request], Any]:
    """Recognise a parameter by any value but an empty one and the one that has no effect."""

    def has_effect(value: Any) -> bool:
        if isinstance(value, Sequence) and len(value) == 0:
            return False
        if isinstance(without_effect, bool):
            return is_true(value) is not without_effect
        return without_effect is None or value != without_effect

    return _if(name, has_effect)


def _own(name: str) -> Callable[[Request], Any]:
    return lambda request: request[name] if request.get(name) else None


def _both(one: Callable[[Request], Any], other: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Recognise two things together; the value is that of the second."""
    return lambda request: None if one(request) is None else other(request)


def _in_parts(asked: Callable[[Request], Any]) -> Callable[[Request], Any]:
    return _both(_own("plan"), asked)


def _objective_in(*names: str) -> Callable[[Request], Any]:
    return _if("objective", lambda value: value in names or main_objective(value) in names)


def _objective_family(prefix: str) -> Callable[[Request], Any]:
    return _if("objective", lambda value: isinstance(value, str) and value.startswith(prefix))


_CLOSED_FORM = ("regression", "binary", "cross_entropy", "multiclass", "poisson", "gamma", "tweedie", "quantile")
_loss_without_closed_form = _if("objective", lambda value: main_objective(value) not in (None, *_CLOSED_FORM))
_unknown_loss = _if("objective", lambda value: main_objective(value) is None and not callable(value))
_renewed_leaves = _objective_in("regression_l1", "quantile", "mape", "reg:absoluteerror", "reg:quantileerror")
"""Losses for which a leaf is a median or quantile of its rows."""
_unbalanced_one_against_all = _both(_given("is_unbalance", False), _objective_in("multiclassova"))


def _not_shuffled(request: Request) -> Any:
    return None if request.get("shuffled") else _renewed_leaves(request)


def _ranking_metric(request: Request) -> Any:
    # Parameters of XGBoost are translated before, so "metric" is then the argument of cv, which replaces eval_metric.
    metrics = value_of(request, "metric") or request.get("eval_metric") or ()
    for metric in metrics.split(",") if isinstance(metrics, str) else () if callable(metrics) else metrics:
        name = str(metric).strip().split("@")[0].rstrip("-")  # XGBoost has "ndcg-" and "ndcg@5-"
        if name == "pre" or MAIN_METRIC.get(name) in ("ndcg", "map"):
            return metric
    return None


def _advanced_monotone(request: Request) -> Any:
    signs = value_of(request, "monotone_constraints", ())
    listed = signs.strip("()").split(",") if isinstance(signs, str) else signs
    if all(str(sign).strip() in ("", "0") for sign in listed):
        return None
    return _value_other_than("monotone_constraints_method", "basic", "intermediate")(request)


def _idle_machines(request: Request) -> Any:
    several = value_of(request, "machines") or int(value_of(request, "num_machines", 1)) > 1
    return True if several and value_of(request, "tree_learner", "serial") == "serial" else None


# ----- sentences


def _all(sentence: str) -> dict[str, str]:
    return dict.fromkeys(ENGINES, sentence)


def _lightgbm(sentence: str) -> dict[str, str]:
    """Return the refusal of both engines that take LightGBM's parameters."""
    return {"lightgbm": sentence, "native": sentence}


def _not_native(parameter: str, what: str) -> dict[str, str]:
    return {
        "native": f"{parameter}={{value!r}} with 'engine': 'native', which does not have {what}. Use 'engine': "
        f"'lightgbm', or leave {parameter} out."
    }


def _only_lightgbm(name: str, parameter: str, without_effect: Any, example: Any) -> Feature:
    return Feature(name, {parameter: example}, _given(parameter, without_effect), _not_native(parameter, name.lower()))


def _whole_table(name: str, example: Any, why: str) -> Feature:
    return Feature(
        f"`{name}` on several machines",
        {name: example, "plan": "with a shared plan"},
        _in_parts(_own(name)),
        _all(f"{name} is not possible {{plan}}: {why}. Leave it out."),
    )


_AVERAGED_LEAVES = (
    "objective={{value!r}} on several workers: {} averages the leaves that each worker finds in its own rows, which is "
    "wrong unless all have a random sample. Shuffle the rows and say so with shuffled=True, or use a smooth loss."
)
_IN_MEMORY = (
    "external_memory: {} keeps what it needs of all virtual rows in memory. Use engine='xgboost', or leave "
    "external_memory out."
)

# ----- the table

FEATURES: tuple[Feature, ...] = (
    # --- tables in parts
    _whole_table("compact", True, "compact merges rows of one table, and those of other workers are not there"),
    _whole_table("anchor", "base", "anchors are asked about whole tables"),
    _whole_table(
        "calibrate_masks", True, "it needs the outcomes of everybody, and those of other workers are not there"
    ),
    _whole_table("row_key", "env:KEY", "which people are kept is known only from the rows of all workers"),
    _whole_table("external_memory", "folder", "it is for one machine; more workers can share the table"),
    Feature(
        "Several machines",
        {"plan": "with a shared plan"},
        _own("plan"),
        {"native": "engine='native' trains on one machine only: it takes no plan that workers share."},
    ),
    Feature(
        "Leaves that are medians or quantiles, on several machines, rows not shuffled",
        {"objective": "regression_l1", "plan": "with a shared plan"},
        _in_parts(_not_shuffled),
        {"lightgbm": _AVERAGED_LEAVES.format("LightGBM"), "xgboost": _AVERAGED_LEAVES.format("XGBoost")},
    ),
    Feature(
        "Machines that divide columns",
        {"tree_learner": "feature", "plan": "with a shared plan"},
        _in_parts(_value_in("tree_learner", "feature", "feature_parallel")),
        {"lightgbm": "tree_learner={value!r} needs the whole table in every worker. Use 'data' or 'voting'."},
    ),
    Feature(
        "Machines that do not work together",
        {"machines": "a:1,b:2", "plan": "with a shared plan"},
        _in_parts(_idle_machines),
        {
            "lightgbm": "tree_learner is 'serial', which is its default: LightGBM then ignores the other machines, and "
            "every worker gets a model of its own people. Use 'data' or 'voting'."
        },
    ),
    # --- memory
    Feature(
        "Virtual rows on the disk",
        {"external_memory": "folder"},
        _own("external_memory"),
        {"lightgbm": _IN_MEMORY.format("LightGBM"), "native": _IN_MEMORY.format("the native engine")},
    ),
    # XGBoost sets these leaves afterwards, and from samples of several pages it takes the wrong rows.
    Feature(
        "Leaves that are medians or quantiles, virtual rows on the disk",
        {"objective": "regression_l1", "external_memory": "folder"},
        _both(_own("external_memory"), _renewed_leaves),
        {
            "xgboost": "external_memory with objective={value!r}: XGBoost computes other leaves from external memory "
            "than from memory where trees grow on samples of the rows. Leave external_memory out, or choose another "
            "objective."
        },
    ),
    Feature(
        "Boosters that keep their data",
        {"keep_training_booster": True},
        _own("keep_training_booster"),
        {
            "native": "keep_training_booster with 'engine': 'native': its boosters do not keep the data. Continue a "
            "model with init_model, or use 'engine': 'lightgbm'."
        },
    ),
    # --- losses and metrics
    Feature(
        "Ranking within queries",
        {"objective": "lambdarank"},
        lambda request: _objective_in(*RANKING)(request) or _objective_family("rank:")(request),
        _all(
            "objective={value!r} with optional features: Protected User Consent is defined for predictions of a "
            "person's outcome, not for rankings within a query. Use a regression or classification objective."
        ),
    ),
    Feature(
        "Survival times",
        {"objective": "survival:cox"},
        _objective_family("survival:"),
        _all("objective={value!r} is not supported: its loss is not a sum over people with one label each."),
    ),
    Feature(
        "Cross-entropy with weights as exposures",
        {"objective": "cross_entropy_lambda"},
        _objective_in("cross_entropy_lambda"),
        _lightgbm("objective={value!r} reads weights as exposures, so copies cannot be weighted. Use 'cross_entropy'."),
    ),
    Feature(
        "Balanced classes, one against all others",
        {"objective": "multiclassova", "num_class": 3, "is_unbalance": True},
        _unbalanced_one_against_all,
        _lightgbm("is_unbalance with objective={value!r} counts virtual rows instead of people. Use sample weights."),
    ),
    Feature(
        "Metrics of rankings",
        {"metric": "ndcg"},
        # XGBoost would take the table as one query, and fail where rows have weights.
        _ranking_metric,
        _all("metric={value!r} needs queries, which are not defined with optional features."),
    ),
    # --- trees that would read silence as a number, or cannot be grown from a stream
    Feature(
        "Linear leaves",
        {"linear_tree": True},
        _given("linear_tree", False),
        _lightgbm(
            "linear_tree with optional features: linear leaves cannot be built from a stream, and their treatment of "
            "missing values would mix silence with zeros. Set linear_tree=False."
        ),
    ),
    Feature(
        "Linear models",
        {"booster": "gblinear"},
        _value_in("booster", "gblinear"),
        {"xgboost": "booster='gblinear' reads a withheld value as the number 0. Use gbtree or dart."},
    ),
    Feature(
        "Missing values read as 0",
        {"use_missing": False},
        _given("use_missing", True),
        _lightgbm(
            "use_missing=False makes LightGBM read a withheld value as the number 0. Remove it when features are "
            "optional."
        ),
    ),
    Feature(
        "Quantised gradients",
        {"use_quantized_grad": True},
        _given("use_quantized_grad", False),
        _lightgbm(
            "use_quantized_grad=True with optional features: LightGBM's quantised histograms do not agree with the "
            "weights of virtual rows, and it stops in the middle of a tree. Remove it."
        ),
    ),
    Feature(
        "Row sampling by query",
        {"bagging_by_query": True},
        _given("bagging_by_query", False),
        _lightgbm("bagging_by_query needs queries, which are not defined with optional features."),
    ),
    Feature(
        "Exact and approximate split search",
        {"tree_method": "exact"},
        _value_other_than("tree_method", "hist", "auto"),
        {
            "xgboost": "tree_method={value!r} needs the whole table in memory; masked rows are streamed into "
            "tree_method='hist'."
        },
    ),
    # --- pucboost's own
    Feature("Anchors", {"anchor": "base"}),
    Feature(
        "Anchors of class numbers",
        {},
        _both(_own("anchor"), _objective_in("multi:softmax")),
        {
            "xgboost": "anchor with objective 'multi:softmax': nothing can be added to class numbers. Use "
            "'multi:softprob'."
        },
    ),
    Feature("Merged rows", {"compact": True}),
    Feature("Calibrated masks", {"calibrate_masks": True}),
    Feature(
        "Trees that begin with what is missing",
        {"silence_first": True},
        _own("silence_first"),
        {
            name: f"silence_first: {title} chooses all splits of its trees by itself. Use engine='native', or leave "
            "silence_first out."
            for name, title in (("lightgbm", "LightGBM"), ("xgboost", "XGBoost"))
        },
    ),
    # The round that calibrates is a tree over all groups, with one value per leaf, that is added to the others.
    Feature(
        "Calibrated masks with interaction constraints",
        {"calibrate_masks": True, "interaction_constraints": [[0, 1]]},
        _both(_own("calibrate_masks"), _given("interaction_constraints", None)),
        _all("calibrate_masks with interaction_constraints: its tree combines all groups. Leave one of the two out."),
    ),
    Feature(
        "Calibrated masks of forests",
        {"calibrate_masks": True, "boosting": "rf"},
        _both(_own("calibrate_masks"), _value_in("boosting", "rf", "random_forest")),
        {
            "lightgbm": "calibrate_masks with boosting='rf': a forest predicts the mean of its trees, so none can be "
            "added."
        },
    ),
    Feature(
        "Calibrated masks with several values per leaf",
        {"calibrate_masks": True, "multi_strategy": "multi_output_tree"},
        _both(_own("calibrate_masks"), _value_in("multi_strategy", "multi_output_tree")),
        {"xgboost": "calibrate_masks with multi_strategy='multi_output_tree' is not supported. Leave one out."},
    ),
    # --- what LightGBM has, and what the native engine has of it; XGBoost refuses what it cannot translate
    Feature("Monotone constraints", {"monotone_constraints": [1, 0, 0, 0]}),
    Feature(
        "Advanced monotone constraints",
        {"monotone_constraints": [1, 0, 0, 0], "monotone_constraints_method": "advanced"},
        _advanced_monotone,
        _not_native("monotone_constraints_method", "the method {value!r}"),
    ),
    Feature(
        "Monotone constraints with medians and quantiles",
        {"monotone_constraints": [1, 0, 0, 0], "objective": "quantile"},
        _both(_given("monotone_constraints", None), _renewed_leaves),
        dict.fromkeys(
            ("lightgbm", "native"),
            "monotone_constraints with objective={value!r}: leaves become quantiles of their rows, whatever the "
            "constraints. Leave these out, or use 'engine': 'xgboost'.",
        ),
    ),
    _only_lightgbm("A penalty on monotone splits", "monotone_penalty", 0.0, 1.0),
    Feature("Interaction constraints", {"interaction_constraints": [[0, 1], [2, 3]]}),
    Feature(
        "DART and forests",
        {"boosting": "dart"},
        _value_other_than("boosting", "gbdt", "gbrt"),
        _not_native("boosting", "{value!r} boosting"),
    ),
    Feature(
        "One-side sampling (GOSS)",
        {"data_sample_strategy": "goss"},
        _value_other_than("data_sample_strategy", "bagging"),
        _not_native("data_sample_strategy", "one-side sampling"),
    ),
    _only_lightgbm("Row sampling by class", "pos_bagging_fraction", 1.0, 0.5),
    _only_lightgbm("Row sampling by class", "neg_bagging_fraction", 1.0, 0.5),
    Feature(
        "Absolute errors, Huber's, Fair's and relative ones, one class against all others",
        {"objective": "huber"},
        _loss_without_closed_form,
        {
            "native": "objective={value!r} with 'engine': 'native', which does not have this loss. Use 'engine': "
            "'lightgbm'."
        },
    ),
    Feature(
        "Losses under other names than LightGBM's",
        {},
        _unknown_loss,
        {"native": "objective={value!r} with 'engine': 'native', which does not know it. Use 'engine': 'lightgbm'."},
    ),
    _only_lightgbm("A factor on raw scores", "sigmoid", 1.0, 2.0),
    _only_lightgbm("Square roots of labels", "reg_sqrt", False, True),
    Feature("More than 255 bins", {"max_bin": 500}),
    _only_lightgbm("Forced splits", "forcedsplits_filename", "", "splits.json"),
    _only_lightgbm("Forced bins", "forcedbins_filename", "", "bins.json"),
    _only_lightgbm("Factors on the gains of features", "feature_contri", None, [1.0, 1.0, 0.5, 0.5]),
    _only_lightgbm("Costs of splits", "cegb_penalty_split", 0.0, 1.0),
    _only_lightgbm("Costs of features", "cegb_penalty_feature_lazy", None, [0.0, 0.0, 1.0, 1.0]),
    _only_lightgbm("Costs of features", "cegb_penalty_feature_coupled", None, [0.0, 0.0, 1.0, 1.0]),
    Feature(
        "Other devices than the processor",
        {"device_type": "cuda"},
        _value_other_than("device_type", "cpu"),
        _not_native("device_type", "other devices than the processor"),
    ),
    Feature(
        "Machines in LightGBM's parameters",
        {"tree_learner": "data"},
        _value_other_than("tree_learner", "serial"),
        _not_native("tree_learner", "several machines"),
    ),
    Feature(
        "Machines in LightGBM's parameters",
        {"num_machines": 2},
        _given("num_machines", 1),
        _not_native("num_machines", "several machines"),
    ),
)
"""In the order in which they are checked."""
