"""``pucboost predict``."""

from __future__ import annotations

import argparse
from typing import Any

from .shared import EXIT_CODES, TABLE_FILES, Commands, add_arguments, map_file

_EPILOG = f"""\
example:
  What everybody is told as they share now, and under a bonus system in which
  sharing never hurts:

    pucboost predict model.txt people.csv --keep id --out predictions.csv
    pucboost predict model.txt people.csv --keep id --sharing best \\
        --favourable lower --subset --out bonus.parquet

output:
  The kept columns, then prediction (with several classes prediction_0,
  prediction_1, …), then with --subset one column used_GROUP per group, true
  or false. If DATA has no column of a group, everybody withholds it.

{TABLE_FILES}

{EXIT_CODES}"""


def add_parser(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "predict",
        help="predict for the people in a table file",
        description="Predict for the people in a table file, from what they share.",
        epilog=_EPILOG,
    )
    add_arguments(parser)
    parser.add_argument(
        "--sharing",
        choices=("as_given", "withheld", "best"),
        default="as_given",
        help="use everything shared (default), nothing optional, or the subset of what a person shares that gives the "
        "most favourable prediction",
    )
    parser.add_argument(
        "--favourable",
        choices=("lower", "higher"),
        default="lower",
        help="which predictions --sharing best prefers (default lower, as for premiums)",
    )
    parser.add_argument("--subset", action="store_true", help="add columns that say which groups were used")
    parser.add_argument(
        "--search",
        choices=("exact", "greedy"),
        default="exact",
        help="what --sharing best does if a person has more than --max-subsets subsets: exact fails (default), greedy "
        "searches",
    )
    parser.add_argument(
        "--max-subsets", type=int, default=4096, metavar="N", help="most subsets to try for a person (default 4096)"
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Predict batch by batch."""
    return map_file(given, lambda model: _Predictions(given, model), "predicting")


class _Predictions:
    """From a batch of people to their predictions."""

    def __init__(self, given: argparse.Namespace, model: Any) -> None:
        self._given, self._model = given, model

    def __call__(self, people: Any, first_row: int) -> dict[str, Any]:
        import numpy as np

        from .._prediction.predictor import predict

        given = self._given
        if given.sharing == "best" and given.search == "exact":
            self._check_number_of_subsets(people, first_row)
        prediction, used = predict(
            self._model,
            people,
            sharing=given.sharing,
            favourable=given.favourable,
            raw_score=given.raw_score,
            return_subset=True,
            max_subsets=given.max_subsets,
            search=given.search,
        )
        # float64 holds XGBoost's float32 exactly, and gives both engines the same type.
        values = np.asarray(prediction, dtype=np.float64)
        columns = {"prediction": values}
        if values.ndim == 2:
            columns = {f"prediction_{k}": values[:, k] for k in range(values.shape[1])}
        if given.subset:
            columns |= {f"used_{group}": used[group].to_numpy() for group in used.columns}
        return columns

    def _check_number_of_subsets(self, people: Any, first_row: int) -> None:
        """Raise as puc.predict does, but with the row number in the file and the options of the command line."""
        from .._prediction.predictor import who_has_too_many
        from .._tables.files import DataError

        consent = self._model.consent
        too_many = who_has_too_many(consent.presence(people), consent.nesting, self._given.max_subsets)
        if too_many is not None:
            row, groups, subsets = too_many
            raise DataError(
                f"{self._given.data}, row {first_row + row}: this person shares {groups} groups, {subsets} subsets, "
                f"more than --max-subsets {self._given.max_subsets}. Raise it, or allow --search greedy"
            )
