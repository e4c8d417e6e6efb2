"""The options of ``pucboost train``: how they are declared, read and checked."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .._engines import DEFAULT_ENGINE, ENGINE_NAMES
from .shared import add_quiet, names

EARLY_STOPPING = 50
"""How many rounds without improvement training waits by default."""

_HAS_OPTION = ("optional", "engine", "objective", "augmentation", "copies", "calibrate_masks", "seed")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all arguments of the command."""
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
    model.add_argument("--rounds", type=_count, default=200, metavar="N", help="boosting rounds (default 200)")
    model.add_argument(
        "--param",
        type=_param,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other parameter of the engine, or of pucboost (compact, max_virtual_rows, valid_augmentation, "
        "anchor=base, expect_shared=GROUP, training_sketch=false); values are read as JSON, else as text; repeat the "
        "option for more",
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
        help="add one constant for everybody who shares the same groups, so that the model is right on average for all "
        "who share at least these; a strength below 1 adds that share of it",
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
    add_quiet(parser)


def check_options(given: argparse.Namespace) -> None:
    """Exit with a usage error if options do not fit together."""
    if not given.optional:
        given.fail(
            "argument --optional: name at least one column or group that people may withhold; if nothing is optional, "
            "use LightGBM or XGBoost alone"
        )
    for name, _ in given.param:
        if name in _HAS_OPTION:
            given.fail(f"argument --param: there is an option for {name}: --{name.replace('_', '-')}")
    if given.early_stopping and given.valid is None and given.valid_fraction is None:
        given.fail("argument --early-stopping: needs --valid or --valid-fraction")


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
