"""The golden report: ``report.json`` as it is shown, written by ``python tests/auditing/golden/write.py``.

``report.json`` holds the findings of an audit in which every section has something to show. ``report.html``,
``report.md`` and ``report.txt`` are what becomes of it; nothing is drawn, since drawings depend on the version of
matplotlib. ``variants.txt`` lists what else pages may say: the lines that a change to the findings adds. Run this when
words or layout are changed on purpose, and read the difference before it is committed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

from auditing.report_examples import GOLDEN, Reader, golden, penalty

from pucboost._auditing import findings, report
from pucboost._auditing.findings import CERTIFIED, INCONCLUSIVE, VIOLATED, AuditReport


def variants(shown: AuditReport) -> dict[str, AuditReport]:
    """Changes of the golden report that bring in other words."""
    quiet = tuple(replace(one, adjusted_p_value=0.9) for one in shown.informativeness)
    unsure = tuple(replace(p, verdict=INCONCLUSIVE, note=findings.GIVEN_AWAY) for p in shown.penalties if p.decisive)
    passing = tuple(p for p in shown.penalties if p.verdict == CERTIFIED)
    dear = findings.Estimate(0.06, 0.003, 0.054, 0.066)
    as_dear = replace(dear, value=0.01, lower=0.0, upper=0.02)
    everybody = (
        penalty("app", 0.06, VIOLATED, difference=as_dear),
        penalty("everything", 0.06, VIOLATED, decisive=False, estimate=dear),
    )
    seen = replace(shown.support, trained_on=findings.TrainedOn(1.0, 0.9, 1.0, 256, 256, 0.0, True))
    unknown = replace(shown.support, trained_on=None, unseen_in_training=None, unseen_people=None)
    better = replace(shown.inference_from_silence, difference=findings.Estimate(-0.1, 0.01, -0.12, -0.08))
    flat = findings.Histogram((-0.1, 0.0, 0.1), (0.0, 1.0))
    quantile = "probability of lying below the quoted 0.9 quantile"
    lists = (
        "penalties within comparability informativeness averages balance calibration scatter non_degradation warnings"
    )
    nothing: dict[str, Any] = dict.fromkeys(lists.split(), ())
    changes: dict[str, dict[str, Any]] = {
        "certified, and silence says nothing": {"verdict": CERTIFIED, "informativeness": quiet, "penalties": ()},
        "inconclusive": {"verdict": INCONCLUSIVE},
        "trained on the people": {"verdict": INCONCLUSIVE, "support": seen},
        "a base column gives them away": {"verdict": INCONCLUSIVE, "penalties": unsure},
        "wrong for everybody": {"verdict": VIOLATED, "penalties": everybody},
        "each interval for itself": {"simultaneous": "none: each interval holds for itself only"},
        "all sets pass": {"verdict": CERTIFIED, "penalties": passing},
        "quantiles": {"unit": quantile, "mean_prediction": 2500.0},
        "exposure, higher is better": {"exposure": 1234.5, "favourable": "higher"},
        "a relative margin, of whom nothing is known": {"relative_margin": 0.1, "margin_set_by": None},
        "a gain from silence": {"inference_from_silence": better, "non_degradation": (better,)},
        "sharing changes nothing": {"sharing_effect": replace(shown.sharing_effect, mean=0.0, histogram=flat)},
        "little is known": {
            **nothing, "non_degradation": (), "support": unknown,
            "recognition": None, "sharing_effect": None, "puc_gap": None,
            "provenance": replace(shown.provenance, consent={}, base_features=(), model_hash=None, needs={}),
        },
    }  # fmt: skip
    return {name: replace(shown, **change) for name, change in changes.items()}


def sentences(page: str) -> list[str]:
    return [line for text in Reader(page).text if (line := " ".join(text.split()))]


def written() -> dict[str, str]:
    """Return the golden files by name."""
    shown = golden()
    with mock.patch.object(report, "inline_svg", lambda name, findings, label: f'<svg aria-label="{label}"></svg>'):
        page, pages = shown.to_html(), {name: changed.to_html() for name, changed in variants(shown).items()}
    known = set(sentences(page))
    other = []
    for name, changed in pages.items():
        new = dict.fromkeys(line for line in sentences(changed) if line not in known)
        other.append("\n".join([f"# {name}", *new]))
    return {
        "report.html": page,
        "report.md": shown.to_markdown(),
        "report.txt": f"{shown}\n",
        "variants.txt": "\n\n".join(other) + "\n",
    }


if __name__ == "__main__":
    for name, text in written().items():
        (GOLDEN / name).write_text(text, encoding="utf-8")
