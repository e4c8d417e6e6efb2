"""Members see their premium with and without the fitness badge and share it only if that helps, with a picture.

The insurer retrains every round on what was shared. Under pucboost the game settles, silence costs nothing extra, and
no other discount for the badge has a smaller error: the paper's theorem on strategic users. Prints a table round by
round and saves ``strategic_sharing.png`` in the current folder; needs matplotlib.

What to look at: the column of members who changed their mind. With memory it is 0 from the second round on, without
memory it never settles.
"""

from __future__ import annotations

import lightgbm as lgb
import matplotlib
import numpy as np
import pandas as pd

import pucboost as puc

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PARAMS = {
    "objective": "regression",
    "learning_rate": 0.1,
    "num_leaves": 8,
    "verbosity": -1,
    "num_threads": 1,
    "seed": 0,
}
ROUNDS = 10
BADGES = np.arange(4.0)  # none, bronze, silver, gold
BLUE, RUST = "#2a6f97", "#b5532a"


def badge_chances(age: np.ndarray) -> np.ndarray:
    """Return P(badge | age): fewer older members have earned silver or gold."""
    weight = np.exp([-0.6, 0.2, 0.3, 0.1] - 0.01 * BADGES * (age[:, None] - 45))
    return weight / weight.sum(axis=1, keepdims=True)


def expected_costs(people: pd.DataFrame) -> np.ndarray:
    """Return E[costs | age, badge], and E[costs | age] where the badge is missing."""
    age = people["age"].to_numpy()
    by_badge = 1_200 + 60 * (age[:, None] - 20) + 700 * (3 - BADGES)
    known = (people["badge"].to_numpy()[:, None] == BADGES) * 1.0
    return (by_badge * np.where(people["badge"].isna().to_numpy()[:, None], badge_chances(age), known)).sum(axis=1)


def members(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return age and badge of members, nothing withheld, and their yearly costs in dollars."""
    rng = np.random.default_rng(seed)
    age = rng.choice(np.arange(20.0, 70.0, 5.0), n)
    badge = (rng.random((n, 1)) > badge_chances(age).cumsum(axis=1)[:, :-1]).sum(axis=1).astype(float)
    people = pd.DataFrame({"age": age, "badge": badge})
    return people, rng.gamma(4, expected_costs(people) / 4)


def protected(X: pd.DataFrame, y: np.ndarray) -> lgb.Booster:
    """Train with pucboost."""
    return puc.train({**PARAMS, "optional": ["badge"], "compact": True}, lgb.Dataset(X, y), 80)


def plain(X: pd.DataFrame, y: np.ndarray) -> lgb.Booster:
    """Train with LightGBM."""
    return lgb.train(PARAMS, lgb.Dataset(X, y), 80)


def discount(kappa: float, people: pd.DataFrame) -> np.ndarray:
    """Return premiums that use the badge κ times as strongly as it deserves: (1 − κ)·E[Y | b] + κ·E[Y | b, z]."""
    return (1 - kappa) * expected_costs(people.assign(badge=np.nan)) + kappa * expected_costs(people)


def main() -> None:
    """Play the game with and without memory, with a plain model and as a bonus system; compare with the theorem."""
    # Half of the first cohort shares, at random; with this patience all rounds are played, even if nothing changes.
    common = {"optional": ["badge"], "start": 0.5, "cohort": 10_000, "rounds": ROUNDS, "patience": ROUNDS}
    worlds = {
        "memory": puc.simulate.play(protected, members, **common),
        "no memory": puc.simulate.play(protected, members, memory="last", **common),
        "bonus": puc.simulate.play(protected, members, bonus=True, **common),
        "plain": puc.simulate.play(plain, members, **common),
    }
    rounds = {name: world.table() for name, world in worlds.items()}
    shown = {"change their mind, %": ("changed", 100), "silent, %": ("silent", 100), "surcharge, $": ("surcharge", 1)}
    table = {
        (heading, name): unit * played[column]
        for heading, (column, unit) in shown.items()
        for name, played in rounds.items()
    }
    print(pd.DataFrame(table).rename_axis("round").round(0).astype(int).to_string())
    print("surcharge: premium of a member who shares nothing, minus average costs at that age")

    people = worlds["memory"].X
    truth = expected_costs(people)
    error = {name: rms(world.response.prediction - truth) for name, world in worlds.items()}
    kappas = np.linspace(0, 2, 81)
    by_kappa = [
        rms(puc.simulate.best_response(lambda X, k=k: discount(k, X), people, ["badge"]).prediction - truth)
        for k in kappas
    ]
    best = kappas[np.argmin(by_kappa)]
    print(
        f"distance of premiums from expected costs, dollars: base features only {by_kappa[0]:.0f}, "
        f"strategic members {error['memory']:.0f}, bonus system {error['bonus']:.0f}, best {min(by_kappa):.0f}"
    )
    print(f"best weight of the badge if the silent pay the base premium: {best:.2f}")
    draw_picture(rounds, error["memory"], kappas, by_kappa)
    print("saved strategic_sharing.png")


def rms(difference: np.ndarray) -> float:
    """Return the root mean square."""
    return float(np.sqrt(np.mean(difference**2)))


def draw_picture(rounds: dict[str, pd.DataFrame], learned: float, kappas: np.ndarray, by_kappa: list[float]) -> None:
    """Save three panels: how many stay silent, what silence costs, and how the error depends on the discount."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained")
    for name, label, colour, marker in (
        ("no memory", "trained on the last cohort only", RUST, "s"),
        ("memory", "trained on all cohorts", BLUE, "o"),
    ):
        left.plot(rounds[name].index, 100 * rounds[name]["silent"], color=colour, marker=marker, label=label)
    left.set_title("Do members settle? (pucboost)", fontsize=11)
    left.set_xlabel("round")
    left.set_ylabel("members who withhold\nthe badge, %")
    left.set_ylim(-3, 62)
    left.legend(frameon=False, fontsize=9, loc="upper left")

    for name, label, colour, marker in (("plain", "plain LightGBM", RUST, "s"), ("memory", "pucboost", BLUE, "o")):
        middle.plot(rounds[name].index, rounds[name]["surcharge"], color=colour, marker=marker, label=label)
    middle.axhline(0, color="black", linewidth=1, linestyle="--")
    middle.set_title("What does silence cost?", fontsize=11)
    middle.set_xlabel("round")
    middle.set_ylabel("premium without badge, minus\naverage costs at that age, dollars")
    middle.legend(frameon=False, fontsize=9, loc="upper left")

    right.plot(kappas, by_kappa, color="black", linewidth=1.5, label="after members have reacted")
    right.plot(0, by_kappa[0], "D", color="grey", markersize=8, label="base features only")
    right.plot(1, learned, "o", color=BLUE, markersize=8, label=f"pucboost after {ROUNDS} rounds")
    right.set_title("How much should the badge count?", fontsize=11)
    right.set_xlabel("κ: weight of the badge (1 = as much as it tells)")
    right.set_ylabel("distance of premiums from\nexpected costs, dollars (RMS)")
    right.legend(frameon=False, fontsize=9, loc="upper center")
    right.set_ylim(min(by_kappa) * 0.93, max(by_kappa) * 1.13)
    for axes in (left, middle):
        axes.set_xticks(range(1, ROUNDS + 1))
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig("strategic_sharing.png", dpi=150)


if __name__ == "__main__":
    main()
