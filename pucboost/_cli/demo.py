"""``pucboost demo``."""

from __future__ import annotations

import argparse

from .shared import Commands, whole_number


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "demo",
        help="compare plain LightGBM, a base-features model and pucboost on simulated data with known truth",
        description="Train three models on simulated data and print how each treats people who\ndo not share.",
    )
    parser.add_argument("--rows", type=whole_number(1_000), default=50_000, help="people to train on (default 50000)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    from ..demo import main

    main(given.rows, given.seed)
    return 0
