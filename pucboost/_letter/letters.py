"""Letters: what one person would be told for every choice of what they share, as a page for them.

``puc.quote`` gives analysts the same numbers. A page has nothing to load and sends nothing. Its table holds every
number, in words that are final, and the script only shows the row that the switches choose. So the page is complete
without scripts, no data of anybody stand in the script, and one hash in the content security policy fits every letter.
Bars are SVG, because the policy also forbids style attributes.

A letter promises no more than is known: how the model was trained, and what its audit found. So there is none from a
model that was trained on silence as it is, and none to a person whose set of groups training never saw. Numbers for
groups that a person does not share would need values that nobody knows, so there are none. Differences are taken
between rounded numbers: a reader must be able to check them.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from .._common import Array, did_you_mean
from .._consent import Consent
from .._engines import boosters_of
from .._explaining.explanation import explained
from .._explaining.game import Background
from .._intervals import Intervals
from .._models.anchored import AnchoredModel, trees_of
from .._models.files import model_hash
from .._models.schema import TrainingSummary, kept_of
from .._pages import deliver, printable, templates
from .._prediction.predictor import MaskedPredictor, people_by_mask, who_has_too_many
from .._prediction.sharing import shapley_weights
from .._virtual.plan import MIN_PEOPLE_OF_MASK
from .text import PERCENT, LetterNumber, LetterText, amount_like, worded

MAX_SHARED = 10
"""A page with 2^10 choices has 0.2 MB, 0.5 MB if the groups have long names."""

REASONS, REASONS_COMPARED = 4, 1_000
"""How many columns a letter names, and with how many people at most it compares."""

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
    quantity: str | None = None,
    text: LetterText | None = None,
    audit: Any = None,
    reference: str | None = None,
    sharing: str = "as_given",
    favourable: str | None = None,
    target_class: Any = None,
    background: Any = None,
    intervals: Any = None,
    questions: Any = None,
) -> Letter:
    """Return a letter to one person: what they would be told for every choice among the data they share.

    The numbers are those of :func:`quote`. ``to_html`` writes them as one page for a layperson, with a switch for each
    shared group.

    A letter says that nothing is concluded from silence, so it is refused where the model was not trained for that
    (``augmentation="none"``, a plain booster, one whose protection is lost), and where no set of groups that five
    people shared in training contains all that the person shares: there is nobody to compare them with.

    Parameters
    ----------
    model
        As returned by :func:`pucboost.train`, or one of pucboost's estimators, or a pipeline that ends in one.
    X
        A table with one row, the person, and the columns of training. They may share up to 10 groups, or have 1,024
        choices where groups need others; a switch then moves those that need it, or that it needs.
    quantity
        What the number is, and in which unit, as it follows the word "your": ``"yearly price in euros"``. Needed here
        or in ``text``.
    text
        Words, names of the groups, and how numbers look.
    audit
        The report of :func:`audit` about this model, or the content of its JSON file as a dict. The page tells when
        the model was checked, and with which result; without one it says that it was not audited.
    reference
        What identifies the letter, such as a customer number; it stands on the page.
    sharing
        ``"as_given"``: what is shared is used. ``"best"``: people get the most favourable prediction over all subsets
        of what they share, as in :func:`predict`; the letter then says so.
    favourable
        ``"lower"`` or ``"higher"``; needed for, and only used by, ``sharing="best"``.
    target_class
        The class whose probability the letter is about, for a model with several, as in :func:`predict`.
    background
        People to compare with, as in :func:`explain`: the letter then names the columns that moved the number most, in
        either direction.
    intervals
        What :func:`intervals` found for this model: the letter then says how sure the number is.
    questions
        What :func:`questions` found about this model: of what the person withholds, the letter then says what others
        were told who shared it. Both are about all that is shared, so neither goes with ``sharing="best"``.

    Examples
    --------
    >>> import numpy as np, pandas as pd, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["age", "glucose"]); y = 500 + 100 * X.sum(axis=1)
    >>> X.loc[::2, "glucose"] = np.nan
    >>> booster = puc.train({"optional": {"blood": ["glucose"]}, "verbosity": -1}, puc.Dataset(X, y), 50)
    >>> words = puc.letters.LetterText(groups={"blood": "your blood test"})
    >>> page = puc.letter(booster, X.iloc[[1]], quantity="yearly price in euros", text=words).to_html()
    >>> "<h1>What you share, and your yearly price in euros</h1>" in page
    True
    """
    predictor = _predictor(model, X, target_class)
    if predictor.n_rows != 1:
        raise ValueError(
            f"A letter is about one person, but X has {predictor.n_rows} rows. Select one, such as X.iloc[[0]], or use "
            "puc.letters.for_each for a letter to each."
        )
    words = worded(text, quantity)
    others, ranges = _background(model, background, target_class), ranges_of(model, X, intervals)
    made = each_letter(
        model,
        predictor,
        [reference],
        words,
        audit=audit,
        sharing=sharing,
        favourable=favourable,
        background=others,
        ranges=ranges,
        questions=questions,
    )
    return next(made)[1]


def for_each(
    model: Any,
    X: Any,
    *,
    quantity: str | None = None,
    text: LetterText | None = None,
    audit: Any = None,
    references: Sequence[str] | None = None,
    sharing: str = "as_given",
    favourable: str | None = None,
    target_class: Any = None,
    background: Any = None,
    intervals: Any = None,
    questions: Any = None,
) -> list[Letter]:
    """Return a letter to each person in a table, see :func:`letter`.

    Parameters
    ----------
    model, quantity, text, audit, sharing, favourable, target_class, background, intervals, questions
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
    >>> letters = puc.letters.for_each(booster, X[:2], quantity="score", references=["a", "b"])
    >>> [(one.reference, one.shared) for one in letters]
    [('a', ()), ('b', ('Column_1',))]
    """
    predictor = _predictor(model, X, target_class)
    names: Sequence[str | None] = [None] * predictor.n_rows if references is None else list(references)
    if len(names) != predictor.n_rows:
        raise ValueError(f"references must have one entry per row of X, {predictor.n_rows}; got {len(names)}.")
    words = worded(text, quantity)
    others, ranges = _background(model, background, target_class), ranges_of(model, X, intervals)
    made = dict(
        each_letter(
            model,
            predictor,
            names,
            words,
            audit=audit,
            sharing=sharing,
            favourable=favourable,
            background=others,
            ranges=ranges,
            questions=questions,
        )
    )
    return [made[row] for row in range(predictor.n_rows)]


def _predictor(model: Any, X: Any, target_class: Any) -> MaskedPredictor:
    if getattr(X, "ndim", 2) == 1:
        raise ValueError(
            f"X must be a table with one row per person, got a {type(X).__name__} with one dimension. Select a row "
            "as a table: X.iloc[[0]], or X[[0]] of an array."
        )
    return MaskedPredictor(model, X, target_class=target_class)


def _background(model: Any, people: Any, target_class: Any) -> Background | None:
    if people is None:
        return None
    return Background(MaskedPredictor(model, people, target_class=target_class), REASONS_COMPARED)


def ranges_of(model: Any, X: Any, intervals: Any) -> list[Range] | None:
    """Return for each person between which values the outcome will lie, from what they share."""
    if intervals is None:
        return None
    if not isinstance(intervals, Intervals):
        raise ValueError(f"intervals must be what puc.intervals returned, got {type(intervals).__name__}.")
    intervals.check_fits(model, "Letters")
    return [Range(low, high, groups, intervals.level) for low, high, groups in intervals.of_people(X)]


def each_letter(
    model: Any,
    predictor: MaskedPredictor,
    references: Sequence[str | None],
    text: LetterText,
    *,
    audit: Any,
    sharing: str,
    favourable: str | None,
    background: Background | None = None,
    ranges: Sequence[Range] | None = None,
    questions: Any = None,
    person: Callable[[int], str] = "Row {}".format,
) -> Iterator[tuple[int, Letter]]:
    """Yield row and letter of each person, those who share the same together; errors call them ``person(row)``.

    f(s) is what is told for the subset s of what a person shares; with ``sharing="best"`` it is min_{t ⊆ s} f(t).
    """
    sign = _sign_of_best(predictor, sharing, favourable)
    consent, nesting, trees = predictor.consent, predictor.consent.nesting, predictor.model
    _check_groups(text, consent)
    summary = _protected(kept_of(trees)[1])
    about = _about(text, model, trees, audit)
    loss = trees.objective.name if isinstance(trees, AnchoredModel) else boosters_of(trees).facts(trees).loss
    too_many = who_has_too_many(predictor.shared, nesting, 1 << MAX_SHARED)
    if too_many is not None:
        row, groups, choices = too_many
        raise ValueError(
            f"{person(row)} shares {groups} groups, so there are {choices} choices; a letter has room for "
            f"{f'{MAX_SHARED} groups' if nesting.is_free else f'{1 << MAX_SHARED:,}'}. Train with larger groups, or "
            "choose some subsets and use puc.quote."
        )
    if sharing == "best" and (ranges is not None or questions is not None):
        raise ValueError("intervals and questions are about all that is shared; leave them out with sharing='best'.")
    learned = {} if questions is None else _learned(predictor, questions)
    reasons = {} if background is None else _reasons(predictor, background, text, sharing, favourable, person)
    for mask, people in people_by_mask(predictor.shared):
        shared = consent.groups_of(mask)
        if not _was_seen(mask, summary):
            raise ValueError(
                f"{person(people[0])} shares {list(shared)}. In training no {MIN_PEOPLE_OF_MASK} people shared one set "
                "of groups with all of these, so there is nobody to compare this person with, and a letter would say "
                "that there is. Train with larger groups or on more people; puc.quote shows the numbers."
            )
        withheld = tuple(group for group in consent.group_names if group not in shared)
        submasks, weights = nesting.submasks(mask), shapley_weights(mask, nesting)
        places = [g for g in range(consent.n_groups) if mask >> g & 1]
        subsets = tuple(sum((s >> g & 1) << place for place, g in enumerate(places)) for s in submasks.tolist())
        for some, told in predictor.all_subsets(people, submasks):
            quotes = np.asarray(told, dtype=np.float64)
            if sign is not None:
                quotes = sign * _best_within(sign * quotes, subsets)
            for row, own, moved in zip(some.tolist(), quotes.tolist(), (quotes @ weights).tolist(), strict=True):
                number = text.number or (PERCENT if loss in _PROBABILITIES else amount_like(own))
                values, bonus = tuple(moved), sign is not None
                one = Letter(shared, withheld, subsets, tuple(own), values, bonus, number, about, references[row])
                more: dict[str, Any] = {
                    "range": None if ranges is None else ranges[row],
                    "learned": tuple(learned.get(row, ())),
                }
                yield row, replace(one, **more, **reasons.get(row, {}))


def _learned(predictor: MaskedPredictor, questions: Any) -> dict[int, list[tuple[str, float, float]]]:
    """Return for each row and withheld group between which numbers most of those were told who shared it."""
    asking = getattr(questions, "_asking", None)
    if asking is None:
        raise ValueError(
            "questions must be what puc.questions returned, not read or copied: it learns from people, who are not "
            "saved."
        )
    asked = asking.people.model
    if asked is not predictor.model and (model_hash(asked) is None or model_hash(asked) != model_hash(predictor.model)):
        raise ValueError("questions are about another model. Call puc.questions with this model.")
    learned: dict[int, list[tuple[str, float, float]]] = {}
    for group, rows, found in asking.ranges(predictor):
        for row, (low, *_, high) in zip(rows.tolist(), found.tolist(), strict=True):
            learned.setdefault(row, []).append((group, low, high))
    return learned


def _reasons(
    predictor: MaskedPredictor,
    background: Background,
    text: LetterText,
    sharing: Any,
    favourable: Any,
    person: Callable[[int], str],
) -> dict[int, dict[str, Any]]:
    """Return for each row what moved the score that is told most, and how many people it is compared with."""
    found = explained(predictor, background, None, sharing, favourable)
    if found.classes:
        return {}  # there is no letter about several
    for column in text.columns:
        if column not in found.feature_names:
            raise ValueError(
                f"columns of LetterText names the column {column!r}, but the model has none of that name."
                f"{did_you_mean(str(column), found.feature_names)}"
            )
    compared = {one.shared: one for one in found.compared_with}
    reasons: dict[int, dict[str, Any]] = {}
    for row, (values, shared) in enumerate(zip(found.values, found.shared, strict=True)):
        if not compared[shared].used:
            raise ValueError(
                f"{person(row)} shares {shared!r}, as {compared[shared].people} people of the background do: too few "
                "to compare this person with. Give more people, or no background."
            )
        most = np.argsort(-np.abs(values), kind="stable")[:REASONS]
        moved = [(found.feature_names[j], float(values[j])) for j in most if values[j]]
        reasons[row] = {"reasons": tuple(moved), "compared_with": compared[shared].used}
    return reasons


def _sign_of_best(predictor: MaskedPredictor, sharing: str, favourable: Any) -> float | None:
    """Return the sign for which the least is the most favourable; None if what is shared is used as given."""
    if sharing not in ("as_given", "best"):
        raise ValueError(f"sharing must be 'as_given' or 'best', got {sharing!r}.")
    if sharing == "as_given":
        if favourable is not None:
            raise ValueError("favourable is only used with sharing='best'; leave it out.")
        return None
    return predictor.sign_of(favourable, "sharing='best'")


def _check_groups(text: LetterText, consent: Consent) -> None:
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


def _protected(summary: TrainingSummary | None) -> TrainingSummary:
    """Return the summary of a training that draws no conclusions from silence; else raise."""
    if summary is None:
        raise ValueError(
            "It is not known how the model was trained, so a letter cannot say what it concludes from silence. Train "
            "it with pucboost.train."
        )
    if summary.augmentation == "none":
        raise ValueError(
            "The model was trained with augmentation='none': it may conclude something from silence, and a letter says "
            "that it does not. Train it with another augmentation; puc.quote shows the numbers of this one."
        )
    return summary


def _was_seen(mask: int, summary: TrainingSummary) -> bool:
    """Return whether training saw the set ``mask``, and with it all of its subsets.

    Under the weight law every person stands for all subsets of what they share. So under each scheme of augmentation
    training has seen a set if some people share at least this set, and then all that the switches choose from it. Sets
    that fewer than five people share exactly are not kept, so a set may be refused that was seen. A model that keeps no
    list (None) has seen more than 4,096 sets of five people or more.
    """
    seen = summary.masks_seen
    return mask == 0 or seen is None or any(mask & ~other == 0 for other in seen)


def _best_within(values: Array, subsets: Sequence[int]) -> Array:
    """Return min_{t ⊆ s} v(t) for every subset s, given v for all of them in ascending order."""
    best, place = values.copy(), {subset: number for number, subset in enumerate(subsets)}
    for subset in subsets:  # smaller ones come first
        for g in range(subset.bit_length()):
            smaller = subset ^ 1 << g
            if smaller < subset and smaller in place:
                best[:, place[subset]] = np.minimum(best[:, place[subset]], best[:, place[smaller]])
    return best


@dataclass(frozen=True)
class About:
    """What a letter says about the model: which one it is, and what its audit found."""

    text: LetterText
    model: str
    """The first digits of the hash of the model."""
    made: str
    """The day on which the letter was made."""
    checked: str = ""
    """The day of the audit, empty if there was none."""
    verdict: str = ""
    telling: bool = False
    """Whether the audit found base columns that nearly tell who withholds, justified or not."""


def _about(text: LetterText, model: Any, trees: Any, audit: Any) -> About:
    """Return what is known about a model and the trees in it; raise if the audit was of another one."""
    own = model_hash(trees) or str(model_hash(trees_of(trees)))  # an anchor may have no hash
    about = About(text, own[:12], date.today().isoformat())
    if audit is None:
        return about
    given = audit.to_dict() if hasattr(audit, "to_dict") else audit
    try:
        verdict, day, audited = given["verdict"], given["provenance"]["date"], given["provenance"]["model_hash"]
        telling = any(column["conspicuous"] for column in (given["recognition"] or {"columns": ()})["columns"])
    except (TypeError, KeyError):
        raise ValueError(f"audit must be what puc.audit returns, or its to_dict(); got {audit!r:.60}.") from None
    if audited not in (None, own, model_hash(model)):
        raise ValueError(
            f"audit is about another model: the hash of the audited one begins with {audited:.12}, that of this one "
            f"with {about.model}. Audit this model."
        )
    if not hasattr(text, result_of(verdict)):
        raise ValueError(f"audit has the verdict {verdict!r}, which this version of pucboost does not know.")
    return replace(about, checked=f"{day:.10}", verdict=verdict, telling=telling)


def result_of(verdict: str) -> str:
    """Return which of the texts says what a verdict means."""
    return "result_" + "_".join(str(verdict).split())


@dataclass(frozen=True)
class Range:
    """Between which values an outcome will lie with a probability of at least ``level``."""

    low: float
    high: float
    groups: tuple[str, ...]
    """What the range is worked out from."""
    level: float


@dataclass(frozen=True, repr=False)
class Letter:
    """A letter to one person, as :func:`pucboost.letter` returns it.

    ``shared`` and ``withheld`` are groups, ``quotes`` what the person would be told for each subset of ``shared``
    (``subsets``), and ``values`` how much each shared group moves it. ``about`` has the first digits of the model's
    hash (``model``), the day (``made``), and what the audit found (``checked``, ``verdict``). ``to_html`` writes the
    page.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(200, 3)); y = X.sum(axis=1)
    >>> X[::2, 2] = X[2::3, 1] = np.nan                                  # what is withheld is missing
    >>> booster = puc.train({"optional": [1, 2], "verbosity": -1}, puc.Dataset(X, y), 5)
    >>> letter = puc.letter(booster, X[[0]], quantity="score")
    >>> letter.shared, letter.withheld, len(letter.quotes)
    (('Column_1',), ('Column_2',), 2)
    >>> letter.told([]) == letter.quotes[0], letter.told() == float(booster.predict(X[[0]])[0])
    (True, True)
    """

    shared: tuple[str, ...]
    """The groups that the person shares."""
    withheld: tuple[str, ...]
    """The groups that they do not share."""
    subsets: tuple[int, ...]
    """The subsets of ``shared`` that the person can choose, ascending: bit g is group number g of ``shared``."""
    quotes: tuple[float, ...]
    """One number for each of the ``subsets``."""
    values: tuple[float, ...]
    """How much each shared group moves the number (its Shapley value), in the order of ``shared``."""
    bonus: bool
    """Whether the most favourable number counts (``sharing="best"``)."""
    number: LetterNumber
    about: About
    """The words, and what is known about the model."""
    reference: str | None = None
    """What identifies the letter."""
    reasons: tuple[tuple[str, float], ...] = ()
    """The columns that moved the score most, and by how much on the scale of raw scores."""
    compared_with: int = 0
    """How many people the reasons compare with."""
    range: Range | None = None
    """Between which values the outcome will lie."""
    learned: tuple[tuple[str, float, float], ...] = ()
    """Withheld groups, and between which numbers 80 % of those were told who shared them."""

    def told(self, groups: Sequence[str] | None = None) -> float:
        """Return what the person would be told if they shared these of their groups; None for all of them.

        What these groups need is shared with them.
        """
        for group in groups or ():
            if group not in self.shared:
                raise ValueError(f"The person does not share group {group!r}; they share {list(self.shared)}.")
        wanted = self.shared if groups is None else groups
        return self.quotes[self.subsets.index(self._with_needs({self.shared.index(group) for group in wanted}))]

    def _with_needs(self, places: Iterable[int]) -> int:
        """Return the smallest subset that has some groups, given by their place."""
        mask = sum(1 << place for place in places)
        return min((subset for subset in self.subsets if subset & mask == mask), key=int.bit_count)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one self-contained HTML page, and write it to ``path`` (whole or not at all) if one is given."""
        return deliver(render_html(self), path)

    def __repr__(self) -> str:
        name = "" if self.reference is None else f" {self.reference!r}"
        shares = ", ".join(self.shared) or "nothing"
        return f"<Letter{name}: {self.about.text.quantity} {self.number.show(self.quotes[-1])}, shares {shares}>"

    def _repr_html_(self) -> str:
        # In a frame of its own: the page has styles and a script, and several may stand in one notebook.
        title, page = html.escape(self.about.text.fill("title")), html.escape(self.to_html())
        look = "width: 100%; height: 40rem; border: 1px solid #8888"
        return f'<iframe title="{title}" sandbox="allow-scripts" style="{look}" srcdoc="{page}"></iframe>'


# ----- the page


def render_html(letter: Letter) -> str:
    """Return one complete HTML page, with all text escaped."""
    from markupsafe import Markup

    letter = printable(letter)
    about, text, number = letter.about, letter.about.text, letter.number
    names = {group: text.groups.get(group, group) for group in (*letter.shared, *letter.withheld)}
    rows = _rows(letter, names)
    style, script = _asset("letter.css"), _asset("letter.js")
    allowed = f"'{_digest(script)}'" if letter.shared else "'none'"
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src {allowed}; base-uri 'none'; form-action 'none'"
    )
    page = templates(_PACKAGE).get_template("letter.html")
    return page.render(
        text=text,
        fill=text.fill,
        title=text.fill("title"),
        about=about,
        result=text.fill(result_of(about.verdict)) if about.checked else "",
        reference=letter.reference,
        bonus=letter.bonus,
        switches=_switches(letter, names),
        withheld=_withheld(letter, names),
        range=_range(letter, names),
        example=names[_to_keep(letter)],
        now=rows[-1],
        rows=rows,
        values=_values(letter, names),
        reasons=_bars([(text.columns.get(column, column), value) for column, value in letter.reasons], text, number),
        people=f"{letter.compared_with:,}",
        without=number.show(letter.quotes[0]),
        with_all=number.show(letter.quotes[-1]),
        policy=Markup(policy),
        style=Markup(style),
        script=Markup(script),
    )


def _range(letter: Letter, names: dict[str, str]) -> str:
    """Return how sure the number is."""
    text, number, found = letter.about.text, letter.number, letter.range
    if found is None:
        return ""
    level = f"{100 * found.level:g}%".replace(".", number.decimal_mark)
    low, high = sorted((found.low, found.high), key=lambda end: end * number.factor)
    said = text.fill("range", level=level, low=number.show(low), high=number.show(high))
    if found.groups == letter.shared:
        return said
    some = text.listing([names[group] for group in found.groups]) if found.groups else text.fill("nothing")
    return f"{said} {text.fill('range_part', shared=some)}"


def _withheld(letter: Letter, names: dict[str, str]) -> list[tuple[str, str]]:
    """Return what is withheld, and what others were told who shared it, if that is known."""
    text, number, said = letter.about.text, letter.number, {}
    for group, *told in letter.learned:
        low, high = sorted(told, key=lambda end: end * number.factor)
        said[group] = text.fill("learned", low=number.show(low), high=number.show(high))
    return [(names[group], said.get(group, "")) for group in letter.withheld]


def _switches(letter: Letter, names: dict[str, str]) -> list[tuple[str, str]]:
    """Return the name of each shared group, and the places of those that it needs."""
    switches = []
    for place, group in enumerate(letter.shared):
        needed = letter._with_needs([place]) ^ 1 << place
        switches.append((names[group], " ".join(str(g) for g in range(len(letter.shared)) if needed >> g & 1)))
    return switches


def _to_keep(letter: Letter) -> str:
    """Return a group that the person keeps to themselves, or could keep while they share all others."""
    everything = letter.subsets[-1]
    could = (group for g, group in enumerate(letter.shared) if everything ^ 1 << g in letter.subsets)
    return letter.withheld[0] if letter.withheld else next(could)


def _rows(letter: Letter, names: dict[str, str]) -> list[dict[str, Any]]:
    """Return all choices, those with fewest groups first, so that what is shared today comes last."""
    text, number, today = letter.about.text, letter.number, letter.quotes[-1]
    rows = []
    choices = sorted(zip(letter.subsets, letter.quotes, strict=True), key=lambda choice: choice[0].bit_count())
    for mask, told in choices:
        groups = [names[group] for g, group in enumerate(letter.shared) if mask >> g & 1]
        compared = ("compared_same", "compared_more", "compared_less")[number.compare(told, today)]
        if mask == letter.subsets[-1]:
            compared = "compared_now"
        rows.append(
            {
                "mask": mask,
                "shared": text.listing(groups) if groups else text.fill("nothing"),
                "told": number.show(told),
                "compared": text.fill(compared, difference=number.difference(told, today)),
            }
        )
    return rows


def _values(letter: Letter, names: dict[str, str]) -> list[dict[str, Any]]:
    """Return how much each group moves the number, in words, and as a bar in percent of the largest."""
    text, number = letter.about.text, letter.number
    largest = max(map(abs, letter.values), default=0.0)
    values = []
    for group, value in zip(letter.shared, letter.values, strict=True):
        direction = number.compare(value, 0.0)
        moved = ("value_nothing", "value_raises", "value_lowers")[direction]
        sentence = text.fill(moved, difference=number.difference(value, 0.0))
        # Bars of differences that are too small to show would contradict the words.
        length = round(100 * value / largest, 2) if direction else 0.0
        values.append({"group": names[group], "sentence": sentence, "length": length})
    return values


def _bars(moved: Sequence[tuple[str, float]], text: LetterText, number: LetterNumber) -> list[dict[str, Any]]:
    """Return in which direction each column moved the number, and a bar in percent of the largest."""
    largest, turned = max((abs(value) for _, value in moved), default=0.0), math.copysign(1.0, number.factor)
    return [
        {
            "group": name,
            "sentence": text.fill("reason_raises" if turned * value > 0 else "reason_lowers"),
            "length": round(100 * turned * value / largest, 2),
        }
        for name, value in moved
    ]


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
