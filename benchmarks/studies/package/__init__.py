"""Studies of the package: speed, memory, accuracy, and whether the audit is right."""
