"""The plots of an audit."""

from dataclasses import replace
from itertools import pairwise

import matplotlib
import pytest
from auditing.report_examples import bare, penalty
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pucboost._auditing import findings
from pucboost._auditing.report.plots import MAX_ROWS, PLOTS, shown_penalties
from pucboost._auditing.report.rendering import render_html

METHODS = ["plot_penalty", "plot_calibration", "plot_base_versus_model", "plot_sharing_effect", "plot_balance"]


@pytest.mark.parametrize("plot", METHODS)
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
            penalty("last", 0.5, findings.VIOLATED),
        )
    )
    shown, left_out = shown_penalties(report)
    assert len(shown) == MAX_ROWS
    assert left_out == 40 - MAX_ROWS
    assert [shown[0].name, shown[1].name, shown[-1].name] == ["all who withhold something", "set 0", "last"]
    assert f"{left_out} more: see table" in render_html(report)


def test_sharing_that_changes_nothing_is_said_in_words(reports):
    effect = reports["certified"].sharing_effect
    same = replace(effect, mean=0.0, histogram=findings.Histogram((-0.1, 0.0, 0.1), (0.0, 1.0)))
    page = render_html(bare(sharing_effect=same))
    assert "Sharing does not change any prediction." in page


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
