"""Public names: documented with examples that the doctests run, and loaded on first use only."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

import pucboost as puc

RESULTS = {"Family", "Sample", "Response", "Round", "StrategicWorld", "Objective"}
"""What functions return or classes build on; the examples are with those."""


def public() -> list[tuple[str, Any]]:
    found = [(name, getattr(puc, name)) for name in (*puc.__all__, "dask")]
    for module in [value for _, value in found if inspect.ismodule(value)]:
        names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        found += [(f"{module.__name__}.{name}", getattr(module, name)) for name in names]
    own = [(n, v) for n, v in found if callable(v) and getattr(v, "__module__", "").startswith("pucboost")]
    return [(name, value) for name, value in own if name.rpartition(".")[2] not in RESULTS]


def test_documented_with_an_example() -> None:
    for name, value in public():
        assert ">>> " in (inspect.getdoc(value) or ""), f"{name} has no example"
        if not (inspect.isclass(value) and issubclass(value, Exception)):  # those of the language have no signature
            assert inspect.signature(value) is not None


def test_all_names_load() -> None:
    for name in puc.__all__:
        assert getattr(puc, name) is not None
        assert name in dir(puc)
    assert set(dir(puc)) == {*puc.__all__, "__version__"}
    for name in puc._MODULES:
        assert dir(getattr(puc, name)) == sorted(getattr(puc, name).__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = puc.nonsense


def test_import_is_light() -> None:
    heavy = "'xgboost', 'matplotlib', 'sklearn', 'lightgbm', 'numba', 'pandas', 'scipy'"
    code = f"import sys, pucboost; loaded = [m for m in ({heavy}) if m in sys.modules]; assert not loaded, loaded"
    subprocess.run([sys.executable, "-c", code], check=True)
