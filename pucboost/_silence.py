"""Silence that does not look like silence: where a table seems to have it imputed or encoded.

Whoever withholds is protected only if what they withhold is missing in the table. Five things are looked for in every
group:

1. **Nobody withholds it**: fewer than one in a thousand, among at least 200 people. Whatever an imputer or encoder made
   of silence, this remains, and nothing else does for good imputers. In a smaller table nobody may withhold by chance.
2. **A spike** in a column of numbers, or values that a CSR matrix does not store, so that they are 0. The latter count
   where nobody withholds otherwise, or where the stored ones are measurements on both sides of 0; counts and amounts
   above 0 are stored that way by everybody.
3. **A word** for silence among the categories of a column.
4. **One-hot columns**: a 0/1 column whose name ends in such a word, or people with 0 in all columns of a group in which
   everybody else has a single 1. The latter is what ``drop="first"`` does too, so it counts only where nobody withholds
   the group otherwise; the same holds for the category "none".
5. **A base column** that tells who withholds the group, by its name or by its values.

What is certain enough to be reported of a group that people do withhold must be rare in honest tables, because then
silence seems to be encoded for some only. Where nobody withholds, there is a finding anyway, and the others explain it.

Encoded silence is suspected, never proved, and honest columns that look like it are spared where they are known; tests
have a list of them. Sharing is counted over all people, everything else in a sample of at most :data:`SAMPLE` rows,
evenly spread. Nothing here raises for what a table holds: training warns, and audits report.
"""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from ._common import Array, warn
from ._consent import Consent, position_of_name, shared_counts
from ._tables.sources import NOT_APPLICABLE, NOT_APPLICABLE_WORD, RowSource
from .warnings import EncodedSilenceWarning

NOBODY = "nobody"
"""The kind of a finding about a group that nobody withholds, or nearly nobody."""
BASE_COLUMN = "base column"
"""The kind of a finding about a column outside the group that tells who withholds it."""
MAX_ALIKE = 5
"""How many columns of one group are listed that have the same fault."""


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
        return self.people / self.of

    def __str__(self) -> str:
        if self.kind == NOBODY:
            return f"group {self.group!r} is {_withheld_by(self.people, self.of)}"
        what = f"column {self.column!r} is {self.value}" if self.column else f"group {self.group!r} is {self.value}"
        # Of many people, few are no percentage that could be read.
        who = f"{self.share:.1%} of the people" if self.share >= 0.001 else f"{self.people:,} of {self.of:,} people"
        if self.kind == BASE_COLUMN:
            return f"base {what} for {who}, {self.reason}"
        inside = f" (group {self.group!r})" if self.column not in (None, self.group) else ""
        return f"{what} for {who}{inside}, {self.reason}"


def describe(findings: Sequence[EncodedSilence]) -> str:
    """Return all findings in one sentence.

    Groups that equally few people withhold are listed together; of columns of one group that have the same fault only
    the first few are listed.
    """
    together: dict[tuple[int, int], list[str]] = {}
    alike: dict[tuple[str, str], list[EncodedSilence]] = {}
    for one in findings:
        if one.kind == NOBODY:
            together.setdefault((one.people, one.of), []).append(repr(one.group))
        else:
            alike.setdefault((one.group, one.kind), []).append(one)
    said = []
    for counts, groups in together.items():
        is_one = len(groups) == 1
        who = _withheld_by(*counts)
        said.append(f"{'group' if is_one else 'groups'} {', '.join(groups)} {'is' if is_one else 'are'} {who}")
    for (group, _), some in alike.items():
        said += map(str, some[:MAX_ALIKE])
        if len(some) > MAX_ALIKE:
            said.append(f"so are {len(some) - MAX_ALIKE:,} more columns of group {group!r}")
    return "; ".join(said)


def _withheld_by(people: int, of: int) -> str:
    who = "nobody" if people == 0 else "nearly nobody"
    return f"withheld by {who} in training ({people:,} of {of:,} people)"


# The search, group by group -------------------------------------------------------------------------------------------


SAMPLE = 20_000
"""How many rows are read at most."""
SAMPLE_VALUES = 8_000_000
"""How many values are kept at most."""
GOLDEN_RATIO = (5**0.5 - 1) / 2
"""Its multiples are spread evenly over the unit interval."""
MIN_PEOPLE = 200
"""In a smaller table nobody may withhold by chance."""
WITHHELD_BY_FEW = 1_000
"""One in so many."""

_REASONS = {
    "mean": "the mean of its other values, as an imputer fills it in",
    "median": "the median of its other values, as an imputer fills it in",
    "code": "outside the range of its other values, like a code",
    "zero": "far from all its other values",
}


def find_encoded_silence(
    source: RowSource, consent: Consent, shared: Array, *, zero_as_missing: bool = False
) -> list[EncodedSilence]:
    """Return where silence seems to be imputed or encoded, group by group.

    Examples
    --------
    >>> import numpy as np
    >>> from pucboost._tables.sources import ArraySource
    >>> X = np.random.default_rng(0).normal(size=(300, 2)); X[:90, 1] = -999
    >>> consent = Consent.declare([1], ["age", "glucose"])
    >>> for found in find_encoded_silence(ArraySource(X), consent, consent.availability(X)):
    ...     print(found)
    group 'glucose' is withheld by nobody in training (0 of 300 people)
    column 'glucose' is -999 for 30.0% of the people, outside the range of its other values, like a code
    """
    if consent.n_groups == 0 or source.n_rows == 0:
        return []
    optional = consent.group_columns
    telling = _telling_by_name(consent)
    rows = _sample(source.n_rows, len(optional) + len(telling))
    values = _read(source, rows, np.array([*optional, *telling], dtype=np.int64))
    indicators = values[:, len(optional) :].copy()
    if zero_as_missing:
        values[values == 0] = np.nan
    stored = source.present(rows, optional) if source.is_sparse else None
    categories = dict(zip(source.coded, source.pandas_categorical or (), strict=False))
    spared = _not_applicable(consent)
    found = _telling_values(source, consent, rows, shared[rows], categories)
    exact = {(one.group, one.column) for one in found}
    named = _indicators(consent, telling, indicators)
    found += [one for one in named if (one.group, one.column) not in exact]
    for g, group in enumerate(consent.group_names):
        silent = (shared >> np.uint64(g)) & np.uint64(1) == 0
        withheld = int(silent.sum())
        by_few = withheld * WITHHELD_BY_FEW < source.n_rows
        if by_few and source.n_rows >= MIN_PEOPLE:
            found.append(EncodedSilence(group, NOBODY, withheld, source.n_rows))
        start = consent.group_start[g]
        mine = values[:, start : consent.group_start[g + 1]]
        mine[silent[rows]] = np.nan  # with available= there may be something unstored
        given = ~np.isnan(mine)
        binary = ((mine == 0) | (mine == 1) | ~given).all(axis=0) & given.any(axis=0)
        for place, position in enumerate(consent.groups[group]):
            name, column = consent.feature_names[position], mine[:, place]
            known = spared.get(position, ())
            if position in categories:
                signs = _words(column, categories[position], by_few, known)
            elif binary[place]:
                signs = _named(column, name, consent.feature_names)
            else:
                column = np.where(np.isin(column, known), np.nan, column) if known else column
                signs = _numbers(column, None if stored is None else stored[:, start + place], by_few)
            found += [
                EncodedSilence(group, kind, people, len(rows), name, value, reason)
                for kind, people, value, reason in signs
            ]
        if by_few and len(binary) > 1 and binary.all():
            found += _all_zero(group, mine)
    return found


def _sample(n_rows: int, n_columns: int) -> Array:
    """Return the rows to look at: one from each of as many stretches of equal length.

    Not the first ones of each: a table may have a period, such as three rows per person.
    """
    size = min(n_rows, SAMPLE, max(MIN_PEOPLE, SAMPLE_VALUES // n_columns))
    number = np.arange(size + 1, dtype=np.int64)
    start = number * n_rows // size
    within = (number[:-1] * GOLDEN_RATIO) % 1.0
    return np.asarray(start[:-1] + (within * np.diff(start)).astype(np.int64))


Sign: TypeAlias = tuple[str, int, str, str]
"""Kind, number of people, value, reason."""


def _not_applicable(consent: Consent) -> dict[int, tuple[Any, ...]]:
    """Return the values of each optional column that were declared to mean that it does not apply."""
    values: dict[int, tuple[Any, ...]] = {}
    for column, where, said in consent.not_applicable:
        own = (NOT_APPLICABLE, NOT_APPLICABLE_WORD) if where is not None else said
        values[column] = (*values.get(column, ()), *own)
    return values


def _words(values: Array, categories: list[str], by_few: bool, known: Collection[Any]) -> Iterator[Sign]:
    for code, category in enumerate(categories):
        if category in known:
            continue
        if stands_for_silence(category, categories) or (by_few and _may_stand_for_silence(category)):
            people = int((values == code).sum())
            if people:
                yield "word", people, repr(category), "a word for silence"


def _named(values: Array, name: str, all_names: Collection[str]) -> Iterator[Sign]:
    """A 0/1 column whose name means that a 1 stands for silence."""
    people = int((values == 1).sum())
    if people and name_says_silence(name, all_names):
        yield "indicator", people, "1", "and its name says that this stands for silence"


def _numbers(values: Array, stored: Array | None, by_few: bool) -> Iterator[Sign]:
    """Numbers that stand for silence, and values that a sparse matrix does not store."""
    given = ~np.isnan(values)
    unstored = None if stored is None else given & ~stored
    if unstored is not None and _are_silence(values[given & ~unstored], unstored, by_few):
        reason = "because it is not stored in the CSR matrix: say with available= if that is silence"
        yield "unstored", int(unstored.sum()), "0", reason
        given &= ~unstored
    for spike in find_spikes(values[given]):
        yield spike.rule, spike.count, f"{spike.value:.6g}", _REASONS[spike.rule]


def _are_silence(stored: Array, unstored: Array, by_few: bool) -> bool:
    """Return whether unstored values may be silence: the others are measurements, not counts or amounts above 0."""
    people = int(unstored.sum())
    if people < max(MIN_SPIKE, SPIKE_SHARE * len(unstored)):
        return False
    if by_few:
        return True
    both_sides = len(stored) >= MIN_VALUES and min((stored < 0).mean(), (stored > 0).mean()) > 0.05
    return bool(both_sides and len(np.unique(stored)) > len(stored) / 2)


def _all_zero(group: str, values: Array) -> Iterator[EncodedSilence]:
    """People with 0 in all 0/1 columns of a group, where all others have a single 1."""
    ones = np.nansum(values, axis=1)[~np.isnan(values).all(axis=1)]
    zero = int((ones == 0).sum())
    if len(ones) >= MIN_VALUES and ones.max() == 1 and MIN_SPIKE <= zero <= len(ones) / 2:
        reason = "as encoders write silence, unless it is the category they drop"
        yield EncodedSilence(group, "all zero", zero, len(ones), None, "0 in all its columns", reason)


# The warning ----------------------------------------------------------------------------------------------------------


def warn_of_encoded_silence(
    source: RowSource,
    consent: Consent,
    shared: Array,
    expect_shared: Any,
    expect_revealing: Any,
    *,
    zero_as_missing: bool = False,
) -> None:
    """Warn once if silence seems to be imputed or encoded in a table that a model will be trained on.

    ``shared`` has the mask of each person. Nothing is reported of values in the groups of ``expect_shared``, nor of the
    base columns of ``expect_revealing``, as in ``train``.
    """
    groups, columns = _expected_groups(expect_shared, consent), _expected_columns(expect_revealing, consent)
    findings = find_encoded_silence(source, consent, shared, zero_as_missing=zero_as_missing)
    encoded = [one for one in findings if one.kind != BASE_COLUMN and one.group not in groups]
    revealed = [one for one in findings if one.kind == BASE_COLUMN and one.column not in columns]
    said = []
    if encoded:
        said.append(
            f"Silence may have been imputed or encoded, and then the silent are not protected: {describe(encoded)}. "
            "Leave what is withheld missing (NaN) and drop the imputer or encoder, or declare who shares. If all these "
            f"values were really shared, set the parameter expect_shared={_listed(one.group for one in encoded)}."
        )
    if revealed:
        said.append(
            f"Base columns tell who is silent, and then the silent are not protected: {describe(revealed)}. If such "
            f"a column must stay, set the parameter expect_revealing={_listed(one.column for one in revealed)}."
        )
    if said:
        warn(" ".join(said), EncodedSilenceWarning)


def _listed(names: Iterable[str | None]) -> str:
    """Return names as JSON, which is Python and also the value of an option of the command line."""
    return json.dumps(list(dict.fromkeys(names)), ensure_ascii=False)


def _expected_groups(given: Any, consent: Consent) -> set[str]:
    """Return the groups that ``expect_shared`` names, by their names or by the position of a column; else raise."""
    of_column = {column: group for group, columns in consent.groups.items() for column in columns}
    groups: set[str] = set()
    for one in _entries(given, "expect_shared", "groups of optional columns"):
        group = of_column.get(int(one)) if isinstance(one, Integral) else one
        if group not in consent.groups:
            raise ValueError(
                f"expect_shared names {one!r}; the groups are {list(consent.group_names)}. For base columns that "
                "reveal who withholds, expect_revealing is meant."
            )
        groups.add(str(group))
    return groups


def _expected_columns(given: Any, consent: Consent) -> set[str]:
    """Return the base columns that ``expect_revealing`` names, by name or position; else raise."""
    names, columns = consent.feature_names, set()
    for one in _entries(given, "expect_revealing", "base columns"):
        position = int(one) if isinstance(one, Integral) else position_of_name(str(one), names, "expect_revealing")
        if not 0 <= position < len(names):
            raise ValueError(f"expect_revealing names column {one}; the table has columns 0 to {len(names) - 1}.")
        if consent.column_bits[position]:
            raise ValueError(
                f"expect_revealing names {one!r}, which is optional; it is for base columns. If every value of an "
                "optional column was really shared, expect_shared is meant."
            )
        columns.add(names[position])
    return columns


def _entries(given: Any, name: str, what: str) -> list[Any]:
    if isinstance(given, bool) or not isinstance(given, (str, Integral, Iterable, type(None))):
        raise ValueError(f"{name} must list {what}, got {given!r}.")
    return [] if given is None else [given] if isinstance(given, (str, Integral)) else list(given)


# Words and names ------------------------------------------------------------------------------------------------------


_SIGNS = frozenset({"", "-", "--", "---", "–", "—", "?", "??", "???", ".", "..", "...", "…"})

_WORDS = """
nan|null|nil|n/a|n.a|n.a.|na|#n/a|n/k|unk|<na>|nat|<unk>
unknown|missing|missing value|missing data|is missing|no data|empty|blank|unspecified|undisclosed|withheld|unanswered
not given|not known|not available|not specified|not provided|not stated|not disclosed|not reported|not recorded
not answered|not shared|not supplied|no answer|no response|no reply|non response|nonresponse|no information|no info
refused|refusal|refused to answer|refuse to answer|declined|decline|declined to answer|decline to answer
decline to state|declined to state|prefer not to say|prefer not to answer|prefer not to disclose|prefer not to state
prefer not to respond|rather not say|i prefer not to say|i would rather not say|would rather not say|choose not to say
do not wish to answer|do not wish to disclose|do not want to say|not applicable or unknown
unbekannt|keine angabe|keine angaben|ohne angabe|k.a.|k. a.|k.a|o.a.|fehlt|fehlend|keine antwort|verweigert
nicht angegeben|nicht bekannt|keine auskunft
inconnu|inconnue|non renseigné|non renseignée|non communiqué|manquant|manquante|refus|sans réponse|pas de réponse
ne souhaite pas répondre|préfère ne pas répondre|non précisé
desconocido|desconocida|no informado|no contesta|ns/nc|sin respuesta|sin dato|sin datos|no especificado
prefiero no decirlo|prefiero no responder
sconosciuto|sconosciuta|non dichiarato|non specificato|preferisco non rispondere|preferisco non dirlo|mancante
desconhecido|desconhecida|não informado|não informada|prefiro não dizer|prefiro não responder|sem resposta
onbekend|niet opgegeven|geen antwoord|wil niet zeggen|ontbreekt
okänd|okänt|ukjent|ukendt|uppgift saknas|vill ej uppge|tuntematon
nieznane|nieznany|brak danych|brak odpowiedzi|neznámý|neznámé|neuvedeno|bilinmiyor|belirtilmemiş
неизвестно|не указано|нет данных|отказ|нет ответа
未知|不详|不詳|未填写|拒绝回答|不明|無回答|未回答|回答しない|무응답|알 수 없음|모름
"""

_DIGITS = frozenset({"-9", "-99", "-999", "-9999", "-99999", "999", "9999", "99999"})


def _plain(text: str) -> str:
    """Return text without case, accents, brackets and quotes; hyphens and underscores become spaces."""
    letters = text.casefold()
    if not letters.isascii():
        letters = "".join(c for c in unicodedata.normalize("NFKD", letters) if not unicodedata.combining(c))
    return re.sub(r"[\s_\-]+", " ", letters.strip().strip("()[]<>{}'\"")).strip()


WORDS = frozenset(_plain(word) for line in _WORDS.strip().splitlines() for word in line.split("|"))

_ALSO_EVENTS = frozenset({"refused", "refusal", "declined", "decline", "withheld", "empty", "blank", "refus", "отказ"})
"""What can also have happened to the person, where a column's name ends in it."""

_INDICATOR = "missingindicator_"
"""What scikit-learn's imputers put before the name of a column."""

_SEPARATOR = re.compile(r"[_=:.\-\s\[(]+")


def stands_for_silence(value: Any, others: Collection[Any] = ()) -> bool:
    """Return whether a category is a word for silence.

    Three are not, where the other categories show that they are answers: ``"NA"`` among two-letter codes (Namibia,
    North America), ``"-"`` beside ``"+"``, and ``999`` as text among other numbers.

    Examples
    --------
    >>> stands_for_silence(" Prefer not to say"), stands_for_silence("(missing)"), stands_for_silence("private")
    (True, True, False)
    >>> stands_for_silence("NA", ["high", "low"]), stands_for_silence("NA", ["DE", "FR", "US"])
    (True, False)
    """
    if not isinstance(value, str):
        return False
    raw = value.strip()
    if raw not in _SIGNS and raw not in _DIGITS and _plain(raw) not in WORDS:
        return False
    rest = [str(other).strip() for other in others if other != value]  # there may be thousands: only if needed
    if raw == "NA" and rest and all(len(other) == 2 and other.isalpha() for other in rest):
        return False
    if raw == "-" and any(other.startswith("+") for other in rest):
        return False
    return not (raw in _DIGITS and any(re.fullmatch(r"[+-]?\d{2,}(\.\d+)?", other) for other in rest))


def _may_stand_for_silence(value: Any) -> bool:
    """Return whether a category is "none": what Python calls a missing value, but often an answer as well.

    "Other debts: none" is an answer. So this word counts only where nothing in the column is missing.
    """
    return isinstance(value, str) and _plain(value) in ("none", "not applicable")


def indicated_column(name: str, columns: Collection[str]) -> str | None:
    """Return which of the columns another one says something about: whether it is missing.

    Examples
    --------
    >>> columns = ["z", "job_home", "job_field"]
    >>> [indicated_column(name, columns) for name in ("missingindicator_z", "z_missing", "job_nan", "y_nan", "z_score")]
    ['z', 'z', 'job_home', None, None]
    """
    if name.startswith(_INDICATOR):
        return next((column for column in columns if name == _INDICATOR + column), None)
    if not name_says_silence(name, columns):
        return None
    for separator in _SEPARATOR.finditer(name):
        stem, start = name[: separator.start()], name[: separator.end()]
        for column in columns:
            if stem and (column == stem or column.startswith(start)):
                return column
    return None


def name_says_silence(name: str, others: Collection[str] = ()) -> bool:
    """Return whether a column's name ends in a word for silence, as one-hot encoders and indicators name theirs.

    Words that say something about the person as well (``loan_declined``) count only beside other columns with the
    same beginning, and ``NA`` not among columns that end in two-letter codes.

    Examples
    --------
    >>> [name_says_silence(name) for name in ("job_nan", "job=unknown", "job_prefer_not_to_say", "job_None")]
    [True, True, True, True]
    >>> [name_says_silence(name) for name in ("job_finance", "banana", "unknown", "debts_none", "loan_declined")]
    [False, False, False, False, False]
    """
    for separator in _SEPARATOR.finditer(name):
        ending = name[separator.end() :].rstrip(")]")
        if separator.start() == 0 or not (_plain(ending) in WORDS or ending in ("None", "?")):
            continue
        start = name[: separator.end()]
        siblings = [other[len(start) :] for other in others if other != name and other.startswith(start)]
        if _plain(ending) in _ALSO_EVENTS and not siblings:
            continue
        if ending == "NA" and siblings and all(len(sibling) == 2 for sibling in siblings):
            continue
        return True
    return False


# Numbers --------------------------------------------------------------------------------------------------------------
#
# Values of one column of numbers that seem to stand for silence.
#
# All rules look for a spike, a value that is strangely frequent (at least five people, and one in 200), and for a
# reason why it is no measurement. Columns of one or two values, or with fewer than 50 people, are not judged.
#
# **Average.** The spike equals the mean or the median of the other values, within the error of a sample: that is what
# imputers fill in, perhaps fitted on other people. There are more than 20 values, of which it is at least five times
# as frequent as any other; or it is the only one that is not a whole number. What is honest and looks like it:
#
# - scores that pile up at an end of their scale: the spike must lie inside the range of the others;
# - nothing happened, nothing changed: 0 counts only in a column that was scaled to mean 0 and deviation 1;
# - round numbers that people prefer, such as 40 hours a week: where many others are multiples of five, too, it is not
#   counted if it is one.
#
# **Code.** The spike is a number such as −1, −9, −99, 999 or the smallest integer, outside the range of the others
# and behind a gap: more than twice their usual distance, and either a tenth of their range, or, among whole numbers,
# five times as many people as the next three values have. What is honest and looks like it:
#
# - caps: above the others, a code needs one in 50 people and a gap wider than any other;
# - the last digit, or −1 beside 0 and 1: no gap. If no other value is negative, a negative code needs none, but twice
#   as many people as its neighbour: codes of categories begin with 0, and with −1 for who has none.
#
# **Zero.** The spike is 0, and all others lie on one side, on average three standard deviations away or more: a blood
# pressure of 0. Counts and amounts, for which 0 is natural, spread further than that, or are 0 for most.


MIN_VALUES = 50
"""A column with fewer values is not judged."""
MIN_SPIKE = 5
"""So many people at least must have a value that is to count as a spike, …"""
SPIKE_SHARE = 0.005
"""… and this share of those with a value."""
CAP_SHARE = 0.02
"""The share that is needed where few honest values might happen to lie there: incomes are capped at 99999."""
MANY_VALUES = 20
"""From so many distinct values on a column can be a measurement."""
DOMINANT = 5
"""How many times as frequent as any other value a spike must be."""
STANDARD_ERRORS = 4.0
"""How far from the average of a sample the average of another one may be."""
HEAPED = 0.3
"""Share of multiples of five from which on people seem to prefer round numbers; one in five would be chance."""

CODES = np.array(
    sorted(
        {
            *(sign * (10**k - j) for sign in (-1, 1) for k in range(1, 10) for j in (1, 2, 3)),
            *(-11 * k for k in (7, 8)),
            *(-111 * k for k in (7, 8)),
            *(-9.99, -99.9, -99.99, -999.9, -999.99),  # 99.99 is a price
            *(-1, -(2**15), -(2**31), -(2**63), 2**31 - 1, 2**63 - 1),
        }
    ),
    dtype=np.float64,
)
"""Numbers that stand for something missing in surveys, weather data and old files."""


@dataclass(frozen=True)
class Spike:
    """A value that seems to stand for silence."""

    value: float
    count: int
    rule: str
    """``"mean"``, ``"median"``, ``"code"`` or ``"zero"``."""


def find_spikes(values: Array) -> list[Spike]:
    """Return the values that seem to stand for silence, among those of a column that are not missing.

    Examples
    --------
    >>> import numpy as np
    >>> pressure = np.random.default_rng(0).normal(80, 10, 1000)
    >>> pressure[:100] = -999
    >>> find_spikes(pressure)
    [Spike(value=-999.0, count=100, rule='code')]
    """
    values = values.astype(np.float64)
    values = values[np.abs(values) < 1e150]  # whose squares are finite
    if len(values) < MIN_VALUES:
        return []
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) < 3:
        return []
    at_least = max(MIN_SPIKE, SPIKE_SHARE * len(values))
    codes = _codes(distinct, counts, at_least)
    if codes:  # what is left is judged without them
        rest = ~np.isin(distinct, [code.value for code in codes])
        distinct, counts = distinct[rest], counts[rest]
    if len(distinct) <= MANY_VALUES or counts.sum() < MIN_VALUES:
        return codes
    other = _zero(distinct, counts, at_least) or _average(distinct, counts, at_least)
    return codes + ([other] if other else [])


def _codes(distinct: Array, counts: Array, at_least: float) -> list[Spike]:
    candidate = np.isin(distinct, CODES) | np.isin(distinct, CODES.astype(np.float32))
    inner = np.flatnonzero(~candidate)
    if len(inner) < 2:
        return []
    first, last = int(inner[0]), int(inner[-1])
    low_end = [(i, 1) for i in range(first - 1, -1, -1)]
    high_end = [(i, -1) for i in range(last + 1, len(distinct))]
    spacing = float(np.median(np.diff(distinct[first : last + 1])))
    whole = bool((distinct == np.round(distinct)).all())
    honest = np.ones(len(distinct), dtype=bool)
    honest[:first] = honest[last + 1 :] = False  # until shown below
    found = []
    for i, inwards in low_end + high_end:  # from the inside out
        near, others = np.flatnonzero(honest)[::inwards][:3], distinct[honest]
        gap, count, n = abs(distinct[near[0]] - distinct[i]), counts[i], counts.sum()
        wide = gap >= 0.1 * np.ptp(others)
        if distinct[i] > 0:  # perhaps a cap, of which honest values come within chance
            wide = wide and gap > np.diff(others).max() and count >= CAP_SHARE * n
        frequent = whole and n >= 4 * MIN_VALUES and count >= max(DOMINANT * counts[near].max(), CAP_SHARE * n)
        only_negative = distinct[i] < 0 <= others[0] and len(inner) >= 3 and count >= 2 * counts[near[0]]
        if count >= at_least and ((gap > 2 * spacing and (wide or frequent)) or only_negative):
            found.append(Spike(float(distinct[i]), int(counts[i]), "code"))
        else:
            honest[i] = True
    return sorted(found, key=lambda spike: spike.value)


def _zero(distinct: Array, counts: Array, at_least: float) -> Spike | None:
    is_zero = distinct == 0
    others, frequency = distinct[~is_zero], counts[~is_zero]
    count = int(counts[is_zero].sum())
    if not at_least <= count <= frequency.sum() or others[0] < 0 < others[-1]:
        return None
    mean, deviation = _moments(others, frequency)
    return Spike(0.0, count, "zero") if abs(mean) >= 3 * deviation > 0 else None


def _average(distinct: Array, counts: Array, at_least: float) -> Spike | None:
    whole = distinct == np.round(distinct)
    place = int(np.argmax(counts))
    if (~whole).sum() == 1:  # an average among whole numbers
        place = int(np.argmin(whole))
        others, frequency = distinct[whole], counts[whole]
    else:
        others, frequency = np.delete(distinct, place), np.delete(counts, place)
        if counts[place] < DOMINANT * frequency.max() or _is_round_number(distinct[place], others, frequency):
            return None
    value, count = float(distinct[place]), int(counts[place])
    if count < at_least or not others[0] < value < others[-1]:
        return None
    mean, deviation = _moments(others, frequency)
    if value == 0 and not (abs(mean) < 0.2 * deviation and _is_standardised(distinct, counts, others, frequency)):
        return None
    n, below = int(frequency.sum()), float(frequency[others < value].sum())
    if abs(value - mean) <= STANDARD_ERRORS * deviation / np.sqrt(n):
        return Spike(value, count, "mean")
    tolerance = STANDARD_ERRORS * 0.5 / np.sqrt(n)
    at_most = float(frequency[others <= value].sum())
    return Spike(value, count, "median") if below / n - tolerance <= 0.5 <= at_most / n + tolerance else None


def _is_round_number(value: float, others: Array, frequency: Array) -> bool:
    """Return whether people seem to prefer round numbers, of which the value is one."""
    if value % 5 != 0 or (others != np.round(others)).any():
        return False
    return bool(frequency[others % 5 == 0].sum() > HEAPED * frequency.sum())


def _is_standardised(distinct: Array, counts: Array, others: Array, frequency: Array) -> bool:
    """Return whether a column was scaled to mean 0 and deviation 1, with or without its spike."""
    for values, weights in ((distinct, counts), (others, frequency)):
        mean, deviation = _moments(values, weights)
        if abs(deviation - 1) < 0.05 and abs(mean) <= STANDARD_ERRORS / np.sqrt(weights.sum()):
            return True
    return False


def _moments(values: Array, weights: Array) -> tuple[float, float]:
    mean = float(np.average(values, weights=weights))
    return mean, float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))


# Base columns ---------------------------------------------------------------------------------------------------------
#
# Base columns that tell who withholds a group: the model learns from them what it must not learn from silence.
#
# **By name.** A 0/1 column named after an optional one and after silence, such as ``missingindicator_z`` or
# ``job_nan``.
#
# **By value.** All who withhold a group, and nobody else, have the same value in a base column: an indicator of any
# name, a date of consent that is missing where there was none. Or all who share it, and nobody else, have. At least
# :data:`MIN_EACH` people of the sample must share the group and as many withhold it, so that chance is out of the
# question. Or the column counts how many groups each person withholds or shares. Or it has a few values, none of
# which occurs both among those who withhold a group (share nothing, withhold anything) and among the others: the
# number of unanswered questions, the channel through which people came.


MIN_EACH = 20
"""So many people must share a group, and as many withhold it, before a value counts as telling who does."""
MAX_VALUES = 32
"""Columns with more values are not looked at value by value: where values are rare, each is on one side by chance."""


def _telling_by_name(consent: Consent) -> dict[int, str]:
    """Return the base columns whose names say who withholds, and the optional column they speak of."""
    names = [consent.feature_names[column] for column in consent.group_columns]
    spoken_of = {column: indicated_column(consent.feature_names[column], names) for column in _base(consent)}
    return {column: optional for column, optional in spoken_of.items() if optional is not None}


def _indicators(consent: Consent, telling: dict[int, str], values: Array) -> list[EncodedSilence]:
    """Return the indicators of silence among the base columns that :func:`_telling_by_name` returns, from a sample."""
    owner = {consent.feature_names[c]: group for group, columns in consent.groups.items() for c in columns}
    found = []
    for place, (position, optional) in enumerate(telling.items()):
        people, name = int((values[:, place] == 1).sum()), consent.feature_names[position]
        if people and np.isin(values[:, place], (0, 1)).all():
            reason = f"and its name says that they withhold {optional!r}: leave it out"
            found.append(EncodedSilence(owner[optional], BASE_COLUMN, people, len(values), name, "1", reason))
    return found


def _telling_values(
    source: RowSource, consent: Consent, rows: Array, shared: Array, categories: Mapping[int, Sequence[Any]]
) -> list[EncodedSilence]:
    """Return the base columns whose values tell who withholds a group.

    A few people who share a group and a few who withhold it show which columns can tell; only those are read further,
    for the ``rows`` of a sample, whose masks are ``shared``. ``categories`` are those of coded columns.
    """
    base = _base(consent)
    if not base:
        return []
    events = _events(consent, shared)
    suspects: dict[str, tuple[Array, list[int]]] = {}
    parting: set[int] = set()
    group_of = {_withholds(group): group for group in consent.group_names}
    sides = {who: [np.flatnonzero(side)[:MIN_EACH] for side in (apart, ~apart)] for who, apart in events.items()}
    few = np.unique(np.concatenate([np.empty(0, np.int64), *itertools.chain.from_iterable(sides.values())]))
    few_values = source.take(rows[few])[:, base]  # at once: a DataFrame takes as long for one row as for hundreds
    for who, apart in events.items():
        here, there = (few_values[np.searchsorted(few, side)] for side in sides[who])
        parting |= {base[j] for j in np.flatnonzero(_part(here, there, MIN_EACH))}
        if who in group_of:
            told = np.flatnonzero(_tells(here, there) | _tells(there, here))
            suspects[group_of[who]] = apart, [base[j] for j in told]
    counted = _counting_columns(source, consent, rows, shared, base) if len(suspects) > 1 else []
    parting -= set(counted)
    columns = sorted({column for _, some in suspects.values() for column in some} | set(counted) | parting)
    if not columns:
        return []
    values = dict(zip(columns, _read(source, rows, np.array(columns)).T, strict=True))
    found: list[EncodedSilence] = []
    for group, (silent, some) in suspects.items():
        for column in some:
            found += _telling(group, consent.feature_names[column], values[column], silent, categories.get(column))
    for column in counted:
        found += _count(consent, consent.feature_names[column], values[column], shared)
    for column in sorted(parting):
        name = consent.feature_names[column]
        if all(one.column != name for one in found):
            found += _parting(consent, name, values[column], events, categories.get(column))
    return found


def _base(consent: Consent) -> list[int]:
    return np.flatnonzero(consent.column_bits == 0).tolist()


def _tells(some: Array, others: Array) -> Array:
    """Return for each column whether all of some have one value there, and none of the others has it."""
    return np.asarray(_is(some, some[0]).all(axis=0) & ~_is(others, some[0]).any(axis=0))


def _is(values: Array, value: Any) -> Array:
    return np.asarray((values == value) | (np.isnan(values) & np.isnan(value)))


def _telling(
    group: str, name: str, values: Array, silent: Array, categories: Sequence[Any] | None
) -> Iterator[EncodedSilence]:
    """Yield the finding that a column tells who withholds a group, if it does for everybody in the sample."""
    for some, who in ((silent, "withhold"), (~silent, "share")):
        value = values[some][0]
        if not np.array_equal(_is(values, value), some):
            continue
        part_of_it = np.isnan(value) and who == "withhold"
        shown, what = _shown(value, categories), f"make it part of group {group!r}" if part_of_it else "leave it out"
        reason = f"exactly those who {who} {group!r}: {what}"
        yield EncodedSilence(group, BASE_COLUMN, int(some.sum()), len(values), name, shown, reason)
        return


def _counting_columns(source: RowSource, consent: Consent, rows: Array, shared: Array, base: list[int]) -> list[int]:
    """Return the base columns that may count the groups people withhold or share."""
    few = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), 2 * MIN_EACH)).astype(np.int64))
    values, count = source.take(rows[few])[:, base], shared_counts(shared[few])
    counts = (values == count[:, None]).all(axis=0) | (values == consent.n_groups - count[:, None]).all(axis=0)
    return [base[j] for j in np.flatnonzero(counts)]


def _count(consent: Consent, name: str, values: Array, shared: Array) -> Iterator[EncodedSilence]:
    count = shared_counts(shared)
    for counted, who in ((consent.n_groups - count, "withhold"), (count, "share")):
        if np.array_equal(values, counted) and len(np.unique(count)) > 1:
            reason = f"which is how many groups they {who}: leave it out"
            people, largest = int((counted > 0).sum()), f"between 1 and {counted.max():.0f}"
            yield EncodedSilence(consent.group_names[0], BASE_COLUMN, people, len(values), name, largest, reason)
            return


def _events(consent: Consent, shared: Array) -> dict[str, Array]:
    """Return what a column may tell: in words → of whom it is true, where enough people are on either side."""
    everything = np.uint64((1 << consent.n_groups) - 1)
    told = {
        _withholds(group): (shared >> np.uint64(g)) & np.uint64(1) == 0 for g, group in enumerate(consent.group_names)
    }
    if consent.n_groups > 1:
        told |= {"share nothing": shared == 0, "withhold something": shared != everything}
    return {who: some for who, some in told.items() if min(some.sum(), (~some).sum()) >= MIN_EACH}


def _withholds(group: str) -> str:
    return f"withhold {group!r}"


def _part(left: Array, right: Array, most: int) -> Array:
    """Return for each column whether two samples have no value in common, and few values in all."""
    here, there = _distinct(left), _distinct(right)
    missing_here, missing_there = np.isnan(left).any(axis=0), np.isnan(right).any(axis=0)
    apart = _distinct(np.concatenate([left, right])) == here + there
    # All missing values count as one.
    return np.asarray(apart & ~(missing_here & missing_there) & (here + there + missing_here + missing_there <= most))


def _distinct(values: Array) -> Array:
    """Return how many values each column has, missing ones not counted; differences of infinite ones would be NaN."""
    ordered = np.sort(values, axis=0)  # missing values last
    return np.asarray((ordered[1:] > ordered[:-1]).sum(axis=0) + ~np.isnan(ordered[0]))


def _parting(
    consent: Consent, name: str, values: Array, events: dict[str, Array], categories: Sequence[Any] | None
) -> Iterator[EncodedSilence]:
    """Yield the finding that values part some people from all others, if they do for everybody in the sample."""
    for who, some in events.items():
        if _part(values[some][:, None], values[~some][:, None], MAX_VALUES)[0]:
            known = [_shown(code, categories) for code in np.unique(values[some])]
            shown = known[0] if len(known) == 1 else f"one of {', '.join(known[:4])}{' …' * (len(known) > 4)}"
            group = next((g for g in consent.groups if who == _withholds(g)), consent.group_names[0])
            reason = f"exactly those who {who}: leave it out"
            yield EncodedSilence(group, BASE_COLUMN, int(some.sum()), len(values), name, shown, reason)
            return


def _shown(value: float, categories: Sequence[Any] | None) -> str:
    """Return a value of a base column as its table has it."""
    if np.isnan(value):
        return "missing"
    return f"{value:.6g}" if categories is None else repr(categories[int(value)])


def _read(source: RowSource, rows: Array, columns: Array) -> Array:
    """Return some rows and columns; whole rows are in memory a block at a time."""
    step = source.rows_per_block
    out = np.empty((len(rows), len(columns)), dtype=source.dtype, order="F")
    for lo in range(0, len(rows), step):
        out[lo : lo + step] = source.take(rows[lo : lo + step])[:, columns]
    return out
