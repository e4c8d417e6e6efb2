"""Audit two models against a margin: plain LightGBM and pucboost, trained on the same people.

Run with ``python examples/consent_audit.py``; it needs only pucboost, and saves two reports for a browser.

What to look at: the two verdicts, and the row of those who share nothing.
"""

from __future__ import annotations

import lightgbm as lgb
import pandas as pd

import pucboost as puc
from pucboost.demo import OPTIONAL_NAMES, insurance_family

MARGIN = 0.04  # four percentage points; fix it before you look


def people(n: int, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return simulated people who share less often if they will claim."""
    sample = insurance_family().sample(n, seed)
    return pd.DataFrame(sample.X, columns=["age", "income", *OPTIONAL_NAMES]), pd.Series(sample.y, name="claim")


def main() -> None:
    """Train, audit on people the models have not seen, save the reports."""
    X, y = people(30_000, seed=0)
    held_out = people(12_000, seed=1)
    # One thread: as fast on small data, and other work on the machine does not slow it down.
    params = {"objective": "binary", "learning_rate": 0.05, "verbosity": -1, "num_threads": 1}
    plain = lgb.train(params, lgb.Dataset(X, y), 150)
    protected = puc.train({**params, "optional": OPTIONAL_NAMES}, lgb.Dataset(X, y), 150)

    # A plain booster does not know what is optional; one trained by pucboost does.
    common = {"margin": MARGIN, "num_threads": 1}
    for name, report in (
        ("plain", puc.audit(plain, *held_out, optional=OPTIONAL_NAMES, **common)),
        ("pucboost", puc.audit(protected, *held_out, **common)),
    ):
        print(f"--- {name}\n{report}\n")
        report.to_html(f"audit_{name}.html")
        print(f"saved audit_{name}.html")


if __name__ == "__main__":
    main()
