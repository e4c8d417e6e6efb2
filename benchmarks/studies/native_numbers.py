"""Whether gradients in whole numbers lose anything: held-out loss on virtual rows, native engine against LightGBM."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import lightgbm as lgb
import numpy as np

import pucboost as puc
from benchmarks.data import insurance_like
from benchmarks.harness.study import Row, Rows, Table, Unit

PARAMS = {"verbosity": -1, "num_threads": 2, "min_data_in_leaf": 100}
COPIES = 2


def _events(X: Any, rng: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    chance = 1 / (1 + np.exp(-(_signal(X) - 0.5)))
    return (rng.random(len(X)) < chance).astype(float), {}, {"objective": "binary"}


def _rare_events(X: Any, rng: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    chance = 1 / (1 + np.exp(-(_signal(X) - 5.2)))
    return (rng.random(len(X)) < chance).astype(float), {}, {"objective": "binary"}


def _weighted(X: Any, rng: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    label, _, params = _events(X, rng)
    return label, {"weight": rng.lognormal(0.0, 1.5, len(X))}, params


def _poisson(X: Any, rng: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    exposure = rng.uniform(0.05, 1.0, len(X))
    return (
        rng.poisson(exposure * np.exp(_signal(X) - 2.0)).astype(float),
        {"exposure": exposure},
        {"objective": "poisson"},
    )


def _tweedie(X: Any, rng: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    number = rng.poisson(np.exp(_signal(X) - 1.5))
    return rng.gamma(np.maximum(number, 1e-9), 100.0) * (number > 0), {}, {"objective": "tweedie"}


def _signal(X: Any) -> Any:
    return 0.4 * (X[:, :6].sum(axis=1) + np.nan_to_num(X[:, 20:23]).sum(axis=1))


CASES: dict[str, Callable[..., Any]] = {
    "events": _events,
    "1 % events": _rare_events,
    "lognormal weights": _weighted,
    "Poisson with exposure": _poisson,
    "Tweedie": _tweedie,
}


SIZES = {100_000: (3, 100), 1_000_000: (2, 100), 10_000_000: (1, 30)}
"""Number of people → number of samples and of rounds."""
MOST_JUDGED = 500_000
"""People whose loss is looked at: more would only take time."""


def units(quick: bool) -> Iterable[Unit]:
    """List one unit per case, size and sample."""
    for n_rows, (seeds, rounds) in {5_000: (2, 10)}.items() if quick else SIZES.items():
        for name, make in CASES.items():
            for seed in range(seeds):
                yield Unit(
                    {"case": name, "N": f"{n_rows:,}", "rounds": str(rounds), "seed": str(seed)},
                    lambda m=make, n=n_rows, r=rounds, s=seed: [measure(m, n, r, s)],  # type: ignore[misc]
                )


def measure(make: Callable[..., Any], n_rows: int, rounds: int, seed: int) -> Row:
    """Train both engines on the same people and masks; score both on the virtual rows of others."""
    X, _, optional = insurance_like(n_rows + min(n_rows // 2, MOST_JUDGED), seed=seed)
    label, own, params = make(X, np.random.default_rng(seed))
    parts = [slice(0, n_rows), slice(n_rows, None)]
    train, test = (
        puc.Dataset(X[part], label[part], optional=optional, **{name: values[part] for name, values in own.items()})
        for part in parts
    )
    losses = {}
    for engine in ("native", "lightgbm"):
        record: dict[str, Any] = {}
        both = {**PARAMS, **params, "engine": engine, "copies": COPIES, "seed": seed}
        puc.train(both, train, rounds, [test], ["test"], callbacks=[lgb.record_evaluation(record)])
        losses[engine] = next(iter(record["test"].values()))
    return {
        "start": f"{losses['lightgbm'][0]:.8g}",
        "LightGBM": f"{losses['lightgbm'][-1]:.8g}",
        "native": f"{losses['native'][-1]:.8g}",
    }


def table(rows: Rows) -> Table:
    """Return the mean difference of the engines for each case and size, as a part of what LightGBM learns."""
    cases: dict[tuple[str, str, str], list[Any]] = {}
    for row in rows:
        key = row["case"], row["N"], row["rounds"]
        cases.setdefault(key, []).append([float(row[k]) for k in ("start", "LightGBM", "native")])
    lines = []
    for (case, n, rounds), losses in cases.items():
        start, theirs, mine = np.array(losses).T
        part = (mine - theirs) / (start - theirs)
        error = f" ± {part.std(ddof=1) / len(part) ** 0.5:.4f}" if len(part) > 1 else ""
        lines.append(
            [
                case,
                n,
                rounds,
                str(len(part)),
                f"{theirs.mean():.5g}",
                f"{mine.mean():.5g}",
                f"{part.mean():+.4f}{error}",
            ]
        )
    return ["case", "N", "rounds", "samples", "LightGBM", "native", "difference, part of what is learned"], lines
