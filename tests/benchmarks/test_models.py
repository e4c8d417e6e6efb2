"""Every model in every variant, behind one call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import data, models

pytestmark = pytest.mark.slow  # they guard nothing but the studies


@pytest.mark.parametrize("variant", models.VARIANTS)
@pytest.mark.parametrize("model", [*models.SCIKIT, models.PEOPLES_FOREST, *models.BOOSTED])
@pytest.mark.parametrize("name", ["adult", "income"])
def test_models_behind_one_call(folder: Path, model: str, variant: str, name: str) -> None:
    task = data.load(name, quick=True)
    X, optional = task.withhold_several(0)
    changed = {"rounds": 5} if model in models.BOOSTED else {"n_estimators": 5}
    how = {"is_classification": task.is_classification, "seed": 0, **changed}
    fitted = models.fit(model, variant, X, task.y, optional, **how)
    prediction = fitted.predict(X)
    assert prediction.shape == task.y.shape
    assert prediction.std() > 0
    if task.is_classification:
        assert 0 <= prediction.min() <= prediction.max() <= 1
    assert (fitted.virtual_rows > 1) == (variant in ("exhaustive", "balanced"))
    silent = X.assign(**dict.fromkeys(optional, np.nan))
    if variant == "base":
        assert np.allclose(fitted.predict(silent), prediction, rtol=1e-12)  # forests add up in any order
    else:
        assert not np.allclose(fitted.predict(silent), prediction)


@pytest.mark.parametrize("variant", models.VARIANTS)
def test_which_bags_are_the_same(variant: str) -> None:
    task = data.load("income", quick=True)
    X, optional = task.withhold_several(0)
    how = {"is_classification": False, "seed": 0, "n_estimators": 5}
    default, bagged = (
        models.fit(model, variant, X, task.y, optional, **how).predict(X)
        for model in ("Random Forest", models.BAGGED_FOREST)
    )
    assert np.allclose(default, bagged, rtol=1e-12) == (variant in models.SAME_BAGS)


def test_rows_of_the_same_bags_are_found() -> None:
    def row(model: str, variant: str, run: str) -> dict[str, str]:
        return {"data": "a", "model": model, "variant": variant, "run": run}

    rows = [row("Random Forest", variant, run) for variant in ("base", "exhaustive") for run in "01"]
    rows.append(row(models.BAGGED_FOREST, "exhaustive", "1"))
    assert models.with_same_bags(rows)[5:] == [row(models.BAGGED_FOREST, "base", "1")]
    assert models.variants_of(models.BAGGED_FOREST, models.VARIANTS) == ["exhaustive", "balanced"]
    assert models.variants_of("Extra Trees", models.VARIANTS) == list(models.VARIANTS)


@pytest.mark.parametrize("is_classification", [True, False])
def test_bags_of_people_bring_all_copies(is_classification: bool) -> None:
    """Copies that say the same change nothing, as nobody gets into more bags by having more of them."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200).astype(float)
    source = np.concatenate([np.arange(200), np.arange(80)])  # weights of 1 and ½: sums are exact
    once, often = (models.PeoplesForest(is_classification, 5, n_estimators=10) for _ in range(2))
    once.fit(X, y)
    often.fit(X[source], y[source], 1 / np.bincount(source)[source], source)
    fresh = rng.normal(size=(50, 3))
    assert np.allclose(once.predict(fresh), often.predict(fresh))


def test_imputation(folder: Path) -> None:
    encoder = models.Encoder(("z",), {"z": 7.0}, indicators=True)
    table = pd.DataFrame({"b": [1.0, np.nan], "z": [np.nan, 3.0], "c": pd.Categorical(["x", "y"])})
    assert encoder.complete(encoder.encode(table)).tolist() == [[1, 7, 1, 0, 0], [0, 3, 0, 1, 1]]
