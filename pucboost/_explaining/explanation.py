"""``puc.explain``, and what it returns: values of columns, reasons, and their picture."""

from __future__ import annotations

import base64
import html
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._common import Array
from .._consent import is_whole
from .._models.schema import Favourable, check_favourable
from .._pages import decimals_for, deliver, printable
from .._prediction.predictor import (
    DEFAULT_MAX_SUBSETS,
    MaskedPredictor,
    Sharing,
    best_predictions,
    check_sharing,
    favourable_sign,
    who_has_too_many,
)
from .._tables.sources import engine_threads_for, in_container_of, is_frame, row_source, rows_of
from .game import ANCHOR, FEWEST_COMPARED, Background, ComparedWith, Players, solve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TOP = 4
"""As many principal reasons as the commentary to Regulation B finds enough."""
SHOWN = 9
"""How many columns a picture shows one by one."""
HIGHER, LOWER = "#b5532a", "#2a6f97"

_NOTHING = 1e-9
"""A share of all that moved a score: smaller values are what rounding leaves of 0."""


def explain(
    model: Any,
    X: Any,
    background: Any,
    *,
    sharing: Sharing = "as_given",
    favourable: Favourable | None = None,
    together: Any = None,
    target_class: Any = None,
    max_samples: int | None = 1_000,
    num_threads: int | None = None,
) -> Explanation:
    """Return how much each column moved each person's score, compared with people who share at least as much.

    For a person x who shares S, φ_j is the Shapley value of column j in the game

        v(C) = mean of f(x_C, b_∖C) over people b who share at least S, masked to S.

    The values of a person add up to f(x_S) minus the mean of f over these people. What is withheld is missing on both
    sides, so its value is exactly 0: silence is never a reason. Values are exact, and on the scale of raw scores: a
    link is no sum over trees, and would need a prediction for every set of columns. A log link makes e^φ_j a factor.

    Parameters
    ----------
    model
        As returned by :func:`pucboost.train`, or one of pucboost's estimators, or a pipeline that ends in one.
    X
        The people to explain, a table with the columns of training.
    background
        The people to compare with, such as those of training. Models keep no people, so they are always given. For
        other weights, give a sample drawn in proportion to them.
    sharing
        As in :func:`predict`: explain the prediction from what is shared, from nothing, or the most favourable one.
    favourable
        ``"lower"`` or ``"higher"``, as in :func:`predict`; ``sharing="best"`` needs it, and reasons use it.
    together
        Columns that count as one, such as height and weight: a dict of name → columns. ``"groups"``: the columns of
        each consent group. Otherwise columns that say the same share what they add between them.
    target_class
        The class to explain, for a model with several; None explains all of them.
    max_samples
        How many people somebody is compared with at most, always the same; None for all. Where fewer than 20 share as
        much there is no explanation, with NaN in its place and a line in ``compared_with``.
    num_threads
        Threads for kernels and engine; None means all cores, and one for the engine where values are few.

    Returns
    -------
    Explanation
        ``values``, ``base_values``, ``compared_with``; ``reasons``, ``to_frame``, ``to_json``, ``plot``.

    Examples
    --------
    >>> import numpy as np, pandas as pd, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.normal(size=(500, 3)), columns=["age", "steps", "glucose"]); y = X.sum(axis=1)
    >>> X.loc[::2, "glucose"] = np.nan
    >>> model = puc.train({"optional": ["glucose"], "favourable": "lower", "verbosity": -1}, (X, y), 20)
    >>> found = puc.explain(model, X[:4], background=X)
    >>> bool(np.allclose(found.base_values + found.values.sum(axis=1), model.predict(X[:4])))
    True
    >>> found.to_frame()["glucose"].eq(0).tolist()                        # withheld by the first and the third
    [True, False, True, False]
    """
    with engine_threads_for(num_threads, X):
        predictor = MaskedPredictor(model, X, num_threads=num_threads, target_class=target_class)
        others = MaskedPredictor(model, background, num_threads=num_threads, target_class=target_class)
        compared = Background(others, max_samples)
        return explained(predictor, compared, X, sharing, favourable, together, num_threads)


def explained(
    predictor: MaskedPredictor,
    background: Background,
    given: Any,
    sharing: Sharing = "as_given",
    favourable: Favourable | None = None,
    together: Any = None,
    num_threads: int | None = None,
    classes: Any = None,
) -> Explanation:
    """Explain everybody in the table of a predictor; results come in the container of ``given``."""
    check_sharing(sharing)
    check_favourable(favourable)
    used = predictor.shared if sharing == "as_given" else np.zeros_like(predictor.shared)
    if sharing == "best":
        too_many = who_has_too_many(predictor.shared, predictor.consent.nesting, DEFAULT_MAX_SUBSETS)
        if too_many is not None:
            row, groups, subsets = too_many
            raise ValueError(
                f"Row {row} shares {groups} groups, {subsets} subsets; for sharing='best', explain compares up to "
                f"{DEFAULT_MAX_SUBSETS:,}. Use sharing='as_given', or train with larger groups."
            )
        used = best_predictions(predictor, predictor.sign_of(favourable, "sharing='best'"), DEFAULT_MAX_SUBSETS)[1]
    players = Players(predictor.consent, together)
    values, base, compared = solve(predictor, used, background, players, num_threads)
    names = players.names
    if values.shape[1] > len(names):
        names = (*names, ANCHOR if ANCHOR not in names else f"the {ANCHOR}")
    if predictor.target_class is None:  # about one class of several the model keeps nothing
        favourable = favourable or predictor.kept_favourable
    several = range(values.shape[2]) if values.ndim == 3 else ()
    return Explanation(
        values=values,
        base_values=base,
        feature_names=names,
        shared=tuple(compared[mask].shared for mask in used.tolist()),
        compared_with=tuple(compared.values()),
        favourable=favourable,
        classes=tuple(several if classes is None or not several else classes),
        data=predictor.table,
        _given=given,
        _index=predictor.index,
    )


@dataclass(frozen=True, repr=False, eq=False)
class Explanation:
    """How much each column moved each person's score, as :func:`pucboost.explain` returns it.

    Fields have the names of ``shap.Explanation``. ``reasons`` lists for each person what moved their score most against
    them, ``plot`` draws one person, ``to_frame`` and ``to_json`` have all values.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); X[::2, 1] = np.nan
    >>> model = puc.train({"optional": [1], "verbosity": -1}, (X, X[:, 0]), 5)
    >>> puc.explain(model, X[[0]], background=X)
    <Explanation: 1 person, 2 columns>
    """

    values: Array
    """People × columns (× classes), raw scores."""
    base_values: Array
    """The mean score of the people that each person is compared with: people (× classes)."""
    feature_names: tuple[str, ...]
    """The columns, or what they are called together; last ``anchor``, if the model has one."""
    shared: tuple[str, ...]
    """For each person, the groups from which the score was made, as :func:`quote` calls them."""
    compared_with: tuple[ComparedWith, ...]
    """One entry for each set of groups among these people."""
    favourable: Favourable | None
    """What was given to the call, or what the model keeps."""
    classes: tuple[Any, ...]
    """The classes of a model with several, unless one was chosen."""
    data: Any
    """The people, with the columns of the model."""
    _given: Any = field(repr=False)
    _index: Any = field(repr=False)

    def to_frame(self) -> Any:
        """Return a table of the kind of ``X``: a row per person, with ``shared``, ``base_value`` and each column."""
        import pandas as pd

        names: Any = ["base_value", *self.feature_names]
        if self.classes:
            names = pd.MultiIndex.from_product([names, self.classes])
        numbers = np.concatenate([self.base_values[:, None], self.values], axis=1)
        table = pd.DataFrame(numbers.reshape(len(numbers), -1), columns=names, index=self._index)
        table.insert(0, ("shared", "") if self.classes else "shared", list(self.shared))
        return in_container_of(self._given, table)

    def reasons(self, top: int = TOP, favourable: Favourable | None = None) -> Any:
        """Return for each person the columns that moved their score most in the unfavourable direction.

        Never one that is withheld. ``reason_1`` is the column that moved it most, ``value_1`` by how much; they are
        missing from where nothing else moved it that way, and where there is nobody to compare with.

        Parameters
        ----------
        top
            How many reasons to name.
        favourable
            ``"lower"`` or ``"higher"``: which scores people prefer. Needed here, in the call of ``explain`` or in the
            model.
        """
        import pandas as pd

        if not is_whole(top) or top < 1:
            raise ValueError(f"top must be a whole number of at least 1, got {top!r}.")
        values, chosen = self._of_one_output("reasons"), check_favourable(favourable) or self.favourable
        if chosen is None:
            raise ValueError(
                "reasons needs favourable='lower' (a price) or favourable='higher' (an approval): do people prefer a "
                "lower or a higher score? Give it here, to explain, or once to training."
            )
        against = favourable_sign(chosen) * values
        against[~(against > _NOTHING * np.abs(against).sum(axis=1, keepdims=True))] = 0.0
        most = np.argsort(-against, axis=1, kind="stable")[:, :top]
        moved = np.take_along_axis(against, most, axis=1)
        named = np.array(self.feature_names, dtype=object)[most]
        named[~(moved > 0)] = None
        columns: dict[str, Any] = {}
        for k in range(most.shape[1]):
            columns[f"reason_{k + 1}"] = named[:, k]
            columns[f"value_{k + 1}"] = np.where(moved[:, k] > 0, favourable_sign(chosen) * moved[:, k], np.nan)
        return in_container_of(self._given, pd.DataFrame(columns, index=self._index))

    def to_json(self, path: str | Path | None = None) -> str:
        """Return all numbers as JSON, and write them to ``path`` (whole or not at all) if one is given."""
        found = {
            "feature_names": self.feature_names,
            "classes": self.classes,
            "favourable": self.favourable,
            "compared_with": [vars(one) for one in self.compared_with],
            "people": [
                {"shared": shared, "base_value": _plain(base), "values": _plain(values)}
                for shared, base, values in zip(self.shared, self.base_values, self.values, strict=True)
            ],
        }
        return deliver(json.dumps(found, ensure_ascii=False, allow_nan=False, default=str), path)

    def plot(self, person: int = 0, ax: Axes | None = None) -> Axes:
        """Draw one person, given by the number of their row: bars from what is usual to their score.

        Parameters
        ----------
        person
            The number of a row, from 0 on.
        ax
            Matplotlib axes to draw on; None makes a figure.
        """
        names, moved = zip(*self._bars(person), strict=True)
        ends = float(self.base_values[person]) + np.cumsum([0.0, *moved])
        low, span = ends.min(), np.ptp(ends) or 1.0
        digits = decimals_for(span, 3)
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(figsize=(7, 1.4 + 0.42 * len(names)), layout="constrained")[1]
        for y, value in enumerate(moved):
            colour = HIGHER if value > 0 else LOWER
            ax.barh(y, value, 0.62, left=ends[y], color=colour)
            ax.plot([ends[y + 1]] * 2, [y, y + 0.69], color="#999999", lw=0.7, zorder=0)
            beyond = max(ends[y], ends[y + 1]) + 0.015 * span
            ax.text(beyond, y, _number(value, digits, "+"), va="center", color=colour)
        ax.axvline(ends[0], color="#999999", lw=0.8, ls=":", zorder=0)
        ax.set_yticks(range(len(names)), names, parse_math=False)
        ax.set_ylim(len(names) - 0.31, -0.6)
        ax.set_xlim(low - 0.03 * span, low + 1.15 * span)
        whom = next(one for one in self.compared_with if one.shared == self.shared[person])
        told, usual = (_number(end, digits) for end in (ends[-1], ends[0]))
        ax.set_xlabel(f"raw score: {told} here,\n{usual} on average of {whom.used:,} people who share as much")
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        return ax

    def __repr__(self) -> str:
        people = "1 person" if len(self.values) == 1 else f"{len(self.values):,} people"
        return f"<Explanation: {people}, {len(self.feature_names)} columns>"

    def _repr_html_(self) -> str:
        """Return the picture of the first person, if there is one."""
        words = f"<p>{html.escape(repr(self))}</p>"
        if self.classes or np.isnan(self.base_values[0]):
            return words
        from matplotlib.figure import Figure

        figure, picture = Figure(figsize=(7, 4), layout="constrained"), io.BytesIO()
        self.plot(0, figure.subplots())
        figure.savefig(picture, format="png", dpi=120)
        content = base64.b64encode(picture.getvalue()).decode("ascii")
        return f'{words}<img width="560" alt="What moved the score of person 0" src="data:image/png;base64,{content}">'

    def _of_one_output(self, what: str) -> Array:
        if self.classes:
            raise ValueError(f"{what} of several classes: choose one with target_class of explain.")
        return self.values

    def _bars(self, person: int) -> Iterator[tuple[str, float]]:
        """Yield the columns of one person and their values, the largest first, and what is left over as one."""
        if not is_whole(person) or person not in range(len(self.values)):
            raise ValueError(f"person must be the number of a row, from 0 to {len(self.values) - 1}, got {person!r}.")
        values = self._of_one_output("A picture")[person]
        if math.isnan(self.base_values[person]):
            raise ValueError(
                f"Fewer than {FEWEST_COMPARED} people of the background share what person {person} shares "
                f"({self.shared[person]}), so there is nobody to compare them with. Give more people."
            )
        order = np.argsort(-np.abs(values), kind="stable")
        order = order[np.abs(values[order]) > _NOTHING * np.abs(values).sum()]
        shown = order if len(order) <= SHOWN + 1 else order[:SHOWN]
        for j in shown.tolist():
            yield self._labelled(person, j), float(values[j])
        rest = order[len(shown) :]
        if len(rest) or not len(order):
            yield f"{len(values) - len(shown)} other columns", float(values[rest].sum())

    def _labelled(self, person: int, j: int) -> str:
        """Return a column and its value."""
        name = self.feature_names[j]
        table = rows_of(self.data, np.array([person]))
        if is_frame(table):
            import narwhals as nw

            frame = nw.from_native(table, eager_only=True)
            row = dict(zip(map(str, frame.columns), frame.row(0), strict=True))
        else:
            source = row_source(table)
            row = dict(zip(source.names, source.window(0, 1)[0].tolist(), strict=True))
        return printable(f"{name} = {_shown(row[name])}" if name in row else name)


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "missing"
    return _number(value, decimals_for(value, 4)) if isinstance(value, float) else str(value)


def _number(value: float, decimals: int, sign: str = "") -> str:
    return f"{value:{sign},.{decimals}f}".replace("-", "−")


def _plain(values: Any) -> Any:
    """Return numbers for JSON, which has no NaN."""
    return [_plain(one) for one in values] if np.ndim(values) else None if math.isnan(values) else float(values)
