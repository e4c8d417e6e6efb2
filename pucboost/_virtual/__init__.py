"""The virtual table: one row per person and subset of what they share, built when it is read."""
