"""Whether the audit is right: error rates, coverage and power on simulated people whose truth is known.

The logistic family with three optional groups (that of ``python -m pucboost demo``) and the paper's introductory one
with a single group, each with informative withholding and with its non-informative twin (everybody shares
with the same probability). Repetitions differ in people, folds and trained models.
"""

from __future__ import annotations

import multiprocessing
import statistics
from dataclasses import replace
from typing import Any

import lightgbm as lgb
import numpy as np

import pucboost as puc
from benchmarks.harness.measuring import peak_memory, seconds
from benchmarks.harness.study import CORES, Array, Row, Rows, Table
from pucboost._auditing.findings import ALL_WITHHOLDING
from pucboost._auditing.nuisance import EVENT, CrossFitter
from pucboost._auditing.people import read_audit_people
from pucboost._auditing.scores import normal_quantile
from pucboost._auditing.settings import FittingOptions
from pucboost.demo import insurance_family
from pucboost.simulate import LogisticFamily

MARGIN = 0.02
SURCHARGE = 0.05
TRAIN = {
    "engine": "lightgbm", "objective": "binary", "learning_rate": 0.05, "verbosity": -1, "num_threads": 1,
    "force_row_wise": True,
}  # fmt: skip
ROUNDS = 150
WITHHOLDING = ("informative", "not informative")
VERDICTS = ("certified", "certified in part", "inconclusive", "violated for some", "violated")
DEFAULT = "pucboost, default engine"
PEOPLE_BY_MARGIN = {0.04: (2_000, 4_000, 8_000), 0.02: (8_000, 16_000, 32_000), 0.01: (32_000, 64_000, 128_000)}
SCENARIO = tuple[str, str, str, int, int, float]  # family, withholding, model, rows, seed, margin


def family_named(name: str, withholding: str) -> LogisticFamily:
    """Return a family; in its non-informative twin everybody shares every group with the same probability."""
    family = insurance_family() if name == "r=3" else LogisticFamily.teaser()
    if withholding == "informative":
        return family
    return replace(family, U=np.zeros_like(family.U), lam=np.zeros_like(family.lam))


def model_named(name: str, family: LogisticFamily, rows: int, seed: int) -> Any:
    """Return the model to audit: the truth, the truth with a surcharge, or one trained on as many other people."""
    if name == "true f*":
        return family.puc_prediction
    if name.startswith("surcharge"):

        def surcharged(X: Array) -> Array:
            silent = np.isnan(X[:, family.optional]).all(axis=1)
            return np.minimum(family.puc_prediction(X) + SURCHARGE * silent, 1.0)

        return surcharged
    people = family.sample(rows, 1_000_000 + seed)
    data = lgb.Dataset(people.X, people.y)
    if name == "plain LightGBM":
        return lgb.train({key: value for key, value in TRAIN.items() if key != "engine"}, data, ROUNDS)
    params = {**TRAIN, "optional": family.optional, "seed": seed}
    return puc.train({**params, "engine": "auto"} if name == DEFAULT else params, data, ROUNDS)


def repeat_once(scenario: SCENARIO) -> dict[str, Any]:
    """Audit once; return the penalties with their truth, the verdict and what naive tests say."""
    family_name, withholding, model_name, rows, seed, margin = scenario
    family = family_named(family_name, withholding)
    people = family.sample(rows, seed)
    model = model_named(model_name, family, rows, seed)
    known = {} if getattr(model, "consent", None) else {"optional": family.optional}
    report = puc.audit(
        model, people.X, people.y, margin=margin, truth=family, seed=seed, num_threads=1, progress=False, **known
    )
    assert report.puc_gap is not None
    truth = report.puc_gap.mean_by_mask
    found = [
        (p.name, p.estimate.value, p.estimate.standard_error, truth[p.name])
        for p in report.penalties
        if p.estimate is not None and p.decisive and p.name in truth
    ]
    pooled = [
        (p.estimate.value, p.estimate.standard_error)
        for p in report.penalties
        if p.name == ALL_WITHHOLDING and p.estimate is not None
    ]
    difference = report.inference_from_silence.difference
    f = family.puc_prediction(people.X) if model_name == "true f*" else None
    return {
        "penalties": found,
        "pooled": pooled,
        "verdict": report.verdict,
        "paired loss": difference is not None and (difference.lower > 0 or difference.upper < 0),
        "mean difference": None if f is None else _naive_mean_differs(people, family, f, seed),
    }


def _naive_mean_differs(people: Any, family: LogisticFamily, f: Array, seed: int) -> bool:
    """Compare the average prediction of the silent with that of a fitted base model, as if the latter had no error."""
    read, _ = read_audit_people(people.X, people.y, optional=family.optional, num_threads=1)
    fitter = CrossFitter(read, FittingOptions(seed=seed, num_threads=1))
    base = fitter.reference_view(np.zeros_like(read.shared)).cross_fit(read.y, EVENT)
    difference = (f - base)[read.shared == 0]
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    return bool(abs(difference.mean()) > normal_quantile(0.975) * error)


def _run(scenarios: list[SCENARIO]) -> list[dict[str, Any]]:
    """Run repetitions side by side, one thread each."""
    if len(scenarios) < 8:
        return [repeat_once(scenario) for scenario in scenarios]
    with multiprocessing.get_context("spawn").Pool(CORES) as pool:
        return pool.map(repeat_once, scenarios, chunksize=1)


def study(quick: bool) -> list[Row]:
    """Return error rates of the true model."""
    n = 2_000 if quick else 6_000
    # With three groups every repetition gives seven estimates.
    reps = {"r=1": 2, "r=3": 2} if quick else {"r=1": 400, "r=3": 60}
    return [
        row for family, times in reps.items() for kind in WITHHOLDING for row in _error_rates(family, kind, n, times)
    ]


def power_study(quick: bool) -> list[Row]:
    """Return verdicts at a margin of two points, and how many people it takes with smaller and larger ones."""
    n, reps = (3_000, 1) if quick else (50_000, 12)
    informative, harmless = WITHHOLDING
    numbers = {0.04: (2_000,)} if quick else PEOPLE_BY_MARGIN
    return [
        _verdicts("plain LightGBM", informative, n, reps),
        _verdicts("surcharge of 5 points", harmless, n, reps),
        _verdicts("pucboost", informative, n, reps),
        _verdicts("pucboost", harmless, n, reps),
        _verdicts("true f*", informative, n, reps),
        _verdicts("true f*", harmless, n, reps),
        *(_verdicts(DEFAULT, informative, n, reps, margin) for margin, people in numbers.items() for n in people),
    ]


def _error_rates(family: str, kind: str, n: int, reps: int) -> list[Row]:
    results = _run([(family, kind, "true f*", n, seed, MARGIN) for seed in range(reps)])
    by_name: dict[str, list[tuple[float, float, float]]] = {}
    for result in results:
        for name, value, error, truth in result["penalties"]:
            by_name.setdefault(name, []).append((value, error, truth))
        for value, error in result["pooled"]:
            by_name.setdefault("all who withhold something", []).append((value, error, 0.0))
    sets = {"nothing": by_name.get("nothing", [])}
    if family != "r=1":
        sets["all who withhold something"] = by_name["all who withhold something"]
        sets["every set"] = [one for name, found in by_name.items() if name in _sets(by_name) for one in found]
    rows = [
        _rate_row(
            family, kind, n, f"penalty of those who share: {name}" if name == "nothing" else f"penalty: {name}", f
        )
        for name, f in sets.items()
        if f
    ]
    for test in ("paired loss", "mean difference"):
        flagged = float(np.mean([result[test] for result in results]))
        rows.append(_row(family, kind, n, f"naive test: {test} to a fitted base model", reps, flagged, "", ""))
    return rows


def _sets(by_name: dict[str, Any]) -> list[str]:
    return [name for name in by_name if name != "all who withhold something"]


def _rate_row(family: str, kind: str, n: int, what: str, found: list[tuple[float, float, float]]) -> Row:
    value, error, truth = np.array(found).T
    distance = np.abs(value - truth) / error
    excluded = float((np.abs(value) > normal_quantile(0.975) * error).mean())
    covered = float((distance <= normal_quantile(0.95)).mean())
    return _row(
        family, kind, n, what, len(found), excluded, f"{covered:.1%}",
        f"{100 * (value - truth).mean():+.2f} ± {100 * error.mean():.2f}",
    )  # fmt: skip


def _row(family: str, kind: str, n: int, what: str, count: int, excluded: float, covered: str, bias: str) -> Row:
    return {
        "family": family,
        "withholding": kind,
        "n": f"{n:,}",
        "what": what,
        "estimates": str(count),
        "95 % interval excludes 0": f"{excluded:.1%}",
        "90 % interval covers": covered,
        "bias ± standard error, points": bias,
        "target": "≤ 7 %, 86–94 %" if covered else "",
    }


def _verdicts(model: str, kind: str, n: int, reps: int, margin: float = MARGIN) -> Row:
    verdicts = [r["verdict"] for r in _run([("r=3", kind, model, n, 10_000 + seed, margin) for seed in range(reps)])]
    target = {
        "plain LightGBM": "violated ≥ 95 %",
        "surcharge of 5 points": "violated ≥ 95 %",
        "pucboost": "certified ≥ 90 %",
        "true f*": "violated 0 %",
    }
    shares = {verdict: verdicts.count(verdict) / reps for verdict in VERDICTS}
    return {
        "model": model,
        "withholding": kind,
        "margin, points": f"{100 * margin:g}",
        "n": f"{n:,}",
        "audits": str(reps),
        **{verdict: f"{share:.0%}" for verdict, share in shares.items()},
        "target": target.get(model, ""),
    }


def page(rows: Rows) -> Table:
    """Return how often our tests and naive ones flag the true model."""
    columns = ["family", "withholding", "what", "95 % interval excludes 0", "90 % interval covers"]
    return columns, [[row[column] or "–" for column in columns] for row in rows]


def time_study(quick: bool) -> list[Row]:
    """Audit a pucboost model with three groups; the first audit is warm-up."""
    n, repeat = (2_000, 1) if quick else (100_000, 3)
    family = insurance_family()
    train, test = family.sample(n, 0), family.sample(n, 1)
    params = {**TRAIN, "num_threads": 2, "optional": family.optional}
    booster = puc.train(params, lgb.Dataset(train.X, train.y), 100)

    def audit() -> None:
        puc.audit(booster, test.X, test.y, margin=0.02, num_threads=2, progress=False)

    audit()
    peak = peak_memory(audit)
    times = [seconds(audit) for _ in range(repeat)]
    training = [seconds(lambda: puc.train(params, lgb.Dataset(train.X, train.y), 100)) for _ in range(repeat)]
    took = statistics.median(times)
    return [
        {
            "what": f"audit of {n:,} people, r=3, 8 sets, 2 threads",
            "seconds": f"{took:.1f}",
            "target": "< 60 s",
            "times puc.train, 100 rounds": f"{took / statistics.median(training):.1f}",
            "MB beyond the table": f"{peak:.0f}",
        }
    ]
