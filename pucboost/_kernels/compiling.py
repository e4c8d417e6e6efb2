"""How kernels are compiled and kept, and how they run on several threads.

Numba's cache saves time and nothing else. Whatever is wrong with it, a kernel is compiled afresh: no folder can be
written to, the disk is full, a file is damaged, or two processes have mixed up their files. A line in the log reports
it, not a warning, which would stop programs that turn warnings into errors.

Numba's own ``parallel=True`` is deliberately not used: its default layers abort the process when two Python threads or
a forked child enter a kernel, and its thread count is global state. Kernels that release the GIL, called from a thread
pool, avoid these problems and compile several times faster.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar, overload

from numba import njit
from numba.core import sigutils
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps

from .._common import progress_bar

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

logger = logging.getLogger("pucboost")


@overload
def kernel(function: Kernel) -> Kernel: ...
@overload
def kernel(**options: Any) -> Callable[[Kernel], Kernel]: ...
def kernel(function: Any = None, **options: Any) -> Any:
    """Compile a function for each type of arguments it is called with; it releases the GIL.

    ``options`` are numba's, such as ``error_model="numpy"``, with which divisions cannot raise and so become vectors.
    """
    if function is None:
        return partial(kernel, **options)
    compile_with: Any = njit
    compiled = compile_with(nogil=True, no_cfunc_wrapper=True, **options)(function)
    if hasattr(compiled, "enable_caching"):  # not with NUMBA_DISABLE_JIT=1, for debuggers
        try:
            compiled._cache = _Cache(function)
        except (RuntimeError, OSError) as error:  # numba finds no folder that it can write to
            _warn_that_nothing_is_kept(error)
    return compiled


def cache_folder() -> Path | None:
    """Return the folder in which compiled kernels are kept; None if there is none that can be written to."""
    try:
        return Path(_Cache(cache_folder).cache_path)
    except (RuntimeError, OSError):
        return None


@contextmanager
def reported_if_compiled_now(function: Any, what: str) -> Iterator[None]:
    """Report what the user waits for, if this kernel was compiled neither in this process nor by an earlier one."""
    if not hasattr(function, "signatures") or function.signatures or _is_kept(function):
        yield
        return
    folder = cache_folder()
    kept = "not kept, see NUMBA_CACHE_DIR" if folder is None else f"then kept in {folder}"
    logger.info("compiling %s, which takes up to a minute, once: %s", what, kept)
    with progress_bar(f"Compiling {what}, once"):
        yield


def _is_kept(compiled: Any) -> bool:
    try:
        return bool(compiled._cache._cache_file._load_index())
    except Exception:
        return False


@cache
def _say_once(text: str) -> None:
    logger.warning(text)


def _warn_that_nothing_is_kept(error: Exception) -> None:
    logger.debug("numba's cache: %s", error)
    _say_once(
        "Compiled kernels cannot be kept on disk, so every process compiles them again, which may take a minute. Set "
        "the environment variable NUMBA_CACHE_DIR to a folder that can be written to."
    )


@cache
def _sources() -> str:
    """Return a digest of all kernels: they call one another, and numba looks only at a kernel's own file."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted([*here.glob("*.py"), *(here.parent / "_engines/native/kernels").glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _SealedResult(CompileResultCacheImpl):
    """Machine code with a digest: LLVM would abort the process on damaged code, or run it."""

    def reduce(self, data: Any) -> tuple[str, bytes]:
        content = dumps(super().reduce(data))
        return hashlib.sha256(content).hexdigest(), content

    def rebuild(self, target_context: Any, payload: tuple[str, bytes]) -> Any:
        digest, content = payload
        if hashlib.sha256(content).hexdigest() != digest:
            raise ValueError("damaged machine code")
        return super().rebuild(target_context, pickle.loads(content))


class _Cache(FunctionCache):
    """Numba's cache, which here never raises: damaged files are replaced, and a full disk only costs time."""

    _impl_class = _SealedResult

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = (self._cache_file._source_stamp, _sources())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
            # Two processes that compile for different types at once may choose the same file name, and the index of
            # one then leads to the code of the other.
            if found is None or tuple(found.signature.args) == tuple(sigutils.normalize_signature(sig)[0]):
                return found
        except Exception as error:
            logger.debug("numba's cache: %s is damaged (%r)", self._name, error)
        try:
            self.flush()
        except OSError as error:
            self.disable()
            _warn_that_nothing_is_kept(error)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            self.disable()
            _warn_that_nothing_is_kept(error)


# ----- threads

MIN_ITEMS_PER_THREAD = 2_048
"""With fewer items, a second thread costs more than it saves."""

MOST_THREADS = 1_024
"""More are refused, unless there are as many cores: OpenMP ends the process if the system does not give it threads."""


def thread_count(requested: int | None) -> int:
    """Return how many threads an engine's thread parameter means: None, 0 and negatives mean all cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if requested is not None and requested > max(MOST_THREADS, cores):
        raise ValueError(f"num_threads is {requested}, but at most {max(MOST_THREADS, cores):,} are possible.")
    return cores if requested is None or requested <= 0 else requested


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="pucboost")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: a child that inherited the pool would wait for ever.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_in_ranges(kernel: Callable[[int, int], None], n_items: int, threads: int, least: int | None = None) -> None:
    """Call ``kernel(lo, hi)`` on ranges of at least ``least`` items that cover ``0 … n_items`` exactly once."""
    parts = min(threads, max(1, n_items // (least or MIN_ITEMS_PER_THREAD)))
    bounds = [n_items * part // parts for part in range(parts + 1)]
    # The calling thread takes the first range, which saves a switch.
    others = [_pool(parts - 1).submit(kernel, lo, hi) for lo, hi in itertools.pairwise(bounds[1:])]
    kernel(0, bounds[1])
    for done in others:
        done.result()


@contextmanager
def engine_threads(requested: int | None) -> Iterator[None]:
    """Let OpenMP, and so every engine, use no more threads than requested; None leaves it alone.

    OpenMP keeps this number per calling thread, so other threads of the process are not affected, and neither are
    boosters. As a parameter of ``predict``, XGBoost would take it only by changing the caller's booster, LightGBM would
    keep it for the whole process, and anchors and estimators have other names for it. One thread means none but the
    caller's, which is all that a forked child may use.
    """
    if requested is None or requested <= 0:
        yield
        return
    with _openmp(len(sys.modules)).limit(limits=requested, user_api="openmp"):
        yield


@lru_cache(maxsize=1)
def _openmp(modules: int) -> Any:
    """Return the OpenMP libraries of this process; they are looked up again when further modules have been loaded."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
