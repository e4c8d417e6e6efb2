"""Write the site as plain Markdown, for any builder: ``python docs/prebuild.py``.

Into build/site/docs/ go the pages of this folder, with the results of their executed blocks and with formulas as
MathML; the pages that stand elsewhere in the repository; a page for each example; and pictures and styles as they are.
Beside them build/site/mkdocs.yml is the configuration without what is done here. mkdocs calls this file itself, as a
hook, so `mkdocs build --strict` is all that one needs to know.

Pages and examples run in processes and empty folders of their own. What they printed and saved is kept in build/runs/
under a digest of their code, of pucboost's sources and of the versions of all packages, so what has not changed is not
run again.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.metadata
import inspect
import io
import json
import linecache
import os
import platform
import posixpath
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS, BUILD = ROOT / "docs", ROOT / "build"
NOT_SHOWN = ("*.py", "*.pyc", "ruff.toml")


def main(build: Path = BUILD) -> Path:
    """Write the site into a folder, and return the folder of its pages. Files that are as wanted are not touched."""
    pages = {
        path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8")
        for path in DOCS.rglob("*.md")
    }
    examples = sorted(
        (ROOT / "examples").glob("*.py"),
        key=lambda path: (_place(path.stem), path.stem),
    )
    runs = build / "runs"
    jobs = [
        Job("page", name, text)
        for name, text in pages.items()
        if _EXECUTED in text
    ]
    jobs += [
        Job("example", path.stem, path.read_text(encoding="utf-8"))
        for path in examples
    ]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda job: kept(job, runs), jobs))
    done = {
        (job.kind, job.name): result
        for job, result in zip(jobs, results, strict=True)
    }
    for outdated in set(runs.iterdir()) - set(results):
        shutil.rmtree(outdated)

    written: dict[str, bytes] = {}
    for name, text in pages.items():
        if ("page", name) in done:
            results = json.loads(
                (done["page", name] / "results.json").read_text(
                    encoding="utf-8"
                )
            )
            text = with_results(text, results)
        written[f"docs/{name}"] = with_formulas(text).encode()
    for path in DOCS.rglob("*"):
        if (
            path.is_file()
            and path.suffix != ".md"
            and not any(map(path.match, NOT_SHOWN))
        ):
            written[f"docs/{path.relative_to(DOCS).as_posix()}"] = (
                path.read_bytes()
            )
    for path, name in ELSEWHERE.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        text = (
            f"# Licence\n\n```text\n{text}```\n"
            if path == "LICENSE"
            else relinked(text, path, name)
        )
        written[f"docs/{name}"] = text.encode()
    shown = [
        read_example(path, done["example", path.stem]) for path in examples
    ]
    for one in shown:
        written[f"docs/examples/{one.name}.md"] = one.page().encode()
        written |= {
            f"docs/examples/{one.name}/{name}": content
            for name, content in one.saved.items()
        }
    written["docs/examples/index.md"] = gallery(shown).encode()
    written["mkdocs.yml"] = configuration().encode()
    write(written, build / "site")
    return build / "site" / "docs"


def on_config(config: Any, **_: Any) -> Any:
    """Write the site before mkdocs reads it, and let mkdocs read what was written."""
    config.docs_dir = str(main())
    return config


def configuration() -> str:
    """Return mkdocs.yml for the folder that is written: without the hook, and with paths from there."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    text = re.sub(
        r"^(hooks|watch):.*\n(  .*\n)*", "", text, flags=re.MULTILINE
    )
    return text.replace("paths: [.]", "paths: [../..]").replace(
        "docs/docstrings.py", "../../docs/docstrings.py"
    )


def write(files: dict[str, bytes], folder: Path) -> None:
    """Make these the files of a folder."""
    for path in folder.rglob("*"):
        if (
            path.is_file()
            and path.relative_to(folder).as_posix() not in files
        ):
            path.unlink()
    for name, content in files.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


# Running pages and examples, and keeping what came of it


@dataclass(frozen=True)
class Job:
    """A page with executed blocks, or an example."""

    kind: str
    name: str
    text: str

    def code(self) -> list[tuple[str, str]]:
        """Return what is run, in order: language and code."""
        if self.kind == "example":
            return [("python", self.text)]
        return [
            (block["language"], block["code"])
            for block in executed(self.text)
        ]


def kept(job: Job, runs: Path) -> Path:
    """Return the folder with what a job printed and saved, after running it if that is not known."""
    code = [[language, block] for language, block in job.code()]
    key = hashlib.sha256(
        json.dumps([job.kind, job.name, code, circumstances()]).encode()
    ).hexdigest()[:24]
    result = runs / key
    if not result.is_dir():
        runs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=runs) as unfinished:
            run(job, Path(unfinished))
            shutil.copytree(unfinished, result)
    return result


@cache
def circumstances() -> str:
    """Return a digest of all that results depend on besides their code."""
    known = hashlib.sha256(platform.python_version().encode())
    known.update(
        "".join(map(inspect.getsource, (run, run_blocks))).encode()
    )
    for path in sorted((ROOT / "pucboost").rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            known.update(
                path.relative_to(ROOT).as_posix().encode()
                + b"\0"
                + path.read_bytes()
            )
    found = {
        (one.metadata["Name"], one.version)
        for one in importlib.metadata.distributions()
    }
    known.update(repr(sorted(found)).encode())
    return known.hexdigest()


def run(job: Job, result: Path) -> None:
    """Run a page or an example in an empty folder, and write what it printed and saved into the folder ``result``."""
    with tempfile.TemporaryDirectory() as folder:
        # A folder without tables: what pages show does not depend on the machine that builds them.
        path = os.pathsep.join(
            [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        )
        env = {
            **os.environ,
            "PATH": path,
            "PYTHONPATH": str(ROOT),
            "PUCBOOST_DATA": folder,
            "PYTHONUTF8": "1",
        }
        if job.kind == "page":
            blocks, out = result / "blocks.json", result / "results.json"
            blocks.write_text(json.dumps(job.code()), encoding="utf-8")
            command = [
                sys.executable,
                __file__,
                "run",
                str(blocks),
                str(out),
            ]
        else:
            command = [
                sys.executable,
                str(ROOT / "examples" / f"{job.name}.py"),
            ]
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            capture_output=True,
            encoding="utf-8",
        )
        if done.returncode:
            raise SystemExit(
                f"The {job.kind} {job.name} failed:\n{done.stdout[-2_000:]}{done.stderr}"
            )
        if job.kind == "example":
            (result / "printed.txt").write_text(
                done.stdout, encoding="utf-8"
            )
            for path in Path(folder).iterdir():
                if path.is_file():
                    shutil.copy(path, result / path.name)


def run_blocks(blocks: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Run blocks in one namespace and the current folder, and yield what each printed."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, (language, code) in enumerate(blocks, 1):
        printed = io.StringIO()
        if language == "python":
            place = f"executed block {number}"
            # For tracebacks: the lines of a block are in no file.
            lines = code.splitlines(keepends=True)
            linecache.cache[place] = (len(code), None, lines, place)
            try:
                with contextlib.redirect_stdout(printed):
                    exec(compile(code, place, "exec"), namespace)
            except Exception:
                raise SystemExit(traceback.format_exc()) from None
        else:
            command = ["bash", "-euo", "pipefail", "-c", code]
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
            )
            printed.write(done.stdout)
            if done.returncode:
                raise SystemExit(
                    f"Block {number} ended with {done.returncode}:\n{code}\n{done.stdout}"
                )
        yield printed.getvalue()


# Pages: executed blocks and formulas

_EXECUTED = 'exec="on"'
_FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>```+)(?P<language>\w+)(?P<options>[^\n]*)\n(?P<code>.*?)^(?P=indent)(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)


def executed(text: str) -> list[dict[str, str]]:
    """Return the executed blocks of a page: language, code and options."""
    found = []
    for fence in _FENCE.finditer(text):
        if _EXECUTED in fence["options"]:
            options = dict(
                option.split("=", 1)
                for option in shlex.split(fence["options"])
            )
            code = textwrap.dedent(fence["code"])
            found.append(
                {"language": fence["language"], "code": code, **options}
            )
    return found


def with_results(text: str, results: Sequence[str]) -> str:
    """Return a page with what its executed blocks printed.

    With ``source="above"`` the block itself is shown, and below it what it printed: as code of the language ``result``,
    as HTML with ``html="true"``, else as Markdown.
    """
    waiting = iter(zip(executed(text), results, strict=True))

    def shown(fence: re.Match[str]) -> str:
        if _EXECUTED not in fence["options"]:
            return fence[0]
        block, printed = next(waiting)
        parts = []
        if block.get("source") == "above":
            parts.append(fenced(block["language"], block["code"]))
        if printed.strip() and "result" in block:
            parts.append(fenced(block["result"], printed))
        elif printed.strip() and "html" in block:
            parts.append(raw(printed.strip()))
        elif printed.strip():
            parts.append(printed.rstrip())
        return textwrap.indent("\n\n".join(parts), fence["indent"])

    return _FENCE.sub(shown, text)


def raw(html: str) -> str:
    """Return HTML as Markdown leaves it alone."""
    if html.startswith("<iframe"):
        # Nothing of the document in its attribute may look like Markdown, or end the line of a fold.
        return re.sub(
            r"[\n`\\\[\]*_$]", lambda found: f"&#{ord(found[0])};", html
        )
    return f'<div class="result">\n{html}\n</div>'


def fenced(language: str, code: str) -> str:
    """Return code as a block of Markdown."""
    ticks = "`" * max(
        3, 1 + max(map(len, re.findall("`+", code)), default=0)
    )
    return f"{ticks}{language}\n{code.rstrip()}\n{ticks}"


_CODE_OR_FORMULA = re.compile(
    rf"(?P<block>{_FENCE.pattern})|(?P<span>(?P<tick>`+).+?(?P=tick))"
    r"|^(?:\$\$|\\\[)(?P<display>.*?)(?:\$\$|\\\])$|\\\((?P<inline>.*?)\\\)",
    re.MULTILINE | re.DOTALL,
)


def with_formulas(text: str) -> str:
    r"""Return a page with its formulas, \(…\) and $$…$$, as MathML: readable offline and by screen readers."""

    def mathml(found: re.Match[str]) -> str:
        if found["block"] or found["span"]:
            return found[0]
        # Here, because whoever runs a single page's blocks has no need of it.
        from latex2mathml.converter import convert

        if found["display"]:
            return str(convert(found["display"], display="block"))
        # A line that begins with <math> would be a block of its own.
        return f'<span class="formula">{convert(found["inline"], display="inline")}</span>'

    return _CODE_OR_FORMULA.sub(mathml, text)


# Pages that stand elsewhere in the repository: shown, not copied, with links from their place on the site

ELSEWHERE = {
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


def relinked(text: str, path: str, page: str) -> str:
    """Return a text with its relative links rewritten: those of ``path`` in the repository, on ``page`` of the site."""

    def rewrite(found: re.Match[str]) -> str:
        target, anchor = found["target"], found["anchor"] or ""
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        file = posixpath.normpath(
            posixpath.join(posixpath.dirname(path), target)
        )
        place = posixpath.relpath(
            _on_site(file, page), posixpath.dirname(page) or "."
        )
        return f"{found['before']}{place}{anchor}{found['after']}"

    return _LINK.sub(rewrite, text)


def _on_site(file: str, page: str) -> str:
    """Return where the site shows a file of the repository."""
    if file in ELSEWHERE:
        return ELSEWHERE[file]
    if file.startswith("examples"):
        return (
            f"examples/{Path(file).stem}.md"
            if file.endswith(".py")
            else "examples/index.md"
        )
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    raise ValueError(
        f"{page} links to {file}, which the site does not show."
    )


# A page for each example: what it shows, what it printed when the site was built, its pictures, its source

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


def _place(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


@dataclass(frozen=True)
class Example:
    """One example, run."""

    name: str
    title: str
    description: str
    source: str
    printed: str
    saved: dict[str, bytes]

    def page(self) -> str:
        """Return its page as Markdown."""
        parts = [f"# {self.title}", self.description]
        for name in self.saved:
            if name.endswith(".png"):
                parts.append(f"![{self.title}]({self.name}/{name})")
            elif name.endswith(".html"):
                parts.append(
                    f'[Open `{name}`]({self.name}/{name}){{target="_blank"}}'
                )
        parts += ["It prints:", fenced("text", self.printed)]
        parts += [
            f"The source, `examples/{self.name}.py`:",
            fenced("python", self.source),
        ]
        return "\n\n".join(parts) + "\n"


def read_example(script: Path, result: Path) -> Example:
    """Return an example with what it printed and saved into a folder."""
    source = script.read_text(encoding="utf-8")
    title, _, description = (
        ast.get_docstring(ast.parse(source)) or ""
    ).partition("\n\n")
    saved = {
        path.name: path.read_bytes()
        for path in sorted(result.iterdir())
        if path.name != "printed.txt"
    }
    printed = (result / "printed.txt").read_text(encoding="utf-8")
    return Example(
        script.stem, title.rstrip("."), description, source, printed, saved
    )


def gallery(examples: Sequence[Example]) -> str:
    """Return the page that shows all examples: the picture, what it is, what to look at."""
    parts = [
        "---\nhide: [toc]\n---",  # leaves the pictures its column
        "# Gallery",
        "Each picture was drawn when this site was built, by a script of the repository that runs as it is.",
        '<div class="gallery" markdown>',
    ]
    for one in examples:
        title = one.title.removesuffix(", with a picture")
        _, _, look = one.description.partition("What to look at: ")
        pictures = [name for name in one.saved if name.endswith(".png")]
        card = [
            f"[![{title}]({one.name}/{name})]({one.name}.md)"
            for name in pictures
        ]
        first_lines = "\n".join(one.printed.splitlines()[:8])
        card = card or [fenced("text", first_lines)]
        card += [
            f"**[{title}]({one.name}.md)**",
            look[:1].upper() + look[1:],
        ]
        parts += ["<div markdown>", *card, "</div>"]
    return "\n\n".join([*parts, "</div>"]) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == [
        "run"
    ]:  # the blocks of one page, in a process of their own
        given, out = map(Path, sys.argv[2:])
        out.write_text(
            json.dumps(
                list(
                    run_blocks(
                        json.loads(given.read_text(encoding="utf-8"))
                    )
                )
            ),
            encoding="utf-8",
        )
    else:
        main()
