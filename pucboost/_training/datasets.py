"""``puc.Dataset``."""

from __future__ import annotations

import inspect
from typing import Any

import lightgbm as lgb

from .._tables.names import did_you_mean

_KEYWORDS = tuple(inspect.signature(lgb.Dataset).parameters)


class Dataset(lgb.Dataset):
    """``lgb.Dataset`` that knows which of its columns are optional.

    Takes the arguments of ``lgb.Dataset``, and three more. With optional columns, ``data`` may hold text and categories
    in any DataFrame or Arrow table: they are read as categories, whether or not ``categorical_feature`` names them.
    (LightGBM's rule still applies to pandas categories: those it does not name are read as numbers.)

    Parameters
    ----------
    optional : list of columns, or dict group -> columns
        Columns people may withhold, by name or integer position. In a list every column is shared or withheld on its
        own; the columns of a group are shared or withheld together. At most 64 groups.
    available : bool matrix (rows × groups), optional
        Who shares which group. By default a group is shared if at least one of its columns has a value.
    exposure : one number per row, optional
        What the labels add up over, for Poisson, gamma and Tweedie: years insured for numbers or amounts of claims,
        numbers of claims for amounts. Then ``label`` are totals, and the model predicts per unit of exposure: training
        is that on the labels Y/e with the weights w·e. Exposures must be above 0, and known for everybody, whether or
        not they share.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.array([[30.0, 9000.0, np.nan], [50.0, np.nan, 5.1]])
    >>> data = puc.Dataset(X, [0, 1], optional={"app": ["steps"], "blood": ["glucose"]},
    ...                    feature_name=["age", "steps", "glucose"])
    >>> data.optional
    {'app': ['steps'], 'blood': ['glucose']}

    One claim in half a year and three in two years, with a label that is a total:

    >>> claims = puc.Dataset(X, [1, 3], exposure=[0.5, 2.0], optional=[1, 2])
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        *args: Any,
        optional: Any = None,
        available: Any = None,
        exposure: Any = None,
        **kwargs: Any,
    ):
        for name in kwargs:
            if name not in _KEYWORDS:
                hint = did_you_mean(name, ["optional", "available", "exposure", *_KEYWORDS])
                raise TypeError(f"Dataset() got an unexpected keyword argument {name!r}.{hint}")
        super().__init__(data, label, *args, **kwargs)
        self.optional = optional
        self.available = available
        self.exposure = exposure


def whole_of(dataset: lgb.Dataset) -> lgb.Dataset | None:
    """Return the Dataset of which this is a subset of rows; None if it is none."""
    return None if dataset.used_indices is None else dataset.reference


def field_of(dataset: lgb.Dataset, name: str) -> Any:
    """Return label or weight; on a constructed Dataset ``set_field`` may have set it."""
    return getattr(dataset, name) if dataset._handle is None else dataset.get_field(name)
