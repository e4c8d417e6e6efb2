"""The base class of both estimators: parameters, ``fit``, predictions, audits.

Named parameters are attributes, as everywhere in scikit-learn. Every other keyword is a parameter of the engine or of
:func:`pucboost.train`; these are kept in one dict. ``get_params`` and ``set_params`` treat both kinds alike, so that
``clone``, ``GridSearchCV`` and scikit-learn's checks see no difference. ``fit`` checks the keywords, the constructor
never does.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, Unpack, get_args

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted, validate_data

from .._common import Array
from .._consent import Consent, OptionalColumns
from .._engines import DEFAULT_ENGINE, EngineName, boosters_of, engine_named
from .._engines.base import Engine, Hooks, Output
from .._engines.names import MAIN_NAME, value_of, without
from .._models.anchored import trees_of
from .._models.files import save_model
from .._models.schema import Favourable, check_favourable
from .._not_applicable import NotApplicable, declared_without_table, read_not_applicable
from .._persistence import is_ours, pickled
from .._prediction.predictor import (
    DEFAULT_MAX_SUBSETS,
    MaskedPredictor,
    Sharing,
    best_predictions,
    check_sharing,
    class_number,
    quote_subsets,
)
from .._prediction.sharing import SharingEffects, compare_with_less, sharing_values
from .._tables.sources import (
    RowSource,
    SourceTable,
    as_exposure,
    check_no_mask,
    eager,
    in_container_of,
    is_frame,
    read_init_score,
    row_source,
    rows_of,
)
from .._training.datasets import Dataset, check_categories
from .._training.request import TrainingRequest, check_known, check_validation, model_to_continue, split_params
from .._training.train import train, train_request
from .._virtual.plan import Augmentation

if TYPE_CHECKING:
    import pandas as pd

    from .._auditing.findings import AuditReport
    from .._auditing.settings import AuditKeywords
    from .._explaining.explanation import Explanation
    from .._intervals import Intervals
    from .._models.files import TrainedModel
    from .._questions.findings import Questions


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

ImportanceType: TypeAlias = Literal["split", "gain"]


class PUCModel(BaseEstimator):  # type: ignore[misc]
    """The base class of both estimators."""

    booster_: TrainedModel
    consent_: Consent
    best_iteration_: int
    objective_: Any
    n_features_in_: int
    evals_result_: dict[str, dict[str, list[float]]]
    _categories: Any

    def __init__(
        self,
        *,
        optional: OptionalColumns = None,
        not_applicable: NotApplicable = None,
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
        favourable: Favourable | None = None,
        importance_type: ImportanceType | None = None,
        **engine_params: Any,
    ) -> None:
        self.optional = optional
        self.not_applicable = not_applicable
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
        self.favourable = favourable
        self.importance_type = importance_type
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
        *,
        init_score: Any,
        init_model: Any,
        eval_metric: Any,
        categorical_feature: Any,
        exposure: Any = None,
    ) -> Self:
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        people = self._read(X, y, sample_weight, exposure, init_score, getattr(self, "class_weight", None))
        consent = Consent.of(self.optional, people.source)
        declared_without_table(consent, self.not_applicable)
        consent, source = read_not_applicable(consent, people.source, self.not_applicable)
        people = people._replace(source=source)
        consent.warn_without_base()

        patience = self.early_stopping_rounds if early_stopping_rounds is None else early_stopping_rounds
        if patience is not None and not evals:
            raise ValueError("early_stopping_rounds needs eval_set: other people to validate on.")
        engine = engine_named(self.engine)
        params, categorical = self._train_params(engine, consent, patience)
        if categorical_feature != "auto":
            categorical = categorical_feature
        params, feval = with_eval_metric(engine, params, eval_metric)
        record: dict[str, Any] = {}
        booster = train_people(
            engine,
            params,
            consent,
            people,
            [None if one.X is X and one.y is y else self._read_validation(one, people.source) for one in evals],
            categorical=categorical,
            rounds=int(self.n_estimators),
            names=[
                one.shown or ("training" if one.X is X and one.y is y else f"valid_{i}") for i, one in enumerate(evals)
            ],
            feval=feval,
            init_model=self._booster_of(init_model),
            callbacks=[*(callbacks or ()), *([engine.recording_callback(record)] if evals else [])],
            classes=getattr(self, "classes_", None),
        )
        self.consent_, self.objective_ = consent, self._loss()
        self._categories = people.source.categories
        self.evals_result_ = record
        trees = trees_of(booster)
        self.best_iteration_ = boosters_of(trees).facts(trees).used_rounds
        self.booster_ = booster
        return self

    def _read(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        exposure: Any,
        init_score: Any,
        class_weight: Any,
        trained_on: RowSource | None = None,
    ) -> FitPeople:
        """Return people to train on, or others, with the labels and codes of those in ``trained_on``."""
        container, target = read_both(self, X, y, reset=trained_on is None)
        units = None if exposure is None else as_exposure(exposure, "exposure", len(target))
        weight = None if sample_weight is None else read_weight(sample_weight, target)
        start = None if init_score is None else scores_by_row(init_score, len(target))
        if trained_on is None and weight is not None and not weight.all():
            keep = np.flatnonzero(weight)
            if not len(keep):  # older versions of scikit-learn do not check this
                raise ValueError("Sample weights must contain at least one non-zero number.")
            container, target, weight = rows_of(container, keep), target[keep], weight[keep]
            units = None if units is None else units[keep]
            start = None if start is None else start[keep]
        label = self._learn_target(target) if trained_on is None else self._encode(target)
        if class_weight is not None:
            by_class = np.asarray(compute_sample_weight(class_weight, target))
            weight = by_class if weight is None else weight * by_class
        source = row_source(container, None if trained_on is None else trained_on.categories)
        return FitPeople(container, source, label, weight, units, start)

    def _read_validation(self, one: EvalPair, trained_on: RowSource) -> FitPeople:
        try:
            return self._read(one.X, one.y, one.weight, one.exposure, one.init_score, one.class_weight, trained_on)
        except ValueError as error:
            raise ValueError(f"{one.name}: {error}") from error

    def _learn_target(self, y: Array) -> Array:
        """Return labels as the engine expects them; keep what :meth:`_encode` needs."""
        raise NotImplementedError

    def _encode(self, y: Any) -> Array:
        """Return labels of other people as the engine expects them."""
        raise NotImplementedError

    def _objective(self) -> dict[str, Any]:
        """Return the parameters that name the loss."""
        raise NotImplementedError

    def _loss(self) -> Any:
        """Return the loss as users name it."""
        return self.objective if callable(self.objective) else self._objective()["objective"]

    def _booster_of(self, init_model: Any) -> Any:
        """Return the booster of a fitted estimator, and anything else as it is."""
        classes, own = (np.asarray(getattr(model, "classes_", ())).tolist() for model in (init_model, self))
        if classes and classes != own:
            raise ValueError(f"init_model has the classes {classes}, but y has {own}: its numbers would be misread.")
        return getattr(init_model, "booster_", init_model)

    def _train_params(self, engine: Engine, consent: Consent, patience: int | None) -> tuple[dict[str, Any], Any]:
        """Return the parameters of :func:`pucboost.train`, and the categorical columns, checked."""
        check_whole_number("n_estimators", self.n_estimators, 1)
        if self.num_leaves is not None:
            check_whole_number("num_leaves", self.num_leaves, 2)
        if patience is not None:
            check_whole_number("early_stopping_rounds", patience, 1)
        check_learning_rate(self.learning_rate)
        further = {key: value for key, value in self._engine_params.items() if value is not None}
        for key in further:
            check_keyword(key, type(self).__name__)
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
            "favourable": self.favourable,
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
        self,
        X: Any,
        *,
        raw_score: bool = False,
        target_class: Any = None,
        read: tuple[Any, RowSource] | None = None,
        output: Output | None = None,
    ) -> MaskedPredictor:
        table, source = self._table(X) if read is None else read
        return MaskedPredictor(
            self.booster_,
            source,
            raw_score=raw_score,
            output=output,
            num_threads=self._threads(),
            consent=self.consent_,
            target_class=class_number(target_class, getattr(self, "classes_", None)),
            container=table,
        )

    def _predict(
        self,
        X: Any,
        output: Output,
        *,
        sharing: Sharing = "as_given",
        favourable: Favourable | None = None,
        target_class: Any = None,
    ) -> Array:
        check_sharing(sharing)
        check_favourable(favourable)
        read, raw_score = self._table(X), output.raw_score
        predictor = self._predictor(X, raw_score=raw_score, read=read, output=output)
        if sharing != "as_given":
            self._check_something_optional(f"sharing={sharing!r} would change nothing")
        used = predictor.shared if sharing == "as_given" else np.zeros_like(predictor.shared)
        if sharing == "best":
            judged = predictor
            if target_class is not None:
                judged = self._predictor(X, raw_score=raw_score, target_class=target_class, read=read, output=output)
            sign = judged.sign_of(favourable, "sharing='best'", self._predicted())
            used = best_predictions(judged.predicting(), sign, DEFAULT_MAX_SUBSETS)[1]
        return np.asarray(predictor.everybody(used), dtype=np.float64)

    def _predicted(self) -> str:
        """Return what people prefer a lower or a higher value of."""
        classes = getattr(self, "classes_", np.empty(0)).tolist()
        return f"probability of {classes[1]!r}" if len(classes) == 2 else "prediction"

    def _check_something_optional(self, consequence: str) -> None:
        if self.consent_.n_groups == 0:
            raise ValueError(
                f"This {type(self).__name__} was fitted with nothing optional, so {consequence}. Give optional to the "
                "constructor."
            )

    def quote(self, X: Any, *, subsets: Any = None, raw_score: bool = False) -> Any:
        """Return what each person would be told for every subset of the groups they share.

        Parameters
        ----------
        X, subsets, raw_score
            As in :func:`pucboost.quote`.

        Returns
        -------
        DataFrame
            Of the kind of ``X``. One column per subset, missing where the person does not share all of its groups; the
            probability of ``classes_[1]`` for two classes, one column per subset and class for more.
        """
        predictor = self._predictor(X, raw_score=raw_score)
        self._check_something_optional("there is nothing to quote but predict(X)")
        return in_container_of(X, self._with_classes(quote_subsets(predictor, subsets)))

    def _with_classes(self, quotes: pd.DataFrame) -> pd.DataFrame:
        """Name the classes of quotes, if there are several, by their labels."""
        return quotes

    def sharing_value(self, X: Any, *, raw_score: bool = False, target_class: Any = None) -> Any:
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
        DataFrame
            As :func:`pucboost.sharing_value` returns it.
        """
        predictor = self._predictor(X, raw_score=raw_score, target_class=target_class)
        self._check_something_optional("there is nothing whose sharing could be worth something")
        return in_container_of(X, sharing_values(predictor))

    def sharing_effects(
        self, X: Any, *, favourable: Favourable | None = None, target_class: Any = None
    ) -> SharingEffects:
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
        check_favourable(favourable)
        predictor = self._predictor(X, target_class=target_class)
        self._check_something_optional("nobody can share less")
        return compare_with_less(predictor, predictor.sign_of(favourable, "sharing_effects", self._predicted()))

    def explain(
        self,
        X: Any,
        background: Any,
        *,
        sharing: Sharing = "as_given",
        favourable: Favourable | None = None,
        together: Any = None,
        target_class: Any = None,
        max_samples: int | None = 1_000,
    ) -> Explanation:
        """Return how much each column moved each person's score, compared with people who share at least as much.

        Parameters
        ----------
        X, background, sharing, favourable, together, max_samples
            As in :func:`pucboost.explain`.
        target_class
            For a classifier with more than two classes, the one to explain, of ``classes_``; None explains all of them.
            With two, scores are log-odds of ``classes_[1]``.

        Returns
        -------
        Explanation
            As :func:`pucboost.explain` returns it.
        """
        from .._explaining.explanation import explained
        from .._explaining.game import Background

        predictor = self._predictor(X, target_class=target_class)
        compared = Background(self._predictor(background, target_class=target_class), max_samples)
        labels = getattr(self, "classes_", None)
        return explained(predictor, compared, X, sharing, favourable, together, self._threads(), labels)

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

    def intervals(self, X_cal: Any, y_cal: Any, **options: Any) -> Intervals:
        """Return intervals, or sets of classes, that cover outcomes with a given probability, whatever people share.

        Parameters
        ----------
        X_cal, y_cal
            People whom the model was not trained on, and their outcomes, for a classifier its own labels.
        **options
            As in :func:`pucboost.intervals`.

        Returns
        -------
        Intervals
        """
        from .._intervals import intervals

        self._check_something_optional("there is nobody whose silence could matter; use any conformal predictor")
        return intervals(self, X_cal, y_cal, **options)

    def questions(self, X: Any, y: Any, **options: Any) -> Questions:
        """Return what each question adds to the predictions, and how few questions carry most of it.

        Parameters
        ----------
        X, y
            Held-out people and their outcomes, for a classifier its own labels.
        **options
            As in :func:`pucboost.questions`.

        Returns
        -------
        Questions
        """
        from .._questions.asking import questions

        self._check_something_optional("there is no question to look at")
        return questions(self, X, y, **{"num_threads": self._threads(), **options})

    def _target_class(self, label: Any) -> int | None:
        if label is not None:
            raise ValueError(f"target_class={label!r}: a regressor has no classes.")
        return None

    def _needs_own_predictions(self, target: int | None) -> bool:
        return False

    @property
    def feature_importances_(self) -> Array:
        """Share of each feature in the total gain of all splits, or what ``importance_type`` says."""
        kind = self.importance_type
        if kind not in (None, *get_args(ImportanceType)):
            raise ValueError(f"importance_type must be 'split', 'gain' or None, got {kind!r}.")
        check_is_fitted(self)
        trees = trees_of(self.booster_)
        found = boosters_of(trees).importance(trees, kind or "gain")
        total = found.sum()
        return found / total if kind is None and total > 0 else found

    @property
    def feature_name_(self) -> list[str]:
        """The names of the columns, ``Column_0``, … if they had none."""
        check_is_fitted(self)
        return list(self.consent_.feature_names)

    @property
    def n_features_(self) -> int:
        """The number of columns."""
        check_is_fitted(self)
        return self.n_features_in_

    @property
    def n_iter_(self) -> int:
        """How many rounds the booster has."""
        check_is_fitted(self)
        trees = trees_of(self.booster_)
        return boosters_of(trees).facts(trees).rounds

    @property
    def n_estimators_(self) -> int:
        """The same as ``n_iter_``."""
        return self.n_iter_

    @property
    def best_score_(self) -> dict[str, dict[str, float]]:
        """Metrics of the validation sets in the round ``best_iteration_``."""
        check_is_fitted(self)
        last = self.best_iteration_ - 1
        return {
            name: {metric: values[min(last, len(values) - 1)] for metric, values in metrics.items()}
            for name, metrics in self.evals_result_.items()
        }


# ----- the arguments of ``fit``, read and checked as scikit-learn does


def read_table(model: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return a table, checked as scikit-learn does.

    scikit-learn checks and converts arrays and sparse matrices. Of DataFrames only names and sizes are checked, because
    a conversion would destroy categories.
    """
    least = 2 if reset else 1
    X = eager(X)
    if is_frame(X):
        import narwhals as nw

        shape = nw.from_native(X, eager_only=True).shape
        for size, minimum, what in ((shape[0], least, "sample"), (shape[1], 1, "feature")):
            if size < minimum:
                raise ValueError(
                    f"Found array with {size} {what}(s) (shape={shape}) while a minimum of {minimum} is required by "
                    f"{type(model).__name__}."
                )
        validate_data(model, _names_only(X), reset=reset, skip_check_array=True)
        return X
    return validate_data(
        model,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        ensure_min_samples=least,
    )


def _names_only(X: Any) -> Any:
    """Return a DataFrame whose names every version of scikit-learn sees; older versions see only pandas names."""
    import narwhals.dependencies as nwd

    if nwd.is_pandas_dataframe(X):
        return X
    import narwhals as nw
    import pandas as pd

    return pd.DataFrame(columns=list(nw.from_native(X, eager_only=True).columns))


def read_both(model: BaseEstimator, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, Array]:
    if y is None:
        raise ValueError(f"This {type(model).__name__} estimator requires y to be passed, but the target y is None.")
    check_no_mask(y, "y")
    table = read_table(model, X, reset=reset)
    target = _check_y(y, y_numeric=isinstance(model, RegressorMixin), estimator=model)
    check_consistent_length(table, target)
    return table, np.asarray(target)


def read_weight(weight: Any, target: Array) -> Array:
    check_no_mask(weight, "sample_weight")
    return np.asarray(_check_sample_weight(weight, target, dtype=np.float64, ensure_non_negative=True))


def scores_by_row(init_score: Any, n: int) -> Array:
    """Return initial scores with one entry, or one row of classes, per person; flat ones come class after class."""
    scores = read_init_score(init_score, "fit", n)
    assert scores is not None
    return scores.reshape(n, -1, order="F") if scores.ndim == 1 and len(scores) != n else scores


class EvalPair(NamedTuple):
    """One validation set as given, its name in errors, and the one in results, if the user gave one."""

    X: Any
    y: Any
    weight: Any
    exposure: Any
    init_score: Any
    class_weight: Any
    name: str
    shown: str | None


def eval_pairs(
    eval_set: Any,
    eval_X: Any,
    eval_y: Any,
    *,
    sample_weight: Any = None,
    exposure: Any = None,
    init_score: Any = None,
    class_weight: Any = None,
    shown: Any = None,
) -> list[EvalPair]:
    """Return the validation sets, from the arguments of ``fit`` about them."""
    vectors = {"eval_sample_weight": sample_weight, "eval_exposure": exposure, "eval_init_score": init_score}
    if eval_set is not None:
        if eval_X is not None or eval_y is not None:
            raise ValueError("Give eval_set, or eval_X and eval_y, but not both.")
        a_pair = isinstance(eval_set, tuple) and not (eval_set and isinstance(eval_set[0], tuple))
        pairs = [eval_set] if a_pair else list(eval_set)
        for i, pair in enumerate(pairs):
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                got = f"a sequence of length {len(pair)}" if isinstance(pair, (tuple, list)) else type(pair).__name__
                raise ValueError(f"eval_set must be a pair (X, y) or a list of pairs; item {i} is {got}.")
        names = [f"eval_set[{i}]" for i in range(len(pairs))]
    elif eval_X is not None or eval_y is not None:
        if eval_X is None or eval_y is None:
            raise ValueError("eval_X and eval_y belong together; one of them is missing.")
        tables = eval_X if isinstance(eval_X, tuple) else (eval_X,)
        targets = eval_y if isinstance(eval_y, tuple) else (eval_y,)
        if len(tables) != len(targets):
            raise ValueError(f"eval_X holds {len(tables)} tables, but eval_y holds outcomes for {len(targets)}.")
        pairs = list(zip(tables, targets, strict=True))
        names = [f"eval_X[{i}]" for i in range(len(pairs))]
    else:
        for name, values in {**vectors, "eval_class_weight": class_weight, "eval_names": shown}.items():
            if values is not None:
                raise ValueError(f"{name} needs eval_set.")
        return []
    rows = [_one_each(values, name, len(pairs)) for name, values in vectors.items()]
    if isinstance(class_weight, (str, Mapping)):
        class_weight = [class_weight] * len(pairs)
    by_class = _one_each(class_weight, "eval_class_weight", len(pairs))
    titles = _one_each(shown, "eval_names", len(pairs))
    return [EvalPair(*pair, *others) for pair, *others in zip(pairs, *rows, by_class, names, titles, strict=True)]


def _one_each(vectors: Any, name: str, n_sets: int) -> list[Any]:
    """Return one vector for each validation set; a vector by itself is that of a single set."""
    if vectors is None:
        return [None] * n_sets
    if not isinstance(vectors, (list, tuple)) or (vectors and isinstance(vectors[0], Real)):
        vectors = [vectors]
    if len(vectors) != n_sets:
        raise ValueError(f"{name} has {len(vectors)} items for {n_sets} validation sets.")
    return list(vectors)


# ----- training on what was read


class FitPeople(NamedTuple):
    """A table as given, with its row source, outcomes, weights, exposures and initial scores."""

    container: Any
    source: RowSource
    label: Array
    weight: Array | None
    exposure: Array | None = None
    init_score: Array | None = None

    def table(self, name: str, **more: Any) -> SourceTable:
        more |= {"exposure": self.exposure, "init_score": self.init_score, "data": self.container}
        return SourceTable.of(self.source, self.label, self.weight, name=name, **more)


def train_people(
    engine: Engine,
    params: dict[str, Any],
    consent: Consent,
    people: FitPeople,
    others: list[FitPeople | None],
    *,
    categorical: Any,
    rounds: int,
    names: list[str],
    feval: Any,
    init_model: Any,
    callbacks: list[Any],
    classes: Array | None,
) -> Any:
    """Return the booster that :func:`pucboost.train` would return, without reading the tables again.

    Parameters
    ----------
    params
        Parameters of :func:`pucboost.train`.
    others
        People to validate on; None stands for those to train on.
    categorical
        The categorical columns, as in ``lgb.Dataset``.
    names, feval, init_model, callbacks
        As in :func:`pucboost.train`; ``names`` are those of ``others``.
    classes
        The labels of a classifier; its outcomes are their numbers.
    """
    if engine.trains_plain_datasets and consent.n_groups == 0:  # the engine reads the tables itself
        engine.check_labels(engine.objective(params), people.label, "y")
        train_set = _plain_dataset(people, categorical)
        plain = [train_set if other is None else _plain_dataset(other, None) for other in others]
        return train(params, train_set, rounds, plain or None, names, feval, init_model, callbacks=callbacks or None)
    settings, engine_params = split_params(params)
    check_known(engine, engine_params)
    check_categories(people.source, "X")
    table = people.table("X", categorical_feature=categorical)
    request = TrainingRequest.of(
        engine, settings, engine_params, table, consent, rounds, label_name="y", classes=classes
    )
    valid: list[tuple[SourceTable | None, str]] = []
    for i, (other, name) in enumerate(zip(others, names, strict=True)):
        if other is None:
            valid.append((None, name))
            continue
        one = other.table(f"eval_set[{i}]")
        check_validation(request, one, f"eval_set[{i}]")
        valid.append((one, name))
    hooks = Hooks(feval, callbacks or None, model_to_continue(request, init_model))
    return train_request(request, valid or None, hooks)


def _plain_dataset(people: FitPeople, categorical: Any) -> Dataset:
    """Return a Dataset that LightGBM can read: pandas numbers and categories unchanged, other DataFrames as codes.

    ``categorical`` is None for a validation set, which takes names and types from the training set.
    """
    import narwhals.dependencies as nwd

    container, source = people.container, people.source
    rows: dict[str, Any] = {"label": people.label, "weight": people.weight, "exposure": people.exposure}
    rows["init_score"] = people.init_score
    if not is_frame(container) or (nwd.is_pandas_dataframe(container) and not source.never_numbers):
        named = {} if categorical is None else {"categorical_feature": categorical}
        return Dataset(container, **rows, **named)
    numbers, names = source.window(0, source.n_rows), source.feature_names or []
    if categorical is None:
        return Dataset(numbers, **rows)
    declared = [] if categorical == "auto" else [names.index(c) if isinstance(c, str) else c for c in categorical]
    columns = sorted({*declared, *source.categorical})
    return Dataset(numbers, **rows, feature_name=names, categorical_feature=columns)


# ----- keywords, checked and translated into parameters of train


class OfLabels:
    """A function of labels, predictions and perhaps weights, for ``train``, which calls with predictions and data.

    Estimators of the engines take their metrics and losses in this form.
    """

    def __init__(self, function: Any, role: str) -> None:
        self.function = function
        self.arguments = len(inspect.signature(function).parameters)
        if self.arguments not in (2, 3):
            raise TypeError(
                f"{role} must be a function of (y_true, y_pred) or (y_true, y_pred, weight); this one takes "
                f"{self.arguments} arguments."
            )

    def __call__(self, preds: Array, data: Any) -> Any:
        weight = data.get_weight()
        if weight is not None and not len(weight):  # XGBoost has an empty vector where LightGBM has None
            weight = None
        return self.function(*(data.get_label(), preds, weight)[: self.arguments])


def with_eval_metric(engine: Engine, params: dict[str, Any], eval_metric: Any) -> tuple[dict[str, Any], Any]:
    """Return the parameters with the metrics that are named, and the others as ``feval``."""
    listed = [] if eval_metric is None else eval_metric if isinstance(eval_metric, (list, tuple)) else [eval_metric]
    for one in listed:
        if not isinstance(one, str) and not callable(one):
            raise TypeError(f"eval_metric must be a name, a function or a list of these, got {one!r}.")
    names = [one for one in listed if isinstance(one, str)]
    functions = [OfLabels(one, "eval_metric") for one in listed if not isinstance(one, str)]
    return engine.with_metrics(params, names) if listed else params, functions or None


def check_keyword(key: str, estimator: str) -> None:
    main = MAIN_NAME.get(key)
    if main in NAMED:
        raise ValueError(f"{estimator} calls {key!r} {NAMED[main]!r}; use that name.")
    if main == "num_class":
        raise ValueError(f"{estimator} takes no {key!r}: the classes are those of y.")
    if key == "plan":
        raise ValueError(f"{estimator} takes no plan; use pucboost.train in each worker, or pucboost.dask.")


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
