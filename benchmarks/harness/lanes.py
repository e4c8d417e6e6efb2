"""Units of a study side by side in several processes.

Most studies train many small models: a second thread hardly helps them, a second process helps a lot. A process finds
its unit by the study's name and the unit's place in the list, because functions cannot always be sent.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context, parent_process
from typing import Any
from unittest.mock import patch

from .keeping import CODE
from .machine import LANES_VARIABLE, THREADS_VARIABLE, threads_in
from .study import run_unit
from .types import Rows


def in_lanes(name: str, quick: bool, keys: Mapping[int, Mapping[str, Any]], lanes: int) -> Iterator[tuple[int, Rows]]:
    """Run units of a catalogued study and yield the rows of each as it finishes, with the unit's place in the list.

    ``keys`` maps places to the units' keys. If a unit fails, those under way finish first, so that none is lost.
    """
    threads = str(threads_in(lanes))
    with (
        # Workers read these when they import the studies; OpenMP and BLAS only know their own variable.
        patch.dict(os.environ, {THREADS_VARIABLE: threads, LANES_VARIABLE: str(lanes), "OMP_NUM_THREADS": threads}),
        ProcessPoolExecutor(lanes, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool,
    ):
        places = {pool.submit(_work, name, quick, place, key, CODE): place for place, key in keys.items()}
        try:
            waiting, failed = set(places), None
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    error = future.exception()
                    if error is None:
                        yield places[future], future.result()
                    else:
                        failed = failed or error
                        waiting = {other for other in waiting if not other.cancel()}
            if failed is not None:
                raise failed
        finally:
            pool.shutdown(cancel_futures=True)


def _work(name: str, quick: bool, place: int, key: Mapping[str, Any], code: str) -> Rows:
    from benchmarks.catalogue import STUDIES  # here, because the studies import the harness

    study = STUDIES[name]
    units = list(study.units(quick)) if code == CODE else []
    if not units or dict(units[place].key) != dict(key):
        raise RuntimeError(f"benchmarks/ or pucboost/ changed while {name} ran; start it again")
    return run_unit(study, units[place])


def _end_with_parent() -> None:
    """End a worker quietly when it is interrupted or its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
