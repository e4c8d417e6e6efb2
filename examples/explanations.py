"""Two ways to explain a premium: SHAP, and the value of sharing, in one picture.

A booster from pucboost is a LightGBM booster, so ``shap.TreeExplainer`` accepts it. SHAP says how each column moves the
prediction away from the average. ``puc.sharing_value`` says how each group that a person shares moves it away from what
they would be told without it: that is what people want to know before they share. Saves ``explanations.png`` in the
current folder; needs matplotlib and shap.

What to look at: SHAP attributes dollars to columns that a person withheld; the value of sharing does not, and neither
does ``puc.explain``, which gives each column a value as SHAP does, but compares with people who share as much. Below:
how much surer sharing makes the premium, and which question would change it most.
"""

from __future__ import annotations

import lightgbm as lgb
import matplotlib
import numpy as np
import pandas as pd

import pucboost as puc

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import shap
from matplotlib.patches import Patch

GROUPS = {"fitness app": ["steps", "pulse"], "blood test": ["glucose"]}
COLOURS = {None: "#777777", "fitness app": "#2a6f97", "blood test": "#b5532a"}
# One thread: as fast on small data, and other work on the machine does not slow it down.
PARAMS = {
    "objective": "regression",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "verbosity": -1,
    "num_threads": 1,
    "seed": 0,
}


def members(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return members of a health insurer, who tend to withhold what looks bad, and their yearly costs."""
    rng = np.random.default_rng(seed)
    age, smoker = rng.uniform(20, 70, n), (rng.random(n) < 0.25) * 1.0
    steps = rng.gamma(6, np.where(smoker, 1_000, 1_300))
    pulse = 78 - steps / 800 + 4 * smoker + rng.normal(0, 5, n)
    glucose = rng.normal(85 + 0.3 * age, 12)
    costs = rng.gamma(4, (800 + 45 * (age - 20) + 900 * smoker + 0.12 * (15_000 - steps) + 25 * (glucose - 70)) / 4)
    table = pd.DataFrame({"age": age, "smoker": smoker, "steps": steps, "pulse": pulse, "glucose": glucose})
    table.loc[rng.random(n) < 1 / (1 + np.exp((steps - 6_500) / 1_500)), GROUPS["fitness app"]] = np.nan
    table.loc[rng.random(n) < 1 / (1 + np.exp((105 - glucose) / 6)), GROUPS["blood test"]] = np.nan
    return table, costs


def main() -> None:
    """Explain the premiums of the same people twice."""
    X, y = members(20_000, seed=0)
    booster = puc.train({**PARAMS, "optional": GROUPS}, lgb.Dataset(X, y), 120)

    people, _ = members(2_000, seed=1)
    premium = booster.predict(people)
    explainer = shap.TreeExplainer(booster)
    by_column = pd.DataFrame(explainer.shap_values(people), columns=people.columns)
    by_group = puc.sharing_value(booster, people)
    reasons = puc.explain(booster, people, background=X).to_frame()
    average, without = explainer.expected_value, by_group.pop("withheld")
    by_group = by_group[list(GROUPS)]

    print("SHAP: how far is this premium from the average, and which columns explain it?")
    print(
        f"    average + columns = premium, up to {np.abs(average + by_column.sum(axis=1) - premium).max():.1g} dollars"
    )
    print("sharing value: how much more or less does this person pay because they share, and which groups explain it?")
    print(f"    without + groups = premium, up to {np.abs(without + by_group.sum(axis=1) - premium).max():.1g} dollars")
    for group, columns in GROUPS.items():
        withheld = people[columns[0]].isna()
        credit = by_column.loc[withheld, columns].sum(axis=1).abs().mean()
        print(
            f"those who withhold the {group}: SHAP still attributes {credit:.0f} dollars to it on average (in size), "
            f"the sharing value {by_group.loc[withheld, group].abs().mean():.0f}, "
            f"puc.explain {reasons.loc[withheld, columns].abs().to_numpy().mean():.0f}"
        )

    one = people.index[people["steps"].notna() & people["glucose"].isna()][0]
    print(f"\nmember {one}: " + ", ".join(f"{name} {value:,.0f}" for name, value in people.loc[one].items()))
    for kind, start, parts in (
        ("SHAP: average", average, by_column.loc[one]),
        ("sharing value: without", without[one], by_group.loc[one]),
    ):
        added = "".join(f", {name} {value:+,.0f}" for name, value in parts.items())
        print(f"    {kind} {start:,.0f}{added}: premium {premium[one]:,.0f}")

    # Other members than those of training: how sure is a premium, and which questions are worth asking?
    sure = puc.intervals(booster, *members(5_000, seed=2), level=0.9)
    told = puc.quote(booster, people.loc[[one]], intervals=sure).iloc[0]
    for shared in ("nothing", "fitness app"):
        low, high = told[f"{shared}: lower"], told[f"{shared}: upper"]
        print(f"    sharing {shared}: {told[shared]:,.0f}, in 9 of 10 cases between {low:,.0f} and {high:,.0f}")
    asked = puc.questions(booster, *members(20_000, seed=4), num_threads=1)
    print(asked.conclusion)
    print(asked.next_question(people.loc[[one]]).round(0).to_string(index=False))
    draw_picture(people, by_column, by_group)
    print("saved explanations.png")


def draw_picture(people: pd.DataFrame, by_column: pd.DataFrame, by_group: pd.DataFrame) -> None:
    """Save two panels: SHAP values by column, values of sharing by group."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12.5, 4.8), layout="constrained")
    owner = {column: group for group, columns in GROUPS.items() for column in columns}
    for place, column in enumerate(by_column.columns[::-1]):
        size, shared, group = by_column[column].abs(), people[column].notna(), owner.get(column)
        bars = left.barh(place + (0.2 if group else 0), size[shared].mean(), 0.38, color=COLOURS[group])
        if group:
            withheld = left.barh(
                place - 0.2, size[~shared].mean(), 0.38, color="white", edgecolor=COLOURS[group], hatch="////"
            )
            left.bar_label(withheld, fmt="{:,.0f}", padding=3, fontsize=9)
        left.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=9)
    left.set_yticks(range(by_column.shape[1]), by_column.columns[::-1])
    left.set_xlabel("average size of the SHAP value, dollars")
    left.set_title("SHAP: what makes a premium differ from the average,\nwithheld data included", fontsize=11)
    key = {name or "always known": Patch(color=colour) for name, colour in COLOURS.items()}
    key["of those who withhold it"] = Patch(facecolor="white", edgecolor="black", hatch="////")
    left.legend(key.values(), key, frameon=False, loc="lower right", fontsize=9)

    rng = np.random.default_rng(0)
    for place, group in enumerate(list(GROUPS)[::-1]):
        values = by_group.loc[people[GROUPS[group][0]].notna(), group]
        height = place + rng.uniform(-0.25, 0.25, len(values))
        right.plot(values, height, "o", color=COLOURS[group], markersize=3, alpha=0.35, mew=0)
        right.plot(values.mean(), place, "D", color="white", mec="black", markersize=9)
        text = f"{group}: {values.mean():+,.0f} on average, {np.mean(values < 0):.0%} of those who share it pay less"
        right.text(
            0.01,
            place + 0.31,
            text,
            transform=right.get_yaxis_transform(),
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    right.axvline(0, color="black", linewidth=0.8, zorder=0)
    right.set_yticks([])
    right.set_ylim(-0.4, len(GROUPS) - 0.5)
    right.set_xlabel("premium with the group, minus premium without, dollars")
    right.set_title("Sharing value: how sharing data changes a premium,\none point per member who shares", fontsize=11)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    right.spines["left"].set_visible(False)
    figure.savefig("explanations.png", dpi=150)


if __name__ == "__main__":
    main()
