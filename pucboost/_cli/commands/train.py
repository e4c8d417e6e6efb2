"""``pucboost train``."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._engines import DEFAULT_ENGINE, ENGINES, engine_named
from ..shared import EXIT_CODES, TABLE_FILES, Commands, add_quiet, flat, names, note, progress

if TYPE_CHECKING:
    from ..._arrays import Array
    from ..._tables.file_columns import FileTable
    from ..._tables.files import TableFile

EARLY_STOPPING = 50
HOLD_OUT = 1 << 32
"""Number of the seed that draws the held-out people; training counts the seeds of its validation sets from 0."""

_HAS_OPTION = ("optional", "engine", "objective", "augmentation", "copies", "seed")

_EPILOG = f"""\
example:
  People may decline to share the data of a fitness app (two columns, shared
  or withheld together) and a blood value:

    pucboost train people.csv --label claim --ignore id \\
        --optional fitness=steps,pulse --optional glucose --out model.txt

  What somebody does not share must be missing in the file. All columns that
  are neither label nor weight nor ignored are features. Text columns are
  categories. In a CSV file the first value of a column says whether it is
  text, and a column that mixes text and numbers is an error unless
  --categorical names it.

{TABLE_FILES}

{EXIT_CODES}"""


def add_parser(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "train",
        help="train a model on a table file",
        description="Train a model on people who may decline to share some of their data, and write\nit into a file "
        "that LightGBM or XGBoost can read, too.",
        epilog=_EPILOG,
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="table file with one row per person")
    columns = parser.add_argument_group("columns")
    columns.add_argument("--label", required=True, metavar="COL", help="column with the outcome")
    columns.add_argument("--weight", metavar="COL", help="column with sample weights")
    columns.add_argument(
        "--optional",
        action="append",
        metavar="GROUP=COL,COL",
        help="a group of columns that people share or withhold together, or just COL for a single one; repeat it for "
        "further ones",
    )
    columns.add_argument("--ignore", type=names, action="append", metavar="COL,COL", help="columns to leave out")
    columns.add_argument(
        "--categorical", type=names, action="append", metavar="COL,COL", help="columns to read as text, as categories"
    )
    model = parser.add_argument_group("model")
    model.add_argument("--out", type=Path, required=True, metavar="FILE", help="model file to write")
    model.add_argument("--engine", choices=ENGINES, default=DEFAULT_ENGINE, help=f"default {DEFAULT_ENGINE}")
    model.add_argument(
        "--objective",
        metavar="NAME",
        help="the engine's name of the loss: binary, regression, poisson, …; by default binary if the label is 0 or 1, "
        "else regression",
    )
    model.add_argument("--rounds", type=_count, default=200, metavar="N", help="boosting rounds (default 200)")
    model.add_argument(
        "--param",
        type=_param,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other parameter of the engine, or of pucboost (compact, max_virtual_rows, valid_augmentation, "
        "anchor=base); values are read as JSON, else as text; repeat it for further ones",
    )
    model.add_argument(
        "--augmentation",
        choices=("balanced", "exhaustive", "fixed", "none"),
        default="balanced",
        help="which virtual rows stand for a person (default balanced); with none the model is an ordinary one",
    )
    model.add_argument("--copies", type=float, metavar="C", help="virtual rows per person for balanced")
    model.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default 0)")
    validation = parser.add_argument_group("validation")
    held_out = validation.add_mutually_exclusive_group()
    held_out.add_argument("--valid", type=Path, metavar="FILE", help="table file with people to validate on")
    held_out.add_argument(
        "--valid-fraction", type=_fraction, metavar="F", help="validate on this share of the people, drawn at random"
    )
    validation.add_argument(
        "--early-stopping",
        type=int,
        metavar="N",
        help=f"with validation: stop after N rounds without improvement (default {EARLY_STOPPING}; 0 never stops)",
    )
    add_quiet(parser)
    parser.set_defaults(run=run, fail=parser.error)


def run(given: argparse.Namespace) -> int:
    """Train and save."""
    _check_options(given)
    start = time.perf_counter()
    from ..._tables.files import check_can_be_written, open_table

    inputs = [given.data] if given.valid is None else [given.data, given.valid]
    check_can_be_written(given.out, *inputs)
    file = open_table(given.data)
    columns = _columns(given, file)
    table = _read(given, file, columns.features)
    train_set, valid_set = _datasets(given, columns, table)
    params = _params(given, columns, table.label)

    from ..._models.files import save_model
    from ..._training.train import train

    with progress("training", given.quiet) as report, _rows_from_zero(given):
        booster = train(
            params,
            train_set,
            given.rounds,
            valid_sets=None if valid_set is None else [valid_set],
            callbacks=[engine_named(given.engine).progress_callback(report, given.rounds)],
        )
    save_model(booster, given.out)
    if not given.quiet:
        n_valid = 0 if valid_set is None else len(valid_set.label)
        print(_summary(given, booster, table, params["objective"], n_valid, time.perf_counter() - start))
    return 0


def _check_options(given: argparse.Namespace) -> None:
    if not given.optional:
        given.fail(
            "argument --optional: name at least one column or group that people may withhold; if nothing is optional, "
            "LightGBM or XGBoost alone will do"
        )
    for name, _ in given.param:
        if name in _HAS_OPTION:
            given.fail(f"argument --param: there is an option for {name}: --{name}")
    if given.early_stopping and given.valid is None and given.valid_fraction is None:
        given.fail("argument --early-stopping: needs --valid or --valid-fraction")


@dataclass(frozen=True)
class _Columns:
    features: list[Any]
    groups: dict[str, list[str]]


def _columns(given: argparse.Namespace, file: TableFile) -> _Columns:
    """Check all columns that are named, and say how each feature is to be read."""
    from ..._consent import Consent
    from ..._tables.file_columns import Learned, check_columns
    from ..._tables.files import DataError

    ignored, categorical = flat(given.ignore), flat(given.categorical)
    not_features = [given.label, *([] if given.weight is None else [given.weight])]
    check_columns(file, [given.label], "--label")
    check_columns(file, not_features, "--weight")
    check_columns(file, ignored, "--ignore")
    check_columns(file, categorical, "--categorical")
    if given.label == given.weight:
        raise DataError(f"column {given.label!r} is both label and weight")
    groups = read_groups(given.optional, file)
    for column in [*categorical, *(column for columns in groups.values() for column in columns)]:
        if column in not_features or column in ignored:
            raise DataError(f"column {column!r} is label, weight or ignored, so it cannot be optional or categorical")
    features, engine = [], engine_named(given.engine)
    for column in file.columns:
        if column in not_features or column in ignored:
            continue
        if not column:
            raise DataError(
                f"{file.path} has a column without a name, maybe the index of a DataFrame. Name it, or leave it out "
                "with --ignore ''"
            )
        refused = sorted(set(column) & set(engine.forbidden_in_names))
        if refused:
            raise DataError(
                f"{file.path}: {given.engine} does not take the name {column!r} because of the {refused[0]!r} in it. "
                "Rename the column, or leave it out with --ignore"
            )
        try:
            features.append(Learned(column, file.kind(column), column in categorical))
        except DataError as error:
            raise DataError(f"{error}. Convert it, or leave it out with --ignore {column}") from None
    for column in not_features:
        file.kind(column)
    Consent.declare(groups, [feature.name for feature in features])  # raises before the file is read, not after
    return _Columns(features, groups)


def read_groups(optional: list[str], file: TableFile) -> dict[str, list[str]]:
    """Read what ``--optional`` says: group → columns."""
    from ..._tables.file_columns import check_columns
    from ..._tables.files import DataError

    groups: dict[str, list[str]] = {}
    for text in optional:
        group, columns = _group(text, file)
        if group in groups:
            raise DataError(f"--optional names group {group!r} twice")
        check_columns(file, columns, "--optional")
        groups[group] = columns
    return groups


def _group(text: str, file: TableFile) -> tuple[str, list[str]]:
    """Read ``COL`` or ``GROUP=COL,COL``."""
    from ..._tables.files import DataError

    if text in file.columns:
        return text, [text]
    group, equals, columns = text.partition("=")
    if equals:
        return group, names(columns)
    if "," in text:
        raise DataError(
            f"--optional {text}: write --optional NAME={text} for columns that are shared or withheld together, or "
            "repeat --optional for each of them"
        )
    return text, [text]


def _read(given: argparse.Namespace, file: TableFile, features: list[Any]) -> FileTable:
    from ..._tables.file_columns import read_table

    with progress(f"reading {file.path}", given.quiet) as report:
        return read_table(file, features, given.label, given.weight, report)


def _datasets(given: argparse.Namespace, columns: _Columns, table: FileTable) -> tuple[Any, Any]:
    """Return the training set and the validation set, if one is wanted."""
    from ..._tables.file_columns import check_columns
    from ..._tables.files import DataError, open_table
    from ..._tables.sources import SubsetSource
    from ..._training.datasets import Dataset

    if given.valid is not None:
        file = open_table(given.valid)
        used = [feature.name for feature in table.features]
        check_columns(file, [*used, given.label, *([given.weight] if given.weight else [])], "as in the training data")
        valid = _read(given, file, table.features)
        return (
            Dataset(table.source, table.label, weight=table.weight),
            Dataset(valid.source, valid.label, weight=valid.weight),
        )
    if given.valid_fraction is None:
        return Dataset(table.source, table.label, weight=table.weight), None
    parts = _split(len(table.label), given.valid_fraction, given.seed)
    if not all(len(rows) for rows in parts):
        raise DataError(f"--valid-fraction {given.valid_fraction:g} of {len(table.label)} people leaves one side empty")
    train_set, valid_set = (
        Dataset(
            SubsetSource(table.source, rows),
            table.label[rows],
            weight=None if table.weight is None else table.weight[rows],
        )
        for rows in parts
    )
    return train_set, valid_set


def _split(n_people: int, fraction: float, seed: int) -> tuple[Array, Array]:
    """Return the rows to train on and those to validate on."""
    import numpy as np

    from ..._virtual.plan import child_seed

    order = np.random.default_rng(child_seed(seed, HOLD_OUT)).permutation(n_people)
    n_valid = round(fraction * n_people)
    return np.sort(order[n_valid:]), np.sort(order[:n_valid])


def _params(given: argparse.Namespace, columns: _Columns, label: Array) -> dict[str, Any]:
    import numpy as np

    objective = given.objective
    if objective is None:
        objective = "binary" if set(np.unique(label)) == {0.0, 1.0} else "regression"
        what = "0 or 1" if objective == "binary" else "not just 0 and 1"
        note(f"the label is {what}, so the objective is {objective} (--objective chooses another)", given.quiet)
    params = {
        "objective": objective,
        "optional": columns.groups,
        "engine": given.engine,
        "augmentation": given.augmentation,
        "seed": given.seed,
        "verbosity": -1,
        **dict(given.param),
    }
    if given.copies is not None:
        params["copies"] = given.copies
    if given.valid is not None or given.valid_fraction is not None:
        rounds = EARLY_STOPPING if given.early_stopping is None else given.early_stopping
        if rounds > 0:
            params["early_stopping_round"] = rounds
    return params


@contextmanager
def _rows_from_zero(given: argparse.Namespace) -> Iterator[None]:
    """Say of errors that name a row how training counts, which is not how files are counted."""
    from ..._tables.files import DataError

    try:
        yield
    except ValueError as error:
        if not re.search(r"\brow \d", str(error)):
            raise
        within = " within its part" if given.valid_fraction else ""
        raise DataError(f"{error} (Here rows are counted from 0{within}.)") from error


def _summary(
    given: argparse.Namespace, booster: Any, table: FileTable, objective: str, n_valid: int, seconds: float
) -> str:
    from ..._engines import boosters_of

    shared = booster.consent.availability(table.source)
    width = max(len(group) for group in booster.consent.group_names)
    lines = [f"{len(table.label):,} people, {table.source.n_columns} features, objective {objective}", "shared by"]
    for g, (group, columns) in enumerate(booster.consent.groups.items()):
        members = [booster.consent.feature_names[c] for c in columns]
        inside = "" if members == [group] else f"  ({', '.join(members)})"
        lines.append(f"  {group:{width}}  {(shared >> g & 1).mean():6.1%}{inside}")
    trees = getattr(booster, "booster", booster)
    boosters = boosters_of(trees)
    rounds, best = boosters.rounds(trees), boosters.best_round(trees)
    plan = booster.puc_summary
    lines += [
        f"{plan.virtual_rows:,} virtual rows of {plan.source_rows:,} people ({plan.augmentation})",
        f"{rounds} rounds, {seconds:.1f} seconds",
        *([f"validated on {n_valid:,} people"] if n_valid else []),
        *([f"the best round is {best}"] if best else []),
        f"model in {given.out}",
    ]
    return "\n".join(lines)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def _fraction(text: str) -> float:
    try:
        fraction = float(text)
    except ValueError:
        fraction = float("nan")
    if not 0 < fraction < 1:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1, got {text!r}")
    return fraction


def _param(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, got {text!r}")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value
