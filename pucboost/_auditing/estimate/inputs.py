"""What is audited: people, and a model of any kind."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._consent import Consent, declares_something
from ..._engines import boosters_of, is_booster
from ..._models.anchored import AnchoredModel, is_tree_model, trees_of
from ..._models.files import consent_of
from ..._models.schema import categories_of
from ..._prediction.predictor import MaskedPredictor, predict_tables
from ..._prediction.subsets import subset_name
from ..._tables.containers import as_vector, as_weight, eager, row_source, rows_of
from ..._tables.sources import Categories, RowSource, SubsetSource, are_default_names

MAX_SUBGROUPS = 200
RESERVED = ("nothing", "everything", "overall", "everybody")


@dataclass(frozen=True)
class People:
    """Held-out people: features as numbers, outcomes, weights, and who shares what."""

    source: RowSource
    consent: Consent
    shared: Array
    """Mask of the groups each person shares (uint64)."""
    y: Array
    weight: Array
    subgroups: Mapping[str, Array]
    cluster: Array | None
    """Number of the cluster of each row, where several rows belong together."""
    container: Any
    """The user's own table."""
    kept: Array | None = None
    """Numbers of the rows that are left, if some had no weight."""

    def __len__(self) -> int:
        return len(self.y)

    @property
    def everything(self) -> int:
        """The mask of all groups."""
        return (1 << self.consent.n_groups) - 1

    def at_least(self, mask: int) -> Array:
        """Return the numbers of the people who share at least the groups of ``mask``."""
        m = np.uint64(mask)
        return np.flatnonzero((self.shared & m) == m)

    @cached_property
    def mask_counts(self) -> dict[int, int]:
        """How many people share exactly each set that occurs, most frequent first."""
        masks, counts = np.unique(self.shared, return_counts=True)
        order = np.lexsort((masks, -counts))
        return {int(masks[i]): int(counts[i]) for i in order}

    def name(self, mask: int) -> str:
        """Return how people who share exactly ``mask`` are called."""
        if mask == self.everything and mask != 0:
            return "everything"
        return subset_name(mask, self.consent)

    def fingerprint(self) -> str:
        """Return a hash of features and outcomes."""
        digest = hashlib.sha256(repr((self.source.feature_names, self.source.n_columns)).encode())
        for lo, hi in self.source.blocks():
            digest.update(np.ascontiguousarray(self.source.window(lo, hi), dtype=np.float64).tobytes())
        digest.update(self.y.tobytes())
        return digest.hexdigest()


def read_people(
    X: Any,
    y: Any,
    *,
    consent: Consent | None = None,
    categories: Categories | None = None,
    optional: Any = None,
    available: Any = None,
    weight: Any = None,
    exposure: Any = None,
    subgroups: Any = None,
    clusters: Any = None,
    zero_as_missing: bool = False,
    num_threads: int | None = None,
) -> tuple[People, list[str]]:
    """Check everything given about people, and return it with warnings."""
    X = eager(X)
    source = row_source(X, categories)
    n = source.n_rows
    names = source.feature_names or (list(consent.feature_names) if consent else source.names)
    consent = _consent(consent, optional, names, source)
    _check_names(consent)
    outcome = as_vector(y, "y", n, np.float64)
    _check_finite(outcome, "y")
    weights = np.ones(n) if weight is None else as_weight(weight, "weight", n)
    if exposure is not None:
        units = as_weight(exposure, "exposure", n)
        if (units == 0).any():
            raise ValueError(f"exposure is 0 in row {int(np.argmin(units))}; drop rows without exposure.")
        # A count over an exposure is a rate that weighs as much as its exposure.
        outcome, weights = outcome / units, weights * units
    shared = consent.visible(source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
    notes: list[str] = []
    members, cluster = _read_subgroups(subgroups, n), _read_clusters(clusters, n)
    if not weights.any():
        raise ValueError("All weights are 0; nobody is left to audit.")
    keep = None
    if not weights.all():
        keep = np.flatnonzero(weights)
        notes.append(f"{n - len(keep):,} rows with weight 0 are left out.")
        X, source = rows_of(X, keep), SubsetSource(source, keep)
        outcome, weights, shared = outcome[keep], weights[keep], shared[keep]
        members = {name: flags[keep] for name, flags in members.items()}
        cluster = None if cluster is None else cluster[keep]
    return People(source, consent, shared, outcome, weights / weights.mean(), members, cluster, X, keep), notes


def _consent(known: Consent | None, optional: Any, names: list[str], source: RowSource) -> Consent:
    if known is not None:
        if declares_something(optional):
            declared = Consent.of(optional, source, names)
            if declared.groups != known.groups:
                raise ValueError(
                    f"optional declares {declared!r}, but the model was trained under {known!r}. Leave optional out "
                    "for a pucboost model."
                )
        known.check_table(source)
        return known
    if not declares_something(optional):
        raise ValueError(
            "The model has no consent schema, so it is not known what is optional. Say so: optional=[columns] or "
            "optional={group: [columns]}."
        )
    return Consent.of(optional, source, names)


def _check_names(consent: Consent) -> None:
    for reserved in RESERVED:
        if reserved in consent.groups:
            raise ValueError(f"A consent group is called {reserved!r}, which an audit calls something else. Rename it.")


def _read_subgroups(subgroups: Any, n: int) -> dict[str, Array]:
    if subgroups is None:
        return {}
    if not isinstance(subgroups, Mapping):
        code, names = _read_labels(subgroups, "subgroups", n)
        if len(names) > MAX_SUBGROUPS:
            raise ValueError(f"subgroups has {len(names)} labels; at most {MAX_SUBGROUPS} can be judged separately.")
        labelled = {("missing" if name is None else str(name)): code == k for k, name in enumerate(names)}
        if len(labelled) < len(names):
            raise ValueError("subgroups has labels of different kinds that read the same, such as 3 and '3'.")
        return labelled
    read: dict[str, Array] = {}
    for name, members in subgroups.items():
        flags = np.asarray(members)
        if flags.shape != (n,) or (flags.dtype != np.bool_ and not np.isin(flags, (0, 1)).all()):
            raise ValueError(
                f"Subgroup {name!r} must say True or False for each of the {n} rows, got dtype {flags.dtype} and "
                f"shape {flags.shape}."
            )
        if str(name) in read:
            raise ValueError(f"Two subgroups are called {str(name)!r}; rename one of them.")
        read[str(name)] = flags.astype(bool)
    return read


def _read_clusters(clusters: Any, n: int) -> Array | None:
    if clusters is None:
        return None
    # Numbered as they appear: how labels sort, as numbers or as text, must not change the folds.
    code, names = _read_labels(clusters, "clusters", n)
    if None in names:
        row = int(np.argmax(code == names.index(None)))
        raise ValueError(f"clusters has no label in row {row}; every row needs to say where it belongs.")
    return code


def _read_labels(values: Any, name: str, n: int) -> tuple[Array, list[Any]]:
    """Return labels as numbers in order of appearance, and the labels; missing ones are None."""
    import pandas as pd

    labels = np.asarray(values)
    if labels.shape != (n,):
        raise ValueError(f"{name} must have one label for each of the {n} rows, got shape {labels.shape}.")
    code, found = pd.factorize(labels, use_na_sentinel=False)
    return np.asarray(code), [None if pd.isna(label) else label for label in found]


def _check_finite(values: Array, name: str) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(f"{name} is {values[bad[0]]} in row {bad[0]} ({len(bad)} such rows); it must be finite.")


class AuditedModel:
    """A model of any kind, asked for predictions with all but some groups erased.

    Parameters
    ----------
    model
        A booster of either engine, an :class:`AnchoredModel`, a scikit-learn estimator, or a callable from a table to
        predictions.
    people
        The people. A model that is not a booster is given their table in the user's own container.
    target_class
        Which class of a classifier with several.
    """

    def __init__(self, model: Any, people: People, target_class: int | None, num_threads: int | None) -> None:
        self._people, self._target = people, target_class
        self._predictor: MaskedPredictor | None = None
        if is_tree_model(model):
            _check_booster_columns(model, people.source)
            self._predictor = MaskedPredictor(model, people.source, num_threads=num_threads, consent=people.consent)
            self.kind = type(model).__module__.split(".")[0] + " " + type(model).__name__
        else:
            self._call, self.kind = _callable_of(model)
        self.fingerprint = _model_hash(model)
        self.given = self._checked(self._as_given(), len(people))

    def _as_given(self) -> Any:
        if self._predictor is not None:
            return self._predictor.everybody(self._people.shared)
        if hasattr(self._people.container, "tocsr") and not np.array_equal(
            self._people.consent.presence(self._people.source), self._people.shared
        ):
            raise ValueError(
                "In a sparse table withheld values are zeros to a model that is not a booster. Pass a dense table "
                "with NaN."
            )
        return self._ask(np.arange(len(self._people)), self._people.everything)

    def _ask(self, rows: Array, mask: int) -> Array:
        return predict_tables(self._call, self._people.container, rows, self._people.consent, mask)

    def masked(self, rows: Array, mask: int) -> Array:
        """Predict some people with every group outside ``mask`` erased."""
        if len(rows) == 0:
            return np.empty(0)
        if self._predictor is not None:
            return self._checked(self._predictor.people(rows, mask), len(rows))
        return self._checked(self._ask(rows, mask), len(rows))

    def _checked(self, prediction: Any, n: int) -> Array:
        array = np.asarray(prediction, dtype=np.float64)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim == 2 and len(array) == n:
            if self._target is None:
                raise ValueError(
                    f"The model returns {array.shape[1]} values per row. Say which class to audit with target_class=0 "
                    f"… {array.shape[1] - 1}."
                )
            if not 0 <= self._target < array.shape[1]:
                raise ValueError(f"target_class is {self._target}, but the model has classes 0 … {array.shape[1] - 1}.")
            array = array[:, self._target]
        elif self._target not in (None, 1):
            raise ValueError(
                f"target_class is {self._target}, but the model returns one value per row, that of class 1. Leave it "
                "out."
            )
        if array.shape != (n,):
            raise ValueError(f"The model returned shape {array.shape} for {n} rows; one prediction per row is needed.")
        bad = np.flatnonzero(~np.isfinite(array))
        if len(bad):
            raise ValueError(f"The model's prediction is {array[bad[0]]} in row {bad[0]} ({len(bad)} such rows).")
        return array


def _callable_of(model: Any) -> tuple[Callable[[Any], Any], str]:
    name = f"{type(model).__module__.split('.')[0]} {type(model).__name__}"
    if hasattr(model, "predict_proba"):
        return model.predict_proba, name
    if hasattr(model, "predict"):
        return model.predict, name
    if callable(model):
        return model, f"callable {getattr(model, '__name__', type(model).__name__)}"
    raise TypeError(
        f"Cannot audit a {type(model).__name__}; pass a booster, an estimator with predict, or a callable that takes a "
        "table and returns predictions."
    )


def _check_booster_columns(model: Any, source: RowSource) -> None:
    """Raise if a plain booster was trained on other columns, or on the same in another order."""
    trees = trees_of(model)
    names, count = boosters_of(trees).columns(trees)
    if count != source.n_columns:
        raise ValueError(f"The model was trained on {count} columns, the table has {source.n_columns} columns.")
    if source.feature_names is not None and names is not None and not are_default_names(names):
        for j, (here, there) in enumerate(zip(source.feature_names, names, strict=True)):
            if here.replace(" ", "_") != there.replace(" ", "_"):  # LightGBM keeps names without spaces
                raise ValueError(
                    f"Column {j} is {here!r}, the model expects {there!r} there. Select the columns in the order used "
                    "for training."
                )


def outcome_of_class(model: Any, y: Any, target_class: Any) -> tuple[Any, int | None]:
    """Return y as 0 and 1 for the class to audit, and the number of the model's output that belongs to it.

    The classes of a scikit-learn classifier are its labels, those of other models 0, 1, …
    """
    classes = getattr(model, "classes_", None)
    if classes is None or is_booster(model):
        if target_class is None:
            return y, None
        return np.asarray(y) == target_class, int(target_class)
    labels = np.asarray(classes).tolist()
    if target_class is None:
        if len(labels) != 2:
            raise ValueError(f"The model returns {len(labels)} values per row. Say which class to audit: {labels}.")
        target_class = labels[1]
    if target_class not in labels:
        raise ValueError(f"target_class is {target_class!r}, but the classes of the model are {labels}.")
    given = np.asarray(y)
    strange = np.flatnonzero(~np.isin(given, np.asarray(classes)))
    if len(strange):
        raise ValueError(
            f"y is {given[strange[0]]!r} in row {strange[0]}, which is none of the classes of the model: {labels}."
        )
    return (given == target_class).astype(np.float64), labels.index(target_class)


def _model_hash(model: Any) -> str | None:
    if isinstance(model, AnchoredModel):
        parts = [_model_hash(model.anchor.model), _model_hash(model.booster)]
        return None if None in parts else hashlib.sha256("".join(map(str, parts)).encode()).hexdigest()
    if is_booster(model):
        return hashlib.sha256(boosters_of(model).to_text(model).encode()).hexdigest()
    import pickle

    try:
        return hashlib.sha256(pickle.dumps(model)).hexdigest()
    except Exception:  # a callable may hold anything; its hash is then unknown
        return None


def consent_and_categories(model: Any) -> tuple[Consent | None, Categories | None]:
    """Return what a booster knows of its training table."""
    return (consent_of(model), categories_of(model)) if is_tree_model(model) else (None, None)
