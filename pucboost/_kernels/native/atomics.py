"""How the threads of one kernel wait for each other.

A tree of 31 leaves has some 60 places at which its threads meet, every tenth of a millisecond. Handing each step to a
thread pool would cost more than the step, so the threads stay inside one kernel and meet here.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending
from numba.core import types

from ..._arrays import Array
from ..compiling import kernel

_intrinsic: Any = extending.intrinsic  # its declared type does not know that the first argument is numba's

PATIENCE = 2_000
"""How often a thread looks before it offers its core to another one."""

RELEASED = 1 << 62
"""As a number of arrivals: one thread has failed, and nobody waits any more."""


@_intrinsic
def _add_and_get_old(_context: Any, address: Any, value: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, args[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@_intrinsic
def _get(_context: Any, address: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(types.int64), generate


@_intrinsic
def _offer_core(_context: Any) -> Any:
    """Let another thread run; nothing where the system has no such call under this name."""

    def generate(_target: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        if os.name == "posix":
            known = builder.module.globals.get("sched_yield")
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(known or ir.Function(builder.module, kind, "sched_yield"), [])
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(), generate


@kernel
def wait_for_all(arrivals: Array, threads: Any) -> None:
    """Return when all threads have called this, or one has failed; ``arrivals`` is one int64, 0 at first."""
    if threads == 1:
        return
    address = arrivals.ctypes.data
    before = _add_and_get_old(address, 1)
    if before >= RELEASED:
        return
    needed = (before // threads + 1) * threads
    looked = 0
    while _get(address) < needed:
        looked += 1
        if looked > PATIENCE:
            _offer_core()
