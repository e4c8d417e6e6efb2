"""Every public name has its place in the reference, and every page its place in the navigation."""

from __future__ import annotations

import re

from pages import PAGES, ROOT

import pucboost as puc

MODULES = [name for name in puc._MODULES if name != "typing"]  # the names of that one are on one page, by themselves
RESULTS = {
    "typing",
    "typing.AnchoredModel",
    "typing.AuditReport",
    "typing.Explanation",
    "typing.Intervals",
    "typing.MonitorReport",
    "typing.Questions",
    "typing.Suitability",
}  # except for results that have methods


def test_every_public_name_is_in_the_reference() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: pucboost\.([\w.]+)$", text, re.MULTILINE))
    public = {name for name in puc.__all__ if name not in puc._MODULES} | RESULTS
    public |= {f"{module}.{name}" for module in MODULES for name in getattr(puc, module).__all__}
    assert shown == public


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = set(re.findall(r"[\w/-]+\.md", navigation))
    written = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert written <= listed
    examples = {f"examples/{script.stem}.md" for script in (ROOT / "examples").glob("*.py")}
    assert examples <= listed
