"""``pucboost quote``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .shared import EXIT_CODES, TABLE_FILES, Commands, add_arguments, map_file, names

if TYPE_CHECKING:
    from .._consent import Consent


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
    """Add the command."""
    parser = commands.add_parser(
        "quote",
        help="predict for every subset of what people share",
        description="Say what each person in a table file would be told for every subset of\nwhat they share.",
        epilog=_EPILOG,
    )
    add_arguments(parser)
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
    """Quote batch by batch."""
    return map_file(given, lambda model: _Quotes(given, model), "quoting")


class _Quotes:
    """From a batch of people to their quotes."""

    def __init__(self, given: argparse.Namespace, model: Any) -> None:
        from .._prediction.predictor import subset_masks, subset_names

        self._model, self._raw_score = model, given.raw_score
        consent = model.consent
        self._subsets = None
        if given.subsets is not None:
            self._subsets = [_subset(text, consent) for some in given.subsets for text in some]
        self._names = subset_names(subset_masks(consent, self._subsets), consent)

    def __call__(self, people: Any, first_row: int) -> dict[str, Any]:
        from .._prediction.predictor import quote

        # Everybody shares "nothing", so even a batch in which nobody shares the other subsets has all classes.
        subsets = None if self._subsets is None else ["nothing", *self._subsets]
        table = quote(self._model, people, subsets=subsets, raw_score=self._raw_score)
        if table.columns.nlevels == 1:
            return {name: table[name].to_numpy() for name in self._names}
        return {f"{name}_{k}": table[name][k].to_numpy() for name in self._names for k in table[name].columns}


def _subset(text: str, consent: Consent) -> Any:
    from .._prediction.predictor import FAMILIES

    if text in FAMILIES:
        return text
    return [text] if text in consent.groups else [group.strip() for group in text.split("+")]
