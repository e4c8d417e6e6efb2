"""How an audit is shown: the golden report, pages, a notebook box, a model card, plain text, plots."""

import json
import math
import os
import pickle
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from audit_tools import HARMLESS, audit
from auditing.golden import write
from auditing.report_examples import GOLDEN, NAN, Reader, bare, golden, hostile, number, penalty, table_after
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import pucboost as puc
from pucboost._auditing import blocks, findings
from pucboost._auditing.plots import MAX_ROWS, PLOTS, shown_penalties
from pucboost._auditing.report import CHAPTERS, render_fragment, render_html, render_markdown, render_text
from pucboost._auditing.settings import counted, people_in_words, roughly


def test_golden_report():
    """What ``python tests/auditing/golden/write.py`` writes is what is stored."""
    for name, text in write.written().items():
        assert text == (GOLDEN / name).read_text(encoding="utf-8"), name


def test_golden_report_is_read_whole():
    stored = json.loads((GOLDEN / "report.json").read_text(encoding="utf-8"))
    assert golden().to_dict() == {"schema_version": 3, "passed": False, **stored}


# Pages ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["golden", "certified", "bare", "nan", "huge", "hostile"])
def test_page_is_well_formed_and_loads_nothing(reports, pages, name):
    page = pages[name]
    read = Reader(page)
    assert page.startswith("<!DOCTYPE html>")
    assert ("html", "lang", "en") in read.attributes
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(read.tags)
    assert not [key for _, key, _ in read.attributes if key.startswith("on") or key in ("src", "srcset", "action")]
    assert "@import" not in page
    assert not re.findall(r"url\((?!#)", page)
    assert "://" not in page
    levels = [int(tag[1]) for tag in read.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(2 <= level <= before + 1 for before, level in pairwise(levels))  # no level is skipped
    assert read.tags.count("details") == read.tags.count("summary") == 4
    assert ("details", "open", None) not in read.attributes
    # Ids are unique, and references resolve within the page.
    ids, targets = read.get("id"), read.get("href")
    assert len(ids) == len(set(ids))
    assert all(target.startswith("#") for target in targets)
    referred = [target[1:] for target in targets] + re.findall(r"url\(#([^)]+)\)", page)
    assert set(referred) | set(read.get("aria-labelledby")) <= set(ids)
    # Pictures are XML in the colours of the page.
    pictures = re.findall(r'<svg viewBox[^>]* class="plot">.*?</svg>', page, flags=re.DOTALL)
    expected = sum(not picture.missing(reports[name]) for picture in PLOTS.values())
    assert len(pictures) == page.count('class="plot"') == expected
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.attrib["role"] == "img"
        assert root.attrib["aria-label"]
        styles = " ".join(element.attrib.get("style", "") for element in root.iter())
        assert "var(--" in styles
        assert not re.search(r"#[0-9a-fA-F]{6}|font-family|black|white", styles)
        assert "metadata" not in picture
        assert "Date" not in picture


def test_text_from_users_is_escaped(pages):
    for render in (render_html, render_fragment):
        page = render(hostile())
        assert not re.search("<script|\x1b|\x00", page)
        shown = "".join(Reader(page).text)
        assert "People who share <script>alert(1)</script>\"'&|`*_[x](y)$a$ [31m  pay more." in shown
    assert "a $b$ c" in pages["huge"]  # names in pictures are not formulas
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", render_text(hostile()))  # and steer no terminal


def test_penalty_table_has_the_numbers_of_the_report(pages):
    header, rows = table_after(pages["golden"], "Average penalty by what people share")
    shown = [p for p in golden().penalties if p.subgroup is None and p.verdict != findings.NOT_TESTABLE]
    assert len(rows) == len(shown) == 5
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
        assert cells["Rows to decide"] == ("–" if p.rows_to_decide is None else roughly(p.rows_to_decide))
        if p.difference is not None:
            shown = cells["Above those who share everything"]
            value, *ends = (number(part) for part in re.findall(r"[+−]?[\d.]+", shown))
            assert value == pytest.approx(100 * p.difference.value, abs=0.0051)
            assert ends == pytest.approx([100 * p.difference.lower, 100 * p.difference.upper], abs=0.0051)


def test_every_section_is_in_one_chapter_of_the_golden_page(pages):
    read = Reader(pages["golden"])
    sections = [make.__name__ for chapter in CHAPTERS.values() for _, _, make in chapter]
    assert len(sections) == len(set(sections)) == 16
    first_sheet = {"verdict", "notices", "coverage", "picture"}
    chapters = {f"chapter-{i}" for i in range(1, 5)}
    assert set(read.get("aria-labelledby")) == {*first_sheet, *chapters, *sections}


def test_first_sheet_counts_those_who_were_not_tested(reports):
    """509 people who share steps were not tested in the certified report."""
    tested = [p for p in reports["certified"].penalties if p.groups is not None and p.subgroup is None]
    withhold = reports["certified"].support.withholding_people
    covered = sum(p.people for p in tested)
    assert (covered, withhold) == (1250, 1759)
    for render in (render_html, render_fragment, render_markdown, render_text):
        written = render(reports["certified"])
        words = " ".join(" ".join(Reader(written).text).split()) if written.lstrip().startswith("<") else written
        for fact in (
            f"{withhold:,} (70.4% of all)",
            f"{covered:,} ({covered / withhold:.1%}), in {len(tested)} sets, and 1 within subgroups",
            f"{withhold - covered} ({1 - covered / withhold:.1%})",
        ):
            assert fact in words


def test_only_a_full_pass_is_green():
    """A verdict that the page does not know is amber, whatever its words."""
    known = (findings.CERTIFIED, findings.VIOLATED, findings.VIOLATED_FOR_SOME, findings.INCONCLUSIVE)
    tones = [blocks.tone(verdict) for verdict in (*known, "certified in part")]
    assert tones == ["certified", "violated", "violated", "inconclusive", "inconclusive"]


def test_what_is_missing_is_shown_as_missing(reports):
    for render in (render_html, render_fragment, render_markdown, render_text):
        for name in ("bare", "nan"):
            written = render(reports[name])
            words = " ".join(Reader(written).text) if written.lstrip().startswith("<") else written
            assert not re.search(r"\b(nan|inf|None)\b", words)


def test_page_depends_on_the_report_alone(reports, pages, tmp_path):
    with matplotlib.rc_context():
        matplotlib.style.use("dark_background")
        matplotlib.rcParams.update({"font.size": 30, "text.usetex": True, "svg.fonttype": "path", "figure.dpi": 200})
        assert render_html(reports["golden"]) == pages["golden"]
    # Another process: other addresses and hashes, and neither pyplot nor a backend is touched.
    (tmp_path / "report.pkl").write_bytes(pickle.dumps(reports["golden"]))
    program = """
import pathlib, pickle, sys
report = pickle.loads(pathlib.Path("report.pkl").read_bytes())
page = report.to_html("page.html")
assert pathlib.Path("page.html").read_text(encoding="utf-8") == page
assert "matplotlib.pyplot" not in sys.modules
"""
    path = os.pathsep.join([*sys.path, str(Path(puc.__file__).parent.parent)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True, timeout=300)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == pages["golden"]


def test_rendering_leaves_matplotlib_as_it_was(reports):
    import matplotlib.pyplot as plt

    before = dict(matplotlib.rcParams), matplotlib.get_backend(), plt.get_fignums()
    render_html(reports["golden"])
    assert (dict(matplotlib.rcParams), matplotlib.get_backend(), plt.get_fignums()) == before


def test_writes_the_whole_file_or_nothing(reports, pages, tmp_path):
    target = tmp_path / "audit.html"
    assert reports["bare"].to_html(target) == pages["bare"]
    assert target.read_bytes() == pages["bare"].encode("utf-8")
    with pytest.raises(OSError, match="missing"):
        reports["bare"].to_html(tmp_path / "missing" / "audit.html")
    assert [path.name for path in tmp_path.iterdir()] == ["audit.html"]


def test_notebook_box_is_small_and_scoped(reports):
    box = reports["golden"]._repr_html_()
    Reader(box)
    assert len(box) < 20_000
    rules = re.search(r"<style>(.*?)</style>", box, flags=re.DOTALL)[1].strip().splitlines()
    assert all(
        selector.strip().startswith(".puc-audit") for rule in rules for selector in rule.split("{")[0].split(",")
    )
    assert not Reader(box).get("id")  # several boxes may stand in one notebook


# Model cards, plain text, numbers -------------------------------------------------------------------------------------


def test_markdown_tables_have_as_many_cells_in_every_row():
    text = render_markdown(hostile())
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    assert len(tables) == 2
    for rows in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in rows}) == 1
    assert "<" not in text
    assert r"\|\`\*\_\[x\](y)\$a\$" in text


def test_text_is_aligned_in_columns_of_the_terminal():
    names = ["short", "数据" * 8, "x" * 100, "é́"]
    report = bare(penalties=tuple(penalty(n, v) for n, v in zip(names, (0.001, -0.5, 0.12, -0.001), strict=True)))
    lines = render_text(report).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  Shares exactly"))
    table = lines[start : start + 7]
    ends = [
        blocks.columns_of(line[: found.start()])
        for line in table
        if (found := re.search(r"(Verdict|certified)$", line))
    ]
    assert len(ends) == 5
    assert len(set(ends)) == 1
    assert "−50.00" in table[2]
    # A long name goes on in further lines and is not cut.
    assert [line.strip() for line in table[4:6]] == ["x" * 48, "xxxx"]
    assert table[3].startswith("  " + "x" * 48 + "  ")


def test_numbers_as_people_read_them():
    for value, decimals, signed, text in (
        (1234.5, 1, False, "1,234.5"), (-0.004, 2, True, "0.00"), (-0.5, 2, True, "−0.50"), (0.5, 0, True, "0"),
        (3, 0, True, "+3"), (None, 2, True, "–"), (NAN, 2, True, "–"), (-math.inf, 2, True, "–"),
        (-1.23456e12, 2, False, "−1.235×10¹²"),
    ):  # fmt: skip
        assert blocks.fixed(value, decimals, signed=signed) == text
    for show, known in (
        (blocks.significant, {0: "0.000", 0.45266: "0.4527", 7482915.1: "7,482,915", 1.2e-7: "1.200×10⁻⁷", None: "–"}),
        # A share is not rounded to all or nothing.
        (blocks.share, {1: "100%", 0: "0%", 0.99999: "99.9%", 1e-9: "0.1%", 0.123: "12.3%", NAN: "–"}),
        (blocks.p_value, {0.0004: "< 0.001", 0.0499: "0.050", 1: "1.000", None: "–"}),
        (roughly, {7: "7", 640: "640", 999: "1,000", 7_000: "7,000", 12_345: "12,000", 999_999: "1 million"}),
        (roughly, {2_575_612: "2.6 million", 257_561: "260,000", 30_000_000: "30 million", 7.249e9: "7.2 billion"}),
        (people_in_words, {0: "0 people", 1: "1 person", 2: "2 people", 1500: "1,500 people"}),
    ):
        assert {value: show(value) for value in known} == known
    assert counted(1, "row is", "rows are") == "1 row is"


def test_one_person_is_not_one_people():
    """One person alone shares blood, one weight is 0: no sentence of the report says 1 people or 1 rows."""
    people = HARMLESS.sample(600, 0)
    X = np.column_stack([people.X, np.where(np.arange(600) == 5, 1.0, np.nan)])
    options = {"optional": {"app": [2], "blood": [3]}, "margin": 0.5, "num_threads": 1, "folds": 3}
    model = lambda table: HARMLESS.puc_prediction(table[:, :3])  # noqa: E731
    report = puc.audit(model, X, people.y, weight=np.arange(600) != 7, **options)
    written = " ".join(Reader(report.to_html()).text) + report.to_markdown() + str(report)
    assert not re.search(r"(?<![\d,.])1 (people|rows|clusters|sets|such people)\b", written)
    assert "1 row with weight 0 is left out." in written
    assert "1 person shares more than they do; at least 30 are needed" in written
    assert report.support.withholding_people == 599 - (not np.isnan(X[5]).any())


def test_people_who_share_nothing_come_first_among_the_untested():
    rng = np.random.default_rng(0)
    shares = rng.random((1000, 4)) < 0.5
    shares[:, 0] |= ~shares.any(axis=1)
    shares[:20] = False
    shares[20:150] = [True, False, False, False]  # the one set that is large enough
    X = np.column_stack([rng.normal(size=1000), np.where(shares, 1.0, np.nan)])
    y = (rng.random(1000) < 0.5).astype(float)
    report = puc.audit(
        lambda table: np.full(len(table), 0.5), X, y, optional=[1, 2, 3, 4], margin=0.3, min_count=100,
        num_threads=1, folds=3,
    )  # fmt: skip
    untested = [p for p in report.penalties if p.verdict == findings.NOT_TESTABLE]
    assert len(untested) > 5
    assert untested[0].name == "nothing"
    assert "above all people who share nothing: 20 people, fewer than the 100 that a test on their own" in report.reason


def test_too_high_for_everybody_is_told_from_a_penalty_of_silence():
    people = HARMLESS.sample(6000, 0)
    everybody, silence = (
        audit(model, people, HARMLESS, margin=0.06, loss="squared", folds=3)
        for model in (
            lambda X: HARMLESS.puc_prediction(X) + 0.15,
            lambda X: HARMLESS.puc_prediction(X) + 0.15 * np.isnan(X[:, 2]),
        )
    )
    assert everybody.verdict == silence.verdict == "violated"
    one, other = (next(p for p in r.penalties if p.name == "nothing").difference for r in (everybody, silence))
    assert one.lower < 0 < one.upper
    assert 0 < other.lower < 0.15 < other.upper
    table = silence.penalty.set_index("shares")
    assert table.loc["nothing", "difference"] == other.value
    assert np.isnan(table.loc["everything", "difference"])
    words = "it is wrong for everybody, rather than hard on silence"
    for render in (render_html, render_markdown, render_text):
        assert words in render(everybody)
        assert words not in render(silence)


# Plots ----------------------------------------------------------------------------------------------------------------


def test_plots_draw_on_the_axes_given(reports):
    for name in ("golden", "bare", "nan", "hostile"):
        for plot in PLOTS:
            ax = Figure(layout="constrained").add_subplot()
            assert getattr(reports[name], f"plot_{plot.replace('-', '_')}")(ax) is ax
            assert ax.texts or ax.lines or ax.patches
            ax.figure.draw_without_rendering()
            if name == "bare":
                assert len(ax.texts) >= 1
                assert not ax.axison


def test_plots_make_a_figure_that_notebooks_show(reports, monkeypatch):
    monkeypatch.setitem(matplotlib.rcParams, "backend", "agg")
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    ax = reports["golden"].plot_penalty()
    assert isinstance(ax, Axes)
    assert set(plt.get_fignums()) - set(before) == {ax.figure.number}
    plt.close(ax.figure)


def test_of_many_penalties_the_graver_ones_are_drawn():
    report = bare(
        penalties=(
            penalty("all who withhold something", groups=None),
            *(penalty(f"set {i}") for i in range(38)),
            penalty("last", 0.5, findings.VIOLATED),
        )
    )
    shown, left_out = shown_penalties(report)
    assert len(shown) == MAX_ROWS
    assert left_out == 40 - MAX_ROWS
    assert [shown[0].name, shown[1].name, shown[-1].name] == ["all who withhold something", "set 0", "last"]
    assert f"{left_out} more: see table" in render_html(report)


@pytest.mark.parametrize("plot", ["plot_penalty", "plot_balance"])
def test_long_names_are_not_cut_and_do_not_overlap(plot):
    name = "telematics device with harsh braking events + blood pressure from the annual check-up + claims history"
    e = findings.Estimate(1.0, 0.1, 0.8, 1.2)
    report = bare(
        penalties=(penalty("nothing"), penalty(name), penalty(name, subgroup="older than sixty-five years")),
        balance=tuple(findings.Balance(n, 9, 0.1, 0.1, e, e) for n in ("everybody", name, name)),
    )
    ax = Figure(figsize=PLOTS[plot.removeprefix("plot_")].size(report), layout="constrained").add_subplot()
    getattr(report, plot)(ax)
    ax.figure.draw_without_rendering()
    labels = [
        text for text in ax.texts if text.get_ha() == "right" and not text.get_text().startswith(("told", "high"))
    ]
    shown = " ".join(text.get_text() for text in labels).replace("\u00a0", " ")
    assert shown.count(name) == 2
    assert "…" not in shown
    boxes = sorted((text.get_window_extent() for text in labels), key=lambda box: -box.y0)
    middles = [(box.y0 + box.y1) / 2 for box in boxes]
    line = 12 * ax.figure.dpi / 72
    assert min(above - below for above, below in pairwise(middles)) > 0.9 * line
    marks = [ax.transData.transform((0, row.get_ydata()[0]))[1] for row in ax.lines if row.get_marker() in "oD^s"]
    assert len(marks) == 3
    assert min(abs(mark - middle) for mark in marks[1:2] for middle in middles) < line  # beside its name
