"""Names some of many things in a sentence for people."""

from __future__ import annotations

from collections.abc import Iterable


def some_of(names: Iterable[str], most: int, between: str = ", ") -> str:
    """Joins the first names, at most so many, and counts the others."""
    all_ = list(names)
    more = f" and {len(all_) - most:,} more" if len(all_) > most else ""
    return between.join(all_[:most]) + more
