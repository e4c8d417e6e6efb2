"""Print the oldest allowed version of every dependency in pyproject.toml, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
optional = [one for one in project["optional-dependencies"]["test"] if one.startswith(("polars", "skops", "xgboost"))]
for requirement in [*project["dependencies"], *optional]:
    name, version = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()
    print(f"{name}=={version}")
