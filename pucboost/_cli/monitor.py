"""``pucboost monitor``."""

from __future__ import annotations

import argparse
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._tables.files import DataError, check_can_be_read, check_can_be_written, write_whole
from .shared import Commands, add_command, features_of, load, note, read_people, roles_of, say

if TYPE_CHECKING:
    from .._auditing.drift import UnknownValues
    from .._auditing.monitor import MonitorReport
    from .._tables.table_files import LoadedTable, TableFile

EXIT_BY_VERDICT = {"certified": 0, "no outcomes yet": 0, "violated": 1, "not decided yet": 2}

_EPILOG = """\
example:
  Compare this month's people with those of training, and add their outcomes to
  those of the months before, which are kept in state.json:

    pucboost monitor model.txt june.csv --label claim --margin 0.02 \\
        --state state.json --html june.html"""

_EXIT_CODES = """\
exit codes:
  0    certified: all penalties for withholding lie within the margin; or no
       outcomes were given, now or before
  1    violated: some penalty exceeds the margin
  2    not decided yet
  3    wrong usage, or something is wrong with the data, the model or a file;
       nothing was written
  130  interrupted (Ctrl-C); outputs are as before, or complete"""


def add_parsers(commands: Commands) -> None:
    parser = add_command(
        commands,
        "monitor",
        run,
        help="watch who shares what, and the penalties of withholding, month after month",
        description="Compare new people with those of training: who shares what, unknown categories.\nWith outcomes, "
        "add them to those of earlier months and test the penalties of\nwithholding again, by bounds that hold however "
        "often one looks.",
        epilog=_EPILOG,
        exit_codes=_EXIT_CODES,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model file written by 'pucboost train'")
    parser.add_argument("data", type=Path, metavar="DATA", help="table file with new people")
    parser.add_argument("--label", metavar="COL", help="column with the outcomes, if they are known")
    parser.add_argument("--margin", type=float, help="largest average penalty regarded as harmless; with --label")
    parser.add_argument(
        "--state", type=Path, metavar="FILE", help="file carried from month to month; read if it exists, then replaced"
    )
    parser.add_argument("--reference", type=Path, metavar="FILE", help="compare with this earlier state, not training")
    parser.add_argument("--weight", metavar="COL", help="column with sample weights")
    parser.add_argument("--exposure", metavar="COL", help="column with exposures, over which the label adds up")
    parser.add_argument(
        "--level", type=float, help="1 − the probability of any false alarm, ever (default 0.95, or that of --state)"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as one HTML page")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report as Markdown")


def run(given: argparse.Namespace) -> int:
    from .._tables.table_files import open_table

    if given.label is None and given.margin is not None:
        raise DataError("--margin is about outcomes; say with --label which column holds them")
    outputs = [path for path in (given.state, given.html, given.markdown) if path is not None]
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise DataError("two outputs would be written to the same file; choose different names")
    for path in outputs:
        check_can_be_written(path, given.model, given.data)
    file, model = open_table(given.data), load(given.model)
    report = _monitor(given, model, file)
    # Render all before writing any: the state must not move on without its pages.
    renderers = ((given.html, report.to_html), (given.markdown, report.to_markdown), (given.state, report.to_json))
    for path, text in [(path, render()) for path, render in renderers if path is not None]:
        write_whole(path, text.encode("utf-8"))
        note(f"wrote {path}", given.quiet)
    if not given.quiet:
        say(str(report))
    return EXIT_BY_VERDICT[report.verdict]


def _monitor(given: argparse.Namespace, model: Any, file: TableFile) -> MonitorReport:
    from .._auditing.monitor import MonitorReport, monitor
    from .._tables.table_files import check_columns

    def earlier(path: Path) -> MonitorReport:
        check_can_be_read(path)
        return MonitorReport.from_json(path)

    for role, column in roles_of(given).items():
        check_columns(file, [column], f"--{role}")
    table = read_people(given, file, features_of(model, file, given.quiet))
    report = monitor(
        model,
        table.source,
        None if given.label is None else table.label,
        margin=given.margin,
        previous=earlier(given.state) if given.state is not None and given.state.exists() else None,
        reference=None if given.reference is None else earlier(given.reference),
        weight=table.weight,
        exposure=table.exposure,
        level=given.level,
        seed=given.seed,
        num_threads=given.threads,
    )
    return replace(report, unknown=_unknown(file, table))


def _unknown(file: TableFile, table: LoadedTable) -> tuple[UnknownValues, ...]:
    """Return the values that were read as missing: the table holds numbers only."""
    from .._auditing.drift import unknown_values
    from .._tables.columns import Codes

    found = []
    for column in table.columns:
        if not isinstance(column, Codes) or not column.n_unknown:
            continue
        seen: Counter[str] = Counter()
        with closing(file.blocks([column.name])) as blocks:
            for block in blocks:
                seen.update(text for text in block.text(column.name).to_pylist() if text is not None)
        known = {str(value) for value in column.categories} | {f"{v:g}" for v in column.categories if _is_number(v)}
        strange = Counter({value: n for value, n in seen.items() if value not in known})
        found.append(replace(unknown_values(column.name, strange), rows=column.n_unknown))
    return tuple(found)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
