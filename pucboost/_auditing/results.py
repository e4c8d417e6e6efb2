"""The result of an audit: its findings, and the ways to read them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._pages import deliver
from .findings import CERTIFIED, BaseFeature, Findings, Penalty, title
from .report import rendering
from .report.plots import show

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 2
"""Version of :meth:`AuditReport.to_dict`; increased when a field changes its meaning or is removed."""


@dataclass(frozen=True)
class AuditReport(Findings):
    """The result of :func:`pucboost.audit`.

    ``passed`` says whether the model was certified; ``penalty`` is the table that decides, ``base_features`` says which
    of them tell who withholds (both are DataFrames; their columns are described there). ``to_html``, ``to_markdown``,
    ``to_json`` write the report, ``plot_*`` draw it. All other numbers are attributes: frozen dataclasses, which
    ``to_dict`` and ``to_json`` return field by field.

    Examples
    --------
    >>> import json, pucboost as puc
    >>> family = puc.simulate.LogisticFamily.teaser()
    >>> people = family.sample(1000, seed=0)
    >>> report = puc.audit(family.puc_prediction, people.X, people.y, optional=[2], margin=0.2)
    >>> report.passed, report.verdicts["nothing"], report.penalty["people"].tolist()
    (True, 'certified', [542, 458])
    >>> json.loads(report.to_json())["schema_version"]
    2
    """

    @property
    def passed(self) -> bool:
        """Whether the model was certified."""
        return self.verdict == CERTIFIED

    @property
    def verdicts(self) -> dict[str, str]:
        """Verdict by name of the people it is about, ``overall`` first."""
        return {"overall": self.verdict, **{title(p): p.verdict for p in self.penalties}}

    @property
    def penalty(self) -> pd.DataFrame:
        """The penalties as a table, one row per set of people.

        Amounts are in units of the prediction, or probabilities (see ``unit``), and missing where a set was not tested.

        Returns
        -------
        pandas.DataFrame
            With these columns:

            - ``shares``: the groups these people share exactly; ``nothing``, ``everything``, or ``all who withhold
              something`` (all such sets together)
            - ``subgroup``: one of the user's subgroups, None for everybody
            - ``people``: how many people it is about
            - ``comparable``: how many people share at least as much (themselves included) and so set the yardstick
            - ``penalty``: θ, positive where people are told more than their data justify
            - ``standard_error``: of θ
            - ``lower``, ``upper``: interval at ``level`` for this set alone
            - ``verdict_lower``, ``verdict_upper``: the interval that decides, valid for all sets together, or for this
              set alone where all sets pass
            - ``alone_lower``, ``alone_upper``: interval of the two one-sided tests for this set alone
            - ``percent``: θ as a percentage of the mean prediction of these people; missing for quantiles
            - ``verdict``: ``certified``, ``violated``, ``inconclusive`` or ``not testable``
            - ``decisive``: whether it counts towards the overall verdict
            - ``rows_to_decide``: rows that an audit would need to decide, if the estimate stayed the same
            - ``note``: why there is no number, or what else to know
            - ``difference``: θ minus that of people who withhold nothing: what silence adds; it does not decide
            - ``difference_standard_error``: of the difference
            - ``difference_lower``, ``difference_upper``: its interval at ``level``
        """
        import pandas as pd

        return pd.DataFrame([_penalty_row(p) for p in self.penalties])

    @property
    def base_features(self) -> pd.DataFrame:
        """How well base features tell who withholds, one row per base feature, those to look at first on top.

        Returns
        -------
        pandas.DataFrame
            Its index is the name of the feature; it is empty where nothing can be said. Columns:

            - ``group``: the group of which it tells best who withholds it; None for people who share nothing at all
            - ``alone``: of two people, one of whom withholds it, how often this feature alone tells which (0.5: chance)
            - ``recognised``: share of those who withhold it with values that hardly anybody else has
            - ``beyond_others``: how much worse all base features together tell it without this one; missing if that was
              not tried
            - ``conspicuous``: whether somebody should look at it
        """
        import pandas as pd

        names = [field.name for field in fields(BaseFeature)]
        columns = () if self.recognition is None else self.recognition.columns
        rows = [[getattr(column, name) for name in names] for column in columns]
        return pd.DataFrame(rows, columns=names).set_index("name")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data: dicts, lists, strings, numbers and None."""
        return {"schema_version": SCHEMA_VERSION, "passed": self.passed, **_plain(self)}

    def to_json(self, path: str | Path | None = None) -> str:
        """Return :meth:`to_dict` as JSON, and write it to ``path`` (whole or not at all) if one is given."""
        return deliver(json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False), path)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one self-contained HTML page, and write it to ``path`` (whole or not at all) if one is given."""
        return deliver(rendering.render_html(self), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return a section for a model card, and write it to ``path`` (whole or not at all) if one is given."""
        return deliver(rendering.render_markdown(self), path)

    def _repr_html_(self) -> str:
        return rendering.render_fragment(self)

    def __str__(self) -> str:
        return rendering.render_text(self)

    def plot_penalty(self, ax: Any = None) -> Any:
        """Draw the penalties with their intervals and the margin; return the matplotlib axes."""
        return show("penalty", self, ax)

    def plot_calibration(self, ax: Any = None) -> Any:
        """Draw outcomes against predictions with everything optional erased; return the matplotlib axes."""
        return show("calibration", self, ax)

    def plot_base_versus_model(self, ax: Any = None) -> Any:
        """Draw the model against the base-features model for people who share nothing; return the axes."""
        return show("base-versus-model", self, ax)

    def plot_sharing_effect(self, ax: Any = None) -> Any:
        """Draw how sharing changes predictions; return the matplotlib axes."""
        return show("sharing-effect", self, ax)

    def plot_balance(self, ax: Any = None) -> Any:
        """Draw actual / expected by set of shared groups; return the matplotlib axes."""
        return show("balance", self, ax)


def _penalty_row(p: Penalty) -> dict[str, Any]:
    e = p.estimate
    return {
        "shares": p.name,
        "subgroup": p.subgroup,
        "people": p.people,
        "comparable": p.comparable,
        "penalty": None if e is None else e.value,
        "standard_error": None if e is None else e.standard_error,
        "lower": None if e is None else e.lower,
        "upper": None if e is None else e.upper,
        "verdict_lower": p.verdict_lower,
        "verdict_upper": p.verdict_upper,
        "alone_lower": p.alone_lower,
        "alone_upper": p.alone_upper,
        "percent": p.percent,
        "verdict": p.verdict,
        "decisive": p.decisive,
        "rows_to_decide": p.rows_to_decide,
        "note": p.note,
        "difference": None if p.difference is None else p.difference.value,
        "difference_standard_error": None if p.difference is None else p.difference.standard_error,
        "difference_lower": None if p.difference is None else p.difference.lower,
        "difference_upper": None if p.difference is None else p.difference.upper,
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
