"""The plots of an audit by name, drawn with matplotlib; the findings hold all their numbers."""

from __future__ import annotations

from typing import Any

from ..findings import Findings
from .plot_penalty import PENALTY
from .plot_predictions import BASE_VERSUS_MODEL, CALIBRATION
from .plot_sharing import BALANCE, SHARING_EFFECT

PLOTS = {
    "penalty": PENALTY,
    "calibration": CALIBRATION,
    "base-versus-model": BASE_VERSUS_MODEL,
    "sharing-effect": SHARING_EFFECT,
    "balance": BALANCE,
}


def show(name: str, findings: Findings, ax: Any = None) -> Any:
    """Draw one of :data:`PLOTS` on the axes, or in a new figure; return the matplotlib axes."""
    plot = PLOTS[name]
    if ax is None:
        import matplotlib.pyplot as plt  # so that notebooks show the figure

        ax = plt.subplots(figsize=plot.size(findings), layout="constrained")[1]
    return plot.on(findings, ax)
