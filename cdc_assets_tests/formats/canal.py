"""Canal's messages as tests write them, and packets of the same changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from cdc_assets.formats.canal.protobuf import Entry, Messages, Packet, RowChange
from cdc_assets_tests.pipeline import Message

TYPES = {"id": "int", "name": "varchar(20)", "price": "decimal(10,2)"}
SQL_TYPES = {"int": 4, "bigint": -5, "decimal": 3, "text": 2005, "varbinary": 2004}
TABLE, OTHER, TOPIC = "shop.items", "shop.notes", "canal.all"
BEGIN, ROWDATA, END, HEARTBEAT, GTID = 1, 2, 3, 4, 5
EVENTS = (
    "", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "ERASE", "QUERY", "TRUNCATE", "RENAME",
    "CINDEX", "DINDEX", "GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT",
)  # fmt: skip
Flat = Mapping[str, Any]


def flat(
    kind: str,
    data: list | None,
    old: list | None = None,
    *,
    table: str = TABLE,
    types: dict | None = None,
    commit: int | None = None,
    **more: object,
) -> dict[str, Any]:
    """A message as Canal's ``FlatMessage`` has it."""
    database, name = table.split(".")
    types = TYPES if types is None else types
    return {
        "data": data,
        "database": database,
        "es": 1_760_000_000_000,
        "id": 1,
        "isDdl": False,
        "mysqlType": types,
        "old": old,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {of: SQL_TYPES.get(each.split("(")[0], 12) for of, each in types.items()},
        "table": name,
        "ts": 1_760_000_000_500,
        "type": kind,
        **({} if commit is None else {"_tidb": {"commitTs": commit}}),
        **more,
    }


def ddl(kind: str, sql: str, table: str = TABLE) -> dict[str, Any]:
    return flat(kind, None, types={}, table=table, isDdl=True, sql=sql, mysqlType=None)


def row(id_: object, name: str | None, price: str | None = "1.00") -> dict:
    return {"id": str(id_), "name": name, "price": price}


def as_json(said: Flat) -> Message:
    return Message(None, json.dumps(said).encode())


def as_packet(said: Iterable[Flat]) -> Message:
    """One record of all, as one transaction."""
    return Message(None, packet([mark(BEGIN), *map(entry, said), mark(END)]))


# ── the parts of a packet ─────────────────────────────────────────────────────────────────


def packet(entries: Iterable[bytes], **more: Any) -> bytes:
    body = Messages(batchId=7, messages=entries).SerializeToString()
    return Packet(**{"type": 7, "body": body, **more}).SerializeToString()


def mark(kind: int) -> bytes:
    """An entry without rows: a transaction's beginning or end, a sign of life."""
    return Entry(header={"executeTime": 1_760_000_000_000}, entryType=kind).SerializeToString()


def entry(said: Flat, **more: Any) -> bytes:
    """The entry of which Canal would write this message."""
    header = {
        "executeTime": said["es"], "schemaName": said["database"], "tableName": said["table"],
    }  # fmt: skip
    stored = change(said).SerializeToString()
    given = {"header": header, "entryType": ROWDATA, "storeValue": stored, **more}
    return Entry(**given).SerializeToString()


def change(said: Flat) -> Any:
    rows = said["data"] or []
    olds = said["old"] or [None for _ in rows]
    return RowChange(
        eventType=EVENTS.index(said["type"]),
        isDdl=said["isDdl"],
        sql=said["sql"],
        rowDatas=[_row(said, now, old or {}) for now, old in zip(rows, olds, strict=True)],
    )


def _row(said: Flat, now: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    match said["type"]:
        case "DELETE":
            return {"beforeColumns": _columns(said, now)}
        case "UPDATE":
            before = {**now, **old}
            return {
                "beforeColumns": _columns(said, before),
                "afterColumns": _columns(said, now, {n for n in now if now[n] != before[n]}),
            }
        case _:
            return {"afterColumns": _columns(said, now)}


def _columns(said: Flat, image: Mapping[str, Any], updated: Iterable[str] = ()) -> list[Any]:
    return [
        {
            "name": name,
            "isKey": name in (said["pkNames"] or ()),
            "updated": name in updated,
            "isNull": value is None,
            "value": value or "",
            "mysqlType": said["mysqlType"][name],
            "sqlType": said["sqlType"][name],
        }
        for name, value in image.items()
    ]
