"""``augment``: the virtual table itself, for any other learner."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._common import Array
from .._consent import Consent, OptionalColumns
from .._not_applicable import NotApplicable, read_not_applicable
from .._silence import warn_of_encoded_silence
from .._tables.sources import RowSource, as_weight, check_no_mask, eager, is_frame, row_source
from .plan import Augmentation, check_augmentation, plan_masks
from .rows import MaskedRows


def augment(
    X: Any,
    y: Any,
    *,
    optional: OptionalColumns,
    not_applicable: NotApplicable = None,
    augmentation: Augmentation = "balanced",
    copies: float | None = None,
    seed: int = 0,
    sample_weight: Any = None,
    available: Any = None,
    fill_value: float = math.nan,
    indicators: bool = False,
    max_virtual_rows: int | None = None,
    expect_shared: Any = None,
    expect_revealing: Any = None,
    num_threads: int | None = None,
) -> tuple[Any, Array, Array, Array]:
    """Return the virtual rows of a table, to train any learner under Protected User Consent (PUCIDA).

    Row i stands for one copy per sub-mask s of what it shares: same base features, same label, groups outside s set
    to ``fill_value``. A learner trained on the weighted copies approaches E[Y | b, A ⊇ a, z_a].

    Parameters
    ----------
    X : array, CSR matrix, pandas, polars or Arrow table (a polars LazyFrame is collected)
    y : labels, one per row; any type
    optional : list of columns, or dict group -> columns
    not_applicable : dict; where optional columns do not apply, as in :class:`Dataset`
    augmentation : {"balanced", "exhaustive", "fixed", "none"}
    copies : virtual rows per row for "balanced"; default 4, and 2 above 200,000 rows
    seed : int
    sample_weight : one per row; multiplies the weight of the copies
    available : bool matrix (rows × groups); default: a group with any value is shared
    fill_value : replaces withheld values; values missing in X stay missing. Must be NaN for category columns.
    indicators : append one 0/1 column per group that says whether the copy shares it
    max_virtual_rows : row budget; beyond it "balanced" reduces ``copies`` and the other schemes raise
    expect_shared : groups in which every value was really shared; no ``EncodedSilenceWarning`` about them
    expect_revealing : base columns that must stay although they tell who withholds; no such warning about them
    num_threads : default all cores

    Warns
    -----
    EncodedSilenceWarning
        If silence seems to be imputed or encoded in X. Only what is missing (NaN) is protected.

    Returns
    -------
    X_augmented
        A DataFrame of the same library for pandas and polars, an Arrow table for Arrow, else an array. Numbers and
        booleans become floats; text and categories keep their type.
    y_augmented : array
    weight : array, with mean 1 over the copies (times ``sample_weight``)
    source_row : array
        Number of the row that each copy comes from. Split *these* into folds: copies of one person must not end up on
        both sides.

    Notes
    -----
    A random forest bootstraps the copies, so almost everybody is in every bag and its trees resemble each other. Set
    ``max_samples=len(y)``, which gives bags as large as without consent (measured in ``docs/evidence/several.md``).
    People who share have more copies, so they are in more bags than the silent. This shifts what the silent are told
    slightly towards what sharers are told. To avoid it, draw bags of people, each with all their copies
    (``source_row``; ``docs/evidence/inference.md``).

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.array([[1.0, 5.0], [2.0, np.nan]])
    >>> X_aug, y_aug, weight, source_row = puc.augment(X, [10, 20], optional=[1], augmentation="exhaustive")
    >>> X_aug.tolist(), y_aug.tolist(), source_row.tolist()
    ([[1.0, nan], [1.0, 5.0], [2.0, nan]], [10, 10, 20], [0, 0, 1])
    """
    check_augmentation(augmentation)
    X = eager(X)
    source = row_source(X)
    if optional is None:
        raise ValueError("optional must be a list of columns or a dict group -> columns, got None.")
    consent, source = read_not_applicable(Consent.of(optional, source), source, not_applicable)
    consent.warn_without_base()
    labels, user_weight = checked_labels(y, sample_weight, fill_value, source, consent)
    shared = consent.visible(source, available, zero_as_missing=False, num_threads=num_threads)
    warn_of_encoded_silence(source, consent, shared, expect_shared, expect_revealing)
    consent.warn_of_lacking(source, available, num_threads=num_threads)
    limit = {} if max_virtual_rows is None else {"max_virtual_rows": max_virtual_rows}
    plan = plan_masks(
        shared, augmentation, copies=copies, seed=seed, num_threads=num_threads, nesting=consent.nesting, **limit
    )
    rows = MaskedRows(source, consent, plan, num_threads=num_threads, fill_value=fill_value)
    return augmented(X, rows, labels, user_weight, indicators)


def checked_labels(
    y: Any, sample_weight: Any, fill_value: float, source: RowSource, consent: Consent
) -> tuple[Array, Array | None]:
    """Return labels and weights, one per row of the table; raise if these or ``fill_value`` do not fit it."""
    coded = [j for j in source.coded if j in consent.group_columns]
    if coded and not math.isnan(fill_value):  # it would be read as the category with that code
        raise ValueError(
            f"fill_value={fill_value!r} cannot stand for a withheld category in column "
            f"{consent.feature_names[coded[0]]!r}; leave fill_value out, or encode the column as numbers first."
        )
    check_no_mask(y, "y")
    labels = np.asarray(y)
    if labels.ndim == 0 or len(labels) != source.n_rows:
        raise ValueError(f"y must have one entry for each of the {source.n_rows} rows of X, got shape {labels.shape}.")
    return labels, None if sample_weight is None else as_weight(sample_weight, "sample_weight", source.n_rows)


def augmented(
    X: Any, rows: MaskedRows, labels: Array, user_weight: Array | None, indicators: bool
) -> tuple[Any, Array, Array, Array]:
    """Return virtual rows in the kind of container that X is, with labels, weights and source rows."""
    source, plan = rows.source, rows.plan
    names = [*source.names, *(f"{group}_shared" for group in rows.consent.group_names if indicators)]
    source_row = plan.spread(np.arange(source.n_rows))
    weight = plan.weights(user_weight)
    if weight is None:
        weight = np.ones(len(plan), dtype=np.float32)
    return _like(X, rows.materialise(indicators), source, names), labels[source_row], weight, source_row


def _like(original: Any, table: Array, source: RowSource, names: list[str]) -> Any:
    """Return the table in the caller's kind of container; for pandas without copying."""
    if not is_frame(original):
        return table
    codes = {j: np.nan_to_num(table[:, j], nan=-1).astype(np.int32) for j in source.coded}
    categories = dict(zip(source.coded, source.pandas_categorical or (), strict=True))
    if hasattr(original, "iloc"):
        import pandas as pd

        frame = pd.DataFrame(table, columns=[*original.columns, *names[source.n_columns :]], copy=False)
        for j, dtype in ((j, original.dtypes.iloc[j]) for j in source.coded):
            values = pd.Categorical.from_codes(codes[j], categories=pd.Index(categories[j]))
            frame[original.columns[j]] = pd.Series(values).astype(dtype)
        return frame
    import narwhals as nw
    import pyarrow as pa

    given = nw.from_native(original, eager_only=True)
    rows = nw.from_numpy(table, schema=names, backend=given.implementation)
    for j in source.coded:
        places, has_order = pa.array(codes[j], mask=codes[j] < 0), j not in source.categorical
        values = pa.DictionaryArray.from_arrays(places, pa.array(categories[j]), ordered=has_order)
        column = nw.from_arrow(pa.table({names[j]: values}), backend=given.implementation).get_column(names[j])
        dtype = given.schema[names[j]]
        rows = rows.with_columns(column if column.dtype == dtype else column.cast(dtype))
    return rows.to_native()
