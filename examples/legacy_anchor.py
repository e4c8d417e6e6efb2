"""A motor insurer keeps its old premium for everybody who does not use the telematics box, with a picture.

The old tariff is filed with the regulator and must not change. ``anchor`` keeps it, bit for bit, for those who share
nothing, and adds trees for those who share their driving score or mileage. Saves ``legacy_anchor.png`` in the current
folder; needs matplotlib.

What to look at: not one premium of the silent changed, and who pays for the discounts of the others.
"""

from __future__ import annotations

import lightgbm as lgb
import matplotlib
import numpy as np
import pandas as pd

import pucboost as puc

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# One thread: as fast on small data, and other work on the machine does not slow it down.
PARAMS = {"objective": "gamma", "learning_rate": 0.05, "num_leaves": 8, "verbosity": -1, "num_threads": 1, "seed": 0}
BASE, OPTIONAL = ["age", "power", "city"], ["driving score", "mileage"]
BLUE, RUST = "#2a6f97", "#b5532a"


def drivers(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return drivers and their yearly costs; those who drive carefully or little tend to share it."""
    rng = np.random.default_rng(seed)
    age, power, city = rng.uniform(18, 80, n), rng.gamma(9, 9, n), rng.random(n) < 0.4
    score = np.clip(rng.normal(60 + 0.2 * (age - 45), 12), 0, 100)
    mileage = rng.gamma(5, np.where(city, 2, 3))  # thousands of km
    expected = 400 * np.exp(
        0.0008 * (age - 50) ** 2 + 0.004 * power + 0.2 * city - 0.015 * (score - 60) + 0.04 * mileage
    )
    table = pd.DataFrame({"age": age, "power": power, "city": city * 1.0, "driving score": score, "mileage": mileage})
    table.loc[rng.random(n) < 1 / (1 + np.exp((score - 55) / 8)), "driving score"] = np.nan
    table.loc[rng.random(n) < 1 / (1 + np.exp((11 - mileage) / 3)), "mileage"] = np.nan
    return table, rng.gamma(2, expected / 2)


def deviance(costs: np.ndarray, premium: np.ndarray) -> float:
    """Return the mean gamma deviance, 2·(costs / premium − 1 − log(costs / premium))."""
    ratio = costs / premium
    return float(2 * np.mean(ratio - 1 - np.log(ratio)))


def main() -> None:
    """Anchor a new model on the old tariff and compare the two on next year's drivers."""
    earlier, earlier_costs = drivers(20_000, seed=0)
    legacy = lgb.train(PARAMS, lgb.Dataset(earlier[BASE], earlier_costs), 80)

    X, y = drivers(30_000, seed=1)
    model = puc.train({**PARAMS, "optional": OPTIONAL, "anchor": legacy}, lgb.Dataset(X, y), 120)

    people, costs = drivers(20_000, seed=2)
    old, new = legacy.predict(people[BASE]), model.predict(people)
    shares = people[OPTIONAL].notna().any(axis=1).to_numpy()
    change = 100 * (new / old - 1)
    print(f"share nothing: {np.sum(~shares):,} drivers; premiums that changed: {np.sum(new[~shares] != old[~shares])}")
    print(
        f"share something: {np.sum(shares):,} drivers; {np.mean(change[shares] < 0):.0%} pay less, "
        f"premium changes by {np.mean(change[shares]):+.1f} % on average, "
        f"by {np.quantile(change[shares], 0.1):+.0f} to {np.quantile(change[shares], 0.9):+.0f} % for most"
    )
    before, after = deviance(costs[shares], old[shares]), deviance(costs[shares], new[shares])
    print(
        f"gamma deviance of those who share: {before:.3f} before, {after:.3f} now, {100 * (after / before - 1):+.1f} %"
    )
    bonus = puc.predict(model, people, sharing="best", favourable="lower")
    print(f"with the bonus system nobody pays more than before: largest increase {np.max(bonus - old):.2f}")
    # Those who share nothing cost more than their base data suggest, and their premium must not reflect that.
    print(
        f"costs per unit of premium: old tariff {costs.sum() / old.sum():.2f}, now {costs.sum() / new.sum():.2f} "
        f"(those who share nothing {costs[~shares].sum() / new[~shares].sum():.2f}, "
        f"something {costs[shares].sum() / new[shares].sum():.2f}): the cost of consent, which somebody has to bear"
    )
    draw_picture(people, shares, old, new, change)
    print("saved legacy_anchor.png")


def draw_picture(
    people: pd.DataFrame, shares: np.ndarray, old: np.ndarray, new: np.ndarray, change: np.ndarray
) -> None:
    """Save two panels: new against old premium, and the change by driving score."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    some = np.random.default_rng(0).permutation(len(people))[:3_000]
    sharers, silent = some[shares[some]], some[~shares[some]]
    left.plot(old[sharers], new[sharers], "o", color=BLUE, markersize=3, alpha=0.35, mew=0, label="share something")
    left.plot(old[silent], new[silent], "D", color=RUST, markersize=4, mew=0, label="share nothing: exactly as before")
    left.axline((1_000, 1_000), (2_000, 2_000), color="black", linewidth=0.8, zorder=0)
    left.set(xscale="log", yscale="log")
    left.set_xlabel("premium under the old tariff, dollars")
    left.set_ylabel("premium now, dollars")
    left.set_title("Those who share nothing pay exactly what they paid before", fontsize=11)
    for axis in (left.xaxis, left.yaxis):
        axis.set_ticks([500, 1_000, 2_000, 4_000], ["500", "1,000", "2,000", "4,000"])
        axis.set_ticks([], minor=True)
    left.set(xlim=(0.95 * old.min(), 1.05 * old.max()), ylim=(0.9 * new[some].min(), 1.3 * new[some].max()))

    scored = some[people["driving score"].notna().to_numpy()[some]]
    right.plot(people["driving score"].iloc[scored], change[scored], "o", color=BLUE, markersize=3, alpha=0.35, mew=0)
    right.axhline(0, color=RUST, linewidth=2, label="share nothing")
    right.set_xlabel("driving score, of those who share it")
    right.set_ylabel("change of the premium, %")
    right.set_title("Those who share pay by how they drive", fontsize=11)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        legend = axes.legend(frameon=False, fontsize=9, loc="upper left" if axes is left else "upper right")
        for handle in legend.legend_handles:
            handle.set_alpha(1)
    figure.savefig("legacy_anchor.png", dpi=150)


if __name__ == "__main__":
    main()
