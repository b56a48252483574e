"""The registry as the text of a document."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final, cast

from cdc_assets.changes.names import LakeName, Shard, TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.renamed import RenamedTable
from cdc_assets.errors import TerminalError
from cdc_assets.registry.entries import (
    HOURS_START,
    Beginning,
    Dropped,
    OtherTopic,
    TableEntry,
    Taken,
)
from cdc_assets.registry.tables import Registry

VERSION = 1

_DROPPED: Final = ("topic_id", "place", "waits_for")


def to_document(registry: Registry) -> str:
    """Returns the document of a registry."""
    tables = [_entry_to_dict(entry) for entry in registry.entries]
    others = [_other_to_dict(other) for other in registry.others]
    document = {"version": VERSION, "tables": tables, "not_tables": others}
    return json.dumps(document, indent=1) + "\n"


def from_document(text: str) -> Registry:
    """Parses a document of `to_document`.

    Raises:
        ValueError: if it is not such a document.
        TerminalError: if it has another version.
    """
    document = cast("dict[str, Any]", json.loads(text))
    if document.get("version") != VERSION:
        msg = f"the registry has version {document.get('version')}, this is {VERSION}"
        raise TerminalError(msg, remedy="upgrade cdc_assets", page="registry-unreadable")
    others = document.get("not_tables", ())
    return Registry.of(
        (_entry_from_dict(each) for each in document["tables"]),
        (_other_from_dict(each) for each in others),
    )


def _other_to_dict(other: OtherTopic) -> dict[str, str]:
    at = other.looked_at.astimezone(UTC).isoformat()
    return {"topic": other.topic, "holds": other.holds, "looked_at": at}


def _other_from_dict(fields: dict[str, str]) -> OtherTopic:
    at = datetime.fromisoformat(fields["looked_at"])
    return OtherTopic(fields["topic"], fields["holds"], at)


def _entry_to_dict(entry: TableEntry) -> dict[str, Any]:
    shard = {"column": entry.shard.column, "value": entry.shard.value} if entry.shard else None
    return {
        "source": entry.table.source,
        "schema": entry.table.schema,
        "name": entry.table.name,
        "topic": entry.topic,
        "namespace": entry.target.namespace,
        "target": entry.target.name,
        "discovered_at": entry.discovered_at.astimezone(UTC).isoformat(),
        "confirmed": entry.is_confirmed,
        **({"shard": shard} if shard else {}),
        **({"renamed": entry.renamed.to_dict()} if entry.renamed else {}),
        **({"dropped": _dropped_to_dict(entry.dropped)} if entry.dropped else {}),
        **({"begins": _beginning_to_dict(entry.begins)} if entry.begins else {}),
        **({"taken": entry.taken.value} if entry.taken is not Taken.ALL else {}),
        **({"shared": True} if entry.is_shared else {}),
        **({"comment": entry.comment} if entry.comment else {}),
        **_hours_to_dict(entry.hours_from),
    }


def _entry_from_dict(fields: dict[str, Any]) -> TableEntry:
    return TableEntry(
        TableName(fields["source"], fields["schema"], fields["name"]),
        fields["topic"],
        LakeName(fields["namespace"], fields["target"]),
        datetime.fromisoformat(fields["discovered_at"]),
        bool(fields.get("confirmed", False)),
        Shard(**fields["shard"]) if "shard" in fields else None,
        RenamedTable.of_dict(fields["renamed"]) if "renamed" in fields else None,
        _dropped_from_dict(fields["dropped"]) if "dropped" in fields else None,
        _beginning_from_dict(fields["begins"]) if "begins" in fields else None,
        Taken(fields.get("taken", Taken.ALL)),
        bool(fields.get("shared", False)),
        str(fields.get("comment", "")),
        _hours_from_text(fields["hours_from"]) if "hours_from" in fields else HOURS_START,
    )


def _hours_to_dict(start: datetime) -> dict[str, str]:
    """Returns the start of the first partition, if it is not the one of tables without a note."""
    return {} if start == HOURS_START else {"hours_from": start.astimezone(UTC).isoformat()}


def _hours_from_text(text: str) -> datetime:
    """Parses the start of the first partition.

    Raises:
        ValueError: if it is not a full hour of a zone, or before any partition.
    """
    start = datetime.fromisoformat(text).astimezone(UTC)
    if start < HOURS_START or start.replace(minute=0, second=0, microsecond=0) != start:
        msg = f"no partition begins at {text}"
        raise ValueError(msg)
    return start


def _dropped_to_dict(dropped: Dropped) -> dict[str, str]:
    end = {"end": dropped.end.to_json()} if dropped.end is not None else {}
    texts = {name: getattr(dropped, name) for name in _DROPPED}
    more = {name: text for name, text in texts.items() if text}
    return {"at": dropped.at.astimezone(UTC).isoformat(), **end, **more}


def _dropped_from_dict(fields: dict[str, str]) -> Dropped:
    end = OffsetVector.from_json(fields["end"]) if "end" in fields else None
    more = (fields.get(name, "") for name in _DROPPED)
    return Dropped(datetime.fromisoformat(fields["at"]), end, *more)


def _beginning_to_dict(begins: Beginning) -> dict[str, str]:
    return {"at": begins.at.to_json(), "topic_id": begins.topic_id}


def _beginning_from_dict(fields: dict[str, str]) -> Beginning:
    return Beginning(OffsetVector.from_json(fields["at"]), fields["topic_id"])
