"""Pages that stand elsewhere in the repository: README, changelog and the like, and a page for each study.

They are shown, not copied: links are rewritten from their place in the repository to their place on the site.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
SHOWN = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "LICENSE": "project/licence.md",
}
"""Files of the repository, and where the site shows them."""
REPORT = "benchmarks/BENCHMARKS.md"
REPORT_NAME = "BENCHMARKS.md"
_LINK = re.compile(r'(?P<before>\]\(|src="|srcset="|href=")(?P<target>[^)"#\s]*)(?P<anchor>#[^)"\s]*)?(?P<after>[)"])')
_STUDY = re.compile(r"^## (?P<name>\w+)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the generated pages and the figures they show."""
    for path, page in SHOWN.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        if path == "LICENSE":
            text = f"# Licence\n\n```text\n{text}```\n"
        files.append(File.generated(config, page, content=relinked(text, path, page)))
    for page, text in study_pages().items():
        files.append(File.generated(config, page, content=relinked(text, REPORT, page)))
    for figure in sorted((ROOT / "benchmarks" / "figures").glob("*.png")):
        files.append(File.generated(config, f"evidence/figures/{figure.name}", abs_src_path=str(figure)))
    return files


def study_pages() -> dict[str, str]:
    """Return the report in pages: page → Markdown. What stands before the first study is ``about``."""
    text = (ROOT / REPORT).read_text(encoding="utf-8")
    starts = list(_STUDY.finditer(text))
    names = [start["name"] for start in starts]
    # The contents of the long page would point to chapters that are pages of their own here.
    about = re.sub(r"^Contents: .*?\n\n", "", text[: starts[0].start()], flags=re.DOTALL | re.MULTILINE)
    about = re.sub(r"(?<=\n)# ", "## ", about)
    listed = "\n".join(f"- [{name}]({REPORT_NAME}#{name})" for name in names)
    pages = {"evidence/about.md": f"{about}\n## The studies\n\n{listed}\n"}
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        body = text[start.end() : None if end is None else end.start()]
        # A chapter heading between two studies introduces the following one; it is not part of this page.
        body = re.split(r"^# ", body, maxsplit=1, flags=re.MULTILINE)[0]
        pages[f"evidence/{start['name']}.md"] = f"# {start['name']}\n{body}"
    return pages


def relinked(text: str, path: str, page: str) -> str:
    """Return a text with its relative links rewritten: those of ``path`` in the repository, on ``page`` of the site."""

    def rewrite(found: re.Match[str]) -> str:
        target, anchor = found["target"], found["anchor"] or ""
        if not target and path == REPORT and anchor:
            return f"{found['before']}{_on_site(f'{REPORT}{anchor}', page)}{found['after']}"
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        in_repository = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        return f"{found['before']}{_on_site(in_repository + anchor, page)}{found['after']}"

    return _LINK.sub(rewrite, text)


def _on_site(target: str, page: str) -> str:
    """Return the link from a page to what the site shows of a file in the repository."""
    file, _, anchor = target.partition("#")
    name = Path(file).name
    if file in SHOWN:
        place = SHOWN[file]
    elif file == REPORT:
        study = f"evidence/{anchor}.md"
        place, anchor = (study, "") if study in study_pages() else ("evidence/about.md", anchor)
    elif file.startswith("benchmarks/figures/"):
        place = f"evidence/figures/{name}"
    elif file.startswith("examples"):
        place = f"examples/{Path(file).stem}.md" if name.endswith(".py") else "examples/index.md"
    elif file.startswith("docs/"):
        place = file.removeprefix("docs/")
    else:
        raise ValueError(f"{page} links to {file}, which the site does not show.")
    relative = os.path.relpath(place, Path(page).parent or ".").replace(os.sep, "/")
    return f"{relative}#{anchor}" if anchor else relative
