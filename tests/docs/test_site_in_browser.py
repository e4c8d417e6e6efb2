"""The built site in a browser: nothing is cut off, everything can be read, also on paper. `.ci/run` builds it first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_tools import Page, axe_source, browser, why_not
from pages import ROOT

SITE = Path(os.environ.get("PUCBOOST_SITE", ROOT / "site"))
HTML = sorted(path for path in SITE.rglob("*.html") if (SITE / "assets") not in path.parents)

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.skipif(not HTML, reason=f"no site in {SITE} (mkdocs build)"),
]

UNFOLDED = """
document.querySelectorAll('.md-content details').forEach(one => { one.open = true; });
document.querySelectorAll('.tabbed-block').forEach(one => { one.style.display = 'block'; });
"""
WIDE_CODE = """
[...document.querySelectorAll('.md-typeset pre > code')]
    .filter(one => one.scrollWidth > one.clientWidth + 1)
    .map(one => {
        const style = getComputedStyle(one);
        const shown = style.overflowX == 'auto' && style.backgroundAttachment.includes('local');
        const code = one.closest('.language-python, .language-sh, .language-bash') !== null;
        return [one.textContent.trim().slice(0, 60), shown, code];
    })
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_off(page: Page, width: int) -> None:
    """Pages are as wide as the screen. Code of guides fits a wide screen, and what is wider says that it scrolls."""
    wrong = []
    for path in HTML:
        name = path.relative_to(SITE).as_posix()
        if "http-equiv" in path.read_text(encoding="utf-8").partition("</head>")[0]:
            continue  # a page of its own, such as the report of an example
        page.open(path, width=width)
        page.evaluate(UNFOLDED)
        across = page.evaluate("document.documentElement.scrollWidth")
        if across > width:
            wrong.append(f"{name} is {across} pixels wide")
        fits = width > 1000 and name.startswith(("guides/", "index.html", "tutorial.html"))
        for text, shown, code in page.evaluate(WIDE_CODE):
            if not shown or (fits and code):
                wrong.append(f"{name}: {text!r} is wider than its column")
    assert not wrong, "\n".join(wrong)


KINDS = ("index.html", "examples/index.html", "guides/audit.html", "evidence/everyday.html", "reference/audit.html")
"""A page of each kind."""


def open_in(page: Page, path: Path, dark: bool) -> None:
    """Open a page in light or dark; the site keeps what it showed last."""
    page.open(path, dark=dark)
    page.evaluate("localStorage.clear()")
    page.open(path, dark=dark)
    assert page.evaluate("document.body.dataset.mdColorScheme") == ("slate" if dark else "default")


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(page: Page, dark: bool) -> None:
    """Text stands out from its background as WCAG AA asks for."""
    axe = axe_source()
    if axe is None:
        pytest.skip("axe-core-python is not installed (pip install 'pucboost[browser]')")
    wrong = []
    for name in KINDS:
        open_in(page, SITE / name, dark)
        page.evaluate(UNFOLDED)
        page.evaluate(f"{axe}; true")
        found = page.evaluate("axe.run(document, {runOnly: ['color-contrast']})")
        for violation in found["violations"]:
            wrong += [f"{name}: {node['html'][:80]}: {node['any'][0]['message']}" for node in violation["nodes"]]
    assert not wrong, "\n".join(wrong)


def test_dark_pages_print_dark_on_light(page: Page) -> None:
    open_in(page, SITE / "guides/audit.html", dark=True)
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    colour = "getComputedStyle(document.querySelector('.md-typeset p')).color.match(/[\\d.]+/g).slice(0, 3).map(Number)"
    assert max(page.evaluate(colour)) < 100
    assert page.evaluate("getComputedStyle(document.querySelector('.md-header')).display") == "none"
