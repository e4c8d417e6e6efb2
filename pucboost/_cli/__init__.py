"""The command line: ``pucboost`` or ``python -m pucboost``."""
