"""A page for each example: what it shows, what it printed when the site was built, its pictures, its source."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
ORDER = (
    "quickstart",
    "health_insurance",
    "credit_nonresponse",
    "consent_audit",
    "choosing_a_scheme",
    "tuning_under_consent",
    "legacy_anchor",
    "explanations",
    "strategic_sharing",
)
"""From the first thing to try to the most special; examples that are not named here come last."""


@dataclass(frozen=True)
class Example:
    """One example, run."""

    name: str
    title: str
    description: str
    source: str
    printed: str
    saved: dict[str, bytes]


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Run all examples, two at a time, and add their pages."""
    scripts = sorted(
        (ROOT / "examples").glob("*.py"),
        key=lambda path: (_place(path.stem), path.stem),
    )
    with ThreadPoolExecutor(2) as pool:
        examples = list(pool.map(run, scripts))
    for one in examples:
        files.append(
            File.generated(
                config, f"examples/{one.name}.md", content=page(one)
            )
        )
        for name, content in one.saved.items():
            files.append(
                File.generated(
                    config, f"examples/{one.name}/{name}", content=content
                )
            )
    files.append(
        File.generated(
            config, "examples/index.md", content=gallery(examples)
        )
    )
    return files


def _place(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


def run(script: Path) -> Example:
    """Run an example in an empty folder; return what it printed and saved."""
    source = script.read_text(encoding="utf-8")
    title, _, description = (
        ast.get_docstring(ast.parse(source)) or ""
    ).partition("\n\n")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            cwd=folder,
            # A folder without tables: what the page shows does not depend on the machine that builds it.
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PUCBOOST_DATA": folder,
                "PYTHONIOENCODING": "utf-8",
            },
        )
        if done.returncode:
            raise PluginError(f"{script.name} failed:\n{done.stderr}")
        saved = {
            path.name: path.read_bytes()
            for path in sorted(Path(folder).iterdir())
            if path.is_file()
        }
    return Example(
        script.stem,
        title.rstrip("."),
        description,
        source,
        done.stdout,
        saved,
    )


def page(one: Example) -> str:
    """Return the page of one example as Markdown."""
    parts = [f"# {one.title}", one.description]
    for name in one.saved:
        if name.endswith(".png"):
            parts.append(f"![{one.title}]({one.name}/{name})")
        elif name.endswith(".html"):
            parts.append(
                f'[Open `{name}`]({one.name}/{name}){{target="_blank"}}'
            )
    parts += [
        "It prints:",
        f"```text\n{one.printed.rstrip()}\n```",
        f"The source, `examples/{one.name}.py`:",
        f"```python\n{one.source.rstrip()}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def gallery(examples: list[Example]) -> str:
    """Return the page that lists the examples, each with its picture."""
    parts = [
        "# Examples",
        "Each is a script of the repository that runs as it is; these pages show what it printed.",
    ]
    for one in examples:
        parts.append(
            f"## [{one.title}]({one.name}.md)\n\n{one.description}"
        )
        parts += [
            f"[![{one.title}]({one.name}/{name})]({one.name}.md)"
            for name in one.saved
            if name.endswith(".png")
        ]
    return "\n\n".join(parts) + "\n"
