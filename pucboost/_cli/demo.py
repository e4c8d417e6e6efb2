"""``pucboost demo``."""

from __future__ import annotations

import argparse

from .shared import Commands


def add_parser(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "demo",
        help="compare plain LightGBM, a base-features model and pucboost on simulated data with known truth",
        description="Train three models on simulated data and print how each treats people who\ndo not share.",
    )
    parser.add_argument("--rows", type=_row_count, default=50_000, help="people to train on (default 50000)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the demo."""
    from ..demo import main

    main(given.rows, given.seed)
    return 0


def _row_count(text: str) -> int:
    if not text.isdigit() or int(text) < 1_000:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1000, got {text!r}")
    return int(text)
