"""Plots as SVG inside an HTML page: in the page's fonts and colours, and the same for the same findings."""

from __future__ import annotations

import io
import re
import warnings
from typing import Any
from xml.etree import ElementTree

from ..findings import Findings
from .drawing import COLOURS
from .plotting import PLOTS

_INK = "#1d232b"
_VARIABLES = {
    _INK: "var(--ink)",
    **{colour: f"var(--{name.replace(' ', '-')})" for name, colour in COLOURS.items()},
}
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text remains text: the page's font, and searchable
    "svg.hashsalt": "pucboost",
    "font.size": 10.2,  # at least 9 pixels if the plot is 330 pixels wide
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_REFERENCE = re.compile(r"#([\w.-]+)")
_DECIMALS = re.compile(r"-?\d+\.\d{3,}")
_FONT_FAMILY = re.compile(r"font-family:[^;]*;?\s*")
_FONT = re.compile(r"font:\s*([\d.]+px)[^;]*")  # the short form in earlier versions of matplotlib


def inline_svg(name: str, findings: Findings, label: str) -> str:
    """Return one of :data:`PLOTS` as an ``<svg>`` element; ``label`` describes it in words."""
    root = ElementTree.fromstring(_draw(name, findings))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]  # in HTML, SVG needs no namespace
        element.attrib = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
    for parent in [*root.iter()]:
        for child in [*parent]:
            if child.tag in ("metadata", "style"):
                parent.remove(child)
    _rename(root, name)
    for element in root.iter():
        _tidy(element)
    box = root.attrib["viewBox"]
    root.attrib = {"viewBox": box, "role": "img", "aria-label": label, "class": "plot"}
    return ElementTree.tostring(root, encoding="unicode")


def _draw(name: str, findings: Findings) -> str:
    """Draw with matplotlib, whatever style and backend the user has chosen, and without pyplot."""
    import matplotlib
    from matplotlib.figure import Figure

    plot = PLOTS[name]
    out = io.StringIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        # Names may have letters that matplotlib's own font lacks; the browser's fonts have them.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        matplotlib.rcdefaults()
        for setting, value in _STYLE.items():
            matplotlib.rcParams[setting] = value  # type: ignore[index]
        figure = Figure(figsize=plot.size(findings), layout="constrained")
        plot.on(findings, figure.add_subplot())
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    return out.getvalue()


def _rename(root: ElementTree.Element, prefix: str) -> None:
    """Number the ids in order of appearance, prefixed with the plot's name: a page has several plots."""
    used = {
        match
        for element in root.iter()
        for key, value in element.attrib.items()
        if key in ("href", "clip-path")
        for match in _REFERENCE.findall(value)
    }
    new: dict[str, str] = {}
    for element in root.iter():
        old = element.attrib.pop("id", "")
        if old in used:
            element.attrib["id"] = new.setdefault(old, f"{prefix}-{len(new) + 1}")
    for element in root.iter():
        for key in ("href", "clip-path"):
            if key in element.attrib:
                element.attrib[key] = _REFERENCE.sub(lambda found: f"#{new[found[1]]}", element.attrib[key])


def _tidy(element: ElementTree.Element) -> None:
    """Use the page's colours and fonts; drop what only takes up space."""
    for key, value in [*element.attrib.items()]:
        if key == "style":
            value = _FONT.sub(r"font-size: \1", _FONT_FAMILY.sub("", value))
            for colour, variable in _VARIABLES.items():
                value = value.replace(colour, variable)
        elif key != "id":
            value = _DECIMALS.sub(lambda found: f"{float(found[0]):.2f}", " ".join(value.split()))
        element.attrib[key] = value
    if element.attrib.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if element.tag != "text":
        element.text = None
    element.tail = None
