"""``puc.Dataset``."""

from __future__ import annotations

import inspect
from typing import Any

import lightgbm as lgb

from .._tables.names import did_you_mean

_KEYWORDS = tuple(inspect.signature(lgb.Dataset).parameters)


class Dataset(lgb.Dataset):
    """``lgb.Dataset`` that knows which of its columns are optional.

    Takes the arguments of ``lgb.Dataset``, and two more. With optional columns, ``data`` may hold text and categories
    in any DataFrame or Arrow table: they are read as categories, whether or not ``categorical_feature`` names them.
    (LightGBM's rule still applies to pandas categories: those it does not name are read as numbers.)

    Parameters
    ----------
    optional : list of columns, or dict group -> columns
        Columns people may withhold, by name or integer position. In a list every column is shared or withheld on its
        own; the columns of a group are shared or withheld together. At most 64 groups.
    available : bool matrix (rows × groups), optional
        Who shares which group. By default a group is shared if at least one of its columns has a value.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.array([[30.0, 9000.0, np.nan], [50.0, np.nan, 5.1]])
    >>> data = puc.Dataset(X, [0, 1], optional={"app": ["steps"], "blood": ["glucose"]},
    ...                    feature_name=["age", "steps", "glucose"])
    >>> data.optional
    {'app': ['steps'], 'blood': ['glucose']}
    """

    def __init__(
        self, data: Any, label: Any = None, *args: Any, optional: Any = None, available: Any = None, **kwargs: Any
    ):
        for name in kwargs:
            if name not in _KEYWORDS:
                hint = did_you_mean(name, ["optional", "available", *_KEYWORDS])
                raise TypeError(f"Dataset() got an unexpected keyword argument {name!r}.{hint}")
        super().__init__(data, label, *args, **kwargs)
        self.optional = optional
        self.available = available
