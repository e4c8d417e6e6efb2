"""``pucboost train``."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..shared import EXIT_CODES, TABLE_FILES, Commands, note, progress
from ..streams import say
from ..train_columns import Columns, read_columns
from ..train_options import EARLY_STOPPING, add_options, check_options

if TYPE_CHECKING:
    from ..._common import Array
    from ..._tables.table_files import LoadedTable, TableFile

HOLD_OUT = 1 << 32
"""Number of the seed that draws the held-out people; training numbers the seeds of its validation sets from 0."""

_EPILOG = f"""\
example:
  People may decline to share the data of a fitness app (two columns, shared
  or withheld together) and a blood value:

    pucboost train people.csv --label claim --ignore id \\
        --optional fitness=steps,pulse --optional glucose --out model.txt

  What somebody does not share must be missing in the file. All columns are
  features, except label, weight, exposure and ignored ones. Text columns
  are categories. In a CSV file the first value of a column decides whether it
  is text; a column that mixes text and numbers is an error unless
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
    add_options(parser)
    parser.set_defaults(run=run, fail=parser.error)


def run(given: argparse.Namespace) -> int:
    """Train and save."""
    check_options(given)
    start = time.perf_counter()
    from ..._tables.files import check_can_be_written
    from ..._tables.table_files import open_table

    inputs = [given.data] if given.valid is None else [given.data, given.valid]
    check_can_be_written(given.out, *inputs)
    file = open_table(given.data)
    columns = read_columns(given, file)
    table = _read(given, file, columns.features)
    train_set, valid_set = _datasets(given, columns, table)

    from ..._engines import engine_named
    from ..._models.files import save_model
    from ..._training.train import train

    params = _params(given, columns, table.label)
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
        say(_summary(given, booster, table, params["objective"], n_valid, time.perf_counter() - start))
    return 0


def _read(given: argparse.Namespace, file: TableFile, features: list[Any]) -> LoadedTable:
    from ..._tables.table_files import load_table

    roles = {"label": given.label, "weight": given.weight, "exposure": given.exposure}
    with progress(f"reading {file.path}", given.quiet) as report:
        return load_table(file, features, roles, report)


def _datasets(given: argparse.Namespace, columns: Columns, table: LoadedTable) -> tuple[Any, Any]:
    """Return the training set, and the validation set or None."""
    from ..._tables.files import DataError
    from ..._tables.sources import SubsetSource
    from ..._tables.table_files import check_columns, open_table
    from ..._training.datasets import Dataset

    if given.valid is not None:
        file = open_table(given.valid)
        used = [column.name for column in table.columns]
        further = [column for column in (given.weight, given.exposure) if column is not None]
        check_columns(file, [*used, given.label, *further], "as in the training data")
        valid = _read(given, file, table.columns)
        train_set, valid_set = (
            Dataset(one.source, one.label, weight=one.weight, exposure=one.exposure) for one in (table, valid)
        )
        return train_set, valid_set
    if given.valid_fraction is None:
        return Dataset(table.source, table.label, weight=table.weight, exposure=table.exposure), None
    parts = _split(len(table.label), given.valid_fraction, given.seed)
    if not all(len(rows) for rows in parts):
        raise DataError(f"--valid-fraction {given.valid_fraction:g} of {len(table.label)} people leaves one side empty")
    train_set, valid_set = (
        Dataset(
            SubsetSource(table.source, rows),
            table.label[rows],
            weight=None if table.weight is None else table.weight[rows],
            exposure=None if table.exposure is None else table.exposure[rows],
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


def _params(given: argparse.Namespace, columns: Columns, label: Array) -> dict[str, Any]:
    import numpy as np

    objective = given.objective
    if objective is None:
        if given.exposure is not None:
            objective, why = "poisson", "there is an exposure"
        elif set(np.unique(label)) == {0.0, 1.0}:
            objective, why = "binary", "the label is 0 or 1"
        else:
            objective, why = "regression", "the label is not just 0 and 1"
        note(f"{why}, so the objective is {objective} (--objective chooses another)", given.quiet)
    params = {
        "objective": objective,
        "optional": columns.optional,
        "engine": given.engine,
        "augmentation": given.augmentation,
        "seed": given.seed,
        "verbosity": -1,
        **dict(given.param),
    }
    if given.copies is not None:
        params["copies"] = given.copies
    if given.calibrate_masks is not None:
        params["calibrate_masks"] = given.calibrate_masks
    if given.valid is not None or given.valid_fraction is not None:
        rounds = EARLY_STOPPING if given.early_stopping is None else given.early_stopping
        if rounds > 0:
            params["early_stopping_round"] = rounds
    return params


@contextmanager
def _rows_from_zero(given: argparse.Namespace) -> Iterator[None]:
    """Add to errors that name a row that training counts from 0, unlike messages about files."""
    from ..._tables.files import DataError

    try:
        yield
    except ValueError as error:
        if not re.search(r"\brow \d", str(error)):
            raise
        within = " within its part" if given.valid_fraction else ""
        raise DataError(f"{error} (Here rows are counted from 0{within}.)") from error


def _summary(
    given: argparse.Namespace, booster: Any, table: LoadedTable, objective: str, n_valid: int, seconds: float
) -> str:
    from ..._engines import boosters_of

    shared = booster.consent.availability(table.source)
    width = max(len(group) for group in booster.consent.group_names)
    lines = [f"{len(table.label):,} people, {table.source.n_columns} features, objective {objective}", "shared by"]
    for g, (group, columns) in enumerate(booster.consent.groups.items()):
        members = [booster.consent.feature_names[c] for c in columns]
        inside = "" if members == [group] else f"  ({', '.join(members)})"
        inside += f"  needs {booster.consent.needs[group]}" if group in booster.consent.needs else ""
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
