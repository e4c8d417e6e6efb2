"""Audits where some groups are shared only with others: only sets that people can share are judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from audit_tools import NO_FIT, QUICK

import pucboost as puc
from pucboost._auditing.findings import CERTIFIED, VIOLATED
from pucboost.simulate import DiscreteFamily

FAMILY = DiscreteFamily.random(2, 3, seed=0, nested=True)
OPTIONS: dict[str, Any] = {"optional": FAMILY.optional, **QUICK}


def test_the_true_predictions_are_certified_and_reading_silence_is_not() -> None:
    people = FAMILY.sample(3_000, seed=5)
    report = puc.audit(FAMILY.puc_prediction, people.X, people.y, margin=0.08, **OPTIONS)
    assert [p.name for p in report.penalties] == ["all who withhold something", "nothing", "z 1", "z 2", "everything"]
    assert [p.groups for p in report.penalties][1:] == [(), ("z 1",), ("z 1", "z 2"), ("z 1", "z 2", "z 3")]
    assert report.verdict == CERTIFIED
    assert report.provenance.needs == {"z 2": "z 1", "z 3": "z 2"}
    assert "Shared only with" in report.to_html()
    plain = puc.audit(FAMILY.unrestricted_prediction, people.X, people.y, margin=0.08, **OPTIONS)
    assert plain.verdict == VIOLATED


def test_the_bonus_is_over_sets_that_can_be_shared() -> None:
    """Eight levels have nine sets; without levels so many groups would be left out."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 9))
    y = X.sum(axis=1)
    X[:, 1:][np.arange(8) >= rng.integers(0, 9, 400)[:, None]] = np.nan
    optional = {"z": puc.Levels(*([j] for j in range(1, 9)))}

    def told(table: Any) -> Any:
        return np.nan_to_num(table).sum(axis=1)

    report = puc.audit(told, X, y, margin=2.0, optional=optional, favourable="lower", **NO_FIT)
    levels = (~np.isnan(X[:, 1:])).sum(axis=1)
    sums = np.cumsum(np.nan_to_num(X), axis=1)
    best = np.array([row[: k + 1].min() for row, k in zip(sums, levels, strict=True)])
    who = levels > 0
    assert report.sharing_effect is not None
    assert report.sharing_effect.mean_bonus == pytest.approx((told(X) - best)[who].mean())


def test_values_without_what_they_need_are_not_shown_to_the_model() -> None:
    people = FAMILY.sample(1_500, seed=6)
    odd = people.X.copy()
    silent = np.isnan(odd[:, 2])
    odd[silent, 4] = 1.0
    seen = []

    def model(table: Any) -> Any:
        seen.append(table)
        return FAMILY.puc_prediction(table)

    found = puc.audit(model, odd, people.y, margin=0.1, **OPTIONS)
    assert not any((np.isnan(table[:, 2]) & ~np.isnan(table[:, 4])).any() for table in seen)
    wanted = puc.audit(FAMILY.puc_prediction, people.X, people.y, margin=0.1, **OPTIONS)
    assert [p.estimate for p in found.penalties] == [p.estimate for p in wanted.penalties]
    [note] = [text for text in found.warnings if "without one that it needs" in text]
    assert note.startswith(f"{silent.sum():,} people have values in a group without one that it needs.")
    assert not any("without one that it needs" in text for text in wanted.warnings)


def test_scores_count_sets_that_can_be_shared() -> None:
    people = FAMILY.sample(800, seed=7)
    frequencies = puc.metrics.mask_frequencies(people.X, FAMILY.optional)
    assert set(frequencies) == {(), ("z 1",), ("z 1", "z 2"), ("z 1", "z 2", "z 3")}
    params = {"optional": FAMILY.optional, "n_estimators": 5, "n_jobs": 1}
    model = puc.PUCClassifier(**params).fit(people.X, people.y)
    scores = [
        puc.metrics.puc_scorer("neg_log_loss", frequencies={groups: 1.0})(model, people.X, people.y)
        for groups in ("z 2", ("z 2",), ("z 1", "z 2"), ("z 1",))
    ]
    assert scores[0] == scores[1] == scores[2] != scores[3]
