"""The commands of the command line, one module each.

A module has ``add_parser(commands)``, which adds its arguments to the command line, and ``run(given)``, which does the
work and returns the exit code. It imports whatever is slow to load inside ``run``.
"""

COMMANDS = ("train", "predict", "quote", "letter", "audit", "demo", "doctor")
"""In the order of the help."""
