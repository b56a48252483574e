"""Describes our own columns of tables, whose names are in `cdc_assets.merge.statements.sql`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cdc_assets.changes.mode import Mode
from cdc_assets.merge.statements.sql import (
    COMMIT_TIME,
    CURRENT,
    DELETED,
    DELETED_AT,
    END_EVENT,
    END_OFFSET,
    END_PARTITION,
    END_POSITION,
    END_TOPIC,
    ENDED_BY,
    EVENT,
    OFFSET,
    OP,
    PARTITION,
    POSITION,
    READ_AGAIN,
    TOPIC,
    UNSET,
    VALID_FROM,
    VALID_TO,
)

OWN_COLUMNS: Final = {
    POSITION: ("binary", "Position of the newest change in this row; byte order is source order"),
    COMMIT_TIME: ("timestamp", "Commit time of that change at the source; empty for snapshot rows"),
}

SOFT_DELETE_COLUMNS: Final = {
    DELETED: ("boolean", "Whether the source has deleted the row"),
    DELETED_AT: ("timestamp", "Commit time of the delete at the source"),
}

CHANGELOG_COLUMNS: Final = {
    OP: ("string", "c: created, u: updated, d: deleted, r: read by a snapshot, t: truncated"),
    POSITION: ("binary", "Position of the change; byte order is source order"),
    COMMIT_TIME: ("timestamp", "Commit time of the change at the source; empty for snapshot rows"),
    TOPIC: ("string", "Kafka topic of the change"),
    PARTITION: ("int", "Its partition there"),
    OFFSET: ("bigint", "Its offset there"),
    UNSET: ("array<string>", "Columns that the change leaves alone and does not tell; else empty"),
    EVENT: ("binary", "Tells the change from all others, however often it is delivered"),
}

_PLACED: Final = "topic: string, partition: int, offset: bigint"
HISTORY_COLUMNS: Final = {
    VALID_FROM: ("timestamp", "Commit time of the change that made the version; of r: when read"),
    VALID_TO: ("timestamp", "The same of the change that ended it; empty while it is current"),
    CURRENT: ("boolean", "Whether nothing has ended it"),
    OP: ("string", "What made it: c: created, u: updated, r: read by a snapshot"),
    ENDED_BY: ("string", "What ended it: c, u, r as above, d: deleted, t: truncated; else empty"),
    POSITION: ("binary", "Position of the change that made it; byte order is source order"),
    END_POSITION: ("binary", "Position of the change that ended it"),
    TOPIC: ("string", "Kafka topic of the change that made it"),
    PARTITION: ("int", "Its partition there"),
    OFFSET: ("bigint", "Its offset there"),
    END_TOPIC: ("string", "Kafka topic of the change that ended it"),
    END_PARTITION: ("int", "Its partition there"),
    END_OFFSET: ("bigint", "Its offset there"),
    UNSET: ("array<string>", "Columns as in the previous version; empty if all had values"),
    EVENT: ("binary", "Tells the change that made it from all others"),
    END_EVENT: ("binary", "Tells the change that ended it from all others"),
    READ_AGAIN: (
        f"array<struct<position: binary, ts: timestamp, event: binary, {_PLACED}>>",
        "Where snapshots have read the row again as it is; empty if none has",
    ),
}


def own_columns(mode: Mode, *, soft: bool) -> Mapping[str, tuple[str, str]]:
    """Returns our own columns of a table: type and comment by name."""
    if mode is Mode.CHANGELOG:
        return CHANGELOG_COLUMNS
    if mode is Mode.HISTORY:
        return HISTORY_COLUMNS
    return {**OWN_COLUMNS, **(SOFT_DELETE_COLUMNS if soft else {})}


ALL_OWN_COLUMNS: Final = frozenset(
    {*OWN_COLUMNS, *SOFT_DELETE_COLUMNS, *CHANGELOG_COLUMNS, *HISTORY_COLUMNS}
)
"""Our own columns of tables of any mode."""

RESERVED: Final = frozenset({
    "_file", "_pos", "_partition", "_spec_id", "_row_id", "_last_updated_sequence_number",
})  # fmt: skip
"""Iceberg's metadata columns: https://iceberg.apache.org/spec/#reserved-field-ids. The others,
which we never read with a table, may be used as names."""
