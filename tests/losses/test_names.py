"""Which loss the parameters of an engine name."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from loss_tools import (
    LIGHTGBM,
    every_objective,
)

from pucboost._engines.names import MAIN_OBJECTIVE
from pucboost.objectives import (
    Gamma,
    Logistic,
    Objective,
    Poisson,
    Quantile,
    Softmax,
    SquaredError,
    Tweedie,
    objective_for,
)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, SquaredError()),
        ({"objective": None}, SquaredError()),
        ({"app": "binary"}, Logistic()),
        ({"objective": "binary", "sigmoid": 1, "scale_pos_weight": None}, Logistic()),
        ({"objective": "xentropy"}, Logistic(soft_labels=True)),
        ({"objective": "softmax", "num_classes": 5}, Softmax(5)),
        ({"objective": "poisson", "poisson_max_delta_step": 0.3}, Poisson(0.3)),
        ({"objective": "tweedie", "tweedie_variance_power": "1.2"}, Tweedie(1.2)),
        ({"objective": "quantile"}, Quantile(0.9)),
        ({"objective": "quantile", "alpha": 0.2}, Quantile(0.2)),
        ({"objective": "regression", "reg_sqrt": True}, None),
        ({"objective": "binary", "sigmoid": 2.0}, None),
        ({"objective": "binary", "scale_pos_weight": 3}, None),
        ({"objective": "binary", "unbalance": True}, None),
        ({"objective": "regression_l1"}, None),
        ({"objective": "multiclassova", "num_class": 3}, None),
        ({"objective": "none"}, None),
        ({"objective": Poisson()}, None),
    ],
)
def test_objective_for_lightgbm(params: dict[str, Any], expected: Objective | None) -> None:
    assert objective_for(params) == expected


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, SquaredError()),
        ({"objective": "reg:squarederror"}, SquaredError()),
        ({"objective": "binary:logistic"}, Logistic()),
        ({"objective": "reg:logistic"}, Logistic()),
        ({"objective": "multi:softprob", "num_class": 3}, Softmax(3, 2.0)),
        ({"objective": "multi:softmax", "num_class": 3}, Softmax(3, 2.0)),
        ({"objective": "count:poisson"}, Poisson(0.7)),
        ({"objective": "count:poisson", "max_delta_step": 0}, Poisson(0.0)),
        ({"objective": "reg:gamma"}, Gamma()),
        ({"objective": "reg:tweedie", "tweedie_variance_power": 1.7}, Tweedie(1.7)),
        ({"objective": "reg:quantileerror", "quantile_alpha": [0.3]}, Quantile(0.3)),
        ({"objective": "reg:quantileerror", "quantile_alpha": [0.3, 0.5]}, None),
        ({"objective": "reg:squarederror", "scale_pos_weight": 2}, None),
        ({"objective": "count:poisson", "scale_pos_weight": 2}, Poisson(0.7)),
        ({"objective": "binary:logitraw"}, None),
        ({"objective": "rank:ndcg"}, None),
        ({"objective": "regression"}, None),
    ],
)
def test_objective_for_xgboost(params: dict[str, Any], expected: Objective | None) -> None:
    assert objective_for(params, engine="xgboost") == expected


CLOSED_FORMS = (
    "regression", "binary", "cross_entropy", "multiclass", "poisson", "gamma", "tweedie", "quantile",
)  # fmt: skip


@pytest.mark.parametrize("alias", sorted(a for a, main in MAIN_OBJECTIVE.items() if main in CLOSED_FORMS))
def test_names_mean_what_they_mean_to_lightgbm(alias: str) -> None:
    params = {"objective": alias.upper()} | ({"num_class": 3} if alias in ("multiclass", "softmax") else {})
    objective = objective_for(params)
    assert objective is not None
    label = np.tile([0.0, 1.0, 1.0], 20) if objective.name != "gamma" else np.ones(60)
    booster = lgb.train({**LIGHTGBM, **params}, lgb.Dataset(np.arange(60.0)[:, None], label), 1)
    assert booster.dump_model()["objective"].split()[0] == objective.name


@every_objective
def test_xgboost_name_leads_back(objective: Objective) -> None:
    params = {"objective": objective.xgboost_name, "num_class": objective.n_scores, "quantile_alpha": 0.3}
    assert type(objective_for(params, engine="xgboost")) is type(objective)


def test_incomplete_parameters() -> None:
    with pytest.raises(ValueError, match="objective 'softmax' needs the parameter num_class, at least 2; got None"):
        objective_for({"objective": "softmax"})
    with pytest.raises(ValueError, match="objective 'multi:softprob' needs the parameter num_class, at least 2; got 1"):
        objective_for({"objective": "multi:softprob", "num_class": 1}, engine="xgboost")
    with pytest.raises(ValueError, match="needs the parameter quantile_alpha"):
        objective_for({"objective": "reg:quantileerror"}, engine="xgboost")
    with pytest.raises(ValueError, match=r"engine must be .*'lightgbm'.*'xgboost'.*got 'forest'"):
        objective_for({}, engine="forest")


def test_no_engine_is_imported() -> None:
    code = "import sys, pucboost.objectives; print({'lightgbm', 'xgboost'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
