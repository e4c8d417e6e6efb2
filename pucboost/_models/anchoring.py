"""Anchored models: whoever shares nothing gets exactly the prediction of an existing model.

An insurer who must not touch the legacy premium needs this. The model's raw score is

    anchor(b)                     for people who share nothing,
    anchor(b) + trees(b, a, z)    for everybody else,

with trees grown, from the anchor's score, only on virtual rows that share something. The anchor always sees the table
with everything optional erased.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._arrays import Array
from .._consent import Consent
from .._engines.base import VirtualTable
from .._engines.params import is_booster
from .._tables.containers import eager, is_frame, row_source
from .._tables.sources import Categories
from .._training.datasets import SourceTable
from .._virtual.plan import PlanSummary, plan_masks
from .._virtual.rows import MaskedRows, SelectedRows
from ..objectives import Objective
from .schema import categories_of


@dataclass(frozen=True)
class Anchor:
    """A model that knows base features only, seen through a table with everything optional erased.

    Parameters
    ----------
    model
        A LightGBM or XGBoost booster, or a callable that gives raw scores for a table.
    consent
        What to erase.
    """

    model: Any
    consent: Consent

    def raw(self, X: Any, codes: Categories | None = None) -> Array:
        """Return the anchor's raw scores, one per row (and class); ``codes`` says what those in an array stand for."""
        return self._checked(self._predict(X, codes, raw=True), X)

    def response(self, X: Any, raw: Array, objective: Objective, codes: Categories | None = None) -> Array:
        """Return the anchor's predictions: a booster's own, bit for bit, or the inverse link of its ``raw`` scores."""
        if is_booster(self.model):
            return self._checked(self._predict(X, codes, raw=False), X)
        return objective.response(raw)

    def _predict(self, X: Any, codes: Categories | None, raw: bool) -> Any:
        if is_booster(self.model, "lightgbm"):
            keep = self._known_columns(self.model.feature_name())
            return np.concatenate([self.model.predict(block, raw_score=raw) for block in self._blocks(X, keep, codes)])
        if is_booster(self.model, "xgboost"):
            import xgboost as xgb

            names, types = self.model.feature_names, self.model.feature_types
            keep = self._known_columns(names or [None] * self.model.num_features())
            matrices = (
                xgb.DMatrix(block, feature_names=names, feature_types=types) for block in self._blocks(X, keep, codes)
            )
            return np.concatenate([self.model.predict(matrix, output_margin=raw) for matrix in matrices])
        return self.model(erase_optional(X, self.consent))

    def _blocks(self, X: Any, keep: list[int], codes: Categories | None) -> Iterator[Array]:
        """Yield the columns a booster was trained on as numbers, categories as its own codes, nothing optional."""
        known = categories_of(self.model)
        known = None if known is None else _located(known, keep, codes)
        recoded: dict[int, Array] = {}
        if is_frame(X):
            source, columns = row_source(_select(X, keep), known), list(range(len(keep)))
            if known is None and source.coded:
                name = self.consent.feature_names[keep[source.coded[0]]]
                raise ValueError(
                    f"The anchor does not tell the categories it was trained on, so column {name!r} cannot be read. "
                    "Pass a callable that uses it."
                )
        else:
            source, columns = row_source(X), keep
            recoded = _recoding(codes, keep, known)
        erased = np.isin(keep, self.consent.group_columns)
        for lo, hi in source.blocks():
            block = source.window(lo, hi)[:, columns]
            block[:, erased] = np.nan
            for j, code in recoded.items():
                block[:, j] = code[np.nan_to_num(block[:, j], nan=-1).astype(np.int64).clip(-1, len(code) - 1)]
            yield block

    def _known_columns(self, wanted: Any) -> list[int]:
        """Return which columns an existing booster was trained on, by name where it has names, else by position.

        A booster without names of its own has as many features as the table, or as its base columns. LightGBM stores
        names with underscores for spaces.
        """
        names = [name.replace(" ", "_") for name in self.consent.feature_names]
        base = [j for j in range(len(names)) if j not in set(self.consent.group_columns.tolist())]
        nameless = all(name is None or name == f"Column_{j}" for j, name in enumerate(wanted))
        asked = [None if name is None else str(name).replace(" ", "_") for name in wanted]
        if not nameless and set(asked) <= set(names):
            keep = [names.index(str(name)) for name in asked]
        elif nameless or all(name == f"Column_{j}" for j, name in enumerate(names)):
            keep = list(range(len(names))) if len(wanted) == len(names) else base
        else:
            unknown = next(name for name in asked if name not in names)
            raise ValueError(
                f"The anchor was trained on a column {unknown!r}, which the table does not have. Give the table the "
                "anchor's columns, or pass a callable."
            )
        if len(keep) != len(wanted):
            raise ValueError(
                f"The anchor has {len(wanted)} features; the table has {len(names)} columns, {len(base)} of them "
                "not optional. Train the anchor on the same columns, or pass a callable."
            )
        return keep

    def _checked(self, scores: Any, X: Any) -> Array:
        array: Array = np.asarray(scores)
        n = X.shape[0] if hasattr(X, "shape") else row_source(X).n_rows
        if array.ndim not in (1, 2) or len(array) != n or not np.issubdtype(array.dtype, np.number):
            raise ValueError(f"The anchor must give one raw score for each of the {n} rows, got shape {array.shape}.")
        bad = np.flatnonzero(~np.isfinite(array.reshape(n, -1)).all(axis=1))
        if len(bad):
            raise ValueError(f"The anchor's score is not finite in row {bad[0]} ({len(bad)} such rows).")
        return array


def _select(frame: Any, columns: list[int]) -> Any:
    """Return some columns of a DataFrame or Arrow table."""
    if hasattr(frame, "iloc"):
        return frame.iloc[:, columns]
    import narwhals as nw

    return nw.from_native(frame, eager_only=True)[:, columns].to_native()


def _located(known: Categories, keep: list[int], codes: Categories | None) -> Categories:
    """Return categories of the columns ``keep`` with their places, if the table they are taken from tells."""
    if known.columns is not None or codes is None or codes.columns is None:
        return known
    places = [j for j, column in enumerate(keep) if column in codes.columns]
    return Categories(known.values, places) if len(places) == len(known.values) else known


def _recoding(codes: Categories | None, keep: list[int], known: Categories | None) -> dict[int, Array]:
    """Return the codes in ``known`` of what the codes in the columns ``keep`` stand for, where that differs.

    The last of them, −1, is missing.
    """
    if codes is None or not codes.values or known is None or not known.values:
        return {}
    here = codes.by_column(())
    theirs = known.by_column([j for j, column in enumerate(keep) if column in here])
    recoded = {}
    for j, values in theirs.items():
        given = here.get(keep[j])
        if given is not None and list(given) != list(values):
            place = {value: code for code, value in enumerate(values)}
            recoded[j] = np.array([*(place.get(value, np.nan) for value in given), np.nan])
    return recoded


def erase_optional(X: Any, consent: Consent) -> Any:
    """Return a copy of a table in which nobody shares anything; DataFrames stay DataFrames."""
    return erase_columns(X, consent.group_columns.tolist())


def erase_columns(X: Any, columns: list[int]) -> Any:
    """Return a copy of a table with all values of some columns missing; DataFrames stay DataFrames of their kind."""
    X = eager(X)
    if hasattr(X, "iloc"):
        erased = {X.columns[j]: _all_missing(X.iloc[:, j]) for j in columns}
        out = X.copy(deep=False)
        for name, values in erased.items():
            out[name] = values
        return out
    if is_frame(X):
        import narwhals as nw

        frame = nw.from_native(X, eager_only=True)
        missing = [nw.lit(None, dtype=frame.schema[frame.columns[j]]).alias(frame.columns[j]) for j in columns]
        return frame.with_columns(*missing).to_native()
    source = row_source(X)
    table = np.array(source.window(0, source.n_rows), dtype=source.dtype)
    table[:, columns] = np.nan
    return table


def _all_missing(column: Any) -> Any:
    """Return a column without values, of the same type if that has missing values, else of floats."""
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, pd.SparseDtype) or (isinstance(dtype, np.dtype) and dtype.kind != "O"):
        return pd.Series(np.full(len(column), np.nan), index=column.index)
    return pd.Series([None] * len(column), index=column.index, dtype=dtype)


@dataclass(frozen=True)
class SelectedTable(VirtualTable):
    """Some rows of a virtual table, with what belongs to them."""

    selection: Array

    @property
    def people(self) -> int:
        """Number of people who have at least one of the rows."""
        owners = np.searchsorted(self.rows.plan.offsets, self.selection, side="right")
        return len(np.unique(owners))

    def label(self) -> Array:
        """Label of every row."""
        return super().label()[self.selection]

    def weight(self, scale: float = 1.0) -> Array | None:
        """Weight of every row."""
        return _pick(super().weight(scale), self.selection)

    def copy_weight(self, scale: float = 1.0) -> Array | None:
        """Copy weight of every row."""
        return _pick(super().copy_weight(scale), self.selection)

    def user_weight(self) -> Array | None:
        """User weight of every row."""
        return _pick(super().user_weight(), self.selection)

    def init_score(self) -> Array | None:
        """Initial scores of every row."""
        return _pick(super().init_score(), self.selection)


def _pick(values: Array | None, selection: Array) -> Array | None:
    return None if values is None else values[selection]


def shares_something(virtual: VirtualTable) -> Array:
    """Return which virtual rows have a group that is not erased."""
    _, masks = virtual.rows.plan.rows_and_masks(0, len(virtual.rows.plan), virtual.rows.threads)
    return np.asarray(masks != 0)


def start_from(virtual: VirtualTable, anchor: Anchor, name: str) -> SelectedTable:
    """Return the virtual rows that share something, with the anchor's raw scores to start from."""
    selection = np.flatnonzero(shares_something(virtual))
    if len(selection) == 0:
        raise ValueError(f"Nobody in {name} shares anything, so there is nothing to add to the anchor.")
    table = with_scores(virtual.table, anchor)
    return SelectedTable(SelectedRows(virtual.rows, selection), table, selection)


def with_scores(table: SourceTable, anchor: Anchor) -> SourceTable:
    """Return the table with the anchor's raw scores as initial scores."""
    return replace(table, init_score=anchor.raw(table.container(), table.source.categories).astype(np.float64))


def erased(table: SourceTable, consent: Consent, threads: int | None) -> VirtualTable:
    """Return a table in which nobody shares anything: what a base model is trained on."""
    nothing = plan_masks(np.zeros(table.source.n_rows, dtype=np.uint64), "none", num_threads=threads)
    return VirtualTable(MaskedRows(table.source, consent, nothing, num_threads=threads), table)


@dataclass(frozen=True)
class AnchoredModel:
    """What ``train`` returns with ``anchor=``: predicts, pickles and saves like a booster.

    Parameters
    ----------
    anchor
        The model for those who share nothing.
    booster
        The trees that are added for everybody else.
    objective
        The loss, which knows the link.
    consent, puc_summary
        As on a booster.
    """

    anchor: Anchor
    booster: Any
    objective: Objective
    consent: Consent
    puc_summary: PlanSummary | None

    def predict(self, X: Any, *, raw_score: bool = False) -> Array:
        """Return predictions; people who share nothing get exactly the anchor's.

        Parameters
        ----------
        X
            A table with the columns of training.
        raw_score
            Return raw scores instead of predictions.
        """
        X, codes = eager(X), categories_of(self)
        source = row_source(X, codes)
        self.consent.check_table(source)
        shares = self.consent.presence(source) != 0
        start = self.anchor.raw(X, codes)
        out = np.array(start if raw_score else self.anchor.response(X, start, self.objective, codes))
        for lo, hi in source.blocks():
            some = np.flatnonzero(shares[lo:hi])
            if len(some):
                raw = self._add_trees(source.window(lo, hi)[some], start[lo + some])
                out[lo + some] = raw if raw_score else self.objective.response(raw)
        return out

    def _add_trees(self, rows: Array, start: Array) -> Any:
        """Return raw scores, given those of the anchor."""
        if is_booster(self.booster, "lightgbm"):
            return start + self.booster.predict(rows, raw_score=True)
        import xgboost as xgb

        names, types = self.booster.feature_names, self.booster.feature_types
        matrix = xgb.DMatrix(rows, base_margin=start, feature_names=names, feature_types=types)
        return self.booster.predict(matrix, output_margin=True)


def is_tree_model(model: Any) -> bool:
    """Return whether a model is a booster of either engine, or an anchored one."""
    return is_booster(model) or isinstance(model, AnchoredModel)


def trees_of(model: Any) -> Any:
    """Return the booster of an anchored model, else the model itself."""
    return model.booster if isinstance(model, AnchoredModel) else model


@dataclass
class SoftAnchorObjective:
    """ℓ(s, y) + λ/2·(s − anchor)² on copies that share nothing, ℓ(s, y) on all others.

    A custom objective for either engine. Copy weights are applied by the engine's adapter, to both parts alike.
    """

    objective: Objective
    strength: float
    anchor_score: Array
    shares_nothing: Array
    threads: int | None
    builtin_params: dict[str, Any] = field(default_factory=dict)
    """Parameters that name the built-in loss, for an engine that wants to know it as well."""

    def __call__(self, preds: Array, data: Any) -> tuple[Array, Array]:
        """Return gradient and hessian, with the user's weights but without the copy weights."""
        score = np.asarray(preds, dtype=np.float64)
        weight = data.get_weight()
        weight = None if weight is None or len(weight) == 0 else np.asarray(weight)
        gradient, hessian = self.objective.gradient(score, np.asarray(data.get_label()), weight, self.threads)
        pull = self.strength if weight is None else self.strength * weight[self.shares_nothing]
        pull = np.asarray(pull)[..., None] if score.ndim == 2 else pull
        gradient[self.shares_nothing] += (pull * (score - self.anchor_score)[self.shares_nothing]).astype(np.float32)
        hessian[self.shares_nothing] += np.asarray(pull, dtype=np.float32)
        return gradient, hessian
