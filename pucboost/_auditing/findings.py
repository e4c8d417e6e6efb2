"""What an audit found: frozen numbers, and the report that holds them and shows them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._pages import deliver

if TYPE_CHECKING:
    import pandas as pd

CERTIFIED, VIOLATED, INCONCLUSIVE, NOT_TESTABLE = "certified", "violated", "inconclusive", "not testable"
CERTIFIED_IN_PART = "certified in part"
"""Of the whole: what was tested is certified, but some who withhold something are not covered."""
VIOLATED_FOR_SOME = "violated for some"
"""Of the whole: no set is violated on average, but within a set some are told too much and others too little."""
GIVEN_AWAY = "within the margin, but a base column gives these people away"
"""Note on a set that is inconclusive for this reason."""

ALL_WITHHOLDING, RARER_SETS = "all who withhold something", "rarer sets together"
"""Names of several sets together: all of them, and those too rare to be tested on their own."""


def people_who(name: str) -> str:
    """Return who is meant by the name of a set, as part of a sentence."""
    known = {
        "nothing": "people who share nothing",
        "everything": "people who share everything",
        ALL_WITHHOLDING: "people who withhold something",
        RARER_SETS: "people in rarer sets taken together",
    }
    return known.get(name, f"people who share {name} and no more")


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and two-sided interval."""

    value: float
    standard_error: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Penalty:
    """The average penalty θ of the people who share exactly one set of groups, or of several such sets together."""

    name: str
    """The groups shared, ``nothing``, ``everything``, ``all who withhold something`` or ``rarer sets together``."""
    groups: tuple[str, ...] | None
    """The groups shared; None for several sets together."""
    subgroup: str | None
    """One of the user's subgroups of people, None for everybody."""
    people: int
    """How many people it is about."""
    comparable: int
    """How many people they are compared with: those who share at least as much (themselves included)."""
    verdict: str
    """``certified``, ``violated``, ``inconclusive`` or ``not testable``."""
    decisive: bool
    """Whether it counts towards the overall verdict; not for people who share everything, who withhold nothing."""
    estimate: Estimate | None
    """θ in units of the prediction, positive where people are told more than their data justify."""
    verdict_lower: float | None
    """The interval that decides: valid for all sets together, or that of this set alone where every set passes."""
    verdict_upper: float | None
    percent: float | None
    """θ as a percentage of the mean prediction of these people."""
    mean_prediction: float | None
    rows_to_decide: int | None
    """How many rows an audit would need to decide, if the estimate stayed the same; None if it is decided."""
    note: str = ""
    difference: Estimate | None = None
    """θ minus that of the people who withhold nothing (of the same subgroup): what silence adds to what is wrong for
    everybody. It does not decide. None for people who withhold nothing, and where they are too few."""
    alone_lower: float | None = None
    """Interval of two one-sided tests for this set alone. If it lies within the margin for every set that counts, the
    model is certified: to be wrong about that, one particular set must be misjudged."""
    alone_upper: float | None = None
    largest_share: float | None = None
    """Share of the variance that a single person, or cluster, carries."""


@dataclass(frozen=True)
class Gap:
    """People who withhold something and whom the verdict does not cover."""

    name: str
    """The set they share."""
    people: int
    why: str


@dataclass(frozen=True)
class Coverage:
    """Whom the verdict is about: everybody who withholds something, apart from the gaps.

    Every set of people that may hold 1 % of all, and those who share nothing, are tested on their own, rarer sets
    together.
    """

    withholding: int
    """People who withhold something."""
    alone: int
    """Those in sets tested on their own."""
    together: int
    """Those in rarer sets, tested together."""
    not_covered: int
    """Those nothing was concluded about: in sets that could not be tested, or compared with themselves."""
    gaps: tuple[Gap, ...]
    accepted: float
    """Largest share not covered with which a model passes (``partial``)."""

    @property
    def share_not_covered(self) -> float:
        return self.not_covered / max(1, self.withholding)


@dataclass(frozen=True)
class Comparability:
    """What one set of people is compared with, and what the comparison leaves out.

    None of this decides, but that people compared with themselves are not covered if they are many.
    """

    name: str
    people: int
    comparable: int
    calibration: Estimate
    """κ = E[f − Y | A ⊇ S], everybody who shares at least S treated as if they shared S: positive if they are told too
    much. It needs no model of outcomes or availability, and is 0 for a justified model. For a quantile,
    P(Y ≤ f | A ⊇ S) − τ."""
    recognised: float | None
    """Share of the people who share exactly S of whom surely almost nobody like them shares more (e > 0.95): they are
    compared with themselves. None for people who withhold nothing."""
    stricter: Estimate | None = None
    """Penalty of the others against people who share strictly more. Not 0 for a justified model where silence is
    informative: it says by how much their own silence set the yardstick. None where nobody shares more."""
    stricter_lower: float | None = None
    """The same over all people of the set. Of those recognised nothing is known but the range of outcomes."""
    stricter_upper: float | None = None


@dataclass(frozen=True)
class Part:
    """A part of a set of people, found in some of the data and tested on the rest."""

    rule: str
    """Who they are."""
    people: int
    """How many people of the set it holds, among those it was tested on."""
    penalty: Estimate
    """Average penalty of people like them; the interval holds for all parts of the set together."""


@dataclass(frozen=True)
class WithinSet:
    """Whether some people of a set are told too much and others too little, which averages hide."""

    name: str
    tested: int
    """How many people it was tested on; the direction was learned from others."""
    spread: Estimate | None
    """A lower bound of the mean absolute penalty, estimated: E[s·(f − Y)] with the direction s = ±1 learned from
    others. None if no direction was found, or there are too few people."""
    at_least: float | None
    """What the mean absolute penalty exceeds, with confidence for all sets together."""
    beyond_margin: bool
    """Whether that is more than the margin."""
    parts: tuple[Part, ...] = ()
    """For whom, if so."""
    note: str = ""
    decisive: bool = True
    """Whether it counts; not for people who withhold nothing, who are shown for comparison."""


@dataclass(frozen=True)
class LossComparison:
    """Mean loss of the model and of another one on the same people; the difference is model − other."""

    people_name: str
    other: str
    people: int
    loss: float | None
    other_loss: float | None
    difference: Estimate | None
    note: str = ""
    decisive: bool = False
    """Always False: the other model is itself fitted to data, so even a perfect model can seem to fail (and a flat
    surcharge passes). Stated for readers of the JSON; only decisive penalties count towards the verdict."""


@dataclass(frozen=True)
class Informativeness:
    """Test of Y ⟂ A_g | b for one group: whether withholding says anything about the outcome."""

    group: str
    shared: float
    """Share of people who share the group."""
    correlation: float | None
    """Correlation of the two residuals; negative if sharers have lower outcomes than their base data suggest."""
    statistic: float | None
    p_value: float | None
    adjusted_p_value: float | None
    """Holm's adjustment over the groups."""
    note: str = ""


@dataclass(frozen=True)
class RecognisedPeople:
    """How well all base features together tell who withholds one group of data."""

    group: str | None
    """The group; None for people who share nothing at all."""
    people: int
    """How many people withhold it."""
    together: float | None
    """Of two people, one of whom withholds it: how often a model of all base features tells which (0.5 is chance, 1 is
    always; the area under the ROC curve on people the model has not seen). None where no model was fitted."""


@dataclass(frozen=True)
class BaseFeature:
    """How well one base feature tells who withholds, for the group about which it tells most."""

    name: str
    group: str | None
    """The group; None for people who share nothing at all."""
    alone: float
    """Of two people, one of whom withholds the group: how often this column alone tells which (0.5 is chance)."""
    recognised: float
    """Share of the people who withhold it with values of this column that hardly anybody else has."""
    beyond_others: float | None
    """How much of the area of all base features together is lost if the values of this column are dealt out at random
    (0 where other columns say the same). None where no model was fitted."""
    conspicuous: bool
    """Whether it tells so much that somebody should look at it: ``alone`` from 0.95 or ``recognised`` from 0.25 on, or
    ``beyond_others`` from 0.1 on where only all columns together tell almost everything."""


@dataclass(frozen=True)
class Recognition:
    """Whether base features tell who withholds. They may, but what they tell for certain the audit cannot see."""

    people: int
    """How many people it rests on: all, or a random sample."""
    groups: tuple[RecognisedPeople, ...]
    columns: tuple[BaseFeature, ...]
    """Those to look at first come first."""


@dataclass(frozen=True)
class AveragePrediction:
    """Average predictions of people who share exactly one set of groups."""

    name: str
    people: int
    model: float
    base_model: float
    unrestricted_model: float
    outcome: float


@dataclass(frozen=True)
class Histogram:
    """Weighted shares of people by bin; ``edges`` has one entry more than ``shares``."""

    edges: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class SharingEffect:
    """How predictions of people who share something differ from what they would get if they withheld everything."""

    people: int
    mean: float
    quantiles: Mapping[str, float]
    share_worse_off: float | None
    """Share of people for whom sharing made the prediction less favourable; None, as what follows, if nobody has said
    which predictions are."""
    largest_loss: float | None
    mean_bonus: float | None
    """Mean gain from a bonus system (the best of a person's subsets), compared with the prediction as given."""
    share_with_better_subset: float | None
    """Share of people for whom some subset of what they share would have been more favourable."""
    histogram: Histogram


@dataclass(frozen=True)
class Balance:
    """Actual and expected outcomes (predictions) of a set of people."""

    name: str
    people: int
    actual: float
    expected: float
    ratio: Estimate | None
    """Actual / expected."""
    cost: Estimate
    """Mean outcome − mean prediction per unit of weight: what the book pays beyond what it expects."""


@dataclass(frozen=True)
class GroupSupport:
    """How often a group is shared."""

    group: str
    shared: float
    withheld_people: int
    shared_people: int


@dataclass(frozen=True)
class TrainedOn:
    """How many of the audited people the model was trained on."""

    share: float | None
    """Estimated share of the distinct audited rows; None if it cannot be told."""
    lower: float | None
    """95 % interval of it."""
    upper: float | None
    compared: int
    """How many audited rows the estimate rests on."""
    found: int
    """How many of these are rows of the training data."""
    by_chance: float | None
    """Share of them that other people's rows would equal anyway."""
    too_many: bool
    """Whether so many were trained on that nothing is certified."""


@dataclass(frozen=True)
class Support:
    """Whether the data can support the conclusions."""

    masks: int
    """Distinct sets of shared groups in the audit data."""
    unseen_in_training: tuple[str, ...] | None
    """Sets that occur here, but that fewer than five people shared in training; None if that is not known."""
    unseen_people: int | None
    untested_people: int
    """People who withhold something and are not covered by the verdict."""
    groups: tuple[GroupSupport, ...]
    effective_sample_size: float
    """(Σw)² / Σw² of the weights given."""
    trained_on: TrainedOn | None = None
    """None if nothing is known about it."""
    withholding_people: int | None = None
    """People who withhold something."""


@dataclass(frozen=True)
class PucGap:
    """Distance to the truth of a simulator."""

    squared: float
    """mean((f − f*)²)."""
    mean_by_mask: Mapping[str, float]
    """mean(f − f*) of the people who share exactly that set: the true penalty."""


@dataclass(frozen=True)
class CalibrationBin:
    """People with similar predictions."""

    prediction: float
    outcome: float
    lower: float
    upper: float
    people: int


@dataclass(frozen=True)
class Calibration:
    """Outcomes against predictions, all people masked to the same set of groups."""

    name: str
    bins: tuple[CalibrationBin, ...]


@dataclass(frozen=True)
class ScatterPoint:
    """Five people who share nothing: what base features justify on average, and what the model says."""

    base: float
    model: float


@dataclass(frozen=True)
class Provenance:
    """What was audited, and with which data, settings and versions."""

    date: str
    rows: int
    seed: int
    folds: int
    min_count: int
    """Sets with fewer people were not tested."""
    reference_data: str
    """What the base-features model and the unrestricted model were fitted on."""
    data_hash: str
    model_hash: str | None
    model_kind: str
    consent: Mapping[str, tuple[str, ...]]
    base_features: tuple[str, ...]
    versions: Mapping[str, str]
    nuisance: str
    seconds: float
    needs: Mapping[str, str] = field(default_factory=dict)
    """Groups that are shared only with another one."""


SCHEMA_VERSION = 3
"""Version of :meth:`AuditReport.to_dict`; increased when a field changes its meaning or is removed."""


@dataclass(frozen=True)
class AuditReport:
    """The result of :func:`pucboost.audit`.

    ``passed`` is True if the model was certified (in part only if that was accepted). ``penalty`` is the table that
    decides, ``base_features`` shows which base features tell who withholds (both are DataFrames). ``to_html``,
    ``to_markdown`` and ``to_json`` write the report, ``plot_*`` draw it. All other numbers are attributes: frozen
    dataclasses, which ``to_dict`` and ``to_json`` return field by field.

    Examples
    --------
    >>> import json, pucboost as puc
    >>> family = puc.simulate.LogisticFamily.teaser()
    >>> people = family.sample(1000, seed=0)
    >>> report = puc.audit(family.puc_prediction, people.X, people.y, optional=[2], margin=0.2)
    >>> report.passed, report.verdicts["nothing"], report.penalty["people"].tolist()
    (True, 'certified', [542, 458])
    >>> json.loads(report.to_json())["schema_version"]
    3
    """

    verdict: str
    reason: str
    """The overall verdict in a sentence."""
    margin: float
    """Largest penalty regarded as harmless, in units of the prediction."""
    relative_margin: float | None
    """The margin as a share of the mean prediction, if it was given that way."""
    level: float
    """Confidence of each one-sided test, and of the two-sided intervals shown."""
    simultaneous: str
    """How verdicts on several sets are kept jointly valid."""
    critical_value: float
    """Standard errors on each side of an estimate in the simultaneous intervals."""
    loss: str
    unit: str
    """What a penalty is measured in."""
    favourable: str | None
    """Which predictions people prefer; None if nobody has said it."""
    mean_prediction: float
    penalties: tuple[Penalty, ...]
    inference_from_silence: LossComparison
    """Availability-inference restriction as the paper states it; not decisive."""
    non_degradation: tuple[LossComparison, ...]
    informativeness: tuple[Informativeness, ...]
    averages: tuple[AveragePrediction, ...]
    sharing_effect: SharingEffect | None
    balance: tuple[Balance, ...]
    support: Support
    puc_gap: PucGap | None
    calibration: tuple[Calibration, ...]
    scatter: tuple[ScatterPoint, ...]
    provenance: Provenance
    warnings: tuple[str, ...]
    exposure: float | None = None
    """Sum of the exposures, if there were any: outcomes, predictions, penalties and margin are then per unit of
    exposure, and people count in averages by their exposure."""
    recognition: Recognition | None = None
    """Whether base features tell who withholds; None if there are none, or too few people withhold or share."""
    comparability: tuple[Comparability, ...] = ()
    """What each set is compared with."""
    margin_set_by: str | None = None
    """Who fixed the margin, and when, as the auditor stated it."""
    within: tuple[WithinSet, ...] = ()
    """Whether averages hide opposite penalties within a set; beyond the margin, the verdict is "violated for some"."""
    coverage: Coverage | None = None
    """Whom the verdict is about; None in reports made by hand."""
    cap: float | None = None
    """Outcomes and predictions above this amount count as this amount; None if they count in full."""

    @property
    def passed(self) -> bool:
        """Whether the model was certified, or certified in part where ``partial`` accepts the share not covered."""
        if self.verdict == CERTIFIED_IN_PART and self.coverage is not None:
            return self.coverage.share_not_covered <= self.coverage.accepted
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

            - ``shares``: the groups these people share exactly; ``nothing``, ``everything``, ``all who withhold
              something`` (all such sets together), or ``rarer sets together``
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
        return {"schema_version": SCHEMA_VERSION, "passed": self.passed, **plain(self)}

    def to_json(self, path: str | Path | None = None) -> str:
        """Return :meth:`to_dict` as JSON, and write it to ``path`` (whole or not at all) if one is given."""
        return deliver(json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False), path)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one self-contained HTML page, and write it to ``path`` (whole or not at all) if one is given."""
        from . import report

        return deliver(report.render_html(self), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return a section for a model card, and write it to ``path`` (whole or not at all) if one is given."""
        from . import report

        return deliver(report.render_markdown(self), path)

    def _repr_html_(self) -> str:
        from . import report

        return report.render_fragment(self)

    def __str__(self) -> str:
        from . import report

        return report.render_text(self)

    def plot_penalty(self, ax: Any = None) -> Any:
        """Draw the penalties with their intervals and the margin; return the matplotlib axes."""
        return self._plot("penalty", ax)

    def plot_calibration(self, ax: Any = None) -> Any:
        """Draw outcomes against predictions with everything optional erased; return the matplotlib axes."""
        return self._plot("calibration", ax)

    def plot_base_versus_model(self, ax: Any = None) -> Any:
        """Draw the model against the base-features model for people who share nothing; return the axes."""
        return self._plot("base-versus-model", ax)

    def plot_sharing_effect(self, ax: Any = None) -> Any:
        """Draw how sharing changes predictions; return the matplotlib axes."""
        return self._plot("sharing-effect", ax)

    def plot_balance(self, ax: Any = None) -> Any:
        """Draw actual / expected by set of shared groups; return the matplotlib axes."""
        return self._plot("balance", ax)

    def _plot(self, name: str, ax: Any) -> Any:
        from .plots import show

        return show(name, self, ax)


def title(penalty: Penalty) -> str:
    """Return the name of the people a penalty is about."""
    return penalty.name if penalty.subgroup is None else f"{penalty.name} | {penalty.subgroup}"


def _penalty_row(p: Penalty) -> dict[str, Any]:
    def of(estimate: Estimate | None, name: str) -> float | None:
        return None if estimate is None else getattr(estimate, name)

    return {
        "shares": p.name,
        "subgroup": p.subgroup,
        "people": p.people,
        "comparable": p.comparable,
        "penalty": of(p.estimate, "value"),
        **{name: of(p.estimate, name) for name in ("standard_error", "lower", "upper")},
        "verdict_lower": p.verdict_lower,
        "verdict_upper": p.verdict_upper,
        "alone_lower": p.alone_lower,
        "alone_upper": p.alone_upper,
        "percent": p.percent,
        "verdict": p.verdict,
        "decisive": p.decisive,
        "rows_to_decide": p.rows_to_decide,
        "note": p.note,
        "difference": of(p.difference, "value"),
        **{f"difference_{name}": of(p.difference, name) for name in ("standard_error", "lower", "upper")},
    }


def plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
