"""Findings to render: the golden report, nothing, too much, no numbers, hostile names; and a reader of pages."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

from pucboost._auditing import findings
from pucboost._auditing.findings import AuditReport

GOLDEN = Path(__file__).parent / "golden"

HOSTILE = "<script>alert(1)</script>\"'&|`*_[x](y)$a$\x1b[31m\x00\n"

NAN = math.nan

_VERDICTS = (findings.CERTIFIED, findings.VIOLATED, findings.INCONCLUSIVE, findings.NOT_TESTABLE)

VOID = {"meta", "br", "hr", "img", "link", "input"}


def penalty(name, value=0.001, verdict=findings.CERTIFIED, **changes):
    estimate = None if value is None else findings.Estimate(value, 0.003, value - 0.006, value + 0.006)
    bounds = (None, None) if value is None else (value - 0.007, value + 0.007)
    known = findings.Penalty(
        name=name, groups=(name,), subgroup=None, people=1234, comparable=5678, verdict=verdict,
        decisive=value is not None, estimate=estimate, verdict_lower=bounds[0], verdict_upper=bounds[1],
        percent=None if value is None else 1.5, mean_prediction=0.3, rows_to_decide=None, note="",
    )  # fmt: skip
    return replace(known, **changes)


def bare(**changes):
    """Return a report with nothing in it that may be missing."""
    nobody = findings.LossComparison("people who share nothing", "base features only", 0, None, None, None)
    report = AuditReport(
        verdict=findings.INCONCLUSIVE, reason="No set is large enough.", margin=0.02, relative_margin=None, level=0.95,
        simultaneous="max-t", critical_value=2.3, loss="log loss", unit="probability", favourable="lower",
        mean_prediction=0.3, penalties=(),
        inference_from_silence=nobody,
        non_degradation=(), informativeness=(), averages=(), sharing_effect=None, balance=(),
        support=findings.Support(1, None, None, 0, (), 10.0), puc_gap=None, calibration=(), scatter=(),
        provenance=findings.Provenance(
            "not a date", 0, 0, 5, 100, "the audit data", "abc", None, "callable", {}, (), {}, "LightGBM", 0.1
        ),
        warnings=(),
    )  # fmt: skip
    return replace(report, **changes)


def golden():
    """Return the report of ``golden/report.json``, in which every section has something to show."""
    return _read(json.loads((GOLDEN / "report.json").read_text(encoding="utf-8")), AuditReport)


def _read(value, kind):
    """Return plain data as the dataclass, tuple or mapping that ``to_dict`` made them of."""
    options = [option for option in get_args(kind) if option is not type(None)]
    if value is None or (type(None) in get_args(kind) and len(options) == 1):
        return None if value is None else _read(value, options[0])
    if is_dataclass(kind):
        hints = get_type_hints(kind, {**vars(findings), "Mapping": Mapping})
        return kind(**{field.name: _read(value[field.name], hints[field.name]) for field in fields(kind)})
    if get_origin(kind) is tuple:
        return tuple(_read(inner, options[0]) for inner in value)
    return {key: _read(inner, options[1]) for key, inner in value.items()} if isinstance(value, dict) else value


def _changed(value, kind, change):
    """Return a value with everything of a kind in it, however deep, changed."""
    if isinstance(value, kind):
        return change(value)
    if is_dataclass(value):
        return replace(value, **{f.name: _changed(getattr(value, f.name), kind, change) for f in fields(value)})
    if isinstance(value, dict):
        return {_changed(key, kind, change): _changed(inner, kind, change) for key, inner in value.items()}
    return tuple(_changed(inner, kind, change) for inner in value) if isinstance(value, tuple) else value


def with_nan():
    """The golden report without a single number that is known, but for what was asked for."""
    return replace(_changed(golden(), float, lambda number: NAN), margin=0.02, level=0.95)


def hostile():
    """The golden report with hostile names, notes and sentences."""
    known = (*_VERDICTS, "lower", "probability")
    report = _changed(golden(), str, lambda text: text if text in known else HOSTILE)
    return replace(report, verdict=findings.VIOLATED, reason=f"People who share {HOSTILE} pay more.")


def huge():
    """Many sets, long and foreign names, large numbers, no probabilities."""
    names = ["x" * 300, "数据" * 20, "מידע", "a $b$ c", *(f"group {i} + " + "word " * 12 for i in range(16))]
    e = findings.Estimate(-1.23456e12, 2e11, -2e12, 1e11)
    return bare(
        unit="units of the prediction",
        loss="squared error",
        margin=1.5e6,
        relative_margin=0.05,
        mean_prediction=3e7,
        penalties=(
            *(penalty(n, 1e12, findings.VIOLATED) for n in names),
            penalty("y" * 500, None, findings.NOT_TESTABLE),
        ),
        averages=tuple(findings.AveragePrediction(n, 10**9, 1e-9, 0.0, -1e20, 5e5) for n in names),
        comparability=tuple(findings.Comparability(n, 10**9, 10**10, e, 0.3, e, -1e12, 1e12) for n in names),
        within=tuple(
            findings.WithinSet(n, 10**9, e, 1e12, True, (findings.Part(f"{n} above 3", 10**9, e),)) for n in names
        ),
        balance=tuple(findings.Balance(n, 10**9, 1e12, 1e11, findings.Estimate(10, 1, 8, 12), e) for n in names),
        warnings=("w" * 400,),
        provenance=replace(bare().provenance, consent={n: (n, n) for n in names}, base_features=tuple(names)),
    )


class Reader(HTMLParser):
    """Checks that tags are balanced, and collects what there is."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.text, self.rows = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td") and self.rows:
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.text.append(data)
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1] = " ".join((self.rows[-1][-1] + " " + data).split())

    def get(self, wanted):
        return [value for _, key, value in self.attributes if key == wanted]


def number(text):
    return float(text.replace("−", "-").replace(",", "").rstrip("%"))


def table_after(page, caption):
    """Return header and rows of the first table whose caption starts so."""
    start = page.index("<table>", page.index(f"<caption>{caption}") - 200)
    header, *rows = Reader(page[start : page.index("</table>", start) + len("</table>")]).rows
    return header, rows
