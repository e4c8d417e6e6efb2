"""Words that stand for silence, as values of text columns and at the end of column names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Any

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
    letters = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(c for c in letters if not unicodedata.combining(c))
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

    Parameters
    ----------
    value
        The category.
    others
        The other categories of the column.

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


def may_stand_for_silence(value: Any) -> bool:
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
    separators = [separator for separator in _SEPARATOR.finditer(name) if separator.start() > 0]
    for separator in separators:
        stem, start = name[: separator.start()], name[: separator.end()]
        for column in columns:
            if column == stem or column.startswith(start):
                return column
    return None


def name_says_silence(name: str, others: Collection[str] = ()) -> bool:
    """Return whether a column's name ends in a word for silence, as one-hot encoders and indicators name theirs.

    Words that say something about the person as well (``loan_declined``) count only beside other columns with the
    same beginning, and ``NA`` not among columns that end in two-letter codes.

    Parameters
    ----------
    name
        Name of the column.
    others
        Names of the other columns of its table or group.

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
