"""What the site shows of docstrings: references for roles, and arguments that share a paragraph once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import ROOT

MODULE = '''
from typing import Any

def told(a: Any, b: int = 1, *, c: int = 2, d: str = "") -> float:
    """Return what :func:`told` returns.

    Parameters
    ----------
    a, b
        Both of them.
    c
        The third.
    d
        The third.
    """
'''


def test_docstrings_on_the_site(tmp_path: Path) -> None:
    griffe = pytest.importorskip("griffe")
    (tmp_path / "small.py").write_text(MODULE)
    extensions = griffe.load_extensions(str(ROOT / "docs" / "docstrings.py"))
    module = griffe.load("small", search_paths=[tmp_path], extensions=extensions, docstring_parser="numpy")
    text, parameters = module["told"].docstring.parsed
    assert '<autoref identifier="pucboost.told" optional><code>told</code></autoref>' in text.value
    shown = [(one.name, one.description, one.annotation and str(one.annotation)) for one in parameters.value]
    assert shown == [("a, b", "Both of them.", None), ("c, d", "The third.", None)]
