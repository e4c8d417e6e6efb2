"""Which augmentation to choose: accuracy against training time where the truth is known, with a picture.

A person who shares k groups stands for 2^k virtual rows. The schemes differ in how many of these a model is trained on.
Prints a table and saves ``choosing_a_scheme.png`` in the current folder; needs matplotlib.

What to look at: how little is left to gain beyond four copies, whatever the number of virtual rows.
"""

from __future__ import annotations

import time

import lightgbm as lgb
import matplotlib
import pandas as pd

import pucboost as puc
from pucboost.simulate import LogisticFamily, squared_puc_gap

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullLocator

# One thread: as fast on small data, and other work on the machine does not slow it down.
PARAMS = {"objective": "binary", "learning_rate": 0.1, "num_leaves": 15, "verbosity": -1, "num_threads": 1, "seed": 0}
ROUNDS = 60
FAMILIES, PEOPLE = 2, 10_000
SCHEMES = {
    "none": {"augmentation": "none"},
    "fixed": {"augmentation": "fixed"},
    **{f"balanced, copies={c}": {"augmentation": "balanced", "copies": c} for c in (1, 2, 4, 8)},
    "exhaustive": {"augmentation": "exhaustive"},
}


def measure(seed: int, n: int = PEOPLE) -> pd.DataFrame:
    """Return distance from the truth, seconds and virtual rows per person of every scheme, for one family."""
    family = LogisticFamily.random(5, 5, seed)
    people, test = family.sample(n, seed), family.sample(10_000, seed + 100)
    outcomes = {}
    for name, scheme in SCHEMES.items():
        start = time.perf_counter()
        booster = puc.train({**PARAMS, **scheme, "optional": family.optional}, lgb.Dataset(people.X, people.y), ROUNDS)
        seconds = time.perf_counter() - start
        gap = 1e4 * squared_puc_gap(booster.predict(test.X), family, test.X)
        outcomes[name] = {"rows": booster.puc_summary.virtual_rows / n, "gap": gap, "seconds": seconds}
    return pd.DataFrame.from_dict(outcomes, orient="index")


def main() -> None:
    """Measure all schemes on a few families, print and draw the means."""
    measure(0, 500)  # compiles the kernels
    runs = pd.concat([measure(seed) for seed in range(FAMILIES)])
    table = runs.groupby(level=0, sort=False).mean()
    print(f"mean over {FAMILIES} families of 5 base and 5 optional features, {PEOPLE:,} people, {ROUNDS} rounds")
    print("rows: virtual rows per person; gap: squared PUC-gap × 10⁴, distance from the true prediction")
    print(table.to_string(formatters=["{:.1f}".format, "{:.1f}".format, "{:.2f}".format]))
    draw_picture(table)
    print("saved choosing_a_scheme.png")


LOOKS = {  # colour, marker, and where the name goes
    "none": ("#b5532a", "X", (12, 0), "left"),
    "fixed": ("#8a6d00", "s", (0, 13), "center"),
    "balanced": ("#2a6f97", "o", (0, -15), "center"),
    "exhaustive": ("#444444", "D", (12, 0), "left"),
}


def draw_picture(table: pd.DataFrame) -> None:
    """Save the distance from the truth against the seconds of training."""
    figure, axes = plt.subplots(figsize=(8.5, 5), layout="constrained")
    balanced = table[table.index.str.startswith("balanced")]
    axes.plot(balanced["seconds"], balanced["gap"], color=LOOKS["balanced"][0], linewidth=1.2, zorder=1)
    for name, (_, gap, seconds) in table.iterrows():
        kind, _, copies = str(name).partition(", ")
        colour, marker, shift, side = LOOKS[kind]
        axes.plot(seconds, gap, marker, color=colour, markersize=10, mec="white", zorder=2)
        text = {"none": "none (plain training)", "balanced": f"balanced,\n{copies}"}.get(kind, kind)
        style = {"textcoords": "offset points", "ha": side, "va": "top" if kind == "balanced" else "center"}
        axes.annotate(text, (seconds, gap), shift, fontsize=9, color=colour, **style)
    axes.set(xscale="log", yscale="log")
    axes.set_xlim(0.8 * table["seconds"].min(), 1.6 * table["seconds"].max())
    axes.set_ylim(0.75 * table["gap"].min(), 1.15 * table["gap"].max())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("squared PUC-gap × 10⁴")
    time_saved = 1 - table.at["balanced, copies=4", "seconds"] / table.at["exhaustive", "seconds"]
    axes.set_title(
        f"Four balanced copies come about as close to the truth as all subsets, in {time_saved:.0%} less time",
        fontsize=11,
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig("choosing_a_scheme.png", dpi=150)


if __name__ == "__main__":
    main()
