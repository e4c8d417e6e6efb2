"""The engines that grow the trees, behind one interface (``base``), and their registry.

A new engine needs one module that defines ``ENGINE`` and one entry in :data:`ENGINES`. If its boosters have their own
class, it also needs a module that defines ``BOOSTERS``, an entry in :data:`BOOSTER_CLASSES`, and a way to recognise its
files. Nothing here loads an engine before it is needed: a model of one is read without the other.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from .._tables.sources import SourceTable
    from .base import Boosters, Engine, EngineParams

logger = logging.getLogger("pucboost")

EngineName: TypeAlias = Literal["lightgbm", "xgboost", "native", "auto"]

ENGINE_NAMES: tuple[EngineName, ...] = get_args(EngineName)
"""What users may call an engine."""

ENGINES: tuple[EngineName, ...] = ENGINE_NAMES[:-1]
"""The engines themselves, each a module of this package that defines ``ENGINE``: ``"auto"`` chooses one of them."""

DEFAULT_ENGINE: EngineName = "auto"

FEWEST_PEOPLE = 5_000
"""With fewer people, ``"auto"`` stays with LightGBM: a training takes a second or two there, and native kernels take
longer to compile when they are first needed."""

PACKAGES = ("lightgbm",)
EXTRA_PACKAGES = ("xgboost", "xgboost-cpu")
"""The packages that the engines come from; the native engine is pucboost itself. Either of the extra ones provides the
module ``xgboost``."""

XGBOOST_IS_MISSING = (
    "XGBoost is not installed: pip install 'pucboost[xgboost]', or 'pucboost[xgboost-cpu]' for the small build "
    "without GPUs."
)

BOOSTER_CLASSES = {"lightgbm.basic.Booster": "lightgbm", "xgboost.core.Booster": "xgboost"}
"""Class of a booster → its name in files; the module ``…_boosters`` of this package defines ``BOOSTERS`` for it."""


def engine_of_data(data: Any) -> EngineName | None:
    """Return the engine whose own data these are, and which is meant if none is named; None for any other table."""
    from .._tables.sources import is_matrix  # which loads numpy, and the help of the commands needs the names above

    return "xgboost" if is_matrix(data) else None


def loaded(module: str) -> Any:
    """Import a module of pucboost by its name there; if XGBoost is missing, say how it is installed."""
    try:
        return importlib.import_module(f"pucboost.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "xgboost":
            raise
        raise ModuleNotFoundError(XGBOOST_IS_MISSING, name="xgboost") from error


def installed_engines() -> tuple[EngineName, ...]:
    """Return the engines that can be used here: XGBoost's package is an extra."""
    return tuple(name for name in ENGINES if name != "xgboost" or importlib.util.find_spec(name) is not None)


def engine_named(name: Any) -> Engine:
    """Return an engine, loading it on first use; LightGBM for ``"auto"``, unless :func:`prepare` has chosen."""
    if name not in ENGINE_NAMES:
        raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINE_NAMES))}; got {name!r}.")
    module = "lightgbm" if name == "auto" else name
    engine: Engine = loaded(f"_engines.{module}").ENGINE
    return engine


def prepare(
    name: str, params: dict[str, Any], table: SourceTable, num_boost_round: int, asked: Mapping[str, Any]
) -> tuple[Engine, EngineParams]:
    """Return the engine that trains, and what it has read from the parameters (:meth:`.Engine.prepare`).

    ``"auto"`` is the native engine where something is optional, there are :data:`FEWEST_PEOPLE`, and it has all
    requested features and can tell the categories of the table apart; else LightGBM. Both take the same parameters and
    return the same boosters. The choice depends on the call alone, so the same call gives the same model anywhere.
    """
    given = (params, table.params, num_boost_round, asked)
    engine = engine_named(name)
    if name != "auto":
        return engine, engine.prepare(*given)
    if not asked.get("under_consent"):
        reason = "nothing is optional"
    elif table.source.n_rows < FEWEST_PEOPLE:
        reason = f"there are fewer than {FEWEST_PEOPLE:,} people"
    else:
        native = engine_named("native")
        try:
            prepared = native.prepare(*given)
        except (ValueError, TypeError) as error:
            reason = f"of {error}"
        else:
            objection = native.objection(table, prepared)
            if objection is None:
                logger.info("engine: %s", native.name)
                return native, prepared
            reason = objection
    logger.info("engine: %s, because %s", engine.name, reason)
    return engine, engine.prepare(*given)


def boosters_of(model: Any) -> Boosters:
    """Return the :class:`Boosters` of a booster's class; raise if the model is not a booster."""
    for base in type(model).__mro__:
        name = BOOSTER_CLASSES.get(_class_name(base))
        if name is not None:
            return boosters_named(name)
    raise TypeError(f"Cannot predict with a {type(model).__name__}; pass a booster returned by pucboost.train.")


def is_booster(model: Any) -> bool:
    """Return whether a model is a booster of any engine, without loading an engine."""
    return any(_class_name(base) in BOOSTER_CLASSES for base in type(model).__mro__)


def boosters_named(name: str) -> Boosters:
    boosters: Boosters = loaded(f"_engines.{name}_boosters").BOOSTERS
    return boosters


def boosters_that_wrote(content: bytes) -> Boosters:
    """Return the :class:`Boosters` that read a model file: XGBoost's are JSON or UBJSON, LightGBM's any other text."""
    return boosters_named("xgboost" if content.startswith(b"{") else "lightgbm")


def _class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"
