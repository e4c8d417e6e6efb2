"""For those who train on many machines without Dask: one plan of masks for the parts of a table."""

from __future__ import annotations

from ._virtual.shared_plan import SharedPlan

__all__ = ["SharedPlan"]


def __dir__() -> list[str]:
    return sorted(__all__)
