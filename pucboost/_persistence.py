"""What lasts longer than a process: pickles, digests of model files, and JSON that others may have changed.

**Pickles outlive the layout of the package.** Python's pickles name the module and class of every object, so that a
model that was pickled yesterday does not load after a module has moved. What may be part of a pickled model reduces
itself to ``restore(name, version, state)`` instead. Once a version is released, this module must not be moved or
renamed, and neither must the names in :data:`HOMES`.

**Digests find damage**: a file that was cut off, converted or changed in a bit, which would stop the process inside an
engine, or change predictions without a word. They are no signatures: whoever changes a file on purpose can write a new
one.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from . import __version__
from ._common import warn
from .warnings import PickledByAnotherVersionWarning

HOMES = {
    "AnchorQuestion": "_models.anchors",
    "AnchoredModel": "_models.anchored",
    "BoosterAnchor": "_models.anchors",
    "CallableAnchor": "_models.anchors",
    "Categories": "_tables.sources",
    "Consent": "_consent",
    "EstimatorAnchor": "_models.anchors",
    "Levels": "_consent",
    "LightGBMBooster": "_engines.lightgbm_boosters:ProtectedBooster",
    "Needs": "_consent",
    "PUCClassifier": "_estimators.estimators",
    "PUCRegressor": "_estimators.estimators",
    "RowSketch": "_virtual.merging",
    "TrainingSummary": "_models.schema",
    "XGBoostBooster": "_engines.xgboost_boosters:ProtectedBooster",
    **dict.fromkeys(("Gamma", "Logistic", "Poisson", "Quantile", "Softmax", "SquaredError", "Tweedie"), "_losses"),
}
"""What a pickle calls a class → where it is today, with its name there if that differs."""


def is_ours(model: Any) -> bool:
    """Return whether an object is of one of our classes, and not of one that a user has derived from it."""
    kind = type(model)
    return kind.__name__ in HOMES and kind.__module__.partition(".")[0] == __package__


def pickled(name: str, state: Any) -> tuple[Any, ...]:
    """Return what ``__reduce__`` returns for an object that is one of :data:`HOMES`."""
    return restore, (name, __version__, state)


def restore(name: str, version: str, state: dict[str, Any]) -> Any:
    """Return the object with this name in :data:`HOMES` that this version of pucboost pickled, from its attributes."""
    if version != __version__:
        warn_of_other_version(version)
    if name not in HOMES:
        raise ValueError(
            f"This was pickled by pucboost {version} as a {name!r}, which pucboost {__version__} does not know. Load "
            f"it with pucboost {version} and write it with pucboost.save_model."
        )
    module, _, inner = HOMES[name].partition(":")
    loaded = importlib.import_module("._engines", __package__).loaded  # which says how a missing engine is installed
    kind = getattr(loaded(module), inner or name)
    new = kind.__new__(kind)
    if hasattr(new, "__setstate__"):
        new.__setstate__(dict(state))
    else:
        new.__dict__.update(state)
    return new


@cache
def warn_of_other_version(version: str) -> None:
    """Warn once in a process about models that another version has pickled."""
    warn(
        f"A model was pickled by pucboost {version}, and this is pucboost {__version__}: it may not load, or not mean "
        "the same. Write models that are to last with pucboost.save_model.",
        PickledByAnotherVersionWarning,
    )


KEY = "pucboost_digest"
"""What digests are called in files. The engines read past it, and leave it out where they write a model themselves: a
model that an engine has written again has no digest rather than a wrong one. So it does not stand in the schema, which
engines carry along."""


class DamagedFileError(ValueError):
    """A file is not as it was written. Says what is wrong; who reads the file says which one it is."""


def digest(content: bytes) -> str:
    """Return the SHA-256 of the content of a file without its digest, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def check_digest(found: str, content: bytes) -> None:
    """Raise if the content of a file, without its digest, is not what the digest was made of."""
    if found != digest(content):
        raise DamagedFileError(
            "its content is not what was written (the digest differs). Copy it again, as a binary file. If it was "
            "changed on purpose, load it with the engine itself and write it with pucboost.save_model"
        )


def sealed(kept: Mapping[str, Any], **how: Any) -> str:
    """Return data as JSON with the digest of what they say; ``how`` goes to ``json.dumps``."""
    content = json.dumps(kept, **how)
    seal = json.dumps({KEY: digest(content.encode())})
    return f"{content[:-1]}, {seal[1:]}"


def unsealed(text: str | bytes) -> dict[str, Any]:
    """Return the data that :func:`sealed` wrote; raise if they are damaged."""
    kept = entries(text)
    found = kept.pop(KEY, None)
    if found != digest(json.dumps(kept).encode()):
        wrong = "its digest is missing" if found is None else "its content is not what was written (the digest differs)"
        raise DamagedFileError(f"{wrong}. Copy it again, as a binary file")
    return kept


class NotValidError(ValueError):
    """Plain data are not what they should be. Says what is wrong; who reads a file says in which."""


def entries(text: str | bytes) -> dict[str, Any]:
    """Return a JSON object; raise if it is none, or if one in it has a key twice, of which Python would drop one.

    Examples
    --------
    >>> entries('{"app": [1]}')
    {'app': [1]}
    >>> entries('{"app": [1], "app": [2]}')
    Traceback (most recent call last):
    pucboost._persistence.NotValidError: the key 'app' stands twice
    """
    try:
        found = json.loads(text, object_pairs_hook=_keys_once)
    except NotValidError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotValidError(f"it is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise NotValidError(f"it is {found!r:.60}, not a set of named entries")
    return found


def _keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise NotValidError(f"the key {key!r} stands twice")
        found[key] = value
    return found
