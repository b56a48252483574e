"""Messages of Maxwell and operations of GoldenGate, as a test has them."""

from __future__ import annotations

import json
from typing import Any, Final

from cdc_assets.config import SourceConfig
from cdc_assets.formats.format import Format
from cdc_assets.formats.registered import format_of
from cdc_assets_tests.pipeline import Message

ITEMS: Final = "shop.items"


def format_named(name: str, **connector: str) -> Format:
    """A format of a source whose producer is configured so."""
    said = {"format": name, "topics": {"include": [".*"]}, "connector": connector}
    return format_of(SourceConfig.model_validate(said))


def maxwell(
    type_: str,
    data: dict[str, Any] | None,
    old: dict[str, Any] | None = None,
    *,
    table: str = ITEMS,
    partition: int = 0,
    **more: Any,
) -> Message:
    """A message of a row, with the key that Maxwell gives it by default."""
    database, name = table.split(".")
    said = {"database": database, "table": name, "type": type_, "ts": 1_760_000_000, **more}
    if data is not None:
        said["data"] = data
    if old is not None:
        said["old"] = old
    key = {"database": database, "table": name, "pk.id": (data or {}).get("id")}
    return Message(_json(key), _json(said), partition)


def ogg(
    op: str,
    place: int,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    table: str = ITEMS,
    partition: int = 0,
    **more: Any,
) -> Message:
    """An operation at a byte of the first trail file."""
    said = {
        "table": table,
        "op_type": op,
        "op_ts": "2026-01-31 12:00:00.000000",
        "current_ts": "2026-01-31T12:00:01.123000",
        "pos": f"{place:020}",
        "primary_keys": ["id"],
        **more,
    }
    images = {"before": before, "after": after}
    said |= {name: image for name, image in images.items() if image is not None}
    return Message(b"whatever", _json(said), partition)


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
