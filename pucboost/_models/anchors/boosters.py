"""Boosters as anchors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._common import Array
from ..._engines import boosters_of
from ..._tables.containers import is_frame, row_source, select_columns
from ..._tables.sources import Categories, are_default_names
from ..schema import categories_of, kept_of
from .base import Anchor, AnchorScores, checked_scores, listed


@dataclass(frozen=True, repr=False)
class BoosterAnchor(Anchor):
    """A booster of any engine. Optional columns that it was trained on are erased."""

    def check_reads_base_only(self) -> None:
        """Raise if trees split on an optional column, unless the booster was trained under consent.

        Such trees were grown where people withhold the column, or where nobody did. What they say where it is erased is
        what silence told them in the first case, and means nothing in the second.
        """
        if kept_of(self.model)[0] is not None:
            return
        boosters = boosters_of(self.model)
        names, count = boosters.columns(self.model)
        keep, splits = self._known_columns(names or [None] * count), boosters.split_counts(self.model)
        read = [j for j, n in zip(keep, splits.tolist(), strict=True) if n and j in self.consent.group_columns]
        if read:
            name = self.consent.feature_names[read[0]]
            raise ValueError(
                f"The anchor's trees split on column {name!r}, which is optional, and the anchor was not trained under "
                "consent: with the column erased it would tell everybody what silence told it. Train the anchor on "
                "base columns only, train it with pucboost.train, or use anchor='base'."
            )

    def scores(self, X: Any, codes: Categories | None = None) -> AnchorScores:
        """Return its raw scores and its own predictions."""
        raw, response = (checked_scores(self._predict(X, codes, raw), X) for raw in (True, False))
        return AnchorScores(raw, response)

    def described(self) -> str:
        """Return its engine, size and columns."""
        boosters = boosters_of(self.model)
        names, _ = boosters.columns(self.model)
        columns = "" if names is None else f", columns {listed(names)}"
        return f"{boosters.name} booster of {boosters.tree_count(self.model)} trees; its raw scores{columns}"

    def _predict(self, X: Any, codes: Categories | None, raw: bool) -> Any:
        boosters = boosters_of(self.model)
        names, count = boosters.columns(self.model)
        keep = self._known_columns(names or [None] * count)
        # Predict as the anchor itself does: nobody's premium may change.
        return np.concatenate(
            [
                boosters.predict(self.model, block, raw_score=raw, best_rounds=False)
                for block in self._blocks(X, keep, codes)
            ]
        )

    def _blocks(self, X: Any, keep: list[int], codes: Categories | None) -> Iterator[Array]:
        """Yield the columns a booster was trained on, with its own category codes and everything optional erased."""
        known = categories_of(self.model)
        known = None if known is None else _located(known, keep, codes)
        recoded: dict[int, Array] = {}
        if is_frame(X):
            source, columns = row_source(select_columns(X, keep), known), list(range(len(keep)))
            if known is None and source.coded:
                name = self.consent.feature_names[keep[source.coded[0]]]
                raise ValueError(
                    f"The anchor does not say which categories it was trained on, so column {name!r} cannot be read. "
                    "Pass a callable that uses the anchor."
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
        """Return the positions of the columns that a booster was trained on, found by name if it has names.

        A booster without names must have as many features as the table has columns, or as it has base columns. LightGBM
        stores names with underscores for spaces.
        """
        names = [name.replace(" ", "_") for name in self.consent.feature_names]
        base = [j for j in range(len(names)) if j not in set(self.consent.group_columns.tolist())]
        nameless = are_default_names(wanted)
        asked = [None if name is None else str(name).replace(" ", "_") for name in wanted]
        if not nameless and set(asked) <= set(names):
            keep = [names.index(str(name)) for name in asked]
        elif nameless or are_default_names(names):
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


def _located(known: Categories, keep: list[int], codes: Categories | None) -> Categories:
    """Return the categories of the columns ``keep`` with their positions, if the table's ``codes`` show them."""
    if known.columns is not None or codes is None or codes.columns is None:
        return known
    places = [j for j, column in enumerate(keep) if column in codes.columns]
    return Categories(known.values, places) if len(places) == len(known.values) else known


def _recoding(codes: Categories | None, keep: list[int], known: Categories | None) -> dict[int, Array]:
    """Return, for each column whose codes differ, an array that maps the table's codes to those of ``known``.

    Its last entry, which index −1 reaches, stands for missing values.
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
