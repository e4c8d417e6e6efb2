"""A bar where somebody watches, on a terminal or in a notebook, and silence elsewhere."""

from __future__ import annotations

import io
import os
import sys
import types
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import rich.console

from pucboost._common import STEPS, progress_bar

ROOT = Path(__file__).parents[2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Handle:
    """IPython's handle of something displayed, which keeps all that was shown."""

    def __init__(self, first: dict[str, str]) -> None:
        self.shown = [first]

    def update(self, content: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(content)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[Handle]:
    """Pretend that this is a notebook; return what it displays."""
    handles: list[Handle] = []

    def display(content: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        handles.append(Handle(content))
        return handles[-1]

    module: Any = types.ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    monkeypatch.delenv("CI", raising=False)
    return handles


def test_a_notebook_shows_a_bar_that_is_gone_at_the_end(notebook: list[Handle], capsys: Any) -> None:
    with progress_bar("fitting <models>") as report:
        report(0.25)
    (handle,) = notebook
    assert [shown["text/plain"] for shown in handle.shown] == ["fitting <models> 0 %", "fitting <models> 25 %", ""]
    assert handle.shown[1]["text/html"] == 'fitting &lt;models&gt; <progress value="25" max="100"></progress> 25 %'
    assert handle.shown[-1]["text/html"] == ""
    assert capsys.readouterr().err == ""


def test_a_notebook_gets_few_updates_and_the_bar_is_gone_after_an_error(notebook: list[Handle]) -> None:
    with progress_bar("training") as report:
        for step in range(10_001):
            report(step / 10_000)
        report(7.0)
    assert len(notebook[0].shown) == STEPS + 2
    with pytest.raises(KeyError), progress_bar("training"):
        raise KeyError
    assert notebook[1].shown[-1] == {"text/html": "", "text/plain": ""}


def test_notebooks_that_nobody_watches_are_silent(notebook: list[Handle], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with progress_bar("training") as report:
        report(0.5)
    assert notebook == []
    with progress_bar("training", shown=True):
        assert len(notebook) == 1
    monkeypatch.delenv("CI")
    with progress_bar("training", shown=False):
        assert len(notebook) == 1


def test_terminals_and_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where IPython is loaded, but shows nothing itself."""
    for shown, ipython, terminal in product((None, True, False), (False, True), (False, True)):
        if ipython:
            monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
        else:
            monkeypatch.delitem(sys.modules, "IPython", raising=False)
        stream = Terminal() if terminal else io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar("training", shown) as report:
            report(0.5)
        wanted = stream.isatty() if shown is None else shown
        assert ("training" in stream.getvalue()) == (wanted and stream.isatty())


@pytest.mark.filterwarnings("ignore")  # of Jupyter's own packages
def test_in_a_real_notebook() -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient executes notebooks")
    pytest.importorskip("ipykernel", reason="ipykernel runs notebooks")
    import nbformat

    cells = [
        "from pucboost._common import progress_bar; bar = progress_bar('auditing'); report = bar.__enter__()",
        "report(0.4)",
        "bar.__exit__(None, None, None);",
    ]
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | {"PYTHONPATH": str(ROOT)}
    for executed, html in ((2, 'auditing <progress value="40" max="100"></progress> 40 %'), (3, "")):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells[:executed]])
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute(env=environment)
        (output,) = notebook.cells[0].outputs  # later cells update what the first one displayed
        assert output["data"]["text/html"] == html
        assert not any(cell.outputs for cell in notebook.cells[1:])
