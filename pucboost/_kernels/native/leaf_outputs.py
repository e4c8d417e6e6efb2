"""The value of a leaf, and what it gains: LightGBM's formulas.

With G and H the sums of gradients and hessians, and T(G) = sign(G)·max(0, |G| − λ₁), the loss of a leaf with value v
is about T(G)·v + ½(H + λ₂)v². Its minimum lies at v* = −T(G) / (H + λ₂) and equals −½T(G)² / (H + λ₂). Gains leave out
the ½.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compiling import kernel


class Penalties(NamedTuple):
    """What keeps leaves small; ``plain`` says that all but ``l2`` are absent, and no column is monotone."""

    l1: float
    l2: float
    max_step: float
    """Largest absolute value of a leaf; 0 for none."""
    smoothing: float
    """Rows by which a leaf is pulled towards its parent; 0 for none."""
    plain: bool


@kernel(error_model="numpy")
def soft_threshold(g: Any, l1: Any) -> Any:
    """Return T(g)."""
    return np.sign(g) * max(0.0, abs(g) - l1)


@kernel(error_model="numpy")
def leaf_output(g: Any, h: Any, rows: Any, l2: Any, penalties: Any, parent: Any, lowest: Any, highest: Any) -> Any:
    """Return v*, limited, pulled towards the parent's value (n·v* + s·parent) / (n + s), and kept within the bounds."""
    if not h + l2 > 0.0:  # nothing is known of the leaf
        return min(max(0.0, lowest), highest)
    value = -soft_threshold(g, penalties.l1) / (h + l2)
    if penalties.max_step > 0.0 and abs(value) > penalties.max_step:
        value = np.sign(value) * penalties.max_step
    if penalties.smoothing > 0.0:
        share = rows / (rows + penalties.smoothing)
        value = value * share + parent * (1.0 - share)
    return min(max(value, lowest), highest)


@kernel(error_model="numpy")
def gain_of_output(g: Any, h: Any, l2: Any, l1: Any, value: Any) -> Any:
    """Return −(2·T(g)·v + (h + λ₂)·v²), which is T(g)² / (h + λ₂) for v*."""
    return -(2.0 * soft_threshold(g, l1) * value + (h + l2) * value * value)


@kernel(error_model="numpy")
def leaf_gain(g: Any, h: Any, rows: Any, penalties: Any, parent: Any) -> Any:
    """Return the gain of a leaf as it is, before it is split."""
    if penalties.plain:
        return g * g / (h + penalties.l2)
    value = leaf_output(g, h, rows, penalties.l2, penalties, parent, -np.inf, np.inf)
    return gain_of_output(g, h, penalties.l2, penalties.l1, value)
