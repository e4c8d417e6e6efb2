"""Workers that raise, die or never come are named within seconds, and the cluster can train again."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, Event
from engine_kits import LIGHTGBM, OPTIONAL, EngineKit, every_distributed_engine
from tools import make_table

import pucboost as puc
from pucboost._dask import training
from pucboost._dask.training import write_checkpoint
from pucboost._engines import boosters_of

pytestmark = pytest.mark.xdist_group("dask")  # one cluster, not one in each process of tests


def table(n: int = 1_500) -> tuple[Any, Any, Any, Any]:
    X, y = make_table(n)
    return X, y, da.from_array(X, chunks=(400, X.shape[1])), da.from_array(y, chunks=(400,))


def params_of(kit: EngineKit) -> dict[str, Any]:
    given = {name: value for name, value in kit.params.items() if name != kit.threads}
    return {**given, "optional": OPTIONAL, "copies": 2}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Fault:
    """A metric that raises, or kills its process, in the fourth round on one worker."""

    def __init__(self, victim: str, kills: bool) -> None:
        self.victim, self.kills, self.calls = victim, kills, 0

    def __call__(self, preds: Any, data: Any) -> tuple[str, float, bool]:
        import os
        import signal

        from distributed import get_worker

        self.calls += 1
        if self.calls == 4 and get_worker().address == self.victim:
            if self.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyError("my own mistake")
        return "nothing", 0.0, False


@pytest.mark.slow
@every_distributed_engine
@pytest.mark.usefixtures("by_value")
@pytest.mark.parametrize("kills", [False, True], ids=["raises", "dies"])
def test_a_worker_that_fails(client: Client, kit: EngineKit, kills: bool) -> None:
    X, y, rows, labels = table()
    victim = sorted(client.nthreads())[kills]
    named = "was lost before it had trained" if kills else r"failed: KeyError: 'my own mistake'"
    with pytest.raises(RuntimeError, match=f"Worker {victim} {named}"):
        puc.dask.train(client, params_of(kit), rows, labels, 50, valid_sets=(X, y), feval=Fault(victim, kills))
    client.wait_for_workers(2)
    assert (victim in client.nthreads()) is not kills  # who did not die is the same process
    booster = puc.dask.train(client, params_of(kit), rows, labels, 5)
    assert booster.puc_summary.source_rows == len(y)


@pytest.mark.slow
@every_distributed_engine
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no alarms here")
def test_an_interrupted_training_ends_on_the_workers(client: Client, kit: EngineKit) -> None:
    """One of a million rounds; the next one would wait for it, and give up after a minute."""
    _, y, rows, labels = table()
    puc.dask.train(client, params_of(kit), rows, labels, 2)  # compiled
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 4)
    try:
        with pytest.raises(KeyboardInterrupt):
            puc.dask.train(client, params_of(kit), rows, labels, 1_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert puc.dask.train(client, params_of(kit), rows, labels, 5).puc_summary.source_rows == len(y)


@pytest.mark.usefixtures("by_value")
def test_a_worker_that_stops_alone(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """LightGBM does not notice that the other has ended, and would wait for ever."""
    _, y, rows, labels = table()
    monkeypatch.setattr(training, "_TOGETHER", 1.0)
    first, second = sorted(client.nthreads())
    params = {"optional": OPTIONAL, "verbosity": -1}
    named = f"(Worker {first} has trained, but worker {second} goes on. A callback|Worker {second} failed)"
    with pytest.raises(RuntimeError, match=named):
        puc.dask.train(client, params, rows, labels, 50, callbacks=[StopsOn(first)])
    assert puc.dask.train(client, params, rows, labels, 5).puc_summary.source_rows == len(y)


class StopsOn:
    """A callback that ends the training on one worker only."""

    def __init__(self, victim: str) -> None:
        self.victim = victim

    def __call__(self, env: Any) -> None:
        import lightgbm as lgb
        from distributed import get_worker

        if env.iteration == 3 and get_worker().address == self.victim:
            raise lgb.callback.EarlyStopException(env.iteration, [])


class SlowSockets:
    """A callback that raises if a connection between workers has a time limit."""

    def __call__(self, env: Any) -> None:
        import os
        import socket

        from pucboost._engines.lightgbm_data import _connections

        found = _connections()
        for connection in found:
            with socket.socket(fileno=os.dup(connection)) as one:
                limit = one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)
            if any(limit):
                raise ValueError(f"a time limit of {limit!r}")
        if not found:
            raise ValueError("no connections")


@pytest.mark.usefixtures("by_value")
def test_workers_may_take_their_time(client: Client) -> None:
    """One may have more rows to read than others, and a process may be stopped for a while."""
    _, y, rows, labels = table()
    booster = puc.dask.train(
        client, {"optional": OPTIONAL, "verbosity": -1}, rows, labels, 2, callbacks=[SlowSockets()]
    )
    assert booster.puc_summary.source_rows == len(y)


def test_a_worker_that_never_comes(client: Client) -> None:
    _, y, rows, labels = table()
    busy = sorted(client.nthreads())[1]
    other = client.submit(lambda: Event("go").wait(), workers=[busy], pure=False)
    while not client.processing()[busy]:
        time.sleep(0.01)
    params = {"optional": OPTIONAL, "verbosity": -1}
    with pytest.raises(puc.dask.LostWorkerError, match=f"Worker {busy} has not answered within 0.5 seconds"):
        puc.dask.train(client, params, rows, labels, 5, wait_for_workers=0.5)
    Event("go", client=client).set()
    other.result()
    assert puc.dask.train(client, params, rows, labels, 5).puc_summary.source_rows == len(y)


LOST_SCHEDULER = """
import asyncio, os, threading, time
import dask.array as da
from distributed import Client, LocalCluster
from tools import make_table
import pucboost as puc

X, y = make_table(500)
cluster = LocalCluster(n_workers=1, processes=False, dashboard_address=None, host="127.0.0.1", protocol="tcp://")
client = Client(cluster, timeout=1)

def begun(preds, data):
    import os

    os.environ["BEGUN"] = "yes"  # the worker is a thread of this process
    return "none", 0.0, False

def lose():
    while "BEGUN" not in os.environ:
        time.sleep(0.1)
    asyncio.run_coroutine_threadsafe(cluster.scheduler.close(), cluster.loop.asyncio_loop)

threading.Thread(target=lose, daemon=True).start()
rows, labels = da.from_array(X, chunks=(250, X.shape[1])), da.from_array(y, chunks=250)
try:
    puc.dask.train(client, {"optional": [5], "verbosity": -1}, rows, labels, 10_000, valid_sets=(X, y), feval=begun)
except ConnectionError as error:
    print("told:", error, flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_a_scheduler_that_is_lost() -> None:
    root = Path(__file__).parents[2]
    given = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")])}
    done = subprocess.run(
        [sys.executable, "-c", LOST_SCHEDULER], env=given, capture_output=True, text=True, timeout=120
    )
    assert "told: The connection to the scheduler tcp://127.0.0.1" in done.stdout, done.stderr


def test_errors_while_the_scheduler_is_gone_say_so() -> None:
    client: Any = SimpleNamespace(scheduler=SimpleNamespace(address="tcp://there:1"))

    def cancelled(status: str) -> None:
        client.status = "running"
        with training.lost_scheduler_named(client):
            client.status = status
            raise CancelledError("mine")

    with pytest.raises(CancelledError, match="mine"):
        cancelled("running")
    with pytest.raises(ConnectionError, match="The connection to the scheduler tcp://there:1 was lost"):
        cancelled("connecting")


def test_columns_that_differ_between_partitions_are_named(client: Client) -> None:
    whole = pd.DataFrame(make_table(200)[0], columns=list("abcdef"))
    labels = da.from_array(np.arange(200) % 2, chunks=100)

    def train(second: pd.DataFrame) -> Any:
        rows = dd.from_map(lambda part: part, [whole[:100], second], enforce_metadata=False, meta=whole[:0])
        return puc.dask.train(client, {**params_of(LIGHTGBM), "optional": ["f"]}, rows, labels, 1)

    for second, words in (
        (whole[100:][list("bacdef")], "Part 1 differs from the first one: it has 'b' as column 0, not 'a'"),
        (
            whole[100:].rename(columns={"e": "z"}),
            "Part 1 differs from the first one: it has column 'z' and lacks .* 'e'",
        ),
        (
            whole[100:].assign(b="x"),
            r"Partition 0: Column 'b' holds numbers .*, but categories \('x'\) in the training",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            train(second)


@every_distributed_engine
def test_checkpoints_and_resuming(client: Client, kit: EngineKit, tmp_path: Path) -> None:
    X, _, rows, labels = table()
    folder = tmp_path / "new" / "folder"
    whole = puc.dask.train(client, params_of(kit), rows, labels, 9, checkpoint=folder, checkpoint_every=4)
    assert names_in(folder) == ["rounds-000000004.model", "rounds-000000008.model"]
    last = puc.dask.last_checkpoint(folder)
    assert boosters_of(last).facts(last).rounds == 8
    assert last.consent == whole.consent
    assert last.puc_summary == whole.puc_summary
    assert np.abs(puc.predict(last, X) - puc.predict(whole, X)).max() < 0.1
    resumed = puc.dask.train(
        client, params_of(kit), rows, labels, 12, checkpoint=folder, checkpoint_every=4, resume=True
    )
    assert boosters_of(resumed).facts(resumed).rounds == 12
    assert "rounds-000000012.model" in names_in(folder)
    assert resumed.puc_summary == whole.puc_summary  # the same masks: the plan is a pure function of the table
    by_hand = puc.dask.train(client, params_of(kit), rows, labels, 4, init_model=folder / "rounds-000000008.model")
    np.testing.assert_array_equal(puc.predict(by_hand, X), puc.predict(resumed, X))
    assert puc.dask.train(client, params_of(kit), rows, labels, 12, checkpoint=folder, resume=True) is not None
    fewer = {**params_of(kit), "optional": OPTIONAL[:1]}  # also if no rounds are left to train
    for rounds in (12, 13):
        with pytest.raises(ValueError, match="init_model was trained under Consent"):
            puc.dask.train(client, fewer, rows, labels, rounds, checkpoint=folder, resume=True)


def test_checkpoints_elsewhere(client: Client) -> None:
    _, _, rows, labels = table()
    place = "memory://checkpoints/here"
    assert puc.dask.last_checkpoint(place) is None
    params = {"optional": OPTIONAL, "verbosity": -1}
    puc.dask.train(client, params, rows, labels, 4, checkpoint=place, checkpoint_every=2)
    last = puc.dask.last_checkpoint(place)
    assert last.current_iteration() == 4
    import fsspec

    found = sorted(fsspec.filesystem("memory").ls("/checkpoints/here", detail=False))
    assert [name.rpartition("/")[2] for name in found] == ["rounds-000000002.model", "rounds-000000004.model"]


def test_places_for_checkpoints_are_checked_before_anything_starts(client: Client, tmp_path: Path) -> None:
    _, _, rows, labels = table()
    (tmp_path / "file").write_text("")
    params = {"optional": OPTIONAL, "verbosity": -1}
    with pytest.raises(OSError, match="file"):
        puc.dask.train(client, params, rows, labels, 4, checkpoint=tmp_path / "file" / "below")
    for wrong in (0, 2.5, True):
        with pytest.raises(ValueError, match="checkpoint_every must be a whole number of rounds from 1 on"):
            puc.dask.train(client, params, rows, labels, 4, checkpoint=tmp_path, checkpoint_every=wrong)  # type: ignore[arg-type]


def test_nothing_is_left_of_a_checkpoint_that_failed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    system = fsspec.filesystem("memory")
    monkeypatch.setattr(type(system), "mv", lambda *args, **more: (_ for _ in ()).throw(OSError("cut off")))
    with pytest.raises(OSError, match="cut off"):
        write_checkpoint("memory://broken", 2, b"model")
    assert system.ls("/broken", detail=False) == []


def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path, 2, b"whole")

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_checkpoint(tmp_path, 4, b"half")
    assert names_in(tmp_path) == ["rounds-000000002.model"]
