"""Tables and figures of the studies, from their CSVs into the pages of docs/evidence and into guides."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from .running import partial_path
from .study import CIRCUMSTANCES, FIGURES, PAGES, QUOTING, RESULTS, TOOK, Rows, Study, from_study, write_rows


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


def page_of(study: Study) -> Path:
    """Return the page of a study."""
    return PAGES / f"{study.name}.md"


def short_table(study: Study) -> str:
    """Return the table that pages show."""
    return markdown_table(*(study.page or study.table)(all_rows(study)))


def content(study: Study) -> str:
    """Return what stands between the markers of a study's page: figure, table, and how it was run."""
    rows = read_csv(study.name)
    where = [rows[-1][column] for column in CIRCUMSTANCES if column != "seed"]
    if TOOK in rows[0]:
        where.insert(0, duration(sum(float(row[TOOK]) for row in rows)))
    how = f"`python -m benchmarks.run {study.name}` · {' · '.join(where)} · rows: `benchmarks/results/{study.name}.csv`"
    figure = [f"![The results of {study.name}](figures/{study.name}.png)"] if study.figure is not None else []
    return "\n\n".join([*figure, short_table(study), how])


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


def publish(study: Study) -> None:
    """Draw a study's figure, and put its table into its page and into those that quote it."""
    if study.figure is not None:
        FIGURES.mkdir(exist_ok=True)
        figure = study.figure(all_rows(study))
        figure.savefig(FIGURES / f"{study.name}.png", dpi=110, bbox_inches="tight", metadata={"Software": None})
    for path, inside in {page_of(study): content(study), **dict.fromkeys(quoting(study), short_table(study))}.items():
        text = between_markers(path.read_text(encoding="utf-8"), study.name, inside)
        path.write_text(text, encoding="utf-8")


def quoting(study: Study) -> list[Path]:
    """Return the other pages that show the table of a study."""
    return [path for path in QUOTING if f"<!-- {study.name} -->" in path.read_text(encoding="utf-8")]


def keep(study: Study, rows: Rows) -> None:
    """Replace a study's rows by those of a complete run."""
    RESULTS.mkdir(exist_ok=True)
    aside = RESULTS / f"{study.name}.tmp"
    write_rows(aside, rows)
    aside.replace(RESULTS / f"{study.name}.csv")
    partial_path(study).unlink(missing_ok=True)
