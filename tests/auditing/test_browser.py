"""The page as a browser shows it: contrast, narrow and dark windows, print."""

import html
import json
import re
import subprocess

import pytest
from browser_tools import CHROMIUM, FLAGS


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
    done = subprocess.run(
        [CHROMIUM, *FLAGS, profile, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
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
