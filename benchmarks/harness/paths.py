"""Where results, reports and figures are kept."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
SUMMARIES = (
    ROOT / "README.md",
    ROOT / "docs" / "evidence" / "index.md",
    ROOT / "docs" / "guides" / "native.md",
)
"""Pages that may show short tables."""
REPORT = ROOT / "benchmarks" / "BENCHMARKS.md"
FIGURES = ROOT / "benchmarks" / "figures"
