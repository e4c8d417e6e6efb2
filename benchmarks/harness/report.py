"""Tables and figures of the studies, from their CSVs into BENCHMARKS.md, the README and the docs."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from .running import partial_path
from .study import CIRCUMSTANCES, FIGURES, REPORT, RESULTS, SUMMARIES, TOOK, Rows, Study, from_study, write_rows


def read_csv(name: str) -> Rows:
    """Read a study's rows back."""
    with (RESULTS / f"{name}.csv").open(newline="", encoding="utf-8") as source:
        return list(csv.DictReader(source))


def is_measured(study: Study) -> bool:
    """Return whether a study and all it reads have results."""
    return all((RESULTS / f"{name}.csv").is_file() for name in (study.name, *study.reads))


def all_rows(study: Study) -> Rows:
    """Return the rows for table and figure: the study's own, then those of the studies it reads."""
    return [*read_csv(study.name), *(row for name in study.reads for row in from_study(name, read_csv(name)))]


def markdown_table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    everything = [columns, ["---"] * len(columns), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in everything)


def content(study: Study) -> str:
    """Return the part of BENCHMARKS.md: table, figure, circumstances."""
    rows = read_csv(study.name)
    parts = [markdown_table(*study.table(all_rows(study)))]
    if study.figure is not None:
        parts.append(f"![{study.name}](figures/{study.name}.png)")
    where = [rows[-1][column] for column in CIRCUMSTANCES if column != "seed"]
    if TOOK in rows[0]:
        where.insert(0, duration(sum(float(row[TOOK]) for row in rows)))
    return "\n\n".join([*parts, f"*{'; '.join(where)}*"])


def duration(seconds: float) -> str:
    """Return a duration in words."""
    return f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.1f} minutes"


def between_markers(text: str, name: str, inside: str) -> str:
    """Replace the text between the two markers of a study."""
    start, end = f"<!-- {name} -->", f"<!-- end {name} -->"
    head, _, rest = text.partition(start)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"no markers {start} … {end} in the text")
    return f"{head}{start}\n{inside}\n{end}{tail}"


def short_content(study: Study) -> str:
    """Return the short table."""
    if study.in_short is None:
        raise ValueError(f"{study.name} has no short table")
    return markdown_table(*study.in_short(all_rows(study)))


def publish(study: Study) -> None:
    """Put a study's table into BENCHMARKS.md, its short form, if any, where its markers stand, and draw its figure."""
    if study.figure is not None:
        FIGURES.mkdir(exist_ok=True)
        figure = study.figure(all_rows(study))
        figure.savefig(FIGURES / f"{study.name}.png", dpi=110, bbox_inches="tight", metadata={"Software": None})
    REPORT.write_text(between_markers(REPORT.read_text(encoding="utf-8"), study.name, content(study)), encoding="utf-8")
    for path in summaries_of(study):
        text = between_markers(path.read_text(encoding="utf-8"), study.name, short_content(study))
        path.write_text(text, encoding="utf-8")


def summaries_of(study: Study) -> list[Path]:
    """Return the pages that show the short table of a study."""
    if study.in_short is None:
        return []
    return [path for path in SUMMARIES if f"<!-- {study.name} -->" in path.read_text(encoding="utf-8")]


def keep(study: Study, rows: Rows) -> None:
    """Replace a study's rows by those of a complete run."""
    RESULTS.mkdir(exist_ok=True)
    aside = RESULTS / f"{study.name}.tmp"
    write_rows(aside, rows)
    aside.replace(RESULTS / f"{study.name}.csv")
    partial_path(study).unlink(missing_ok=True)
