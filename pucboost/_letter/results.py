"""A letter: its contents, and the page they make."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .._pages import deliver
from .contents import Contents
from .rendering import render_html


@dataclass(frozen=True)
class Letter(Contents):
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
