"""What a numpy masked array masks is withheld: nobody learns it, and nothing counts as shared because of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from engine_kits import EngineKit, every_engine

import pucboost as puc
from pucboost._tables.sources import row_source

N = 400
RNG = np.random.default_rng(0)
VALUES = RNG.integers(0, 50, size=(N, 4))
WITHHELD = np.zeros((N, 4), dtype=bool)
WITHHELD[:, 2:] = RNG.random((N, 2)) < 0.5
LABEL = (VALUES.sum(axis=1) + RNG.integers(0, 40, N) > 110).astype(int)
OPTIONAL = [2, 3]

EXPECTED = np.where(WITHHELD, np.nan, VALUES.astype(np.float64))
MASKED = {
    "int64": np.ma.array(VALUES, mask=WITHHELD),
    "uint8": np.ma.array(VALUES.astype(np.uint8), mask=WITHHELD),
    "float64": np.ma.array(VALUES.astype(np.float64), mask=WITHHELD),
    "float32": np.ma.array(VALUES.astype(np.float32), mask=WITHHELD),
    "by columns": np.ma.array(np.asfortranarray(VALUES.astype(np.float64)), mask=WITHHELD),
}


class Rows(lgb.Sequence):
    """Rows of a masked array."""

    batch_size = 100

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: Any) -> Any:
        return MASKED["float64"][index]


def test_masked_is_missing() -> None:
    consent = puc.Consent.declare(OPTIONAL, [f"c{j}" for j in range(4)])
    for table in (*MASKED.values(), [MASKED["float64"][:100], MASKED["int64"][100:]], Rows()):
        source = row_source(table)
        np.testing.assert_array_equal(source.window(0, N), EXPECTED)
        np.testing.assert_array_equal(source.take(np.array([150, 1])), EXPECTED[[150, 1]])
        np.testing.assert_array_equal(consent.availability(source), consent.availability(EXPECTED))
    assert all(table.mask.sum() == WITHHELD.sum() for table in MASKED.values())  # the caller's own are as they were


def test_an_array_that_masks_nothing_is_read_in_place() -> None:
    table = np.ma.array(EXPECTED)
    assert np.shares_memory(row_source(table).window(0, 5), EXPECTED)
    assert type(row_source(table).window(0, 5)) is np.ndarray


@every_engine
def test_train_and_predict(kit: EngineKit) -> None:
    table, params = MASKED["int64"], {**kit.params, "optional": OPTIONAL}
    expected = puc.train(params, puc.Dataset(EXPECTED, LABEL), 5)
    X = EXPECTED
    for data in (puc.Dataset(table, LABEL), lgb.Dataset(table, LABEL), (table, LABEL)):
        booster = puc.train(params, data, 5)
        np.testing.assert_array_equal(puc.predict(booster, X), puc.predict(expected, X))
    sharings: tuple[Any, ...] = ("as_given", "best")
    for sharing in sharings:
        np.testing.assert_array_equal(
            *(puc.predict(expected, given, sharing=sharing, favourable="lower") for given in (table, X))
        )
    np.testing.assert_array_equal(puc.quote(expected, table), puc.quote(expected, X))
    if kit.name != "xgboost":
        np.testing.assert_array_equal(expected.predict(table), expected.predict(X))
    else:
        np.testing.assert_array_equal(expected.inplace_predict(table), expected.inplace_predict(X))


def test_the_rest() -> None:
    table = MASKED["int64"]
    params = {"objective": "binary", "verbosity": -1, "num_threads": 1, "optional": OPTIONAL, "deterministic": True}
    folds = [puc.cv(params, puc.Dataset(X, LABEL), 3, nfold=2) for X in (table, EXPECTED)]
    assert folds[0] == folds[1]
    plain = [puc.train({**params, "optional": None}, puc.Dataset(X, LABEL), 3) for X in (table, EXPECTED)]
    np.testing.assert_array_equal(plain[0].predict(EXPECTED), plain[1].predict(EXPECTED))
    augmented = [puc.augment(X, LABEL, optional=OPTIONAL) for X in (table, EXPECTED)]
    for one, other in zip(*augmented, strict=True):
        np.testing.assert_array_equal(one, other)
    fitted = [puc.PUCClassifier(optional=OPTIONAL, n_estimators=3, n_jobs=1).fit(X, LABEL) for X in (table, EXPECTED)]
    np.testing.assert_array_equal(fitted[0].predict_proba(table), fitted[1].predict_proba(EXPECTED))
    refitted = puc.refit(puc.train(params, (EXPECTED, LABEL), 3), table, LABEL)
    assert refitted.consent.n_groups == 2


def test_a_model_that_is_audited_does_not_see_what_is_masked() -> None:
    seen: list[Any] = []

    def model(X: Any) -> Any:
        seen.append(X)
        return np.full(len(X), 0.5)

    options: dict[str, Any] = {"folds": 3, "margin": 0.1, "nuisance": {"num_leaves": 3}}
    report = puc.audit(model, MASKED["int64"], LABEL, optional=OPTIONAL, **options)
    assert all(type(X) is np.ndarray for X in seen)
    expected = puc.audit(model, EXPECTED, LABEL, optional=OPTIONAL, **options)
    assert report.penalty.equals(expected.penalty)


MASKED_LABEL = np.ma.array(LABEL, mask=np.arange(N) % 100 == 7)
MASKED_WEIGHT = np.ma.array(np.ones(N), mask=np.arange(N) % 100 == 7)
PARAMS = {"verbosity": -1, "num_threads": 1, "optional": OPTIONAL}
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: puc.Dataset(EXPECTED, MASKED_LABEL), "The label"),
    (lambda: puc.train(PARAMS, lgb.Dataset(EXPECTED, MASKED_LABEL), 1), "label of train_set"),
    (lambda: puc.Dataset(EXPECTED, LABEL, weight=MASKED_WEIGHT), "The weight"),
    (lambda: puc.train(PARAMS, lgb.Dataset(EXPECTED, LABEL, weight=MASKED_WEIGHT), 1), "weight of train_set"),
    (lambda: puc.Dataset(EXPECTED, LABEL, exposure=MASKED_WEIGHT), "The exposure"),
    (lambda: puc.Dataset(EXPECTED, LABEL, init_score=MASKED_WEIGHT), "The init_score"),
    (lambda: puc.cv(PARAMS, lgb.Dataset(EXPECTED, LABEL, init_score=MASKED_WEIGHT), 1), "init_score of train_set"),
    (lambda: puc.train(PARAMS, puc.Dataset(EXPECTED, LABEL, available=MASKED["int64"][:, 2:]), 1), "available"),
    (lambda: puc.augment(EXPECTED, MASKED_LABEL, optional=OPTIONAL), "y"),
    (lambda: puc.augment(EXPECTED, LABEL, sample_weight=MASKED_WEIGHT, optional=OPTIONAL), "sample_weight"),
    (lambda: puc.PUCClassifier(optional=OPTIONAL).fit(EXPECTED, MASKED_LABEL), "y"),
    (lambda: puc.PUCRegressor(optional=OPTIONAL).fit(EXPECTED, MASKED_LABEL), "y"),
    (lambda: puc.PUCRegressor(optional=OPTIONAL).fit(EXPECTED, LABEL, sample_weight=MASKED_WEIGHT), "sample_weight"),
    (lambda: puc.PUCRegressor(optional=OPTIONAL).fit(EXPECTED, LABEL, eval_set=[(EXPECTED, MASKED_LABEL)]), "y"),
    (lambda: puc.audit(lambda X: X[:, 0], EXPECTED, MASKED_LABEL, optional=OPTIONAL, margin=0.1), "y"),
    (
        lambda: puc.audit(lambda X: X[:, 0], EXPECTED, LABEL, optional=OPTIONAL, weight=MASKED_WEIGHT, margin=0.1),
        "weight",
    ),
]


def test_unknown_labels_and_weights_are_refused() -> None:
    for call, name in REFUSED:
        with pytest.raises(
            ValueError, match=rf"{name} is masked in row \d+ \(\d+ such rows\), so it is not known there"
        ):
            call()
