"""Readable twins of the kernels, in plain Python and from the mathematics, which tests compare with."""
