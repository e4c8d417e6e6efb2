"""What is audited: the people with their outcomes, the loss, and the model.

The loss fixes what "justified" means. For squared error, the logistic and the Poisson loss the justified prediction is
the conditional mean, and the identification function is V(f, y) = f − y. For the quantile loss at τ it is
V(f, y) = 1[y ≤ f] − τ. A prediction is justified for the condition x if E[V(f, Y) | x] = 0.

Consent is read from the model where it has a schema, also behind the steps of a pipeline or a search; else it must be
declared. Where it is declared and the way back through the steps is unknown, the wrapper is audited as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._common import Array
from .._consent import Consent, declares_something
from .._engines import boosters_of, is_booster
from .._losses import per_unit
from .._models.anchored import is_tree_model, trees_of
from .._models.files import model_hash, summary_of
from .._not_applicable import NotApplicable
from .._prediction.people import ConsentError, People, consent_within, pipeline_parts, read_people
from .._prediction.predictor import MaskedPredictor, predict_tables, subset_name
from .._prediction.sharing import without_loading
from .._tables.sources import (
    Categories,
    RowSource,
    SubsetSource,
    are_default_names,
    as_exposure,
    as_vector,
    check_no_mask,
    eager,
    rows_of,
)
from .findings import ALL_WITHHOLDING, RARER_SETS
from .settings import counted

MAX_SUBGROUPS = 200
RESERVED = ("nothing", "everything", "overall", "everybody", ALL_WITHHOLDING, RARER_SETS)

_LACKING = (
    "{} values in a group without one that it needs. These values count as withheld, and the model was not shown them. "
    "Does it see them in use?"
)


@dataclass(frozen=True)
class AuditPeople(People):
    """Held-out people: what they share, their outcomes, and what belongs together."""

    y: Array
    subgroups: Mapping[str, Array]
    cluster: Array | None
    """Number of the cluster of each row, where several rows belong together."""
    kept: Array | None = None
    """Numbers of the rows kept, if some had weight 0."""
    exposure: float | None = None
    """The sum of the exposures; None if outcomes do not add up over any. With one, ``y`` are rates per unit of it."""

    @property
    def everything(self) -> int:
        return (1 << self.consent.n_groups) - 1

    @cached_property
    def mask_counts(self) -> dict[int, int]:
        """Number of people who share exactly each set, most frequent first."""
        masks, counts = np.unique(self.shared, return_counts=True)
        order = np.lexsort((masks, -counts))
        return {int(masks[i]): int(counts[i]) for i in order}

    def name(self, mask: int) -> str:
        """Return the name of the people who share exactly ``mask``."""
        if mask == self.everything and mask != 0:
            return "everything"
        return subset_name(mask, self.consent)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr((self.source.feature_names, self.source.n_columns)).encode())
        for lo, hi in self.source.blocks():
            digest.update(np.ascontiguousarray(self.source.window(lo, hi), dtype=np.float64).tobytes())
        digest.update(self.y.tobytes())
        return digest.hexdigest()


def read_audit_people(
    X: Any,
    y: Any,
    *,
    consent: Consent | None = None,
    wrapper: Any = None,
    categories: Categories | None = None,
    optional: Any = None,
    not_applicable: NotApplicable = None,
    available: Any = None,
    weight: Any = None,
    exposure: Any = None,
    subgroups: Any = None,
    clusters: Any = None,
    zero_as_missing: bool = False,
    num_threads: int | None = None,
) -> tuple[AuditPeople, list[str]]:
    """Check everything given about people, and return it with warnings.

    What is optional comes from ``consent``, the schema of a booster, from the models inside a ``wrapper`` such as a
    pipeline, or from ``optional``, the user's declaration.
    """
    table = eager(X)
    people = read_people(
        table,
        lambda source: (
            _consent(consent, optional, source)
            if wrapper is None
            else _consent_of_wrapped(wrapper, table, optional, source)
        ),
        categories=categories,
        not_applicable=not_applicable,
        available=available,
        weight=weight,
        weight_name="weight",
        zero_as_missing=zero_as_missing,
        num_threads=num_threads,
    )
    for reserved in RESERVED:
        if reserved in people.consent.groups:
            raise ValueError(f"A consent group is called {reserved!r}, a name audits use themselves. Rename it.")
    n, weights = len(people), people.weight
    outcome = as_vector(y, "y", n, np.float64)
    bad = np.flatnonzero(~np.isfinite(outcome))
    if len(bad):
        raise ValueError(f"y is {outcome[bad[0]]} in row {bad[0]} ({len(bad)} such rows); it must be finite.")
    units = None if exposure is None else as_exposure(exposure, "exposure", n)
    if units is not None:
        outcome, weights = per_unit(outcome, weights, units)
    if not weights.any():
        raise ValueError("All weights are 0; nobody is left to audit.")
    members, cluster = read_subgroups(subgroups, n), read_clusters(clusters, n)
    lacking = people.consent.lacking(people.source, available, zero_as_missing=zero_as_missing, num_threads=num_threads)
    some = int(np.count_nonzero(lacking))
    notes = [_LACKING.format(counted(some, "person has", "people have"))] if some else []
    kept = None if weights.all() else np.flatnonzero(weights)

    def rows(values: Array) -> Array:
        return values if kept is None else values[kept]

    if kept is not None:
        notes.append(f"{counted(n - len(kept), 'row with weight 0 is', 'rows with weight 0 are')} left out.")
        # Numbered anew: a cluster nobody is left of would count among the units of standard errors and folds.
        cluster = None if cluster is None else read_clusters(cluster[kept], len(kept))
    audited = AuditPeople(
        container=people.container if kept is None else rows_of(people.container, kept),
        source=people.source if kept is None else SubsetSource(people.source, kept),
        consent=people.consent,
        shared=rows(people.shared),
        weight=rows(weights) / rows(weights).mean(),
        y=rows(outcome),
        subgroups={name: rows(flags) for name, flags in members.items()},
        cluster=cluster,
        kept=kept,
        exposure=None if units is None else float(rows(units).sum()),
    )
    return audited, notes


def _consent(known: Consent | None, optional: Any, source: RowSource) -> Consent:
    if known is not None:
        if declares_something(optional):
            declared = Consent.of(optional, source, source.feature_names or known.feature_names)
            if (declared.groups, declared.needs) != (known.groups, known.needs):
                raise _contradiction(declared, known)
        return known
    if not declares_something(optional):
        raise ValueError(
            "The model has no consent schema, so it is not known what is optional. Say so: optional=[columns] or "
            "optional={group: [columns]}."
        )
    return Consent.of(optional, source)


def _consent_of_wrapped(model: Any, table: Any, optional: Any, source: RowSource) -> Consent:
    """Return the schema of the models inside a model, in terms of the table, or what is declared where there is none.

    What is declared may name the groups in another way. It also stands where the schema cannot be followed back to the
    table: then the audit sees what becomes of silence on its way to the model.
    """
    if not declares_something(optional):
        return _consent(consent_within(model, table, source), None, source)
    declared = Consent.of(optional, source)
    try:
        known = consent_within(model, table, source)
    except ConsentError:
        return declared
    if known is not None and _by_columns(known) != _by_columns(declared):
        raise _contradiction(declared, known)
    return declared


def _by_columns(consent: Consent) -> set[tuple[frozenset[int], frozenset[int]]]:
    """Return each group and the one it needs by their columns, whatever they are called."""
    columns = {group: frozenset(positions) for group, positions in consent.groups.items()}
    nobody: frozenset[int] = frozenset()
    needed = {group: columns[consent.needs[group]] if group in consent.needs else nobody for group in columns}
    return {(own, needed[group]) for group, own in columns.items()}


def _contradiction(declared: Consent, known: Consent) -> ValueError:
    return ValueError(
        f"optional declares {declared!r}, but the model was trained under {known!r}. Leave optional out for a pucboost "
        "model."
    )


def outcome_of_class(model: Any, y: Any, target_class: Any) -> tuple[Any, int | None]:
    """Return y as 0 and 1 for the class to audit, and the number of the model's output that belongs to it.

    The classes of a scikit-learn classifier are its labels, those of other models 0, 1, …
    """
    check_no_mask(y, "y")
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


def read_subgroups(subgroups: Any, n: int) -> dict[str, Array]:
    """Return the members of each subgroup as flags, from a dict of flags or one label per row."""
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
        check_no_mask(members, f"Subgroup {name!r}")
        flags = np.asarray(members)
        if flags.shape != (n,) or (flags.dtype != np.bool_ and not np.isin(flags, (0, 1)).all()):
            raise ValueError(
                f"Subgroup {name!r} must hold True or False for each of the {n} rows, got dtype {flags.dtype} and "
                f"shape {flags.shape}."
            )
        if str(name) in read:
            raise ValueError(f"Two subgroups are called {str(name)!r}; rename one of them.")
        read[str(name)] = flags.astype(bool)
    return read


def read_clusters(clusters: Any, n: int) -> Array | None:
    if clusters is None:
        return None
    # Numbered as they appear: the folds must not depend on whether labels sort as numbers or as text.
    code, names = _read_labels(clusters, "clusters", n)
    if None in names:
        row = int(np.argmax(code == names.index(None)))
        raise ValueError(f"clusters has no label in row {row}; every row needs one.")
    return code


def _read_labels(values: Any, name: str, n: int) -> tuple[Array, list[Any]]:
    """Return labels as numbers in order of appearance, and the labels; a missing label is None."""
    import pandas as pd

    check_no_mask(values, name)
    labels = np.asarray(values)
    if labels.shape != (n,):
        raise ValueError(f"{name} must have one label for each of the {n} rows, got shape {labels.shape}.")
    code, found = pd.factorize(labels, use_na_sentinel=False)
    return np.asarray(code), [None if pd.isna(label) else label for label in found]


# --------------------------------------------------------------------------------------------------
# The loss.


LOSSES = ("squared", "binary", "poisson", "quantile")
_CLIP = 1e-9

_BY_OBJECTIVE = {
    "binary": "binary", "cross_entropy": "binary", "multiclass": "binary", "multiclassova": "binary",
    "poisson": "poisson", "tweedie": "poisson", "gamma": "poisson",
    "quantile": "quantile", "regression_l1": "quantile", "regression": "squared",
}  # fmt: skip


@dataclass(frozen=True)
class Loss:
    """One of :data:`LOSSES`; ``alpha`` is the level τ of a quantile."""

    name: str
    alpha: float = 0.5

    @property
    def is_mean(self) -> bool:
        return self.name != "quantile"

    @property
    def lightgbm_params(self) -> dict[str, Any]:
        if self.name == "quantile":
            return {"objective": "quantile", "alpha": self.alpha}
        # LightGBM's "binary" reads every positive label as 1; shares need the same loss under its other name.
        return {"objective": {"squared": "regression", "binary": "cross_entropy"}.get(self.name, self.name)}

    @property
    def title(self) -> str:
        return {
            "squared": "squared error",
            "binary": "log loss",
            "poisson": "Poisson deviance",
            "quantile": f"pinball loss at {self.alpha:g}",
        }[self.name]

    @property
    def unit_is_probability(self) -> bool:
        return self.name in ("binary", "quantile")

    @property
    def unit(self) -> str:
        return {
            "squared": "units of the prediction",
            "binary": "probability",
            "poisson": "units of the prediction",
            "quantile": f"probability of lying below the quoted {self.alpha:g} quantile",
        }[self.name]

    def describe(self, amount: float) -> str:
        return f"{amount:.4g}" if not self.unit_is_probability else f"{100 * amount:.2f} percentage points"

    def pointwise(self, f: Array, y: Array) -> Array:
        if self.name == "squared":
            return np.asarray((f - y) ** 2)
        if self.name == "binary":
            p = np.clip(f, _CLIP, 1 - _CLIP)
            return np.asarray(-(y * np.log(p) + (1 - y) * np.log1p(-p)))
        if self.name == "poisson":
            rate = np.maximum(f, _CLIP)
            ratio = np.where(y > 0, y, 1.0) / rate
            return np.asarray(2 * (np.where(y > 0, y * np.log(ratio), 0.0) - (y - rate)))
        return np.asarray((y - f) * (self.alpha - (y < f)))

    def check(self, f: Array, y: Array) -> None:
        if self.name == "binary":
            if np.unique(y).size == 1:
                raise ValueError(f"Every outcome is {y[0]:g}: with only one class there is nothing to audit.")
            _refuse((y < 0) | (y > 1), y, "y", "loss='binary' needs outcomes between 0 and 1")
            _refuse(
                (f < 0) | (f > 1),
                f,
                "The model's prediction",
                "loss='binary' needs probabilities; pass a model that returns them, not raw scores",
            )
        if self.name == "poisson":
            _refuse(y < 0, y, "y", "loss='poisson' needs outcomes that are not negative")
            _refuse(f < 0, f, "The model's prediction", "loss='poisson' needs predictions that are not negative")


def _refuse(wrong: Array, values: Array, what: str, why: str) -> None:
    bad = np.flatnonzero(wrong)
    if len(bad):
        raise ValueError(f"{what} is {values[bad[0]]:g} in row {bad[0]}; {why}.")


def choose_loss(loss: str, alpha: float | None, model: Any, y: Array) -> Loss:
    """Return the requested loss; ``"auto"`` reads it from a booster's objective, else from the outcomes."""
    if loss != "auto":
        if loss not in LOSSES:
            raise ValueError(f"loss must be 'auto' or one of {', '.join(map(repr, LOSSES))}; got {loss!r}.")
        if loss == "quantile" and alpha is None:
            raise ValueError("loss='quantile' needs alpha, the level of the quantile, for example alpha=0.9.")
        return Loss(loss, _level(alpha))
    objective, own_alpha = _objective_of(model)
    name = _BY_OBJECTIVE.get(objective or "")
    if name is None:
        # If all outcomes are 0 or 1 they are events, whatever the estimator is called.
        name = "binary" if np.isin(y, (0, 1)).all() else "squared"
    return Loss(name, _level(alpha if alpha is not None else own_alpha))


def _level(alpha: float | None) -> float:
    if alpha is None:
        return 0.5
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha!r}.")
    return float(alpha)


def booster_within(model: Any) -> Any:
    """Return the booster whose predictions a model passes on unchanged, else the model itself.

    That of an anchored model, of an estimator, and of the last step of a pipeline or the best model of a search.
    """
    if is_tree_model(model):
        return trees_of(model)
    if is_tree_model(getattr(model, "booster_", None)):
        return trees_of(model.booster_)
    pipeline = pipeline_parts(model)
    inner = getattr(model, "best_estimator_", None) if pipeline is None else pipeline[1]
    if inner is not None:
        return booster_within(inner)
    return model.get_booster() if hasattr(model, "get_booster") else model


def reads_zero_as_missing(model: Any) -> bool:
    """Return whether zeros in the table are missing values to a booster, or to that of an estimator."""
    booster = model if is_booster(model) else getattr(model, "booster_", None)
    return is_booster(booster) and boosters_of(booster).facts(booster).zero_as_missing


def _objective_of(model: Any) -> tuple[str | None, float | None]:
    trees = booster_within(model)
    if not is_booster(trees):
        return None, None
    facts = boosters_of(trees).facts(trees)
    levels = facts.quantile_levels
    if len(levels) > 1:
        raise ValueError(
            f"The model predicts {len(levels)} quantiles at once; audit a function that returns one of them."
        )
    return facts.loss, levels[0] if levels else None


# --------------------------------------------------------------------------------------------------
# The model.


class AuditedModel:
    """A model of any kind behind one interface: predictions with all but some groups erased.

    Parameters
    ----------
    model
        A booster of any engine, an :class:`AnchoredModel`, a scikit-learn estimator, or a callable from a table to
        predictions.
    people
        The people. A model that is not a booster is given their table in the user's own container.
    target_class
        Which class of a classifier with several.
    cap
        Predictions above it count as it.
    """

    def __init__(
        self,
        model: Any,
        people: AuditPeople,
        target_class: int | None,
        num_threads: int | None,
        cap: float | None = None,
    ) -> None:
        self._people, self._target, self._cap = people, target_class, cap
        self._predictor: MaskedPredictor | None = None
        if is_tree_model(model):
            _check_booster_columns(model, people.source)
            self._predictor = MaskedPredictor(
                model, people.source, num_threads=num_threads, consent=people.consent, container=people.container
            )
            self.kind = type(model).__module__.split(".")[0] + " " + type(model).__name__
        else:
            self._call, self.kind = _callable_of(model)
        self.fingerprint = model_hash(model)
        self._booster, self.loading = _loading_of(model)
        self.given = self._checked(self._as_given(), len(people))

    def _as_given(self) -> Any:
        if self._predictor is not None:
            return self._predictor.everybody(self._people.shared)
        if hasattr(self._people.container, "tocsr") and not np.array_equal(
            self._people.consent.availability(self._people.source), self._people.shared
        ):
            raise ValueError(
                "In a sparse table withheld values are zeros to a model that is not a booster. Pass a dense table "
                "with NaN."
            )
        lacking = self._people.consent.lacking(self._people.source)
        if not lacking.any():
            return self._predict(np.arange(len(self._people)), self._people.everything)
        # Values without what they need count as withheld, so the model is not shown them.
        sets = [(self._people.everything, np.flatnonzero(lacking == 0))]
        sets += [
            (mask, np.flatnonzero((lacking != 0) & (self._people.shared == np.uint64(mask))))
            for mask in np.unique(self._people.shared[lacking != 0]).tolist()
        ]
        predicted = [self._predict(rows, mask) for mask, rows in sets if len(rows)]
        order = np.concatenate([rows for _, rows in sets])
        return np.concatenate(predicted)[np.argsort(order)]

    def _predict(self, rows: Array, mask: int) -> Array:
        return predict_tables(self._call, self._people.container, rows, self._people.consent, mask)

    def masked(self, rows: Array, mask: int) -> Array:
        """Predict some people with every group outside ``mask`` erased."""
        if len(rows) == 0:
            return np.empty(0)
        if self._predictor is not None:
            return self._checked(self._predictor.people(rows, mask), len(rows))
        return self._checked(self._predict(rows, mask), len(rows))

    def subsets(self, rows: Array, masks: Array) -> Iterator[tuple[Array, Array]] | None:
        """Return batches of rows with their predictions for each mask (rows × masks), if trees give them at once.

        None means that one mask at a time is faster.
        """
        if self._predictor is None or not self._predictor.reads_trees(len(rows), len(masks)):
            return None
        return self._checked_subsets(self._predictor.subsets(rows, masks))

    def _checked_subsets(self, batches: Iterator[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
        for some, values in batches:
            n, n_masks = values.shape[:2]
            flat = self._checked(values.reshape(n * n_masks, *values.shape[2:]), n * n_masks)
            yield some, flat.reshape(n, n_masks)

    def _checked(self, prediction: Any, n: int) -> Array:
        array = np.asarray(prediction, dtype=np.float64)
        # Of two classes, what is added to the log-odds of one is taken from those of the other.
        sign = -1.0 if array.ndim == 2 and array.shape[1] == 2 and self._target == 0 else 1.0
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
        array = without_loading(array, self._booster, sign * self.loading) if self.loading else array
        return array if self._cap is None else np.minimum(array, self._cap)


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
    facts = boosters_of(trees).facts(trees)
    names = facts.column_names
    if facts.n_columns != source.n_columns:
        raise ValueError(
            f"The model was trained on {facts.n_columns} columns, the table has {source.n_columns} columns."
        )
    if source.feature_names is not None and names is not None and not are_default_names(names):
        for j, (here, there) in enumerate(zip(source.feature_names, names, strict=True)):
            if here.replace(" ", "_") != there.replace(" ", "_"):  # LightGBM keeps names without spaces
                raise ValueError(
                    f"Column {j} is {here!r}, the model expects {there!r} there. Select the columns in the order used "
                    "for training."
                )


def _loading_of(model: Any) -> tuple[Any, float]:
    """Return the booster whose predictions a model passes on, and its loading (``load_to_balance``), taken out."""
    booster = booster_within(model)
    summary = summary_of(booster) if is_booster(booster) else None
    return booster, 0.0 if summary is None else summary.loading
