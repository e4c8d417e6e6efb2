"""The studies: those of the package, and those that hold the method against the paper and its alternatives."""
