"""What every study needs: timing by ratios, results as CSV with their circumstances, tables in Markdown."""

from __future__ import annotations

import csv
import datetime
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
REPORT = ROOT / "benchmarks" / "BENCHMARKS.md"

Row = dict[str, Any]


def circumstances() -> dict[str, str]:
    """Return where and with what a result was measured."""
    versions = {name: importlib.metadata.version(name) for name in ("lightgbm", "xgboost", "numba", "numpy")}
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, {_processor()}",
        "versions": " ".join([f"python {platform.python_version()}", *(f"{k} {v}" for k, v in versions.items())]),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")


def seconds(job: Callable[[], Any]) -> float:
    """Run a job and return how long it took."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def alternate(jobs: Mapping[str, Callable[[], Any]], repeat: int) -> dict[str, list[float]]:
    """Time jobs in turn, so that a slow moment of the machine hits all of them; the first turn is warm-up."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeat + 1):
        for name, job in jobs.items():
            taken = seconds(job)
            if turn:
                times[name].append(taken)
    return times


def median_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> float:
    """Return the median of the ratios of neighbouring measurements."""
    return statistics.median(a / b for a, b in zip(numerator, denominator, strict=True))


def ratio_row(what: str, compared: str, ratio: float, target: str, times: Sequence[float]) -> Row:
    """Return one line of a table of ratios."""
    took = f"{statistics.median(times):.3g}" if times else ""
    return {"what": what, "compared with": compared, "ratio": f"{ratio:.3g}", "target": target, "seconds": took}


def insurance_like(n_rows: int, n_base: int = 20, n_optional: int = 10, seed: int = 0) -> tuple[Any, Any, list[int]]:
    """Return a float32 table of claims where the larger optional values are withheld more often."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_base + n_optional), dtype=np.float32)
    signal = X[:, :8].sum(axis=1) + X[:, n_base:].sum(axis=1) + 3 * rng.standard_normal(n_rows, dtype=np.float32)
    withheld = rng.random((n_rows, n_optional), dtype=np.float32) < 0.6 / (1 + np.exp(-X[:, n_base:]))
    X[:, n_base:][withheld] = np.nan
    return X, (signal > 0).astype(np.float32), list(range(n_base, n_base + n_optional))


def write_csv(name: str, rows: Iterable[Row]) -> Path:
    """Keep a study's rows, with the circumstances in every one."""
    rows = [{**row, **circumstances()} for row in rows]
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def read_csv(name: str) -> list[dict[str, str]]:
    """Read a study's rows back."""
    with (RESULTS / f"{name}.csv").open(newline="", encoding="utf-8") as source:
        return list(csv.DictReader(source))


def markdown(name: str) -> str:
    """Return the table of a study as it stands in its CSV."""
    rows = read_csv(name)
    constant = ("date", "machine", "versions")
    columns = [column for column in rows[0] if column not in constant]
    where = "; ".join(rows[0][column] for column in constant)
    return table(columns, [[row[column] for column in columns] for row in rows]) + f"\n\n*{where}*"


def between_markers(text: str, name: str, content: str) -> str:
    """Replace what stands between the two markers of a study."""
    start, end = f"<!-- {name} -->", f"<!-- end {name} -->"
    head, _, rest = text.partition(start)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"no markers {start} … {end} in the text")
    return f"{head}{start}\n{content}\n{end}{tail}"


def publish(name: str) -> None:
    """Put a study's table into BENCHMARKS.md, and the short form of it into the README if there is one."""
    REPORT.write_text(between_markers(REPORT.read_text(encoding="utf-8"), name, markdown(name)), encoding="utf-8")
    if name in SHORT_FORMS:
        text = between_markers(README.read_text(encoding="utf-8"), name, SHORT_FORMS[name]())
        README.write_text(text, encoding="utf-8")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def quality_in_short() -> str:
    """Return one line per family, one column per scheme."""
    rows = read_csv("quality")
    schemes = list(dict.fromkeys(row["scheme"] for row in rows))
    gap = {(row["family"], row["scheme"]): row["squared PUC-gap ×10⁴"] for row in rows}
    families = dict.fromkeys(row["family"] for row in rows)
    return table(["family", *schemes], [[family, *(gap.get((family, s), "–") for s in schemes)] for family in families])


def ratios_in_short(name: str) -> str:
    """Return what was measured, and the ratio."""
    rows = read_csv(name)
    return table(["", "compared with", "ratio"], [[row["what"], row["compared with"], row["ratio"]] for row in rows])


def audit_in_short() -> str:
    """Return how often the true model is flagged, by ours and by naive tests."""
    rows = read_csv("audit")
    columns = ["family", "withholding", "what", "95 % interval excludes 0", "90 % interval covers"]
    return table(columns, [[row[column] or "–" for column in columns] for row in rows])


SHORT_FORMS = {
    "audit": audit_in_short,
    "quality": quality_in_short,
    "speed": lambda: ratios_in_short("speed"),
    "engines": lambda: ratios_in_short("engines"),
}
