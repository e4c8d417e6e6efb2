"""The studies: those of the package, and those that compare the method with the paper and with alternatives."""
