"""Findings to render: nothing in them, too much in them, hostile names; and a reader of what was rendered."""

import math
from dataclasses import replace
from html.parser import HTMLParser

from pucboost._auditing import findings
from pucboost._auditing.results import AuditReport

HOSTILE = "<script>alert(1)</script>\"'&|`*_[x](y)$a$\x1b[31m\x00\n"

NAN = math.nan

NAMES = ["certified", "violated", "few", "bare", "nan", "huge", "hostile"]

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


def with_nan():
    e = findings.Estimate(NAN, NAN, NAN, NAN)
    comparison = findings.LossComparison("everybody", "unrestricted", 5, NAN, NAN, e)
    return bare(
        margin=0.02,
        critical_value=NAN,
        mean_prediction=NAN,
        penalties=(
            penalty(
                "a", NAN, findings.INCONCLUSIVE, estimate=e, verdict_lower=NAN, verdict_upper=math.inf, percent=NAN
            ),
            penalty("b", None, findings.NOT_TESTABLE),
        ),
        inference_from_silence=comparison,
        non_degradation=(comparison,),
        informativeness=(findings.Informativeness("a", NAN, NAN, NAN, NAN, NAN),),
        averages=(findings.AveragePrediction("a", 1, NAN, NAN, NAN, NAN),),
        sharing_effect=findings.SharingEffect(0, NAN, {}, NAN, NAN, None, None, findings.Histogram((), ())),
        balance=(findings.Balance("a", 1, NAN, NAN, e, e), findings.Balance("b", 1, 0.0, 0.0, None, e)),
        puc_gap=findings.PucGap(0.0, {"a": NAN}),
        calibration=(findings.Calibration("x", (findings.CalibrationBin(NAN, NAN, NAN, NAN, 1),)),),
        scatter=(findings.ScatterPoint(NAN, NAN),),
        recognition=findings.Recognition(
            5, (findings.RecognisedPeople("a", 2, NAN),), (findings.BaseFeature("b", "a", NAN, NAN, NAN, False),)
        ),
        comparability=(
            findings.Comparability("a", 1, 2, e, NAN, e, NAN, NAN),
            findings.Comparability("everything", 1, 1, e, None),
        ),
        within=(
            findings.WithinSet("a", 3, e, NAN, False),
            findings.WithinSet("b", 3, None, None, False, note="No direction found."),
        ),
    )


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


def hostile():
    names = (HOSTILE, f"{HOSTILE} + x")
    e = findings.Estimate(0.1, 0.01, 0.08, 0.12)
    return bare(
        verdict=findings.VIOLATED,
        reason=f"People who share {HOSTILE} pay more.",
        simultaneous=HOSTILE,
        loss=HOSTILE,
        penalties=(
            *(penalty(n, 0.1, findings.VIOLATED) for n in names),
            penalty("a", 0.1, findings.VIOLATED, subgroup=HOSTILE),
            penalty(HOSTILE, None, findings.NOT_TESTABLE, note=HOSTILE),
        ),
        inference_from_silence=findings.LossComparison(HOSTILE, HOSTILE, 5, 0.1, 0.2, e, HOSTILE),
        non_degradation=(findings.LossComparison(HOSTILE, HOSTILE, 5, 0.1, 0.2, e, HOSTILE),),
        informativeness=(findings.Informativeness(HOSTILE, 0.5, 0.1, 1.0, 0.01, 0.01, HOSTILE),),
        averages=(findings.AveragePrediction(HOSTILE, 1, 0.1, 0.1, 0.1, 0.1),),
        comparability=(findings.Comparability(HOSTILE, 1, 2, e, 0.3, e, 0.0, 0.2),),
        within=(
            findings.WithinSet(HOSTILE, 3, e, 0.08, True, (findings.Part(f"{HOSTILE} above 3", 2, e),)),
            findings.WithinSet(HOSTILE, 3, None, None, False, note=HOSTILE),
        ),
        balance=(findings.Balance(HOSTILE, 1, 0.1, 0.1, e, e),),
        support=findings.Support(1, (HOSTILE,), 3, 0, (findings.GroupSupport(HOSTILE, 0.5, 1, 1),), 10.0),
        puc_gap=findings.PucGap(0.01, {HOSTILE: 0.1}),
        calibration=(findings.Calibration(HOSTILE, (findings.CalibrationBin(0.1, 0.1, 0.05, 0.15, 9),)),),
        provenance=findings.Provenance(
            HOSTILE,
            9,
            0,
            5,
            100,
            HOSTILE,
            HOSTILE,
            HOSTILE,
            HOSTILE,
            {HOSTILE: (HOSTILE,)},
            (HOSTILE,),
            {HOSTILE: HOSTILE},
            HOSTILE,
            0.1,
        ),
        warnings=(HOSTILE,),
        recognition=findings.Recognition(
            9,
            (findings.RecognisedPeople(HOSTILE, 4, 0.99),),
            (findings.BaseFeature(HOSTILE, HOSTILE, 0.99, 1.0, 0.4, True),),
        ),
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
    start = page.index("<table>", page.index(f"<caption><span>{caption}") - 200)
    header, *rows = Reader(page[start : page.index("</table>", start) + len("</table>")]).rows
    return header, rows
