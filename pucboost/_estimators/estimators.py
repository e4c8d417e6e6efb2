"""``PUCClassifier`` and ``PUCRegressor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .._common import Array
from .._consent import OptionalColumns
from .._engines import DEFAULT_ENGINE, EngineName
from .._engines.base import Output
from .._engines.translation import loss_name
from .._losses import per_unit
from .._models.schema import Favourable
from .._not_applicable import NotApplicable
from .._prediction.predictor import Sharing
from .._tables.sources import as_exposure
from .._virtual.plan import Augmentation
from .base import ImportanceType, OfLabels, PUCModel, eval_pairs

if TYPE_CHECKING:
    import pandas as pd


_PROBABILITIES = ("binary", "cross_entropy", "multiclass")
"""Objectives whose predictions are the probabilities of classes; the first two are for two classes."""

_ROUNDING = 1e-12
"""How far sums of doubles may be from 1."""

_POSITIVE = ("poisson", "gamma", "tweedie")
"""Objectives for outcomes that are not negative."""


class PUCClassifier(ClassifierMixin, PUCModel):  # type: ignore[misc]
    """Classifier under Protected User Consent, for two classes or more.

    The probabilities approach P(Y = c | b, A ⊇ a, z_a): someone who shares the groups a is compared with everybody who
    shares *at least* a, their further data erased.

    Parameters
    ----------
    optional : list of columns, or dict group -> columns
        Columns people may withhold, by name or position, as in :class:`pucboost.Dataset`. Names need a table that has
        names: in a pipeline, let the previous steps return one (``set_output(transform="pandas")``). A missing column
        is an error. Positions refer to the table that arrives here. None or an empty list means plain training.
    not_applicable : dict or None
        Where optional columns do not apply, as values or rules, as in :class:`pucboost.Dataset`. Flags belong to a
        table: write :data:`pucboost.NOT_APPLICABLE` into it.
    engine : {"lightgbm", "xgboost", "native", "auto"}
        Which engine grows the trees, as in :func:`pucboost.train`. LightGBM's parameter names work for all.
    augmentation, copies
        Which virtual rows are trained on, as in :func:`pucboost.train`.
    n_estimators, learning_rate, num_leaves
        Number of trees (per class), step size, and leaves per tree. None leaves the last two to the engine.
    random_state : int, RandomState, Generator or None
        None means 0: two identical calls always give identical models.
    n_jobs : int or None
        Threads; None leaves the number to the engine, and negative numbers mean the same as in joblib.
    objective : str or None
        ``"binary"``, ``"multiclass"``, ``"cross_entropy"``, or XGBoost's name for one of them. None chooses
        ``"binary"`` or ``"multiclass"``, whichever y needs.
    early_stopping_rounds : int or None
        Stop when the metric on ``eval_set`` has not improved for this many rounds. With several sets, LightGBM watches
        all of them and XGBoost the last one.
    favourable : {"lower", "higher"} or None
        Which predictions people prefer: for two classes, a lower or a higher probability of ``classes_[1]``. The model
        keeps it for ``sharing="best"``, ``sharing_effects``, letters and audits.
    importance_type : {"split", "gain"} or None
        What ``feature_importances_`` are: numbers of splits, their total gains, or (None) shares in the total gain.
    class_weight : dict, "balanced" or None
        Weights of the classes, as in ``LGBMClassifier``: label → weight, or weights so that every class counts as much
        as any other. They are computed from people, never from their copies, and multiply ``sample_weight``. They do
        not apply to validation people, for whom ``fit`` takes ``eval_class_weight``. Probabilities are then those of a
        population in which classes are as frequent as the weights make them, and an audit, which compares them with
        the people as they are, says so.
    **engine_params
        Further parameters of the engine (``min_child_samples``, ``reg_lambda``, ``metric``, …), of
        :func:`pucboost.train` (``compact``, ``calibrate_masks``, ``anchor``, ``expect_shared``, …; the classes of an
        anchor must be the labels in y), or ``categorical_feature``, the categorical columns of an array. ``fit`` checks
        them, and warns of those that neither knows.

    Attributes
    ----------
    booster_
        What :func:`pucboost.train` returned: a real ``lgb.Booster`` or ``xgb.Booster``, or an anchored model.
    classes_ : array
        The labels, in the order of the columns of ``predict_proba``.
    consent_ : pucboost.Consent
        The consent schema; without groups if nothing is optional.
    best_iteration_ : int
        Number of rounds that predictions use.
    evals_result_, best_score_ : dict
        Metrics of the validation sets by round, and those of the round ``best_iteration_``; empty without any sets.
    feature_importances_ : array
        Share of each feature in the total gain of all splits, or what ``importance_type`` says.
    objective_ : str or callable
        The loss.
    n_iter_, n_estimators_ : int
        Number of rounds of the booster.
    feature_name_ : list
        Names of the columns.
    n_classes_, n_features_
        How many classes and columns there are.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Missing values are allowed anywhere. Categories in DataFrames keep their meaning at prediction: the same category
    gets the same code, and a new one counts as missing.

    ``score`` is scikit-learn's. It is computed on the raw table and rewards inferences from silence. Choose models with
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

    classes_: Array

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
        class_weight: Any = None,
        **engine_params: Any,
    ) -> None:
        super().__init__(
            optional=optional,
            not_applicable=not_applicable,
            engine=engine,
            augmentation=augmentation,
            copies=copies,
            n_estimators=n_estimators,
            learning_rate=learning_rate,
            num_leaves=num_leaves,
            random_state=random_state,
            n_jobs=n_jobs,
            objective=objective,
            early_stopping_rounds=early_stopping_rounds,
            favourable=favourable,
            importance_type=importance_type,
            **engine_params,
        )
        self.class_weight = class_weight

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        init_score: Any = None,
        eval_set: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        eval_names: Any = None,
        eval_sample_weight: Any = None,
        eval_class_weight: Any = None,
        eval_init_score: Any = None,
        eval_metric: Any = None,
        early_stopping_rounds: int | None = None,
        categorical_feature: Any = "auto",
        callbacks: Any = None,
        init_model: Any = None,
    ) -> Self:
        """Train on a table of people, with NaN where something optional is withheld.

        Parameters
        ----------
        X
            A numpy array, a CSR matrix, or a pandas, polars or Arrow table.
        y
            Outcomes.
        sample_weight
            Weights. Rows of weight 0 are left out.
        init_score
            Scores that the trees start from, one per person, or one per person and class; predictions do not contain
            them. They are not masked, so make them from base features.
        eval_set
            A pair (X, y) or a list of pairs to validate on. They are augmented like the training data, unless the
            constructor was given ``valid_augmentation="none"``.
        eval_X, eval_y
            The same as two arguments, each a single table or vector, or a tuple of several. A
            ``Pipeline(transform_input=["eval_X"])`` transforms the tables.
        eval_names
            Names of the validation sets in results.
        eval_sample_weight, eval_init_score
            Weights and initial scores of the validation people: a vector, or a list of them.
        eval_class_weight
            ``"balanced"`` or label → weight for the validation people, for all sets or as a list.
        eval_metric
            A metric, or a list of them, in addition to those in the constructor's parameters (with LightGBM's trees,
            also to the loss): names, or functions of (y_true, y_pred) or (y_true, y_pred, weight) that return name,
            value and whether higher is better. They see the virtual rows, and ``weight`` is what makes these stand for
            people, so give it a use. Classes are numbers to them, their places in ``classes_``.
        early_stopping_rounds
            Overrides the constructor's.
        categorical_feature
            The categorical columns of an array; overrides the constructor's.
        callbacks
            Callbacks for the engine.
        init_model
            A model to continue: a fitted estimator with the same classes, a booster or a file. It must have been
            trained under the same consent; of a model without any, what its trees learned from silence stays, and
            ``fit`` warns.

        Returns
        -------
        self
        """
        evals = eval_pairs(
            eval_set, eval_X, eval_y, sample_weight=eval_sample_weight, init_score=eval_init_score,
            class_weight=eval_class_weight, shown=eval_names,
        )  # fmt: skip
        return self._fit(
            X, y, sample_weight, evals, early_stopping_rounds, callbacks, init_score=init_score, init_model=init_model,
            eval_metric=eval_metric, categorical_feature=categorical_feature,
        )  # fmt: skip

    @property
    def n_classes_(self) -> int:
        """The number of classes."""
        check_is_fitted(self)
        return len(self.classes_)

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
        loss = loss_name(objective)
        if loss not in _PROBABILITIES:
            raise ValueError(
                f"objective={objective!r} does not give class probabilities; {type(self).__name__} takes "
                f"{', '.join(map(repr, _PROBABILITIES))} and other engines' names for them."
            )
        if loss != "multiclass":
            if n_classes > 2:
                raise ValueError(f"objective={objective!r} is for two classes, but y has {n_classes}.")
            return {"objective": objective}
        return {"objective": objective, "num_class": n_classes}

    def predict_proba(
        self,
        X: Any,
        raw_score: bool = False,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        *,
        sharing: Sharing = "as_given",
        favourable: Favourable | None = None,
        target_class: Any = None,
    ) -> Array:
        """Return the probability of every class.

        Parameters
        ----------
        X
            A table with the columns of training.
        raw_score
            Return raw scores, as ``LGBMClassifier`` does: log-odds for two classes, else one column per class.
        start_iteration, num_iteration
            Predict with these rounds only; by default with those up to ``best_iteration_``.
        pred_leaf, pred_contrib
            Return the leaf in each tree, or what each column adds to the raw score, in the order of ``feature_name_``,
            and last the constant; with several classes, class after class. A text column is one column.
        sharing, favourable
            Which of the data that people share are used, as in :func:`pucboost.predict`. With ``sharing="best"``, those
            that give the lowest (or highest) probability of ``target_class``. It depends on the labels which of the two
            people prefer, so ``favourable`` must then be given, here or to the constructor.
        target_class
            With more than two classes, the class that ``sharing="best"`` looks at, one of ``classes_``. With two
            classes it is ``classes_[1]``.

        Returns
        -------
        array of shape (people, classes)
        """
        output = Output(raw_score, start_iteration, num_iteration, pred_leaf, pred_contrib)
        p = self._predict(X, output, sharing=sharing, favourable=favourable, target_class=target_class)
        if raw_score or pred_leaf or pred_contrib:
            return p
        if p.ndim == 1:
            return np.column_stack([1 - p, p])
        total = p.sum(axis=1, keepdims=True)
        # XGBoost's are float32 and do not add up to 1 exactly. Those of an anchor do, and must not change.
        return np.asarray(np.where(np.abs(total - 1) < _ROUNDING, p, p / total))

    def predict(
        self,
        X: Any,
        raw_score: bool = False,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        *,
        sharing: Sharing = "as_given",
        favourable: Favourable | None = None,
        target_class: Any = None,
    ) -> Array:
        """Return the most probable class.

        Parameters
        ----------
        X
            A table with the columns of training.
        raw_score, start_iteration, num_iteration, pred_leaf, pred_contrib, sharing, favourable, target_class
            As in :meth:`predict_proba`, which also returns raw scores, leaves and contributions.
        """
        given = (raw_score, start_iteration, num_iteration, pred_leaf, pred_contrib)
        rule = {"sharing": sharing, "favourable": favourable, "target_class": target_class}
        found = self.predict_proba(X, *given, **rule)
        return found if raw_score or pred_leaf or pred_contrib else np.asarray(self.classes_[np.argmax(found, axis=1)])

    def decision_function(self, X: Any) -> Array:
        """Return raw scores: log-odds of ``classes_[1]``, or one score per class if there are more than two.

        Parameters
        ----------
        X
            A table with the columns of training.
        """
        raw = self._predict(X, Output(raw_score=True))
        # With two classes and a loss for several, the difference of the scores is the log-odds.
        return np.asarray(raw[:, 1] - raw[:, 0]) if raw.ndim == 2 and raw.shape[1] == 2 else raw

    def _with_classes(self, quotes: pd.DataFrame) -> pd.DataFrame:
        if quotes.columns.nlevels == 2:
            quotes.columns = quotes.columns.set_levels(self.classes_, level="class")  # type: ignore[attr-defined]
        return quotes

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


class PUCRegressor(RegressorMixin, PUCModel):  # type: ignore[misc]
    """Regressor under Protected User Consent.

    Predictions approach E[Y | b, A ⊇ a, z_a], or the loss-minimal value under the same condition: someone who shares
    the groups a is compared with everybody who shares *at least* a, their further data erased.

    Parameters
    ----------
    optional, not_applicable, engine, augmentation, copies, n_estimators, learning_rate, num_leaves, random_state, \
n_jobs, early_stopping_rounds, favourable, importance_type, **engine_params
        As in :class:`PUCClassifier`.
    objective : str, callable or None
        The loss: ``"regression"`` (default), ``"poisson"``, ``"gamma"``, ``"tweedie"``, ``"quantile"`` (with
        ``alpha=0.9``, say), ``"regression_l1"``, or any other objective of the engine. A function of (y_true, y_pred)
        or (y_true, y_pred, weight) returns gradient and hessian, as in ``LGBMRegressor``; predictions are then raw
        scores.

    Attributes
    ----------
    booster_, consent_, best_iteration_, best_score_, evals_result_, feature_importances_, objective_, n_iter_, \
n_estimators_, feature_name_, n_features_, n_features_in_, feature_names_in_
        As in :class:`PUCClassifier`.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)); y = X[:, 0] + X[:, 2]
    >>> X[rng.random(500) < 1 / (1 + np.exp(-3 * X[:, 2])), 2] = np.nan     # large values tend to be withheld
    >>> model = puc.PUCRegressor(optional=[2], n_estimators=20, reg_lambda=1.0).fit(X, y)
    >>> model.predict(X).shape, model.consent_.group_names
    ((500,), ('Column_2',))

    Claims over years insured, and claims per year:

    >>> years = rng.uniform(0.1, 1, 500); claims = rng.poisson(years * np.exp(X[:, 0]))
    >>> frequency = puc.PUCRegressor(optional=[2], objective="poisson", n_estimators=20).fit(X, claims, exposure=years)
    >>> bool(abs((years * frequency.predict(X)).sum() / claims.sum() - 1) < 0.05)
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = loss_name(self.objective) in _POSITIVE
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        exposure: Any = None,
        init_score: Any = None,
        eval_set: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        eval_names: Any = None,
        eval_sample_weight: Any = None,
        eval_exposure: Any = None,
        eval_init_score: Any = None,
        eval_metric: Any = None,
        early_stopping_rounds: int | None = None,
        categorical_feature: Any = "auto",
        callbacks: Any = None,
        init_model: Any = None,
    ) -> Self:
        """Train on a table of people, with NaN where something optional is withheld.

        Parameters
        ----------
        X, y, sample_weight, init_score, eval_set, eval_X, eval_y, eval_names, eval_sample_weight, eval_init_score, \
eval_metric, early_stopping_rounds, categorical_feature, callbacks, init_model
            As in :meth:`PUCClassifier.fit`.
        exposure
            What the outcomes add up over, for ``objective="poisson"``, ``"gamma"`` or ``"tweedie"``, as in
            :class:`pucboost.Dataset`: ``y`` are then totals, and predictions are per unit of exposure. It must be known
            for everybody, whether or not they share.
        eval_exposure
            Exposures of the validation people: a vector, or a list of them.

        Returns
        -------
        self
        """
        evals = eval_pairs(
            eval_set, eval_X, eval_y, sample_weight=eval_sample_weight, exposure=eval_exposure,
            init_score=eval_init_score, shown=eval_names,
        )  # fmt: skip
        return self._fit(
            X, y, sample_weight, evals, early_stopping_rounds, callbacks, init_score=init_score, init_model=init_model,
            eval_metric=eval_metric, categorical_feature=categorical_feature, exposure=exposure,
        )  # fmt: skip

    def score(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> float:
        """Return scikit-learn's R²; with an exposure that of the rates ``y / exposure``, weighted by exposure.

        Parameters
        ----------
        X, y, sample_weight
            As in scikit-learn.
        exposure
            As in ``fit``.
        """
        if exposure is not None:
            outcome = self._encode(y)
            units = as_exposure(exposure, "exposure", len(outcome))
            weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
            y, sample_weight = per_unit(outcome, weight, units)
        return float(super().score(X, y, sample_weight))

    def _learn_target(self, y: Array) -> Array:
        return y

    def _encode(self, y: Any) -> Array:
        return np.asarray(y, dtype=np.float64)

    def _objective(self) -> dict[str, Any]:
        given = self.objective
        return {
            "objective": "regression" if given is None else OfLabels(given, "objective") if callable(given) else given
        }

    def predict(
        self,
        X: Any,
        raw_score: bool = False,
        start_iteration: int = 0,
        num_iteration: int | None = None,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        *,
        sharing: Sharing = "as_given",
        favourable: Favourable | None = None,
    ) -> Array:
        """Return predictions.

        Parameters
        ----------
        X
            A table with the columns of training.
        raw_score, start_iteration, num_iteration, pred_leaf, pred_contrib
            As in :meth:`PUCClassifier.predict_proba`.
        sharing, favourable
            Which of the data that people share are used, as in :func:`pucboost.predict`: ``sharing="best"`` gives
            everybody the most favourable prediction over all subsets of what they share; ``favourable`` must then be
            given, here or to the constructor.
        """
        output = Output(raw_score, start_iteration, num_iteration, pred_leaf, pred_contrib)
        return self._predict(X, output, sharing=sharing, favourable=favourable)
