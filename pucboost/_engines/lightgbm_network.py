"""LightGBM on several machines: how workers connect, and a model without their addresses.

LightGBM takes a closed connection for a message of no bytes, and reads on for ever in a loop in C++ that nothing can
interrupt. So a worker that fails resets its connections, and if a worker is lost, the sockets of the others are
replaced by something that cannot be read. LightGBM waits two minutes for a worker that does not come, so workers meet
before the network is opened, and it is opened before anything else can fail.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import socket
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import lightgbm as lgb

from .base import Network
from .names import value_of, without

_DEFAULTS = {
    "machines": "",
    "machine_list_filename": "",
    "num_machines": "1",
    "local_listen_port": "12400",
    "time_out": "120",
    "tree_learner": "serial",
}
"""Values of the parameters of a network on a single machine."""

_LINE = re.compile(rf"^\[({'|'.join(_DEFAULTS)}): [^\n]*\]$", re.MULTILINE)

_NOTHING = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=0
objective=regression
feature_names=Column_0
feature_infos=none
tree_sizes=

end of trees

feature_importances:

parameters:

end of parameters
"""
"""A model without trees: LightGBM's network functions are methods of boosters."""

_CONNECTED: list[tuple[int, tuple[int, ...]]] = []
"""The port of this process and those of all workers, while they are connected."""


class LightGBMNetwork(Network):
    """Sockets between all pairs of machines, one set of them per process."""

    errors: ClassVar[tuple[type[Exception], ...]] = (lgb.basic.LightGBMError,)

    def check_params(self, params: Mapping[str, Any]) -> None:
        """Refuse lists of machines: all workers of the cluster take part."""
        for name in ("machines", "machine_list_filename", "num_machines"):
            if value_of(params, name) is not None:
                raise ValueError(f"{name} is not possible here: the workers find each other. Leave it out.")

    def endpoint(self, host: str, rank: int, n_workers: int, params: Mapping[str, Any]) -> str:
        """Return address and port, a free one unless given; nothing listens there until all workers join."""
        asked = value_of(params, "local_listen_port")
        if asked is not None:
            return f"{host}:{int(asked) + rank}"
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as free:
            free.bind(("", 0))
            return f"{host}:{free.getsockname()[1]}"

    @contextmanager
    def joined(self, endpoints: Sequence[Any], rank: int) -> Iterator[dict[str, Any]]:
        """Open the sockets, and close them in any case, so that the other workers fail, too."""
        if len(endpoints) == 1:
            yield {}
            return
        holder = lgb.Booster(model_str=_NOTHING)
        port = int(endpoints[rank].rpartition(":")[2])
        _CONNECTED.append((port, tuple(int(one.rpartition(":")[2]) for one in endpoints)))
        try:
            holder.set_network(list(endpoints), port, 1, len(endpoints))  # a minute to find each other
            for connection in _connections():
                _wait_for_ever(connection)
            yield {"num_machines": len(endpoints), "tree_learner": "data"}
        except BaseException:
            for connection in _connections():
                _reset_when_closed(connection)
            raise
        finally:
            holder.free_network()
            _CONNECTED.clear()

    def sever(self) -> None:
        """Replace LightGBM's sockets by the null device, so that it fails to read from them."""
        for connection in _connections():
            _reset_when_closed(connection)
            with suppress(OSError):
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, connection)
                os.close(nothing)


def _connections() -> list[int]:
    """Return the file descriptors of LightGBM's connections, found by their ports: LightGBM does not expose them."""
    folder = Path("/dev/fd")
    if not _CONNECTED or not folder.is_dir():
        return []
    port, ports = _CONNECTED[-1]
    found = []
    for entry in folder.iterdir():
        with suppress(OSError, ValueError), _opened(int(entry.name)) as one:
            if one.family in (socket.AF_INET, socket.AF_INET6):
                here, there = one.getsockname()[1], one.getpeername()[1]
                if here == port or there in ports:
                    found.append(int(entry.name))
    return found


@contextmanager
def _opened(descriptor: int) -> Iterator[socket.socket]:
    """Yield a duplicate of a socket, and close it; raise OSError if the descriptor is not a socket."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        raise OSError(errno.ENOTSOCK, "not a socket")
    copy = os.dup(descriptor)
    try:
        one = socket.socket(fileno=copy)
    except BaseException:
        os.close(copy)
        raise
    with one:
        yield one


def _wait_for_ever(connection: int) -> None:
    """Remove the time limit of a connection.

    Connections that LightGBM accepts inherit the limit of the listener: a worker whose rows take a minute longer would
    count as lost, and a process stopped for a moment (SIGSTOP) would fail with "Interrupted system call".
    """
    with suppress(OSError), _opened(connection) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))


def _reset_when_closed(connection: int) -> None:
    """Make the other side see an error when the connection is closed, not just its end."""
    with suppress(OSError), _opened(connection) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def is_networked(params: Mapping[str, Any]) -> bool:
    return bool(value_of(params, "machines")) or int(value_of(params, "num_machines", 1)) > 1


def without_network(params: Mapping[str, Any]) -> dict[str, Any]:
    return functools.reduce(without, _DEFAULTS, dict(params))


def local_text(text: str) -> str:
    """Return a model's text without addresses and ports, as if it were trained on one machine."""
    return _LINE.sub(lambda found: f"[{found[1]}: {_DEFAULTS[found[1]]}]", text)


def local_booster(booster: lgb.Booster) -> lgb.Booster:
    local = lgb.Booster(model_str=local_text(booster.model_to_string(num_iteration=-1)))
    local.best_iteration, local.best_score = booster.best_iteration, booster.best_score
    local.pandas_categorical = booster.pandas_categorical
    local.params = without_network(booster.params)
    return local
