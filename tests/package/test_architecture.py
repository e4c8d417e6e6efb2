"""The house keeps its order: who imports whom, what is public, and who may know about engines."""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

import pucboost as puc
from pucboost._engines import BOOSTER_CLASSES, ENGINES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pucboost"
MODULES = sorted(PACKAGE.rglob("*.py"))
ROW = re.compile(r"^\| `(?P<folder>[\w/]+?)(?P<slash>/?)` \|(?P<modules>.*?)\| .* \|$", re.MULTILINE)
TABLES_OF_DATA = {"_engines/names.py", "_engines/translation.py"}


def module_name(path: Path) -> str:
    """``_virtual.plan`` for pucboost/_virtual/plan.py, ``_virtual`` for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path) for path in MODULES}


def stated_order() -> list[str]:
    """The modules in the order in which CONTRIBUTING's table lists them; a folder comes before its modules."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("## Data flow, and so the layout") : text.index("## The laws the tests hold")]
    order = []
    for row in ROW.finditer(table):
        folder = row["folder"].replace("/", ".")
        order += (
            [f"{folder}.{name}" for name in re.findall(r"`([\w.]+)`", row["modules"])] if row["slash"] else [folder]
        )
    return order


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and name of every module of the package that a module imports, wherever in it the import stands."""
    own = ["pucboost", *path.relative_to(PACKAGE).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = own[: len(own) - node.level] if node.level else []
        target = [*base, *(node.module or "").split(".")] if node.module else base
        if target[:1] != ["pucboost"]:
            continue
        within = ".".join(target[1:])
        for alias in node.names:
            longer = f"{within}.{alias.name}".lstrip(".")
            name = longer if longer in NAMES else within
            if name:  # the package itself only knows its version
                yield node.lineno, name


def test_every_module_is_in_the_table_once() -> None:
    order = stated_order()
    assert len(order) == len(set(order)), sorted(name for name in order if order.count(name) > 1)
    packages = {module_name(path) for path in MODULES if path.name == "__init__.py"}
    assert NAMES - packages <= set(order), sorted(NAMES - packages - set(order))
    assert set(order) <= NAMES, sorted(set(order) - NAMES)


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(PACKAGE)) for path in MODULES])
def test_modules_import_only_from_those_before_them(path: Path) -> None:
    order = {name: place for place, name in enumerate(stated_order())}
    name = module_name(path)
    if not name:
        return  # the package's own __init__ resolves public names, whatever their home
    # A folder that is imported by its own name offers what its modules define: it comes after the last of them.
    inner = [place for other, place in order.items() if other.startswith(f"{name}.")]
    here = order.get(name, max(inner, default=0) + 0.5)
    for line, other in imported(path):
        there = order.get(other)
        if there is None:
            there = max(place for one, place in order.items() if one == other or one.startswith(f"{other}."))
        assert there < here, f"{name}, line {line}, imports {other}, which the table lists after it"


def test_the_order_test_sees_imports_everywhere() -> None:
    """At the top, in functions, under TYPE_CHECKING; a test that sees none would always pass."""
    edges = {(module_name(path), other) for path in MODULES for _, other in imported(path)}
    assert ("_virtual.rows", "_virtual.plan") in edges
    assert ("_cli.commands.train", "_training.train") in edges  # within a function
    assert ("_estimators.fitted", "_auditing.results") in edges  # for type checkers
    assert len(edges) > 300


def test_what_looks_public_is_public() -> None:
    visible = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()} - {"__pycache__"}
    visible = {name for name in visible if not name.startswith("_")}
    assert visible - {"py"} == {"dask", "demo", "metrics", "objectives", "simulate", "testing", "typing"}
    assert {"metrics", "objectives", "simulate", "testing", "typing"} <= set(puc.__all__)


def outside_engines() -> list[Path]:
    return [path for path in MODULES if "_engines" not in path.parts]


@pytest.mark.parametrize("path", outside_engines(), ids=[str(path.relative_to(PACKAGE)) for path in outside_engines()])
def test_nothing_outside_the_engines_asks_which_engine_it_is(path: Path) -> None:
    """No engine's name as a value, no engine's own module, and no test for a class of boosters."""
    classes = {name.rpartition(".")[2] for name in BOOSTER_CLASSES}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant):
            assert node.value not in ENGINES, f"line {node.lineno} names the engine {node.value!r}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "type"):
            asked = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
            assert not asked & classes, f"line {node.lineno} asks for a class of boosters"
    engines = {f"_engines.{name}" for name in ENGINES}
    for line, other in imported(path):
        assert other not in engines, f"line {line} imports {other}; ask pucboost._engines.engine_named for it"


def test_modules_are_small() -> None:
    lines = {
        str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in MODULES
        if path.name != "__init__.py"
    }
    too_long = {name: n for name, n in lines.items() if n > 500 and name not in TABLES_OF_DATA}
    assert not too_long
    assert statistics.median(lines.values()) <= 170


def test_one_alias_for_arrays() -> None:
    aliases = [path for path in MODULES if re.search(r"^Array\b.*=", path.read_text(encoding="utf-8"), re.MULTILINE)]
    assert [path.name for path in aliases] == ["_arrays.py"]
