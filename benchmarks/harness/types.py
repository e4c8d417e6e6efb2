"""Names for what passes between the modules."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Row = dict[str, Any]  # as measured
Rows = list[dict[str, str]]  # as they stand in a CSV
Table = tuple[list[str], list[list[str]]]  # columns and lines
