"""Save and load boosters together with their consent schema, in files that the plain engines can also read."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from .._consent import Consent
from .._engines import boosters_of, boosters_that_wrote, is_booster
from .._persistence import DamagedFileError, unsealed
from .._tables.files import is_table_file, write_whole
from .anchored import ANCHORED_KEY, AnchoredModel, is_tree_model, model_from_entries
from .schema import TREES_ARE_OTHERS, TrainingSummary, check_names, kept_of, model_schema, read_schema, valid_in

if TYPE_CHECKING:
    import lightgbm as lgb
    import xgboost as xgb

    from .._common import Array

_ANCHORED = f'{{"{ANCHORED_KEY}"'.encode()


def save_model(booster: Any, filename: str | Path, **kwargs: Any) -> None:
    """Write a booster and its consent schema into one file, which the plain engine can also read.

    The file of an anchored model holds its trees and its anchor, and only :func:`load_model` reads it. An anchor that
    is an estimator is written with skops (``pip install 'pucboost[skops]'``).

    Parameters
    ----------
    booster
        As returned by :func:`pucboost.train`, or one of pucboost's estimators, whose labels of classes are not kept.
    filename
        Written whole or not at all. The ending decides XGBoost's format: JSON for ``.json``, else UBJSON.
    **kwargs
        For LightGBM, as in ``lgb.Booster.save_model``: ``num_iteration``, ``start_iteration``, ``importance_type``.

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
    if isinstance(getattr(booster, "steps", None), list):
        raise ValueError(
            "The steps of a pipeline cannot be written into a model file. Pickle the pipeline, or save its last step."
        )
    if isinstance(getattr(booster, "consent_", None), Consent):
        booster = booster.booster_  # of one of our estimators
    consent, summary = kept_of(booster)
    if consent is None or summary is None:
        raise ValueError(
            "The booster has no consent schema; it was not returned by pucboost.train with optional features. "
            "Use booster.save_model."
        )
    path = Path(filename)
    if isinstance(booster, AnchoredModel):
        if kwargs:
            raise TypeError(f"save_model takes no {', '.join(kwargs)} for an anchored model.")
        booster.save_model(path)
        return
    schema = model_schema(consent, summary)
    write_whole(path, boosters_of(booster).to_file(booster, schema, path, **kwargs))


def load_model(filename: str | Path, *, trusted: Sequence[str] = ()) -> TrainedModel:
    """Return the booster from a file written by :func:`save_model`, with its ``consent``.

    Parameters
    ----------
    filename
        The model file, of any engine.
    trusted
        Names of types that the anchor of an anchored model may have, besides those that skops trusts, such as all of
        scikit-learn. An error names those that are missing.

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
        if isinstance(trusted, str):
            raise TypeError(f"trusted must be a list of names of types, got the text {trusted!r}.")
        with valid_in(str(filename)), _intact(str(filename)):
            kept = unsealed(content)
        return cast("TrainedModel", model_from_entries(kept, str(filename), trusted))
    if is_table_file(Path(filename)):
        raise ValueError(f"{str(filename)!r} is a table file, not a model file. Were the two swapped?")
    loaded = _from_file(content, str(filename))
    if loaded is None:
        raise ValueError(
            f"{str(filename)!r} has no consent schema; it was not written by pucboost.save_model. Load it with the "
            "engine itself: lgb.Booster(model_file=...) or xgb.Booster(model_file=...)."
        )
    booster, schema = loaded
    if not boosters_of(booster).has_its_trees(booster):
        raise ValueError(
            f"{str(filename)!r} {TREES_ARE_OTHERS}. Continue models with pucboost.train(..., init_model=booster), and "
            "refit them with pucboost.refit. To use this one all the same, load it with the engine itself."
        )
    _protected(booster, schema, str(filename))
    return cast("TrainedModel", booster)


def consent_of(model: Any) -> Consent | None:
    """Return the consent schema of a model or of a model file; None if it has none.

    Parameters
    ----------
    model
        A booster of any engine, however it was loaded or copied; an anchored model; one of pucboost's estimators, or a
        pipeline or search that ends in one (columns are then those that reach the estimator); the path of a model file.

    Examples
    --------
    >>> import lightgbm as lgb, numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> puc.consent_of(puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, X[:, 0]), 2))
    Consent(Column_1: [Column_1]; 1 base column)
    >>> puc.consent_of(lgb.train({"verbosity": -1}, lgb.Dataset(X, X[:, 0]), 2)) is None
    True
    """
    if isinstance(model, (str, Path)):
        content = _of_booster(model)
        loaded = _from_file(content, str(model))
        return None if loaded is None else _protected(*loaded, str(model))[0]
    while not is_booster(model) and (inner := _inner(model)) is not None:
        model = inner
    if not is_booster(model):
        consent: Consent | None = getattr(model, "consent", getattr(model, "consent_", None))
        return None if consent is None or consent.n_groups == 0 else consent  # fitted with nothing optional
    return kept_of(model)[0]


def _inner(model: Any) -> Any:
    steps = getattr(model, "steps", None)
    return steps[-1][1] if isinstance(steps, list) and steps else getattr(model, "best_estimator_", None)


def summary_of(model: Any) -> TrainingSummary | None:
    """Return what a booster or an anchored model keeps of its training, however it was loaded or copied."""
    return kept_of(model)[1]


def model_hash(model: Any) -> str | None:
    """Return a hash of a model and its consent schema, which files, pickles and copies keep; None if it has none.

    An estimator has that of its trees, a search that of its best model. What is not ours is hashed as it is pickled.
    """
    if isinstance(model, AnchoredModel):
        parts = [model_hash(model.anchor.model), model_hash(model.booster), repr(model.objective), model.consent]
        return None if None in parts else hash_of(*parts)
    if is_booster(model):
        return hash_of(boosters_of(model).to_text(model), consent_of(model))
    if isinstance(getattr(model, "consent_", None), Consent) and is_tree_model(getattr(model, "booster_", None)):
        return model_hash(model.booster_)
    if getattr(model, "best_estimator_", None) is not None:
        return model_hash(model.best_estimator_)
    if isinstance(getattr(model, "steps", None), list):
        parts = [model_hash(step) for _, step in model.steps]
        return None if None in parts else hash_of(*parts)
    try:
        return hashlib.sha256(pickle.dumps(model)).hexdigest()
    except Exception:  # a callable may hold anything; its hash is then unknown
        return None


def hash_of(*parts: Any) -> str:
    """Return a hash of texts and schemas; groups count in their order, which is that of the bits in masks."""
    plain = [part.to_dict() | {"order": part.group_names} if isinstance(part, Consent) else part for part in parts]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def load_engine_model(filename: str | Path) -> tuple[Any, Consent | None]:
    """Return the booster in a model file of any engine, and its consent schema (None if it has none)."""
    content = _of_booster(filename)
    loaded = _from_file(content, str(filename))
    if loaded is None:
        with _intact(str(filename)):
            return boosters_that_wrote(content).from_plain_file(content), None
    return loaded[0], _protected(*loaded, str(filename))[0]


def _of_booster(filename: str | Path) -> bytes:
    content = Path(filename).read_bytes()
    if content.startswith(_ANCHORED):
        raise ValueError(f"{str(filename)!r} is an anchored model, which cannot be continued.")
    return content


def _protected(booster: Any, schema: dict[str, Any], where: str) -> tuple[Consent | None, TrainingSummary | None]:
    """Protect a booster read from a file if its trees are those of the schema; return what it keeps."""
    consent, summary = read_schema(schema, where)
    check_names(consent, booster, where)
    booster.consent, booster.puc_summary = consent, summary
    kept = kept_of(booster)
    if kept[0] is None:
        booster.consent = booster.puc_summary = None
    else:
        boosters_of(booster).protect(booster, schema)
    return kept


def _from_file(content: bytes, where: str) -> tuple[Any, dict[str, Any]] | None:
    """Return booster and schema, None if there is no schema; errors name ``where`` it was found."""
    boosters = boosters_that_wrote(content)
    with valid_in(where), _intact(where):
        return boosters.from_file(content)


@contextmanager
def _intact(where: str) -> Iterator[None]:
    try:
        yield
    except DamagedFileError as error:
        raise ValueError(f"{where!r} is damaged: {error}.") from None


# ----- what ``train`` and ``load_model`` return, as a type checker sees it
#
# The models are the engines' own boosters, with attributes that pucboost sets, or an ``AnchoredModel``. Which of them
# depends on the parameters, which no checker reads, so the class here has whatever one of the three has. It does not
# exist when the program runs. A union would refuse correct calls, and ``Any`` would offer no completion.


if TYPE_CHECKING:

    class TrainedModel(lgb.Booster, xgb.Booster, AnchoredModel):  # type: ignore[misc]
        """A booster with its consent. What several kinds of models have in different ways is not checked."""

        # None where nothing is optional; "| Any" spares everybody else a check for None.
        consent: Consent | Any
        puc_summary: TrainingSummary | Any
        evals_result: dict[str, dict[str, list[float]]]
        best_iteration: Any
        best_score: Any
        current_iteration: Any
        dump_model: Any
        eval: Any
        feature_importance: Any
        feature_name: Any
        get_split_value_histogram: Any
        num_feature: Any
        num_trees: Any
        save_model: Any
        trees_to_dataframe: Any
        update: Any

        @overload  # type: ignore[override]
        def predict(self, data: Any, *args: Any, pred_contrib: Literal[True], **kwargs: Any) -> Any: ...
        @overload
        def predict(self, data: Any, *args: Any, **kwargs: Any) -> Array: ...
        def predict(self, data: Any, *args: Any, **kwargs: Any) -> Any: ...
