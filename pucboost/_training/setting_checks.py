"""Whether pucboost's own parameters can be what they are given as, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from .._virtual.shared_plan import PlanPart


def check_plan(own: Mapping[str, Any]) -> PlanPart | None:
    """Return the slice of a shared plan; raise for parameters that are the plan's, or impossible in parts."""
    plan = own.get("plan")
    if plan is None:
        return None
    if not isinstance(plan, PlanPart):
        raise TypeError(
            f"plan must be a part of a SharedPlan, as plan.part(…) returns it, got {type(plan).__name__!r}."
        )
    for name in ("augmentation", "copies", "max_virtual_rows"):
        if own.get(name) is not None:
            raise ValueError(f"{name} belongs to the plan that all parts share; give it to SharedPlan.agree.")
    return plan


def check_calibrate_masks(value: Any) -> float:
    """Return ``calibrate_masks`` as a strength: 0 for False, 1 for True."""
    if value is None or isinstance(value, (bool, np.bool_)):
        return float(bool(value))
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(
            f"calibrate_masks must be True, False or a strength from 0 (nothing) to 1 (True), got {value!r}."
        )
    return float(value)


def check_external_memory(folder: Any) -> Path | None:
    """Return the folder for external memory, if there is one."""
    if folder is None:
        return None
    if not isinstance(folder, (str, Path)) or not Path(folder).is_dir():
        raise ValueError(f"external_memory must be an existing folder, got {folder!r}.")
    return Path(folder)


def check_anchor_strength(strength: Any, anchor: Any) -> float | None:
    """Return λ if it is a positive number and there is an anchor, else raise."""
    if strength is None:
        return None
    if anchor is None:
        raise ValueError("anchor_strength needs an anchor.")
    if isinstance(strength, bool) or not isinstance(strength, Real) or not 0 < float(strength) < float("inf"):
        raise ValueError(f"anchor_strength must be a positive number, got {strength!r}.")
    return float(strength)
