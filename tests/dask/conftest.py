from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Client, LocalCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two processes of one thread each."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=None
    ) as running:
        yield running


@pytest.fixture
def client(cluster: Any) -> Iterator[Client]:
    with Client(cluster) as connected:
        connected.wait_for_workers(2)
        yield connected


@pytest.fixture
def by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Functions of the test's module can be sent to workers, which cannot import it."""
    import cloudpickle

    module = sys.modules[request.module.__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)
