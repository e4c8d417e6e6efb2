"""``pucboost questions``."""

from __future__ import annotations

import argparse
from pathlib import Path

from .shared import (
    Commands,
    add_command,
    check_pages,
    features_of,
    flat,
    labels_of,
    load,
    names,
    read_people,
    roles_of,
    show,
)

_EPILOG = """\
example:
  What does each question of a form add to the predictions, and how few would be
  enough? On people the model was not trained on:

    pucboost questions model.txt held_out.csv --label claim --html asked.html

  Only people who share all that is asked about are compared. If they are too
  few, look at fewer groups: --groups fitness,glucose"""


def add_parsers(commands: Commands) -> None:
    parser = add_command(
        commands,
        "questions",
        run,
        help="measure what each question adds to the predictions, and how few are enough",
        description="Measure what each question adds to the predictions, and how few questions carry\nmost of what all "
        "of them add.",
        epilog=_EPILOG,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model file written by 'pucboost train'")
    parser.add_argument("data", type=Path, metavar="DATA", help="table file with people the model was not trained on")
    parser.add_argument("--label", required=True, metavar="COL", help="column with the outcomes")
    parser.add_argument(
        "--groups", action="append", type=names, metavar="GROUP,GROUP", help="the questions to look at (default: all)"
    )
    parser.add_argument("--weight", metavar="COL", help="column with sample weights")
    parser.add_argument("--cluster", metavar="COL", help="column that tells which rows belong to one person")
    parser.add_argument("--exposure", metavar="COL", help="column with exposures, over which the label adds up")
    parser.add_argument(
        "--share", type=float, default=0.95, help="a shorter form is to keep this share of what all add (default 0.95)"
    )
    parser.add_argument("--level", type=float, default=0.95, help="confidence of statements (default 0.95)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the findings as one HTML page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the findings as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the findings as Markdown")


def run(given: argparse.Namespace) -> int:
    from .._questions.asking import questions
    from .._tables.table_files import check_columns, open_table

    check_pages(given, given.model, given.data)
    file, model = open_table(given.data), load(given.model)
    for role, column in roles_of(given).items():
        check_columns(file, [column], f"--{role}")
    check_columns(file, [given.cluster], "--cluster")
    table = read_people(given, file, features_of(model, file, given.quiet))
    found = questions(
        model,
        table.source,
        table.label,
        groups=flat(given.groups) or None,
        sample_weight=table.weight,
        exposure=table.exposure,
        clusters=labels_of(file, given.cluster),
        share=given.share,
        level=given.level,
        seed=given.seed,
        num_threads=given.threads,
        progress=False if given.quiet else None,
    )
    show(given, found)
    return 0
