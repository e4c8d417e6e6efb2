"""The main job on simulated data whose truth is known (``python -m pucboost demo``), and the people of the guides."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ._common import Array
from .simulate import LogisticFamily, Sample, squared_puc_gap

if TYPE_CHECKING:
    import pandas as pd

OPTIONAL_NAMES = ["fitness app", "blood test", "medical history"]
TEST_ROWS = 50_000
PARAMS = {"objective": "binary", "learning_rate": 0.05, "num_leaves": 31, "verbosity": -1}
ROUNDS = 150


@dataclass(frozen=True)
class Outcome:
    """How one model treats the test people."""

    name: str
    squared_gap: float
    shift_of_non_sharers: float
    log_loss: float
    seconds: float | None


def insurance_family() -> LogisticFamily:
    """Return a simulated world of health insurance.

    Claims (Y = 1) depend on two base features and on three things people may share. All three are
    shared less often by those who will claim (λ < 0): silence is informative, and a plain model uses it.
    """
    return LogisticFamily(
        w=np.array([0.5, -0.35]),
        t=-0.6,
        U=np.array([[0.25, 0.0], [0.0, -0.15], [0.0, 0.0]]),
        V=np.array([[0.0, 0.2], [0.1, 0.0], [0.1, 0.1]]),
        lam=np.array([-0.35, -0.25, -0.4]),
        tau0=np.array([0.4, -0.3, -0.4]),
        tau1=np.array([-0.4, 0.3, 0.4]),
        sharing=0.7,
    )


def people(n: int, seed: int = 0) -> tuple[pd.DataFrame, Array]:
    """Return a table of n simulated people, and who of them made a claim: the people of the guides.

    Age and region are known of everybody. People may withhold the data of their fitness app (steps, pulse) and a blood
    test (glucose), and do so more often the worse the values are.

    >>> X, claim = people(4)
    >>> X.columns.to_list()
    ['age', 'region', 'steps', 'pulse', 'glucose']
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    age, glucose = rng.uniform(20, 80, n), rng.normal(105, 18, n)
    steps = rng.gamma(4, 2_000, n)
    pulse = 80 - steps / 800 + rng.normal(0, 5, n)
    region = rng.choice(["north", "south", "west"], n)
    score = 0.04 * (age - 50) + 0.06 * (glucose - 105) - (steps - 8_000) / 4_000
    claim = rng.random(n) < 1 / (1 + np.exp(-score))
    X = pd.DataFrame({"age": age, "region": region, "steps": steps, "pulse": pulse, "glucose": glucose})
    no_blood_test = rng.random(n) < 1 / (1 + np.exp((110 - glucose) / 8))
    no_fitness_app = rng.random(n) < 1 / (1 + np.exp((steps - 7_000) / 2_000))
    X.loc[no_blood_test, "glucose"] = np.nan
    X.loc[no_fitness_app, ["steps", "pulse"]] = np.nan
    return X, claim.astype(int)


def run(
    n_rows: int, seed: int, on_step: Callable[[str], None] = lambda _: None, num_threads: int | None = None
) -> list[Outcome]:
    """Train plain LightGBM, a base-features model and pucboost; compare each with the truth on held-out people."""
    import lightgbm as lgb

    from ._training.train import train

    family = insurance_family()
    people, test = family.sample(n_rows, seed), family.sample(TEST_ROWS, seed + 1)
    base = list(range(family.n_base))
    params = {**PARAMS, "seed": seed, **({} if num_threads is None else {"num_threads": num_threads})}
    on_step("compiling")
    train({**params, "optional": family.optional}, lgb.Dataset(people.X, people.y), 1)  # by the engine of so many

    def plain() -> Array:
        return np.asarray(lgb.train(params, lgb.Dataset(people.X, people.y), ROUNDS).predict(test.X))

    def base_only() -> Array:
        return np.asarray(lgb.train(params, lgb.Dataset(people.X[:, base], people.y), ROUNDS).predict(test.X[:, base]))

    def protected() -> Array:
        given = {**params, "optional": family.optional}
        return np.asarray(train(given, lgb.Dataset(people.X, people.y), ROUNDS).predict(test.X))

    outcomes = []
    for name, fit in (("plain LightGBM", plain), ("base features only", base_only), ("pucboost", protected)):
        on_step(f"training: {name}")
        start = time.perf_counter()
        prediction = fit()
        outcomes.append(_compare(name, prediction, family, test, time.perf_counter() - start))
    outcomes.append(_compare("the truth", family.puc_prediction(test.X), family, test, None))
    return outcomes


def _compare(name: str, prediction: Array, family: LogisticFamily, test: Sample, seconds: float | None) -> Outcome:
    silent = ~test.available.any(axis=1)
    justified = family.puc_prediction(test.X)
    likelihood = np.where(test.y == 1, prediction, 1 - prediction)
    return Outcome(
        name,
        squared_puc_gap(prediction, family, test.X),
        float((prediction - justified)[silent].mean()),
        float(-np.log(likelihood).mean()),
        seconds,
    )


def main(n_rows: int = 50_000, seed: int = 0, num_threads: int | None = None) -> None:
    """Run the demo and print its table; progress is shown on a terminal only."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(
        f"[bold]Simulated health insurance[/bold]: {n_rows:,} people, claim yes or no, two base features, and three "
        f"things they may decline to share ({', '.join(OPTIONAL_NAMES)}). People who will claim share less often. "
        "The justified prediction for each of them is known exactly: the average outcome of everybody with the same "
        "base features and the same disclosures, whatever else those people share.\n"
    )
    with console.status("starting") if console.is_terminal else nullcontext() as status:
        outcomes = run(n_rows, seed, status.update if status else lambda _: None, num_threads=num_threads)
    table = Table()
    table.add_column("model")
    for heading in ("squared\nPUC-gap ×10⁴", "shift of the\nsilent, points", "log loss", "seconds"):
        table.add_column(heading, justify="right")
    for o in outcomes:
        table.add_row(
            o.name,
            f"{o.squared_gap * 1e4:.1f}",
            f"{o.shift_of_non_sharers * 100:+.2f}",
            f"{o.log_loss:.4f}",
            "" if o.seconds is None else f"{o.seconds:.1f}",
        )
    console.print(table)
    console.print(
        "[bold]squared PUC-gap[/bold]: mean squared distance to the justified prediction. [bold]shift[/bold]: the "
        "average claim probability quoted to people who share nothing, minus what their base features justify; above 0 "
        "they pay for their silence. [bold]log loss[/bold]: on people as they come; what plain LightGBM gains "
        "over the truth comes at the expense of the silent."
    )
