"""Every example runs as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def check_quickstart(output: str) -> None:
    """Silence costs nothing under pucboost, and a lot under plain LightGBM."""
    lines = [line for line in output.splitlines() if "average risk" in line]
    risk = {line.split(":")[0].strip(): float(line.split()[-1]) for line in lines}
    assert abs(risk["pucboost"] - risk["people of the same age"]) < 0.02
    assert risk["plain LightGBM"] > risk["people of the same age"] + 0.1


CHECKS = {"quickstart": check_quickstart}


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    CHECKS[script.stem](done.stdout)
