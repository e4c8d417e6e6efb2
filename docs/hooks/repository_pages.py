"""Pages that stand elsewhere in the repository: README, changelog and the like.

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
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "LICENSE": "project/licence.md",
}
"""Files of the repository, and where the site shows them."""
_LINK = re.compile(
    r'(?P<before>\]\(|src="|srcset="|href=")(?P<target>[^)"#\s]*)(?P<anchor>#[^)"\s]*)?(?P<after>[)"])'
)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the pages."""
    for path, page in SHOWN.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        if path == "LICENSE":
            text = f"# Licence\n\n```text\n{text}```\n"
        files.append(
            File.generated(config, page, content=relinked(text, path, page))
        )
    return files


def relinked(text: str, path: str, page: str) -> str:
    """Return a text with its relative links rewritten: those of ``path`` in the repository, on ``page`` of the site."""

    def rewrite(found: re.Match[str]) -> str:
        target, anchor = found["target"], found["anchor"] or ""
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        in_repository = posixpath.normpath(
            posixpath.join(posixpath.dirname(path), target)
        )
        return f"{found['before']}{_on_site(in_repository + anchor, page)}{found['after']}"

    return _LINK.sub(rewrite, text)


def _on_site(target: str, page: str) -> str:
    """Return the link from a page to what the site shows of a file in the repository."""
    file, _, anchor = target.partition("#")
    name = Path(file).name
    if file in SHOWN:
        place = SHOWN[file]
    elif file.startswith("examples"):
        place = (
            f"examples/{Path(file).stem}.md"
            if name.endswith(".py")
            else "examples/index.md"
        )
    elif file.startswith("docs/"):
        place = file.removeprefix("docs/")
    else:
        raise ValueError(
            f"{page} links to {file}, which the site does not show."
        )
    relative = os.path.relpath(place, Path(page).parent or ".").replace(
        os.sep, "/"
    )
    return f"{relative}#{anchor}" if anchor else relative
