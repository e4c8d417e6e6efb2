"""What was found, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NOBODY = "nobody"
"""The kind of a finding about a group that nobody withholds, or nearly nobody."""
BASE_COLUMN = "base column"
"""The kind of a finding about a column outside the group that tells who withholds it."""
MAX_ALIKE = 5
"""How many columns of one group are listed that have the same fault."""


class EncodedSilenceWarning(UserWarning):
    """Silence seems to be imputed or encoded in the training table, so that the silent are not protected.

    Whoever withholds something must have no value there: NaN, null or None. An imputer, a ``-999``, a word such as
    "prefer not to say" or a one-hot column ``c_nan`` look like shared data, and the model learns what they say about
    the silent. ``train``, ``cv``, ``augment`` and the estimators warn once per call and list all that they find; audits
    repeat it.

    If the values are right, say so by name with the parameter ``expect_shared=[groups]``, of ``params``, of ``augment``
    or of an estimator: every value of these groups was really shared. Or turn off all of these warnings:
    ``warnings.filterwarnings("ignore", category=puc.EncodedSilenceWarning)``.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, pucboost as puc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(5, 1, size=(500, 2)); y = X.sum(axis=1)
    >>> X[rng.random(500) < 0.3, 1] = -999                            # should be NaN
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = puc.PUCRegressor(optional=[1], n_estimators=5).fit(X, y)
    >>> [one.category is puc.EncodedSilenceWarning for one in caught]
    [True]
    >>> print(caught[0].message)                                      # doctest: +ELLIPSIS
    Silence may have been imputed or encoded, ...column 'Column_1' is -999 for 30.0% of the people...
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error")
    ...     model = puc.PUCRegressor(optional=[1], n_estimators=5, expect_shared=["Column_1"]).fit(X, y)
    """


@dataclass(frozen=True)
class EncodedSilence:
    """One reason to believe that silence looks like something else."""

    group: str
    kind: str
    """:data:`NOBODY`, or what sort of encoding it is."""
    people: int
    """How many people it concerns among those looked at; who withhold the group for :data:`NOBODY`."""
    of: int
    """How many were looked at."""
    column: str | None = None
    value: str | None = None
    """The value that seems to stand for silence."""
    reason: str = ""
    """Why it seems so; follows the value."""

    @property
    def share(self) -> float:
        """Share of the people."""
        return self.people / self.of

    def __str__(self) -> str:
        if self.kind == NOBODY:
            return f"group {self.group!r} is {_withheld_by(self.people, self.of)}"
        what = f"column {self.column!r} is {self.value}" if self.column else f"group {self.group!r} is {self.value}"
        if self.kind == BASE_COLUMN:
            return f"base {what} for {self.share:.1%} of the people, {self.reason}"
        inside = f" (group {self.group!r})" if self.column not in (None, self.group) else ""
        return f"{what} for {self.share:.1%} of the people{inside}, {self.reason}"


def describe(findings: Sequence[EncodedSilence]) -> str:
    """Return all findings in one sentence.

    Groups that equally few people withhold are listed together; of columns of one group that have the same fault only
    the first few are listed.
    """
    together: dict[tuple[int, int], list[str]] = {}
    for one in findings:
        if one.kind == NOBODY:
            together.setdefault((one.people, one.of), []).append(repr(one.group))
    nobody = [
        f"{'group' if len(groups) == 1 else 'groups'} {', '.join(groups)} {'is' if len(groups) == 1 else 'are'} "
        f"{_withheld_by(*counts)}"
        for counts, groups in together.items()
    ]
    alike: dict[tuple[str, str], list[EncodedSilence]] = {}
    for one in findings:
        if one.kind != NOBODY:
            alike.setdefault((one.group, one.kind), []).append(one)
    others = []
    for (group, _), some in alike.items():
        others += [str(one) for one in some[:MAX_ALIKE]]
        if len(some) > MAX_ALIKE:
            others.append(f"so are {len(some) - MAX_ALIKE:,} more columns of group {group!r}")
    return "; ".join([*nobody, *others])


def _withheld_by(people: int, of: int) -> str:
    who = "nobody" if people == 0 else "nearly nobody"
    return f"withheld by {who} in training ({people:,} of {of:,} people)"
