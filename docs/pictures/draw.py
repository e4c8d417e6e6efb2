"""Draws the pictures of README and site, each for a light and a dark background: ``python docs/pictures/draw.py``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import lightgbm as lgb
import matplotlib
import numpy as np

import pucboost as puc
from pucboost.demo import PARAMS, ROUNDS, insurance_family

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Ink:
    """Colours for one background."""

    text: str
    faint: str
    plain: str
    puc: str
    justified: str


INKS = {
    "light": Ink(
        text="#24292f",
        faint="#c9ced6",
        plain="#b5532a",
        puc="#2a6f97",
        justified="#6b737d",
    ),
    "dark": Ink(
        text="#e6edf3",
        faint="#4a525c",
        plain="#f0905f",
        puc="#79b8e0",
        justified="#8a929c",
    ),
}


def silence(ink: Ink) -> Figure:
    """What people who share nothing are told, by two models and by the truth, in the world of the demo."""
    family = insurance_family()
    people, test = family.sample(50_000, 0), family.sample(50_000, 1)
    params = {**PARAMS, "seed": 0, "num_threads": 1}
    plain = lgb.train(params, lgb.Dataset(people.X, people.y), ROUNDS)
    protected = puc.train(
        {**params, "optional": family.optional},
        lgb.Dataset(people.X, people.y),
        ROUNDS,
    )
    silent = test.X[~test.available.any(axis=1)]
    told = {
        "plain": 100 * np.asarray(plain.predict(silent)),
        "puc": 100 * np.asarray(protected.predict(silent)),
        "justified": 100 * np.asarray(family.puc_prediction(silent)),
    }
    figure, axes = plt.subplots(
        figsize=(7.6, 3.1), layout="constrained", label=in_words(told)
    )
    bins = np.arange(0, 101, 2.5)
    axes.hist(told["justified"], bins, color=ink.justified, alpha=0.45)
    for name in ("plain", "puc"):
        axes.hist(
            told[name],
            bins,
            histtype="step",
            linewidth=2.2,
            color=getattr(ink, name),
        )
    means = {name: float(values.mean()) for name, values in told.items()}
    top = axes.get_ylim()[1]
    axes.set_ylim(0, 1.3 * top)
    _label(
        axes,
        0.03,
        0.94,
        f"justified by their other data: {means['justified']:.0f} %",
        ink.justified,
    )
    _label(axes, 0.03, 0.83, f"pucboost: {means['puc']:.0f} %", ink.puc)
    _label(
        axes,
        0.97,
        0.94,
        f"plain LightGBM: {means['plain']:.0f} %",
        ink.plain,
        align="right",
    )
    axes.set_xlabel(
        "probability of a claim, as told to people who share nothing",
        color=ink.text,
    )
    axes.set_xticks(
        range(0, 101, 20), [f"{x} %" for x in range(0, 101, 20)]
    )
    axes.set_yticks([])
    axes.tick_params(colors=ink.text)
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(ink.faint)
    return figure


def in_words(told: dict[str, np.ndarray]) -> str:
    """Return what the picture shows, for people who cannot see it."""
    plain, protected, justified = (
        f"{told[name].mean():.0f} %"
        for name in ("plain", "puc", "justified")
    )
    return (
        f"What people who share nothing are told on average: {plain} by plain LightGBM, {protected} by pucboost. "
        f"Their other data justify {justified}."
    )


def _label(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    colour: str,
    align: str = "left",
) -> None:
    axes.text(
        x,
        y,
        text,
        color=colour,
        transform=axes.transAxes,
        ha=align,
        va="top",
        fontsize=11.5,
        fontweight="bold",
    )


SHARES = np.array(
    [[1, 1], [1, 1], [1, 0], [1, 0], [0, 1], [0, 0], [0, 0]], dtype=bool
)
"""Seven people: who shares the fitness app, who the blood test."""


def comparison(ink: Ink) -> Figure:
    """Who is compared with whom: for three sets of shared data, the people and the data that count."""
    sets = [
        (
            "If you share nothing",
            np.array([False, False]),
            "you are compared with everybody,\nby base data alone",
        ),
        (
            "If you share the app",
            np.array([True, False]),
            "with everybody who shares the app;\ntheir blood tests are erased",
        ),
        (
            "If you share both",
            np.array([True, True]),
            "with everybody\nwho shares both",
        ),
    ]
    figure, panels = plt.subplots(
        1, 3, figsize=(9.2, 4.0), layout="constrained",
        label="Seven people. Whoever shares nothing is compared with all seven by base data alone; whoever shares the "
        "app, with the four who share it, their blood tests erased; whoever shares both, with the two who share both.",
    )  # fmt: skip
    for axes, (title, shared, caption) in zip(panels, sets, strict=True):
        counts = (SHARES | ~shared).all(axis=1)
        for i, shares in enumerate(SHARES):
            y = len(SHARES) - 1 - i
            used = [True, *(shares & shared)]
            present = [True, *shares]
            for j in range(3):
                _cell(
                    axes,
                    j,
                    y,
                    ink,
                    present=present[j],
                    used=bool(counts[i] and used[j]),
                    person=bool(counts[i]),
                )
        axes.set_xlim(-0.65, 2.65)
        axes.set_ylim(-0.7, len(SHARES) + 0.1)
        for j, name in enumerate(("base", "app", "blood")):
            axes.text(
                j,
                len(SHARES) - 0.32,
                name,
                ha="center",
                color=ink.text,
                fontsize=9.5,
            )
        axes.set_title(
            title, color=ink.text, fontsize=12, fontweight="bold"
        )
        axes.set_xlabel(caption, color=ink.text, fontsize=10.5)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
    return figure


def _cell(
    axes: Axes,
    x: int,
    y: int,
    ink: Ink,
    *,
    present: bool,
    used: bool,
    person: bool,
) -> None:
    """One value of one person: used (filled), there but not used (outline), or withheld (a dot)."""
    if not present:
        axes.plot(
            x,
            y,
            ".",
            color=ink.justified if person else ink.faint,
            markersize=4,
        )
        return
    colour = ink.puc if used else ink.justified if person else ink.faint
    box = FancyBboxPatch(
        (x - 0.36, y - 0.3), 0.72, 0.6, boxstyle="round,pad=0,rounding_size=0.1", linewidth=1.2,
        edgecolor=colour, facecolor=ink.puc if used else "none", linestyle="-" if used or not person else (0, (2, 2)),
    )  # fmt: skip
    axes.add_patch(box)


def virtual_rows(ink: Ink) -> Figure:
    """One person who shares two groups, and the four virtual rows they stand for."""
    figure, axes = plt.subplots(
        figsize=(8.2, 2.9), layout="constrained",
        label="A person who shares steps and glucose stands for four rows: with both, with either one erased, and with "
        "both erased. Base data and outcome are the same in all.",
    )  # fmt: skip
    columns = ["age", "steps", "glucose", "claim"]
    person = ["52", "4,100", "131", "yes"]
    copies = [(True, True), (True, False), (False, True), (False, False)]
    _table(axes, 0.0, 1.5, columns, [person], ink, "one person")
    axes.annotate(
        "",
        xy=(4.75, 1.75),
        xytext=(4.2, 1.75),
        arrowprops={
            "arrowstyle": "-|>",
            "color": ink.text,
            "linewidth": 1.6,
        },
    )
    rows = [
        ["52", "4,100" if app else "–", "131" if blood else "–", "yes"]
        for app, blood in copies
    ]
    _table(
        axes,
        5.0,
        3.0,
        columns,
        rows,
        ink,
        "four virtual rows, of equal weight",
    )
    axes.set_xlim(-0.1, 9.1)
    axes.set_ylim(-0.6, 5.1)
    axes.axis("off")
    return figure


def _table(
    axes: Axes,
    x: float,
    y: float,
    columns: list[str],
    rows: list[list[str]],
    ink: Ink,
    title: str,
) -> None:
    axes.text(
        x, y + 1.65, title, color=ink.text, fontsize=11, fontweight="bold"
    )
    for j, name in enumerate(columns):
        axes.text(
            x + j + 0.5,
            y + 1.05,
            name,
            color=ink.text,
            ha="center",
            fontsize=10,
        )
        for i, row in enumerate(rows):
            erased = row[j] == "–"
            optional = j in (1, 2)
            colour = ink.faint if erased or not optional else ink.puc
            axes.add_patch(
                Rectangle(
                    (x + j + 0.04, y - i + 0.06),
                    0.92,
                    0.82,
                    fill=False,
                    edgecolor=colour,
                    lw=1.2,
                )
            )
            text = "erased" if erased else row[j]
            axes.text(
                x + j + 0.5, y - i + 0.46, text, ha="center", va="center",
                color=ink.justified if erased else ink.text, fontsize=9 if erased else 10.5,
            )  # fmt: skip


PICTURES = {
    "silence": silence,
    "comparison": comparison,
    "virtual-rows": virtual_rows,
}


def main() -> None:
    """Draw all pictures; the same call gives the same files."""
    matplotlib.rcParams["svg.hashsalt"] = "pucboost"
    for name, draw in PICTURES.items():
        for mode, ink in INKS.items():
            figure = draw(ink)
            metadata = {"Date": None, "Title": figure.get_label()}
            figure.savefig(
                HERE / f"{name}-{mode}.svg",
                transparent=True,
                metadata=metadata,
            )
            plt.close(figure)
            print(f"saved {name}-{mode}.svg")


if __name__ == "__main__":
    main()
