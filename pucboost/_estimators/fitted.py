"""What a fitted estimator answers: predictions, quotes, what sharing is worth, an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._arrays import Array
from .._consent import Consent
from .._engines import boosters_of
from .._models.anchored import trees_of
from .._models.files import save_model
from .._prediction.people import Unwrapped
from .._prediction.predictor import MaskedPredictor
from .._prediction.quotes import (
    DEFAULT_MAX_SUBSETS,
    Favourable,
    Sharing,
    best_predictions,
    check_sharing,
    favourable_sign,
    quote_subsets,
)
from .._prediction.sharing import Monotonicity, compare_with_less, sharing_values
from .._tables.containers import row_source
from .._tables.sources import RowSource
from .parameters import thread_count_of
from .reading import read_table

if TYPE_CHECKING:
    import pandas as pd

    from .._auditing.results import AuditReport
    from .._auditing.settings import AuditKeywords


class FittedModel:
    """The methods of both estimators that need a fitted model."""

    booster_: Any
    consent_: Consent
    n_jobs: int | None
    _categories: Any

    def _encode(self, y: Any) -> Array:
        """Return labels of other people as the engine expects them."""
        raise NotImplementedError

    def _threads(self) -> int | None:
        return thread_count_of(self.n_jobs)

    def _table(self, X: Any) -> tuple[Any, RowSource]:
        """Check a table against that of ``fit``; return it and its source, with the same codes for categories."""
        check_is_fitted(self)
        table = read_table(self, X, reset=False)
        return table, row_source(table, self._categories)

    def _predictor(self, X: Any, *, raw_score: bool = False, target_class: Any = None) -> MaskedPredictor:
        return self._predictor_for(*self._table(X), raw_score, target_class)

    def _predictor_for(self, table: Any, source: RowSource, raw_score: bool, target_class: Any) -> MaskedPredictor:
        return MaskedPredictor(
            self.booster_,
            source,
            raw_score=raw_score,
            num_threads=self._threads(),
            consent=self.consent_,
            target_class=self._class_number(target_class),
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
            raise ValueError(
                "sharing='best' needs favourable: say whether people prefer a 'lower' or a 'higher' "
                f"{self._predicts()}."
            )
        sign = favourable_sign("lower" if favourable is None else favourable)
        table, source = self._table(X)
        predictor = self._predictor_for(table, source, raw_score, None)
        if sharing != "as_given":
            self._check_something_optional(f"sharing={sharing!r} would change nothing")
        used = predictor.shared if sharing == "as_given" else np.zeros_like(predictor.shared)
        if sharing == "best":
            one_class = target_class is not None
            judged = self._predictor_for(table, source, raw_score, target_class) if one_class else predictor
            used = best_predictions(judged, sign, DEFAULT_MAX_SUBSETS)[1]
        return np.asarray(predictor.everybody(used), dtype=np.float64)

    def _predicts(self) -> str:
        """Return what a prediction is, in words."""
        classes = getattr(self, "classes_", np.empty(0)).tolist()
        return f"probability of {classes[1]!r}" if len(classes) == 2 else "prediction"

    def _class_number(self, target_class: Any) -> int | None:
        """Return the number of a class in the predictions of the booster."""
        return Unwrapped(None, None, getattr(self, "classes_", None)).class_number(target_class)

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
        return _with_index_of(X, quote_subsets(predictor, subsets))

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
        return _with_index_of(X, sharing_values(predictor))

    def monotonicity(self, X: Any, *, favourable: Favourable = "lower", target_class: Any = None) -> Monotonicity:
        """Measure how often, and by how much, sharing makes predictions less favourable.

        Parameters
        ----------
        X, favourable
            As in :func:`pucboost.monotonicity`.
        target_class
            As in :meth:`sharing_value`.

        Returns
        -------
        Monotonicity
            As :func:`pucboost.monotonicity` returns it.
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
            # Audit predict, which recodes categories and knows both classes; the loss still comes from the booster.
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
        gain = boosters_of(trees).gains(trees)
        total = gain.sum()
        return gain / total if total > 0 else gain


def _with_index_of(X: Any, table: pd.DataFrame) -> pd.DataFrame:
    if hasattr(X, "index") and hasattr(X, "columns"):
        table.index = X.index
    return table
