"""The settings of an audit: names, defaults and checks, each in one place.

Three frozen dataclasses by what the options are about: who is audited, how the audit judges, how it fits its models.
:func:`pucboost.audit` takes their fields as keywords, with a TypedDict for type checkers and a signature for ``help``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from numbers import Real
from typing import Any, TypedDict, TypeVar

from .._common import did_you_mean
from .._consent import OptionalColumns
from .._models.schema import Favourable, check_favourable
from .._not_applicable import NotApplicable

MIN_COUNT = 10
SIMULTANEOUS = {
    "max-t": "max-t: the quantile of the largest of all correlated test statistics",
    "bonferroni": "Bonferroni: valid under any dependence",
    "none": "none: each interval holds for itself only",
}

_Function = TypeVar("_Function", bound=Callable[..., Any])


class AuditOptions(TypedDict, total=False):
    """The options of :func:`pucboost.audit` for type checkers; a test compares them with the dataclasses."""

    optional: OptionalColumns
    not_applicable: NotApplicable
    available: Any
    weight: Any
    exposure: Any
    subgroups: Any
    clusters: Any
    target_class: Any
    relative: bool
    margin_set_by: str | None
    loss: str
    alpha: float | None
    favourable: Favourable | None
    level: float
    simultaneous: str
    min_count: int
    max_masks: int
    partial: Any
    cap: float | None
    justified: Any
    nuisance: Any
    folds: int
    seed: int
    num_threads: int | None
    progress: bool | None


class AuditKeywords(AuditOptions, total=False):
    """All keywords of :func:`pucboost.audit` but the margin, for functions that pass them on."""

    train_data: Any
    row_key: Any
    truth: Any


@dataclass(frozen=True)
class PeopleOptions:
    """Who is audited, and which prediction about them."""

    optional: OptionalColumns = None
    not_applicable: NotApplicable = None
    available: Any = None
    weight: Any = None
    exposure: Any = None
    subgroups: Any = None
    clusters: Any = None
    target_class: Any = None


@dataclass(frozen=True)
class JudgementOptions:
    """How the audit judges: the margin, the loss, the confidence, and which sets are large enough to test."""

    margin: float
    relative: bool = False
    margin_set_by: str | None = None
    """Who fixed the margin, and when."""
    loss: str = "auto"
    alpha: float | None = None
    favourable: Favourable | None = None
    level: float = 0.95
    simultaneous: str = "max-t"
    min_count: int = 40
    """With fewer people, intervals err more often than they should."""
    max_masks: int = 64
    partial: Any = None
    """Largest share of those who withhold something that need not be covered; as given, or once checked a share."""
    cap: float | None = None
    justified: Any = ()
    """Names of base columns that may tell who withholds, because somebody has found a good reason for them."""

    def __post_init__(self) -> None:
        margin = self.margin
        if isinstance(margin, bool) or not isinstance(margin, Real) or not 0 < float(margin) < float("inf"):
            raise ValueError(f"margin must be a positive number, the largest harmless average penalty; got {margin!r}.")
        if self.margin_set_by is not None and not (isinstance(self.margin_set_by, str) and self.margin_set_by.strip()):
            raise ValueError(
                "margin_set_by must name who fixed the margin and when, for example 'supervisory board, 3 May 2026'; "
                f"got {self.margin_set_by!r}."
            )
        if not 0.5 < self.level < 1:
            raise ValueError(f"level must lie between 0.5 and 1, for example 0.95; got {self.level!r}.")
        if self.simultaneous not in SIMULTANEOUS:
            names = ", ".join(map(repr, SIMULTANEOUS))
            raise ValueError(f"simultaneous must be one of {names}; got {self.simultaneous!r}.")
        if self.min_count < MIN_COUNT:
            raise ValueError(f"min_count must be at least {MIN_COUNT}, got {self.min_count!r}.")
        if self.max_masks < 1:
            raise ValueError(f"max_masks must be at least 1, got {self.max_masks!r}.")
        if self.cap is not None and not (isinstance(self.cap, Real) and float("-inf") < float(self.cap) < float("inf")):
            raise ValueError(f"cap must be a number, the amount from which on outcomes count alike; got {self.cap!r}.")
        check_favourable(self.favourable)
        _convert(self, margin=float, level=float, min_count=int, justified=_read_names, partial=_read_partial)

    def check_margin(self, unit_is_probability: bool, spread: float) -> None:
        """Refuse a margin that no model could exceed: ``spread`` is the standard deviation of the outcomes."""
        if self.relative:
            if self.margin >= 1:
                raise ValueError(
                    f"margin is {self.margin:g} with relative=True, which is {self.margin:.0%} of the mean prediction. "
                    f"Did you mean {self.margin / 100:g}?"
                )
        elif unit_is_probability:
            if self.margin >= 1:
                raise ValueError(
                    f"margin is {self.margin:g}, but penalties are probabilities: no model could exceed it. Did you "
                    f"mean {self.margin / 100:g}, {self.margin:g} percentage points?"
                )
        elif self.margin > spread > 0:
            raise ValueError(
                f"margin is {self.margin:g}, more than the standard deviation of the outcomes ({spread:.4g}): any "
                "model would be certified. Give the margin in units of the prediction, or as a share of the mean "
                "prediction with relative=True."
            )

    def bound(self, mean_prediction: float) -> float:
        bound = self.margin * abs(mean_prediction) if self.relative else self.margin
        if bound == 0:
            raise ValueError(
                "relative=True needs a mean prediction other than 0; give the margin in units of the prediction."
            )
        return bound


@dataclass(frozen=True)
class NuisanceEstimators:
    """scikit-learn estimators to use instead of LightGBM."""

    outcome: Any
    availability: Any


@dataclass(frozen=True)
class FittingOptions:
    """How the audit fits its own models of outcome and availability."""

    nuisance: Any = None
    """As given; once checked, a mapping of LightGBM parameters or :class:`NuisanceEstimators`."""
    folds: int = 5
    seed: int = 0
    num_threads: int | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        if self.folds < 3:
            raise ValueError(
                f"folds must be at least 3: one to predict, and one for each of two models; got {self.folds!r}."
            )
        _convert(self, nuisance=_read_nuisance, folds=int, seed=int)


def _read_partial(partial: Any) -> float:
    if partial is None or partial == "allow":
        return 0.0 if partial is None else 1.0
    if isinstance(partial, bool) or not isinstance(partial, Real) or not 0 <= float(partial) <= 1:
        raise ValueError(
            "partial must be None, 'allow', or the largest share of those who withhold something that need not be "
            f"covered, between 0 and 1; got {partial!r}."
        )
    return float(partial)


def _read_names(justified: Any) -> tuple[str, ...]:
    names = (justified,) if isinstance(justified, str) else tuple(justified)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"justified must hold names of base columns, got {name!r}.")
    return names


def _read_nuisance(nuisance: Any) -> Mapping[str, Any] | NuisanceEstimators:
    if nuisance is None:
        return {}
    if isinstance(nuisance, (Mapping, NuisanceEstimators)):
        return nuisance
    if isinstance(nuisance, (tuple, list)) and len(nuisance) == 2 and all(hasattr(one, "fit") for one in nuisance):
        return NuisanceEstimators(*nuisance)
    raise ValueError(
        "nuisance must be a dict of LightGBM parameters or a pair of scikit-learn estimators (outcome, availability); "
        f"got {nuisance!r}."
    )


def _convert(options: Any, **conversions: Callable[[Any], Any]) -> None:
    """Replace fields of a frozen dataclass by plain values: JSON cannot hold numpy's numbers."""
    for name, conversion in conversions.items():
        object.__setattr__(options, name, conversion(getattr(options, name)))


_GROUPS = (PeopleOptions, JudgementOptions, FittingOptions)


def option_fields() -> dict[str, Field[Any]]:
    """Return the options by name: the fields of the three groups, without the margin, which is an argument."""
    return {field.name: field for group in _GROUPS for field in fields(group) if field.name != "margin"}


def group_options(margin: float, options: Mapping[str, Any]) -> tuple[PeopleOptions, JudgementOptions, FittingOptions]:
    """Return the options in their groups, checked; raise a TypeError that names an unknown option."""
    known = option_fields()
    for name in options:
        if name not in known:
            hint = did_you_mean(name, [*known, "margin", "train_data", "row_key", "truth"])
            hint = hint or f" The options are {', '.join(known)}."
            raise TypeError(f"audit() got an unexpected keyword argument {name!r}.{hint}")
    people, judgement, fitting = (
        {field.name: options[field.name] for field in fields(group) if field.name in options} for group in _GROUPS
    )
    return PeopleOptions(**people), JudgementOptions(margin, **judgement), FittingOptions(**fitting)


def show_options(function: _Function) -> _Function:
    """Let ``help`` and notebooks list every option with its default, instead of ``**options``."""
    signature = inspect.signature(function)
    named = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    for name, field in option_fields().items():
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        named.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type))
    function.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
    return function


def counted(number: int, one: str, many: str) -> str:
    """Return a number with the noun, or the clause, that goes with it: 1 person, 2,000 people."""
    return f"{number:,} {one if number == 1 else many}"


def people_in_words(number: int) -> str:
    return counted(number, "person", "people")


def roughly(number: int) -> str:
    """Return a number with two digits: 640, 12,000, 2.6 million."""
    rounded = float(f"{number:.1e}")
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if rounded >= size:
            return f"{rounded / size:,g} {name}"
    return f"{rounded:,.0f}"
