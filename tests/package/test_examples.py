"""Every example runs as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
    assert "Consent audit: VIOLATED\n" in plain
    assert "Consent audit: CERTIFIED\n" in protected  # not in part


def check_credit_nonresponse(output: str) -> None:
    """Who leaves income blank is told more by plain LightGBM, not by pucboost, unless a base column gives them away."""
    assert output.startswith("simulated applicants")
    table = {line[:28].strip(): line[28:].split() for line in output.splitlines() if "0." in line[-6:]}
    blank = {name: float(cells[0]) for name, cells in table.items()}
    auc = {name: float(cells[2]) for name, cells in table.items()}
    assert abs(blank["pucboost"] - blank["base features only"]) < 1
    assert blank["plain LightGBM"] > blank["base features only"] + 2
    assert blank["pucboost, debt ratio left in"] > blank["base features only"] + 2
    assert auc["base features only"] + 0.03 < auc["pucboost"] < auc["plain LightGBM"]
    assert "audit of plain LightGBM: violated." in output
    assert "audit of pucboost: certified." in output


def check_legacy_anchor(output: str) -> None:
    """Nobody's premium changes who shares nothing; those who share pay less on average, and more justly."""
    silent, sharers, loss, bonus, balance, _ = output.splitlines()
    assert int(silent.split()[2].replace(",", "")) > 1_000
    assert silent.endswith("premiums that changed: 0")
    assert float(sharers.partition("changes by ")[2].split()[0]) < -5
    assert float(loss.split()[-2]) < -3
    assert bonus.endswith("largest increase 0.00")
    old, new, silent_balance, sharers_balance = (float(x) for x in re.findall(r"\d+\.\d+", balance))
    assert abs(old - 1) < 0.05
    assert new > 1.05
    assert silent_balance > sharers_balance


def check_choosing_a_scheme(output: str) -> None:
    """Any protection is far better than none; four copies are as good as all subsets, and better than one."""
    rows = re.findall(r"^(\w+(?:, copies=\d)?) +([\d.]+) +([\d.]+) +[\d.]+$", output, re.MULTILINE)
    copies, gap = {name: float(n) for name, n, _ in rows}, {name: float(g) for name, _, g in rows}
    assert len(gap) == 7
    assert gap["none"] > 1.5 * gap["fixed"]
    assert gap["fixed"] > 1.2 * gap["balanced, copies=4"]
    assert gap["balanced, copies=1"] > 1.1 * gap["balanced, copies=4"]
    assert abs(gap["balanced, copies=4"] / gap["exhaustive"] - 1) < 0.1
    assert copies["balanced, copies=4"] == 4 < copies["exhaustive"]


def check_tuning_under_consent(output: str) -> None:
    """The search on raw data finds the forbidden inference, the search under consent a protected model."""
    raw, raw_found, consent, consent_found, _ = output.splitlines()
    assert raw.startswith("tuned on the raw loss")
    assert "augmentation=none" in raw
    assert consent.startswith("tuned on the consent loss")
    assert "augmentation=balanced" in consent
    numbers = r"raw loss (\S+), consent loss (\S+), surcharge for silence (\S+) "
    (raw_1, consent_1, surcharge_1), (raw_2, consent_2, surcharge_2) = (
        map(float, re.search(numbers, found).groups()) for found in (raw_found, consent_found)
    )
    assert raw_1 < raw_2
    assert consent_1 > consent_2
    assert surcharge_1 > 10
    assert abs(surcharge_2) < 4


def check_explanations(output: str) -> None:
    """Both explanations add up; only SHAP attributes something to data that were withheld."""
    errors = re.findall(r"= premium, up to (\S+) dollars", output)
    assert len(errors) == 2
    assert all(float(error) < 1e-6 for error in errors)
    credited = re.findall(r"SHAP still attributes (\d+) dollars .* the sharing value (\d+)", output)
    assert len(credited) == 2
    assert all(int(by_shap) > 10 and int(by_sharing) == 0 for by_shap, by_sharing in credited)
    for start in ("SHAP: average", "sharing value: without"):
        line = next(line for line in output.splitlines() if line.strip().startswith(start)).replace(start, "")
        *parts, premium = (int(number.replace(",", "")) for number in re.findall(r"[+-]?\d[\d,]*\d|[+-]\d", line))
        assert abs(sum(parts) - premium) <= len(parts)  # each is rounded
    ends = re.findall(r"in 9 of 10 cases between (\S+) and (\S+)", output)
    without, with_app = (int(high.replace(",", "")) - int(low.replace(",", "")) for low, high in ends)
    assert with_app < without
    assert "Both questions are needed" in output
    assert re.search(r"told +question .*\n.* blood test ", output)


CHECKS = {
    "choosing_a_scheme": check_choosing_a_scheme,
    "consent_audit": check_consent_audit,
    "credit_nonresponse": check_credit_nonresponse,
    "explanations": check_explanations,
    "health_insurance": check_health_insurance,
    "legacy_anchor": check_legacy_anchor,
    "quickstart": check_quickstart,
    "strategic_sharing": check_strategic_sharing,
    "tuning_under_consent": check_tuning_under_consent,
}
# shap 0.51 calls what matplotlib 3.11 is going to deprecate when it is imported.
WARNINGS = {"explanations": ["-W", "ignore::PendingDeprecationWarning"]}


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", *WARNINGS.get(script.stem, []), str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PUCBOOST_DATA": str(tmp_path)},  # where there are no data
    )
    assert done.returncode == 0, done.stderr
    CHECKS[script.stem](done.stdout)
    pictures = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("saved ")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(pictures)
