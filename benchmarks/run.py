"""Run studies: ``python -m benchmarks.run NAME … [--quick]``, or a set of them: ``evidence``, ``package``, ``all``.

A full run keeps its rows in ``benchmarks/results/NAME.csv``, and draws figure and table into
``docs/evidence/NAME.md``. After an interruption, the next run resumes. A quick run only prints, to check that the study
works.
"""

from __future__ import annotations

import argparse
import os

from rich.console import Console
from rich.table import Table

from .catalogue import SETS, STUDIES
from .harness import report
from .harness.running import OutOfTimeError, run_study
from .harness.study import CORES, MINUTES_VARIABLE, Rows, Study, from_study


def main(arguments: list[str] | None = None) -> int:
    """Run the named studies."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    known = [*STUDIES, *SETS]
    parser.add_argument("names", nargs="+", choices=known, metavar="NAME", help=", ".join(known))
    parser.add_argument("--quick", action="store_true", help="a small version that only prints")
    parser.add_argument("--fresh", action="store_true", help="start over instead of resuming an interrupted run")
    parser.add_argument("--draw", action="store_true", help="do not measure: redo tables and figures from the CSVs")
    parser.add_argument(
        "--lanes", type=int, metavar="K",
        help="how many processes train side by side where speed is not the subject (default: 2, or 1 on one core)",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="begin no unit of a study after so long; the next run resumes"
    )
    parser.add_argument(
        "--hours", type=float, metavar="H", help="how long load asks each engine, and soak goes on (default: 1/6 and 1)"
    )
    given = parser.parse_args(arguments)
    if given.lanes is not None and given.lanes < 1:
        parser.error(f"--lanes must be at least 1, not {given.lanes}")
    if given.hours is not None:
        os.environ[MINUTES_VARIABLE] = f"{60 * given.hours:g}"  # which processes side by side read as well
    lanes = given.lanes or (1 if given.quick else min(2, CORES))
    console = Console(width=None if Console().is_terminal else 160)
    for name in dict.fromkeys(name for given_name in given.names for name in SETS.get(given_name, (given_name,))):
        study = STUDIES[name]
        if given.draw:
            show(study, report.all_rows(study), console)
            publish(study)
            continue
        try:
            rows = run_study(study, given.quick, console, given.fresh, lanes, given.minutes)
        except OutOfTimeError as stopped:
            console.print(str(stopped))
            return 1
        if given.quick:
            for other in study.reads:
                rows += from_study(other, run_study(STUDIES[other], True, console))
            show(study, rows, console)
            if study.figure is not None:
                study.figure(rows)
            continue
        report.keep(study, rows)  # first, because making tables and figures may fail
        show(study, report.all_rows(study), console)
        publish(study)
        console.print(f"kept in benchmarks/results/{name}.csv and docs/evidence/{name}.md")
    return 0


def publish(study: Study) -> None:
    """Redo table and figure of a study, and of the measured studies that read it."""
    readers = [other for other in STUDIES.values() if study.name in other.reads and report.is_measured(other)]
    for one in (study, *readers):
        report.publish(one)


def show(study: Study, rows: Rows, console: Console) -> None:
    """Print a study's table."""
    columns, lines = study.table(rows)
    table = Table(*columns)
    for line in lines:
        table.add_row(*line)
    console.print(table)


if __name__ == "__main__":
    raise SystemExit(main())
