"""Save and load boosters together with their consent schema, in files that the plain engines read, too.

XGBoost's boosters have attributes that its model files keep; the schema is one of them.

A LightGBM model file is text; after the line ``end of parameters`` the engine reads nothing but the last line, which
holds the categories of pandas columns. The schema goes between the two.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import objectives
from .._consent import Consent
from .._engines.params import is_booster
from .._tables.files import write_whole
from .anchoring import Anchor, AnchoredModel
from .schema import SCHEMA_KEY, model_schema, read_schema

_ANCHORED = b'{"pucboost_anchored"'
_KEY = "pucboost:"
_LAST_LINE = "\npandas_categorical:"


def save_model(booster: Any, filename: str | Path, **kwargs: Any) -> None:
    """Write a booster and its consent schema into one file that the plain engine can read, too.

    The file of an anchored model holds two boosters, and only :func:`load_model` reads it.

    Parameters
    ----------
    booster
        As returned by :func:`pucboost.train`.
    filename
        Written whole or not at all. XGBoost's format follows the ending: ``.json``, else UBJSON.
    **kwargs
        For LightGBM as ``lgb.Booster.save_model``: ``num_iteration``, ``start_iteration``, ``importance_type``.

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
    consent = consent_of(booster)
    if consent is None:
        raise ValueError(
            "The booster has no consent schema; it was not returned by pucboost.train with optional features. "
            "Use booster.save_model."
        )
    path = Path(filename)
    if isinstance(booster, AnchoredModel):
        if kwargs:
            raise TypeError(f"save_model takes no {', '.join(kwargs)} for an anchored model.")
        write_whole(path, json.dumps(_anchored_to_dict(booster)).encode("utf-8"))
    elif is_booster(booster, "xgboost"):
        if kwargs:
            raise TypeError(f"save_model takes no {', '.join(kwargs)} for an XGBoost booster; slice it instead.")
        write_whole(path, bytes(booster.save_raw("json" if path.suffix == ".json" else "ubj")))
    else:
        write_whole(path, _lightgbm_text(booster, consent, **kwargs).encode("utf-8"))


def load_model(filename: str | Path) -> Any:
    """Read a file written by :func:`save_model`; the booster has its ``consent`` again.

    Parameters
    ----------
    filename
        The model file, of either engine.

    Returns
    -------
    lgb.Booster, xgb.Booster or AnchoredModel

    Examples
    --------
    >>> import numpy as np, pucboost as puc, tempfile
    >>> X = np.random.default_rng(0).normal(size=(100, 2)); X[::3, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, X[:, 0]), 5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     puc.save_model(booster, f"{folder}/model.txt")
    ...     bool((puc.load_model(f"{folder}/model.txt").predict(X) == booster.predict(X)).all())
    True
    """
    content = Path(filename).read_bytes()
    if content.startswith(_ANCHORED):
        return _anchored_from_dict(json.loads(content), str(filename))
    booster, schema = _load(content)
    if schema is None:
        raise ValueError(
            f"{str(filename)!r} has no consent schema; it was not written by pucboost.save_model. Load it with the "
            "engine itself: lgb.Booster(model_file=...) or xgb.Booster(model_file=...)."
        )
    booster.consent, booster.puc_summary = read_schema(schema, str(filename))
    return booster


def consent_of(model: Any) -> Consent | None:
    """Return the consent schema of a booster or of a model file, None if it has none.

    Parameters
    ----------
    model
        A booster of either engine, however it was loaded or copied, or the path of a model file.

    Examples
    --------
    >>> import lightgbm as lgb, numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> puc.consent_of(puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, X[:, 0]), 2))
    Consent(Column_1: [Column_1]; 1 base columns)
    >>> puc.consent_of(lgb.train({"verbosity": -1}, lgb.Dataset(X, X[:, 0]), 2)) is None
    True
    """
    if isinstance(model, (str, Path)):
        content = Path(model).read_bytes()
        if content.startswith(_ANCHORED):
            raise ValueError(f"{str(model)!r} is an anchored model, which cannot be continued.")
        _, schema = _load(content)
        return None if schema is None else read_schema(schema, str(model))[0]
    consent: Consent | None = getattr(model, "consent", None)
    if consent is None and is_booster(model, "xgboost"):
        kept = model.attr(SCHEMA_KEY)
        return None if kept is None else read_schema(json.loads(kept), "the booster")[0]
    return consent


def _anchored_to_dict(model: AnchoredModel) -> dict[str, Any]:
    if not is_booster(model.anchor.model):
        raise ValueError(
            "The anchor is a callable, which cannot be written into a model file. Pickle the model, or anchor it on a "
            "booster."
        )
    return {
        "pucboost_anchored": model_schema(model.consent, model.puc_summary),
        "anchor": _booster_to_dict(model.anchor.model),
        "trees": _booster_to_dict(model.booster),
        "objective": {"class": type(model.objective).__name__, "fields": asdict(model.objective)},
    }


def _anchored_from_dict(kept: dict[str, Any], where: str) -> AnchoredModel:
    consent, summary = read_schema(kept["pucboost_anchored"], where)
    objective = getattr(objectives, kept["objective"]["class"])(**kept["objective"]["fields"])
    anchor = Anchor(_booster_from_dict(kept["anchor"]), consent)
    return AnchoredModel(anchor, _booster_from_dict(kept["trees"]), objective, consent, summary)


def _booster_to_dict(booster: Any) -> dict[str, str]:
    if is_booster(booster, "xgboost"):
        return {"engine": "xgboost", "model": bytes(booster.save_raw("json")).decode("utf-8")}
    return {"engine": "lightgbm", "model": booster.model_to_string()}


def _booster_from_dict(kept: dict[str, str]) -> Any:
    if kept["engine"] == "xgboost":
        import xgboost as xgb

        return xgb.Booster(model_file=bytearray(kept["model"], "utf-8"))
    import lightgbm as lgb

    return lgb.Booster(model_str=kept["model"])


def load_engine_model(filename: str | Path) -> tuple[Any, Consent | None]:
    """Return the booster in a model file of either engine, and its consent schema, if it has one."""
    content = Path(filename).read_bytes()
    booster, schema = _load(content)
    if booster is None:
        import lightgbm as lgb

        booster = lgb.Booster(model_str=content.decode("utf-8"))
    return booster, None if schema is None else read_schema(schema, str(filename))[0]


def _load(content: bytes) -> tuple[Any, dict[str, Any] | None]:
    return _load_xgboost(content) if content.startswith(b"{") else _load_lightgbm(content)


def _load_xgboost(content: bytes) -> tuple[Any, dict[str, Any] | None]:
    import xgboost as xgb

    booster = xgb.Booster(model_file=bytearray(content))
    kept = booster.attr(SCHEMA_KEY)
    return booster, None if kept is None else json.loads(kept)


def _load_lightgbm(content: bytes) -> tuple[Any, dict[str, Any] | None]:
    import lightgbm as lgb

    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("This is not a model file: neither text, as LightGBM writes it, nor XGBoost's.") from None
    lines = [line for line in text[text.rfind("end of parameters") :].splitlines() if line.startswith(_KEY)]
    schema = json.loads(lines[-1].removeprefix(_KEY)) if lines else None
    return (lgb.Booster(model_str=text), schema) if schema is not None else (None, None)


def _lightgbm_text(booster: Any, consent: Consent, **kwargs: Any) -> str:
    schema = json.dumps(model_schema(consent, getattr(booster, "puc_summary", None)))
    model, _, categories = booster.model_to_string(**kwargs).rpartition(_LAST_LINE)
    return f"{model}\n{_KEY}{schema}\n{_LAST_LINE}{categories}"
