"""Text that hardly anybody shares with others: a model file keeps the categories of its columns, and so these people.

A column is suspected if it has at least :data:`MIN_CATEGORIES` categories, and at least half of the people with a value
there have one that fewer than :data:`MIN_PEOPLE` people have: names, e-mail addresses, numbers read as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._common import Array, warn
from .sources import RowSource

MIN_CATEGORIES = 50
MIN_PEOPLE = 5

WITH_COMMA = re.compile(r"\s*[+-]?\d[\d.  ]*,\d+\s*")
"""A number as much of the world writes it, and as nothing here reads it."""


class IdentifyingTextWarning(UserWarning):
    """A text column has categories that hardly anybody shares, or numbers with a decimal comma that were read as text.

    The categories of text columns are kept in a model and its files, one by one: names or e-mail addresses would be,
    too. A tree learns nothing from them that holds for other people. Leave the column out, or make it coarser.
    ``train``, ``cv`` and the estimators warn once per call;
    ``warnings.filterwarnings("ignore", category=puc.IdentifyingTextWarning)`` turns it off.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, pandas as pd, pucboost as puc
    >>> people = pd.DataFrame({"name": [f"person {i}" for i in range(100)], "age": np.arange(100.0), "bmi": np.nan})
    >>> people.loc[::2, "bmi"] = 25.0
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = puc.PUCRegressor(optional=["bmi"], n_estimators=2).fit(people, people["age"])
    >>> [str(one.message)[:63] for one in caught if one.category is puc.IdentifyingTextWarning]
    ["Column 'name' has 100 categories, most of which fewer than 5 pe"]
    """


def warn_of_identifying_text(source: RowSource) -> None:
    """Warn of columns of a training table whose categories speak of single people, or are numbers in truth."""
    said = []
    for j, categories in source.categories.by_column(source.coded).items():
        name = source.names[j]
        if looks_like_numbers(categories):
            said.append(
                f"Column {name!r} is text that looks like numbers with a decimal comma, and was read as "
                f"{len(categories):,} categories, which the model keeps. Convert it to numbers"
            )
        elif len(categories) >= MIN_CATEGORIES and _is_identifying(_counts(source, j, len(categories))):
            said.append(
                f"Column {name!r} has {len(categories):,} categories, most of which fewer than {MIN_PEOPLE} people "
                "have. The model keeps them, and so what these people wrote. Leave the column out, or make it coarser"
            )
    if said:
        warn(f"{'. '.join(said)}.", IdentifyingTextWarning)


def looks_like_numbers(categories: Sequence[Any]) -> bool:
    """Return whether categories are numbers, some of them with a decimal comma.

    Examples
    --------
    >>> looks_like_numbers(["1,5", "-2,25", "3"])
    True
    >>> looks_like_numbers(["1,5", "unknown"]), looks_like_numbers(["1", "2"])
    (False, False)
    """
    texts = [one for one in categories if isinstance(one, str)]
    with_comma = sum(WITH_COMMA.fullmatch(one) is not None for one in texts)
    others = (one for one in texts if WITH_COMMA.fullmatch(one) is None)
    return len(texts) == len(categories) and with_comma > 0 and all(one.strip().isdecimal() for one in others)


def _counts(source: RowSource, column: int, n_categories: int) -> Array:
    """Return how many people have each category."""
    counts = np.zeros(n_categories, dtype=np.int64)
    for lo, hi in source.blocks():
        codes = source.window(lo, hi)[:, column]
        codes = codes[~np.isnan(codes)].astype(np.int64)
        counts += np.bincount(codes[(codes >= 0) & (codes < n_categories)], minlength=n_categories)
    return counts


def _is_identifying(counts: Array) -> bool:
    return bool(2 * counts[counts < MIN_PEOPLE].sum() >= max(1, counts.sum()))
