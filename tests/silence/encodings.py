"""People who withhold something, and the ways in which tables hide it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.impute import SimpleImputer

from pucboost._consent import Consent
from pucboost._silence import EncodedSilence, find_encoded_silence
from pucboost._tables.sources import row_source


def people(n: int = 600, share: float = 0.3, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A base column, an optional number and an optional category, withheld by a share of the people."""
    rng = np.random.default_rng(seed)
    z = rng.gamma(25.0, 5.0, n) if seed % 2 else rng.normal(120, 15, n)
    table = pd.DataFrame({"age": rng.integers(18, 80, n), "z": z})
    table["job"] = rng.choice(["office", "field", "home"], n)
    y = (table["z"] / 15 + rng.normal(size=n) > 8).astype(int).to_numpy()
    table.loc[rng.random(n) < share, "z"] = np.nan
    table["job"] = table["job"].where(rng.random(n) >= share)
    return table, y


def findings(X: Any, optional: Any, available: Any = None) -> list[EncodedSilence]:
    source = row_source(X)
    consent = Consent.of(optional, source)
    shared = consent.visible(source, available, zero_as_missing=False, num_threads=1)
    return find_encoded_silence(source, consent, shared)


@dataclass(frozen=True)
class Encoding:
    """A way to hide silence, and what must be found: column and value, None where any will do."""

    encode: Callable[[pd.DataFrame], Any]
    optional: Any
    column: str | None
    value: Callable[[pd.DataFrame], str | None]


def imputed(**how: Any) -> Callable[[pd.DataFrame], Any]:
    def encode(table: pd.DataFrame) -> Any:
        return SimpleImputer(**how).set_output(transform="pandas").fit_transform(table[["age", "z"]])

    return encode


def filled(column: str, value: Any) -> Callable[[pd.DataFrame], Any]:
    return lambda table: table[["age", column]].assign(**{column: table[column].fillna(value)})


def dummies(**how: Any) -> Callable[[pd.DataFrame], Any]:
    def encode(table: pd.DataFrame) -> Any:
        return pd.concat([table[["age"]], pd.get_dummies(table["job"], prefix="job", **how)], axis=1)

    return encode


def unstored(table: pd.DataFrame) -> Any:
    matrix = sparse.lil_matrix((len(table), 2))
    matrix[:, 0] = table[["age"]].to_numpy()
    given = table["z"].notna().to_numpy()
    matrix[np.flatnonzero(given), 1] = table["z"].to_numpy()[given]
    return matrix.tocsr()


JOBS = ["job_field", "job_home", "job_office"]
ENCODINGS = {
    "mean": Encoding(imputed(), ["z"], "z", lambda t: f"{t['z'].mean():.6g}"),
    "median": Encoding(imputed(strategy="median"), ["z"], "z", lambda t: f"{t['z'].median():.6g}"),
    "constant": Encoding(imputed(strategy="constant", fill_value=-1), ["z"], "z", lambda t: "-1"),
    "most frequent": Encoding(imputed(strategy="most_frequent"), ["z"], None, lambda t: None),
    **{
        f"code {code}": Encoding(filled("z", code), ["z"], "z", lambda t, code=code: f"{code:.6g}")
        for code in (-1, -9, -99, -999, -9999, 999, 9999, 99999, -(2.0**63))
    },
    "zero": Encoding(filled("z", 0), ["z"], "z", lambda t: "0"),
    "unstored": Encoding(unstored, [1], "Column_1", lambda t: "0"),
    **{
        f"word {word!r}": Encoding(filled("job", word), ["job"], "job", lambda t, word=word: repr(word))
        for word in ("?", "unknown", "N/A", "NA", "none", "Missing", "not given", " Prefer not to say ", "REFUSED",
                     "declined", "no answer", "-", "", "missing_value", "keine Angabe", "non renseigné", "未知")
    },
    "one-hot with nan": Encoding(dummies(dummy_na=True), {"job": [*JOBS, "job_nan"]}, "job_nan", lambda t: "1"),
    "one-hot with zeros": Encoding(dummies(), {"job": JOBS}, None, lambda t: "0 in all its columns"),
}  # fmt: skip
