"""An ``lgb.Sequence`` is somebody else's code: what it returns is measured before a kernel reads it."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import pucboost as puc


class Shrinking(lgb.Sequence):
    """Says it has 500 rows of 3 columns, and returns fewer of either."""

    def __init__(self, rows: int, columns: int) -> None:
        self.data = np.random.default_rng(0).normal(size=(500, 3))
        self.rows, self.columns, self.batch_size = rows, columns, 100

    def __len__(self) -> int:
        return 500

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and index.stop == 1:
            return self.data[index]
        return self.data[index][: self.rows, : self.columns] if isinstance(index, slice) else self.data[index]


@pytest.mark.parametrize(("rows", "columns"), [(10, 3), (500, 2)])
def test_too_small_blocks_are_refused(rows: int, columns: int) -> None:
    data = puc.Dataset(Shrinking(rows, columns), np.arange(500.0))
    with pytest.raises(ValueError, match=rf"The Sequence returned an array of shape \({rows}, {columns}\)"):
        puc.train({"optional": [2], "verbosity": -1}, data, 2)
