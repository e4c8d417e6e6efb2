"""``pucboost predict``."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from .._tables.files import DataError
from .shared import EXIT_CODES, TABLE_FILES, Commands, add_inputs_and_output, map_file

if TYPE_CHECKING:
    from .._tables.sources import ArraySource


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
    parser = commands.add_parser(
        "predict",
        help="predict for the people in a table file",
        description="Predict for the people in a table file, from what they share.",
        epilog=_EPILOG,
    )
    add_inputs_and_output(parser)
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
    parser.add_argument("--subset", action="store_true", help="add columns that show which groups were used")
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
    return map_file(given, partial(_predictions, given), "predicting")


def _predictions(given: argparse.Namespace, model: Any, people: ArraySource, first_row: int) -> dict[str, Any]:
    import numpy as np

    from .._prediction.predictor import predict

    if given.sharing == "best" and given.search == "exact":
        _check_number_of_subsets(given, model, people, first_row)
    prediction, used = predict(
        model,
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


def _check_number_of_subsets(given: argparse.Namespace, model: Any, people: ArraySource, first_row: int) -> None:
    """Raise as puc.predict does, but with the row number in the file and the options of the command line."""
    from .._prediction.predictor import who_has_too_many

    too_many = who_has_too_many(model.consent.presence(people), model.consent.nesting, given.max_subsets)
    if too_many is not None:
        row, groups, subsets = too_many
        raise DataError(
            f"{given.data}, row {first_row + row}: this person shares {groups} groups, {subsets} subsets, "
            f"more than --max-subsets {given.max_subsets}. Raise it, or allow --search greedy"
        )
