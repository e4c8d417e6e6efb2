from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator

# Before the engines load. Their threads otherwise burn a core while they wait for one another, and with anything else
# running beside the tests a suite of minutes takes hours.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import hypothesis
import lightgbm as lgb
import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background jobs ignore interrupts, and so would the commands that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Kernels are compiled when first called, which may be in the middle of an example. The same examples every time: who
# changes the code should not meet somebody else's rare counterexample. To look for one: --hypothesis-profile=search.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.load_profile("repeatable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What users read must not show data in which silence seems to be encoded."""
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.add_marker(pytest.mark.filterwarnings("error::pucboost.warnings.EncodedSilenceWarning"))


@pytest.fixture(autouse=True, scope="session")
def _silent_lightgbm() -> None:
    lgb.register_logger(logging.getLogger("lightgbm-in-tests"))


@pytest.fixture(autouse=True, scope="session")
def _kernels_are_compiled_together() -> Iterator[None]:
    """One kernel that numba can compile only in its own way would slow down the first use of all others."""
    yield
    together = sys.modules.get("pucboost._kernels.together")
    assert together is None or not together._broken
