"""The native engine: trees grown on one binned table of the people, whose copies are masks."""

from __future__ import annotations

from .engine import ENGINE

__all__ = ["ENGINE"]
