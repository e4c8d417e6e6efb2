"""``pucboost quote``."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from .shared import EXIT_CODES, TABLE_FILES, Commands, add_inputs_and_output, map_file, names

if TYPE_CHECKING:
    from .._tables.sources import ArraySource


_EPILOG = f"""\
example:
  What everybody would be told if they shared nothing, each group alone, or
  two groups:

    pucboost quote model.txt people.csv --keep id \\
        --subsets nothing,alone,fitness+glucose --out quotes.csv

output:
  The kept columns, then one column per subset, such as "nothing", "glucose",
  "fitness + glucose" (with several classes one per subset and class:
  "nothing_0", …), empty where a person does not share all of the subset. If
  DATA has no column of a group, everybody withholds it.

{TABLE_FILES}

{EXIT_CODES}"""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "quote",
        help="predict for every subset of what people share",
        description="Say what each person in a table file would be told for every subset of\nwhat they share.",
        epilog=_EPILOG,
    )
    add_inputs_and_output(parser)
    parser.add_argument(
        "--subsets",
        type=names,
        action="append",
        metavar="SUBSET,SUBSET",
        help="nothing, alone (each group), all_but_one (each), all, or groups joined by +; by default all subsets, "
        "for up to 6 groups",
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    return map_file(given, partial(_quotes, given), "quoting")


def _quotes(given: argparse.Namespace, model: Any, people: ArraySource, first_row: int) -> dict[str, Any]:
    from .._prediction.predictor import FAMILIES, quote, subset_masks, subset_names

    def groups(text: str) -> Any:
        if text in FAMILIES:
            return text
        return [text] if text in model.consent.groups else [group.strip() for group in text.split("+")]

    subsets = None if given.subsets is None else [groups(text) for some in given.subsets for text in some]
    columns = subset_names(subset_masks(model.consent, subsets), model.consent)
    # Everybody shares "nothing", so even a batch in which nobody shares the other subsets has all classes.
    asked = None if subsets is None else ["nothing", *subsets]
    table = quote(model, people, subsets=asked, raw_score=given.raw_score)
    if table.columns.nlevels == 1:
        return {name: table[name].to_numpy() for name in columns}
    return {f"{name}_{k}": table[name][k].to_numpy() for name in columns for k in table[name].columns}
