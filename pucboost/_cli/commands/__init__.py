"""The commands of the command line, one module each.

A module has ``add_parser(commands)``, which adds its arguments to the command line, and ``run(given)``, which does the
work and returns the exit code. Whatever is slow to load is imported within ``run``.
"""

COMMANDS = ("train", "predict", "quote", "audit", "demo")
"""In the order in which the help lists them."""
