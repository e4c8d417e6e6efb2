"""What we say we need: pyproject is the source, the docs and the script for the oldest versions agree with it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLDEST = dict(one.split(">=") for one in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["skops"]])
PAGE = (ROOT / "docs" / "guides" / "deployment.md").read_text(encoding="utf-8")
SECTION = re.search(r"^## Versions\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)[1]


def test_docs_state_the_oldest_versions() -> None:
    assert dict(re.findall(r"^\| ([\w-]+)[^|]* \| ([\d.]+) \|$", SECTION, re.MULTILINE)) == OLDEST


def test_docs_and_readme_state_the_oldest_python() -> None:
    oldest = PROJECT["requires-python"].removeprefix(">=")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"Python ≥? ?(3\.\d+)", readme) == [oldest]
    assert re.findall(r"Python (3\.\d+)", SECTION) == [oldest]


def test_the_oldest_versions_are_installed_for_the_tests_of_them() -> None:
    command = [sys.executable, str(ROOT / ".ci" / "minima.py")]
    pins = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert OLDEST.items() <= dict(pin.split("==") for pin in pins).items()


def test_extras_ask_for_no_less_than_the_package() -> None:
    for extra, requirements in PROJECT["optional-dependencies"].items():
        for name, version in (one.split(">=") for one in requirements if ">=" in one):
            assert OLDEST.get(name, version) == version, (extra, name)
