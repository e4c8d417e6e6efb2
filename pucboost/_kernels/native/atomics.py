"""How the threads of one kernel wait for each other.

A tree of 31 leaves has some 60 places at which its threads meet, every tenth of a millisecond. Handing each step to a
thread pool would cost more than the step, so the threads stay inside one kernel and meet here.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending
from numba.core import types

from ..._arrays import Array
from ..compiling import kernel

_intrinsic: Any = extending.intrinsic  # its declared type does not know that the first argument is numba's

PATIENCE = 20_000
"""How often a thread looks before it offers its core to another one. On a virtual machine it comes back late from that,
so it must not happen in the middle of a tree."""

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
def _rest(_context: Any) -> Any:
    """Rest for some cycles: what shares the core with this thread runs faster."""

    def generate(_target: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        if platform.machine().lower() in ("x86_64", "amd64"):
            name = "llvm.x86.sse2.pause"
            known = builder.module.globals.get(name)
            builder.call(known or ir.Function(builder.module, ir.FunctionType(ir.VoidType(), []), name), [])
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(), generate


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
def wait_for_all(arrivals: Array, threads: Any) -> Any:
    """Return when all threads have called this, or False if one has failed; ``arrivals`` is one int64, 0 at first."""
    if threads == 1:
        return True
    address = arrivals.ctypes.data
    before = _add_and_get_old(address, 1)
    needed = (before // threads + 1) * threads
    looked = 0
    while _get(address) < needed and before < RELEASED:
        looked += 1
        if looked > PATIENCE:
            _offer_core()
        else:
            _rest()
    return _get(address) < RELEASED


@kernel
def look_for(counter: Array, value: Any) -> Any:
    """Return whether a counter, which others raise, reaches the value while this thread looks on for a moment."""
    address = counter.ctypes.data
    for _ in range(PATIENCE):
        if _get(address) >= value:
            return True
        _rest()
    return _get(address) >= value


@kernel
def raise_counter(counter: Array) -> None:
    """Add 1 to a counter that others look at; whatever was written before is seen by them."""
    _add_and_get_old(counter.ctypes.data, 1)
