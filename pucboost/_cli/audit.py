"""``pucboost audit``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._tables.files import DataError
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
from .train import NOT_APPLICABLE_FORM, NOT_APPLICABLE_HELP, declaration, not_applicable, read_groups

if TYPE_CHECKING:
    from .._auditing.findings import AuditReport
    from .._tables.table_files import TableFile


EXIT_BY_VERDICT = {"certified": 0, "violated": 1, "violated for some": 1, "inconclusive": 2, "certified in part": 4}

_EPILOG = """\
example:
  Test a model against a margin of two percentage points on people it was not
  trained on, and write a report for people and one for machines:

    pucboost audit model.txt held_out.parquet --label claim --margin 0.02 \\
        --html audit.html --json audit.json

  In a build that too few data should not fail:

    pucboost audit model.txt held_out.csv --label claim --margin 0.02 \\
        --fail-on violated"""

_EXIT_CODES = """\
exit codes:
  0    certified: nobody's average penalty for withholding exceeds the margin
  1    violated: somebody's does, on average or for some of them
  2    inconclusive: the data do not decide, the model was trained on these
       people, or a base column gives away who withholds (see --justified)
  3    wrong usage, or something is wrong with the data, the model or a file;
       nothing was written
  4    certified in part: some who withhold something are not covered
       (see --partial)
  130  interrupted (Ctrl-C); outputs are as before, or complete
  With --fail-on, verdicts not named there exit with 0."""


def add_parsers(commands: Commands) -> None:
    parser = add_command(
        commands,
        "audit",
        run,
        help="test whether people who withhold data are treated as their remaining data justify",
        description="Test on held-out people whether those who withhold data are treated as their\nremaining data "
        "justify.",
        epilog=_EPILOG,
        exit_codes=_EXIT_CODES,
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model file written by 'pucboost train'")
    parser.add_argument("data", type=Path, metavar="DATA", help="table file with people the model was not trained on")
    parser.add_argument("--label", required=True, metavar="COL", help="column with the outcomes")
    parser.add_argument(
        "--margin", required=True, type=float, help="largest average penalty regarded as harmless (0.02: two points)"
    )
    parser.add_argument(
        "--optional",
        action="append",
        metavar="COL or GROUP=COL,COL",
        help="what is optional, for a plain LightGBM or XGBoost model; models of pucboost know it",
    )
    parser.add_argument(
        "--needs", action="append", metavar="GROUP=OTHER", help="with --optional: a group shared only with another one"
    )
    parser.add_argument(
        "--not-applicable",
        action="append",
        metavar=NOT_APPLICABLE_FORM,
        help=f"with --optional: {NOT_APPLICABLE_HELP}",
    )
    parser.add_argument("--relative", action="store_true", help="read --margin as a share of the mean prediction")
    parser.add_argument(
        "--margin-set-by", metavar="TEXT", help="who fixed the margin and when: 'supervisory board, 3 May 2026'"
    )
    parser.add_argument("--weight", metavar="COL", help="column with sample weights")
    parser.add_argument("--exposure", metavar="COL", help="column with exposures, over which the label adds up")
    parser.add_argument("--subgroup", metavar="COL", help="column with subgroups to judge separately")
    parser.add_argument("--cluster", metavar="COL", help="column that tells which rows belong to one person")
    parser.add_argument(
        "--row-key",
        metavar="FILE or env:NAME",
        help="the key with which the model was trained, to tell whether it was trained on these people",
    )
    parser.add_argument(
        "--favourable",
        choices=("lower", "higher"),
        help="which predictions people prefer (default: as the model keeps it, if it does)",
    )
    parser.add_argument(
        "--min-count", type=int, default=40, metavar="N", help="fewer people are not tested on their own (40)"
    )
    parser.add_argument(
        "--partial",
        type=_partial,
        metavar="SHARE",
        help="pass a model that is certified in part, if at most this share (or 'allow': any) is not covered",
    )
    parser.add_argument("--cap", type=float, help="outcomes and predictions above this amount count as this amount")
    parser.add_argument("--level", type=float, default=0.95, help="confidence of each one-sided test (default 0.95)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    parser.add_argument(
        "--justified",
        action="append",
        type=names,
        metavar="COL",
        help="base columns that may tell who withholds, because there is a good reason for them",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as one HTML page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a section for a model card")
    parser.add_argument(
        "--fail-on",
        action="append",
        type=names,
        metavar="VERDICT",
        help="verdicts that fail: violated, inconclusive, 'certified in part' (default: all)",
    )


def run(given: argparse.Namespace) -> int:
    from .._tables.table_files import open_table
    from ..testing import OUTCOMES, check_fail_on

    failing = check_fail_on(flat(given.fail_on) or OUTCOMES)
    check_pages(given, given.model, given.data)
    file = open_table(given.data)
    report = _audit(given, _load(given, file), file)
    show(given, report)
    return EXIT_BY_VERDICT[report.verdict] if report.verdict in failing and not report.passed else 0


def _partial(text: str) -> Any:
    return text if text == "allow" else float(text)


def _load(given: argparse.Namespace, file: TableFile) -> Any:
    """Return the model; with --optional a plain LightGBM or XGBoost model, which does not record what is optional."""
    if not given.optional:
        if given.needs or given.not_applicable:
            option = "--needs" if given.needs else "--not-applicable"
            raise DataError(f"{option} goes with --optional; models of pucboost know what was declared in training")
        return load(given.model)
    from .._consent import Consent
    from .._engines import boosters_of
    from .._models.files import load_engine_model
    from .._models.schema import categories_of
    from .._not_applicable import declared_without_table
    from .._tables.sources import Categories

    model, consent = load(given.model, load_engine_model)
    if consent is not None:
        raise DataError(f"{given.model} knows what is optional: {consent!r}. Leave --optional out")
    feature_names = boosters_of(model).facts(model).column_names
    optional = declaration(read_groups(given.optional, file), given.needs)
    consent = Consent.declare(optional, feature_names or file.columns)
    if given.not_applicable:
        known = categories_of(model) or Categories([], ())
        rules = not_applicable(given.not_applicable, known, consent.feature_names)
        consent = declared_without_table(consent, rules)
    model.consent = consent
    return model


def _audit(given: argparse.Namespace, model: Any, file: TableFile) -> AuditReport:
    from .._auditing.run import audit
    from .._tables.table_files import check_columns

    for role, column in roles_of(given).items():
        check_columns(file, [column], f"--{role}")
    check_columns(file, [given.subgroup, given.cluster], "--subgroup or --cluster")
    table = read_people(given, file, features_of(model, file, given.quiet))
    return audit(
        model,
        table.source,
        table.label,
        margin=given.margin,
        row_key=given.row_key,
        relative=given.relative,
        margin_set_by=given.margin_set_by,
        weight=table.weight,
        exposure=table.exposure,
        subgroups=labels_of(file, given.subgroup),
        clusters=labels_of(file, given.cluster),
        favourable=given.favourable,
        min_count=given.min_count,
        partial=given.partial,
        cap=given.cap,
        level=given.level,
        justified=flat(given.justified),
        seed=given.seed,
        num_threads=given.threads,
        progress=False if given.quiet else None,
    )
