"""Derives a topic's retention from its settings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from cdc_assets.changes.retention import Retention

_FOR_EVER_MS: Final = 100 * 366 * 86_400_000
"""A century: people write "for ever" in many ways, including 2^63 - 1."""


def retention_of(settings: Mapping[str, str | None]) -> Retention:
    """Returns the retention of a topic's settings, including those inherited from its broker.

    A topic that only compacts deletes no record for its age.
    """
    policy = (settings.get("cleanup.policy") or "delete").split(",")
    if "delete" not in policy:
        return Retention()
    age, size = _bound(settings, "retention.ms"), _bound(settings, "retention.bytes")
    if age is None or age > _FOR_EVER_MS:
        return Retention(None, size)
    return Retention(timedelta(milliseconds=age), size)


def _bound(settings: Mapping[str, str | None], name: str) -> int | None:
    """Returns None for -1, which stands for no bound."""
    value = int(settings.get(name) or -1)
    return value if value >= 0 else None
