"""``train`` and ``cv``: read the request → augment → engine → model."""
