"""Run LightGBM's own tests with ``train``, ``cv`` and ``Dataset`` of pucboost in place of LightGBM's.

    python tests/lightgbm_suites.py LightGBM/tests/python_package_test [--engine native] [further arguments of pytest]

The first argument is the folder, or one of its files, in a checkout of LightGBM, of the version that is installed. With
another engine than LightGBM, what pucboost refuses is trained by LightGBM, and the refusals are counted.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import lightgbm as lgb
import pytest

import pucboost as puc


class LightGBMAsUsersSeeIt(ModuleType):
    """The module ``lightgbm``, but for three names."""

    Dataset = puc.Dataset

    def __init__(self, engine: str) -> None:
        super().__init__("lightgbm")
        self.engine, self.refused = engine, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(lgb, name)

    def train(self, params: Any, train_set: Any, *args: Any, **kwargs: Any) -> Any:
        return self._run(puc.train, params, train_set, *args, **kwargs)

    def cv(self, params: Any, train_set: Any, *args: Any, **kwargs: Any) -> Any:
        return self._run(puc.cv, params, train_set, *args, **kwargs)

    def _run(self, function: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        if self.engine != "lightgbm" and isinstance(params, dict):
            try:
                return function({"engine": self.engine, **params}, *args, **kwargs)
            except (ValueError, TypeError) as error:
                *_, (frame, _) = traceback.walk_tb(error.__traceback__)
                if not frame.f_globals["__name__"].startswith("pucboost."):
                    raise
                self.refused[str(error)] += 1
        return function(params, *args, **kwargs)


class InTheirModules:
    """Replaces ``lgb`` in the modules that pytest has collected, and what LightGBM's estimators call."""

    def __init__(self, shown: LightGBMAsUsersSeeIt) -> None:
        self.shown = shown
        lgb.sklearn.train, lgb.sklearn.Dataset = shown.train, shown.Dataset  # type: ignore[attr-defined]

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        for module in {item.module for item in items}:
            if getattr(module, "lgb", None) is lgb:
                module.lgb = self.shown

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for reason, times in self.shown.refused.most_common():
            terminalreporter.write_line(f"refused {times} times: {reason}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", default="lightgbm")
    given, further = parser.parse_known_args()
    files = [given.folder] if given.folder.is_file() else sorted(given.folder.glob("test_*.py"))
    files = [file for file in files if file.name != "test_dask.py"]  # LightGBM's own cluster
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", *further]
    return pytest.main([*options, *map(str, files)], [InTheirModules(LightGBMAsUsersSeeIt(given.engine))])


if __name__ == "__main__":
    sys.exit(main())
