"""The audit as something to read: an HTML page, a notebook box, a section of a model card, plain text.

``sections`` puts the findings into words and blocks; this module lays them out.
"""

from __future__ import annotations

import re

from ..._pages import printable, templates
from ..findings import Findings
from .sections import (
    JOINT,
    PENALTY,
    PEOPLE,
    SECTIONS,
    SHARES,
    VERDICT,
    level_interval,
    limits_in_words,
    notices,
    penalty_tables,
    provenance_facts,
    subject,
    untested,
    verdict_box,
)
from .text import Cell, Fact, Table, columns_of, pad, wrap

HEADING = "Consent audit"
_PACKAGE = "pucboost._auditing.report"
_TEXT_NAME_WIDTH = 48


def render_html(findings: Findings) -> str:
    """Return one complete HTML page: no script, nothing to load, all text escaped."""
    findings = printable(findings)
    made = (make(findings) for make in SECTIONS)
    page = templates(_PACKAGE).get_template("page.html")
    return page.render(
        heading=HEADING,
        verdict=verdict_box(findings),
        subject=subject(findings),
        notices=notices(findings),
        sections=[section for section in made if section is not None],
    )


def render_fragment(findings: Findings) -> str:
    """Return verdict and penalties as one ``<div>`` for a notebook."""
    findings = printable(findings)
    columns = (SHARES, VERDICT, PENALTY, JOINT, PEOPLE)
    box = templates(_PACKAGE).get_template("fragment.html")
    return box.render(
        heading=HEADING,
        verdict=verdict_box(findings),
        notices=notices(findings),
        tables=[table.only(columns) for table in penalty_tables(findings)],
        untested=untested(findings),
    )


def render_markdown(findings: Findings) -> str:
    """Return a section for a model card."""
    findings = printable(findings)
    verdict = verdict_box(findings)
    consent = "; ".join(f"{group} ({', '.join(columns)})" for group, columns in findings.provenance.consent.items())
    facts = [*provenance_facts(findings), Fact("Consent schema", consent or "nothing is optional")]
    parts = [
        f"## {HEADING}: {verdict.word}",
        f"**{_md(verdict.reason)}**",
        _md(verdict.meaning),
        _md_facts(verdict.facts),
    ]
    if notices(findings):
        parts += ["**Before you rely on it**", _md_list(notices(findings))]
    parts += ["### The penalty of withholding"]
    for table in penalty_tables(findings):
        parts += [f"{_md(table.caption)}:", _md_table(table)]
    if untested(findings):
        parts += ["Not tested:", _md_list([f"{name}: {why}" for name, why in untested(findings)])]
    parts += [
        "### What this audit cannot say",
        _md_list([f"{point} {rest}" for point, rest in limits_in_words(findings)]),
    ]
    parts += ["### Provenance", _md_facts(facts)]
    return "\n\n".join(parts) + "\n"


def render_text(findings: Findings) -> str:
    """Return verdict, margin, penalties and warnings as plain text."""
    findings = printable(findings)
    verdict = verdict_box(findings)
    interval = level_interval(findings)
    columns = (SHARES, PEOPLE, PENALTY, interval, JOINT, VERDICT)
    width = max(len(fact.term) for fact in verdict.facts)
    parts = [
        f"{HEADING}: {verdict.word.upper()}\n{verdict.reason}",
        "\n".join(f"{fact.term:<{width}}  {fact.text}" for fact in verdict.facts),
    ]
    parts += [f"{table.caption}\n{_text_table(table.only(columns))}" for table in penalty_tables(findings)]
    if untested(findings):
        parts.append("Not tested\n" + "\n".join(f"  {name}: {why}" for name, why in untested(findings)))
    if notices(findings):
        parts.append("Warnings\n" + "\n".join(f"  - {notice}" for notice in notices(findings)))
    return "\n\n".join(parts)


_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]#!|~$@]|^[-+])")


def _md(text: str) -> str:
    """Escape text so that Markdown shows it as it is, also in a table."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN_SPECIAL.sub(r"\\\1", escaped)


def _md_list(items: list[str]) -> str:
    return "\n".join(f"- {_md(item)}" for item in items)


def _md_facts(facts: list[Fact] | tuple[Fact, ...]) -> str:
    return "\n".join(
        f"- {fact.term}: {f'`{fact.text}`' if fact.code and fact.text.isalnum() else _md(fact.text)}" for fact in facts
    )


def _md_table(table: Table) -> str:
    lines = [
        [_md(name) for name in table.columns],
        ["---" if name in table.words else "---:" for name in table.columns],
        *([_md(cell.with_note) for cell in row] for row in table.rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text_rows(row: tuple[Cell, ...]) -> list[list[str]]:
    """Return the lines of a row: the name it begins with may be long."""
    name, *rest = (cell.with_note for cell in row)
    first, *more = wrap(name, _TEXT_NAME_WIDTH, max(1, len(name)))
    return [[first, *rest], *([f"  {line}", *("" for _ in rest)] for line in more)]


def _text_table(table: Table) -> str:
    rows = [[*table.columns], *(line for row in table.rows for line in _text_rows(row))]
    widths = [max(columns_of(row[place]) for row in rows) for place in range(len(table.columns))]
    right = [name not in table.words for name in table.columns]
    lines = ["  ".join(pad(text, w, right=r) for text, w, r in zip(row, widths, right, strict=True)) for row in rows]
    return "\n".join(f"  {line}".rstrip() for line in lines)
