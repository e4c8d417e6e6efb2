"""What was found about questions: frozen numbers, what they mean in words, and the page that shows them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from .._auditing.blocks import Cell, Document, Figures, Scale, Table, count, listing, p_value, share, significant
from .._auditing.findings import plain
from .._auditing.plots import COLOURS, Plot, as_svg, ink, scale_axis
from .._pages import decimals_for, deliver

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from .person import Asking

NEEDED, NOT_NEEDED, NOT_KNOWN = "needed", "not needed", "not known"
_NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Question:
    """What one question adds, in units of the loss."""

    group: str
    value: float
    """Its Shapley value: the average of what it adds, over all orders of asking."""
    error: float
    p_value: float
    """Of a value of 0 or less, adjusted for the number of questions (Holm)."""
    useful: bool
    last: float
    """What it adds when everything else is known; for a question that others need, together with these."""
    last_error: float
    needed: str
    """``"not needed"`` if the form without it is proven to keep its share of the value, ``"needed"`` if it is proven
    not to, else ``"not known"``."""


@dataclass(frozen=True)
class Form:
    """The best form of at most so many questions."""

    questions: int
    groups: tuple[str, ...]
    value: float
    """What choosing so many questions is worth; they are chosen on some people and measured on others."""
    error: float
    kept: float | None
    """The same as a share of the value of all questions; None if it is not proven that they add anything."""
    proven: bool
    """Whether these groups are proven to keep the share that is wanted."""


@dataclass(frozen=True)
class SetValue:
    """What a set of questions is worth."""

    name: str
    value: float
    error: float


@dataclass(frozen=True)
class Questions:
    """What :func:`pucboost.questions` found: ``conclusion`` in words, then the numbers it rests on.

    Examples
    --------
    >>> import numpy as np, pucboost as puc
    >>> X = np.random.default_rng(0).normal(size=(900, 2)); X[::3, 1] = np.nan
    >>> booster = puc.train({"optional": [1], "verbosity": -1}, (X[:450], np.nansum(X, axis=1)[:450]), 20)
    >>> puc.questions(booster, X[450:], np.nansum(X, axis=1)[450:])
    Questions('Your question is needed: its answers make the predictions better.', 300 people)
    """

    people: int
    """How many people were looked at: those who share all questions, or a sample of them if they are very many."""
    sharing: int
    """How many share all questions."""
    everybody: int
    loss: str
    loss_without: float
    """Mean loss of these people with no question answered."""
    loss_with: float
    value: float
    """v(G): the difference, what all questions add."""
    error: float
    helps: bool
    """Whether it is proven to be above 0."""
    share: float
    level: float
    questions: tuple[Question, ...]
    forms: tuple[Form, ...]
    """The curve: the best forms of at most 0, 1, 2, … questions."""
    enough: tuple[str, ...] | None
    """The fewest questions that are proven to keep ``share`` of the value; None if only all of them are."""
    sets: tuple[SetValue, ...]
    """The value of every set of questions."""
    _asking: Asking | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_asking": None}  # findings are kept and sent around, people are not

    @property
    def conclusion(self) -> str:
        """Return in one sentence how many questions are enough, or why that is not known."""
        r, wanted = len(self.questions), share(self.share, 0)
        all_of_them = {1: "the question", 2: "both"}.get(r, f"all {_NUMBERS[r]}")
        mine = "Your question" if r == 1 else f"None of your {_NUMBERS[r]} questions"
        if self.enough == ():
            return f"{mine} is {'not ' if r == 1 else ''}needed: without any answer the predictions are no worse."
        if self.enough is not None:
            k = len(self.enough)
            left, are = r - k, "is" if r - k == 1 else "are"
            other = "the other" if left == 1 else f"the other {_NUMBERS[left]}"
            return (
                f"{_NUMBERS[k].capitalize()} of your {_NUMBERS[r]} questions, {listing(self.enough)}, "
                f"{'carries' if k == 1 else 'carry'} at least {wanted} of what {all_of_them} add; {other} {are} not "
                "needed."
            )
        if not self.helps:
            return "It is not known whether the questions help at all: these people are too few to tell."
        if all(one.needed == NEEDED for one in self.questions):
            if r == 1:
                return "Your question is needed: its answers make the predictions better."
            return f"{all_of_them.capitalize()} questions are needed: without any one of them more than " + (
                f"{share(1 - self.share, 0)} of what they add together is lost."
            )
        return f"No shorter form is proven to keep {wanted} of what {all_of_them} questions add together."

    def next_question(self, X: Any, *, width: float = 0.0) -> Any:
        """Return which question, if answered, would move each person's result most, and within which range.

        The range of g is between quantiles of f(x_{S+g}) among those who share S + g, given what this person shares, S.
        It is learned at the first call from the people given to :func:`pucboost.questions`; outcomes have no part in
        it. Those who do not answer may differ from those who did, so it is no promise.

        Parameters
        ----------
        X
            People, with the columns of training.
        width
            Ask no more where the range is no wider than this.

        Returns
        -------
        DataFrame
            Of the kind of ``X``, one row per person; where nothing more is to be asked, all but ``told`` is missing.

            - ``told``: the prediction from what they share now
            - ``question``: the group to ask for
            - ``low``: 10 % of others like them were told less, once they had answered
            - ``middle``: half of them
            - ``high``: 90 % of them
        """
        if self._asking is None:
            raise ValueError("next_question learns from people, which are not saved. Call puc.questions again.")
        return self._asking.next_question(X, width)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per question, with its group as index.

        - ``value``: its Shapley value, in units of the loss
        - ``error``: standard error
        - ``p_value``: of a value of 0 or less, adjusted for the number of questions
        - ``useful``: whether its value is proven to be above 0
        - ``last``: what it adds when everything else is known
        - ``last_error``: standard error
        - ``needed``: "needed", "not needed" or "not known", for keeping the share of the value that is wanted
        - ``enough``: whether it is among the fewest questions that are enough
        """
        import pandas as pd

        names = [one.name for one in fields(Question)][1:]
        index = pd.Index([one.group for one in self.questions], name="question")
        table = pd.DataFrame({name: [getattr(one, name) for one in self.questions] for name in names}, index=index)
        return table.assign(enough=[self._is_asked(one.group) for one in self.questions])

    def _is_asked(self, group: str) -> bool:
        return self.enough is None or group in self.enough

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data: dicts, lists, strings, numbers and None."""
        kept = {name: plain(value) for name, value in vars(self).items() if name != "_asking"}
        return {"conclusion": self.conclusion, **kept}

    def to_json(self, path: str | Path | None = None) -> str:
        """Return :meth:`to_dict` as JSON, and write it to ``path`` (whole or not at all) if one is given."""
        return deliver(json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False), path)

    def plot(self, ax: Any = None) -> Any:
        """Draw what the best form of at most so many questions is worth, and return the matplotlib axes."""
        if ax is None:
            import matplotlib.pyplot as plt  # so that notebooks show the figure

            ax = plt.subplots(figsize=CURVE.size(self), layout="constrained")[1]
        return CURVE.on(self, ax)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one self-contained HTML page, and write it to ``path`` (whole or not at all) if one is given."""
        return page(self).to_html(path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the page as Markdown, and write it to ``path`` (whole or not at all) if one is given."""
        return page(self).to_markdown(path)

    def _repr_html_(self) -> str:
        return page(self)._repr_html_()

    def __str__(self) -> str:
        return str(page(self))

    def __repr__(self) -> str:
        return f"Questions({self.conclusion!r}, {count(self.people)} people)"


# ----- the curve


def _draw_curve(found: Questions, ax: Axes) -> None:
    of_all = 100 / found.value if found.helps else 1.0
    places = [form.questions for form in found.forms]
    heights = [of_all * form.value for form in found.forms]
    errors = [1.96 * of_all * form.error for form in found.forms]
    ax.plot(places, heights, color=COLOURS["accent"], lw=1.5, zorder=2)
    ax.errorbar(places, heights, yerr=errors, fmt="none", color=COLOURS["accent"], elinewidth=1.2, zorder=2)
    for form, height in zip(found.forms, heights, strict=True):
        enough = found.enough is not None and form.questions == len(found.enough)
        ax.plot(form.questions, height, "o", ms=10 if enough else 6, color=COLOURS["certified" if enough else "accent"])
    if found.helps:
        ax.axhline(100 * found.share, color=ink(), lw=0.8, ls="--")
        edge = (1.01, 100 * found.share)
        ax.annotate(share(found.share, 0), edge, xycoords=ax.get_yaxis_transform(), va="center", annotation_clip=False)
    ax.set_xticks(places)
    ax.set_xlabel("questions asked")
    ax.set_ylabel("of what all questions add" if found.helps else f"lower {found.loss}")
    scale_axis(ax.yaxis, "%" if found.helps else "")


CURVE = Plot(_draw_curve, lambda _: 3.4, lambda _: "")


# ----- the page


def page(found: Questions) -> Document:
    r = len(found.questions)
    facts = {
        "People who share all of it": f"{count(found.sharing)} of {count(found.everybody)}",
        f"Mean {found.loss} without any answer": significant(found.loss_without),
        "With all answers": significant(found.loss_with),
        "What all answers add": f"{significant(found.value, 3)} ± {significant(1.96 * found.error, 2)}",
        "Confidence of statements": share(found.level, 0),
    }
    if found.people < found.sharing:
        facts["Of these looked at"] = count(found.people)
    caption = f"{_CAPTION}, {_CAPTION_OF_SHARES}" if found.helps else f"{_CAPTION}."
    drawn = Markup(as_svg(CURVE, found, "curve", f"What forms of at most 0 to {r} questions are worth: {_told(found)}"))
    return Document(
        "What the questions add",
        f"{r} question{'s' if r > 1 else ''} · {count(found.people)} people who answered all of them",
        {
            found.conclusion: [CAVEAT, facts, Figures(((drawn, caption),))],
            "Each question": [_question_table(found), _READING],
            "Shorter forms": [_form_table(found)],
            "What this page does not know": [_LIMITS],
        },
    )


CAVEAT = (
    "All of this is about people who share everything that is asked about. Those who do not may differ, and what their "
    "answers would add is not known."
)
_CAPTION = (
    "What the best form of at most so many questions is worth. It was chosen on some people and measured on others; "
    "bars are 95% intervals"
)
_CAPTION_OF_SHARES = (
    "and the dashed line is the share that is wanted. More than 100% means that predictions are better without the "
    "other questions."
)
_READING = (
    "The value of a question is what it adds to others on average, over all orders of asking; the values add up to "
    "what all answers add. Useful: the value is above 0, and not by chance. Added last: what it adds to all others. "
    "Without it alone enough is kept if the other questions are proven to keep the share that is wanted; of two that "
    "say the same, either can be left out, but not both."
)


_LIMITS = [
    (
        "Answers, not sharing.",
        "People who answer differ from others. What of that goes along with what every form knows is taken out, "
        "since it is no reason to ask. A part may remain.",
    ),
    ("This model.", "Another model may make more of an answer, and these people must not be those of training."),
    ("Other reasons.", "A question that is not needed for predictions may be needed for something else."),
]


def _told(found: Questions) -> str:
    return ", ".join(share(form.kept, 0) if form.kept is not None else significant(form.value) for form in found.forms)


def _amount(found: Questions) -> Scale:
    return Scale(1, decimals_for(max(one.error for one in found.questions), 2), "", "")


def _with_error(scale: Scale, value: float, error: float) -> str:
    return f"{scale.show(value)} ± {scale.show(1.96 * error)}"


def _question_table(found: Questions) -> Table:
    scale = _amount(found)
    alone = {
        NEEDED: Cell("too much is lost"),
        NOT_NEEDED: Cell("enough is kept", tone="certified"),
        NOT_KNOWN: Cell("not known", tone="inconclusive"),
    }
    columns = ("Question", "Value", "Of all", "Useful", "Added last", "Without it alone", "In the shortest form")
    rows = tuple(
        (
            Cell(one.group),
            Cell(_with_error(scale, one.value, one.error)),
            Cell(share(one.value / found.value, 0) if found.helps else "–"),
            Cell("yes" if one.useful else "not known", f"p {p_value(one.p_value)}"),
            Cell(_with_error(scale, one.last, one.last_error)),
            alone[one.needed],
            Cell("yes" if found._is_asked(one.group) else "no"),
        )
        for one in sorted(found.questions, key=lambda one: -one.value)
    )
    words = frozenset(("Useful", "Without it alone", "In the shortest form"))
    return Table(f"What each question adds, by lower {found.loss} (± 1.96 standard errors)", columns, rows, words)


def _form_table(found: Questions) -> Table:
    scale = _amount(found)
    enough = f"Proven to keep {share(found.share, 0)}"
    rows = tuple(
        (
            Cell(str(form.questions)),
            Cell(listing(form.groups)),
            Cell(_with_error(scale, form.value, form.error)),
            Cell("–" if form.kept is None else share(form.kept, 0)),
            Cell("yes" if form.proven else "no"),
        )
        for before, form in zip((None, *found.forms), found.forms, strict=False)
        if before is None or before.groups != form.groups
    )
    columns = ("Questions at most", "The best", "Value", "Of all", enough)
    return Table("The best forms", columns, rows, frozenset(("The best", enough)))
