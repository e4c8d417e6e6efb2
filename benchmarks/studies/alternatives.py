"""The alternatives to Protected User Consent, all with LightGBM: their penalty for silence, their loss and their time.

For simulated people the truth f* is known, and the gap to it is the penalty. On real tables the audit estimates it, on
people no model was trained on. The audit's outcome and availability models do not depend on the model audited, so they
are fitted once per split, and the same ones judge every method, as ``puc.audit`` would.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from sklearn.metrics import log_loss

from benchmarks import models
from benchmarks.data import load
from benchmarks.harness.measuring import by, plus_minus, standard_error, values
from benchmarks.harness.study import THREADS, Array, Row, Rows, Study, Table, Unit, part_of
from pucboost._auditing.findings import ALL_WITHHOLDING, CERTIFIED, INCONCLUSIVE, VIOLATED, Penalty
from pucboost._auditing.nuisance import CrossFitter, NuisanceLoss, View
from pucboost._auditing.penalty import choose_sets, estimate_penalties, overall
from pucboost._auditing.people import AuditedModel, Loss, read_audit_people
from pucboost._auditing.scores import score_mask
from pucboost._auditing.settings import FittingOptions, JudgementOptions
from pucboost.simulate import LogisticFamily

# The methods compared: every way to treat optional columns, all with LightGBM

Predict = Callable[[pd.DataFrame], Array]
DROPOUT_COPIES = 4
PLAIN = "plain LightGBM"


@dataclass(frozen=True)
class Training:
    """The people a method learns from, and the settings all methods share."""

    X: pd.DataFrame
    y: Array
    optional: list[str]
    seed: int
    rounds: int
    engine: str = "LightGBM"

    @property
    def base(self) -> list[str]:
        """Return the columns everybody gives."""
        return [str(column) for column in self.X if column not in self.optional]

    def learn(self, X: pd.DataFrame, y: Array, variant: str = "full") -> Predict:
        """Train the engine on a table made from the people; prediction uses only its columns."""
        seen = list(X)
        optional = [column for column in self.optional if column in seen] if variant in models.PUC_SCHEMES else []
        fitted = models.fit(
            self.engine, variant if optional else "base", X, y, optional, is_classification=True, seed=self.seed,
            rounds=self.rounds,
        )  # fmt: skip
        return lambda table: fitted.predict(table[seen])


@dataclass(frozen=True)
class Trained:
    """A trained method: how it predicts, and how many models it needs."""

    predict: Predict
    n_models: int = 1


def shared_sets(X: pd.DataFrame, optional: Sequence[str]) -> Array:
    """Return what each person shares, one bit per optional column."""
    return np.asarray(X[list(optional)].notna().to_numpy() @ (1 << np.arange(len(optional))))


def _pucboost(people: Training, scheme: str) -> Trained:
    return Trained(people.learn(people.X, people.y, scheme))


def _imputation(people: Training, indicators: bool) -> Trained:
    means = people.X[people.optional].mean()

    def complete(table: pd.DataFrame) -> pd.DataFrame:
        filled = table.fillna(means)
        flags = {f"{column}_shared": table[column].notna().astype(float) for column in people.optional}
        return filled.assign(**flags) if indicators else filled

    model = people.learn(complete(people.X), people.y)
    return Trained(lambda table: model(complete(table)))


def _dropout(people: Training) -> Trained:
    """Erase each optional value with probability ½ in each copy; all copies weigh the same."""
    rng = np.random.default_rng(people.seed)
    shape = (len(people.X), len(people.optional))
    copies = []
    for _ in range(DROPOUT_COPIES):
        copy = people.X.copy()
        copy[people.optional] = copy[people.optional].mask(rng.random(shape) < 0.5)
        copies.append(copy)
    model = people.learn(pd.concat(copies, ignore_index=True), np.tile(people.y, DROPOUT_COPIES))
    return Trained(model)


def _router(people: Training) -> Trained:
    everything = people.X[people.optional].notna().all(axis=1).to_numpy()
    base = people.learn(people.X[people.base], people.y)
    full = people.learn(people.X[everything], people.y[everything]) if everything.any() else base

    def predict(table: pd.DataFrame) -> Array:
        shares_all = table[people.optional].notna().all(axis=1).to_numpy()
        out = np.empty(len(table))
        for who, model in ((shares_all, full), (~shares_all, base)):
            if who.any():
                out[who] = model(table[who])
        return out

    return Trained(predict, 2)


def _one_per_set(people: Training, exactly: bool) -> Trained:
    """Train a model for every set that someone shares, on those who share exactly or at least that set."""
    shared = shared_sets(people.X, people.optional)
    of_set: dict[int, Predict] = {}
    for one in np.unique(shared):
        who = shared == one if exactly else (shared & one) == one
        columns = [*people.base, *(column for g, column in enumerate(people.optional) if one >> g & 1)]
        of_set[int(one)] = people.learn(people.X.loc[who, columns], people.y[who])
    # People may share a set that training never saw.
    otherwise = of_set[0] if 0 in of_set else people.learn(people.X[people.base], people.y)

    def predict(table: pd.DataFrame) -> Array:
        sets, out = shared_sets(table, people.optional), np.empty(len(table))
        for one in np.unique(sets):
            out[sets == one] = of_set.get(int(one), otherwise)(table[sets == one])
        return out

    return Trained(predict, len(of_set))


METHODS: dict[str, Callable[[Training], Trained]] = {
    PLAIN: lambda people: Trained(people.learn(people.X, people.y)),
    "mean imputation": lambda people: _imputation(people, indicators=False),
    "mean imputation + indicators": lambda people: _imputation(people, indicators=True),
    "random dropout, 4 copies": _dropout,
    "base features only": lambda people: Trained(people.learn(people.X[people.base], people.y)),
    "router: all shared / base": _router,
    "model per set, from those who share exactly it": lambda people: _one_per_set(people, exactly=True),
    "model per set, from all who share it": lambda people: _one_per_set(people, exactly=False),
    "pucboost, balanced (default)": lambda people: _pucboost(people, "balanced"),
    "pucboost, exhaustive": lambda people: _pucboost(people, "exhaustive"),
}

MORE_TREES = "pucboost, balanced, 4 × the trees"
ON_SIMULATED: dict[str, Callable[[Training], Trained]] = {
    **METHODS,
    MORE_TREES: lambda people: _pucboost(replace(people, rounds=4 * people.rounds), "balanced"),
}


def train_all(people: Training, methods: Mapping[str, Callable[[Training], Trained]]) -> dict[str, tuple[Trained, Row]]:
    """Train every method, each right after the plain engine, with which its time is compared."""
    done: dict[str, tuple[Trained, Row]] = {}
    _pucboost(people, "balanced")  # compiles, or loads, the kernels
    for name, method in methods.items():
        before = time.perf_counter()
        METHODS[PLAIN](people)
        between = time.perf_counter()
        trained = method(people)
        took = time.perf_counter() - between
        plain = between - before
        done[name] = trained, {"models": trained.n_models, "seconds": took, "ratio to plain": took / plain}
    return done


# The decisive part of the audit, for many models on the same people

MARGIN = 0.02
LEVEL = 0.95
MIN_COUNT = 100  # sets with fewer people are not judged on their own
VERDICTS = (CERTIFIED, VIOLATED, INCONCLUSIVE)


@dataclass(frozen=True)
class _FittedOnce(View):
    """A view that fits its models once, unless they start from the model audited."""

    kept: dict[tuple[str, int | None], Array] = field(default_factory=dict)

    def cross_fit(
        self,
        target: Array,
        loss: NuisanceLoss,
        half: int | None = None,
        start: Array | None = None,
        among: Array | None = None,
    ) -> Array:
        if start is not None or among is not None:
            return super().cross_fit(target, loss, half, start, among)
        key = (loss.model, half)
        if key not in self.kept:
            self.kept[key] = super().cross_fit(target, loss, half)
        return self.kept[key]


class Judge:
    """The decisive part of ``puc.audit`` for many models on the same people."""

    def __init__(self, X: pd.DataFrame, y: Array, optional: list[str], seed: int, min_count: int = MIN_COUNT) -> None:
        self.X, self.y, self._seed = X, y, seed
        self._judgement = JudgementOptions(MARGIN, level=LEVEL, min_count=min_count)
        self.people, _ = read_audit_people(X, y, optional=optional, num_threads=THREADS)
        self._fitter = CrossFitter(self.people, FittingOptions(seed=seed, num_threads=THREADS))
        sets = choose_sets(self.people, self._judgement)
        views: dict[int | None, View] = {mask: self._fitter.view(mask) for mask in sets.alone}
        views.pop(self.people.everything, None)  # they withhold nothing
        if sets.pool:
            views[None] = self._fitter.stack(sets.pool)
        self._views = {mask: _FittedOnce(**vars(view)) for mask, view in views.items()}
        self._loss = Loss("binary")

    def penalties(self, predict: Predict) -> list[Penalty]:
        """Return the penalty of all who withhold something, and that of each set."""
        model = AuditedModel(predict, self.people, None, THREADS)
        scored = [score_mask(self.people, model, self._loss, view, mask) for mask, view in self._views.items()]
        found, _ = estimate_penalties(self.people, model, self._loss, scored, MARGIN, self._judgement, self._seed)
        return found

    def __call__(self, predict: Predict) -> Row:
        """Return an audit's numbers in points."""
        found = [p for p in self.penalties(predict) if p.estimate is not None]
        verdict, _ = overall(found, MARGIN, self._loss.describe)
        sets = [p for p in found if p.name != ALL_WITHHOLDING]
        if not sets:
            return {"verdict": verdict, **dict.fromkeys(VERDICTS, 0)}
        pooled = next((p for p in found if p.name == ALL_WITHHOLDING), sets[0])
        worst = max(sets, key=lambda p: abs(p.estimate.value) if p.estimate else 0.0)
        assert pooled.estimate is not None
        assert worst.estimate is not None
        return {
            "penalty": 100 * pooled.estimate.value,
            "standard error of the penalty": 100 * pooled.estimate.standard_error,
            "largest penalty of a set": 100 * worst.estimate.value,
            "its joint interval from": 100 * (worst.verdict_lower or 0.0),
            "its joint interval to": 100 * (worst.verdict_upper or 0.0),
            "verdict": verdict,
            **{one: sum(p.verdict == one for p in sets) for one in VERDICTS},
        }


# All methods on one table: simulated people with their truth, real ones with the audit

QUICK_COUNT = 10
MOST_PEOPLE = 60_000
TRUTH = "the truth f*"
SIMULATED: dict[str, Callable[[], LogisticFamily]] = {
    "simulated, r = 3": LogisticFamily.paper,
    "simulated, r = 5": lambda: LogisticFamily.random(5, 5, seed=1),
}

REAL = ("adult", "compas", "give_me_some_credit")
CREDIT_OPTIONAL = ["MonthlyIncome", "NumberOfDependents"]


def repaired_credit(X: pd.DataFrame) -> pd.DataFrame:
    """Return the credit table with the debt in place of its ratio to an income that may be missing.

    The ratio is debt / (income + 1), and the debt itself where the income is missing: a base column that gives the
    silent away. Debts are whole numbers; without rounding, the decimals would reveal the same.
    """
    debt = np.round(X["DebtRatio"] * (X["MonthlyIncome"].fillna(0.0) + 1))
    return X.drop(columns="DebtRatio").assign(Debt=debt)


def real_people(name: str, run: int, quick: bool) -> tuple[pd.DataFrame, Array, list[str]]:
    """Return a real table, its outcomes and what is optional."""
    task = load(name, quick)
    if name == "give_me_some_credit":
        return repaired_credit(task.X), task.y, CREDIT_OPTIONAL
    X, optional = task.withhold_several(run)
    return X, task.y, optional


def mean_log_loss(y: Array, prediction: Array) -> float:
    """Return the mean log loss; predictions are kept away from 0 and 1."""
    return float(log_loss(y, np.clip(prediction, 1e-6, 1 - 1e-6), labels=(0, 1)))


def simulated_people(name: str, run: int, quick: bool) -> tuple[Training, pd.DataFrame, Callable[[Array], Row], Array]:
    """Return whom to learn from, whom to test, how predictions for the latter are judged, and the true ones."""
    family = SIMULATED[name]()
    n_train, n_test, rounds = (400, 400, 5) if quick else (30_000, 20_000, models.ROUNDS)
    columns = family.feature_names
    train, test = family.sample(n_train, 100 + run), family.sample(n_test, 200 + run)
    optional = [columns[j] for j in family.optional]
    X = pd.DataFrame(test.X, columns=columns)
    truth, sets = family.puc_prediction(test.X), shared_sets(X, optional)
    people = Training(pd.DataFrame(train.X, columns=columns), train.y, optional, run, rounds)
    return people, X, functools.partial(_against_truth, y=test.y, truth=truth, sets=sets, r=len(optional)), truth


def simulated_unit(name: str, run: int, quick: bool) -> list[Row]:
    """Train every method on simulated people and compare it with the truth."""
    people, X, judged, truth = simulated_people(name, run, quick)
    return [
        {"method": method, **row, **judged(trained.predict(X))}
        for method, (trained, row) in train_all(people, ON_SIMULATED).items()
    ] + [{"method": TRUTH, **judged(truth)}]


def _against_truth(f: Array, y: Array, truth: Array, sets: Array, r: int) -> Row:
    gap = 100 * (f - truth)
    silent = sets != (1 << r) - 1
    of_set = {int(one): gap[sets == one].mean() for one in np.unique(sets[silent]) if (sets == one).sum() >= MIN_COUNT}
    return {
        "log loss": mean_log_loss(y, f),
        "penalty": gap[silent].mean(),
        "largest penalty of a set": max(of_set.values(), key=abs) if of_set else None,
        "RMS gap": np.sqrt(np.mean(gap**2)),
    }


def real_halves(name: str, run: int, quick: bool) -> tuple[Training, Judge]:
    """Return half of the people to learn from, and the other half as a judge."""
    X, y, optional = real_people(name, run, quick)
    rounds = 5 if quick else models.ROUNDS
    order = np.random.default_rng(run).permutation(len(y))[:MOST_PEOPLE]
    train, rest = order[: len(order) // 2], order[len(order) // 2 :]
    people = Training(X.iloc[train].reset_index(drop=True), y[train], optional, run, rounds)
    judge = Judge(X.iloc[rest].reset_index(drop=True), y[rest], optional, run, QUICK_COUNT if quick else MIN_COUNT)
    return people, judge


def real_unit(name: str, run: int, quick: bool) -> list[Row]:
    """Train every method on half of the people and audit it on the other half."""
    people, judge = real_halves(name, run, quick)
    return [
        {
            "method": method,
            **row,
            "log loss": mean_log_loss(judge.y, trained.predict(judge.X)),
            **judge(trained.predict),
        }
        for method, (trained, row) in train_all(people, METHODS).items()
    ]


def units(quick: bool) -> list[Unit]:
    """List the work: all methods on one draw or one split of one table."""
    simulated, real = (list(SIMULATED)[:1], REAL[1:]) if quick else (list(SIMULATED), REAL)
    jobs = [
        (name, run, job)
        for names, runs, job in ((simulated, 3, simulated_unit), (real, 2, real_unit))
        for name in names
        for run in range(1 if quick else runs)
    ]
    return [Unit({"data": name, "run": run}, functools.partial(job, name, run, quick)) for name, run, job in jobs]


# The table of the alternatives, and the remarks

REMARKS = {
    PLAIN: "reads silence",
    "mean imputation": "reads silence: the mean gives it away",
    "mean imputation + indicators": "reads silence by design",
    "random dropout, 4 copies": "dilutes silence but keeps it: people who share little weigh too much",
    "base features only": "no penalty by design for total silence; throws away what is shared",
    "router: all shared / base": "throws away what is shared in part",
    "model per set, from those who share exactly it": "reads silence, 2^r models of few people each",
    "model per set, from all who share it": "aims at f*, with 2^r models",
    "pucboost, balanced (default)": "aims at f*, with one model",
    "pucboost, exhaustive": "aims at f*, one model, 2^k copies of whoever shares k groups",
    MORE_TREES: "aims at f*, one model; all sets share its trees",
    TRUTH: "what consent costs in log loss, whoever learns it",
}

_SAYS_LITTLE = "silence says next to nothing here"
REMARKS_ON = {  # where a table needs another remark
    **{
        ("simulated, r = 5", f"pucboost, {scheme}"): "aims at f*; 200 trees for 32 sets leave some bias"
        for scheme in ("balanced (default)", "exhaustive")
    },
    ("simulated, r = 3", MORE_TREES): "aims at f*, but 800 trees overfit 8 sets",
    ("give_me_some_credit", PLAIN): _SAYS_LITTLE,
    ("give_me_some_credit", "mean imputation"): _SAYS_LITTLE,
    ("give_me_some_credit", "mean imputation + indicators"): _SAYS_LITTLE,
    ("give_me_some_credit", "random dropout, 4 copies"): _SAYS_LITTLE,
    (
        "give_me_some_credit",
        "model per set, from those who share exactly it",
    ): "few people share nothing: it learns noise",
}


def penalty_of(rows: Rows) -> tuple[float, float]:
    """Return penalty and standard error: over draws of simulated people, the audit's own for splits of a real table."""
    found, own = values(rows, "penalty"), values(rows, "standard error of the penalty")
    if not found:
        return float("nan"), float("nan")
    return statistics.fmean(found), statistics.fmean(own) if own else standard_error(found)


def relative_loss(rows: Rows, plain: Rows) -> list[float]:
    """Return by how many percent the log loss is above that of plain training, run by run."""
    pairs = zip(values(rows, "log loss"), values(plain, "log loss"), strict=True)
    return [100 * (mine / other - 1) for mine, other in pairs]


def _time_ratio(rows: Rows) -> str:
    if rows[0]["method"] == PLAIN:
        return "1"
    if rows[0]["method"] == TRUTH:
        return "–"
    return f"{statistics.median(values(rows, 'ratio to plain')):.1f}"


def _with_error(mean: float, error: float) -> str:
    if np.isnan(mean):
        return "–"
    return f"{mean:+.2f}" if np.isnan(error) else f"{mean:+.2f} ± {error:.2f}"


def _worst(rows: Rows) -> str:
    """Return the largest penalty of a set over draws or splits; the audit's with its joint interval."""
    found = [row for row in rows if row.get("largest penalty of a set")]
    if not found:
        return "–"
    row = max(found, key=lambda one: abs(float(one["largest penalty of a set"])))
    if not row.get("its joint interval from"):
        return f"{float(row['largest penalty of a set']):+.1f}"
    largest, lower, upper = (
        float(row[column])
        for column in ("largest penalty of a set", "its joint interval from", "its joint interval to")
    )
    return f"{largest:+.1f} [{lower:+.1f}, {upper:+.1f}]"


def _judged(rows: Rows) -> str:
    """Return the distance from the truth, or how many sets the audit certified, found violated or left open."""
    gaps = values(rows, "RMS gap")
    if gaps:
        return f"RMS gap {plus_minus(gaps)}"
    certified, violated, still_open = (int(sum(values(rows, one))) for one in VERDICTS)
    return f"{certified} certified, {violated} violated, {still_open} open"


def table(rows: Rows) -> Table:
    """Return one line per data set and method."""
    columns = [
        "data", "method", "penalty of non-sharers, points", "largest of a set, points",
        "distance to f*, or sets audited", "log loss", "log loss against plain", "time to train, × plain", "models",
        "remark",
    ]  # fmt: skip
    groups = by(rows, "data", "method")
    lines = []
    for (name, method), mine in groups.items():
        plain = groups[(name, PLAIN)]
        relative = "" if method == PLAIN else f"{statistics.fmean(relative_loss(mine, plain)):+.2f} %"
        lines.append([
            name, method, _with_error(*penalty_of(mine)), _worst(mine), _judged(mine),
            f"{statistics.fmean(values(mine, 'log loss')):.4f}", relative,
            _time_ratio(mine), mine[0].get("models") or "–", REMARKS_ON.get((name, method), REMARKS[method]),
        ])  # fmt: skip
    return columns, lines


# The figure of the alternatives

COLOURS = {"ours": "#0072B2", "right": "#009E73", "wrong": "#D55E00", "thrifty": "#E69F00"}
_KIND = {
    "base features only": "thrifty",
    "router: all shared / base": "thrifty",
    "model per set, from all who share it": "right",
    "pucboost, balanced (default)": "ours",
    "pucboost, exhaustive": "ours",
    MORE_TREES: "ours",
}

MARKS = {"o": "#000000", "s": "#56B4E9", "D": "#D55E00", "^": "#009E73", "v": "#CC79A7"}


def figure(rows: Rows) -> Figure:
    """Draw the penalty by method, a panel per data set, and the log loss against plain training."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    methods = list(ON_SIMULATED)[::-1]
    groups = by(rows, "data", "method")
    drawing = Figure(figsize=(11, 7.8), layout="constrained")
    axes = drawing.subplots(2, 3, sharey=True).ravel()
    for ax, name in zip(axes, names, strict=False):
        _draw_penalties(ax, [groups.get((name, method), []) for method in methods], methods)
        ax.set_title(name.replace("_", " "), fontsize=10)
    last = axes[-1]
    for name, (marker, colour) in zip(names, MARKS.items(), strict=False):
        shown = [(place, groups[(name, method)]) for place, method in enumerate(methods) if (name, method) in groups]
        relative = [statistics.fmean(relative_loss(mine, groups[(name, PLAIN)])) for _, mine in shown]
        label = name.replace("_", " ")
        last.plot(relative, [place for place, _ in shown], marker, color=colour, mfc="none", ms=6, label=label)
    last.axvline(0, color="0.3", lw=0.8)
    last.set_xscale("symlog", linthresh=1)
    last.set_xticks([-1, 0, 1, 10, 100], ["−1", "0", "1", "10", "100"])
    last.set_title("log loss of all test people", fontsize=10)
    last.set_xlim(-2, 400)
    last.set_xlabel("above that of plain LightGBM, %", fontsize=9)
    for ax in axes:
        ax.set_yticks(range(len(methods)), methods, fontsize=9)
        ax.grid(axis="x", color="0.9", lw=0.6)
        ax.set_axisbelow(True)
    marks = [*_legend_of_penalties(), *last.get_legend_handles_labels()[0]]
    drawing.legend(handles=marks, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return drawing


def _legend_of_penalties() -> list[Any]:
    return [
        Line2D([], [], color="0.3", marker="o", ms=5.5, lw=1.4, label="all who withhold something, 95 % interval"),
        Line2D([], [], color="0.3", marker="|", ms=9, mew=1.6, ls="none", label="the set with the largest penalty"),
        Patch(color="0.92", label=f"margin of the audit, {100 * MARGIN:g} points"),
    ]


def _draw_penalties(ax: Any, of_method: list[Rows], methods: list[str]) -> None:
    ax.axvspan(-100 * MARGIN, 100 * MARGIN, color="0.94", lw=0)
    for place, (mine, method) in enumerate(zip(of_method, methods, strict=True)):
        if not mine:
            continue
        colour = COLOURS[_KIND.get(method, "wrong")]
        mean, error = penalty_of(mine)
        sets = values(mine, "largest penalty of a set")
        if sets:
            ax.plot(max(sets, key=abs), place, "|", color=colour, ms=9, mew=1.6, alpha=0.7)
        ax.errorbar(mean, place, xerr=0 if np.isnan(error) else 1.96 * error, fmt="o", color=colour, ms=5.5, lw=1.4)
    ax.axvline(0, color="0.3", lw=0.8, zorder=1)
    ax.set_xlabel("penalty, points: told more (+), less (−)", fontsize=9)


# The other two tables do not tell the methods apart: one is too small, and silence says little in the other.
PAGE = part_of(
    table, "data", "method", "penalty of non-sharers, points", "largest of a set, points",
    "distance to f*, or sets audited", "log loss against plain", "time to train, × plain",
    lines=lambda line: line["data"] in (*SIMULATED, "adult"),
)  # fmt: skip
STUDY = Study("alternatives", units, table, figure, PAGE)
