"""``pucboost check``."""

from __future__ import annotations

import argparse
from pathlib import Path

from .._engines import DEFAULT_ENGINE
from .shared import Commands, add_command, check_pages, names, read_people, show
from .train import NOT_APPLICABLE_FORM, NOT_APPLICABLE_HELP, not_applicable, read_columns

_EPILOG = """\
example:
  Before training: is silence missing in the file, does a base column tell who
  withholds, and which margin could an audit decide if one in ten has a claim?

    pucboost check people.csv --ignore id,claim --event-rate 0.1 \\
        --optional fitness=steps,pulse --optional glucose --html check.html

  Outcomes are not looked at. With --label only their spread is."""


def add_parsers(commands: Commands) -> None:
    parser = add_command(
        commands,
        "check",
        run,
        help="look whether a table is suitable, and what an audit could decide with it, before training",
        description="Look before training whether a table is suitable, and what an audit could decide\nwith so many "
        "people.",
        epilog=_EPILOG,
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="table file with one row per person")
    parser.add_argument(
        "--optional",
        action="append",
        required=True,
        metavar="GROUP=COL,COL",
        help="a group of columns that people share or withhold together, or COL for a single column; repeat the option "
        "for more groups",
    )
    parser.add_argument(
        "--needs", action="append", metavar="GROUP=OTHER", help="a group that people share only with another one"
    )
    parser.add_argument("--not-applicable", action="append", metavar=NOT_APPLICABLE_FORM, help=NOT_APPLICABLE_HELP)
    parser.add_argument("--ignore", type=names, action="append", metavar="COL,COL", help="columns to leave out")
    parser.add_argument(
        "--categorical", type=names, action="append", metavar="COL,COL", help="columns to read as text, as categories"
    )
    spread = parser.add_mutually_exclusive_group()
    spread.add_argument("--label", metavar="COL", help="column with the outcomes, of which only the spread is used")
    spread.add_argument("--event-rate", type=float, metavar="RATE", help="how often the event is expected (0.1: 10 %%)")
    spread.add_argument(
        "--outcome-sd", type=float, metavar="SD", help="standard deviation of outcomes around predictions"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the findings as one HTML page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the findings as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the findings as Markdown")
    parser.set_defaults(weight=None, exposure=None, engine=DEFAULT_ENGINE)


def run(given: argparse.Namespace) -> int:
    from .._auditing.check import check
    from .._tables.table_files import open_table

    check_pages(given, given.data)
    file = open_table(given.data)
    features, optional = read_columns(given, file)
    table = read_people(given, file, features)
    found = check(
        table.source,
        optional=optional,
        not_applicable=not_applicable(given.not_applicable or [], table.source.categories, table.source.names),
        y=table.vectors.get("label"),
        event_rate=given.event_rate,
        outcome_sd=given.outcome_sd,
        num_threads=given.threads,
        seed=given.seed,
    )
    show(given, found)
    return 0
