"""What pucboost warns of. Filter a category with ``warnings.filterwarnings`` of the standard library."""

from __future__ import annotations

__all__ = ["EncodedSilenceWarning", "IdentifyingTextWarning", "PickledByAnotherVersionWarning", "ProtectionLostWarning"]


def __dir__() -> list[str]:
    return sorted(__all__)


class EncodedSilenceWarning(UserWarning):
    """Silence seems to be imputed or encoded in the training table, so that the silent are not protected.

    Whoever withholds something must have no value there: NaN, null or None. An imputer, a ``-999``, a word such as
    "prefer not to say" or a one-hot column ``c_nan`` look like shared data, and the model learns what they say about
    the silent. ``train``, ``cv``, ``augment`` and the estimators warn once per call and list all that they find; audits
    repeat it.

    If all is well, parameters of ``params``, of ``augment`` or of an estimator tell so by name:
    ``expect_shared=[groups]`` if every value of these groups was really shared, ``expect_revealing=[columns]`` for base
    columns that must stay although they tell who withholds. Or turn off all of these warnings:
    ``warnings.filterwarnings("ignore", category=puc.warnings.EncodedSilenceWarning)``.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(5, 1, size=(500, 2)); y = X.sum(axis=1)
    >>> X[rng.random(500) < 0.3, 1] = -999                            # should be NaN
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = puc.PUCRegressor(optional=[1], n_estimators=5).fit(X, y)
    >>> [one.category is puc.warnings.EncodedSilenceWarning for one in caught]
    [True]
    >>> print(caught[0].message)                                      # doctest: +ELLIPSIS
    Silence may have been imputed or encoded, ...column 'Column_1' is -999 for 30.0% of the people...
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error")
    ...     model = puc.PUCRegressor(optional=[1], n_estimators=5, expect_shared=["Column_1"]).fit(X, y)
    """


class IdentifyingTextWarning(UserWarning):
    """A text column has categories that hardly anybody shares, or numbers with a decimal comma that were read as text.

    The categories of text columns are kept in a model and its files, one by one: names or e-mail addresses would be,
    too. A tree learns nothing from them that holds for other people. Leave the column out, or make it coarser.
    ``train``, ``cv`` and the estimators warn once per call;
    ``warnings.filterwarnings("ignore", category=puc.warnings.IdentifyingTextWarning)`` turns it off.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, pandas as pd, pucboost as puc
    >>> people = pd.DataFrame({"name": [f"person {i}" for i in range(100)], "age": np.arange(100.0), "bmi": np.nan})
    >>> people.loc[::2, "bmi"] = 25.0
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = puc.PUCRegressor(optional=["bmi"], n_estimators=2).fit(people, people["age"])
    >>> [str(one.message)[:63] for one in caught if one.category is puc.warnings.IdentifyingTextWarning]
    ["Column 'name' has 100 categories, most of which fewer than 5 pe"]
    """


class ProtectionLostWarning(UserWarning):
    """The protection of a model is lost, or may be, by what others have done with it.

    - XGBoost copies the attributes of a booster into every model that it makes of it, also into one that it has
      continued (``xgb.train(..., xgb_model=booster)``) or refreshed on rows as they are. Such a model may read silence,
      and counts as a model without consent schema.
    - ``lgb.train`` and ``lgb.cv`` train on the rows of a :class:`Dataset` as they are, whatever is optional.

    Examples
    --------
    >>> import warnings
    >>> import pucboost as puc
    >>> warnings.filterwarnings("error", category=puc.warnings.ProtectionLostWarning)  # stop here
    """


class PickledByAnotherVersionWarning(UserWarning):
    """A model was pickled by another version of pucboost, and may not mean the same here.

    Files that ``puc.save_model`` writes are read by later versions; pickles are only known to be read by the version
    that wrote them.

    Examples
    --------
    >>> import warnings
    >>> import pucboost as puc
    >>> warnings.filterwarnings("error", category=puc.warnings.PickledByAnotherVersionWarning)  # load none
    """
