"""The base class of both estimators.

Named parameters are attributes, as everywhere in scikit-learn. Every other keyword is a parameter of the engine or of
:func:`pucboost.train`; these are kept in one dict. ``get_params`` and ``set_params`` treat both kinds alike, so that
``clone`` and ``GridSearchCV`` see no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from sklearn.base import BaseEstimator

from .._arrays import Array
from .._consent import Consent, OptionalColumns
from .._engines import DEFAULT_ENGINE, EngineName, boosters_of, engine_named
from .._engines.base import Engine
from .._engines.names import MAIN_NAME, value_of, without
from .._models.anchored import trees_of
from .._pickles import is_ours, pickled
from .._tables.containers import as_exposure, row_source, rows_of
from .._tables.sources import RowSource
from .._virtual.plan import Augmentation
from .fitted import FittedModel
from .fitting import FitPeople, Fitting
from .parameters import check_keyword, check_learning_rate, check_whole_number, seed_of
from .reading import EvalPair, EvalSets, eval_pairs, read_both, read_weight, rows_with_weight, times_class_weight

if TYPE_CHECKING:
    from .._models.trained import TrainedModel


class PUCModel(FittedModel, BaseEstimator):  # type: ignore[misc]
    """The base class of both estimators."""

    booster_: TrainedModel
    consent_: Consent
    best_iteration_: int
    evals_result_: dict[str, dict[str, list[float]]]

    def __init__(
        self,
        *,
        optional: OptionalColumns = None,
        engine: EngineName = DEFAULT_ENGINE,
        augmentation: Augmentation = "balanced",
        copies: float | None = None,
        n_estimators: int = 100,
        learning_rate: float | None = 0.1,
        num_leaves: int | None = 31,
        random_state: Any = None,
        n_jobs: int | None = None,
        objective: Any = None,
        early_stopping_rounds: int | None = None,
        **engine_params: Any,
    ) -> None:
        self.optional = optional
        self.engine = engine
        self.augmentation = augmentation
        self.copies = copies
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.objective = objective
        self.early_stopping_rounds = early_stopping_rounds
        self._engine_params = engine_params

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters, including those of the engine.

        Parameters
        ----------
        deep
            As in scikit-learn.
        """
        return {**super().get_params(deep=deep), **self._engine_params}

    def set_params(self, **params: Any) -> Self:
        """Set parameters; a name that is not one of the constructor's is a parameter of the engine.

        Parameters
        ----------
        **params
            Names and values. ``fit`` checks them.
        """
        named = set(self._get_param_names())
        own = {name: value for name, value in params.items() if name in named or "__" in name}
        super().set_params(**own)
        self._engine_params = {**self._engine_params, **{k: v for k, v in params.items() if k not in own}}
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "booster_")

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that keeps its anchor, which scikit-learn would clone into an unfitted one."""
        new: Self = super().__sklearn_clone__()
        if "anchor" in self._engine_params:
            new._engine_params = {**new._engine_params, "anchor": self._engine_params["anchor"]}
        return new

    def __reduce_ex__(self, protocol: Any) -> Any:
        return pickled(type(self).__name__, self.__getstate__()) if is_ours(self) else super().__reduce_ex__(protocol)

    # ----- fitting

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        evals: EvalSets,
        early_stopping_rounds: int | None,
        callbacks: Any,
        exposure: Any = None,
    ) -> Self:
        """Train; the arguments are those of ``fit``, which each estimator documents."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        container, target = read_both(self, X, y)
        weight = None
        units = None if exposure is None else as_exposure(exposure, "exposure", len(target))
        if sample_weight is not None:
            weight = read_weight(sample_weight, target)
            keep = rows_with_weight(weight)
            if keep is not None:
                container, target, weight = rows_of(container, keep), target[keep], weight[keep]
                units = None if units is None else units[keep]
        label = self._learn_target(target)
        weight = times_class_weight(weight, self._class_weight(), target)
        source = row_source(container)
        consent = Consent.of(self.optional, source)
        consent.warn_without_base()

        patience = self.early_stopping_rounds if early_stopping_rounds is None else early_stopping_rounds
        pairs = eval_pairs(evals)
        if patience is not None and not pairs:
            raise ValueError("early_stopping_rounds needs eval_set: other people to validate on.")
        engine = engine_named(self.engine)
        params, categorical = self._train_params(engine, consent, patience)
        people = FitPeople(container, source, label, weight, units)
        others = [None if one.X is X and one.y is y else self._read_validation(one, source) for one in pairs]
        record: dict[str, Any] = {}
        callbacks = [*(callbacks or ()), *([engine.recording_callback(record)] if pairs else [])]
        rounds, classes = int(self.n_estimators), getattr(self, "classes_", None)
        fitting = Fitting(engine, params, consent, people, categorical, others, rounds, callbacks, classes)
        booster = fitting.train()
        self.consent_ = consent
        self._categories = source.categories
        if pairs:
            self.evals_result_ = record
        trees = trees_of(booster)
        self.best_iteration_ = boosters_of(trees).used_rounds(trees)
        self.booster_ = booster
        return self

    def _class_weight(self) -> Any:
        """Return the weights of classes; None if there are none."""
        return None

    def _learn_target(self, y: Array) -> Array:
        """Return labels as the engine expects them; keep what is needed to encode other labels later."""
        raise NotImplementedError

    def _objective(self) -> dict[str, Any]:
        """Return the parameters that name the loss."""
        raise NotImplementedError

    def _read_validation(self, one: EvalPair, trained_on: RowSource) -> FitPeople:
        """Return one validation set, with the codes of the training table."""
        try:
            container, target = read_both(self, one.X, one.y, reset=False)
            weight = one.weight
            if weight is not None:
                weight = read_weight(weight, target)
            label = self._encode(target)
            weight = times_class_weight(weight, one.class_weight, target)
            exposure = None if one.exposure is None else as_exposure(one.exposure, "exposure", len(target))
            source = row_source(container, trained_on.categories)
        except ValueError as error:
            raise ValueError(f"{one.name}: {error}") from error
        return FitPeople(container, source, label, weight, exposure)

    def _train_params(self, engine: Engine, consent: Consent, patience: int | None) -> tuple[dict[str, Any], Any]:
        """Return the parameters of :func:`pucboost.train`, and the categorical columns, checked."""
        check_whole_number("n_estimators", self.n_estimators, 1)
        if self.num_leaves is not None:
            check_whole_number("num_leaves", self.num_leaves, 2)
        if patience is not None:
            check_whole_number("early_stopping_rounds", patience, 1)
        check_learning_rate(self.learning_rate)
        further = {key: value for key, value in self._engine_params.items() if value is not None}
        for key, value in further.items():
            check_keyword(key, value, engine, type(self).__name__, self._get_param_names())
        # LightGBM lists it as a parameter, but for every engine it belongs to the table.
        categorical = value_of(further, "categorical_feature", "auto")
        further = without(further, "categorical_feature")
        given = {MAIN_NAME.get(key) for key in further}
        quiet = {key: value for key, value in engine.quiet_params.items() if key not in given}
        params = {
            **quiet,
            **further,
            **self._objective(),
            "engine": self.engine,
            "augmentation": self.augmentation,
            "copies": self.copies,
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "seed": seed_of(self.random_state),
            "num_threads": self._threads(),
            "early_stopping_round": patience,
        }
        if consent.n_groups:
            params["optional"] = consent
        return {key: value for key, value in params.items() if value is not None}, categorical
