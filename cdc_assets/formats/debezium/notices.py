"""Reads Debezium's notifications about incremental snapshots; others are ignored.

https://debezium.io/documentation/reference/3.6/configuration/notification.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cdc_assets.changes.json_text import mapping, natural
from cdc_assets.log.notices import Notice, NoticeKind

_INCREMENTAL: Final = "Incremental Snapshot"


def read_notice(event: Mapping[str, Any]) -> Notice | None:
    """Reads a notification without a schema around it; None if it is not about such a snapshot."""
    said, about = event.get("type"), mapping(event.get("additional_data"))
    if event.get("aggregate_type") != _INCREMENTAL or said not in [
        each.value for each in NoticeKind
    ]:
        return None
    listed = str(about.get("data_collections") or "")
    return Notice(
        kind=NoticeKind(str(said)),
        connector=str(about.get("connector_name") or ""),
        collections=tuple(each.strip() for each in listed.split(",") if each.strip()),
        collection=str(
            about.get("scanned_collection") or about.get("current_collection_in_progress") or ""
        ),
        status=str(about.get("status") or ""),
        rows=natural(about.get("total_rows_scanned")) or 0,
        last_key=str(about.get("last_processed_key") or ""),
        most_key=str(about.get("maximum_key") or ""),
        at_ms=natural(event.get("timestamp")) or 0,
        id=str(event.get("id") or ""),
    )
