"""The audit as something to read: an HTML page, a notebook box, a section of a model card, plain text.

``sections`` puts the numbers into words and blocks; here they are laid out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from . import sections
from .blocks import Cell, Fact, Table
from .wording import columns_of, pad, printable, shorten

if TYPE_CHECKING:
    from jinja2 import Environment

    from ..results import AuditReport

HEADING = "Consent audit"
_TEXT_NAME_WIDTH = 48


def render_html(report: AuditReport) -> str:
    """Return one complete HTML page: no script, nothing to load, all text escaped."""
    report = printable(report)
    made = (make(report) for make in sections.SECTIONS)
    page = _templates().get_template("page.html")
    return page.render(
        heading=HEADING,
        verdict=sections.verdict(report),
        subject=sections.subject(report),
        notices=sections.notices(report),
        sections=[section for section in made if section is not None],
    )


def render_fragment(report: AuditReport) -> str:
    """Return verdict and penalties as one ``<div>`` for a notebook."""
    report = printable(report)
    columns = (sections.SHARES, sections.VERDICT, sections.PENALTY, sections.JOINT, sections.PEOPLE)
    box = _templates().get_template("fragment.html")
    return box.render(
        heading=HEADING,
        verdict=sections.verdict(report),
        notices=sections.notices(report),
        tables=[table.only(columns) for table in sections.penalty_tables(report)],
        untested=sections.untested(report),
    )


def render_markdown(report: AuditReport) -> str:
    """Return a section for a model card."""
    report = printable(report)
    verdict = sections.verdict(report)
    consent = "; ".join(f"{group} ({', '.join(columns)})" for group, columns in report.provenance.consent.items())
    facts = [*sections.provenance_facts(report), Fact("Consent schema", consent or "nothing is optional")]
    parts = [
        f"## {HEADING}: {verdict.word}",
        f"**{_md(verdict.reason)}**",
        _md(verdict.meaning),
        _md_facts(verdict.facts),
    ]
    if sections.notices(report):
        parts += ["**Before you rely on it**", _md_list(sections.notices(report))]
    parts += ["### The penalty of withholding"]
    for table in sections.penalty_tables(report):
        parts += [f"{_md(table.caption)}:", _md_table(table)]
    if sections.untested(report):
        parts += ["Not tested:", _md_list([f"{name}: {why}" for name, why in sections.untested(report)])]
    parts += [
        "### What this audit cannot say",
        _md_list([f"{point} {rest}" for point, rest in sections.limits_in_words(report)]),
    ]
    parts += ["### Provenance", _md_facts(facts)]
    return "\n\n".join(parts) + "\n"


def render_text(report: AuditReport) -> str:
    """Return verdict, margin, penalties and warnings as plain text."""
    report = printable(report)
    verdict = sections.verdict(report)
    interval = sections.level_interval(report)
    columns = (sections.SHARES, sections.PEOPLE, sections.PENALTY, interval, sections.JOINT, sections.VERDICT)
    width = max(len(fact.term) for fact in verdict.facts)
    parts = [
        f"{HEADING}: {verdict.word.upper()}\n{verdict.reason}",
        "\n".join(f"{fact.term:<{width}}  {fact.text}" for fact in verdict.facts),
    ]
    parts += [f"{table.caption}\n{_text_table(table.only(columns))}" for table in sections.penalty_tables(report)]
    if sections.untested(report):
        parts.append("Not tested\n" + "\n".join(f"  {name}: {why}" for name, why in sections.untested(report)))
    if sections.notices(report):
        parts.append("Warnings\n" + "\n".join(f"  - {notice}" for notice in sections.notices(report)))
    return "\n\n".join(parts)


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("pucboost._auditing.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]#!|~$@]|^[-+])")


def _md(text: str) -> str:
    """Return text so that Markdown shows it as it is, in a table too."""
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


def _in_text(cell: Cell) -> str:
    return replace(cell, text=shorten(cell.text, _TEXT_NAME_WIDTH)).with_note


def _text_table(table: Table) -> str:
    rows = [[*table.columns], *([_in_text(cell) for cell in row] for row in table.rows)]
    widths = [max(columns_of(row[place]) for row in rows) for place in range(len(table.columns))]
    right = [name not in table.words for name in table.columns]
    lines = ["  ".join(pad(text, w, right=r) for text, w, r in zip(row, widths, right, strict=True)) for row in rows]
    return "\n".join(f"  {line}".rstrip() for line in lines)
