"""What an estimator says by itself is what pucboost's functions say about it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from engine_kits import EngineKit, every_engine
from estimator_tools import classifier, regressor
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tools import make_table

import pucboost as puc

NAMES = list("abcdef")
GROUPS = {"app": ["d", "e"], "blood": ["f"]}


def table(n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    X, y = make_table(n, seed=seed)
    return pd.DataFrame(X, columns=NAMES, index=np.arange(n) + 1000), y


def labels(y: np.ndarray, X: pd.DataFrame) -> np.ndarray:
    return np.array(["low", "middle", "high"])[(y + (X["a"] > 0.3)).astype(int)]


def test_a_table_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(100)
    model = classifier(optional=GROUPS).fit(X, labels(y, X))
    original, reads = type(model)._table, []

    def counted(self: Any, X: Any) -> Any:
        reads.append(1)
        return original(self, X)

    monkeypatch.setattr(type(model), "_table", counted)
    model.predict_proba(X, sharing="best", favourable="lower", target_class="low")
    assert len(reads) == 1


@every_engine
def test_predictions_under_a_rule(kit: EngineKit) -> None:
    for favourable in ["lower", "higher"]:
        X, y = table()
        rule: dict[str, Any] = {"favourable": favourable}
        model = regressor(optional=GROUPS, engine=kit.name).fit(X, y)
        for sharing in ("as_given", "withheld", "best"):
            ours = model.predict(X, sharing=sharing, **rule)
            np.testing.assert_array_equal(ours, puc.predict(model, X, sharing=sharing, **rule))
        two = classifier(optional=GROUPS, engine=kit.name).fit(X, np.where(y == 1, "claim", "a none"))
        for sharing in ("as_given", "withheld", "best"):
            p = two.predict_proba(X, sharing=sharing, **rule)
            np.testing.assert_array_equal(p[:, 1], puc.predict(two, X, sharing=sharing, **rule))
            np.testing.assert_array_equal(
                two.predict(X, sharing=sharing, **rule), two.classes_[(p[:, 1] > 0.5).astype(int)]
            )
        with pytest.raises(ValueError, match="do people prefer a lower or a higher probability of 'claim'"):
            two.predict_proba(X, sharing="best")
        with pytest.raises(ValueError, match="do people prefer a lower or a higher prediction"):
            model.predict(X, sharing="best")
        best = two.predict_proba(X, sharing="best", **rule)[:, 1]
        sign = 1 if favourable == "lower" else -1
        assert (sign * best <= sign * two.predict_proba(X)[:, 1]).all()
        assert (sign * best < sign * two.predict_proba(X)[:, 1]).any()


@every_engine
def test_several_classes(kit: EngineKit) -> None:
    X, y = table()
    model = classifier(optional=GROUPS, engine=kit.name).fit(X, labels(y, X))
    with pytest.raises(ValueError, match="Choose a class with target_class"):
        model.predict_proba(X, sharing="best", favourable="lower")
    rule: dict[str, Any] = {"sharing": "best", "favourable": "higher", "target_class": "low"}
    p = model.predict_proba(X, **rule)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    place = model.classes_.tolist().index("low")
    np.testing.assert_allclose(p[:, place], puc.predict(model, X, **rule), rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X, **rule), model.classes_[p.argmax(axis=1)])
    value = model.sharing_value(X, target_class="high")
    pd.testing.assert_frame_equal(value, puc.sharing_value(model, X, target_class="high"))
    rule = {"target_class": "high", "favourable": "lower"}
    assert model.sharing_effects(X, **rule) == puc.sharing_effects(model, X, **rule)
    with pytest.raises(ValueError, match="the classes of the model are"):
        model.sharing_value(X, target_class="none")


@every_engine
def test_values_monotonicity_and_files(kit: EngineKit, tmp_path: Path) -> None:
    X, y = table()
    for model in (regressor(optional=GROUPS, engine=kit.name), classifier(optional=GROUPS, engine=kit.name)):
        model.fit(X, y)
        value = model.sharing_value(X)
        assert value.index.equals(X.index)
        pd.testing.assert_frame_equal(value, puc.sharing_value(model, X))
        assert model.sharing_effects(X, favourable="higher") == puc.sharing_effects(model, X, favourable="higher")
        path = tmp_path / f"{type(model).__name__}.model"
        model.save_model(path)
        loaded = puc.load_model(path)
        assert loaded.consent == model.consent_
        np.testing.assert_array_equal(puc.predict(loaded, X), puc.predict(model, X))
    with pytest.raises(ValueError, match=r"target_class is 0.0, but with two classes predictions are the probability"):
        model.sharing_value(X, target_class=0.0)
    assert model.sharing_value(X, target_class=1.0).equals(model.sharing_value(X))


def test_before_fit_and_with_nothing_optional(tmp_path: Path) -> None:
    for method in ("quote", "sharing_value", "sharing_effects"):
        X, y = table()
        with pytest.raises(sklearn.exceptions.NotFittedError):
            getattr(classifier(), method)(X)
        with pytest.raises(sklearn.exceptions.NotFittedError):
            classifier().save_model(tmp_path / "model")
        plain = classifier(optional=None).fit(X, y)
        with pytest.raises(ValueError, match="was fitted with nothing optional"):
            getattr(plain, method)(X)
        with pytest.raises(
            ValueError, match="was fitted with nothing optional, so sharing='best' would change nothing"
        ):
            plain.predict(X, sharing="best", favourable="lower")
        with pytest.raises(ValueError, match="has no consent schema"):
            plain.save_model(tmp_path / "model")
        with pytest.raises(ValueError, match="sharing must be 'as_given', 'withheld' or 'best'; got 'all'"):
            plain.predict(X, sharing="all")


def test_scikit_learn_asks_as_before() -> None:
    """Scorers, searches and metadata routing know nothing of the rules, unless they are told."""
    X, y = table()
    model = classifier(optional=GROUPS)
    scores = cross_validate(model, X, y, cv=2, scoring=["neg_log_loss", "roc_auc", "accuracy"])
    assert np.isfinite(scores["test_neg_log_loss"]).all()
    GridSearchCV(model, {"num_leaves": [3, 7]}, cv=2).fit(X, y).predict(X)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), model)
        GridSearchCV(pipeline, {"pucclassifier__num_leaves": [3, 7]}, cv=2).fit(X, y).predict_proba(X)
        asked = classifier(optional=GROUPS).set_predict_proba_request(sharing=True)
        routed = make_pipeline(StandardScaler().set_output(transform="pandas"), asked).fit(X, y)
        withheld = routed.predict_proba(X, sharing="withheld")
        erased = X.assign(d=np.nan, e=np.nan, f=np.nan)
        np.testing.assert_array_equal(withheld, routed.predict_proba(erased))


@every_engine
def test_pipelines(kit: EngineKit, tmp_path: Path) -> None:
    """A score needs no optional; a pipeline cannot be a model file."""
    X, y = table()
    model = make_pipeline(
        StandardScaler().set_output(transform="pandas"), classifier(optional=GROUPS, engine=kit.name)
    ).fit(X, y)
    alone = model.steps[-1][1]
    scaled = model.steps[0][1].transform(X)
    assert puc.metrics.puc_score(model, X, y) == pytest.approx(puc.metrics.puc_score(alone, scaled, y))
    with pytest.raises(ValueError, match="The steps of a pipeline cannot be written into a model file"):
        puc.save_model(model, tmp_path / "model")


@every_engine
def test_raw_validation_is_said(kit: EngineKit, caplog: pytest.LogCaptureFixture) -> None:
    X, y = table()
    params = {**kit.params, "optional": GROUPS}
    valid = [puc.Dataset(*table(seed=1)), puc.Dataset(*table(seed=2))]
    with caplog.at_level(logging.WARNING, "pucboost"):
        puc.train(params, puc.Dataset(X, y), 2, valid_sets=valid)
        puc.train({**params, "augmentation": "none"}, puc.Dataset(X, y), 2, valid_sets=valid)
        puc.train({**params, "valid_augmentation": "none"}, puc.Dataset(X, y), 2)
        assert caplog.messages == []
        puc.train({**params, "valid_augmentation": "none"}, puc.Dataset(X, y), 2, valid_sets=valid)
        [message] = caplog.messages
        assert message.startswith("validation sets are scored as they are (valid_augmentation='none')")
        caplog.clear()
        puc.cv({**params, "valid_augmentation": "none"}, puc.Dataset(X, y), 2, nfold=3)
        assert len(caplog.messages) == 1
