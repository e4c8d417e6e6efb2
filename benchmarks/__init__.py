"""Studies that print the project's numbers: ``python -m benchmarks.run NAME [--quick]``."""
