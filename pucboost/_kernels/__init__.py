"""Numba kernels: plain arrays in, an ``out`` array filled, nothing raised; Python checks the inputs first.

Kernels release the GIL and work on a half-open range ``[lo, hi)`` of their output; :mod:`.compiling` splits a
job into such ranges. ``fastmath`` is not used where there may be a NaN: it would break every test for one.
The tests compare each kernel with a readable twin (``tests/twins``).
"""
