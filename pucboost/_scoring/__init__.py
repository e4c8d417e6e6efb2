"""Scores of models on virtual rows; ``pucboost.metrics`` is the public module."""
