from __future__ import annotations

import logging
import os

# Before the engines load. Their threads otherwise burn a core while they wait for one another, and with anything else
# running beside the tests a suite of minutes takes hours.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import lightgbm as lgb
import pytest


@pytest.fixture(autouse=True, scope="session")
def _silent_lightgbm() -> None:
    lgb.register_logger(logging.getLogger("lightgbm-in-tests"))
