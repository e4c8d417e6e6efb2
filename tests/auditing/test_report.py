"""The audit as something to read: page, notebook box, model card, text, pictures."""

import html
import json
import math
import os
import pickle
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import pucboost as puc
from pucboost._auditing import results as r
from pucboost._auditing.report import wording
from pucboost._auditing.report.plotting import MAX_ROWS, PICTURES, shown_penalties
from pucboost._auditing.report.rendering import render_fragment, render_html, render_markdown, render_text
from pucboost.simulate import LogisticFamily

HOSTILE = "<script>alert(1)</script>\"'&|`*_[x](y)$a$\x1b[31m\x00\n"
NAN = math.nan
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PLOTS = ["plot_penalty", "plot_calibration", "plot_base_versus_model", "plot_sharing_effect", "plot_balance"]


# Reports --------------------------------------------------------------------------------------------------------------


def penalty(name, value=0.001, verdict=r.CERTIFIED, **changes):
    estimate = None if value is None else r.Estimate(value, 0.003, value - 0.006, value + 0.006)
    bounds = (None, None) if value is None else (value - 0.007, value + 0.007)
    known = r.Penalty(
        name=name, groups=(name,), subgroup=None, people=1234, comparable=5678, verdict=verdict,
        decisive=value is not None, estimate=estimate, verdict_lower=bounds[0], verdict_upper=bounds[1],
        percent=None if value is None else 1.5, mean_prediction=0.3, rows_to_decide=None, note="",
    )  # fmt: skip
    return replace(known, **changes)


def bare(**changes):
    """Return a report with nothing in it that may be missing."""
    report = r.AuditReport(
        verdict=r.INCONCLUSIVE, reason="No set is large enough.", margin=0.02, relative_margin=None, level=0.95,
        simultaneous="max-t", critical_value=2.3, loss="log loss", unit="probability", favourable="lower",
        mean_prediction=0.3, penalties=(),
        inference_from_silence=r.LossComparison("people who share nothing", "base features only", 0, None, None, None),
        non_degradation=(), informativeness=(), averages=(), sharing_effect=None, balance=(),
        support=r.Support(1, None, None, 0, (), 10.0), puc_gap=None, calibration=(), scatter=(),
        provenance=r.Provenance(
            "not a date", 0, 0, 5, 100, "the audit data", "abc", None, "callable", {}, (), {}, "LightGBM", 0.1
        ),
        warnings=(),
    )  # fmt: skip
    return replace(report, **changes)


def with_nan():
    e = r.Estimate(NAN, NAN, NAN, NAN)
    comparison = r.LossComparison("everybody", "unrestricted", 5, NAN, NAN, e)
    return bare(
        margin=0.02,
        critical_value=NAN,
        mean_prediction=NAN,
        penalties=(
            penalty("a", NAN, r.INCONCLUSIVE, estimate=e, verdict_lower=NAN, verdict_upper=math.inf, percent=NAN),
            penalty("b", None, r.NOT_TESTABLE),
        ),
        inference_from_silence=comparison,
        non_degradation=(comparison,),
        informativeness=(r.Informativeness("a", NAN, NAN, NAN, NAN, NAN),),
        averages=(r.AveragePrediction("a", 1, NAN, NAN, NAN, NAN),),
        sharing_effect=r.SharingEffect(0, NAN, {}, NAN, NAN, None, None, r.Histogram((), ())),
        balance=(r.Balance("a", 1, NAN, NAN, e, e), r.Balance("b", 1, 0.0, 0.0, None, e)),
        puc_gap=r.PucGap(0.0, {"a": NAN}),
        calibration=(r.Calibration("x", (r.CalibrationBin(NAN, NAN, NAN, NAN, 1),)),),
        scatter=(r.ScatterPoint(NAN, NAN),),
    )


def huge():
    """Many sets, long and foreign names, large numbers, no probabilities."""
    names = ["x" * 300, "数据" * 20, "מידע", "a $b$ c", *(f"group {i} + " + "word " * 12 for i in range(16))]
    e = r.Estimate(-1.23456e12, 2e11, -2e12, 1e11)
    return bare(
        unit="units of the prediction",
        loss="squared error",
        margin=1.5e6,
        relative_margin=0.05,
        mean_prediction=3e7,
        penalties=(*(penalty(n, 1e12, r.VIOLATED) for n in names), penalty("y" * 500, None, r.NOT_TESTABLE)),
        averages=tuple(r.AveragePrediction(n, 10**9, 1e-9, 0.0, -1e20, 5e5) for n in names),
        balance=tuple(r.Balance(n, 10**9, 1e12, 1e11, r.Estimate(10, 1, 8, 12), e) for n in names),
        warnings=("w" * 400,),
        provenance=replace(bare().provenance, consent={n: (n, n) for n in names}, base_features=tuple(names)),
    )


def hostile():
    names = (HOSTILE, f"{HOSTILE} + x")
    e = r.Estimate(0.1, 0.01, 0.08, 0.12)
    return bare(
        verdict=r.VIOLATED,
        reason=f"People who share {HOSTILE} pay more.",
        simultaneous=HOSTILE,
        loss=HOSTILE,
        penalties=(
            *(penalty(n, 0.1, r.VIOLATED) for n in names),
            penalty("a", 0.1, r.VIOLATED, subgroup=HOSTILE),
            penalty(HOSTILE, None, r.NOT_TESTABLE, note=HOSTILE),
        ),
        inference_from_silence=r.LossComparison(HOSTILE, HOSTILE, 5, 0.1, 0.2, e, HOSTILE),
        non_degradation=(r.LossComparison(HOSTILE, HOSTILE, 5, 0.1, 0.2, e, HOSTILE),),
        informativeness=(r.Informativeness(HOSTILE, 0.5, 0.1, 1.0, 0.01, 0.01, HOSTILE),),
        averages=(r.AveragePrediction(HOSTILE, 1, 0.1, 0.1, 0.1, 0.1),),
        balance=(r.Balance(HOSTILE, 1, 0.1, 0.1, e, e),),
        support=r.Support(1, (HOSTILE,), 3, 0, (r.GroupSupport(HOSTILE, 0.5, 1, 1),), 10.0),
        puc_gap=r.PucGap(0.01, {HOSTILE: 0.1}),
        calibration=(r.Calibration(HOSTILE, (r.CalibrationBin(0.1, 0.1, 0.05, 0.15, 9),)),),
        provenance=r.Provenance(
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
    )


@pytest.fixture(scope="module")
def reports():
    family = LogisticFamily.teaser()
    people = family.sample(2000, seed=0)
    settings = {"optional": family.optional, "margin": 0.05, "num_threads": 1}
    certified = puc.audit(family.puc_prediction, people.X, people.y, truth=family, **settings)

    def surcharge(X):
        return family.puc_prediction(X) * 0.9 + 0.1 * (X != X).any(axis=1)  # NaN is what is withheld

    older = people.X[:, 0] > 0
    violated = puc.audit(surcharge, people.X, people.y, subgroups={"older": older}, **settings)
    few = puc.audit(family.puc_prediction, people.X[:250], people.y[:250], **settings)
    return {
        "certified": certified,
        "violated": violated,
        "few": few,
        "bare": bare(),
        "nan": with_nan(),
        "huge": huge(),
        "hostile": hostile(),
    }


NAMES = ["certified", "violated", "few", "bare", "nan", "huge", "hostile"]


@pytest.fixture(scope="module")
def pages(reports):
    return {name: render_html(report) for name, report in reports.items()}


# Reading what was written ---------------------------------------------------------------------------------------------

VOID = {"meta", "br", "hr", "img", "link", "input"}


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


@pytest.mark.parametrize("name", NAMES)
def test_page_is_well_formed_and_loads_nothing(pages, name):
    page = pages[name]
    read = Reader(page)
    assert page.startswith("<!DOCTYPE html>")
    assert ("html", "lang", "en") in read.attributes
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(read.tags)
    assert not [key for _, key, _ in read.attributes if key.startswith("on") or key in ("src", "srcset", "action")]
    assert "@import" not in page
    assert not re.findall(r"url\((?!#)", page)
    assert "://" not in page
    assert all(target.startswith("#") for target in read.get("href"))
    headings = [tag for tag in read.tags if re.fullmatch("h[1-6]", tag)]
    assert headings == ["h1"] + ["h2"] * (len(headings) - 1)


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_unique_and_references_resolve(pages, name):
    read = Reader(pages[name])
    ids = read.get("id")
    assert len(ids) == len(set(ids))
    referred = [target[1:] for target in read.get("href")] + re.findall(r"url\(#([^)]+)\)", pages[name])
    assert set(referred) | set(read.get("aria-labelledby")) <= set(ids)


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_xml_in_the_colours_of_the_page(reports, pages, name):
    pictures = re.findall(r'<svg viewBox[^>]* class="plot">.*?</svg>', pages[name], flags=re.DOTALL)
    expected = sum(not picture.missing(reports[name]) for picture in PICTURES.values())
    assert len(pictures) == pages[name].count('class="plot"') == expected
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.attrib["role"] == "img"
        assert root.attrib["aria-label"]
        styles = " ".join(element.attrib.get("style", "") for element in root.iter())
        assert "var(--" in styles
        assert not re.search(r"#[0-9a-fA-F]{6}|font-family|black|white", styles)
        assert "metadata" not in picture
        assert "Date" not in picture


@pytest.mark.parametrize("render", [render_html, render_fragment])
def test_text_from_users_is_escaped(render):
    page = render(hostile())
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\x00" not in page
    shown = "".join(Reader(page).text)
    assert "People who share <script>alert(1)</script>\"'&|`*_[x](y)$a$ [31m  pay more." in shown
    plain = re.sub(r"<(?!/?[a-z!][^>]*>)", "", page)
    assert "alert(1)" in plain  # shown, not dropped


def test_names_in_pictures_are_not_formulas(pages):
    assert "a $b$ c" in pages["huge"]


@pytest.mark.parametrize("name", ["certified", "violated", "few"])
def test_penalty_table_has_the_numbers_of_the_report(reports, pages, name):
    report = reports[name]
    header, rows = table_after(pages[name], "Average penalty by what people share")
    shown = [p for p in report.penalties if p.subgroup is None and p.verdict != r.NOT_TESTABLE]
    assert len(rows) == len(shown)
    for row, p in zip(rows, shown, strict=True):
        cells = dict(zip(header, row, strict=True))
        assert cells["Shares exactly"].startswith(p.name)
        assert cells["Verdict"] == p.verdict
        assert number(cells["Penalty"]) == pytest.approx(100 * p.estimate.value, abs=0.0051)
        assert number(cells["People"]) == p.people
        assert number(cells["Compared with"]) == p.comparable
        assert number(cells["% of mean prediction"]) == pytest.approx(p.percent, abs=0.051)
        for column, lower, upper in (
            ("95% interval", p.estimate.lower, p.estimate.upper),
            ("Verdict interval", p.verdict_lower, p.verdict_upper),
        ):
            ends = [number(end) for end in cells[column].split(" to ")]
            assert ends == pytest.approx([100 * lower, 100 * upper], abs=0.0051)
        if p.rows_to_decide is not None:
            assert number(cells["Rows to decide"]) == p.rows_to_decide


def test_subgroups_have_a_table_of_their_own(reports, pages):
    header, rows = table_after(pages["violated"], "Average penalty in subgroup older")
    expected = [p for p in reports["violated"].penalties if p.subgroup == "older" and p.estimate]
    assert [number(row[header.index("Penalty")]) for row in rows] == pytest.approx(
        [100 * p.estimate.value for p in expected], abs=0.0051
    )


def test_what_was_not_tested_is_listed_without_a_number():
    report = bare(penalties=(penalty("blood", 0.01), penalty("rare", None, r.NOT_TESTABLE, note="Too few.", people=7)))
    for rendered in (render_html(report), render_fragment(report)):
        assert "rare" not in [row[0] for row in Reader(rendered).rows]
        assert re.search(r"<li>(<strong>)?rare:(</strong>)? Too few\.</li>", rendered)
    assert "- rare: Too few." in render_markdown(report)
    assert "  rare: Too few." in render_text(report)


def test_verdict_stands_first_in_words(pages, reports):
    for name in ("certified", "violated"):
        read = Reader(pages[name])
        words = " ".join("".join(read.text).split())
        assert words.index(reports[name].reason) < words.index("What was asked")
        assert f"Consent audit: {reports[name].verdict}" in words
    assert "violated" in pages["violated"]


def test_warnings_stand_near_the_top():
    page = render_html(bare(warnings=("Mind the gap.",)))
    assert page.index("Mind the gap.") < page.index("What was asked")
    assert "  - Mind the gap." in render_text(bare(warnings=("Mind the gap.",)))


def test_certified_says_where_silence_means_nothing():
    quiet = (r.Informativeness("a", 0.5, 0.0, 0.1, 0.9, 0.9),)
    loud = (r.Informativeness("a", 0.5, -0.2, -9.0, 1e-9, 1e-9),)
    words = "no merit of the model"
    assert words in render_text(bare(verdict=r.CERTIFIED, informativeness=quiet))
    assert words not in render_text(bare(verdict=r.CERTIFIED, informativeness=loud))
    assert words not in render_text(bare(verdict=r.VIOLATED, informativeness=quiet))
    assert "those who withhold have higher outcomes" in render_html(bare(informativeness=loud))


def test_loss_comparisons_are_marked_and_read_the_right_way():
    better = r.LossComparison("everybody", "base features only", 5, 0.1, 0.2, r.Estimate(-0.1, 0.01, -0.12, -0.08))
    page = render_html(bare(inference_from_silence=better, non_degradation=(better,)))
    assert "not decisive" in page
    assert "AIR fails" in page
    assert "audited model better" in page


def test_quantiles_have_no_percentage_of_a_probability():
    report = bare(unit="probability of lying below the quoted 0.9 quantile", penalties=(penalty("a", 0.01),))
    page = render_html(replace(report, mean_prediction=2500.0, averages=(r.AveragePrediction("a", 1, 2500, 1, 1, 1),)))
    assert "% of mean prediction" not in page
    assert "percentage points" in page
    assert "2,500" in page  # amounts are not probabilities
    assert "τ" in page


def test_verdicts_that_are_not_joint_are_not_said_to_be():
    alone = bare(simultaneous="none: each interval holds for itself only", penalties=(penalty("a"), penalty("b")))
    together = replace(alone, simultaneous="max-t: the quantile")
    assert "kept valid together" in render_html(together)
    assert "kept valid together" not in render_html(alone)
    assert "judged together" not in render_html(alone)
    assert "No allowance is made" in render_markdown(alone)


def test_limits_and_provenance_are_stated(reports, pages):
    report = reports["certified"]
    for text in (pages["certified"], render_markdown(report)):
        assert "What this audit cannot say" in text
        assert "Averages, not individuals." in text
        assert report.provenance.data_hash in text
        assert f"numpy {report.provenance.versions['numpy']}" in text
        assert "seed 0, 5 folds" in text


# Safe, and the same every time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("render", [render_html, render_fragment, render_markdown, render_text])
@pytest.mark.parametrize("name", ["bare", "nan"])
def test_what_is_missing_is_shown_as_missing(reports, render, name):
    written = render(reports[name])
    words = " ".join(Reader(written).text) if written.lstrip().startswith("<") else written
    assert not re.search(r"\b(nan|inf|None)\b", words)


def test_page_depends_on_the_report_alone(reports, pages, tmp_path):
    with matplotlib.rc_context():
        matplotlib.style.use("dark_background")
        matplotlib.rcParams.update({"font.size": 30, "text.usetex": True, "svg.fonttype": "path", "figure.dpi": 200})
        assert render_html(reports["certified"]) == pages["certified"]
    # Another process: other addresses and hashes, and neither pyplot nor a backend is touched.
    (tmp_path / "report.pkl").write_bytes(pickle.dumps(reports["certified"]))
    program = """
import pathlib, pickle, sys
report = pickle.loads(pathlib.Path("report.pkl").read_bytes())
page = report.to_html("page.html")
assert pathlib.Path("page.html").read_text(encoding="utf-8") == page
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=_environment(), check=True, timeout=300)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == pages["certified"]


def _environment():
    path = os.pathsep.join([*sys.path, str(Path(puc.__file__).parent.parent)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "7"}


def test_rendering_leaves_matplotlib_as_it_was(reports):
    import matplotlib.pyplot as plt

    before = dict(matplotlib.rcParams), matplotlib.get_backend(), plt.get_fignums()
    render_html(reports["violated"])
    assert (dict(matplotlib.rcParams), matplotlib.get_backend(), plt.get_fignums()) == before


def test_writes_the_whole_file_or_nothing(reports, pages, tmp_path):
    target = tmp_path / "audit.html"
    assert reports["huge"].to_html(target) == pages["huge"]
    assert target.read_bytes() == pages["huge"].encode("utf-8")
    with pytest.raises(OSError, match="missing"):
        reports["huge"].to_html(tmp_path / "missing" / "audit.html")
    assert [path.name for path in tmp_path.iterdir()] == ["audit.html"]


def test_notebook_box_is_small_and_scoped(reports):
    box = reports["certified"]._repr_html_()
    Reader(box)
    assert len(box) < 20_000
    rules = re.search(r"<style>(.*?)</style>", box, flags=re.DOTALL)[1].strip().splitlines()
    assert all(
        selector.strip().startswith(".puc-audit") for rule in rules for selector in rule.split("{")[0].split(",")
    )
    assert not Reader(box).get("id")  # several boxes may stand in one notebook


# Markdown and text ----------------------------------------------------------------------------------------------------


def test_markdown_table_has_as_many_cells_in_every_row():
    text = render_markdown(hostile())
    rows = [line for line in text.splitlines() if line.startswith("|")]
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in rows}
    assert bars == {9}
    assert "<" not in text
    assert r"\|\`\*\_\[x\](y)\$a\$" in text
    assert rows[1] == "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"


def test_text_is_aligned_in_columns_of_the_terminal():
    names = ["short", "数据" * 8, "x" * 300, "é́"]
    report = bare(penalties=tuple(penalty(n, v) for n, v in zip(names, (0.001, -0.5, 0.12, -0.001), strict=True)))
    lines = render_text(report).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  Shares exactly"))
    table = lines[start : start + 5]
    ends = [wording.columns_of(line[: re.search(r"(Verdict|certified)$", line).start()]) for line in table]
    assert len(set(ends)) == 1
    assert "x" * 60 not in "".join(table)
    assert "−50.00" in table[2]


def test_text_says_what_is_only_for_comparison():
    report = bare(penalties=(penalty("everything", 0.001, decisive=False),))
    assert "everything (withholds nothing; does not count)" in render_text(report)


def test_text_steers_no_terminal():
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", render_text(hostile()))


def test_print_shows_text(reports):
    assert str(reports["violated"]).startswith("Consent audit: VIOLATED\n")


# Numbers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "decimals", "signed", "text"),
    [
        (1234.5, 1, False, "1,234.5"),
        (-0.004, 2, True, "0.00"),
        (-0.5, 2, True, "−0.50"),
        (0.5, 0, True, "0"),
        (3, 0, True, "+3"),
        (None, 2, True, "–"),
        (NAN, 2, True, "–"),
        (-math.inf, 2, True, "–"),
        (-1.23456e12, 2, False, "−1.235×10¹²"),
    ],
)
def test_fixed(value, decimals, signed, text):
    assert wording.fixed(value, decimals, signed=signed) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.000"), (0.45266, "0.4527"), (7482915.1, "7,482,915"), (1.2e-7, "1.200×10⁻⁷"), (None, "–")],
)
def test_significant(value, text):
    assert wording.significant(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1, "100%"), (0, "0%"), (0.99999, "99.9%"), (1e-9, "0.1%"), (0.123, "12.3%"), (NAN, "–")]
)
def test_share_is_not_rounded_to_all_or_nothing(value, text):
    assert wording.share(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0004, "< 0.001"), (0.0499, "0.050"), (1, "1.000"), (None, "–")])
def test_p_value(value, text):
    assert wording.p_value(value) == text


# Pictures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plot", PLOTS)
@pytest.mark.parametrize("name", ["certified", "violated", "bare", "nan", "hostile"])
def test_plots_draw_on_the_axes_given(reports, plot, name):
    ax = Figure(layout="constrained").add_subplot()
    assert getattr(reports[name], plot)(ax) is ax
    assert ax.texts or ax.lines or ax.patches
    ax.figure.draw_without_rendering()
    if name == "bare":
        assert len(ax.texts) >= 1
        assert not ax.axison


def test_plots_make_a_figure_that_notebooks_show(reports, monkeypatch):
    monkeypatch.setitem(matplotlib.rcParams, "backend", "agg")
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    ax = reports["certified"].plot_penalty()
    assert isinstance(ax, Axes)
    assert set(plt.get_fignums()) - set(before) == {ax.figure.number}
    plt.close(ax.figure)


def test_of_many_penalties_the_graver_ones_are_drawn():
    report = bare(
        penalties=(
            penalty("all who withhold something", groups=None),
            *(penalty(f"set {i}") for i in range(38)),
            penalty("last", 0.5, r.VIOLATED),
        )
    )
    shown, left_out = shown_penalties(report)
    assert len(shown) == MAX_ROWS
    assert left_out == 40 - MAX_ROWS
    assert [shown[0].name, shown[1].name, shown[-1].name] == ["all who withhold something", "set 0", "last"]
    assert f"{left_out} more: see table" in render_html(report)


def test_sharing_that_changes_nothing_is_said_in_words(reports):
    effect = reports["certified"].sharing_effect
    same = replace(effect, mean=0.0, histogram=r.Histogram((-0.1, 0.0, 0.1), (0.0, 1.0)))
    page = render_html(bare(sharing_effect=same))
    assert "Sharing does not change any prediction." in page


# In a browser ---------------------------------------------------------------------------------------------------------


def _luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_have_contrast_in_light_dark_and_print(pages):
    themes = re.findall(r":root \{(.*?)\}", pages["certified"], flags=re.DOTALL)
    assert len(themes) == 3
    light, dark, paper = (dict(re.findall(r"--([\w-]+): (#\w{6})", theme)) for theme in themes)
    assert light == paper
    for theme in (light, dark):
        for text in ("ink", "soft", "accent", "certified", "violated", "inconclusive", "not-testable"):
            grounds = ["paper", "raised"] + ([f"{text}-box"] if f"{text}-box" in theme else [])
            grounds += ["certified-box", "violated-box", "inconclusive-box"] if text in ("ink", "soft") else []
            for ground in grounds:
                a, b = sorted((_luminance(theme[text]), _luminance(theme[ground])))
                assert (b + 0.05) / (a + 0.05) >= 4.5, (text, ground)


MEASURE = """
<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>FRAMES<pre id="found"></pre><script>
const found = [];
addEventListener("load", () => {
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, root = page.documentElement;
    const sizes = [...page.querySelectorAll(".plot text")].map(text => {
      const m = text.getScreenCTM();
      return parseFloat(frame.contentWindow.getComputedStyle(text).fontSize) * Math.hypot(m.a, m.b);
    });
    const outside = [...page.querySelectorAll(".plot")].flatMap(plot => {
      const box = plot.getBoundingClientRect();
      return [...plot.querySelectorAll("text")].filter(text => {
        const t = text.getBoundingClientRect();
        return t.left < box.left - 3 || t.right > box.right + 3;
      }).map(text => text.textContent);
    });
    found.push({
      page: frame.dataset.page, width: frame.contentWindow.innerWidth, scroll: root.scrollWidth,
      body: page.body.scrollWidth, verdict: page.querySelector(".verdict h2").textContent.trim(),
      dark: frame.contentWindow.getComputedStyle(page.body).backgroundColor, smallest: Math.min(99, ...sizes), outside,
    });
  }
  document.getElementById("found").textContent = JSON.stringify(found);
});
</script></body></html>
"""


def _chromium(*arguments, tmp_path):
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", profile)
    done = subprocess.run([CHROMIUM, *flags, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_page_in_a_browser(reports, pages, tmp_path):
    frames = "".join(
        f'<iframe data-page="{name}" style="border: 0; width: {width}px; height: 600px; color-scheme: {scheme}" '
        f'srcdoc="{html.escape(pages[name])}"></iframe>'
        for name in ("certified", "violated", "huge", "hostile", "bare")
        for width, scheme in ((360, "light"), (800, "dark"), (1280, "light"))
    )
    (tmp_path / "wrapper.html").write_text(MEASURE.replace("FRAMES", frames), encoding="utf-8")
    dom = _chromium(
        "--virtual-time-budget=10000", "--dump-dom", (tmp_path / "wrapper.html").as_uri(), tmp_path=tmp_path
    )
    found = json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', dom, flags=re.DOTALL)[1]))
    assert len(found) == 15
    for page in found:
        assert page["scroll"] <= page["width"], page  # nothing scrolls sideways
        assert page["body"] <= page["width"], page
        assert page["smallest"] >= 9, page
        assert page["outside"] == [], page
        assert page["dark"] == ("rgb(20, 24, 29)" if page["width"] == 800 else "rgb(255, 255, 255)")
        assert page["verdict"] == reports[page["page"]].verdict


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_page_can_be_photographed_and_printed(reports, tmp_path):
    reports["violated"].to_html(tmp_path / "audit.html")
    address = (tmp_path / "audit.html").as_uri()
    dom = _chromium(
        f"--screenshot={tmp_path / 'shot.png'}", "--window-size=1280,900", "--dump-dom", address, tmp_path=tmp_path
    )
    assert reports["violated"].reason in html.unescape(dom)
    _chromium(f"--print-to-pdf={tmp_path / 'audit.pdf'}", address, tmp_path=tmp_path)
    assert (tmp_path / "audit.pdf").read_bytes().startswith(b"%PDF")
