"""Derives a topic's retention from its settings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from cdc_assets.changes.retention import FOR_EVER, Retention

_MILLISECOND: Final = timedelta(milliseconds=1)


def retention_of(settings: Mapping[str, str | None]) -> Retention:
    """Returns the retention of a topic's settings, including those inherited from its broker.

    A topic that only compacts deletes no record for its age.
    """
    policies = (settings.get("cleanup.policy") or "delete").split(",")
    if "delete" not in {each.strip() for each in policies}:
        return Retention()
    return Retention(_age(settings), _bound(settings, "retention.bytes"))


def _age(settings: Mapping[str, str | None]) -> timedelta | None:
    """Returns None for ever, which people write in many ways, including 2^63 - 1."""
    millis = _bound(settings, "retention.ms")
    return None if millis is None or millis > FOR_EVER // _MILLISECOND else _MILLISECOND * millis


def _bound(settings: Mapping[str, str | None], name: str) -> int | None:
    """Returns None for -1, which stands for no bound."""
    value = int(settings.get(name) or -1)
    return value if value >= 0 else None
