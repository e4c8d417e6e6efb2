"""Coverage of intervals set by set, where silence says much about the outcome, beside one threshold for everybody.

A pool of people is predicted for every set once. Each repetition draws calibration people from it without replacement;
everybody else in the pool is new. Within the pool all orders are equally likely, so the guarantee holds for it exactly,
and coverage has no error but that of the repetitions. Sets without a threshold in a repetition are left out of it: the
guarantee is given the number of people. The interval that people get instead, that of a part T, is looked at in these
repetitions alone: of all who share at least T, how many it covers given that somebody needed it. "One threshold" is
ordinary split conformal prediction, calibrated on people as they come; MAPIE does the same with its own code on the
same people.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import pucboost as puc
from benchmarks.harness.study import Array, Row, Rows, Study, Table, Unit
from pucboost._intervals import CalibratedSet, _Models, _People, _rounded_up, least_people
from pucboost._models.schema import rounded_people
from pucboost.simulate import DiscreteFamily
from pucboost.typing import Intervals

LEVELS = (0.8, 0.9, 0.95)
MODELS, REPETITIONS, CALIBRATION, FEW, POOL = 4, 1_000, 1_000, 105, 30_000
LEAST_PARTS = 100
"""In so many repetitions of a model a set must lack a threshold, for what its people get instead to be shown."""
GROUPS = 3
SETS = range(2**GROUPS)
LEAST, EXACTLY, ONE, MAPIE = "A ⊇ S", "A = S", "one threshold", "MAPIE"
WIDTH, ONE_WIDTH = "width", "width, one threshold"
PART, PARTS, PART_ERROR = "A ⊇ T, a part was needed", "parts", "se of parts"


def amounts(n: int, seed: int, quiet: float = 1.2) -> tuple[Array, Array]:
    """Draw people of whom those with large outcomes keep quiet, and whose large outcomes are hard to predict."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2 + GROUPS))
    y = X @ np.array([1.0, 0.5, 1.0, 0.8, 0.6]) + rng.normal(size=n) * np.exp(X[:, 0] / 2)
    X[:, 2:][rng.random((n, GROUPS)) < 1 / (1 + np.exp(1.2 - quiet * y[:, None]))] = np.nan
    return X, y


def events(n: int, seed: int) -> tuple[Array, Array]:
    """Draw people of a family whose outcome itself moves the odds of sharing by e³."""
    people = DiscreteFamily.random(2, GROUPS, seed=3, label_effect=3.0).sample(n, seed)
    return people.X, people.y


def counts(n: int, seed: int) -> tuple[Array, Array]:
    """Draw counts whose logarithm is about half an amount."""
    X, y = amounts(n, seed)
    return X, np.floor(np.exp(np.clip(y, -6, 6) / 2))


def classes(n: int, seed: int) -> tuple[Array, Array]:
    """Draw amounts in three classes."""
    X, y = amounts(n, seed)
    return X, np.digitize(y, [-1.0, 1.0]).astype(float)


WORLDS: dict[str, tuple[Callable[[int, int], tuple[Array, Array]], str, int | None]] = {
    "amounts": (amounts, "regression", None),
    "amounts, few people": (amounts, "regression", None),
    "amounts, few people, large ones shared": (partial(amounts, quiet=-1.2), "regression", None),
    "amounts, with scale": (amounts, "scale", None),
    "amounts, two quantiles": (amounts, "quantile", None),
    "counts": (counts, "poisson", None),
    "three classes": (classes, "multiclass", None),
    "three classes, randomised": (classes, "multiclass", 1),
    "events, randomised": (events, "binary", 1),
}


def units(quick: bool) -> list[Unit]:
    """List every kind of outcome and every model."""
    worlds, models = (list(WORLDS)[:3:2], 1) if quick else (list(WORLDS), MODELS)
    return [
        Unit({"outcome": name, "seed": seed}, partial(measure, name, seed, quick))
        for name in worlds
        for seed in range(models)
    ]


def trained(name: str, seed: int, quick: bool) -> tuple[Any, Any]:
    """Return what puc.intervals takes for a model and for its scale."""
    draw, objective, _ = WORLDS[name]
    X, y = draw(600 if quick else 4_000, 100 + seed)
    params = {"optional": list(range(2, 2 + GROUPS)), "num_leaves": 15, "verbosity": -1, "num_threads": 1, "seed": seed}
    rounds = 5 if quick else 60

    def fit(objective: str, y: Array = y, **more: Any) -> Any:
        return puc.train({**params, "objective": objective, **more}, puc.Dataset(X, y), rounds)

    if objective == "quantile":
        return (fit("quantile", alpha=0.1), fit("quantile", alpha=0.9)), None
    if objective == "multiclass":
        return fit("multiclass", num_class=3), None
    if objective != "scale":
        return fit(objective), None
    model = fit("regression")
    return model, fit("gamma", np.maximum(np.abs(y - puc.predict(model, X)), 1e-3))


class Pool:
    """People with what every set of groups would tell each of them, and the scores of their outcomes."""

    def __init__(self, name: str, seed: int, quick: bool) -> None:
        draw, _, randomised = WORLDS[name]
        self.X, y = draw(3_000 if quick else POOL, 200 + seed)
        self.model, self.scale = trained(name, seed, quick)
        self.models = _Models.of(self.model, self.scale, randomised)
        people = _People(self.models, self.X, 1, None)
        self.y, self.shared = people.outcomes(y, "y"), people.shared
        everybody = np.arange(len(y))
        self.told = [part.quotes(np.array(SETS, dtype=np.uint64)) for part in people.predictors]
        # Sets that somebody does not share have no prediction; their scores are never looked at.
        with np.errstate(invalid="ignore"):
            self.shapes = [people.shape([part[:, s] for part in self.told], everybody) for s in SETS]
            self.scores = np.array([shape.scores(self.y) for shape in self.shapes])
        self.least = np.array([(self.shared & np.uint64(s)) == s for s in SETS])
        self.exactly = np.array([self.shared == s for s in SETS])
        self.sorted = {id(who): [np.sort(self.scores[s, who[s]]) for s in SETS] for who in (self.least, self.exactly)}

    def shape(self, s: int, rows: Array) -> Any:
        """Return the shape of the scores of some people for a set."""
        return type(self.shapes[s])(*(part[rows] if np.ndim(part) else part for part in self.shapes[s]))

    def coverage(self, who: Array, s: int, some: Array, limit: float) -> float:
        """Return for how many of those not in ``some`` the score is within a limit, of ``who`` shares what."""
        everybody, known = self.sorted[id(who)][s], self.scores[s, some[who[s, some]]]
        within = np.searchsorted(everybody, limit, side="right") - np.count_nonzero(known <= limit)
        return float(within / (len(everybody) - len(known)))


def measure(name: str, seed: int, quick: bool) -> Sequence[Row]:
    """Calibrate on one sample of the pool after the other."""
    pool, rng = Pool(name, seed, quick), np.random.default_rng(300 + seed)
    everybody, n = np.arange(len(pool.y)), FEW if "few people" in name else CALIBRATION
    own = pool.scores[pool.shared.astype(int), everybody]
    found: dict[tuple[float, int, str], list[float]] = {}
    for repetition in range(3 if quick else REPETITIONS):
        some = np.sort(rng.choice(everybody, n, replace=False))
        by_mapie = _mapie(pool, some) if name == "amounts" and repetition < REPETITIONS // 5 else None
        for level in LEVELS:
            one = _threshold(own[some], level)
            rows = {s: some[pool.least[s, some]] for s in SETS}
            limits = {
                s: _threshold(pool.scores[s, rows[s]], level) for s in SETS if len(rows[s]) >= least_people(level)
            }
            if repetition == 0:
                _check(pool, some, level, limits, WORLDS[name][2])
            for s in SETS:
                values: dict[str, Any] = {PART: _of_part(pool, s, some, rows, limits) if limits else None}
                if s in limits:
                    values = {
                        LEAST: pool.coverage(pool.least, s, some, limits[s]),
                        EXACTLY: pool.coverage(pool.exactly, s, some, limits[s]),
                        ONE: pool.coverage(pool.least, s, some, one),
                        MAPIE: pool.coverage(pool.least, s, some, by_mapie[level]) if by_mapie else None,
                    }
                if s in limits and repetition < 50:
                    shape = pool.shape(s, np.flatnonzero(pool.least[s])[:500])
                    values |= {WIDTH: shape.width(limits[s]).mean(), ONE_WIDTH: shape.width(one).mean()}
                for what, value in values.items():
                    if value is not None:
                        found.setdefault((level, s, what), []).append(float(value))
    rows_out: list[Row] = []
    for level, s in dict.fromkeys((level, s) for level, s, _ in found):
        row: Row = {"level": level, "set": s}
        for what in (LEAST, EXACTLY, ONE, MAPIE, WIDTH, ONE_WIDTH, PART):
            values_of = found.get((level, s, what))
            row[what] = None if values_of is None else statistics.mean(values_of)
        for what, times, error in ((LEAST, "repetitions", "se"), (PART, PARTS, PART_ERROR)):
            values_of = found.get((level, s, what), [])
            row[times] = len(values_of)
            row[error] = statistics.stdev(values_of) / len(values_of) ** 0.5 if len(values_of) > 1 else 0.0
        rows_out.append(row)
    return rows_out


def _threshold(scores: Array, level: float) -> float:
    rank = int(np.ceil(round((len(scores) + 1) * level, 9)))
    return _rounded_up(float(np.partition(scores, rank - 1)[rank - 1]))


def _of_part(pool: Pool, s: int, some: Array, rows: dict[int, Array], limits: dict[int, float]) -> float:
    """Return the coverage of the part that those get who share a set without a threshold."""
    sets = tuple(CalibratedSet("", t, rounded_people([len(rows[t])])[0], limit, 0.0) for t, limit in limits.items())
    found = Intervals(0.5, "", sets, None, None, (), pool.models)
    part = sets[found._set_of_each(np.array([s], dtype=np.uint64))[0]].mask
    return pool.coverage(pool.least, part, some, limits[part])


def _check(pool: Pool, some: Array, level: float, limits: dict[int, float], randomised: int | None) -> None:
    """Raise unless puc.intervals finds the same thresholds."""
    if not limits:
        return
    labels = pool.y[some].astype(float)
    made = puc.intervals(
        pool.model, pool.X[some], labels, level=level, scale=pool.scale, seed=randomised, num_threads=1
    )
    if {one.mask: one.threshold for one in made.sets} != limits:
        raise AssertionError(f"puc.intervals does not find the thresholds {limits}")


class _Told:
    """A fitted regressor, as MAPIE wants it, that looks predictions up: X is the number of the person."""

    def __init__(self, told: Array) -> None:
        self.told_, self.n_features_in_ = told, 1

    def fit(self, X: Array, y: Array) -> _Told:
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(self.told_[np.asarray(X)[:, 0].astype(int)])

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _mapie(pool: Pool, some: Array) -> dict[float, float] | None:
    """Return how far MAPIE's intervals reach, by level; None if MAPIE is not installed."""
    try:
        regression = importlib.import_module("mapie.regression")
    except ImportError:
        return None
    told = pool.told[0][np.arange(len(pool.y)), pool.shared.astype(int)]
    ready = regression.SplitConformalRegressor(_Told(told), confidence_level=list(LEVELS), prefit=True)
    ready.conformalize(some[:, None].astype(float), pool.y[some])
    middle, ends = ready.predict_interval(some[:1, None].astype(float))
    return dict(zip(LEVELS, (ends[0, 1] - middle[0]).tolist(), strict=True))


# ----- table and figure


def pooled(rows: Rows) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return by outcome and level, for each set, means over models and the standard error of the coverage."""
    out: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for outcome, level, s in dict.fromkeys((row["outcome"], row["level"], row["set"]) for row in rows):
        here = [row for row in rows if (row["outcome"], row["level"], row["set"]) == (outcome, level, s)]
        line: dict[str, Any] = {"set": int(s), "se": sum(float(row["se"]) ** 2 for row in here) ** 0.5 / len(here)}
        for what in (LEAST, EXACTLY, ONE, MAPIE, WIDTH, ONE_WIDTH):
            values = [float(row[what]) for row in here if row.get(what)]
            line[what] = statistics.mean(values) if values else None
        parts = [row for row in here if int(row[PARTS]) >= LEAST_PARTS]
        line[PART] = statistics.mean(float(row[PART]) for row in parts) if parts else None
        line[PART_ERROR] = sum(float(row[PART_ERROR]) ** 2 for row in parts) ** 0.5 / max(1, len(parts))
        out.setdefault((outcome, level), []).append(line)
    return out


def table(rows: Rows) -> Table:
    """Return one line per kind of outcome and level."""
    columns = [
        "outcome", "level", "lowest coverage of a set, A ⊇ S", "sets below level − 2 se",
        "lowest of a part that is needed", "one threshold", "MAPIE", "who share exactly S",
        "width, nothing → everything shared", "one threshold's",
    ]  # fmt: skip
    lines = []
    for (outcome, level), sets in pooled(rows).items():
        own = [line for line in sets if line[LEAST] is not None]
        worst = min(own, key=lambda line: line[LEAST])
        below = sum(line[LEAST] < float(level) - 2 * line["se"] for line in own)
        ends = (own[0], own[-1])[: len(own)]
        widths = [" → ".join(f"{line[what]:.3g}" for line in ends) for what in (WIDTH, ONE_WIDTH)]
        parts = [line for line in sets if line[PART] is not None]
        part = min(parts, key=lambda line: line[PART]) if parts else None
        lines.append(
            [
                outcome,
                f"{100 * float(level):g} %",
                f"{100 * worst[LEAST]:.2f} ± {100 * worst['se']:.2f} %",
                f"{below} of {len(own)}",
                f"{100 * part[PART]:.2f} ± {100 * part[PART_ERROR]:.2f} %" if part else "–",
                _range(sets, ONE),
                _range(sets, MAPIE),
                _range(sets, EXACTLY),
                *widths,
            ]
        )
    return columns, lines


def _range(sets: list[dict[str, Any]], what: str) -> str:
    values = [line[what] for line in sets if line[what] is not None]
    return f"{100 * min(values):.1f} to {100 * max(values):.1f} %" if values else "–"


def figure(rows: Rows) -> Any:
    """Draw coverage by set at level 0.9."""
    import matplotlib.pyplot as plt

    found = {outcome: sets for (outcome, level), sets in pooled(rows).items() if float(level) == 0.9}
    names = [name for name in found if name in ("amounts", "counts", "three classes, randomised", "events, randomised")]
    figure, panels = plt.subplots(1, len(names), figsize=(2.6 * len(names), 3.1), sharey=True, layout="constrained")
    series = ((LEAST, "o", "#4c78a8"), (EXACTLY, "D", "#b0b0b0"), (ONE, "x", "#e45756"))
    for axes, name in zip(np.atleast_1d(panels), names, strict=True):
        sets = sorted(found[name], key=lambda line: (int(line["set"]).bit_count(), line["set"]))
        axes.axhline(0.9, color="black", linewidth=0.8)
        for what, marker, colour in series:
            shown = [line[what] for line in sets]
            axes.plot(range(len(sets)), shown, marker, color=colour, markersize=5, label=what)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("groups shared", fontsize=9)
        axes.set_xticks(
            range(len(sets)),
            ["".join(str(g + 1) for g in range(GROUPS) if line["set"] >> g & 1) or "–" for line in sets],
            fontsize=8,
        )
        axes.spines[["top", "right"]].set_visible(False)
    np.atleast_1d(panels)[0].set_ylabel("coverage")
    labels = {LEAST: "puc.intervals, A ⊇ S", EXACTLY: "puc.intervals, A = S", ONE: "one threshold for all, A ⊇ S"}
    handles, names_of = np.atleast_1d(panels)[0].get_legend_handles_labels()
    figure.legend(
        handles, [labels[name] for name in names_of], loc="outside lower center", ncols=3, fontsize=8, frameon=False
    )
    return figure


STUDY = Study("intervals", units, table, figure)
