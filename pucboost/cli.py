"""The command line: ``pucboost`` or ``python -m pucboost``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (0 on success, 2 for wrong usage)."""
    parser = argparse.ArgumentParser(
        prog="pucboost", description="Gradient-boosted trees on data that people may decline to share."
    )
    from . import __version__

    parser.add_argument("--version", action="version", version=f"pucboost {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        help="compare plain LightGBM, a base-features model and pucboost on simulated data whose truth is known",
        description="Train three models on simulated insurance data and print how each treats people who do not share.",
    )
    demo.add_argument("--rows", type=_row_count, default=50_000, help="people to train on (default 50000)")
    demo.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    given = parser.parse_args(arguments)

    from .demo import main as run_demo

    run_demo(given.rows, given.seed)
    return 0


def _row_count(text: str) -> int:
    if not text.isdigit() or int(text) < 1_000:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1000, got {text!r}")
    return int(text)
