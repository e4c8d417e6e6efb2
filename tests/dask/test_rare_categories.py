"""Rare categories of optional columns, with several workers."""

from __future__ import annotations

from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from engine_kits import LIGHTGBM, XGBOOST, EngineKit

import pucboost as puc

pytestmark = pytest.mark.xdist_group("dask")  # one cluster, not one in each process of tests


@pytest.mark.parametrize("kit", [LIGHTGBM, XGBOOST], ids=str)
def test_the_silent_are_told_what_everybody_is(client: Client, kit: EngineKit, tmp_path: Path) -> None:
    """As on one machine: a fifth have a rare category, which adds 1; half share theirs."""
    generator, n = np.random.default_rng(0), 8_000
    b, rare = generator.normal(size=n), generator.random(n) < 0.2
    code = np.where(rare, 20 + generator.integers(0, 400, n), generator.integers(0, 20, n))
    y = 0.3 * b + rare + generator.normal(scale=0.3, size=n)
    z = pd.Series([f"c{one}" for one in code]).where(generator.random(n) < 0.5)
    frame = dd.from_pandas(pd.DataFrame({"b": b, "z": z, "y": y}), npartitions=3)
    params = {**kit.params, "objective": kit.objectives["l2"], "optional": ["z"], "seed": 1}
    booster = puc.dask.train(
        client, params, frame[["b", "z"]], frame["y"], 60, checkpoint=tmp_path / "kept", checkpoint_every=30
    )
    grid = np.linspace(-1.5, 1.5, 301)
    silent = pd.DataFrame({"b": grid, "z": pd.Series([None] * 301, dtype=object)})
    assert np.mean(puc.predict(booster, silent) - 0.3 * grid) == pytest.approx(rare.mean(), abs=0.02)
    known = sorted({f"c{one}" for one in code[rare & z.notna().to_numpy()]})
    if kit is LIGHTGBM:
        some = pd.DataFrame({"b": np.zeros(len(known)), "z": known})
        assert puc.predict(booster, some) == pytest.approx(1.0, abs=0.2)
        kept = puc.dask.last_checkpoint(tmp_path / "kept")
        assert len(set(puc.predict(kept, some))) == 1
