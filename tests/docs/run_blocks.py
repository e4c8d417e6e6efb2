"""Runs the blocks of one page, in order and in one namespace, in the current folder: ``run_blocks.py PAGE``.

Python and shell commands take turns as they stand on the page, so a page may write a file and then call ``pucboost``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import matplotlib
from pages import code_blocks

README_STARTS_WITH = """
import numpy as np, pandas as pd
from pucboost.demo import OPTIONAL_NAMES, insurance_family
def _people(n, seed):
    sample = insurance_family().sample(n, seed)
    table = pd.DataFrame(sample.X, columns=["age", "income", "fitness", "glucose", "history"])
    table["job"] = np.where(table["income"] > 0, "clerk", "smith")
    return table, sample.y
X, y = _people(4_000, 0)
X_test, y_test = _people(8_000, 1)
X_new = X_test[:5]
"""
"""The people that the README speaks of; pages of the site make their own."""


def main(page: Path) -> None:
    """Run the page; stop at the first block that fails, and say where it stands."""
    matplotlib.use("Agg")
    namespace: dict[str, object] = {"__name__": "__main__"}
    if page.name == "README.md":
        exec(README_STARTS_WITH, namespace)
    for block in code_blocks(page, "python", "sh"):
        place = f"{page.name}:{block.line}"
        if block.language == "python":
            exec(compile("\n" * block.line + block.code, place, "exec"), namespace)
        else:
            folder = Path(sys.executable).parent
            env = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
            sys.stdout.flush()
            if subprocess.run(["bash", "-euo", "pipefail", "-c", block.code], env=env).returncode:
                raise SystemExit(f"{place}: a command failed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
