"""What ``train`` and ``load_model`` return, as a type checker sees it.

The models are the engines' own boosters, with attributes that pucboost sets, or an ``AnchoredModel``. Which of them
depends on the parameters, which no checker reads, so the class here has whatever one of the three has. It does not
exist when the program runs. A union would refuse correct calls, and ``Any`` would offer no completion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    import lightgbm as lgb
    import xgboost as xgb

    from .._common import Array
    from .._consent import Consent
    from .anchored import AnchoredModel
    from .schema import TrainingSummary

    class TrainedModel(lgb.Booster, xgb.Booster, AnchoredModel):  # type: ignore[misc]
        """A booster with its consent. What several kinds of models have in different ways is not checked."""

        # None where nothing is optional; "| Any" spares everybody else a check for None.
        consent: Consent | Any
        puc_summary: TrainingSummary | Any
        evals_result: dict[str, dict[str, list[float]]]
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
        save_model: Any
        trees_to_dataframe: Any
        update: Any

        @overload  # type: ignore[override]
        def predict(self, data: Any, *args: Any, pred_contrib: Literal[True], **kwargs: Any) -> Any: ...
        @overload
        def predict(self, data: Any, *args: Any, **kwargs: Any) -> Array: ...
        def predict(self, data: Any, *args: Any, **kwargs: Any) -> Any: ...
