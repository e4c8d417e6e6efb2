"""How kernels are compiled and kept, and how they run on several threads.

The cache saves time and nothing else. Whatever is wrong with it, a kernel is compiled afresh: no folder can be written
to, the disk is full, or a file is damaged. A line in the log reports it, not a warning, which would stop programs that
turn warnings into errors.

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
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, overload

import llvmlite
import numba
from numba.core import config as numba_config
from numba.core import sigutils
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

from .._common import progress_bar

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

logger = logging.getLogger("pucboost")

try:
    from .together import by_reference as by_reference
    from .together import compiled_together
except Exception as error:  # another version of numba
    logger.warning("Kernels are compiled in numba's own way, which takes longer: %r", error)
    compiled_together = lambda function, **options: numba.njit(**options)(function)  # noqa: E731
    by_reference = lambda named_tuple: named_tuple  # noqa: E731

config: Any = numba_config


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
    if config.DISABLE_JIT:  # NUMBA_DISABLE_JIT=1, for debuggers
        return function
    compiled = compiled_together(function, nogil=True, no_cfunc_wrapper=True, **options)
    compiled._cache = _Cache(compiled)
    return compiled


@contextmanager
def reported_if_compiled_now(function: Any, what: str) -> Iterator[None]:
    """Report what the user waits for, if this kernel was compiled neither in this process nor by an earlier one."""
    if not hasattr(function, "signatures") or function.signatures or function._cache.has_any():
        yield
        return
    folder = cache_folder()
    kept = "not kept, see NUMBA_CACHE_DIR" if folder is None else f"then kept in {folder}"
    logger.info("compiling %s, which takes some seconds, once: %s", what, kept)
    with progress_bar(f"Compiling {what}, once"):
        yield


# ----- the cache
#
# A file for each kernel and each type of its arguments, named by a digest of all that it is made of: the kernel, those
# it calls and the constants they use, numba and the processor. So a file never goes stale, an unrelated edit or another
# release of pucboost compiles nothing again, and two processes that write the same file write the same.


ADVICE = "Set the environment variable NUMBA_CACHE_DIR to a folder that can be written to."


def cache_folder() -> Path | None:
    """Return the folder in which compiled kernels are kept; None if there is none that can be written to."""
    for folder in _folders():
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    return None


def _folders() -> list[Path]:
    """Return where compiled kernels are looked for. They are kept in the first that can be written to."""
    if config.CACHE_DIR:
        return [Path(config.CACHE_DIR) / "pucboost"]
    return [Path(__file__).parent / "__pycache__", Path(AppDirs("numba").user_cache_dir) / "pucboost"]


counts: Counter[str] = Counter()
"""How many kernels this process has found, compiled and kept, and compiled without being able to keep them."""


class _Cache(NullCache):
    """The files of one kernel, for numba."""

    def __init__(self, compiled: Any) -> None:
        self._kernel = compiled

    @property
    def cache_path(self) -> str:
        return str(cache_folder() or "")

    @cached_property
    def _stem(self) -> str:
        return f"{self._kernel.__name__}-{_digest(_described(self._kernel, []))}"

    def has_any(self) -> bool:
        """Whether the kernel was compiled for any type of arguments."""
        return any(True for folder in _folders() for _ in folder.glob(f"{self._stem}-*.kernel"))

    def _name(self, sig: Any, context: Any) -> str:
        arguments, _ = sigutils.normalize_signature(sig)
        return f"{self._stem}-{_digest((arguments, context.codegen().magic_tuple()))}.kernel"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()  # else what kernels call to make arrays is not there
        name = self._name(sig, target_context)
        for folder in _folders():
            try:
                content = (folder / name).read_bytes()
                if hashlib.sha256(content[32:]).digest() != content[:32]:
                    raise ValueError("damaged")  # LLVM would abort the process on damaged code, or run it
                found = CompileResult._rebuild(target_context, *pickle.loads(content[32:]))
            except FileNotFoundError:
                continue
            except Exception as error:
                logger.debug("compiled kernels: %s: %r", folder / name, error)
            else:
                counts["found"] += 1
                return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        content = dumps(data._replace(type_annotation="")._reduce())
        content = hashlib.sha256(content).digest() + content
        problem: Exception | None = None
        for folder in _folders():
            path = folder / self._name(sig, data.target_context)
            try:
                _write(path, content)
            except OSError as error:
                problem = error
            else:
                counts["kept"] += 1
                return
        counts["lost"] += 1
        _warn_that_nothing_is_kept(problem)


def _write(path: Path, content: bytes) -> None:
    """Write a file as a whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@cache
def _say_once(text: str) -> None:
    logger.warning(text)


def _warn_that_nothing_is_kept(error: Exception | None) -> None:
    logger.debug("compiled kernels: %r", error)
    _say_once(f"Compiled kernels cannot be kept on disk, so every process compiles them again. {ADVICE}")


def _digest(described: object) -> str:
    versions = (numba.__version__, llvmlite.__version__, sys.implementation.cache_tag, _MACHINERY)
    return hashlib.sha256(repr((versions, described)).encode()).hexdigest()[:20]


_MACHINERY = hashlib.sha256(Path(__file__).with_name("together.py").read_bytes()).hexdigest()
"""What else decides on machine code."""


def _described(value: Any, known: list[Any]) -> object:
    """Return what decides on the machine code that a value leads to, as something with the same text everywhere.

    Functions are described by their bytecode and the globals they use, and these in turn; not by comments, docstrings
    and lines. ``known`` are those that were described already.
    """
    if any(value is one for one in known):
        return known.index(value)
    if hasattr(value, "py_func"):
        return "kernel", _described(sorted(value.targetoptions.items()), known), _described(value.py_func, known)
    if hasattr(value, "_defn"):  # an intrinsic
        return "intrinsic", _described(value._defn, known)
    if isinstance(value, FunctionType):
        known.append(value)
        names = {name for code in _codes(value.__code__) for name in code.co_names}
        used = [(name, value.__globals__[name]) for name in sorted(names & value.__globals__.keys())]
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        code = [(one.co_code, one.co_names, one.co_varnames) for one in _codes(value.__code__)]
        constants = [None if one == value.__doc__ else one for part in _codes(value.__code__) for one in part.co_consts]
        return "function", code, *(_described(one, known) for one in (constants, used, cells, value.__defaults__))
    if isinstance(value, CodeType):
        return "code"  # described with the function it is in
    if isinstance(value, tuple | list):
        return [_described(one, known) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, type):
        return value.__module__, value.__qualname__, getattr(value, "_fields", ())
    if isinstance(value, ModuleType):
        return value.__name__
    return type(value).__name__, repr(value)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code and that of functions within it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


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
