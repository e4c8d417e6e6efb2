"""``PUCClassifier``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.multiclass import check_classification_targets

from .._arrays import Array
from .._engines.translation.words import loss_name
from .base import PUCModel

if TYPE_CHECKING:
    import pandas as pd

_PROBABILITIES = ("binary", "cross_entropy", "multiclass")
"""Objectives whose predictions are the probabilities of classes; the first two are for two classes."""


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
    engine : {"lightgbm", "xgboost"}
        Which engine grows the trees. LightGBM's parameter names work for both.
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
    **engine_params
        Further parameters of the engine (``min_child_samples``, ``reg_lambda``, ``metric``, …), of
        :func:`pucboost.train` (``compact``, ``anchor``, ``expect_shared``, ``training_sketch``, …), or
        ``categorical_feature``, the categorical columns of an array. ``fit`` checks them.

    Attributes
    ----------
    booster_
        What :func:`pucboost.train` returned: a real ``lgb.Booster`` or ``xgb.Booster``.
    classes_ : array
        The labels, in the order of the columns of ``predict_proba``.
    consent_ : pucboost.Consent
        The consent schema; without groups if nothing is optional.
    best_iteration_ : int
        Number of rounds that predictions use.
    evals_result_ : dict
        Metrics of the validation sets by round, if there were any.
    feature_importances_ : array
        Share of each feature in the total gain of all splits.
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
        self, X: Any, *, sharing: str = "as_given", favourable: str = "lower", target_class: Any = None
    ) -> Array:
        """Return the probability of every class.

        Parameters
        ----------
        X
            A table with the columns of training.
        sharing, favourable
            Which of the data that people share are used, as in :func:`pucboost.predict`. With ``sharing="best"``, those
            that give the lowest (or highest) probability of ``target_class``.
        target_class
            With more than two classes, the class that ``sharing="best"`` looks at, one of ``classes_``. With two
            classes it is ``classes_[1]``.

        Returns
        -------
        array of shape (people, classes)
        """
        p = self._predict(X, sharing=sharing, favourable=favourable, target_class=target_class)
        if p.ndim == 1:
            return np.column_stack([1 - p, p])
        return np.asarray(p / p.sum(axis=1, keepdims=True))  # XGBoost's are float32 and do not add up to 1 exactly

    def predict(
        self, X: Any, *, sharing: str = "as_given", favourable: str = "lower", target_class: Any = None
    ) -> Array:
        """Return the most probable class.

        Parameters
        ----------
        X
            A table with the columns of training.
        sharing, favourable, target_class
            As in :meth:`predict_proba`.
        """
        rule = {"sharing": sharing, "favourable": favourable, "target_class": target_class}
        best = np.argmax(self.predict_proba(X, **rule), axis=1)
        return np.asarray(self.classes_[best])

    def decision_function(self, X: Any) -> Array:
        """Return raw scores: log-odds of ``classes_[1]``, or one score per class if there are more than two.

        Parameters
        ----------
        X
            A table with the columns of training.
        """
        raw = self._predict(X, raw_score=True)
        # With two classes and a loss for several, the difference of the scores is the log-odds.
        return np.asarray(raw[:, 1] - raw[:, 0]) if raw.ndim == 2 and raw.shape[1] == 2 else raw

    def quote(self, X: Any, *, subsets: Any = None, raw_score: bool = False) -> pd.DataFrame:
        table = super().quote(X, subsets=subsets, raw_score=raw_score)
        if table.columns.nlevels == 2:
            table.columns = table.columns.set_levels(self.classes_, level="class")  # type: ignore[attr-defined]
        return table

    quote.__doc__ = PUCModel.quote.__doc__

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
