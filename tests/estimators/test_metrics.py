"""Scores that respect consent: the definition by explicit loops, and what it is for."""

from __future__ import annotations

import pickle
from functools import cache, partial
from typing import Any

import joblib
import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from estimator_tools import ENGINES
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer, mean_pinball_loss, mean_squared_error, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from tools import make_table

import pucboost as puc
from pucboost._prediction import predictor
from pucboost.demo import insurance_family
from pucboost.metrics import mask_frequencies, puc_score, puc_scorer
from pucboost.simulate import DiscreteFamily, LogisticFamily

OPTIONAL = [3, 4, 5]
GROUPS = {"app": [3, 4], "blood": [5]}
SMALL: dict[str, Any] = {"n_estimators": 8, "num_leaves": 7, "n_jobs": 1}


@cache
def fitted(n: int) -> tuple[Any, Any, Any]:
    """People and a classifier fitted to them, which no test changes."""
    X, y = make_table(n)
    return X, y, puc.PUCClassifier(optional=GROUPS, **SMALL).fit(X, y)


def groups_shared(row: Any, groups: dict[str, list[int]]) -> frozenset[str]:
    return frozenset(name for name, columns in groups.items() if any(not np.isnan(row[c]) for c in columns))


def naive_virtual_rows(
    X: Any, w: Any, groups: dict[str, list[int]], share: dict[frozenset[str], float] | None = None
) -> tuple[Any, list[int], Any]:
    """Every virtual row (i, S) by explicit loops: the masked rows, whose they are, and p(S)·w_i / Σ w_j."""
    shared = [groups_shared(row, groups) for row in X]
    if share is None:
        share = {S: sum(w[i] for i in range(len(X)) if shared[i] == S) / sum(w) for S in set(shared)}
    rows, owner, weight = [], [], []
    for S, p in share.items():
        people = [i for i in range(len(X)) if shared[i] >= S]
        total = sum(w[i] for i in people)
        for i in people:
            masked = X[i].copy()
            for name, columns in groups.items():
                if name not in S:
                    masked[columns] = np.nan
            rows.append(masked)
            owner.append(i)
            weight.append(p * w[i] / total)
    return np.array(rows), owner, np.array(weight)


# ----- the definition


def test_the_definition_by_explicit_loops() -> None:
    for optional in [{"a": [3], "b": [4], "c": [5]}, GROUPS]:
        for weighted in [False, True]:
            X, y = make_table(120)
            w = np.random.default_rng(1).integers(0, 4, 120).astype(float) if weighted else np.ones(120)
            model = puc.PUCClassifier(optional=optional, **SMALL).fit(X, y)
            rows, owner, weight = naive_virtual_rows(X, w, optional)
            p, u = model.predict_proba(rows), y[owner]
            given = {"sample_weight": w} if weighted else {}

            losses = -np.log(np.where(u == 1, p[:, 1], p[:, 0]))
            assert puc_score(model, X, y, **given) == pytest.approx(-sum(weight * losses), rel=1e-12)
            assert weight.sum() == pytest.approx(1)
            brier = sum(weight * (p[:, 1] - u) ** 2)
            assert puc_score(model, X, y, metric="neg_brier_score", **given) == pytest.approx(-brier, rel=1e-12)
            right = sum(weight * ((p[:, 1] > 0.5) == u))
            assert puc_score(model, X, y, metric="accuracy", **given) == pytest.approx(right, rel=1e-12)

            # AUC: the probability that a positive virtual row has the higher score, ties count half.
            ones, zeros = np.flatnonzero(u == 1), np.flatnonzero(u == 0)
            above = sum(
                weight[i] * weight[j] * (1.0 if p[i, 1] > p[j, 1] else 0.5 if p[i, 1] == p[j, 1] else 0.0)
                for i in ones
                for j in zeros
            )
            auc = above / (weight[ones].sum() * weight[zeros].sum())
            assert puc_score(model, X, y, metric="roc_auc", **given) == pytest.approx(auc, rel=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_metrics_of_regressors_by_explicit_loops(engine: str) -> None:
    X, _ = make_table(150)
    y = np.random.default_rng(0).poisson(np.exp(X[:, 0] / 2)).astype(float)
    model = puc.PUCRegressor(optional=GROUPS, engine=engine, objective="poisson", **SMALL).fit(X, y)
    rows, owner, weight = naive_virtual_rows(X, np.ones(150), GROUPS)
    f, u = model.predict(rows), y[owner]
    expected = {
        "neg_mean_squared_error": -sum(weight * (f - u) ** 2),
        "neg_mean_absolute_error": -sum(weight * np.abs(f - u)),
        "neg_root_mean_squared_error": -np.sqrt(sum(weight * (f - u) ** 2)),
        "neg_mean_poisson_deviance": -sum(weight * 2 * (np.where(u > 0, u * np.log(np.maximum(u, 1) / f), 0) - u + f)),
        "r2": 1 - sum(weight * (f - u) ** 2) / sum(weight * (u - sum(weight * u)) ** 2),
    }
    for metric, value in expected.items():
        assert puc_score(model, X, y, metric=metric) == pytest.approx(value, rel=1e-9), metric
    pinball = sum(weight * np.maximum(0.9 * (u - f), -0.1 * (u - f)))
    by_keyword = puc_score(model, X, y, metric=mean_pinball_loss, greater_is_better=False, alpha=0.9)
    by_scorer = puc_score(model, X, y, metric=make_scorer(mean_pinball_loss, alpha=0.9, greater_is_better=False))
    by_partial = puc_score(model, X, y, metric=partial(mean_pinball_loss, alpha=0.9), greater_is_better=False)
    assert by_keyword == by_scorer == by_partial == pytest.approx(-pinball, rel=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_several_classes_and_words(engine: str) -> None:
    X, _ = make_table(200)
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = puc.PUCClassifier(optional=GROUPS, engine=engine, **SMALL).fit(X, y)
    rows, owner, weight = naive_virtual_rows(X, np.ones(200), GROUPS)
    p, u = model.predict_proba(rows), y[owner]
    column = {label: c for c, label in enumerate(model.classes_)}
    loss = sum(-weight[k] * np.log(p[k, column[u[k]]]) for k in range(len(u)))
    assert puc_score(model, X, y) == pytest.approx(-loss, rel=1e-9)
    assert puc_score(model, X, y, metric="accuracy") == pytest.approx(sum(weight * (model.predict(rows) == u)))
    assert 0.5 < puc_score(model, X, y, metric="roc_auc_ovr") <= 1


def test_a_function_of_probabilities() -> None:
    X, y, model = fitted(150)
    named = puc_score(model, X, y)
    given = puc_score(model, X, y, metric=log_loss, response="predict_proba", greater_is_better=False)
    assert given == pytest.approx(named)
    scores = puc_score(model, X, y, metric=roc_auc_score, response="decision_function", greater_is_better=True)
    assert scores == pytest.approx(puc_score(model, X, y, metric="roc_auc"))


def test_given_frequencies_and_few_masks_by_explicit_loops() -> None:
    X, y, model = fitted(200)

    def naive(share: dict[frozenset[str], float]) -> float:
        rows, owner, weight = naive_virtual_rows(X, np.ones(200), GROUPS, share)
        p = model.predict_proba(rows)[:, 1]
        return -float(log_loss(y[owner], p, sample_weight=weight))

    wanted = {frozenset(): 3.0, frozenset({"app", "blood"}): 1.0}
    for keys in (((), ("app", "blood")), ("nothing", "everything"), ("nothing", "app + blood"), ((), ("blood", "app"))):
        given = puc_score(model, X, y, frequencies=dict(zip(keys, (3.0, 1.0), strict=True)))
        assert given == pytest.approx(naive(wanted), rel=1e-9)
    only = puc_score(model, X, y, frequencies={"app": 1.0, "blood": 0.0})
    assert only == pytest.approx(naive({frozenset({"app"}): 1.0}), rel=1e-9)

    observed = mask_frequencies(X, GROUPS)
    assert sum(observed.values()) == pytest.approx(1)
    assert list(observed.values()) == sorted(observed.values(), reverse=True)
    assert puc_score(model, X, y, frequencies=observed) == pytest.approx(puc_score(model, X, y), rel=1e-12)
    first, second, *_ = ((frozenset(groups), share) for groups, share in observed.items())
    assert puc_score(model, X, y, max_masks=2) == pytest.approx(naive(dict([first, second])), rel=1e-9)
    assert puc_score(model, X, y, max_masks=1) == pytest.approx(naive(dict([first])), rel=1e-9)


def test_sets_that_nobody_shares_are_left_out() -> None:
    X, y, model = fitted(200)
    X = X.copy()
    X[:, 5] = np.nan
    known = puc_score(model, X, y, frequencies={"nothing": 0.5, "app": 0.5})
    assert puc_score(model, X, y, frequencies={"nothing": 0.3, "app": 0.3, "blood": 0.4}) == pytest.approx(known)
    with pytest.raises(ValueError, match="Nobody in X shares any of the sets in frequencies"):
        puc_score(model, X, y, frequencies={"blood": 1.0})


def test_weights_are_repetitions() -> None:
    X, y, model = fitted(150)
    weight = np.random.default_rng(0).integers(0, 4, 150)
    many = np.repeat(np.arange(150), weight)
    for metric in ("neg_log_loss", "roc_auc", "accuracy"):
        weighted = puc_score(model, X, y, metric=metric, sample_weight=weight)
        assert weighted == pytest.approx(puc_score(model, X[many], y[many], metric=metric), rel=1e-9)


def test_everybody_sharing_everything_is_the_ordinary_score() -> None:
    X, y, model = fitted(200)
    X = np.nan_to_num(X)
    assert puc_score(model, X, y) == pytest.approx(-log_loss(y, model.predict_proba(X)), rel=1e-12)


# ----- what it is for


FAMILIES = {
    "one group": LogisticFamily.teaser(),
    "three groups": insurance_family(),
    "dependent availability": DiscreteFamily.random(2, 3, seed=0),
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_justified_truth_wins_and_ordinarily_loses(family: Any) -> None:
    people = family.sample(30_000, seed=0)
    truths = {"justified": family.puc_prediction, "unrestricted": family.unrestricted_prediction}
    for metric, ordinary in (("neg_log_loss", log_loss), ("neg_brier_score", mean_squared_error)):
        usual = {name: -ordinary(people.y, truth(people.X)) for name, truth in truths.items()}
        assert usual["unrestricted"] > usual["justified"], usual
        score = partial(puc_score, X=people.X, y=people.y, metric=metric, optional=family.optional)
        ours = {name: score(truth) for name, truth in truths.items()}
        assert ours["justified"] > ours["unrestricted"], ours
        # … and any other function of what may be used: here the base features alone, and shrunken truths.
        assert ours["justified"] > score(family.base_prediction)
        assert ours["justified"] > score(lambda X: 0.8 * family.puc_prediction(X) + 0.1)


@pytest.mark.parametrize("engine", ENGINES)
def test_grid_search_chooses_the_right_model(engine: str) -> None:
    family = insurance_family()
    people = family.sample(3_000, seed=0)
    model = puc.PUCClassifier(optional=family.optional, engine=engine, n_estimators=25, num_leaves=7, n_jobs=1)
    chosen = {}
    for name, scoring in (("ordinary", "neg_log_loss"), ("ours", puc_scorer("neg_log_loss"))):
        search = GridSearchCV(model, {"augmentation": ["none", "balanced"]}, scoring=scoring, cv=3)
        chosen[name] = search.fit(people.X, people.y).best_params_["augmentation"]
    assert chosen == {"ordinary": "none", "ours": "balanced"}


# ----- any model


@pytest.mark.parametrize("engine", ENGINES)
def test_an_estimator_is_its_booster_and_its_function(engine: str) -> None:
    X, y = make_table(200)
    model = puc.PUCClassifier(optional=GROUPS, engine=engine, **SMALL).fit(X, y)
    for metric in ("neg_log_loss", "neg_brier_score", "roc_auc"):
        expected = puc_score(model, X, y, metric=metric)
        by_booster = puc_score(model.booster_, X, y, metric=metric)
        by_function = puc_score(lambda X: model.predict_proba(X)[:, 1], X, y, metric=metric, optional=GROUPS)
        by_table = puc_score(model.predict_proba, X, y, metric=metric, optional=GROUPS)
        # XGBoost's probabilities are float32
        assert by_booster == pytest.approx(expected, rel=1e-6)
        assert by_function == pytest.approx(expected, rel=1e-9)
        assert by_table == pytest.approx(expected, rel=1e-9)
    accuracy = puc_score(model.booster_, X, y, metric="accuracy", response="predict_proba")
    assert accuracy == pytest.approx(puc_score(model, X, y, metric="accuracy"))
    squared = puc_score(model.booster_, X, y, metric="neg_mean_squared_error")
    assert squared == pytest.approx(puc_score(model, X, y, metric="neg_brier_score"), rel=1e-6)


def test_anchored_models_and_boosters_for_several_classes() -> None:
    X, y = make_table(300)
    for outcome, given in ((y, {"anchor": "base"}), (np.digitize(X[:, 0], [-0.5, 0.5]), {})):
        model = puc.PUCClassifier(optional=GROUPS, **given, **SMALL).fit(X, outcome)
        assert puc_score(model.booster_, X, outcome) == pytest.approx(puc_score(model, X, outcome))


def test_other_estimators_and_pipelines() -> None:
    X, y = make_table(300)
    rows, owner, weight = naive_virtual_rows(X, np.ones(300), GROUPS)
    models = [
        lgb.LGBMClassifier(n_estimators=5, n_jobs=1, verbosity=-1),
        HistGradientBoostingClassifier(max_iter=5),
        make_pipeline(SimpleImputer(add_indicator=True), LogisticRegression()),
    ]
    for model in models:
        model.fit(X, y)
        p = model.predict_proba(rows)[:, 1]
        expected = -log_loss(y[owner], p, sample_weight=weight)
        assert puc_score(model, X, y, optional=GROUPS) == pytest.approx(expected, rel=1e-9)
    values = HistGradientBoostingRegressor(max_iter=5).fit(X, y)
    expected = -mean_squared_error(y[owner], values.predict(rows), sample_weight=weight)
    assert puc_score(values, X, y, metric="neg_mean_squared_error", optional=GROUPS) == pytest.approx(expected)


def test_what_is_said_to_the_scorer_counts() -> None:
    X, y = make_table(200)
    model = puc.PUCClassifier(optional=[5], **SMALL).fit(X, y)
    same = puc.PUCClassifier(optional=[5], **SMALL).fit(X, y)
    assert puc_score(model, X, y, optional=[5]) == puc_score(model, X, y) == puc_score(same.booster_, X, y)
    assert puc_score(model, X, y, optional=OPTIONAL) != puc_score(model, X, y)
    assert puc_score(model, X, y, optional=model.consent_) == puc_score(model, X, y)


@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame, sp.csr_array])
def test_containers(container: Any) -> None:
    X, y, model = fitted(200)
    expected = puc_score(model, X, y)
    if container is sp.csr_array:
        table = container(X)
    else:
        names = [f"Column_{j}" for j in range(6)]
        table = container(X, columns=names) if container is pd.DataFrame else container(X, schema=names).fill_nan(None)
        model = puc.PUCClassifier(optional=GROUPS, **SMALL).fit(table, y)
    assert puc_score(model, table, y) == pytest.approx(expected, rel=1e-9)
    if container is not sp.csr_array:
        named = {"app": ["Column_3", "Column_4"], "blood": ["Column_5"]}
        assert puc_score(model, table, y, optional=named) == pytest.approx(expected, rel=1e-9)


def test_text_columns_before_a_pipeline() -> None:
    rng = np.random.default_rng(0)
    X, y = make_table(300)
    table = pd.DataFrame(X, columns=list("abcdef"))
    table["job"] = rng.choice(["baker", "nurse"], 300)
    table["plan"] = np.where(rng.random(300) < 0.4, None, rng.choice(["basic", "full"], 300))
    encode = ColumnTransformer(
        [("words", OrdinalEncoder(), ["job", "plan"]), ("numbers", "passthrough", list("abcdef"))],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    model = make_pipeline(encode, puc.PUCClassifier(optional=["plan", "f"], **SMALL)).fit(table, y)
    score = puc_score(model, table, y, optional=["plan", "f"])
    # Erased before or after the encoder is the same.
    assert score == pytest.approx(puc_score(model[-1], encode.transform(table), y), rel=1e-9)
    assert puc_score(model, table, y) == score  # the pipeline's own consent, followed back


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, model = fitted(200)
    expected = puc_score(model, X, y)
    sizes = []

    def predict(table: Any) -> Any:
        sizes.append(len(table))
        return model.predict_proba(table)

    monkeypatch.setattr(predictor, "TABLE_VALUES", 6 * 17)
    assert puc_score(predict, X, y, optional=GROUPS) == pytest.approx(expected, rel=1e-12)
    assert max(sizes) == 17


def test_the_table_is_not_changed() -> None:
    X, y = make_table(100)
    for table in (X.copy(), pd.DataFrame(X), X.copy(order="F")):
        model = puc.PUCClassifier(optional=OPTIONAL, **SMALL).fit(table, y)
        puc_score(model, table, y)
        assert np.array_equal(np.asarray(table), X, equal_nan=True)


# ----- as a scikit-learn scorer


def test_with_scikit_learns_tools() -> None:
    X, y = make_table(300)
    model = puc.PUCClassifier(optional=GROUPS, **SMALL)
    scorer = puc_scorer()
    scores = cross_val_score(model, X, y, cv=3, scoring=scorer)
    assert scores.shape == (3,)
    both = cross_validate(model, X, y, cv=3, scoring={"ordinary": "neg_log_loss", "ours": scorer})
    assert np.array_equal(both["test_ours"], scores)
    assert not np.array_equal(both["test_ordinary"], scores)
    with joblib.parallel_config("threading"):
        parallel = cross_val_score(model, X, y, cv=3, scoring=scorer, n_jobs=2)
    assert np.array_equal(parallel, scores)


def test_pickle_and_repr() -> None:
    X, y, model = fitted(100)
    scorer = puc_scorer("neg_brier_score", optional=GROUPS, max_masks=3)
    assert repr(scorer) == "puc_scorer('neg_brier_score', optional={'app': [3, 4], 'blood': [5]})"
    assert pickle.loads(pickle.dumps(scorer))(model, X, y) == scorer(model, X, y)
    function = puc_scorer(mean_squared_error, greater_is_better=False)
    assert repr(function) == "puc_scorer('mean_squared_error')"
    regressor = puc.PUCRegressor(optional=GROUPS, **SMALL).fit(X, y)
    assert pickle.loads(pickle.dumps(function))(regressor, X, y) == function(regressor, X, y) < 0


def test_weights_with_and_without_routing() -> None:
    X, y = make_table(300)
    weight = np.random.default_rng(0).uniform(0.1, 3, 300)
    model = puc.PUCClassifier(optional=GROUPS, **SMALL)
    search = GridSearchCV(model, {"num_leaves": [7]}, cv=2, scoring=puc_scorer()).fit(X, y, sample_weight=weight)
    several = GridSearchCV(model, {"num_leaves": [7]}, cv=2, scoring={"ours": puc_scorer()}, refit="ours")
    assert several.fit(X, y, sample_weight=weight).best_score_ == search.best_score_
    scores = {}
    with sklearn.config_context(enable_metadata_routing=True):
        model = puc.PUCClassifier(optional=GROUPS, **SMALL).set_fit_request(sample_weight=True)
        for wanted in (True, False, "other"):
            scorer = puc_scorer().set_score_request(sample_weight=wanted)
            given = {"sample_weight": weight, **({"other": np.ones(300)} if wanted == "other" else {})}
            scores[wanted] = cross_val_score(model, X, y, cv=2, scoring=scorer, params=given)
        undecided = "sample_weight.* but are not explicitly set as requested or not"
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match=undecided):
            cross_val_score(model, X, y, cv=2, scoring=puc_scorer(), params={"sample_weight": weight})
    assert not np.array_equal(scores[True], scores[False])
    assert np.array_equal(scores["other"], scores[False])
    with pytest.raises(RuntimeError, match="only available when metadata routing is enabled"):
        puc_scorer().set_score_request(sample_weight=True)


# ----- errors


def test_wrong_scorers() -> None:
    for arguments, message in [
        ({"metric": "neg_logloss"}, "'neg_logloss' is not a valid scoring value. Did you mean 'neg_log_loss'?"),
        ({"metric": "zzzz"}, r"'zzzz' is not a valid scoring value. sklearn.metrics.get_scorer_names\(\) lists"),
        ({"metric": "neg_max_error"}, "metric 'neg_max_error' takes no sample_weight"),
        ({"metric": lambda y, p: 0.0, "greater_is_better": True}, "metric '<lambda>' takes no sample_weight"),
        ({"metric": log_loss}, "metric is a function: say with greater_is_better"),
        (
            {"metric": "accuracy", "greater_is_better": True},
            "greater_is_better can only be given for a metric that is a fun",
        ),
        ({"metric": "accuracy", "alpha": 0.9}, "alpha can only be given for a metric that is a function"),
        ({"metric": 3}, "metric must be a name or a function, got 3"),
        ({"response": "transform"}, "response must be one of 'predict', 'predict_proba'"),
        ({"max_masks": 0}, "max_masks must be a whole number of at least 1, got 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            puc_scorer(**arguments)


def test_wrong_people() -> None:
    for arguments, message in [
        ({"X": np.empty((0, 6)), "y": []}, "X has no rows, so there is nobody to score the model on"),
        ({"y": np.ones(7)}, "Found input variables with inconsistent numbers of samples"),
        ({"sample_weight": np.zeros(100)}, "Sample weights must contain at least one non-zero number"),
        ({"sample_weight": -np.ones(100)}, "sample_weight is -1.0 in row 0; weights must be finite and not negative"),
        ({"optional": ["blood"]}, "optional names column 'blood', but the table has no column names"),
        ({"optional": [9]}, "optional names column 9, but the table has 6 feature"),
        (
            {"frequencies": {"urine": 1.0}},
            r"frequencies: Group 'urine' is not in the consent schema; its groups are \['app', 'blood'\]",
        ),
        ({"frequencies": {"app": -1.0}}, "The frequency of 'app' is -1.0; it must be a non-negative number"),
        ({"frequencies": {"app": 0.0}}, "frequencies are all 0"),
        ({"frequencies": [0.5, 0.5]}, "frequencies must be a dict set of groups -> share, got list"),
        ({"X": np.ones((100, 5))}, "5 columns, but the consent schema was declared for 6"),
    ]:
        X, y, model = fitted(100)
        given = {"X": X, "y": y, **arguments}
        with pytest.raises(ValueError, match=message):
            puc_score(model, **given)


def test_models_that_know_no_consent() -> None:
    X, y = make_table(100)
    plain = puc.PUCClassifier(**SMALL).fit(X, y)
    for model in (plain, plain.booster_, DummyClassifier().fit(X, y), lambda X: np.full(len(X), 0.5)):
        with pytest.raises(ValueError, match="It is not known what people may withhold"):
            puc_score(model, X, y)
        puc_score(model, X, y, optional=GROUPS)
    with pytest.raises(TypeError, match="Cannot score a str; pass a fitted estimator, a booster, or a function"):
        puc_score("model", X, y, optional=GROUPS)
