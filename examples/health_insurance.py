"""The cost of not using a health insurer's fitness app: the opening story of the paper, with a picture.

People with poor fitness withhold their score. A plain model learns that silence is expensive; pucboost does not. Prints
a small table and saves ``health_insurance.png`` in the current folder; needs matplotlib.

What to look at: the left group of bars. Silence costs hundreds of dollars under plain LightGBM and nothing under
pucboost, and the member with good fitness keeps the discount.
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
PARAMS = {
    "objective": "regression",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "verbosity": -1,
    "num_threads": 1,
    "seed": 0,
}
ROUNDS = 150


def members(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return age and fitness score of members (mostly the fit share it), and their yearly costs in dollars."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 70, n)
    fitness = np.clip(rng.normal(75 - 0.3 * (age - 45), 15), 5, 100)
    costs = rng.gamma(4, (1_500 + 60 * (age - 20) + 45 * (100 - fitness)) / 4)
    table = pd.DataFrame({"age": age, "fitness": fitness})
    table.loc[rng.random(n) < 1 / (1 + np.exp((fitness - 70) / 6)), "fitness"] = np.nan
    return table, costs


def main() -> None:
    """Quote three members of the same age under both models."""
    X, y = members(40_000, seed=0)
    plain = lgb.train(PARAMS, lgb.Dataset(X, y), ROUNDS)
    protected = puc.train({**PARAMS, "optional": ["fitness"]}, lgb.Dataset(X, y), ROUNDS)
    at_45 = np.abs(X["age"] - 45) < 2
    justified = y[at_45].mean()

    people = pd.DataFrame(
        {"age": [45.0] * 3, "fitness": [np.nan, 87.0, 70.0]}, index=["shares nothing", "fitness 87 %", "fitness 70 %"]
    )
    quotes = pd.DataFrame(
        {
            "plain LightGBM": plain.predict(people),
            "pucboost": puc.predict(protected, people),
            "pucboost, bonus system": puc.predict(protected, people, sharing="best", favourable="lower"),
        },
        index=people.index,
    )
    print(quotes.round(0).astype(int).to_string())
    print(f"average costs of all members aged 45: {justified:.0f}")
    surcharge = quotes.loc["shares nothing"] - justified
    print(f"surcharge for silence: plain {surcharge['plain LightGBM']:+.0f}, pucboost {surcharge['pucboost']:+.0f}")

    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    colours = {"plain LightGBM": "#b5532a", "pucboost": "#2a6f97", "pucboost, bonus system": "#8fb8d0"}
    place = np.arange(len(quotes))
    for number, (name, column) in enumerate(quotes.items()):
        bars = axes.bar(place + 0.27 * (number - 1), column, 0.25, label=name, color=colours[str(name)])
        axes.bar_label(bars, fmt="{:,.0f}", fontsize=8, padding=2)
    axes.axhline(justified, color="black", linewidth=1, linestyle="--", label="average costs at that age")
    axes.set_xticks(place, quotes.index)
    axes.set_ylabel("yearly premium, dollars")
    axes.set_title("Premium of a member aged 45: what silence costs, and what sharing brings", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(0, quotes.to_numpy().max() * 1.3)
    axes.legend(frameon=False, ncols=2, fontsize=9, loc="upper right")
    figure.savefig("health_insurance.png", dpi=150)
    print("saved health_insurance.png")


if __name__ == "__main__":
    main()
