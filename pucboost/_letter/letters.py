"""``letter`` and ``letters``: from a model and people to pages for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arrays import Array
from .._engines import boosters_of
from .._models.anchored import AnchoredModel
from .._nesting import Nesting
from .._prediction.best_subset import favourable_sign, who_has_too_many
from .._prediction.predictor import MaskedPredictor
from .._prediction.sharing import shapley_weights
from .._prediction.subsets import people_by_mask
from .._tables.names import did_you_mean
from .numbers import PERCENT, amount_like
from .results import Letter
from .text import LetterText

if TYPE_CHECKING:
    from .._consent import Consent

MAX_SHARED = 10
"""A page with 2^10 choices has 0.2 MB, 0.5 MB if the groups have long names."""

_PROBABILITIES = ("binary", "cross_entropy", "multiclass", "multiclassova")


def letter(
    model: Any,
    X: Any,
    *,
    text: LetterText | None = None,
    reference: str | None = None,
    sharing: str = "as_given",
    favourable: str | None = None,
    target_class: Any = None,
) -> Letter:
    """Return a letter to one person: what they would be told for every choice among the data they share.

    The numbers are those of :func:`quote`. ``to_html`` writes them as one page for a layperson, with a switch for each
    shared group.

    Parameters
    ----------
    model
        As returned by :func:`pucboost.train`, or one of pucboost's estimators, or a pipeline that ends in one.
    X
        A table with one row, the person, and the columns of training. They may share up to 10 groups, or have 1,024
        choices where groups need others; a switch then moves those that need it, or that it needs.
    text
        Words, names of the groups, and how numbers look.
    reference
        What identifies the letter, such as a customer number; it stands on the page.
    sharing
        ``"as_given"``: what is shared is used. ``"best"``: people get the most favourable prediction over all subsets
        of what they share, as in :func:`predict`; the letter then says so.
    favourable
        ``"lower"`` or ``"higher"``; needed for, and only used by, ``sharing="best"``.
    target_class
        The class whose probability the letter is about, for a model with several, as in :func:`predict`.

    Examples
    --------
    >>> import numpy as np, pandas as pd, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["age", "glucose"]); y = 500 + 100 * X.sum(axis=1)
    >>> X.loc[::2, "glucose"] = np.nan
    >>> booster = puc.train({"optional": {"blood": ["glucose"]}, "verbosity": -1}, puc.Dataset(X, y), 50)
    >>> words = puc.LetterText(quantity="yearly price", groups={"blood": "your blood test"})
    >>> page = puc.letter(booster, X.iloc[[1]], text=words).to_html()
    >>> "<h1>What you share, and your yearly price</h1>" in page
    True
    """
    predictor = _predictor(model, X, target_class)
    if predictor.n_rows != 1:
        raise ValueError(
            f"A letter is about one person, but X has {predictor.n_rows} rows. Select one, such as X.iloc[[0]], or use "
            "puc.letters for a letter to each."
        )
    text = LetterText() if text is None else text
    [(_, made)] = each_letter(predictor, text, [reference], sharing=sharing, favourable=favourable)
    return made


def letters(
    model: Any,
    X: Any,
    *,
    text: LetterText | None = None,
    references: Sequence[str] | None = None,
    sharing: str = "as_given",
    favourable: str | None = None,
    target_class: Any = None,
) -> list[Letter]:
    """Return a letter to each person in a table, see :func:`letter`.

    Parameters
    ----------
    model, text, sharing, favourable, target_class
        As in :func:`letter`.
    X
        A table with the columns of training, one row per person.
    references
        What identifies each letter, one per row.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = X.sum(axis=1)
    >>> X[::2, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, puc.Dataset(X, y), 5)
    >>> [(one.reference, one.shared) for one in puc.letters(booster, X[:2], references=["a", "b"])]
    [('a', ()), ('b', ('Column_1',))]
    """
    predictor = _predictor(model, X, target_class)
    names: Sequence[str | None] = [None] * predictor.n_rows if references is None else list(references)
    if len(names) != predictor.n_rows:
        raise ValueError(f"references must have one entry per row of X, {predictor.n_rows}; got {len(names)}.")
    text = LetterText() if text is None else text
    made = dict(each_letter(predictor, text, names, sharing=sharing, favourable=favourable))
    return [made[row] for row in range(predictor.n_rows)]


def _predictor(model: Any, X: Any, target_class: Any) -> MaskedPredictor:
    if getattr(X, "ndim", 2) == 1:
        raise ValueError(
            f"X must be a table with one row per person, got a {type(X).__name__} with one dimension. Select a row "
            "as a table: X.iloc[[0]], or X[[0]] of an array."
        )
    return MaskedPredictor(model, X, target_class=target_class)


def each_letter(
    predictor: MaskedPredictor,
    text: LetterText,
    references: Sequence[str | None],
    *,
    sharing: str,
    favourable: str | None,
) -> Iterator[tuple[int, Letter]]:
    """Yield row and letter of each person, those who share the same together.

    f(s) is what is told for the subset s of what a person shares; with ``sharing="best"`` it is min_{t ⊆ s} f(t).
    """
    if not isinstance(text, LetterText):
        raise ValueError(f"text must be a pucboost.LetterText, got {type(text).__name__}.")
    sign = _sign_of_best(sharing, favourable)
    check_groups(text, predictor.consent)
    too_many = no_room(predictor.shared, predictor.consent.nesting)
    if too_many is not None:
        raise ValueError(f"Row {too_many[0]} {too_many[1]}")
    probabilities, nesting = _objective_of(predictor.model) in _PROBABILITIES, predictor.consent.nesting
    for mask, people in people_by_mask(predictor.shared):
        shared = predictor.consent.groups_of(mask)
        withheld = tuple(group for group in predictor.consent.group_names if group not in shared)
        weights, needs = shapley_weights(mask, nesting), _needs_within(shared, predictor.consent)
        for some, told in predictor.all_subsets(people, nesting.submasks(mask)):
            quotes = np.asarray(told, dtype=np.float64)
            if sign is not None:
                quotes = sign * _best_within(sign * quotes, mask, nesting)
            values = quotes @ weights
            for row, own, moved in zip(some.tolist(), quotes.tolist(), values.tolist(), strict=True):
                number = text.number or (PERCENT if probabilities else amount_like(own))
                yield (
                    row,
                    Letter(
                        shared,
                        withheld,
                        tuple(own),
                        tuple(moved),
                        sign is not None,
                        number,
                        text,
                        references[row],
                        needs,
                    ),
                )


def _needs_within(shared: tuple[str, ...], consent: Consent) -> tuple[int, ...]:
    """Return the place of the group that each shared group needs, −1 for none; empty if none needs another."""
    if not any(group in consent.needs for group in shared):
        return ()
    return tuple(shared.index(consent.needs[group]) if group in consent.needs else -1 for group in shared)


def _best_within(values: Array, mask: int, nesting: Nesting) -> Array:
    """Return min_{t ⊆ s} v(t) for every admissible subset s, given v for all of them in ascending order."""
    best, subsets = values.copy(), nesting.submasks(mask).tolist()
    place = {subset: number for number, subset in enumerate(subsets)}
    for subset in subsets:  # smaller ones come first
        for g in range(subset.bit_length()):
            smaller = subset ^ 1 << g
            if smaller < subset and smaller in place:
                best[:, place[subset]] = np.minimum(best[:, place[subset]], best[:, place[smaller]])
    return best


def _sign_of_best(sharing: str, favourable: str | None) -> float | None:
    """Return the sign for which the least is the most favourable; None if what is shared is used as given."""
    if sharing not in ("as_given", "best"):
        raise ValueError(f"sharing must be 'as_given' or 'best', got {sharing!r}.")
    if sharing == "as_given":
        if favourable is not None:
            raise ValueError("favourable is only used with sharing='best'; leave it out.")
        return None
    if favourable is None:
        raise ValueError("sharing='best' needs favourable='lower' (a price) or favourable='higher' (an approval).")
    return favourable_sign(favourable)


def check_groups(text: LetterText, consent: Consent) -> None:
    """Raise if a text names a group that a model does not have, or calls two groups the same."""
    for group in text.groups:
        if group not in consent.groups:
            raise ValueError(
                f"groups of LetterText names the group {group!r}, but the groups of the model are "
                f"{list(consent.group_names)}.{did_you_mean(str(group), consent.group_names)}"
            )
    seen: dict[str, str] = {}
    for group in consent.group_names:
        name = text.groups.get(group, group)
        if name in seen:
            raise ValueError(f"groups of LetterText: groups {seen[name]!r} and {group!r} are both called {name!r}.")
        seen[name] = group


def no_room(shared: Array, nesting: Nesting) -> tuple[int, str] | None:
    """Return the row with most choices, and what to say of it, if these are too many for a letter; else None."""
    too_many = who_has_too_many(shared, nesting, 1 << MAX_SHARED)
    if too_many is None:
        return None
    row, groups, choices = too_many
    room = f"{MAX_SHARED} groups" if nesting.is_free else f"{1 << MAX_SHARED:,}"
    return row, (
        f"shares {groups} groups, so there are {choices} choices; a letter has room for {room}. Train with larger "
        "groups, or choose some subsets and use puc.quote."
    )


def _objective_of(model: Any) -> str | None:
    return model.objective.name if isinstance(model, AnchoredModel) else boosters_of(model).objective(model).name
