"""The script that writes the site as plain Markdown: what it runs, what it keeps, what it leaves alone."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT


@pytest.fixture(scope="module")
def prebuild() -> Any:
    specification = importlib.util.spec_from_file_location("prebuild", ROOT / "docs" / "prebuild.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["prebuild"] = module  # dataclasses look it up
    specification.loader.exec_module(module)
    return module


PAGE = """
```python exec="on" source="above" result="text"
open({log!r}, "a").write("x")
n = 6
```

??? note "Folded"

    ```python exec="on"
    print(f"- {{n * 7}}\\n- two")
    ```

```sh exec="on" result="text"
echo hello; ls
```

```python
raise SystemExit  # not executed
```
"""

WRITTEN = """
```python
open({log!r}, "a").write("x")
n = 6
```

??? note "Folded"

    - 42
    - two

```text
hello
```

```python
raise SystemExit  # not executed
```
"""


def test_blocks_are_run_once(prebuild: Any, tmp_path: Path) -> None:
    """In order, in one namespace, in an empty folder; and again only when a block has changed, not the words."""
    log = tmp_path / "log"
    text = PAGE.format(log=str(log))
    for page, runs in ((text, 1), (f"# A title\n{text}", 1), (text.replace("n = 6", "n = 7"), 2)):
        folder = prebuild.kept(prebuild.Job("page", "page.md", page), tmp_path / "runs")
        results = json.loads((folder / "results.json").read_text())
        assert log.read_text() == "x" * runs
        if page == text:
            assert prebuild.with_results(page, results) == WRITTEN.format(log=str(log))


def test_a_block_that_fails_stops_the_build(prebuild: Any, tmp_path: Path) -> None:
    python = '```python exec="on"\nn = 1\n```\n\n```python exec="on"\nn / 0\n```\n'
    shell = '```sh exec="on"\nfalse\ntrue\n```\n'
    for text, message in ((python, r"The page a.md failed:(.|\n)*executed block 2.*\n *n / 0"), (shell, "a.md failed")):
        with pytest.raises(SystemExit, match=message):
            prebuild.kept(prebuild.Job("page", "a.md", text), tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_formulas_but_not_in_code(prebuild: Any) -> None:
    pytest.importorskip("latex2mathml")
    code = "```python\nr'\\(x\\)'\n$$\n```\n\n`\\(x\\)`\n"
    assert prebuild.with_formulas(code) == code
    text = prebuild.with_formulas("Let \\(x\n= 1\\) and\n\n$$y$$\n\n\\[z\\]\n")
    assert text.count('<span class="formula"><math') == 1
    assert text.count('\n<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">') == 2
    assert "$" not in text
    assert "\\" not in text


def test_configuration_for_another_builder(prebuild: Any) -> None:
    text = prebuild.configuration()
    assert not any(word in text for word in ("hooks:", "watch:", "prebuild"))
    assert text.count("../../docs/docstrings.py") == text.count("paths: [../..]") == 1
    assert text.partition("\nnav:\n")[2] == (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]


def test_links_of_the_readme(prebuild: Any) -> None:
    text = "[a](docs/faq.md#x) [b](CHANGELOG.md) [c](examples/quickstart.py) [d](https://e.org) [e](#here)"
    wanted = "[a](../faq.md#x) [b](changelog.md) [c](../examples/quickstart.md) [d](https://e.org) [e](#here)"
    assert prebuild.relinked(text, "ARCHITECTURE.md", "project/architecture.md") == wanted
    with pytest.raises(ValueError, match="links to pyproject\\.toml, which the site does not show"):
        prebuild.relinked("[f](pyproject.toml)", "README.md", "index.md")


def test_only_what_changed_is_written(prebuild: Any, tmp_path: Path) -> None:
    prebuild.write({"a/b.md": b"1", "c.md": b"2"}, tmp_path)
    before = (tmp_path / "c.md").stat().st_mtime_ns
    prebuild.write({"a/b.md": b"3", "c.md": b"2"}, tmp_path)
    assert (tmp_path / "a/b.md").read_bytes() == b"3"
    assert (tmp_path / "c.md").stat().st_mtime_ns == before
    prebuild.write({"c.md": b"2"}, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "c.md"]
