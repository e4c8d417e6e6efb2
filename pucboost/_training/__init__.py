"""``train`` and ``cv``: read what is given → augment → engine → model."""
