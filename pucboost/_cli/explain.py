"""``pucboost explain``: for each person in a table file, what moved their score most against them."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._tables.files import DataError, check_can_be_read
from .predict import add_rows, read_background, write_rows
from .shared import Commands, add_command, whole_number

if TYPE_CHECKING:
    from .._explaining.game import Background
    from .._tables.sources import ArraySource

_EPILOG = """\
example:
  The four columns that raised everybody's score most, compared with people
  of the training data who share at least as much:

    pucboost explain model.txt people.csv --background train.csv --keep id \\
        --favourable lower --out reasons.csv

output:
  The kept columns, then reason_1 and value_1 (a column, and by how much it
  moved the raw score), reason_2, … empty where nothing else moved it that
  way, or where fewer than 20 people of the background share as much. A
  column that a person withholds is never named."""


def add_parsers(commands: Commands) -> None:
    parser = add_command(
        commands,
        "explain",
        _write_reasons,
        help="say what moved people's scores most; never what they withhold",
        description="Say for each person in a table file which columns moved their score most in the\nunfavourable "
        "direction.",
        epilog=_EPILOG,
    )
    add_rows(parser)
    parser.add_argument(
        "--background",
        required=True,
        type=Path,
        metavar="FILE",
        help="table file of the people to compare with, such as those of training",
    )
    parser.add_argument(
        "--favourable",
        choices=("lower", "higher"),
        help="which predictions people prefer; needed unless the model keeps it",
    )
    parser.add_argument(
        "--sharing",
        choices=("as_given", "withheld", "best"),
        default="as_given",
        help="which prediction to explain, as in predict",
    )
    parser.add_argument("--top", type=whole_number(1), default=4, metavar="N", help="how many reasons (default 4)")
    parser.add_argument(
        "--target-class", type=whole_number(0), metavar="N", help="number of the class to explain, if there are several"
    )


def _write_reasons(given: argparse.Namespace) -> int:
    check_can_be_read(given.background)
    read: list[Background] = []
    return write_rows(partial(_reasons, read), "explaining", given)


def _reasons(
    read: list[Background], given: argparse.Namespace, model: Any, people: ArraySource, _: int
) -> dict[str, Any]:
    from .._explaining.explanation import explained
    from .._prediction.predictor import MaskedPredictor

    kept = None if given.target_class is not None else model.puc_summary.favourable
    if given.favourable is None and kept is None:
        raise DataError("explain needs --favourable lower (a price) or --favourable higher (an approval)")
    if not read:
        read.append(read_background(given, model))
    predictor = MaskedPredictor(model, people, target_class=given.target_class, num_threads=given.threads)
    found = explained(predictor, read[0], people, given.sharing, given.favourable, num_threads=given.threads)
    reasons = found.reasons(given.top)
    return {name: reasons[name].to_numpy() for name in reasons.columns}
