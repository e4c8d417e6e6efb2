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


def check_health_insurance(output: str) -> None:
    """A member who shares nothing pays the average of their age under pucboost, and a lot more under plain LightGBM."""
    line = next(line for line in output.splitlines() if line.startswith("surcharge for silence"))
    plain, protected = (float(part.split()[-1]) for part in line.partition(":")[2].split(","))
    assert abs(protected) < 150
    assert plain > 300


def check_strategic_sharing(output: str) -> None:
    """With memory members settle, silence costs nothing extra, and the premiums are nearly the best possible."""
    rounds = [[int(cell) for cell in line.split()] for line in output.splitlines() if line[:1].isdigit()]
    assert [row[0] for row in rounds] == list(range(1, 11))
    for changed, changed_without_memory, changed_with_bonus in (row[1:4] for row in rounds[1:]):
        assert changed == changed_with_bonus == 0
        assert changed_without_memory > 25
    memory, _, bonus, plain = rounds[-1][9:]
    assert abs(memory) < 50
    assert abs(bonus) < 50
    assert plain > 500
    line = next(line for line in output.splitlines() if line.startswith("distance of premiums"))
    base, strategic, bonus, best = (int(part.split()[-1]) for part in line.partition(":")[2].split(","))
    # On either side: if the silent pay a little too much by chance, the distance is below what is possible without.
    assert abs(strategic - best) < 0.1 * (base - best)
    assert abs(bonus - best) < 0.1 * (base - best)
    assert "best weight of the badge if the silent pay the base premium: 1.00" in output


def check_consent_audit(output: str) -> None:
    """The plain model is violated, pucboost's is certified."""
    plain, _, protected = output.partition("--- pucboost")
    assert "Consent audit: VIOLATED" in plain
    assert "Consent audit: CERTIFIED" in protected


CHECKS = {
    "consent_audit": check_consent_audit,
    "quickstart": check_quickstart,
    "health_insurance": check_health_insurance,
    "strategic_sharing": check_strategic_sharing,
}


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
    pictures = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("saved ")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(pictures)
