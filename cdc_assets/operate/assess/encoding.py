"""Tells from records how a worker's converter writes, which Kafka Connect's REST does not show."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from cdc_assets.changes.json_text import read_json
from cdc_assets.formats.wire_id import Framed, Side, read_frame
from cdc_assets.log.values import RawRecord


class Encoding(Enum):
    """How values are written: as JSON, with or without a schema in each; or by a schema's id."""

    JSON_WITH_SCHEMA = "JSON with a schema in each record"
    JSON = "JSON"
    FRAMED = "values that name a schema of a registry"

    @property
    def is_json(self) -> bool:
        """Whether Connect's JSON converter may have written it."""
        return self is not Encoding.FRAMED


def encoding_of(records: Iterable[RawRecord]) -> Encoding | None:
    """Returns how the values of all of these are written; None if they differ, or nothing tells it.

    Args:
        records: some; those without a value tell nothing.
    """
    found = {_encoding(each, each.value) for each in records if each.value}
    return found.pop() if len(found) == 1 else None


def _encoding(record: RawRecord, value: bytes) -> Encoding | None:
    if isinstance(read_frame(record, Side.VALUE), Framed):
        return Encoding.FRAMED
    document = read_json(value)
    if not isinstance(document, dict):
        return None
    return Encoding.JSON_WITH_SCHEMA if {"schema", "payload"} == set(document) else Encoding.JSON
