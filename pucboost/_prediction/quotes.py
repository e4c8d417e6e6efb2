"""``quote`` and ``predict``: what people are told, and would be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._arrays import Array
from .._consent import Consent
from .best_subset import best_predictions, favourable_sign
from .predictor import MaskedPredictor
from .subsets import subset_masks, subset_name

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_MAX_SUBSETS = 4_096


def quote(
    booster: Any, X: Any, *, subsets: Any = None, raw_score: bool = False, num_threads: int | None = None
) -> pd.DataFrame:
    """Return what each person would be told for every subset of the groups they share.

    Parameters
    ----------
    booster
        As returned by :func:`pucboost.train`.
    X
        A table with the columns of training.
    subsets
        None for all subsets (up to 6 groups); for more, a list of ``"nothing"``, ``"alone"``, ``"all_but_one"``,
        ``"all"`` and of lists of group names.
    raw_score
        Return raw scores instead of predictions.
    num_threads
        Threads for the kernels; None means all cores.

    Returns
    -------
    pandas.DataFrame
        One column per subset (with several classes: per subset and class), NaN where the person does not share all of
        its groups.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 3)); y = X.sum(axis=1)
    >>> X[::2, 2] = X[2::3, 1] = np.nan                                  # what is withheld is missing
    >>> booster = puc.train({"optional": [1, 2], "verbosity": -1}, puc.Dataset(X, y), 5)
    >>> puc.quote(booster, X[:2]).notna().to_numpy().tolist()
    [[True, True, False, False], [True, True, True, True]]
    """
    import pandas as pd

    predictor = MaskedPredictor(booster, X, raw_score=raw_score, num_threads=num_threads)
    masks = np.array(subset_masks(predictor.consent, subsets), dtype=np.uint64)
    names = [subset_name(int(mask), predictor.consent) for mask in masks]
    table = _quotes(predictor, masks)
    index = X.index if hasattr(X, "index") and hasattr(X, "columns") else None
    if table.ndim == 2:
        return pd.DataFrame(table, columns=names, index=index)
    columns = pd.MultiIndex.from_product([names, range(table.shape[2])], names=["shared", "class"])
    return pd.DataFrame(table.reshape(len(table), -1), columns=columns, index=index)


def _quotes(predictor: MaskedPredictor, masks: Array) -> Array:
    """Return predictions, people × subsets (× classes), NaN where a person does not share the subset."""
    # How many values a prediction has is known once somebody has one, even if nobody shares what is asked for.
    one = predictor.people(np.zeros(1, dtype=np.int64), 0)
    out = np.full((predictor.n_rows, len(masks), *one.shape[1:]), np.nan)
    for lo, hi in predictor.batches(len(masks)):
        shared = predictor.shared[lo:hi]
        rows, which = np.nonzero((shared[:, None] & masks) == masks)
        if len(rows):
            out[lo + rows, which] = predictor.predict(predictor.source.window(lo, hi), rows, masks[which])
    return out


def predict(
    booster: Any,
    X: Any,
    *,
    sharing: str = "as_given",
    favourable: str = "lower",
    raw_score: bool = False,
    return_subset: bool = False,
    max_subsets: int = DEFAULT_MAX_SUBSETS,
    search: str = "exact",
    num_threads: int | None = None,
) -> Any:
    """Return predictions under a rule of what is used of the data a person shares.

    Parameters
    ----------
    booster
        As returned by :func:`pucboost.train`.
    X
        A table with the columns of training.
    sharing
        ``"as_given"``: all that is shared. ``"withheld"``: everything optional erased. ``"best"``: the bonus system,
        the most favourable prediction over all subsets of what is shared, min_{s ⊆ a} f(b, s, z_s) for a premium;
        sharing more then never hurts.
    favourable
        ``"lower"`` (premiums) or ``"higher"`` (approval).
    raw_score
        Return raw scores instead of predictions.
    return_subset
        Return also which groups were used: a boolean DataFrame, one column per group.
    max_subsets
        ``"best"`` is exact for people with at most this many subsets, and refuses beyond.
    search
        ``"greedy"`` lets people with more subsets be searched: starting from everything and from nothing, the one group
        whose change helps most is changed until none helps. The result is never worse than either start.
    num_threads
        Threads for the kernels; None means all cores.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = X.sum(axis=1)
    >>> X[::4, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, y), 20)
    >>> best = puc.predict(booster, X, sharing="best")
    >>> bool((best <= puc.predict(booster, X)).all() and (best <= puc.predict(booster, X, sharing="withheld")).all())
    True
    """
    if sharing not in ("as_given", "withheld", "best"):
        raise ValueError(f"sharing must be 'as_given', 'withheld' or 'best'; got {sharing!r}.")
    sign = favourable_sign(favourable)
    if search not in ("exact", "greedy"):
        raise ValueError(f"search must be 'exact' or 'greedy', got {search!r}.")
    predictor = MaskedPredictor(booster, X, raw_score=raw_score, num_threads=num_threads)
    if sharing == "best":
        prediction, used = best_predictions(predictor, sign, max_subsets, search)
    else:
        used = predictor.shared if sharing == "as_given" else np.zeros_like(predictor.shared)
        prediction = predictor.everybody(used)
    return (prediction, _groups_used(used, predictor.consent)) if return_subset else prediction


def _groups_used(masks: Array, consent: Consent) -> pd.DataFrame:
    import pandas as pd

    bits = (masks[:, None] >> np.arange(consent.n_groups, dtype=np.uint64)) & np.uint64(1)
    return pd.DataFrame(bits.astype(bool), columns=list(consent.group_names))
