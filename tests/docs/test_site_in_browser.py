"""Every page of the built site on a wide and on a narrow screen: nothing is cut off. `.ci/run` builds it first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_tools import Page, browser, why_not
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
