"""An anchored model answers what people ask a booster, and says so where it cannot."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_kits import EngineKit, every_engine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pucboost as puc
from pucboost.simulate import LogisticFamily

FAMILY = LogisticFamily.paper()
TRAIN, TEST = FAMILY.sample(1_000, seed=0), FAMILY.sample(400, seed=1)
NAMES = ["age group", *FAMILY.feature_names[1:]]
X, X_TEST = (pd.DataFrame(sample.X, columns=NAMES) for sample in (TRAIN, TEST))
BASE, OPTIONAL = NAMES[:2], NAMES[2:]
SILENT = X_TEST[OPTIONAL].isna().all(axis=1).to_numpy()
LEGACY = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[BASE], TRAIN.y)
BEFORE = LEGACY.predict_proba(X_TEST[BASE])[:, 1]


def anchored(kit: EngineKit, rounds: int = 8, y: Any = TRAIN.y, loss: str = "binary", **params: Any) -> Any:
    given = {**kit.params, **kit.small_trees, "objective": kit.objectives[loss], "optional": OPTIONAL, "anchor": LEGACY}
    return puc.train({**given, **params}, puc.Dataset(X, y), rounds)


usual = cache(anchored)
"""The model of eight rounds, which no test changes."""


@every_engine
def test_what_people_ask_a_booster(kit: EngineKit) -> None:
    model = usual(kit)
    assert (model.num_trees(), model.current_iteration(), model.best_iteration) == (8, 8, 8)
    assert (model.num_feature(), model.feature_name()) == (5, NAMES)
    splits, gains = model.feature_importance(), model.feature_importance(importance_type="gain")
    assert splits.dtype.kind == "i"
    assert splits.shape == gains.shape == (5,)
    assert ((splits > 0) == (gains > 0)).all()
    assert splits[2:].sum() > 0
    with pytest.raises(ValueError, match="importance_type must be 'split' or 'gain', got 'cover'"):
        model.feature_importance("cover")
    assert repr(model).splitlines() == [
        "AnchoredModel(",
        "  anchor: LogisticRegression in a Pipeline; log-odds of predict_proba, columns age group, " + BASE[1] + ",",
        "  trees: 8 trees for people who share, objective 'binary',",
        f"  {model.consent!r}",
        ")",
    ]


@every_engine
def test_importance_counts_the_splits_of_the_trees(kit: EngineKit) -> None:
    model = anchored(kit, 1)
    if kit.name != "xgboost":
        counted = model.booster.trees_to_dataframe()["split_feature"].dropna().value_counts()
    else:
        table = model.booster.trees_to_dataframe()
        counted = table.loc[table["Feature"] != "Leaf", "Feature"].value_counts()
    names = [name.replace(" ", "_") for name in NAMES] if kit.name != "xgboost" else NAMES
    assert model.feature_importance().tolist() == [int(counted.get(name, 0)) for name in names]


@every_engine
def test_several_classes_and_early_stopping(kit: EngineKit) -> None:
    y = TRAIN.y + (TRAIN.X[:, 0] > 1)
    several = anchored(kit, 3, y, "multiclass", num_class=3, anchor="base")
    assert (several.num_trees(), several.current_iteration()) == (9, 3)
    contributions = several.predict(X_TEST, pred_contrib=True)
    assert contributions.shape == (400, 3 * 6)
    by_class = contributions.reshape(400, 3, 6)
    np.testing.assert_allclose(by_class.sum(axis=2), several.predict(X_TEST, raw_score=True), atol=1e-5)
    assert (by_class[SILENT, :, :-1] == 0).all()

    params = {**kit.params, **kit.small_trees, "optional": OPTIONAL, "anchor": LEGACY, "early_stopping_round": 3}
    stopped = puc.train(params, puc.Dataset(X, TRAIN.y), 200, valid_sets=[puc.Dataset(X_TEST, TEST.y)])
    rounds = stopped.best_iteration
    assert 0 < rounds < 200
    np.testing.assert_array_equal(stopped.predict(X_TEST, num_iteration=rounds), stopped.predict(X_TEST))


@every_engine
def test_contributions_add_up_to_the_raw_score(kit: EngineKit) -> None:
    model = usual(kit)
    raw, contributions = model.predict(X_TEST, raw_score=True), model.predict(X_TEST, pred_contrib=True)
    assert contributions.shape == (400, 6)
    np.testing.assert_allclose(contributions.sum(axis=1), raw, atol=1e-5)  # XGBoost's are float32
    assert (contributions[SILENT, :-1] == 0).all()
    np.testing.assert_array_equal(contributions[SILENT, -1], raw[SILENT])
    # The rest is the anchor and one constant of the trees.
    anchor = np.log(BEFORE / (1 - BEFORE))
    constant = (contributions[:, -1] - anchor)[~SILENT]
    np.testing.assert_allclose(constant, constant[0], atol=1e-5)
    assert np.abs(contributions[~SILENT, 2:5]).mean() > 0.05


@every_engine
def test_some_of_the_rounds(kit: EngineKit) -> None:
    """The first rounds of a model are those of a shorter training."""
    model, short = usual(kit), anchored(kit, 3)
    np.testing.assert_array_equal(model.predict(X_TEST, num_iteration=3), short.predict(X_TEST))
    np.testing.assert_allclose(
        model.predict(X_TEST, num_iteration=3, pred_contrib=True), short.predict(X_TEST, pred_contrib=True), atol=1e-6
    )
    for everything in (None, 0, -1, 8, 100):
        np.testing.assert_array_equal(model.predict(X_TEST, num_iteration=everything), model.predict(X_TEST))
    assert np.abs(short.predict(X_TEST) - model.predict(X_TEST))[~SILENT].max() > 0.01


@every_engine
def test_what_is_not_meaningful(kit: EngineKit) -> None:
    model = anchored(kit, 2)
    with pytest.raises(
        TypeError, match=r"takes no pred_leaf: its prediction is more than its trees, which are in .boo"
    ):
        model.predict(X_TEST, pred_leaf=True)
    for name in ("eval", "attr"):
        if hasattr(model.booster, name):
            with pytest.raises(
                AttributeError, match=f"no attribute '{name}'. Its trees, .booster, have it, but they are"
            ):
                getattr(model, name)
    with pytest.raises(AttributeError, match=r"'AnchoredModel' object has no attribute 'nonsense'.$"):
        _ = model.nonsense
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(X_TEST), model.predict(X_TEST))


@every_engine
def test_quotes_and_sharing_values(kit: EngineKit) -> None:
    model = usual(kit)
    quotes = puc.quote(model, X_TEST)
    np.testing.assert_array_equal(quotes["nothing"], BEFORE)
    given = model.predict(X_TEST)
    np.testing.assert_array_equal(puc.predict(model, X_TEST), given)
    everything = X_TEST[OPTIONAL].notna().all(axis=1).to_numpy()
    np.testing.assert_array_equal(quotes[" + ".join(OPTIONAL)][everything], given[everything])
    one = X_TEST.assign(**dict.fromkeys(OPTIONAL[1:], np.nan))
    shares = X_TEST[OPTIONAL[0]].notna().to_numpy()
    np.testing.assert_array_equal(quotes[OPTIONAL[0]][shares], model.predict(one)[shares])

    values = puc.sharing_value(model, X_TEST)
    np.testing.assert_array_equal(values["withheld"], BEFORE)
    np.testing.assert_allclose(values[["withheld", *OPTIONAL]].sum(axis=1), given, rtol=1e-6)
    assert (values.loc[SILENT, OPTIONAL] == 0).all(axis=None)

    best = puc.predict(model, X_TEST, sharing="best", favourable="lower")
    np.testing.assert_allclose(best, quotes.min(axis=1))
    greedy = puc.predict(model, X_TEST, sharing="best", favourable="lower", max_subsets=1, search="greedy")
    assert (greedy >= best).all()
    assert (greedy <= given).all()
    found = puc.sharing_effects(model, X_TEST, favourable="lower")
    assert found.people == 400
    np.testing.assert_allclose(found.share_worse_than_withheld, (given > BEFORE).mean())


@every_engine
def test_tables_with_other_columns_and_audit(kit: EngineKit) -> None:
    model = usual(kit)
    shuffled = X_TEST[[*NAMES[::-1]]].assign(further="text")
    np.testing.assert_array_equal(puc.predict(model, shuffled), model.predict(X_TEST))
    with pytest.warns(UserWarning, match="no column of group"):
        np.testing.assert_array_equal(puc.predict(model, X_TEST[BASE]), BEFORE)
    small: dict[str, Any] = {"margin": 0.2, "folds": 3, "num_threads": 1, "min_count": 30}
    report = puc.audit(model, X_TEST, TEST.y, **small)
    again = puc.audit(model.predict, X_TEST, TEST.y, optional=OPTIONAL, loss="binary", **small)
    found, repeated = ([one.estimate and one.estimate.value for one in r.penalties] for r in (report, again))
    assert found == pytest.approx(repeated)
    assert puc.metrics.puc_score(model, X_TEST, TEST.y) < 0


@every_engine
def test_the_anchor_is_asked_once_per_person(kit: EngineKit) -> None:
    """However many subsets are quoted: it never sees what is optional."""
    asked = []

    def tariff(table: Any) -> Any:
        asked.append(len(table))
        return 0.3 * table.iloc[:, 0].to_numpy()

    model = anchored(kit, 2, anchor=tariff)
    asked.clear()
    puc.quote(model, X_TEST)
    assert asked == [400]
