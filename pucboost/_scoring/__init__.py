"""How models are scored on virtual rows; ``pucboost.metrics`` is its public face."""
