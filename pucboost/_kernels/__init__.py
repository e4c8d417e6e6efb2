"""Numba kernels: plain arrays in, an ``out`` array filled, nothing raised; Python checks the inputs first.

``Consent`` checks its positions when it is made, and callers compare widths and lengths once per block.

Kernels release the GIL and work on a half-open range ``[lo, hi)`` of their output; :mod:`.compiling` splits a
job into such ranges. ``fastmath`` is not used where there may be a NaN: it would break every test for one.
The tests compare each kernel with a readable twin (``tests/twins``).
"""
