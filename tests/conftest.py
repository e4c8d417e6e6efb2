from __future__ import annotations

import logging

import lightgbm as lgb
import pytest


@pytest.fixture(autouse=True, scope="session")
def _silent_lightgbm() -> None:
    lgb.register_logger(logging.getLogger("lightgbm-in-tests"))
