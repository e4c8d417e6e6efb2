"""What a model keeps from its training: consent schema and summary, stored in its files, and its categories."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from .._common import warn
from .._consent import Consent, is_whole
from .._engines import boosters_of, is_booster
from .._engines.base import Boosters
from .._persistence import NotValidError, pickled
from .._tables.sources import Categories, SourceTable
from .._virtual.merging import RowSketch
from .._virtual.plan import MIN_PEOPLE_OF_MASK, PlanSummary, check_augmentation
from .._virtual.rows import VirtualTable
from ..warnings import ProtectionLostWarning

if TYPE_CHECKING:
    from .._virtual.shared_plan import SharedPlan

logger = logging.getLogger("pucboost")

Favourable: TypeAlias = Literal["lower", "higher"]
"""Which predictions people prefer: lower premiums, or higher chances of approval."""

FORMAT = 1
"""Another number means that versions which do not know it would misread the model, so they refuse it."""

MAX_MASKS_KEPT = 4_096
"""How many distinct masks a model file keeps."""

PEOPLE_STEP = 5
"""Counts of people in a model file are multiples of it."""


@dataclass(frozen=True)
class TrainingSummary(PlanSummary):
    """``booster.puc_summary``: the plan a model was trained with, and facts about its training table."""

    masks_seen: tuple[int, ...] | None = None
    """The sets of groups that at least five people shared, as masks; None if there are too many to keep."""
    coded_columns: tuple[int, ...] = ()
    """Positions of the columns that hold categories: LightGBM keeps its lists of categories without them."""
    row_hashes: RowSketch | None = None
    """Keyed hashes of some of the rows, by which an audit recognises training data; None unless there was a key."""
    per_exposure: bool = False
    """Whether the labels were totals over an exposure, so that the model predicts per unit of it."""

    unstored_withheld: bool = False
    """Whether ``available=`` decided which values that a sparse matrix does not store were withheld."""

    loading: float = 0.0
    """What ``load_to_balance`` has added to the raw scores of everybody."""
    mask_calibration: float = 0.0
    """The strength of ``calibrate_masks``; unless it is 0, the last round holds one constant per mask."""
    engine: str | None = None
    """Which engine grew the trees; None if the file does not tell."""
    favourable: Favourable | None = None
    """Which predictions people prefer, as ``params["favourable"]`` said; None if it was not given."""
    mask_people: tuple[int, ...] | None = None
    """How many people shared each of ``masks_seen``, so that a change of sharing can be noticed later.

    A mask tells which groups were shared, never a value, and none with fewer than five people is kept. The counts are
    rounded to multiples of five: from two models, trained with and without somebody, the difference of exact counts
    would tell what that person shared.
    """

    @classmethod
    def of(
        cls,
        virtual: VirtualTable,
        table: SourceTable,
        sketch: RowSketch | None = None,
        per_exposure: bool = False,
        mask_calibration: float = 0.0,
    ) -> TrainingSummary:
        """Summarise a virtual table and the people it stands for."""
        people = virtual.people_as_given()
        masks, how_many = np.unique(people.rows.plan.available, return_counts=True)
        enough = how_many >= MIN_PEOPLE_OF_MASK
        kept = int(enough.sum()) <= MAX_MASKS_KEPT
        described = asdict(virtual.rows.plan.summary(virtual.table.weight)) | {"source_rows": len(people)}
        return cls(
            **described,
            masks_seen=tuple(masks[enough].tolist()) if kept else None,
            coded_columns=tuple(table.source.coded),
            row_hashes=sketch,
            per_exposure=per_exposure,
            unstored_withheld=bool(table.source.is_sparse and table.available is not None),
            mask_calibration=mask_calibration,
            mask_people=rounded_people(how_many[enough].tolist()) if kept else None,
        )

    @classmethod
    def of_part(
        cls, virtual: VirtualTable, table: SourceTable, plan: SharedPlan, per_exposure: bool = False
    ) -> TrainingSummary:
        """Summarise the whole table of which a worker has a part."""
        whole = {
            "source_rows": plan.allocation.rows,
            "virtual_rows": plan.virtual_rows,
            "complete_rows": plan.complete_rows,
            "effective_sample_size": plan.effective_sample_size,
            "masks_seen": plan.masks_seen,
            "mask_people": None if plan.mask_people is None else rounded_people(plan.mask_people),
        }
        return replace(cls.of(virtual, table, None, per_exposure), **whole)  # type: ignore[arg-type]

    __str__ = PlanSummary.__str__

    def __reduce__(self) -> Any:
        return pickled("TrainingSummary", vars(self))


def check_favourable(value: Any) -> Favourable | None:
    """Return which predictions people prefer, None if that is not given; raise for any other word."""
    if value is not None and value not in get_args(Favourable):
        raise ValueError(f"favourable must be 'lower' or 'higher', got {value!r}.")
    return value  # type: ignore[no-any-return]


def rounded_people(counts: Sequence[int]) -> tuple[int, ...]:
    """Return counts of at least five people to the nearest multiple of five."""
    return tuple(PEOPLE_STEP * ((count + PEOPLE_STEP // 2) // PEOPLE_STEP) for count in counts)


def model_schema(consent: Consent, summary: TrainingSummary) -> dict[str, Any]:
    """Return consent and summary as plain data."""
    sketch = summary.row_hashes
    kept = asdict(replace(summary, row_hashes=None)) | {"row_hashes": sketch and sketch.to_dict()}
    return {"format": FORMAT, "consent": consent.to_dict(), "summary": kept}


def read_schema(schema: Any, where: str) -> tuple[Consent, TrainingSummary]:
    """Inverse of :func:`model_schema`; errors name ``where`` it was found.

    Entries of the summary that this version does not know are ignored: they only describe the training. What would
    change the meaning of a model has another format, and is refused.
    """
    with valid_in(where):
        _check_entries(schema, "the schema", ("format", "consent", "summary"))
    if schema["format"] != FORMAT:
        raise ValueError(
            f"{where!r} has consent schema format {schema['format']!r:.60}; this version of pucboost reads format "
            f"{FORMAT}. Load it with the version that wrote it, or a later one."
        )
    with valid_in(where, ValueError, TypeError):
        _check_entries(schema["consent"], "consent", ("groups", "feature_names", "needs"))
        consent = Consent.from_dict(schema["consent"])
        return consent, _read_summary(schema["summary"], consent)


@contextmanager
def valid_in(where: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn NotValidError, and errors of other ``kinds``, into one error that names where the schema was found."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, (NotValidError, *kinds)):
            raise
        raise ValueError(
            f"{where!r} has a consent schema that cannot be used: {str(error).rstrip('.')}. It is damaged, was changed "
            "by hand, or is of a later version; write the model again with pucboost.save_model."
        ) from error


def _check_entries(given: Any, name: str, needed: tuple[str, ...]) -> None:
    if not isinstance(given, Mapping):
        raise NotValidError(f"{name} is {given!r:.60}, not a set of named entries")
    absent = [entry for entry in needed if entry not in given]
    if absent:
        raise NotValidError(f"{name} has no {absent[0]!r}")


_COUNTS = ("source_rows", "virtual_rows", "complete_rows")
_MAY_BE_ABSENT = ("engine", "favourable", "mask_people", "row_hashes")
"""Entries that files of early 0.2.0 do not have."""


def _read_summary(given: Any, consent: Consent) -> TrainingSummary:
    """Return a summary whose entries are of the right kind and fit the consent; else raise."""
    names = tuple(field.name for field in fields(TrainingSummary))
    _check_entries(given, "summary", tuple(name for name in names if name not in _MAY_BE_ABSENT))
    known = {name: given.get(name) for name in names}
    check_augmentation(known["augmentation"])
    check_favourable(known["favourable"])
    if known["engine"] is not None and not isinstance(known["engine"], str):
        raise NotValidError(f"engine is {known['engine']!r:.60}, not the name of an engine")
    for name in ("seed", *_COUNTS):
        if not is_whole(known[name]) or (known[name] < 0 and name in _COUNTS):
            raise NotValidError(f"{name} is {known[name]!r:.60}, not a whole number")
    for name in ("effective_sample_size", "mask_calibration", "loading"):
        if isinstance(known[name], bool) or not isinstance(known[name], (int, float)):
            raise NotValidError(f"{name} is {known[name]!r:.60}, not a number")
    known["coded_columns"] = _whole_numbers(known["coded_columns"], "coded_columns", len(consent.feature_names))
    if known["masks_seen"] is not None:
        known["masks_seen"] = _whole_numbers(known["masks_seen"], "masks_seen", 1 << consent.n_groups)
    if known["mask_people"] is not None:
        known["mask_people"] = _counts_of_masks(known["mask_people"], known["masks_seen"])
    for name in ("per_exposure", "unstored_withheld"):
        if not isinstance(known[name], bool):
            raise NotValidError(f"{name} is {known[name]!r:.60}, not true or false")
    if known["row_hashes"] is not None:
        known["row_hashes"] = _read_sketch(known["row_hashes"], consent)
    return TrainingSummary(**known)


def _whole_numbers(values: Any, name: str, below: int) -> tuple[int, ...]:
    """Return a list of distinct integers from 0 to below a bound as a tuple, or raise."""
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise NotValidError(f"{name} is {values!r:.60}, not a list of integers")
    for value in values:
        if not is_whole(value):
            raise NotValidError(f"{name} has the entry {value!r:.60}, which is not an integer")
        if not 0 <= value < below:
            raise NotValidError(f"{name} has the entry {value!r:.60}, which is not in 0 … {below - 1}")
    if len(set(values)) != len(values):
        raise NotValidError(f"{name} has an entry twice")
    return tuple(int(value) for value in values)


def _counts_of_masks(values: Any, masks: tuple[int, ...] | None) -> tuple[int, ...]:
    if not isinstance(values, Sequence) or not all(is_whole(value) and value > 0 for value in values):
        raise NotValidError(f"mask_people is {values!r:.60}, not a list of counts of people")
    if masks is None or len(values) != len(masks):
        raise NotValidError(f"mask_people has {len(values)} counts, but masks_seen does not have as many masks")
    return tuple(int(value) for value in values)


def _read_sketch(given: Any, consent: Consent) -> RowSketch:
    _check_entries(given, "row_hashes", ("hashes", "complete", "twins", "salt", "check"))
    if not isinstance(given["complete"], bool):
        raise NotValidError(f"complete of row_hashes is {given['complete']!r:.60}, not true or false")
    if not isinstance(given["check"], str) or not given["check"]:
        raise NotValidError("check of row_hashes does not tell the key")
    twins = given["twins"]
    if not isinstance(twins, list) or len(twins) != consent.n_groups + 1 or not all(map(_is_chance, twins)):
        raise NotValidError(f"twins of row_hashes does not have one chance for 0 … {consent.n_groups} groups")
    return RowSketch.from_dict(given)


def _is_chance(value: Any) -> bool:
    return isinstance(value, float) and 0 < value <= 1


def check_names(consent: Consent, booster: Any, where: str) -> None:
    """Raise if the columns of a schema are not those of the booster it was found in, by number and by name."""
    boosters = boosters_of(booster)
    facts = boosters.facts(booster)
    names = facts.column_names
    with valid_in(where):
        if facts.n_columns != len(consent.feature_names):
            raise NotValidError(f"it is for {len(consent.feature_names)} columns, but the trees have {facts.n_columns}")
        for j, (mine, own) in enumerate(zip(consent.feature_names, names or (), strict=names is not None)):
            if mine.replace(" ", boosters.space) != own:
                raise NotValidError(f"its column {j} is {mine!r}, but the trees call it {own!r}")


@cache
def log_unprotected(engine: str) -> None:
    """Log once per process that nothing is optional, so that nobody takes an ordinary model for a protected one."""
    logger.warning("nothing is declared optional, so this is plain %s: nobody's silence is protected", engine)


def unprotected(booster: Any, engine: str) -> Any:
    """Return a booster that was trained with nothing optional, marked as such."""
    log_unprotected(engine)
    booster.consent = booster.puc_summary = None
    return booster


def attach_schema(booster: Any, boosters: Boosters, consent: Consent, summary: TrainingSummary, categories: Any) -> Any:
    """Set ``consent`` and ``puc_summary`` on a booster that was just trained, and return it.

    The booster itself also holds them, so that its copies, pickles and files do.
    """
    boosters.keep_schema(booster, model_schema(consent, summary), categories)
    booster.consent, booster.puc_summary = consent, summary
    return booster


TREES_ARE_OTHERS = (
    "has a consent schema, but other trees than pucboost has trained: the engine itself has continued or refreshed "
    "it on rows as they were, so it may read silence"
)


def kept_of(model: Any) -> tuple[Consent | None, TrainingSummary | None]:
    """Return consent and summary of a booster or an anchored model, however it was loaded or copied.

    If a booster has other trees than its schema describes, warn, and return None.
    """
    consent, summary = getattr(model, "consent", None), getattr(model, "puc_summary", None)
    if not is_booster(model):
        return consent, summary
    boosters = boosters_of(model)
    if consent is None:
        with valid_in("the booster"):
            kept = boosters.kept_schema(model)
        if kept is None:
            return None, None
        consent, summary = read_schema(kept, "the booster")
        check_names(consent, model, "the booster")
    if not boosters.has_its_trees(model):
        warn(
            f"The model {TREES_ARE_OTHERS}. It counts as a model without consent schema. Continue models with "
            "pucboost.train(..., init_model=booster), and refit them with pucboost.refit.",
            ProtectionLostWarning,
        )
        return None, None
    return consent, summary


def categories_of(model: Any) -> Categories | None:
    """Return how the table was read that a model was trained on; None if it is unknown whether there are any.

    Parameters
    ----------
    model
        A booster of any engine, or an anchored model.
    """
    booster = getattr(model, "booster", model)
    if not is_booster(booster):
        return None
    consent, summary = getattr(model, "consent", None), getattr(model, "puc_summary", None)
    if summary is None and not hasattr(model, "consent"):
        with valid_in("the booster"):
            kept = boosters_of(booster).kept_schema(booster)
        consent, summary = (None, None) if kept is None else read_schema(kept, "the booster")
    categories = boosters_of(booster).categories(booster, None if summary is None else summary.coded_columns)
    if consent is None or not consent.not_applicable:
        return categories
    return replace(categories or Categories([], ()), not_applicable=consent.not_applicable)
