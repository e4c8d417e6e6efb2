"""The pictures of the README and of the concepts show what their words say."""

from __future__ import annotations

import importlib.util
import re
import sys

import pytest
from pages import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = ROOT / "docs" / "pictures"


def test_picture_in_both_lights() -> None:
    for mode in ("light", "dark"):
        assert f"docs/pictures/silence-{mode}.svg" in README


@pytest.mark.slow  # the picture's models are trained
def test_words_of_the_picture() -> None:
    """The alternative text, both files and the models agree on the numbers."""
    specification = importlib.util.spec_from_file_location("draw", PICTURES / "draw.py")
    assert specification is not None
    assert specification.loader is not None
    draw = importlib.util.module_from_spec(specification)
    sys.modules["draw"] = draw
    try:
        specification.loader.exec_module(draw)
        words = draw.silence(draw.INKS["light"]).get_label()
    finally:
        del sys.modules["draw"]
    assert f'alt="{words}"' in README
    for mode in ("light", "dark"):
        assert f"<dc:title>{words}</dc:title>" in (PICTURES / f"silence-{mode}.svg").read_text(encoding="utf-8")


def test_pictures_of_the_concepts_say_what_they_show() -> None:
    page = (ROOT / "docs" / "concepts" / "index.md").read_text(encoding="utf-8")
    for name in ("comparison", "virtual-rows"):
        texts = {
            re.search("<dc:title>([^<]*)", (PICTURES / f"{name}-{mode}.svg").read_text(encoding="utf-8"))[1]  # type: ignore[index]
            for mode in ("light", "dark")
        }
        assert len(texts) == 1
        assert page.count(f"![{texts.pop()}]") == 2
