"""Run studies: ``python -m benchmarks.run NAME … [--quick]``, or ``all``.

A full run keeps its rows in ``benchmarks/results/NAME.csv``, draws ``benchmarks/figures/NAME.png`` and puts the table
into ``benchmarks/BENCHMARKS.md``. If it is interrupted, the next one goes on where it stopped. A quick one only prints,
to see that the study works.
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from . import report
from .catalogue import STUDIES
from .studies import Study, run_study


def main(arguments: list[str] | None = None) -> int:
    """Run the named studies."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    known = [*STUDIES, "all"]
    parser.add_argument("names", nargs="+", choices=known, metavar="NAME", help=", ".join(known))
    parser.add_argument("--quick", action="store_true", help="a small version that only prints")
    parser.add_argument("--fresh", action="store_true", help="do not take up what an interrupted run has kept")
    parser.add_argument("--draw", action="store_true", help="measure nothing: make tables and figures from the CSVs")
    given = parser.parse_args(arguments)
    console = Console(width=None if Console().is_terminal else 160)
    for name in STUDIES if "all" in given.names else given.names:
        study = STUDIES[name]
        if given.draw:
            report.publish(study)
            continue
        rows = run_study(study, given.quick, console, given.fresh)
        if not given.quick:
            report.keep(study, rows)  # before anything is made of them that could fail
        show(study, rows, console)
        if given.quick:
            if study.figure is not None:
                study.figure(rows)
            continue
        report.publish(study)
        console.print(f"kept in benchmarks/results/{name}.csv and benchmarks/BENCHMARKS.md")
    return 0


def show(study: Study, rows: list[dict[str, str]], console: Console) -> None:
    """Print a study's table."""
    columns, lines = study.table(rows)
    table = Table(*columns)
    for line in lines:
        table.add_row(*line)
    console.print(table)


if __name__ == "__main__":
    raise SystemExit(main())
