"""The base class of both estimators: parameters, ``fit``, predictions, audits.

Named parameters are attributes, as everywhere in scikit-learn. Every other keyword is a parameter of the engine or of
:func:`pucboost.train`; these are kept in one dict. ``get_params`` and ``set_params`` treat both kinds alike, so that
``clone``, ``GridSearchCV`` and scikit-learn's checks see no difference. ``fit`` checks the keywords, the constructor
never does.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._common import Array
from .._consent import Consent, OptionalColumns
from .._engines import DEFAULT_ENGINE, EngineName, boosters_of, engine_named
from .._engines.base import Engine
from .._engines.names import MAIN_NAME, value_of, without
from .._models.anchored import trees_of
from .._models.files import save_model
from .._persistence import is_ours, pickled
from .._prediction.predictor import (
    DEFAULT_MAX_SUBSETS,
    Favourable,
    MaskedPredictor,
    Sharing,
    best_predictions,
    check_sharing,
    class_number,
    favourable_sign,
    quote_subsets,
)
from .._prediction.sharing import SharingEffects, compare_with_less, sharing_values
from .._tables.sources import RowSource, as_exposure, row_source, rows_of
from .._training.request import OWN_KEYS, check_known
from .._virtual.plan import Augmentation
from .fitting import (
    EvalPair,
    FitPeople,
    read_both,
    read_table,
    read_weight,
    rows_with_weight,
    times_class_weight,
    train_people,
)

if TYPE_CHECKING:
    import pandas as pd

    from .._auditing.findings import AuditReport
    from .._auditing.settings import AuditKeywords
    from .._models.files import TrainedModel


NAMED = {
    "num_iterations": "n_estimators",
    "learning_rate": "learning_rate",
    "num_leaves": "num_leaves",
    "seed": "random_state",
    "num_threads": "n_jobs",
    "objective": "objective",
    "early_stopping_round": "early_stopping_rounds",
}
"""LightGBM's main name → the estimators' name."""


class PUCModel(BaseEstimator):  # type: ignore[misc]
    """The base class of both estimators."""

    booster_: TrainedModel
    consent_: Consent
    best_iteration_: int
    evals_result_: dict[str, dict[str, list[float]]]
    _categories: Any

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
        evals: list[EvalPair],
        early_stopping_rounds: int | None,
        callbacks: Any,
        exposure: Any = None,
    ) -> Self:
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
        weight = times_class_weight(weight, getattr(self, "class_weight", None), target)
        source = row_source(container)
        consent = Consent.of(self.optional, source)
        consent.warn_without_base()

        patience = self.early_stopping_rounds if early_stopping_rounds is None else early_stopping_rounds
        if patience is not None and not evals:
            raise ValueError("early_stopping_rounds needs eval_set: other people to validate on.")
        engine = engine_named(self.engine)
        params, categorical = self._train_params(engine, consent, patience)
        record: dict[str, Any] = {}
        booster = train_people(
            engine,
            params,
            consent,
            FitPeople(container, source, label, weight, units),
            [None if one.X is X and one.y is y else self._read_validation(one, source) for one in evals],
            categorical=categorical,
            rounds=int(self.n_estimators),
            callbacks=[*(callbacks or ()), *([engine.recording_callback(record)] if evals else [])],
            classes=getattr(self, "classes_", None),
        )
        self.consent_ = consent
        self._categories = source.categories
        if evals:
            self.evals_result_ = record
        trees = trees_of(booster)
        self.best_iteration_ = boosters_of(trees).facts(trees).used_rounds
        self.booster_ = booster
        return self

    def _learn_target(self, y: Array) -> Array:
        """Return labels as the engine expects them; keep what :meth:`_encode` needs."""
        raise NotImplementedError

    def _encode(self, y: Any) -> Array:
        """Return labels of other people as the engine expects them."""
        raise NotImplementedError

    def _objective(self) -> dict[str, Any]:
        """Return the parameters that name the loss."""
        raise NotImplementedError

    def _read_validation(self, one: EvalPair, trained_on: RowSource) -> FitPeople:
        """Return one validation set, with the codes of the training table."""
        try:
            container, target = read_both(self, one.X, one.y, reset=False)
            weight = None if one.weight is None else read_weight(one.weight, target)
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

    # ----- predictions of a fitted model

    def _threads(self) -> int | None:
        return thread_count_of(self.n_jobs)

    def _table(self, X: Any) -> tuple[Any, RowSource]:
        """Check a table against that of ``fit``; return it and its source, with the same codes for categories."""
        check_is_fitted(self)
        table = read_table(self, X, reset=False)
        return table, row_source(table, self._categories)

    def _predictor(
        self, X: Any, *, raw_score: bool = False, target_class: Any = None, read: tuple[Any, RowSource] | None = None
    ) -> MaskedPredictor:
        table, source = self._table(X) if read is None else read
        return MaskedPredictor(
            self.booster_,
            source,
            raw_score=raw_score,
            num_threads=self._threads(),
            consent=self.consent_,
            target_class=class_number(target_class, getattr(self, "classes_", None)),
            container=table,
        )

    def _predict(
        self,
        X: Any,
        raw_score: bool = False,
        *,
        sharing: Sharing = "as_given",
        favourable: Favourable | None = None,
        target_class: Any = None,
    ) -> Array:
        check_sharing(sharing)
        if sharing == "best" and favourable is None:
            classes = getattr(self, "classes_", np.empty(0)).tolist()
            what = f"probability of {classes[1]!r}" if len(classes) == 2 else "prediction"
            raise ValueError(
                f"sharing='best' needs favourable: say whether people prefer a 'lower' or a 'higher' {what}."
            )
        sign = favourable_sign("lower" if favourable is None else favourable)
        read = self._table(X)
        predictor = self._predictor(X, raw_score=raw_score, read=read)
        if sharing != "as_given":
            self._check_something_optional(f"sharing={sharing!r} would change nothing")
        used = predictor.shared if sharing == "as_given" else np.zeros_like(predictor.shared)
        if sharing == "best":
            judged = predictor
            if target_class is not None:
                judged = self._predictor(X, raw_score=raw_score, target_class=target_class, read=read)
            used = best_predictions(judged, sign, DEFAULT_MAX_SUBSETS)[1]
        return np.asarray(predictor.everybody(used), dtype=np.float64)

    def _check_something_optional(self, consequence: str) -> None:
        if self.consent_.n_groups == 0:
            raise ValueError(
                f"This {type(self).__name__} was fitted with nothing optional, so {consequence}. Give optional to the "
                "constructor."
            )

    def quote(self, X: Any, *, subsets: Any = None, raw_score: bool = False) -> pd.DataFrame:
        """Return what each person would be told for every subset of the groups they share.

        Parameters
        ----------
        X, subsets, raw_score
            As in :func:`pucboost.quote`.

        Returns
        -------
        pandas.DataFrame
            One column per subset, NaN where the person does not share all of its groups; the probability of
            ``classes_[1]`` for two classes, one column per subset and class for more.
        """
        predictor = self._predictor(X, raw_score=raw_score)
        self._check_something_optional("there is nothing to quote but predict(X)")
        return quote_subsets(predictor, subsets)

    def sharing_value(self, X: Any, *, raw_score: bool = False, target_class: Any = None) -> pd.DataFrame:
        """Return how much each shared group moves each prediction: the Shapley value over the person's own groups.

        Parameters
        ----------
        X, raw_score
            As in :func:`pucboost.sharing_value`.
        target_class
            For a classifier, the class whose probability is looked at, one of ``classes_``. With two classes it is
            ``classes_[1]``, with more it must be given.

        Returns
        -------
        pandas.DataFrame
            As :func:`pucboost.sharing_value` returns it.
        """
        predictor = self._predictor(X, raw_score=raw_score, target_class=target_class)
        self._check_something_optional("there is nothing whose sharing could be worth something")
        return sharing_values(predictor)

    def sharing_effects(self, X: Any, *, favourable: Favourable = "lower", target_class: Any = None) -> SharingEffects:
        """Measure how often, and by how much, sharing makes predictions less favourable.

        Parameters
        ----------
        X, favourable
            As in :func:`pucboost.sharing_effects`.
        target_class
            As in :meth:`sharing_value`.

        Returns
        -------
        SharingEffects
            As :func:`pucboost.sharing_effects` returns it.
        """
        sign = favourable_sign(favourable)
        predictor = self._predictor(X, target_class=target_class)
        self._check_something_optional("nobody can share less")
        return compare_with_less(predictor, sign)

    def save_model(self, filename: Any, **kwargs: Any) -> None:
        """Write the booster and its consent schema into a model file; labels of classes are not kept.

        Parameters
        ----------
        filename, **kwargs
            As in :func:`pucboost.save_model`.
        """
        check_is_fitted(self)
        save_model(self.booster_, filename, **kwargs)

    def audit(self, X: Any, y: Any, *, margin: float, **options: Unpack[AuditKeywords]) -> AuditReport:
        """Return a report on whether people who withhold data are treated as their remaining data justify.

        Parameters
        ----------
        X, y, margin
            Held-out people, their outcomes (for a classifier its own labels), and the largest harmless average penalty,
            as in :func:`pucboost.audit`.
        **options
            As in :func:`pucboost.audit`. A classifier's ``target_class`` is one of its ``classes_``. A model fitted
            with nothing optional needs ``optional``.

        Returns
        -------
        AuditReport
        """
        from .._auditing.people import choose_loss
        from .._auditing.run import audit

        self._table(X)
        outcome, target = self._encode(y), self._target_class(options.get("target_class"))
        if self.consent_.n_groups == 0 or self._needs_own_predictions(target):
            # Audit predict, which recodes categories and has both classes; the loss still comes from the booster.
            chosen = choose_loss(options.get("loss", "auto"), options.get("alpha"), self.booster_, outcome)
            options |= {"loss": chosen.name, "alpha": chosen.alpha}
            if self.consent_.n_groups:
                options["optional"] = self.consent_
            return audit(self, X, y, margin=margin, **options)
        if isinstance(options.get("train_data"), (tuple, list)):
            train_X, train_y, *rest = options["train_data"]
            options["train_data"] = (train_X, self._encode(train_y), *rest)
        options["target_class"] = target
        return audit(self.booster_, X, outcome, margin=margin, **options)

    def _target_class(self, label: Any) -> int | None:
        if label is not None:
            raise ValueError(f"target_class={label!r}: a regressor has no classes.")
        return None

    def _needs_own_predictions(self, target: int | None) -> bool:
        return False

    @property
    def feature_importances_(self) -> Array:
        """Share of each feature in the total gain of all splits."""
        check_is_fitted(self)
        trees = trees_of(self.booster_)
        gain = boosters_of(trees).importance(trees, "gain")
        total = gain.sum()
        return gain / total if total > 0 else gain


# ----- keywords, checked and translated into parameters of train


def check_keyword(key: str, value: Any, engine: Engine, estimator: str, own_names: Iterable[str]) -> None:
    main = MAIN_NAME.get(key)
    if main in NAMED:
        raise ValueError(f"{estimator} calls {key!r} {NAMED[main]!r}; use that name.")
    if main == "num_class":
        raise ValueError(f"{estimator} takes no {key!r}: the classes are those of y.")
    if key == "plan":
        raise ValueError(f"{estimator} takes no plan; use pucboost.train in each worker, or pucboost.dask.")
    if key not in OWN_KEYS:
        check_known(engine, {key: value}, *own_names)


def check_whole_number(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")


def check_learning_rate(rate: Any) -> None:
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, Real) or not float(rate) > 0):
        raise ValueError(f"learning_rate must be a positive number, got {rate!r}.")


def seed_of(random_state: Any) -> int:
    """Return the seed that a ``random_state`` stands for; 0 for None."""
    if random_state is None:
        return 0
    if isinstance(random_state, Integral):
        return int(random_state)
    largest = np.iinfo(np.int32).max
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(largest))
    return int(check_random_state(random_state).randint(largest))


def thread_count_of(n_jobs: int | None) -> int | None:
    """Return the number of threads that ``n_jobs`` stands for, as joblib reads it."""
    if n_jobs is None:
        return None
    from joblib import effective_n_jobs  # type: ignore[import-untyped]

    return int(effective_n_jobs(n_jobs))
