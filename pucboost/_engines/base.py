"""The interface of an engine: :class:`Engine` trains on virtual rows, :class:`Boosters` predicts and handles files.

They are separate because two engines may return boosters of the same class: the native engine returns LightGBM's.
Nothing outside this package depends on which engine it deals with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from .._common import Array
from .._losses import Objective
from .._tables.sources import Categories, SourceTable
from .._virtual.rows import VirtualTable
from .trees import Forest, MaskTree

Validation: TypeAlias = Sequence[tuple[VirtualTable | None, str]]
"""Validation sets with their names; None stands for the training set."""

FoldBuilder: TypeAlias = Callable[[int, dict[str, Any]], tuple[VirtualTable, VirtualTable, dict[str, Any]]]
"""Takes the number of a fold and the parameters; returns the fold's training table, held-out table and parameters."""


@dataclass(frozen=True)
class RunOptions:
    """What pucboost itself reads from an engine's parameters."""

    seed: int = 0
    num_threads: int | None = None
    zero_as_missing: bool = False
    n_classes: int = 1


@dataclass(frozen=True)
class EarlyStopping:
    """Early stopping, as described by LightGBM's parameters."""

    rounds: int
    min_delta: float = 0.0
    first_metric_only: bool = False


@dataclass(frozen=True)
class EngineParams:
    """All that an engine reads from the parameters: under its own names, and what it takes in other ways."""

    values: dict[str, Any]
    num_boost_round: int
    row_bytes: int
    column_bytes: int
    """How much the peak of memory grows with each virtual row, and with each of its columns.

    These are slopes, measured at two copies per person, of everything but the user's table: what the engine keeps,
    labels and weights on their way to it, the plan. What does not grow (a sample for bins, buffers) is left out, and
    mapped files do not count. ``tests/training/test_estimated_memory.py`` compares them with what a training takes.
    """
    leaner: tuple[dict[str, Any], int] | None = None
    """Further parameters for the same model, but for rounding, in less memory, and the ``column_bytes`` they need."""
    stopping: EarlyStopping | None = None
    external_memory: Path | None = None
    """A folder for what the engine keeps of virtual rows; None to keep it in memory."""
    options: RunOptions = RunOptions()
    objective: Objective | None = None
    """The loss in closed form; None for a callable, or a loss that has none here."""
    silence_first: bool = False
    """Whether some trees begin with what is missing of optional columns."""
    needs_events: bool = False
    """Whether the engine fails if a worker has no label above 0."""

    def bytes_per_virtual_row(self, n_columns: int) -> int:
        return self.row_bytes + self.column_bytes * n_columns

    def in_less_memory(self) -> EngineParams:
        if self.leaner is None:
            return self
        further, column_bytes = self.leaner
        return replace(self, values={**self.values, **further}, column_bytes=column_bytes, leaner=None)


@dataclass(frozen=True)
class Output:
    """What trees return for each row, named as the arguments of ``lgb.Booster.predict``."""

    raw_score: bool = False
    start_iteration: int = 0
    num_iteration: int | None = None
    pred_leaf: bool = False
    pred_contrib: bool = False

    def __post_init__(self) -> None:
        if self.pred_leaf and self.pred_contrib:
            raise ValueError("pred_leaf and pred_contrib are different outputs. Ask for one of them.")

    @property
    def is_plain(self) -> bool:
        """Whether these are predictions, raw or not, of all rounds that predictions use."""
        return replace(self, raw_score=False) == Output()

    def rounds(self, best: int | None, trained: int) -> tuple[int, int]:
        """Return the first round and the end, read as LightGBM does; ``best`` is what early stopping has found."""
        first = max(self.start_iteration, 0)
        wanted = (best or 0) if self.num_iteration is None and not first else self.num_iteration or 0
        return first, min(first + wanted, trained) if wanted > 0 else trained


@dataclass(frozen=True)
class BoosterFacts:
    """What a booster was trained on and for."""

    n_columns: int
    column_names: list[str] | None
    """None if the booster has none."""
    rounds: int
    best_round: int | None
    """Number of rounds that predicted best, counted from 1; None without early stopping."""
    n_trees: int
    """One per round and class, or more in a forest."""
    loss: str | None
    """LightGBM's main name, or the engine's own where LightGBM has none; None for a callable."""
    quantile_levels: tuple[float, ...] = ()
    zero_as_missing: bool = False

    @property
    def used_rounds(self) -> int:
        """How many rounds predictions use."""
        return self.best_round or self.rounds


@dataclass(frozen=True)
class OwnGradient:
    """A custom objective from pucboost, trained as if it were built into the engine.

    ``gradient(scores, data)`` returns gradient and hessian; ``data`` has ``get_label()`` and ``get_weight()``.
    """

    gradient: Callable[[Array, Any], tuple[Array, Array]]
    objective: Objective
    """The built-in loss it stands for, which defines start and link."""
    start: float | Array
    """The initial score, a number or one per class."""
    builtin_params: dict[str, Any] = field(default_factory=dict)
    """Parameters that name the built-in loss, for an engine that needs them as well."""

    def __call__(self, scores: Array, data: Any) -> tuple[Array, Array]:
        return self.gradient(scores, data)


@dataclass(frozen=True)
class Checkpoints:
    """Who gets a copy of the model and its number of rounds, and after how many rounds each time."""

    keep: Callable[[Any, int], None]
    every: int


@dataclass(frozen=True)
class Hooks:
    """What users hand to a training besides data and parameters, as in ``lgb.train``."""

    feval: Any = None
    callbacks: Any = None
    init_model: Any = None
    keep_training_booster: bool = False
    checkpoints: Checkpoints | None = None


NO_HOOKS = Hooks()


@dataclass(frozen=True)
class Call:
    """The arguments of ``train`` that the engines name differently."""

    params: dict[str, Any]
    valid_sets: Any
    valid_names: Any
    hooks: Hooks


INSTEAD_OF_XGBOOSTS = {
    "evals": "valid_sets and valid_names",
    "obj": "a function as the objective in params",
    "custom_metric": "feval",
    "maximize": "feval, which returns whether higher is better",
    "early_stopping_rounds": "early_stopping_round in params",
    "evals_result": "the callback lgb.record_evaluation",
    "verbose_eval": "the callback lgb.log_evaluation",
    "xgb_model": "init_model",
}
"""Arguments that only ``xgb.train`` has → what other engines have in their place."""
NOTHING_ELSE: Mapping[str, Any] = {}


@dataclass(frozen=True)
class FoldOptions:
    """What users hand to a cross-validation besides data and parameters, as in ``lgb.cv``."""

    metrics: Any = None
    feval: Any = None
    init_model: Any = None
    callbacks: Any = None
    eval_train_metric: bool = False
    return_cvbooster: bool = False


def described(booster: Any, rounds: int) -> str:
    """Return the repr of a protected booster: consent, engine and rounds, as far as it keeps them."""
    consent, summary = getattr(booster, "consent", None), getattr(booster, "puc_summary", None)
    if consent is None or summary is None:
        return object.__repr__(booster)
    package, engine = type(booster).__module__.partition(".")[0], summary.engine or "an engine that is not known"
    return f"<{package}.Booster: {rounds} rounds, grown by {engine}, {consent!r}>"


class Boosters(ABC):
    """Predictions, facts and files of boosters of one class."""

    name: ClassVar[str]
    """Name of the class in files that hold several boosters."""
    space: ClassVar[str] = " "
    """What the engine writes for a space in a column name."""

    @abstractmethod
    def facts(self, booster: Any) -> BoosterFacts:
        """Return what a booster was trained on and for."""

    @abstractmethod
    def categories(self, booster: Any, columns: tuple[int, ...] | None) -> Categories | None:
        """Return the categories of the training table; None if it is unknown whether there are any.

        ``columns`` are their positions, if the model's summary holds them.
        """

    @abstractmethod
    def importance(self, booster: Any, kind: Literal["gain", "split"]) -> Array:
        """Return the total gain (float64) or the number (int64) of the splits on each column."""

    # ----- predictions

    @abstractmethod
    def predict(self, booster: Any, rows: Array, *, raw_score: bool, best_rounds: bool = True) -> Array:
        """Return predictions for a matrix of numbers and category codes, using the rounds up to the best one.

        Without ``best_rounds``, use the rounds that the booster's own ``predict`` uses.
        """

    @abstractmethod
    def output(self, booster: Any, rows: Array, output: Output) -> Array:
        """Return any output of the trees, in LightGBM's layout: contributions class after class, the rest last."""

    @abstractmethod
    def add_trees(self, booster: Any, rows: Array, start: Array, rounds: int | None = None) -> Array:
        """Return raw scores that start from ``start`` instead of the booster's own constant.

        ``rounds`` is how many rounds to add; None means those up to the best one.
        """

    @abstractmethod
    def contributions(self, booster: Any, rows: Array, start: Array, rounds: int | None = None) -> Array:
        """Return what each column adds to the raw scores of :meth:`add_trees`, as SHAP values in LightGBM's layout.

        One value per column, and a last one that holds the rest, ``start`` included; with several classes, class after
        class.
        """

    @abstractmethod
    def trees(self, booster: Any, *, best_rounds: bool = True, first_only: bool = False) -> Forest | None:
        """Return the trees that :meth:`predict` uses, to be scored without the engine; None if that is not possible.

        Sums of these trees are bit for bit the engine's raw scores (and those of :meth:`add_trees`, without
        ``best_rounds``). A booster can be trained further, refitted or edited at any time, which only its whole text
        would show, so the result must not be kept. ``first_only`` reads the first round alone.
        """

    # ----- consent and files

    @abstractmethod
    def keep_schema(self, booster: Any, schema: dict[str, Any], categories: Any) -> None:
        """Write the schema of a training into the booster, and protect it.

        ``categories`` are those of its DataFrame; with None, those that the booster has already remain.
        """

    @abstractmethod
    def protect(self, booster: Any, schema: dict[str, Any]) -> None:
        """Make a booster that holds a schema refuse what would undo the protection; its copies keep the schema."""

    @abstractmethod
    def kept_schema(self, booster: Any) -> dict[str, Any] | None:
        """Return the schema that the booster itself holds; None if there is none."""

    def has_its_trees(self, booster: Any) -> bool:
        """Return whether the trees are those that the schema belongs to, as far as that can be found out."""
        return True

    @abstractmethod
    def first_rounds(self, booster: Any, rounds: int | None = None) -> Any:
        """Return a booster whose own ``predict`` uses the first rounds only; None means those up to the best one."""

    @abstractmethod
    def add_mask_trees(self, booster: Any, trees: Sequence[MaskTree], categories: Categories) -> None:
        """Cut a booster at its best round, and add a round of trees, one per class, that test only what is missing.

        If there was a best round, it is the added one now: what predictions use. ``categories`` are those of the
        training table.
        """

    @abstractmethod
    def to_text(self, booster: Any) -> str:
        """Return the booster as text. Its fingerprint is a hash of this text."""

    @abstractmethod
    def to_file(self, booster: Any, schema: dict[str, Any], path: Path, **options: Any) -> bytes:
        """Return the content of a model file that contains the schema and that the plain engine can also read."""

    @abstractmethod
    def from_file(self, content: bytes) -> tuple[Any, dict[str, Any]] | None:
        """Return the booster and the schema from the content of a model file; None if it holds no schema."""

    @abstractmethod
    def from_plain_file(self, content: bytes) -> Any:
        """Return the booster from :meth:`to_text`, encoded, or from a model file with or without a schema."""


class Network(ABC):
    """Connects the workers of one training by the engine's own means."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """What an engine raises if another worker is gone; its other errors may be of the same class."""

    def check_params(self, params: Mapping[str, Any]) -> None:
        """Raise for parameters that describe another network than the one that workers make themselves."""
        return

    @abstractmethod
    def endpoint(self, host: str, rank: int, n_workers: int, params: Mapping[str, Any]) -> Any:
        """Return how the others reach this worker, as plain data; ``host`` is its address."""

    @abstractmethod
    def joined(self, endpoints: Sequence[Any], rank: int) -> AbstractContextManager[dict[str, Any]]:
        """Connect with all others, given the endpoints in the order of ranks; yield further parameters.

        However it is left, the process can train again.
        """

    @abstractmethod
    def sever(self) -> None:
        """From any thread of a worker: break its connections, so that a training that waits for others fails."""


class Engine(ABC):
    """Grows trees on virtual rows."""

    name: ClassVar[str]
    title: ClassVar[str]
    """Name of the engine in prose."""
    boosters: ClassVar[Boosters]
    parameters: ClassVar[Collection[str]]
    """All names of its parameters, for suggestions."""
    network: ClassVar[Network]
    """How its workers find each other; an engine for one machine has none."""
    copies: ClassVar[float | None] = None
    """Default number of virtual rows per row; None if that depends on the size of the table."""
    quiet_params: ClassVar[Mapping[str, Any]] = {}
    """Parameters that stop the engine from printing, if it prints by default."""
    trains_plain_datasets: ClassVar[bool] = False
    """Whether the engine's own ``train`` gets the user's Dataset unchanged when nothing is optional (law 2)."""
    forbidden_in_names: ClassVar[str] = ""
    """Characters that the engine does not allow in feature names, or loses in its files. Its own errors do not name the
    column."""

    def trouble_with_name(self, name: str) -> str | None:
        """Return why a column cannot have this name, as the end of a sentence; None if it can."""
        refused = sorted(set(name) & set(self.forbidden_in_names))
        return f"because of the {refused[0]!r} in it" if refused else None

    # ----- parameters

    def params_with_its_data(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return parameters that stand beside the engine's own data, so that their names are its own."""
        return params

    @abstractmethod
    def unknown_parameters(self, params: Mapping[str, Any]) -> list[str]:
        """Return the names that the engine would ignore, at best with a warning."""

    @abstractmethod
    def prepare(
        self,
        params: dict[str, Any],
        dataset_params: Mapping[str, Any],
        num_boost_round: int,
        asked: Mapping[str, Any] = NOTHING_ELSE,
    ) -> EngineParams:
        """Return all that the engine reads from the parameters; raise for what it cannot do.

        Parameters
        ----------
        params
            Those of the call. They override those of the Dataset.
        dataset_params, num_boost_round
            The Dataset's own parameters, and the argument of ``train``.
        asked
            The rest of the request, see :mod:`.features`.
        """

    def objection(self, table: SourceTable, params: EngineParams) -> str | None:
        """Return why another engine suits a table better, though this one can train on it; None if none does."""
        return None

    @abstractmethod
    def objective(self, params: Mapping[str, Any]) -> Objective | None:
        """Return the loss that the parameters name; None for a callable, or a loss without a closed form here."""

    @abstractmethod
    def with_metrics(self, params: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """Return the parameters with further metrics, as the engine's own estimators add their ``eval_metric``."""

    def check_labels(self, objective: Objective | None, label: Array, name: str) -> None:
        if objective is not None:
            objective.check_labels(label, name)

    @abstractmethod
    def for_merged_rows(
        self, params: dict[str, Any], objective: Objective, hessian_per_person: float
    ) -> dict[str, Any]:
        """Return the parameters for rows that stand for several people: soft labels, and weights instead of counts."""

    # ----- training

    @abstractmethod
    def train(
        self,
        train: VirtualTable,
        params: EngineParams,
        valid: Validation | None,
        hooks: Hooks = NO_HOOKS,
        own: OwnGradient | None = None,
    ) -> Any:
        """Train on the virtual rows and return the engine's own booster.

        With pucboost's gradients (``own``), it predicts as if trained with the built-in loss.
        """

    def train_alone(
        self,
        matrix: Any,
        params: Mapping[str, Any],
        num_boost_round: int,
        valid: Sequence[tuple[Any, str]],
        hooks: Hooks,
    ) -> Any:
        """Call the engine's own ``train`` on its own data, with nothing optional (law 2)."""
        raise NotImplementedError

    def in_common_words(self, call: Call, xgboosts: Mapping[str, Any]) -> Call:
        """Return a call with the given arguments of ``xgb.train`` under the names that all engines have."""
        for name in xgboosts:
            raise ValueError(
                f"{name} is an argument of xgb.train. With {self.title}, give {INSTEAD_OF_XGBOOSTS[name]}; or choose "
                "'engine': 'xgboost'."
            )
        return call

    @abstractmethod
    def refit(self, booster: Any, virtual: VirtualTable, decay_rate: float | None) -> Any:
        """Return a booster with the same trees, whose leaves are fitted to the virtual rows.

        ``decay_rate`` is the share of the old value that a leaf keeps; None for what the engine does by default.
        """

    @abstractmethod
    def cv(
        self,
        label: Array,
        folds: Sequence[tuple[Array, Array]],
        build: FoldBuilder,
        params: EngineParams,
        options: FoldOptions,
    ) -> dict[str, Any]:
        """Cross-validate; ``build(k, params)`` returns the two virtual tables of fold k, and its parameters."""

    # ----- callbacks

    @abstractmethod
    def stops_early(self, callback: Any) -> bool:
        """Return whether a callback is the engine's early stopping."""

    @abstractmethod
    def progress_callback(self, report: Callable[[float], None], num_boost_round: int) -> Any:
        """Return a callback that reports the share of rounds done."""

    @abstractmethod
    def recording_callback(self, record: dict[str, Any]) -> Any:
        """Return a callback that writes the metrics of the validation sets into ``record``: set → metric → rounds."""


def times_rows(values: Any, weight: Array) -> Array:
    """Return gradients times row weights; classes are columns, or consecutive blocks of a flat array."""
    array: Array = np.asarray(values)
    if array.ndim == 2:
        return np.asarray(array * weight[:, None])
    if array.size % weight.size:
        return array  # the length is wrong, and the engine reports it
    return np.asarray(array.reshape(-1, weight.size) * weight).ravel()
