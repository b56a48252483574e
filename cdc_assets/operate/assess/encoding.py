"""Tells from records how a worker's converter writes, which Kafka Connect's REST does not show."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

_MAGIC: Final = 0
"""The first byte of a record whose schema is in a registry."""


class Encoding(Enum):
    """How values are written: as JSON, with or without a schema in each; or by a schema's id."""

    JSON_WITH_SCHEMA = "JSON with a schema in each record"
    JSON = "JSON"
    FRAMED = "values that name a schema of a registry"

    @property
    def is_json(self) -> bool:
        """Whether Connect's JSON converter may have written it."""
        return self is not Encoding.FRAMED


def encoding_of(values: Iterable[bytes | None]) -> Encoding | None:
    """Returns how all of these values are written; None if they differ, or nothing tells it.

    Args:
        values: of some records; those without a value tell nothing.
    """
    found = {_encoding(each) for each in values if each}
    return found.pop() if len(found) == 1 else None


def _encoding(value: bytes) -> Encoding | None:
    if value[0] == _MAGIC:
        return Encoding.FRAMED
    try:
        document: Any = json.loads(value)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    return Encoding.JSON_WITH_SCHEMA if {"schema", "payload"} == set(document) else Encoding.JSON
