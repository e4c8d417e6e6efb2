"""``pucboost train``: from a table file and options to a model file."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._engines import DEFAULT_ENGINE, ENGINE_NAMES
from .._tables.files import DataError, check_can_be_written
from .shared import (
    Commands,
    add_command,
    flat,
    names,
    note,
    progress,
    read_people,
    roles_of,
    say,
    whole_number,
)

if TYPE_CHECKING:
    from .._common import Array
    from .._tables.columns import Column
    from .._tables.sources import Categories, RowSource
    from .._tables.table_files import LoadedTable, TableFile


EARLY_STOPPING = 50
"""How many rounds without improvement training waits by default."""
VALID = "validation"
HOLD_OUT = 1 << 32
"""Number of the seed that draws the held-out people; training numbers the seeds of its validation sets from 0."""

_HAS_OPTION = ("optional", "not_applicable", "engine", "objective", "augmentation", "copies", "calibrate_masks",
               "favourable", "seed")  # fmt: skip

_EPILOG = """\
example:
  People may decline to share the data of a fitness app (two columns, shared
  or withheld together) and a blood value:

    pucboost train people.csv --label claim --ignore id \\
        --optional fitness=steps,pulse --optional glucose --out model.txt

  What somebody does not share must be missing in the file. All columns are
  features, except label, weight, exposure and ignored ones. Text columns
  are categories. In a CSV file the first value of a column decides whether it
  is text; a column that mixes text and numbers is an error unless
  --categorical names it."""


def add_parsers(commands: Commands) -> None:
    parser = add_command(
        commands,
        "train",
        run,
        help="train a model on a table file",
        description="Train a model on people who may decline to share some of their data, and write\nit into a file "
        "that LightGBM or XGBoost can read, too.",
        epilog=_EPILOG,
    )
    _add_options(parser)


def run(given: argparse.Namespace) -> int:
    _check_options(given)
    start = time.perf_counter()
    from .._engines import engine_named
    from .._models.files import save_model
    from .._tables.table_files import open_table
    from .._training.request import OWN_KEYS, check_known
    from .._training.train import train

    # A command line is typed, so what nobody knows is a slip here, while programs hand on what others gave them.
    check_known(engine_named(given.engine), {k: v for k, v in given.param if k not in OWN_KEYS}, strict=True)
    check_can_be_written(given.out, given.data, *([] if given.valid is None else [given.valid]))
    file = open_table(given.data)
    features, optional = read_columns(given, file)
    table = read_people(given, file, features)
    train_set, valid_set = _datasets(given, table)
    params = _params(given, optional, table.label)
    if given.not_applicable:
        params["not_applicable"] = not_applicable(given.not_applicable, table.source.categories, table.source.names)
    engine, scores = engine_named(given.engine), dict[str, Any]()
    with progress("training", given.quiet) as report, _rows_from_zero(given):
        booster = train(
            params,
            train_set,
            given.rounds,
            valid_sets=None if valid_set is None else [valid_set],
            valid_names=None if valid_set is None else [VALID],
            callbacks=[
                engine.progress_callback(report, given.rounds),
                *([] if valid_set is None else [engine.recording_callback(scores)]),
            ],
        )
    save_model(booster, given.out)
    if not given.quiet:
        validated = [] if valid_set is None else _validated(len(valid_set.label), scores, booster)
        say(_summary(given, booster, table, params["objective"], validated, time.perf_counter() - start))
    return 0


# Options --------------------------------------------------------------------------------------------------------------


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA", help="table file with one row per person")
    columns = parser.add_argument_group("columns")
    columns.add_argument("--label", required=True, metavar="COL", help="column with the outcome")
    columns.add_argument("--weight", metavar="COL", help="column with sample weights")
    columns.add_argument(
        "--exposure",
        metavar="COL",
        help="column with exposures, over which the label adds up (poisson, gamma, tweedie): predictions are per unit",
    )
    columns.add_argument(
        "--optional",
        action="append",
        metavar="GROUP=COL,COL",
        help="a group of columns that people share or withhold together, or COL for a single column; repeat the option "
        "for more groups",
    )
    columns.add_argument(
        "--needs",
        action="append",
        metavar="GROUP=OTHER",
        help="a group that people share only with another one, such as a further level; repeat the option for more",
    )
    columns.add_argument("--not-applicable", action="append", metavar=NOT_APPLICABLE_FORM, help=NOT_APPLICABLE_HELP)
    columns.add_argument("--ignore", type=names, action="append", metavar="COL,COL", help="columns to leave out")
    columns.add_argument(
        "--categorical", type=names, action="append", metavar="COL,COL", help="columns to read as text, as categories"
    )
    model = parser.add_argument_group("model")
    model.add_argument("--out", type=Path, required=True, metavar="FILE", help="model file to write")
    model.add_argument("--engine", choices=ENGINE_NAMES, default=DEFAULT_ENGINE, help=f"default {DEFAULT_ENGINE}")
    model.add_argument(
        "--objective",
        metavar="NAME",
        help="the loss, by the engine's name: binary, regression, poisson, …; by default poisson with an exposure, "
        "binary if labels are 0 or 1, else regression",
    )
    model.add_argument("--rounds", type=whole_number(1), default=200, metavar="N", help="boosting rounds (default 200)")
    model.add_argument(
        "--param",
        type=_param,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other parameter of the engine, or of pucboost (compact, max_virtual_rows, valid_augmentation, "
        "anchor=base, expect_shared=GROUP, expect_revealing=COLUMN, row_key=FILE or env:NAME); values are read as "
        "JSON, else as text; repeat the option for more",
    )
    model.add_argument(
        "--favourable",
        choices=("lower", "higher"),
        help="which predictions people prefer, a lower price or a higher chance; the model keeps it for the bonus, "
        "letters and audits",
    )
    model.add_argument(
        "--augmentation",
        choices=("balanced", "exhaustive", "fixed", "none"),
        default="balanced",
        help="which virtual rows stand for a person (default balanced); none trains an ordinary model",
    )
    model.add_argument("--copies", type=float, metavar="C", help="virtual rows per person, for balanced")
    model.add_argument(
        "--calibrate-masks",
        type=float,
        nargs="?",
        const=1.0,
        metavar="STRENGTH",
        help="add one constant for everybody who shares the same groups, so that the model is right on average for "
        "them; a strength below 1 adds that share of it",
    )
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


def _check_options(given: argparse.Namespace) -> None:
    """Exit with a usage error if options do not fit together."""
    from .._engines.names import MAIN_NAME

    if not given.optional:
        given.fail(
            "argument --optional: name at least one column or group that people may withhold; if nothing is optional, "
            "use LightGBM or XGBoost alone"
        )
    for name, _ in given.param:
        if name in _HAS_OPTION:
            given.fail(f"argument --param: there is an option for {name}: --{name.replace('_', '-')}")
        if given.threads is not None and MAIN_NAME.get(name, name) in ("num_threads", "nthread"):
            given.fail(f"argument --param: {name} and --threads are the same; give one of them")
    if given.early_stopping and given.valid is None and given.valid_fraction is None:
        given.fail("argument --early-stopping: needs --valid or --valid-fraction")


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


# Columns: which are features, how they are read, which are optional ---------------------------------------------------


def read_columns(given: argparse.Namespace, file: TableFile) -> tuple[list[Column], dict[str, Any]]:
    """Check all columns that the options name; return how to read each feature, and the groups as training takes them.

    This raises for wrong declarations before the file is read.
    """
    from .._consent import Consent
    from .._engines import engine_named
    from .._tables.table_files import check_columns

    ignored, categorical, roles = flat(given.ignore), flat(given.categorical), roles_of(given)
    for role, column in roles.items():
        check_columns(file, [column], f"--{role}")
    check_columns(file, ignored, "--ignore")
    check_columns(file, categorical, "--categorical")
    not_features = [column for column in roles.values() if column is not None]
    for column in not_features:
        its_roles = [role for role, other in roles.items() if other == column]
        if len(its_roles) > 1:
            raise DataError(f"column {column!r} is both {its_roles[0]} and {its_roles[1]}")
    groups = read_groups(given.optional, file)
    for column in [*categorical, *(column for columns in groups.values() for column in columns)]:
        if column in not_features or column in ignored:
            raise DataError(
                f"column {column!r} is label, weight, exposure or ignored, so it cannot be optional or categorical"
            )
    engine = engine_named(given.engine)
    features: list[Column] = []
    for column in file.columns:
        if column in not_features or column in ignored:
            continue
        if not column:
            raise DataError(
                f"{file.path} has a column without a name, perhaps the index of a DataFrame. Name it, or leave it out "
                "with --ignore ''"
            )
        trouble = engine.trouble_with_name(column)
        if trouble is not None:
            raise DataError(
                f"{file.path}: {engine.name} does not accept the name {column!r} {trouble}. Rename the column, or "
                "leave it out with --ignore"
            )
        try:
            advice = f" (--categorical {column} reads it as text, --ignore {column} leaves it out)"
            features.append(file.learn(column, reads_text=column in categorical, advice=advice))
        except DataError as error:
            raise DataError(f"{error} (--ignore {column} leaves it out)") from None
    for column in not_features:
        file.kind(column)
    optional = declaration(groups, given.needs)
    Consent.declare(optional, [feature.name for feature in features])
    return features, optional


def read_groups(optional: list[str], file: TableFile) -> dict[str, list[str]]:
    """Return the groups that ``--optional`` declares: name → columns."""
    from .._tables.table_files import check_columns

    groups: dict[str, list[str]] = {}
    for text in optional:
        group, columns = _group(text, file)
        if group in groups:
            raise DataError(f"--optional names group {group!r} twice")
        check_columns(file, columns, "--optional")
        groups[group] = columns
    return groups


def declaration(groups: dict[str, list[str]], needs: list[str] | None) -> dict[str, Any]:
    """Return groups as training takes them, with what ``--needs`` says about them."""
    from .._consent import Needs

    declared: dict[str, Any] = dict(groups)
    for text in needs or ():
        group, equals, other = text.partition("=")
        if not equals or not other:
            raise DataError(f"--needs {text}: write --needs GROUP=OTHER")
        if group not in groups:
            raise DataError(f"--needs {text}: --optional names no group {group!r}; its groups are {list(groups)}")
        if isinstance(declared[group], Needs):
            raise DataError(f"--needs says twice what group {group!r} needs; a group needs one other at most")
        declared[group] = Needs(other, groups[group])
    return declared


NOT_APPLICABLE_FORM = "COL=VALUE,… or COL:BASE=VALUE,…"
NOT_APPLICABLE_HELP = (
    "where an optional column or group does not apply, so that nothing was withheld: values of its own that say so, or "
    "values of a base column with which an empty cell does not apply; repeat the option for more"
)


def not_applicable(given: list[str], categories: Categories, columns: Sequence[str]) -> dict[str, Any]:
    """Return what ``--not-applicable`` declares, as training takes it: values as the column has them."""
    lists = {columns[j]: values for j, values in categories.by_column(()).items()}
    declared: dict[str, Any] = {}
    for text in given:
        left, equals, right = text.partition("=")
        column, colon, base = (left, "", "") if left in columns else left.partition(":")
        if not equals or not right:
            raise DataError(f"--not-applicable {text}: write --not-applicable {NOT_APPLICABLE_FORM}")
        values = [_value(value, lists.get(base or column), text) for value in names(right)]
        if column in declared and not (colon and isinstance(declared[column], dict)):
            raise DataError(f"--not-applicable names {column!r} twice")
        declared[column] = {**declared.get(column, {}), base: values} if colon else values
    return declared


def _value(text: str, categories: Sequence[Any] | None, option: str) -> Any:
    if categories is not None:
        return next((value for value in categories if str(value) == text), text)
    try:
        return float(text)
    except ValueError:
        raise DataError(f"--not-applicable {option}: the column holds numbers, but {text!r} is none") from None


def _group(text: str, file: TableFile) -> tuple[str, list[str]]:
    """Read ``COL`` or ``GROUP=COL,COL``."""
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


# People to train and to validate on -----------------------------------------------------------------------------------


def _datasets(given: argparse.Namespace, table: LoadedTable) -> tuple[Any, Any]:
    """Return the training set, and the validation set or None."""
    from .._tables.sources import SubsetSource
    from .._tables.table_files import check_columns, open_table

    if given.valid is not None:
        file = open_table(given.valid)
        used = [column.name for column in table.columns]
        check_columns(file, [*used, *roles_of(given).values()], "as in the training data")
        valid = read_people(given, file, table.columns)
        return _dataset(table.source, table.vectors), _dataset(valid.source, valid.vectors)
    if given.valid_fraction is None:
        return _dataset(table.source, table.vectors), None
    parts = _split(len(table.label), given.valid_fraction, given.seed)
    if not all(len(rows) for rows in parts):
        raise DataError(f"--valid-fraction {given.valid_fraction:g} of {len(table.label)} people leaves one side empty")
    train_set, valid_set = (
        _dataset(SubsetSource(table.source, rows), {role: vector[rows] for role, vector in table.vectors.items()})
        for rows in parts
    )
    return train_set, valid_set


def _dataset(source: RowSource, vectors: dict[str, Array]) -> Any:
    from .._training.datasets import Dataset

    return Dataset(source, vectors["label"], weight=vectors.get("weight"), exposure=vectors.get("exposure"))


def _split(n_people: int, fraction: float, seed: int) -> tuple[Array, Array]:
    """Return the rows to train on and those to validate on."""
    import numpy as np

    from .._virtual.plan import child_seed

    order = np.random.default_rng(child_seed(seed, HOLD_OUT)).permutation(n_people)
    n_valid = round(fraction * n_people)
    return np.sort(order[n_valid:]), np.sort(order[:n_valid])


def _params(given: argparse.Namespace, optional: dict[str, Any], label: Array) -> dict[str, Any]:
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
        "optional": optional,
        "engine": given.engine,
        "augmentation": given.augmentation,
        "favourable": given.favourable,
        "seed": given.seed,
        "verbosity": -1,
        **dict(given.param),
    }
    if given.threads is not None:
        params["num_threads"] = given.threads
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
    """Add to errors about a row that training counts from 0, unlike messages about files."""
    try:
        yield
    except ValueError as error:
        if not re.search(r"\brow \d", str(error)):
            raise
        within = " within its part" if given.valid_fraction else ""
        raise DataError(f"{error} (Here rows are counted from 0{within}.)") from error


def _validated(n_people: int, scores: dict[str, Any], booster: Any) -> list[str]:
    """Return the lines about validation: how many people, and the metrics of the round that the model ends with."""
    facts = _facts(booster)
    used = (facts.best_round or facts.rounds) - 1
    metrics = {name: values[min(used, len(values) - 1)] for name, values in scores.get(VALID, {}).items()}
    told = ", ".join(f"{name} {value:.6g}" for name, value in metrics.items())
    return [
        f"validated on {n_people:,} people{': ' if told else ''}{told}",
        *([f"the best round is {facts.best_round}"] if facts.best_round else []),
    ]


def _facts(booster: Any) -> Any:
    from .._engines import boosters_of

    trees = getattr(booster, "booster", booster)
    return boosters_of(trees).facts(trees)


def _summary(
    given: argparse.Namespace, booster: Any, table: LoadedTable, objective: str, validated: list[str], seconds: float
) -> str:
    shared = booster.consent.availability(table.source)
    width = max(len(group) for group in booster.consent.group_names)
    lines = [f"{len(table.label):,} people, {table.source.n_columns} features, objective {objective}", "shared by"]
    for g, (group, columns) in enumerate(booster.consent.groups.items()):
        members = [booster.consent.feature_names[c] for c in columns]
        inside = "" if members == [group] else f"  ({', '.join(members)})"
        inside += f"  needs {booster.consent.needs[group]}" if group in booster.consent.needs else ""
        lines.append(f"  {group:{width}}  {(shared >> g & 1).mean():6.1%}{inside}")
    plan = booster.puc_summary
    lines += [
        f"{plan.virtual_rows:,} virtual rows of {plan.source_rows:,} people ({plan.augmentation})",
        f"{_facts(booster).rounds} rounds, engine {plan.engine}, {seconds:.1f} seconds",
        *validated,
        f"model in {given.out}",
    ]
    return "\n".join(lines)
