"""Models on the way: written whole or not at all, to a folder or any place that fsspec knows."""

from __future__ import annotations

import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from .._models.files import load_model, save_model
from .._tables.files import write_whole

_PREFIX, _ENDING = "rounds-", ".model"


def as_content(model: Any) -> bytes:
    """Return the content of a model file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        save_model(model, path)
        return path.read_bytes()


def prepare_place(place: str | Path) -> None:
    """Make sure that there is a folder, before anybody trains for hours."""
    if not _is_url(place):
        Path(place).mkdir(parents=True, exist_ok=True)
        return
    system, folder = _opened(place)
    system.makedirs(folder, exist_ok=True)


def write_checkpoint(place: str | Path, rounds: int, content: bytes) -> None:
    """Write the model after some rounds; whatever happens, there is never half a file under its name."""
    name = f"{_PREFIX}{rounds:09d}{_ENDING}"
    prepare_place(place)
    if not _is_url(place):
        write_whole(Path(place) / name, content)
        return
    system, folder = _opened(place)
    temporary = f"{folder}/.{name}.{secrets.token_hex(8)}"
    try:
        system.pipe_file(temporary, content)
        system.mv(temporary, f"{folder}/{name}")
    except BaseException:
        with suppress(Exception):  # the error under way says more
            system.rm_file(temporary)
        raise


def last_checkpoint(place: str | Path) -> Any:
    """Return the model with the most rounds among the checkpoints in a place; None if there are none.

    Parameters
    ----------
    place
        As given to :func:`pucboost.dask.train`: a folder, or an address that fsspec knows.

    Examples
    --------
    >>> import pucboost as puc, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     puc.dask.last_checkpoint(folder) is None
    True
    """
    if not _is_url(place):
        found = sorted(Path(place).glob(f"{_PREFIX}*{_ENDING}"))
        return load_model(found[-1]) if found else None
    system, folder = _opened(place)
    names = sorted(str(one) for one in system.glob(f"{folder}/{_PREFIX}*{_ENDING}")) if system.exists(folder) else []
    if not names:
        return None
    with tempfile.TemporaryDirectory() as local:
        path = Path(local) / "model"
        path.write_bytes(system.cat_file(names[-1]))
        return load_model(path)


def _is_url(place: str | Path) -> bool:
    return "://" in str(place)


def _opened(place: str | Path) -> tuple[Any, str]:
    import fsspec

    system, folder = fsspec.core.url_to_fs(str(place))
    return system, str(folder).rstrip("/")
