"""LightGBM boosters that keep their consent schema, and refuse what would silently undo the protection.

This module is apart from ``lightgbm_boosters`` because it loads LightGBM.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb

from .._persistence import pickled
from .._tables.files import write_whole
from .._tables.sources import column_names, is_frame, without_mask
from .lightgbm_dataset import VirtualDataset
from .lightgbm_text import sealed, with_schema


class ProtectedBooster(lgb.Booster):
    """What ``train`` returns: an ``lgb.Booster`` whose text, files, pickles and copies hold the consent schema.

    ``refit`` and ``update`` on raw rows would let the trees learn from silence. They raise instead of warning,
    because the result would look like any other model; ``lgb.Booster.refit(booster, …)`` remains for those who want it.
    """

    puc_schema: dict[str, Any]
    """Consent and summary as plain data."""

    def model_to_string(self, *args: Any, **kwargs: Any) -> str:
        """Return LightGBM's text with the consent schema among the parameters."""
        return with_schema(super().model_to_string(*args, **kwargs), self.puc_schema)

    def save_model(self, filename: Any, *args: Any, **kwargs: Any) -> ProtectedBooster:
        """Write LightGBM's model file, with the consent schema among the parameters."""
        write_whole(Path(filename), sealed(self.model_to_string(*args, **kwargs)).encode())
        return self

    def predict(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Return LightGBM's predictions; raise if a table has the columns of training in another order.

        LightGBM reads columns by position, whatever their names are: withheld values would be read as base columns.
        """
        data = without_mask(data)
        names = column_names(data) if is_frame(data) else []
        trained = [str(name) for name in getattr(getattr(self, "consent", None), "feature_names", ())]
        if names != trained and sorted(names) == sorted(trained):
            raise ValueError(
                f"The columns are in another order than in training: {', '.join(names[:5])} …, but LightGBM expects "
                f"{', '.join(trained[:5])} …, and reads them by position. Use pucboost.predict, which goes by names, "
                "or select the columns in the order of booster.consent.feature_names."
            )
        return super().predict(data, *args, **kwargs)

    def refit(self, *args: Any, **kwargs: Any) -> lgb.Booster:
        """Raise: leaves that are fitted to rows as they are learn what silence says."""
        raise TypeError(
            "booster.refit would fit the leaves to the rows as they are, so they would learn what silence says. Use "
            "pucboost.refit(booster, X, y), which refits them on virtual rows and keeps the protection. If you want to "
            "lose it, call lgb.Booster.refit(booster, X, y)."
        )

    def update(self, train_set: lgb.Dataset | None = None, *args: Any, **kwargs: Any) -> bool:
        """Grow one more tree on the virtual rows that were kept; raise for any other Dataset."""
        if train_set is not None and not isinstance(train_set, VirtualDataset):
            raise TypeError(
                "booster.update would grow a tree on the rows as they are, and it would learn what silence says. Use "
                "pucboost.train(params, train_set, rounds, init_model=booster). If you want to lose the protection, "
                "call lgb.Booster.update(booster, train_set)."
            )
        if train_set is None and getattr(self, "train_set", None) is None:
            raise TypeError(
                "booster.update has no data to grow a tree on: the booster did not keep them. Use "
                "pucboost.train(params, train_set, rounds, init_model=booster)."
            )
        return bool(super().update(train_set, *args, **kwargs))

    def __deepcopy__(self, *args: Any, **kwargs: Any) -> ProtectedBooster:
        new: Any = super().__deepcopy__(*args, **kwargs)
        for name in ("puc_schema", "consent", "puc_summary", "best_iteration", "best_score"):
            if hasattr(self, name):
                setattr(new, name, getattr(self, name))
        new.__class__ = type(self)
        return new  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return pickled("LightGBMBooster", self.__getstate__())


# Tools such as MLflow look at the name of a class, not at what it is derived from.
for name in ("__module__", "__name__", "__qualname__"):
    setattr(ProtectedBooster, name, getattr(lgb.Booster, name))
