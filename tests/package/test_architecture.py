"""The house keeps its order: which room imports from which, what is public, and who may know about engines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pucboost as puc
from pucboost._engines import BOOSTER_CLASSES, ENGINES

PACKAGE = Path(__file__).parents[2] / "pucboost"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Along the data flow: a room imports only from itself and from rooms before it, even inside functions.
LAYERS = [
    "warnings",
    "_common", "_persistence", "_kernels", "_tables",
    "_consent", "_not_applicable", "_silence", "_losses", "_virtual", "_engines", "_models", "_training", "_prediction",
    "_pages", "_intervals", "_explaining", "_letter",
    "letters",
    "distributed", "objectives", "simulate", "_auditing", "_questions", "testing", "_estimators", "_dask", "dask",
    "typing", "metrics", "demo", "_cli", "__main__",
]  # fmt: skip


def room(parts: tuple[str, ...]) -> str:
    return parts[0] if parts else ""


def imported(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the line and the parts of the name of everything of the package that a module imports, wherever."""
    own = ("pucboost", *path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = own[: len(own) - node.level] if node.level else ()
            target = (*base, *(node.module.split(".") if node.module else ()))
            if target[:1] == ("pucboost",):
                for alias in node.names:
                    yield node.lineno, (*target[1:], alias.name)


def test_rooms_import_only_from_those_before_them() -> None:
    order = {name: place for place, name in enumerate(LAYERS)}
    edges, wrong = set(), []
    for path in MODULES:
        here = room(path.relative_to(PACKAGE).with_suffix("").parts)
        if here == "__init__":
            continue  # it resolves public names, whatever their home
        for line, parts in imported(path):
            there = room(parts)
            if there not in order:
                continue  # the package's own version
            edges.add((here, there))
            if order[there] > order[here]:
                wrong.append(f"{path.relative_to(PACKAGE)}, line {line}: {here} imports {'.'.join(parts)}")
    assert not wrong, "\n".join(wrong)
    # The loop sees imports at the top, in functions and under TYPE_CHECKING.
    assert {("_virtual", "_tables"), ("_cli", "_training"), ("_estimators", "_auditing")} <= edges


def test_every_room_has_its_place() -> None:
    there = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in MODULES} - {"__init__"}
    assert sorted(LAYERS) == sorted(there)


def test_what_looks_public_is_public() -> None:
    visible = {name for name in LAYERS if not name.startswith("_")}
    assert visible == {"demo", *puc._MODULES}
    assert set(puc._MODULES) - {"dask"} <= set(puc.__all__)


def test_nothing_outside_the_engines_knows_which_engine_it_is() -> None:
    """No engine's name as a value, no engine's own module, and no test for a class of boosters."""
    classes = {name.rpartition(".")[2] for name in BOOSTER_CLASSES}
    for path in MODULES:
        where = path.relative_to(PACKAGE)
        if "_engines" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant):
                assert node.value not in ENGINES, f"{where}, line {node.lineno}, names the engine {node.value!r}"
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("isinstance", "type"):
                checked = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
                assert not checked & classes, f"{where}, line {node.lineno}, tests for a class of boosters"
        for line, parts in imported(path):
            assert not (parts[0] == "_engines" and parts[1] in ENGINES), f"{where}, line {line}: use engine_named"


def test_one_alias_for_arrays() -> None:
    aliases = [path for path in MODULES if re.search(r"^Array\b.*=", path.read_text(encoding="utf-8"), re.MULTILINE)]
    assert [path.name for path in aliases] == ["_common.py"]
