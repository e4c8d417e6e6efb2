from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_tools import PEOPLE, by_hand, write_table

import pucboost as puc


@pytest.fixture(autouse=True)
def _no_temporaries(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary tables go to a directory that must be empty afterwards."""
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    yield
    assert list(scratch.iterdir()) == []


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One model of each engine."""
    folder = tmp_path_factory.mktemp("models")
    paths = {"lightgbm": folder / "model.txt", "xgboost": folder / "model.ubj", "native": folder / "native.txt"}
    for engine, path in paths.items():
        puc.save_model(by_hand(engine), path)
    return paths


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_table(PEOPLE, tmp_path / "people.csv")
