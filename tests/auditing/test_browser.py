"""The page as a browser shows it: contrast, narrow and dark windows, keyboard, accessibility, paper."""

import re

import pytest
from browser_tools import axe_source, browser, why_not

NEEDS_BROWSER = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
AXE = axe_source() if why_not() is None else None


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


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(scope="module")
def files(pages, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in pages}


UNFOLD = "document.querySelectorAll('details').forEach(one => { one.open = true; })"
MEASURE = """(() => {
  const texts = [...document.querySelectorAll(".plot text")], size = text => {
    const m = text.getScreenCTM();
    return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(m.a, m.b);
  };
  const outside = texts.filter(text => {
    const t = text.getBoundingClientRect(), box = text.closest(".plot").getBoundingClientRect();
    return t.left < box.left - 3 || t.right > box.right + 3;
  });
  return {
    widths: [document.documentElement.scrollWidth, document.body.scrollWidth],
    smallest: Math.min(99, ...texts.map(size)), outside: outside.map(text => text.textContent),
    ground: getComputedStyle(document.body).backgroundColor,
    verdict: document.querySelector(".verdict h2").textContent.trim(),
  };
})()"""


@NEEDS_BROWSER
def test_page_in_narrow_wide_and_dark_windows(reports, files, page):
    for name, path in files.items():
        for width, dark in ((360, False), (800, True), (1280, False)):
            page.open(path, width=width, dark=dark)
            folded = page.evaluate("document.documentElement.scrollWidth")
            page.evaluate(UNFOLD)
            found = page.evaluate(MEASURE)
            assert max(folded, *found["widths"]) <= width, (name, width)  # nothing scrolls sideways
            assert found["smallest"] >= 9, (name, width)
            assert found["outside"] == [], (name, width)
            assert found["ground"] == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
            assert found["verdict"] == reports[name].verdict


@NEEDS_BROWSER
def test_first_sheet_fits_and_chapters_open_by_keyboard_and_link(files, page):
    page.open(files["golden"])
    assert page.evaluate("document.querySelector('.chapter').getBoundingClientRect().top") < 1600
    is_open = "[...document.querySelectorAll('details')].map(one => one.open)"
    assert page.evaluate(is_open) == [False] * 4
    page.press("Tab", 9)  # the link in the caveats
    page.press("Enter", 13, "\r")
    assert page.evaluate(is_open) == [False, False, True, False]  # a link opens the chapter it leads into
    page.open(files["golden"])
    page.press("Tab", 9)
    page.press("Tab", 9)
    page.press(" ", 32, " ")
    assert page.evaluate(is_open) == [True, False, False, False]


@NEEDS_BROWSER
def test_page_prints_unfolded_on_white_paper(files, page):
    def sheets():
        return len(re.findall(rb"/Type\s*/Page\b", page.print()))

    page.open(files["golden"], dark=True)
    folded = sheets()
    page.evaluate(UNFOLD)
    assert folded == sheets() > 4
    page.open(files["golden"], dark=True, width=690)
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 690  # no column is cut off
    assert page.evaluate("document.querySelector('.sheet').getBoundingClientRect().bottom") < 1010  # one sheet of A4


@NEEDS_BROWSER
@pytest.mark.skipif(AXE is None, reason="axe-core is not installed (pip install 'pucboost[browser]', or AXE_CORE=file)")
def test_axe_finds_nothing_serious(files, page):
    for name, width, dark in (("golden", 1280, False), ("golden", 390, True), ("hostile", 1280, True)):
        page.open(files[name], width=width, dark=dark)
        page.evaluate(UNFOLD)
        page.call("Runtime.evaluate", expression=AXE)
        passed, violations = page.evaluate("axe.run().then(done => [done.passes.length, done.violations])")
        assert passed > 15
        assert [one["help"] for one in violations if one["impact"] in ("serious", "critical")] == []
