"""The table of the kernels."""

from __future__ import annotations

from benchmarks.harness.types import Rows, Table

from .cases import N_CLASSES

_EXPONENTIAL = "limited by exp, not by memory"
REMARKS = {
    "copy_masks, balanced": "three hashes and a loop over the groups a person shares",
    "pack_shared": "reads single values of a row, and tests each",
    "gather_masked_columns": "reads along columns, writes along rows",
    "hash_rows": "two chains of multiplications; the twin only tells rows apart",
    "assign_cells": "random lookups; one thread, includes emptying the table",
    **dict.fromkeys(("logistic", "poisson", "gamma", "tweedie", f"softmax, {N_CLASSES} classes"), _EXPONENTIAL),
}


def table(rows: Rows) -> Table:
    """Return one line per kernel."""
    columns = [
        "kernel", "bytes per row", "ns per row", "2 threads", "ns per value", "naive twin, ns per row",
        "× faster than the twin", "share of numpy's copy", "2 threads, of a copy by 2", "remark",
    ]  # fmt: skip
    return columns, [
        [
            row["kernel"], f"{float(row['bytes per row']):.0f}", f"{float(row['ns per row']):.2f}",
            _or_dash(row.get("ns per row, 2 threads"), ".2f"),
            f"{float(row['ns per row']) / int(row['values per row']):.2f}", f"{float(row['twin, ns per row']):,.0f}",
            f"{float(row['× twin']):,.0f}", f"{float(row['share of copy']):.0%}",
            _or_dash(row.get("share of copy, 2 threads"), ".0%"), REMARKS.get(row["kernel"], ""),
        ]
        for row in rows
    ]  # fmt: skip


def _or_dash(value: str | None, form: str) -> str:
    return f"{float(value):{form}}" if value else "–"
