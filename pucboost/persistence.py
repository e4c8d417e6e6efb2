"""Save and load boosters together with their consent schema.

A LightGBM model file is text; after the line ``end of parameters`` the engine reads nothing but the last line, which
holds the categories of pandas columns. The schema goes between the two: plain LightGBM loads the file as usual.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightgbm as lgb

from .consent import Consent
from .plan import PlanSummary

_KEY = "pucboost:"
_LAST_LINE = "\npandas_categorical:"
_FORMAT = 1


def save_model(booster: lgb.Booster, filename: str | Path, **kwargs: Any) -> None:
    """Write a booster and its consent schema into one file that plain LightGBM can read too.

    Parameters
    ----------
    booster
        As returned by :func:`pucboost.train`.
    filename
        Written whole or not at all.
    **kwargs
        As ``lgb.Booster.save_model``: ``num_iteration``, ``start_iteration``, ``importance_type``.

    Examples
    --------
    >>> import lightgbm as lgb, numpy as np, pucboost as puc, tempfile
    >>> X = np.random.default_rng(0).normal(size=(100, 2)); X[::3, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, lgb.Dataset(X, X[:, 0]), 5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     puc.save_model(booster, f"{folder}/model.txt")
    ...     puc.load_model(f"{folder}/model.txt").consent.group_names
    ('Column_1',)
    """
    consent = getattr(booster, "consent", None)
    if not isinstance(consent, Consent):
        raise ValueError(
            "The booster has no consent schema; it was not returned by pucboost.train with optional features. "
            "Use booster.save_model."
        )
    summary = getattr(booster, "puc_summary", None)
    schema = {"format": _FORMAT, "consent": consent.to_dict(), "summary": None if summary is None else asdict(summary)}
    model, _, categories = booster.model_to_string(**kwargs).rpartition(_LAST_LINE)
    text = f"{model}\n{_KEY}{json.dumps(schema)}\n{_LAST_LINE}{categories}"
    _write_whole(Path(filename), text)


def load_model(filename: str | Path) -> lgb.Booster:
    """Read a file written by :func:`save_model`; the booster has its ``consent`` again.

    Parameters
    ----------
    filename
        The model file.

    Returns
    -------
    lgb.Booster
    """
    text = Path(filename).read_text(encoding="utf-8")
    lines = [line for line in text[text.rfind("end of parameters") :].splitlines() if line.startswith(_KEY)]
    if not lines:
        raise ValueError(
            f"{str(filename)!r} has no consent schema; it was not written by pucboost.save_model. "
            "Use lgb.Booster(model_file=...)."
        )
    schema = json.loads(lines[-1].removeprefix(_KEY))
    if schema["format"] != _FORMAT:
        raise ValueError(
            f"{str(filename)!r} has consent schema format {schema['format']}; this version of pucboost reads {_FORMAT}."
        )
    booster: Any = lgb.Booster(model_str=text)
    booster.consent = Consent.from_dict(schema["consent"])
    booster.puc_summary = None if schema["summary"] is None else PlanSummary(**schema["summary"])
    return booster  # type: ignore[no-any-return]


def _write_whole(path: Path, text: str) -> None:
    """Write to a neighbour, then rename: a crash never leaves half a file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        # mkstemp makes files only the owner can read; give this one the rights any new file gets.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
