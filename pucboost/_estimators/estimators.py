"""scikit-learn estimators: :func:`pucboost.train` behind ``fit`` and ``predict``.

Named parameters are attributes, as everywhere in scikit-learn; every other keyword is a parameter of the engine or of
:func:`pucboost.train`. Those are kept in one dict, and ``get_params`` and ``set_params`` treat both alike, so that
``clone`` and ``GridSearchCV`` see no difference.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted, validate_data

from .._arrays import Array
from .._consent import Consent
from .._engines.base import engine_named
from .._engines.params import OWN_KEYS, is_booster
from .._engines.translation import TABLE, to_xgboost
from .._models.anchoring import trees_of
from .._prediction.prediction import Reader, quote
from .._tables.containers import eager, is_frame, row_source, rows_of
from .._tables.sources import RowSource
from .._training.datasets import Dataset, check_positions, declares_something
from .._training.job import check_labels
from .._training.train import train
from ..objectives import objective_for

if TYPE_CHECKING:
    import pandas as pd

    from .._auditing.results import AuditReport


_NAMED = {
    "num_iterations": "n_estimators",
    "learning_rate": "learning_rate",
    "num_leaves": "num_leaves",
    "seed": "random_state",
    "num_threads": "n_jobs",
    "objective": "objective",
    "early_stopping_round": "early_stopping_rounds",
}
"""LightGBM's main name → what the estimators call it."""

_MAIN_NAME = {name: main for main, row in TABLE.items() for name in (main, *row.aliases.split())}

_PROBABILITIES = {
    "binary": "two", "cross_entropy": "two", "xentropy": "two", "binary:logistic": "two", "reg:logistic": "two",
    "multiclass": "any", "softmax": "any", "multi:softprob": "any",
}  # fmt: skip
"""Objectives whose predictions are the probabilities of classes, and for how many classes."""

_POSITIVE = frozenset({"poisson", "gamma", "tweedie", "count:poisson", "reg:gamma", "reg:tweedie"})


class _PUCModel(BaseEstimator):  # type: ignore[misc]
    """What both estimators share."""

    def __init__(
        self,
        *,
        optional: Any = None,
        engine: str = "lightgbm",
        augmentation: str = "balanced",
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
        """Return all parameters, those of the engine included.

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
            Names and values. They are checked by ``fit``.
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

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy; LightGBM's boosters forget their consent when they are copied."""
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        if hasattr(getattr(self, "booster_", None), "consent") and is_booster(self.booster_):
            new.booster_.consent, new.booster_.puc_summary = new.consent_, self.booster_.puc_summary
        return new

    # ----- fitting

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        eval_sample_weight: Any = None,
        early_stopping_rounds: int | None = None,
        callbacks: Any = None,
    ) -> Self:
        """Train on people as they come: NaN where something optional is withheld.

        Parameters
        ----------
        X
            A numpy array, a CSR matrix, or a pandas, polars or Arrow table.
        y
            Outcomes.
        sample_weight
            Weights. A row of weight 0 is left out, as if it were not there.
        eval_set
            A pair (X, y) or a list of pairs to validate on. They are augmented as the training data are; with
            ``valid_augmentation="none"`` in the constructor they are not.
        eval_X, eval_y
            The same as two arguments, each one thing or a tuple of several: a ``Pipeline(transform_input=["eval_X"])``
            transforms them.
        eval_sample_weight
            Weights of the validation people: a vector, or a list of them.
        early_stopping_rounds
            Overrides the constructor's.
        callbacks
            Callbacks of the engine.

        Returns
        -------
        self
        """
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        table, target = _read_both(self, X, y)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, target, dtype=np.float64, ensure_non_negative=True)
            table, target, weight = _without_weightless(table, target, weight)
        label = self._learn_target(target)
        source = row_source(table)
        consent = declare_optional(self.optional, source)

        patience = self.early_stopping_rounds if early_stopping_rounds is None else early_stopping_rounds
        pairs = _eval_pairs(eval_set, eval_X, eval_y, eval_sample_weight)
        if patience is not None and not pairs:
            raise ValueError("early_stopping_rounds needs eval_set, other people to validate on.")
        params, dataset_args = self._train_params(consent, patience)
        translated = to_xgboost(_engine_part(params)).params if self.engine == "xgboost" else params
        check_labels(objective_for(translated, self.engine), self.engine, label, "y")

        plain = self.engine == "lightgbm" and consent.n_groups == 0
        train_set = _dataset(table, source, label, weight, plain, dataset_args)
        valid_sets = [
            train_set if one.X is X and one.y is y else self._validation_set(one, source, plain) for one in pairs
        ]
        booster, record = _train(params, train_set, self.n_estimators, valid_sets, self.engine, list(callbacks or ()))
        self.consent_ = consent
        self._categories = source.categories
        if valid_sets:
            self.evals_result_ = record
        self.best_iteration_ = _rounds_used(trees_of(booster))
        self.booster_ = booster
        return self

    def _learn_target(self, y: Array) -> Array:
        """Return labels as the engine wants them; remember what is needed to do so again."""
        raise NotImplementedError

    def _encode(self, y: Any) -> Array:
        """Return labels of other people as the engine wants them."""
        raise NotImplementedError

    def _objective(self) -> dict[str, Any]:
        """Return the parameters that name the loss."""
        raise NotImplementedError

    def _validation_set(self, one: _EvalPair, trained_on: RowSource, plain: bool) -> Dataset:
        """Return one validation set, with the codes of the training table; types it takes from there."""
        try:
            table, target = _read_both(self, one.X, one.y, reset=False)
            weight = one.weight
            if weight is not None:
                weight = _check_sample_weight(weight, target, dtype=np.float64, ensure_non_negative=True)
            label = self._encode(target)
            source = row_source(table, trained_on.categories)
        except ValueError as error:
            raise ValueError(f"{one.name}: {error}") from error
        return _dataset(table, source, label, weight, plain, None)

    def _train_params(self, consent: Consent, patience: int | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parameters of :func:`pucboost.train`, and arguments of the Dataset, checked."""
        engine_named(self.engine)
        name = type(self).__name__
        _check_whole_number("n_estimators", self.n_estimators, 1)
        if self.num_leaves is not None:
            _check_whole_number("num_leaves", self.num_leaves, 2)
        if patience is not None:
            _check_whole_number("early_stopping_rounds", patience, 1)
        rate = self.learning_rate
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, Real) or not float(rate) > 0):
            raise ValueError(f"learning_rate must be a positive number, got {rate!r}.")
        further = {key: value for key, value in self._engine_params.items() if value is not None}
        for key in further:
            self._check_keyword(key, name)
        # LightGBM calls it a parameter, but it belongs to the Dataset, for both engines.
        dataset_args = {
            main: value for key, value in further.items() if (main := _MAIN_NAME.get(key)) == "categorical_feature"
        }
        further = {key: value for key, value in further.items() if _MAIN_NAME.get(key) not in dataset_args}
        if self.engine == "lightgbm" and not any(_MAIN_NAME.get(key) == "verbosity" for key in further):
            further["verbosity"] = -1
        params = {
            **further,
            **self._objective(),
            "engine": self.engine,
            "augmentation": self.augmentation,
            "copies": self.copies,
            "learning_rate": rate,
            "num_leaves": self.num_leaves,
            "seed": _seed(self.random_state),
            "num_threads": self._threads(),
            "early_stopping_round": patience,
        }
        if consent.n_groups:
            params["optional"] = consent
        return {key: value for key, value in params.items() if value is not None}, dataset_args

    def _check_keyword(self, key: str, name: str) -> None:
        main = _MAIN_NAME.get(key)
        if main in _NAMED:
            raise ValueError(f"{name} calls {key!r} {_NAMED[main]!r}; give it under that name.")
        if main == "num_class":
            raise ValueError(f"{key!r} is no parameter of {name}: the classes are those of y.")
        if self.engine != "lightgbm" or main is not None or key in OWN_KEYS:
            return  # XGBoost reports what it does not know
        close = difflib.get_close_matches(key, [*self._get_param_names(), *OWN_KEYS, *_MAIN_NAME], 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"Invalid parameter {key!r} for {name}: neither pucboost nor LightGBM knows it.{hint}")

    def _threads(self) -> int | None:
        if self.n_jobs is None:
            return None
        from joblib import effective_n_jobs  # type: ignore[import-untyped]

        return int(effective_n_jobs(self.n_jobs))

    # ----- predicting

    def _source(self, X: Any) -> RowSource:
        """Check a table against the one of ``fit`` and return its numbers, with the same codes for categories."""
        check_is_fitted(self)
        return row_source(_read_table(self, X, reset=False), self._categories)

    def _predict(self, X: Any, raw_score: bool = False) -> Array:
        source = self._source(X)
        reader = Reader(self.booster_, source, raw_score, self._threads(), consent=self.consent_)
        return np.asarray(reader.predict_masked(reader.shared), dtype=np.float64)

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
        source = self._source(X)
        if self.consent_.n_groups == 0:
            raise ValueError(
                f"This {type(self).__name__} was fitted with nothing optional, so there is nothing to quote but "
                "predict(X). Give optional to the constructor."
            )
        table = quote(self.booster_, source, subsets=subsets, raw_score=raw_score, num_threads=self._threads())
        if hasattr(X, "index") and hasattr(X, "columns"):
            table.index = X.index
        return table

    def audit(self, X: Any, y: Any, *, margin: float, **options: Any) -> AuditReport:
        """Say whether people who withhold data are treated as their remaining data justify.

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
        from .._auditing.estimate.losses import choose_loss
        from .._auditing.run import audit

        self._source(X)
        outcome, target = self._encode(y), self._target_class(options.get("target_class"))
        if self.consent_.n_groups == 0 or self._needs_own_predictions(target):
            # Through predict, which recodes categories and knows both classes; the loss still from the booster.
            chosen = choose_loss(options.get("loss", "auto"), options.get("alpha"), self.booster_, outcome)
            options |= {"loss": chosen.name, "alpha": chosen.alpha}
            if self.consent_.n_groups:
                options["optional"] = self.consent_
            return audit(self, X, y, margin=margin, **options)
        if isinstance(options.get("train_data"), (tuple, list)):
            train_X, train_y, *rest = options["train_data"]
            options["train_data"] = (train_X, self._encode(train_y), *rest)
        return audit(self.booster_, X, outcome, margin=margin, **{**options, "target_class": target})

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
        if is_booster(trees, "lightgbm"):
            gain = np.asarray(trees.feature_importance("gain"), dtype=np.float64)
        else:
            found = trees.get_score(importance_type="total_gain")
            names = trees.feature_names or [f"f{j}" for j in range(self.n_features_in_)]
            gain = np.array([found.get(name, 0.0) for name in names], dtype=np.float64)
        total = gain.sum()
        return gain / total if total > 0 else gain


class PUCClassifier(ClassifierMixin, _PUCModel):  # type: ignore[misc]
    """Classifier under Protected User Consent, for two classes or more.

    The probabilities approach P(Y = c | b, A ⊇ a, z_a): someone who shares the groups a is compared with everybody who
    shares *at least* a, their further data erased.

    Parameters
    ----------
    optional : list of columns, or dict group -> columns
        Columns people may withhold, by name or position, as in :class:`pucboost.Dataset`. Names need a table that has
        names: in a pipeline, let the steps before give one (``set_output(transform="pandas")``). A column that is not
        there is an error; positions are those of the table that arrives here. None or an empty list trains plainly.
    engine : {"lightgbm", "xgboost"}
        Which engine grows the trees. LightGBM's parameter names work for both.
    augmentation, copies
        Which virtual rows are trained on, as in :func:`pucboost.train`.
    n_estimators, learning_rate, num_leaves
        Trees (per class), step size, and leaves of a tree. None leaves the latter two to the engine.
    random_state : int, RandomState, Generator or None
        None means 0: two identical calls always give identical models.
    n_jobs : int or None
        Threads; None leaves it to the engine, negative numbers are as in joblib.
    objective : str or None
        ``"binary"`` or ``"multiclass"``, whichever y needs; ``"cross_entropy"`` and XGBoost's names for them.
    early_stopping_rounds : int or None
        Stop when the metric on ``eval_set`` has not improved for so many rounds. Of several sets LightGBM watches all,
        XGBoost the last one.
    **engine_params
        Further parameters of the engine (``min_child_samples``, ``reg_lambda``, ``metric``, …), of
        :func:`pucboost.train` (``valid_augmentation``, ``compact``, ``anchor``, …), or ``categorical_feature``, the
        categorical columns of an array. ``fit`` checks them.

    Attributes
    ----------
    booster_
        What :func:`pucboost.train` returned: a real ``lgb.Booster`` or ``xgb.Booster``.
    classes_ : array
        The labels, in the order of the columns of ``predict_proba``.
    consent_ : pucboost.Consent
        The consent schema; without groups if nothing is optional.
    best_iteration_ : int
        Number of rounds predictions use.
    evals_result_ : dict
        Metrics of the validation sets by round, if there were any.
    feature_importances_ : array
        Share of each feature in the total gain of all splits.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Missing values are allowed anywhere. DataFrames keep their categories, also when they are predicted on: the same
    category gets the same code, a new one is a missing value.

    ``score`` is scikit-learn's, on people as they come, and rewards inferences from silence. Choose models with
    :func:`pucboost.metrics.puc_scorer`.

    Examples
    --------
    >>> import pandas as pd, pucboost as puc
    >>> from pucboost.demo import insurance_family
    >>> family = insurance_family()
    >>> people = family.sample(500, seed=0)
    >>> X, y = pd.DataFrame(people.X, columns=family.feature_names), np.where(people.y == 1, "claim", "none")
    >>> model = puc.PUCClassifier(optional=["z1", "z2", "z3"], n_estimators=20, min_child_samples=5).fit(X, y)
    >>> model.classes_.tolist(), model.predict_proba(X).shape, model.consent_.group_names
    (['claim', 'none'], (500, 2), ('z1', 'z2', 'z3'))
    >>> model.quote(X.head(2)).columns.tolist()[:4]
    ['nothing', 'z1', 'z2', 'z1 + z2']
    """

    def _learn_target(self, y: Array) -> Array:
        check_classification_targets(y)
        encoder = LabelEncoder()
        label = encoder.fit_transform(y)
        if len(encoder.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 classes, but y has one class only (with positive weight): "
                f"{encoder.classes_[0]!r}."
            )
        self.classes_ = encoder.classes_
        return np.asarray(label)

    def _encode(self, y: Any) -> Array:
        encoder = LabelEncoder()
        encoder.classes_ = self.classes_
        return np.asarray(encoder.transform(np.asarray(y)))

    def _objective(self) -> dict[str, Any]:
        n_classes = len(self.classes_)
        objective = self.objective
        if objective is None:
            objective = "binary" if n_classes == 2 else "multiclass"
        allowed = _PROBABILITIES.get(objective.strip().lower()) if isinstance(objective, str) else None
        if allowed is None:
            raise ValueError(
                f"objective={objective!r} does not give probabilities of classes; {type(self).__name__} takes "
                f"{', '.join(map(repr, _PROBABILITIES))}."
            )
        if allowed == "two":
            if n_classes > 2:
                raise ValueError(f"objective={objective!r} is for two classes, but y has {n_classes}.")
            return {"objective": objective}
        return {"objective": objective, "num_class": n_classes}

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of every class.

        Parameters
        ----------
        X
            A table with the columns of training.

        Returns
        -------
        array of shape (people, classes)
        """
        p = self._predict(X)
        if p.ndim == 1:
            return np.column_stack([1 - p, p])
        return np.asarray(p / p.sum(axis=1, keepdims=True))  # XGBoost's are float32 and add up accordingly

    def predict(self, X: Any) -> Array:
        """Return the most probable class.

        Parameters
        ----------
        X
            A table with the columns of training.
        """
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    def decision_function(self, X: Any) -> Array:
        """Return raw scores: log-odds of ``classes_[1]``, or one score per class if there are more than two.

        Parameters
        ----------
        X
            A table with the columns of training.
        """
        raw = self._predict(X, raw_score=True)
        # Two classes under a loss for several: the difference of the scores is the log-odds.
        return np.asarray(raw[:, 1] - raw[:, 0]) if raw.ndim == 2 and raw.shape[1] == 2 else raw

    def quote(self, X: Any, *, subsets: Any = None, raw_score: bool = False) -> pd.DataFrame:
        table = super().quote(X, subsets=subsets, raw_score=raw_score)
        if table.columns.nlevels == 2:
            table.columns = table.columns.set_levels(self.classes_, level="class")  # type: ignore[attr-defined]
        return table

    quote.__doc__ = _PUCModel.quote.__doc__

    def _target_class(self, label: Any) -> int | None:
        if label is None:
            if len(self.classes_) > 2:
                raise ValueError(
                    f"The classifier has {len(self.classes_)} classes. Say which one to audit with target_class=…, one "
                    f"of {', '.join(map(repr, self.classes_.tolist()))}."
                )
            return None
        return int(self._encode([label])[0])

    def _needs_own_predictions(self, target: int | None) -> bool:
        return target is not None and len(self.classes_) == 2


class PUCRegressor(RegressorMixin, _PUCModel):  # type: ignore[misc]
    """Regressor under Protected User Consent.

    Predictions approach E[Y | b, A ⊇ a, z_a], or the loss-minimal value under the same condition: someone who shares
    the groups a is compared with everybody who shares *at least* a, their further data erased.

    Parameters
    ----------
    optional, engine, augmentation, copies, n_estimators, learning_rate, num_leaves, random_state, n_jobs, \
early_stopping_rounds, **engine_params
        As in :class:`PUCClassifier`.
    objective : str, callable or None
        The loss, ``"regression"`` by default; ``"poisson"``, ``"gamma"``, ``"tweedie"``, ``"quantile"`` (with
        ``alpha=0.9``, say), ``"regression_l1"`` and whatever else the engine knows. A function is called as in
        :func:`pucboost.train`, and predictions are then raw scores.

    Attributes
    ----------
    booster_, consent_, best_iteration_, evals_result_, feature_importances_, n_features_in_, feature_names_in_
        As in :class:`PUCClassifier`.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)); y = X[:, 0] + X[:, 2]
    >>> X[rng.random(500) < 1 / (1 + np.exp(-3 * X[:, 2])), 2] = np.nan     # the large values stay away
    >>> model = puc.PUCRegressor(optional=[2], n_estimators=20, reg_lambda=1.0).fit(X, y)
    >>> model.predict(X).shape, model.consent_.group_names
    ((500,), ('Column_2',))
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = isinstance(self.objective, str) and self.objective.lower() in _POSITIVE
        return tags

    def _learn_target(self, y: Array) -> Array:
        return y

    def _encode(self, y: Any) -> Array:
        return np.asarray(y, dtype=np.float64)

    def _objective(self) -> dict[str, Any]:
        return {"objective": "regression" if self.objective is None else self.objective}

    def predict(self, X: Any) -> Array:
        """Return predictions.

        Parameters
        ----------
        X
            A table with the columns of training.
        """
        return self._predict(X)


# ----- reading what fit is given


def _read_table(model: _PUCModel, X: Any, *, reset: bool) -> Any:
    """Return a table checked as scikit-learn does: arrays and sparse matrices converted, DataFrames left alone."""
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
    """Return a DataFrame whose names every version of scikit-learn sees; older ones only know those of pandas."""
    import narwhals.dependencies as nwd

    if nwd.is_pandas_dataframe(X):
        return X
    import narwhals as nw
    import pandas as pd

    return pd.DataFrame(columns=list(nw.from_native(X, eager_only=True).columns))


def _read_both(model: _PUCModel, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, Array]:
    """Return a table and its outcomes, checked."""
    if y is None:
        raise ValueError(f"This {type(model).__name__} estimator requires y to be passed, but the target y is None.")
    table = _read_table(model, X, reset=reset)
    target = _check_y(y, y_numeric=isinstance(model, RegressorMixin), estimator=model)
    check_consistent_length(table, target)
    return table, np.asarray(target)


def _without_weightless(table: Any, target: Array, weight: Array) -> tuple[Any, Array, Array]:
    if not weight.any():  # older versions of scikit-learn do not say so themselves
        raise ValueError("Sample weights must contain at least one non-zero number.")
    if weight.all():
        return table, target, weight
    keep = np.flatnonzero(weight)
    return rows_of(table, keep), target[keep], weight[keep]


def declare_optional(optional: Any, source: RowSource) -> Consent:
    """Return the consent schema of a table; one without groups if nothing is optional."""
    names = source.feature_names or [f"Column_{j}" for j in range(source.n_columns)]
    if not declares_something(optional):
        return Consent({}, tuple(names))
    if not isinstance(optional, Consent):
        check_positions(optional, source)
        for column in _declared_columns(optional):
            _check_column(column, source)
    return Consent.declare(optional, names)


def _declared_columns(optional: Any) -> list[Any]:
    """Return all columns of a declaration; what cannot be read is left for :meth:`Consent.declare` to refuse."""
    groups = list(optional.values()) if isinstance(optional, Mapping) else [optional]
    return [
        column
        for group in groups
        for column in ([group] if isinstance(group, (str, Integral)) or not hasattr(group, "__iter__") else group)
    ]


def _check_column(column: Any, source: RowSource) -> None:
    """Raise if a declared column is not in the table, in the words of someone who calls ``fit``."""
    n, names = source.n_columns, source.feature_names
    if isinstance(column, Integral) and not 0 <= int(column) < n:
        raise ValueError(f"optional names column {column}, but X has {n} feature(s), columns 0 to {n - 1}.")
    if not isinstance(column, str):
        return
    if names is None:
        raise ValueError(
            f"optional names column {column!r}, but X has no column names. Pass a DataFrame (in a pipeline, let the "
            "step before give one with set_output(transform='pandas')), or give positions instead of names."
        )
    if column not in names:
        renamed = [name for name in names if name.endswith(f"__{column}")]
        hint = f" {renamed[0]!r} may be it: set verbose_feature_names_out=False where it is made." if renamed else ""
        known = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        raise ValueError(f"optional names column {column!r}, which X does not have. Its columns are: {known}.{hint}")


@dataclass(frozen=True)
class _EvalPair:
    """One validation set as given, and how errors call it."""

    X: Any
    y: Any
    weight: Any
    name: str


def _eval_pairs(eval_set: Any, eval_X: Any, eval_y: Any, weights: Any) -> list[_EvalPair]:
    """Return the validation sets, however they were given."""
    if eval_set is not None:
        if eval_X is not None or eval_y is not None:
            raise ValueError("Give eval_set, or eval_X and eval_y, but not both.")
        a_pair = isinstance(eval_set, tuple) and not (eval_set and isinstance(eval_set[0], tuple))
        pairs = [eval_set] if a_pair else list(eval_set)
        for i, pair in enumerate(pairs):
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                got = f"{len(pair)} things" if isinstance(pair, (tuple, list)) else type(pair).__name__
                raise ValueError(f"eval_set must be a pair (X, y) or a list of pairs; item {i} is {got}.")
        names = [f"eval_set[{i}]" for i in range(len(pairs))]
    elif eval_X is not None or eval_y is not None:
        if eval_X is None or eval_y is None:
            raise ValueError("eval_X and eval_y belong together; one of them is missing.")
        tables = eval_X if isinstance(eval_X, tuple) else (eval_X,)
        targets = eval_y if isinstance(eval_y, tuple) else (eval_y,)
        if len(tables) != len(targets):
            raise ValueError(f"eval_X holds {len(tables)} tables, eval_y outcomes for {len(targets)}.")
        pairs = list(zip(tables, targets, strict=True))
        names = [f"eval_X[{i}]" for i in range(len(pairs))]
    else:
        if weights is not None:
            raise ValueError("eval_sample_weight needs eval_set.")
        return []
    if weights is None:
        weights = [None] * len(pairs)
    elif not isinstance(weights, (list, tuple)) or (weights and isinstance(weights[0], Real)):
        weights = [weights]
    if len(weights) != len(pairs):
        raise ValueError(f"eval_sample_weight has {len(weights)} items for {len(pairs)} validation sets.")
    return [_EvalPair(X, y, weight, name) for (X, y), weight, name in zip(pairs, weights, names, strict=True)]


# ----- training


def _check_whole_number(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")


def _seed(random_state: Any) -> int:
    if random_state is None:
        return 0
    if isinstance(random_state, Integral):
        return int(random_state)
    largest = np.iinfo(np.int32).max
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(largest))
    return int(check_random_state(random_state).randint(largest))


def _engine_part(params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key not in OWN_KEYS}


def _dataset(
    table: Any, source: RowSource, label: Array, weight: Array | None, plain: bool, args: dict[str, Any] | None
) -> Dataset:
    """Return the Dataset of a table; ``args`` are those of a training set.

    With nothing optional (``plain``) LightGBM reads the table itself. Of DataFrames it takes numbers and categories of
    pandas; others are handed over as numbers and codes.
    """
    import narwhals.dependencies as nwd

    if not plain or not is_frame(table) or (nwd.is_pandas_dataframe(table) and not source.never_numbers):
        return Dataset(table, label, weight=weight, **(args or {}))
    numbers, names = source.window(0, source.n_rows), source.feature_names or []
    if args is None:
        return Dataset(numbers, label, weight=weight)
    declared = [names.index(c) if isinstance(c, str) else c for c in args.get("categorical_feature", ())]
    categorical = sorted({*declared, *source.categorical})
    return Dataset(numbers, label, weight=weight, feature_name=names, categorical_feature=categorical)


def _train(
    params: dict[str, Any],
    train_set: Dataset,
    rounds: int,
    valid_sets: list[Dataset],
    engine: str,
    callbacks: list[Any],
) -> tuple[Any, dict[str, Any]]:
    """Return the booster, and the metrics of the validation sets by round."""
    record: dict[str, Any] = {}
    if engine == "lightgbm" and valid_sets:
        import lightgbm as lgb

        callbacks = [*callbacks, lgb.record_evaluation(record)]
    booster = train(params, train_set, int(rounds), valid_sets or None, callbacks=callbacks or None)
    if engine == "xgboost" and valid_sets:
        record = trees_of(booster).evals_result
    return booster, record


def _rounds_used(trees: Any) -> int:
    if is_booster(trees, "lightgbm"):
        return int(trees.best_iteration if trees.best_iteration > 0 else trees.current_iteration())
    best = trees.attr("best_iteration")
    return int(trees.num_boosted_rounds()) if best is None else int(best) + 1
