"""``pucboost intervals``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._tables.files import check_can_be_read, check_can_be_written
from .shared import Commands, add_command, features_of, load, note, read_people, roles_of, say

if TYPE_CHECKING:
    from .._intervals import Intervals

_EPILOG = """\
example:
  Calibrate on people the model was not trained on, and add intervals to
  predictions:

    pucboost intervals model.txt calibration.csv --label claim --level 0.9 \\
        --out intervals.json
    pucboost predict model.txt people.csv --intervals intervals.json \\
        --out predictions.csv

output:
  A JSON file with a few rounded numbers for each set of groups, for this model
  only. Nobody's outcome or residual is in it."""


def add_parsers(commands: Commands) -> None:
    parser = add_command(
        commands,
        "intervals",
        run,
        help="calibrate intervals that hold for everybody who shares at least the same",
        description="Calibrate intervals (for probabilities: sets of classes) that cover outcomes\nwith a given "
        "probability for everybody who shares at least a set of groups.",
        epilog=_EPILOG,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model file, as written by train or puc.save_model")
    parser.add_argument("data", type=Path, metavar="DATA", help="table file with people the model was not trained on")
    parser.add_argument("--label", required=True, metavar="COL", help="column with the outcomes")
    parser.add_argument("--exposure", metavar="COL", help="column with exposures, over which the label adds up")
    parser.add_argument("--level", type=float, default=0.9, help="probability to cover outcomes (default 0.9)")
    parser.add_argument("--seed", type=int, help="make sets of classes smaller on average by randomising them")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="JSON file to write")
    parser.set_defaults(weight=None)


def run(given: argparse.Namespace) -> int:
    from .._intervals import intervals
    from .._tables.table_files import check_columns, open_table

    check_can_be_written(given.out, given.model, given.data)
    file, model = open_table(given.data), load(given.model)
    for role, column in roles_of(given).items():
        check_columns(file, [column], f"--{role}")
    table = read_people(given, file, features_of(model, file, given.quiet))
    found = intervals(
        model,
        table.source,
        table.label,
        level=given.level,
        exposure=table.exposure,
        seed=given.seed,
        num_threads=given.threads,
    )
    found.to_json(given.out)
    note(f"wrote {given.out}", given.quiet)
    if not given.quiet:
        say(found.to_frame().to_string(index=False))
    return 0


def read_intervals(path: Path, model: Any) -> Intervals:
    """Return the intervals in a file."""
    from .._intervals import Intervals

    check_can_be_read(path)
    return Intervals.from_json(path, model)
