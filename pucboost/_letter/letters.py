"""Letters: what one person would be told for every choice of what they share, as a page for them.

``puc.quote`` gives analysts the same numbers. A page has nothing to load and sends nothing. Its table holds every
number, in words that are final, and the script only shows the row that the switches choose. So the page is complete
without scripts, no data of anybody stand in the script, and one hash in the content security policy fits every letter.
Bars are SVG, because the policy also forbids style attributes.

A letter promises what the definition of consent says, and no more. Numbers for groups that a person does not share
would need values that nobody knows, so there are none. Differences are taken between rounded numbers: a reader must be
able to check them.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from .._common import Array, did_you_mean
from .._consent import Consent, Nesting
from .._engines import boosters_of
from .._models.anchored import AnchoredModel
from .._pages import deliver, printable, templates
from .._prediction.predictor import MaskedPredictor, favourable_sign, people_by_mask, who_has_too_many
from .._prediction.sharing import shapley_weights
from .text import PERCENT, LetterNumber, LetterText, amount_like

MAX_SHARED = 10
"""A page with 2^10 choices has 0.2 MB, 0.5 MB if the groups have long names."""

LONGEST = 200
"""Bytes in the name of a file. Systems allow 255, the ending included."""

_PACKAGE = "pucboost._letter"
_PROBABILITIES = ("binary", "cross_entropy", "multiclass", "multiclassova")
_ODD = re.compile(r"[^\w.-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


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
    >>> words = puc.letters.LetterText(quantity="yearly price", groups={"blood": "your blood test"})
    >>> page = puc.letter(booster, X.iloc[[1]], text=words).to_html()
    >>> "<h1>What you share, and your yearly price</h1>" in page
    True
    """
    predictor = _predictor(model, X, target_class)
    if predictor.n_rows != 1:
        raise ValueError(
            f"A letter is about one person, but X has {predictor.n_rows} rows. Select one, such as X.iloc[[0]], or use "
            "puc.letters.for_each for a letter to each."
        )
    text = LetterText() if text is None else text
    [(_, made)] = each_letter(predictor, text, [reference], sharing=sharing, favourable=favourable)
    return made


def for_each(
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
    >>> [(one.reference, one.shared) for one in puc.letters.for_each(booster, X[:2], references=["a", "b"])]
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
        raise ValueError(f"text must be a pucboost.letters.LetterText, got {type(text).__name__}.")
    sign = _sign_of_best(sharing, favourable)
    check_groups(text, predictor.consent)
    too_many = no_room(predictor.shared, predictor.consent.nesting)
    if too_many is not None:
        raise ValueError(f"Row {too_many[0]} {too_many[1]}")
    model, nesting = predictor.model, predictor.consent.nesting
    loss = model.objective.name if isinstance(model, AnchoredModel) else boosters_of(model).facts(model).loss
    probabilities = loss in _PROBABILITIES
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
                bonus, reference = sign is not None, references[row]
                yield (
                    row,
                    Letter(shared, withheld, tuple(own), tuple(moved), bonus, number, text, reference, needs),
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
    """Return the row with most choices and a sentence about it, if they are too many for a letter; else None."""
    too_many = who_has_too_many(shared, nesting, 1 << MAX_SHARED)
    if too_many is None:
        return None
    row, groups, choices = too_many
    room = f"{MAX_SHARED} groups" if nesting.is_free else f"{1 << MAX_SHARED:,}"
    return row, (
        f"shares {groups} groups, so there are {choices} choices; a letter has room for {room}. Train with larger "
        "groups, or choose some subsets and use puc.quote."
    )


@dataclass(frozen=True)
class Letter:
    """A letter to one person, as :func:`pucboost.letter` returns it.

    ``shared`` and ``withheld`` are groups, ``quotes`` what the person would be told for each subset of ``shared``
    (``subsets``), and ``values`` how much each shared group moves it. ``to_html`` writes the page.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 3)); y = X.sum(axis=1)
    >>> X[::2, 2] = X[2::3, 1] = np.nan                                  # what is withheld is missing
    >>> booster = puc.train({"optional": [1, 2], "verbosity": -1}, puc.Dataset(X, y), 5)
    >>> letter = puc.letter(booster, X[[0]])
    >>> letter.shared, letter.withheld, len(letter.quotes)
    (('Column_1',), ('Column_2',), 2)
    >>> letter.told([]) == letter.quotes[0], letter.told() == float(booster.predict(X[[0]])[0])
    (True, True)
    """

    shared: tuple[str, ...]
    """The groups that the person shares."""
    withheld: tuple[str, ...]
    """The groups that they do not share."""
    quotes: tuple[float, ...]
    """One number for each of the ``subsets``."""
    values: tuple[float, ...]
    """How much each shared group moves the number (its Shapley value), in the order of ``shared``."""
    bonus: bool
    """Whether the most favourable number counts (``sharing="best"``)."""
    number: LetterNumber
    text: LetterText
    reference: str | None = None
    """What identifies the letter."""
    needs: tuple[int, ...] = ()
    """For each shared group the place of the one that it needs, −1 for none; empty if no group needs another."""

    @property
    def nesting(self) -> Nesting:
        """Which of the shared groups need others."""
        return Nesting(self.needs or (-1,) * len(self.shared))

    @property
    def subsets(self) -> list[int]:
        """The subsets of ``shared`` that the person can choose, ascending: bit g is group number g of ``shared``."""
        return [int(mask) for mask in self.nesting.submasks((1 << len(self.shared)) - 1)]

    def told(self, groups: Sequence[str] | None = None) -> float:
        """Return what the person would be told if they shared these of their groups; None for all of them.

        What these groups need is shared with them.
        """
        if groups is None:
            return self.quotes[-1]
        for group in groups:
            if group not in self.shared:
                raise ValueError(f"The person does not share group {group!r}; they share {list(self.shared)}.")
        mask = self.nesting.closed(sum(1 << self.shared.index(group) for group in set(groups)))
        return self.quotes[self.subsets.index(mask)]

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one self-contained HTML page, and write it to ``path`` (whole or not at all) if one is given."""
        return deliver(render_html(self), path)

    def _repr_html_(self) -> str:
        # In a frame of its own: the page has styles and a script, and several may stand in one notebook.
        title, page = html.escape(self.text.fill("title")), html.escape(self.to_html())
        look = "width: 100%; height: 40rem; border: 1px solid #8888"
        return f'<iframe title="{title}" sandbox="allow-scripts" style="{look}" srcdoc="{page}"></iframe>'


# ----- the page


def render_html(letter: Letter) -> str:
    """Return one complete HTML page, with all text escaped."""
    from markupsafe import Markup

    letter = printable(letter)
    text, number = letter.text, letter.number
    names = {group: text.groups.get(group, group) for group in (*letter.shared, *letter.withheld)}
    rows = _rows(letter, names)
    style, script = _asset("letter.css"), _asset("letter.js")
    allowed = f"'{_digest(script)}'" if letter.shared else "'none'"
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src {allowed}; base-uri 'none'; form-action 'none'"
    )
    return (
        templates(_PACKAGE)
        .get_template("letter.html")
        .render(
            text=text,
            fill=text.fill,
            title=text.fill("title"),
            reference=letter.reference,
            bonus=letter.bonus,
            switches=[
                (names[group], needed)
                for group, needed in zip(letter.shared, letter.needs or (-1,) * len(letter.shared), strict=True)
            ],
            withheld=[names[group] for group in letter.withheld],
            now=rows[-1],
            rows=rows,
            values=_values(letter, names),
            without=number.show(letter.quotes[0]),
            with_all=number.show(letter.quotes[-1]),
            policy=Markup(policy),
            style=Markup(style),
            script=Markup(script),
        )
    )


def _rows(letter: Letter, names: dict[str, str]) -> list[dict[str, Any]]:
    """Return all choices, those with fewest groups first, so that what is shared today comes last."""
    text, number, today = letter.text, letter.number, letter.quotes[-1]
    rows = []
    choices = sorted(zip(letter.subsets, letter.quotes, strict=True), key=lambda choice: choice[0].bit_count())
    for mask, told in choices:
        groups = [names[group] for g, group in enumerate(letter.shared) if mask >> g & 1]
        difference = number.difference(told, today)
        compared = {
            0: text.fill("compared_same"),
            1: text.fill("compared_more", difference=difference),
            -1: text.fill("compared_less", difference=difference),
        }[number.compare(told, today)]
        is_today = mask.bit_count() == len(letter.shared)
        rows.append(
            {
                "mask": mask,
                "shared": text.listing(groups) if groups else text.fill("nothing"),
                "told": number.show(told),
                "compared": text.fill("compared_now") if is_today else compared,
            }
        )
    return rows


def _values(letter: Letter, names: dict[str, str]) -> list[dict[str, Any]]:
    """Return how much each group moves the number, in words, and as a bar in percent of the largest."""
    text, number = letter.text, letter.number
    largest = max(map(abs, letter.values), default=0.0)
    values = []
    for group, value in zip(letter.shared, letter.values, strict=True):
        direction = number.compare(value, 0.0)
        sentence = (
            text.fill("value_raises" if direction > 0 else "value_lowers", difference=number.difference(value, 0.0))
            if direction
            else text.fill("value_nothing")
        )
        # Bars of differences that are too small to show would contradict the words.
        length = round(100 * value / largest, 2) if direction else 0.0
        values.append({"group": names[group], "sentence": sentence, "length": length})
    return values


@cache
def _asset(name: str) -> str:
    return (files(_PACKAGE) / "templates" / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """Return how a Content-Security-Policy names an element with this content."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")


def file_name(reference: str) -> str:
    """Return ``reference`` as the name of a file without its ending; empty if nothing of it can be used.

    Letters, digits, ``-``, ``_`` and ``.`` within the name stay, everything else becomes ``_``.

    Examples
    --------
    >>> file_name("../../etc/passwd"), file_name("Müller, Ada #7"), file_name("nul.txt"), file_name("..")
    ('_.._etc_passwd', 'Müller_Ada_7', '_nul.txt', '')
    """
    name = _ODD.sub("_", unicodedata.normalize("NFC", reference).strip()).strip(".")
    name = "" if not name.strip("_") else name
    if name.startswith("-") or _RESERVED.fullmatch(name):  # an option to commands, and a device on Windows
        name = f"_{name}"
    return name.encode("utf-8")[:LONGEST].decode("utf-8", "ignore")
