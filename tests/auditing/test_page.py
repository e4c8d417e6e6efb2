"""The audit as an HTML page and as a notebook box."""

import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from auditing.report_examples import NAMES, Reader, bare, hostile, number, penalty, table_after

import pucboost as puc
from pucboost._auditing import findings
from pucboost._auditing.report.plots import PLOTS
from pucboost._auditing.report.rendering import render_fragment, render_html, render_markdown, render_text
from pucboost._auditing.settings import roughly


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
    expected = sum(not picture.missing(reports[name]) for picture in PLOTS.values())
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
    shown = [p for p in report.penalties if p.subgroup is None and p.verdict != findings.NOT_TESTABLE]
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
            assert cells["Rows to decide"] == roughly(p.rows_to_decide)
        if p.difference is not None:
            shown = cells["Above those who share everything"]
            value, *ends = (number(part) for part in re.findall(r"[+−]?[\d.]+", shown))
            assert value == pytest.approx(100 * p.difference.value, abs=0.0051)
            assert ends == pytest.approx([100 * p.difference.lower, 100 * p.difference.upper], abs=0.0051)


def test_subgroups_have_a_table_of_their_own(reports, pages):
    header, rows = table_after(pages["violated"], "Average penalty in subgroup older")
    expected = [p for p in reports["violated"].penalties if p.subgroup == "older" and p.estimate]
    assert [number(row[header.index("Penalty")]) for row in rows] == pytest.approx(
        [100 * p.estimate.value for p in expected], abs=0.0051
    )


def test_what_was_not_tested_is_listed_without_a_number():
    report = bare(
        penalties=(penalty("blood", 0.01), penalty("rare", None, findings.NOT_TESTABLE, note="Too few.", people=7))
    )
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
    quiet = (findings.Informativeness("a", 0.5, 0.0, 0.1, 0.9, 0.9),)
    loud = (findings.Informativeness("a", 0.5, -0.2, -9.0, 1e-9, 1e-9),)
    words = "no credit to the model"
    assert words in render_text(bare(verdict=findings.CERTIFIED, informativeness=quiet))
    assert words not in render_text(bare(verdict=findings.CERTIFIED, informativeness=loud))
    assert words not in render_text(bare(verdict=findings.VIOLATED, informativeness=quiet))
    assert "those who withhold have higher outcomes" in render_html(bare(informativeness=loud))


def test_loss_comparisons_are_marked_and_read_the_right_way():
    better = findings.LossComparison(
        "everybody", "base features only", 5, 0.1, 0.2, findings.Estimate(-0.1, 0.01, -0.12, -0.08)
    )
    page = render_html(bare(inference_from_silence=better, non_degradation=(better,)))
    assert "not decisive" in page
    assert "AIR fails" in page
    assert "audited model better" in page


def test_quantiles_have_no_percentage_of_a_probability():
    report = bare(unit="probability of lying below the quoted 0.9 quantile", penalties=(penalty("a", 0.01),))
    page = render_html(
        replace(report, mean_prediction=2500.0, averages=(findings.AveragePrediction("a", 1, 2500, 1, 1, 1),))
    )
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
