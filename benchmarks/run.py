"""Run a study: ``python -m benchmarks.run NAME [--quick]``.

A full run keeps its rows in ``benchmarks/results/NAME.csv`` and puts the table into ``benchmarks/BENCHMARKS.md``; a
quick one only prints, to see that the study works.
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from . import anchored, audit, audit_time, engines, harness, memory, quality, quotes, speed

STUDIES = {
    "speed": speed.study,
    "engines": engines.study,
    "quotes": quotes.study,
    "memory": memory.study,
    "quality": quality.study,
    "anchored": anchored.study,
    "audit": audit.study,
    "audit_power": audit.power_study,
    "audit_time": audit_time.study,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the named study."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("name", choices=STUDIES)
    parser.add_argument("--quick", action="store_true", help="a small version that only prints")
    given = parser.parse_args(arguments)
    console = Console(width=None if Console().is_terminal else 160)
    if console.is_terminal:
        with console.status(f"running {given.name}"):
            rows = STUDIES[given.name](given.quick)
    else:
        rows = STUDIES[given.name](given.quick)
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    console.print(table)
    if not given.quick:
        path = harness.write_csv(given.name, rows)
        harness.publish(given.name)
        console.print(f"kept in {path.relative_to(harness.ROOT)} and {harness.REPORT.relative_to(harness.ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
