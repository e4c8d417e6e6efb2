"""The repository on the path, and an empty folder of data for the tests that ask for one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import data


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of data that is empty."""
    monkeypatch.setenv("PUCBOOST_DATA", str(tmp_path))
    monkeypatch.setattr(data, "fetch_openml", _no_network)
    return tmp_path


def _no_network(**_: Any) -> Any:
    raise URLError("no network")
