"""``"engine": "auto"``: the native engine where it can do what the parameters ask for, else LightGBM.

Both take the same parameters and return the same boosters. With nothing optional, LightGBM trains alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from .base import Engine
from .lightgbm import ENGINE as LIGHTGBM
from .lightgbm import LightGBM

logger = logging.getLogger("pucboost")


class Auto(LightGBM):
    """LightGBM until it is known what is asked for."""

    name: ClassVar[str] = "auto"

    def chosen(
        self, params: Mapping[str, Any], *, anchored: bool = False, keeps_data: bool = False, in_parts: bool = False
    ) -> Engine:
        """Return the engine for the parameters, and log which it is."""
        from .native.engine import ENGINE as NATIVE  # its kernels are slow to load

        reason = "keep_training_booster" if keeps_data else "several workers" if in_parts else ""
        try:
            NATIVE.check_supported(params, anchored=anchored)
        except (ValueError, TypeError) as error:
            reason = str(error)
        logger.info("engine: %s", f"{LIGHTGBM.name}, because of {reason}" if reason else NATIVE.name)
        return LIGHTGBM if reason else NATIVE


ENGINE: Engine = Auto()
