"""Exposure: outcomes that add up over it become rates, and rates weigh as much as their exposure.

Let Y add up over an exposure e: claims over e years, claim amounts over e years, the amounts of e claims. If the
increments of disjoint parts of e are independent and alike, mean and variance are proportional to e:

    E[Y] = e·μ,     Var[Y] = e·φ·μ^p,     so that     E[Y/e] = μ,     Var[Y/e] = φ·μ^p / e,

with p = 1 for counts (Poisson), 1 < p < 2 for compound Poisson sums (Tweedie) and p = 2 for the amounts of e claims
(gamma). This is a rate with dispersion φ/e, so its likelihood is that of **label Y/e with weight e**. In raw scores
s = log μ the gradient is e·(μ^(2−p) − (Y/e)·μ^(1−p)).

The offset log e, that is mean e·μ with weight 1, has the gradient (e·μ)^(2−p) − Y·(e·μ)^(1−p), which is that of label
Y/e with weight e^(2−p). For Poisson the two agree, hessians included. For Tweedie and gamma the offset assumes a
variance proportional to (e·μ)^p: another model, in which a gamma severity of ten claims weighs no more than one.

With label and weight nothing else has to know about exposure. An engine still starts from the mean (LightGBM does not
with initial scores); rows may be merged, because these losses are linear in the label; metrics, anchors and audits
weigh by exposure; predictions are per unit. The target of PUC becomes E[Y | b, A ⊇ a, z_a] / E[e | b, A ⊇ a, z_a].

Exposure is a base datum. It must be known for everybody and measured alike, whether or not they share: exposures that
are guessed for the silent, or shorter because they are silent, let silence change what the silent are told.
"""

from __future__ import annotations

from typing import Any

from .._arrays import Array
from .objective import Objective
from .regression import Gamma, Poisson, Tweedie

TAKE_EXPOSURE = (Poisson, Gamma, Tweedie)
"""Losses of outcomes that add up over an exposure."""


def per_unit(outcome: Array, weight: Array | None, exposure: Array) -> tuple[Array, Array]:
    """Return the rates Y/e and the weights w·e, both float64; without weights w = 1.

    Examples
    --------
    >>> import numpy as np
    >>> per_unit(np.array([2.0, 3.0]), None, np.array([0.5, 6.0]))
    (array([4. , 0.5]), array([0.5, 6. ]))
    """
    return outcome / exposure, exposure if weight is None else weight * exposure


def check_takes_exposure(objective: Objective | None, given: Any) -> None:
    """Raise unless outcomes of this loss add up over an exposure.

    Parameters
    ----------
    objective
        The loss in closed form; None if it is not known.
    given
        The objective as the user named it, for the error; None if it was left to the engine.
    """
    if isinstance(objective, TAKE_EXPOSURE) or isinstance(given, TAKE_EXPOSURE):
        return
    if given is None and objective is not None:
        given = objective.name
    names = ", ".join(repr(loss._names[0]) for loss in TAKE_EXPOSURE)
    raise ValueError(
        f"exposure with objective={given!r}: an exposure is for outcomes that add up over it, with objective {names} "
        "or another engine's name for one of them. For other losses weight is meant: give weight=, and rates as labels "
        "if the outcomes are totals."
    )
