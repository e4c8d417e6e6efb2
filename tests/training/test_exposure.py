"""Exposure in ``train`` and ``cv``: label Y/e and weight w·e, on every engine, from every container."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from engine_kits import LIGHTGBM, EngineKit, every_engine
from sklearn.model_selection import StratifiedKFold

import pucboost as puc

OPTIONAL = [2]
LOSSES = ("poisson", "gamma", "tweedie")
both = pytest.mark.parametrize("optional", [None, OPTIONAL], ids=["plain", "protected"])


def claims(n: int = 400, seed: int = 0) -> tuple[Any, Any, Any]:
    """Totals over exposures: the withheld column is withheld the more, the larger it is."""
    rng = np.random.default_rng(seed)
    X, exposure = rng.normal(size=(n, 3)), rng.uniform(0.1, 3, n)
    total = rng.poisson(exposure * np.exp(0.3 * X[:, 0] + 0.5 * X[:, 2])) + 0.1 * rng.random(n)
    X[rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 2])), 2] = np.nan
    return X, total, exposure


X, TOTAL, EXPOSURE = claims()
V, V_TOTAL, V_EXPOSURE = claims(200, 1)
WEIGHT = np.linspace(0.5, 2, len(X))


def params(kit: EngineKit, optional: Any, loss: str = "poisson", **more: Any) -> dict[str, Any]:
    return {**kit.params, "objective": kit.objectives[loss], **kit.tiny_trees, "optional": optional, **more}


@every_engine
@pytest.mark.parametrize("loss", LOSSES)
def test_with_nothing_optional_it_is_the_engine_on_rates(kit: EngineKit, loss: str) -> None:
    for weight in (None, WEIGHT):
        fields = {"exposure": EXPOSURE, "weight": weight}
        ours = kit.fit(X, TOTAL, 8, fields, optional=None, objective=kit.objectives[loss])
        weights = EXPOSURE if weight is None else weight * EXPOSURE
        alone = {**kit.params, "objective": kit.objectives[loss]}
        assert kit.model(ours) == kit.model(kit.fit_alone(alone, X, TOTAL / EXPOSURE, 8, weight=weights))


@every_engine
@pytest.mark.parametrize("loss", LOSSES)
def test_protected_training_is_that_on_rates(kit: EngineKit, loss: str) -> None:
    given = params(kit, OPTIONAL, loss)
    ours = puc.train(given, puc.Dataset(X, TOTAL, weight=WEIGHT, exposure=EXPOSURE), 8)
    rates = puc.train(given, puc.Dataset(X, TOTAL / EXPOSURE, weight=WEIGHT * EXPOSURE), 8)
    assert kit.trees(ours) == kit.trees(rates)
    assert ours.puc_summary.per_exposure
    assert not rates.puc_summary.per_exposure
    table = kit.fit_table(X, TOTAL / EXPOSURE, 8, weight=WEIGHT * EXPOSURE, **given)
    assert kit.trees(ours) == kit.trees(table)


@every_engine
@pytest.mark.parametrize("more", [{"compact": True}, {"anchor": "base"}, {"anchor": "base", "anchor_strength": 1.0}])
def test_with_merged_rows_and_anchors(kit: EngineKit, more: dict[str, Any]) -> None:
    given, coarse = params(kit, OPTIONAL, **more), X.round()
    ours = puc.train(given, puc.Dataset(coarse, TOTAL, exposure=EXPOSURE), 5)
    rates = puc.train(given, puc.Dataset(coarse, TOTAL / EXPOSURE, weight=EXPOSURE), 5)
    np.testing.assert_array_equal(puc.predict(ours, coarse), puc.predict(rates, coarse))


@both
def test_exposure_in_any_container(optional: Any) -> None:
    containers: dict[Any, Any] = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame, list: np.asarray}
    containers[lambda values: pd.DataFrame({"years": values})] = np.asarray
    for vector, table in containers.items():
        given = params(LIGHTGBM, optional)
        expected = puc.train(given, puc.Dataset(table(X), TOTAL / EXPOSURE, weight=EXPOSURE), 4)
        ours = puc.train(given, puc.Dataset(table(X), vector(TOTAL), exposure=vector(EXPOSURE)), 4)
        assert LIGHTGBM.trees(ours) == LIGHTGBM.trees(expected)


@every_engine
@both
def test_validation_sets(kit: EngineKit, optional: Any) -> None:
    train = puc.Dataset(X, TOTAL, exposure=EXPOSURE)
    valid = puc.Dataset(V, V_TOTAL, reference=train, exposure=V_EXPOSURE)
    rates, valid_rates = (
        puc.Dataset(x, y / e, weight=e) for x, y, e in ((X, TOTAL, EXPOSURE), (V, V_TOTAL, V_EXPOSURE))
    )
    given = params(kit, optional)
    _, ours = kit.fit_recorded(given, train, 5, [train, valid, valid])
    _, expected = kit.fit_recorded(given, rates, 5, [rates, valid_rates, valid_rates])
    assert ours == expected
    assert len(ours) == 3
    for dataset, label, exposure in ((train, TOTAL, EXPOSURE), (valid, V_TOTAL, V_EXPOSURE)):
        assert dataset._handle is None
        assert dataset.label is label
        assert dataset.weight is None
        assert dataset.exposure is exposure
        assert dataset.reference is (train if dataset is valid else None)


@every_engine
@both
def test_exposure_of_one_set_only(kit: EngineKit, optional: Any) -> None:
    with_one, without = puc.Dataset(X, TOTAL, exposure=EXPOSURE), puc.Dataset(V, V_TOTAL)
    for train, valid, message in (
        (with_one, without, "train_set has an exposure, but validation set 0 has none"),
        (without, with_one, "validation set 0 has an exposure, but train_set has none"),
    ):
        with pytest.raises(ValueError, match=message):
            puc.train(params(kit, optional), train, 2, [valid])


@both
@pytest.mark.parametrize("constructed", [False, True])
def test_subsets(optional: Any, constructed: bool) -> None:
    """They are tables of their rows, with bins of their own."""
    rows, given, total = np.arange(0, len(X), 2), params(LIGHTGBM, optional), TOTAL
    if constructed:  # LightGBM then only has what fits into float32
        total, weight = TOTAL.round(), None
    else:
        weight = WEIGHT
    whole = puc.Dataset(X, total, exposure=EXPOSURE, weight=weight, free_raw_data=False)
    if constructed:
        whole.construct()
    subset = whole.subset(rows.tolist())
    if constructed:
        subset.construct()
    weights = EXPOSURE if weight is None else weight * EXPOSURE
    some = np.array([0, *range(1, len(rows), 3)])
    for ours, at in ((subset, rows), (subset.subset(some.tolist()), rows[some])):
        rates = puc.Dataset(X[at], (total / EXPOSURE)[at], weight=weights[at])
        assert LIGHTGBM.trees(puc.train(given, ours, 5)) == LIGHTGBM.trees(puc.train(given, rates, 5))


@both
def test_labels_and_exposures_set_on_a_subset(optional: Any) -> None:
    given, rows = params(LIGHTGBM, optional), list(range(0, len(X), 2))
    subset = puc.Dataset(X, TOTAL, exposure=EXPOSURE).subset(rows).set_label(TOTAL[rows][::-1].copy())
    subset.exposure = 2 * EXPOSURE[rows]
    rates = TOTAL[rows][::-1] / 2 / EXPOSURE[rows]
    expected = puc.train(given, puc.Dataset(X[rows], rates, weight=2 * EXPOSURE[rows]), 4)
    assert LIGHTGBM.trees(puc.train(given, subset, 4)) == LIGHTGBM.trees(expected)


@every_engine
@both
def test_cv(kit: EngineKit, optional: Any) -> None:
    """Folds are stratified by the counts: rates cannot be. Each has its own bins, with nothing optional, too."""
    counts, given = np.minimum(TOTAL.round(), 2), params(kit, optional)
    ours = puc.cv(given, puc.Dataset(X, counts, exposure=EXPOSURE), 4, nfold=3)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, counts))
    if kit is LIGHTGBM and optional is None:  # lgb.cv itself would bin the whole table
        found = []
        for rows in folds:
            train, valid = (puc.Dataset(X[at], (counts / EXPOSURE)[at], weight=EXPOSURE[at]) for at in rows)
            found.append(kit.fit_recorded(given, train, 4, [valid])[1]["valid_0"]["poisson"])
        np.testing.assert_allclose(ours["valid poisson-mean"], np.mean(found, axis=0), rtol=1e-12)
        return
    rates = puc.Dataset(X, counts / EXPOSURE, weight=EXPOSURE)
    assert ours == puc.cv(given, rates, 4, folds=folds)
    shuffled = puc.cv(given, puc.Dataset(X, TOTAL, exposure=EXPOSURE), 4, nfold=3, stratified=False)
    rates = puc.Dataset(X, TOTAL / EXPOSURE, weight=EXPOSURE)
    assert shuffled == puc.cv(given, rates, 4, nfold=3, stratified=False)


@both
def test_fpreproc_sees_rates(optional: Any) -> None:
    seen = []

    def look(train: Any, valid: Any, params: Any) -> Any:
        train.construct()
        seen.append((train.get_field("label").copy(), train.get_field("weight").copy()))
        return train, valid, params

    data = puc.Dataset(X, TOTAL, exposure=EXPOSURE)
    with_one = puc.cv(params(LIGHTGBM, optional), data, 3, nfold=2, stratified=False, shuffle=False, fpreproc=look)
    without = puc.cv(params(LIGHTGBM, optional), data, 3, nfold=2, stratified=False, shuffle=False)
    assert with_one == without
    half = len(X) // 2
    for (label, weight), rows in zip(seen, (slice(half, None), slice(half)), strict=True):
        np.testing.assert_array_equal(label, (TOTAL / EXPOSURE)[rows].astype(np.float32))
        np.testing.assert_array_equal(weight, EXPOSURE[rows].astype(np.float32))


def with_value(row: int, value: float) -> Any:
    changed = EXPOSURE.copy()
    changed[row] = value
    return changed


@every_engine
def test_bad_exposures(kit: EngineKit) -> None:
    for exposure, message in (
        (with_value(7, 0.0), r"The exposure of train_set is 0.0 in row 7 \(1 such rows\); .* Leave out rows without"),
        (with_value(7, -1.0), "The exposure of train_set is -1.0 in row 7"),
        (with_value(7, np.nan), "The exposure of train_set is nan in row 7"),
        (with_value(7, np.inf), "exposures must be finite and above 0"),
        (EXPOSURE[:-1], "exposure of train_set must have one value for each of the 400 rows, got shape .399,."),
        (["year"] * 400, "exposure of train_set must be numeric"),
    ):
        for optional in (None, OPTIONAL):
            given, data = params(kit, optional), puc.Dataset(X, TOTAL, exposure=exposure)
            with pytest.raises(ValueError, match=message):
                puc.train(given, data, 2)
            with pytest.raises(ValueError, match=message):
                puc.cv(given, data, 2, stratified=False)


@every_engine
@both
def test_other_losses_take_no_exposure(kit: EngineKit, optional: Any) -> None:
    data = puc.Dataset(X, (TOTAL > 1).astype(float), exposure=EXPOSURE)
    message = r"exposure with objective='.*': .* 'poisson', 'gamma', 'tweedie' .* weight is"
    for loss in ("l2", "binary", "quantile"):
        given = params(kit, optional, loss)
        if loss == "quantile" and kit.name == "xgboost":
            given["quantile_alpha"] = 0.5
        with pytest.raises(ValueError, match=message):
            puc.train(given, data, 2)
    without = {k: v for k, v in params(kit, optional).items() if k != "objective"}
    with pytest.raises(ValueError, match=r"exposure with objective='\w+"):
        puc.cv(without, data, 2)


def test_raw_data_that_are_gone() -> None:
    data = puc.Dataset(X, TOTAL, exposure=EXPOSURE).construct()
    for optional in (None, OPTIONAL):
        with pytest.raises(ValueError, match="train_set is already constructed and its raw data are gone"):
            puc.train(params(LIGHTGBM, optional), data, 2)


@every_engine
def test_bad_totals_are_named_as_they_were_given(kit: EngineKit) -> None:
    label = TOTAL.copy()
    label[5] = -2
    with pytest.raises(
        ValueError, match=r"label of train_set is -2.0 in row 5; objective 'poisson' needs labels of at"
    ):
        puc.train(params(kit, OPTIONAL), puc.Dataset(X, label, exposure=EXPOSURE), 2)
    with pytest.raises(ValueError, match=r"label of train_set, divided by the exposure, is inf in row 7"):
        puc.train(params(kit, OPTIONAL), puc.Dataset(X, TOTAL + 1, exposure=with_value(7, 1e-300)), 2)


def test_a_model_knows_that_it_predicts_per_unit(tmp_path: Any) -> None:
    booster = puc.train(params(LIGHTGBM, OPTIONAL), puc.Dataset(X, TOTAL, exposure=EXPOSURE), 2)
    puc.save_model(booster, tmp_path / "model.txt")
    assert puc.load_model(tmp_path / "model.txt").puc_summary.per_exposure
    puc.save_model(puc.train(params(LIGHTGBM, OPTIONAL), lgb.Dataset(X, TOTAL), 2), tmp_path / "model.txt")
    assert not puc.load_model(tmp_path / "model.txt").puc_summary.per_exposure


# ----- the truth

RATE = np.exp(-1 + 0.3 * np.arange(4)[:, None] + np.array([-0.6, 0.6]))
"""By base feature and withheld column."""


def people(loss: str, n: int = 20_000) -> tuple[Any, Any, Any]:
    """Totals with known rates. Half have z = 1, and these withhold it three times as often; exposures vary with b."""
    rng = np.random.default_rng(5)
    b, z = rng.integers(0, 4, n), rng.integers(0, 2, n)
    exposure = rng.poisson(3.0 * (b + 1), n) + 1.0 if loss == "gamma" else rng.uniform(0.2, 0.6, n) * (b + 1)
    mean = exposure * RATE[b, z]
    if loss == "gamma":
        total = rng.gamma(exposure, RATE[b, z])
    else:
        total = rng.poisson(mean).astype(float)
        total = total if loss == "poisson" else rng.gamma(np.maximum(total, 1e-9))
    withheld = rng.random(n) < np.where(z == 1, 0.75, 0.25)
    return np.column_stack([b, np.where(withheld, np.nan, z)]), total, exposure


@every_engine
@pytest.mark.parametrize("loss", LOSSES)
def test_rates_of_the_silent_are_what_their_base_data_justify(kit: EngineKit, loss: str) -> None:
    """Exposure does not depend on z, so the justified rate of the silent is the mean rate by b."""
    table, total, exposure = people(loss)
    silent = np.column_stack([np.arange(4.0), np.full(4, np.nan)])
    given = {**kit.params, "objective": kit.objectives[loss], "learning_rate": 0.3, "compact": True}
    found = {}
    for name, optional, dataset in (
        ("protected", [1], puc.Dataset(table, total, exposure=exposure)),
        ("unrestricted", None, puc.Dataset(table, total, exposure=exposure)),
        ("no exposure", [1], puc.Dataset(table, total)),
    ):
        booster = puc.train({**given, "optional": optional}, dataset, 30)
        found[name] = kit.predict(booster, silent) / RATE.mean(axis=1)
    np.testing.assert_allclose(found["protected"], 1, atol=0.05)
    assert found["unrestricted"].min() > 1.1  # three quarters of the silent have the higher rate
    assert np.ptp(found["no exposure"]) > 0.5  # those with b = 3 are exposed longest
