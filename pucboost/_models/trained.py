"""What ``train`` and ``load_model`` return, as a type checker sees it.

The models are the engines' own boosters, on which pucboost sets attributes. No class says so when the program runs, so
the classes here exist for type checkers only. ``consent`` and ``puc_summary`` are None where nothing is optional; the
``| Any`` spares everybody else a check for None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    import lightgbm as lgb
    import xgboost as xgb

    from .._arrays import Array
    from .._consent import Consent
    from .anchored import AnchoredModel
    from .schema import TrainingSummary

    class LightGBMBooster(lgb.Booster):
        """An ``lgb.Booster`` with its consent."""

        consent: Consent | Any
        puc_summary: TrainingSummary | Any

        @overload
        def predict(
            self,
            data: Any,
            start_iteration: int = ...,
            num_iteration: int | None = ...,
            raw_score: bool = ...,
            pred_leaf: bool = ...,
            pred_contrib: Literal[False] = ...,
            data_has_header: bool = ...,
            validate_features: bool = ...,
            **kwargs: Any,
        ) -> Array: ...
        @overload
        def predict(
            self,
            data: Any,
            start_iteration: int = ...,
            num_iteration: int | None = ...,
            raw_score: bool = ...,
            pred_leaf: bool = ...,
            pred_contrib: bool = ...,
            data_has_header: bool = ...,
            validate_features: bool = ...,
            **kwargs: Any,
        ) -> Any: ...
        def predict(self, *args: Any, **kwargs: Any) -> Any: ...

    class XGBoostBooster(xgb.Booster):
        """An ``xgb.Booster`` with its consent, and with the metrics of the validation sets."""

        consent: Consent | Any
        puc_summary: TrainingSummary | Any
        evals_result: dict[str, dict[str, list[float]]]

    class TrainedModel(LightGBMBooster, XGBoostBooster, AnchoredModel):  # type: ignore[misc]
        """A model of an engine that only the parameters or the file know: whatever one of the three has is allowed.

        What several of them have in different ways is not checked.
        """

        consent: Consent | Any
        puc_summary: TrainingSummary | Any
        best_iteration: Any
        best_score: Any
        current_iteration: Any
        dump_model: Any
        eval: Any
        feature_importance: Any
        feature_name: Any
        get_split_value_histogram: Any
        num_feature: Any
        num_trees: Any
        predict: Any
        save_model: Any
        trees_to_dataframe: Any
        update: Any
