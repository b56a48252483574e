"""``cloudevents``: the output of Debezium's ``CloudEventsConverter``, attributes and data as JSON.

The fields of ``source`` are attributes: ``iodebezium`` and the field's name, letters and digits
only (``iodebeziumtsms``, ``iodebeziumtxSeq``); numbers of 64 bits are text. ``data`` holds
``before`` and ``after``, or a schema and these. Sources:
``io.debezium.converters.CloudEventsConverter`` of 3.6, and observation.
"""

from __future__ import annotations

import re
from typing import Final

from cdc_assets.changes.json_text import mapping
from cdc_assets.formats.debezium.dialects.dialect import EnvelopeDialect, Opened, opened
from cdc_assets.formats.debezium.dialects.enveloped import OPS
from cdc_assets.formats.debezium.inline import DATA, schema_text
from cdc_assets.formats.debezium.named import FIELDS
from cdc_assets.formats.sample import JsonObject
from cdc_assets.schema.connect import ConnectSchema, describe_envelope, is_envelope_schema
from cdc_assets.schema.described import Described

PREFIX: Final = "iodebezium"
_ODD: Final = re.compile(r"[^A-Za-z0-9]")
_SOURCE: Final = (
    "connector", "ts_ms", "ts_us", "snapshot", "sequence", "lsn", "file", "pos", "row", "gtid",
    "server_id", "commit_lsn", "change_lsn", "event_serial_no", "scn", "commit_scn", "txSeq",
    "ssn", "commit_ts_ms", "ord", "commit_time", "value_capture_type", "name", *FIELDS,
)  # fmt: skip


class CloudEvents(EnvelopeDialect):
    """``{"specversion": …, "iodebeziumop": …, …, "data": {"before": …, "after": …}}``."""

    bare = "cloudevents"
    inline = "cloudevents-inline"

    def event(self, body: JsonObject) -> JsonObject | None:
        """Reads the event from its attributes. MongoDB's, whose images are text, are excluded.

        It holds no transaction: the converter writes transactions' ends without a value.
        """
        op, data = body.get(f"{PREFIX}op"), opened(mapping(body.get("data"))).body
        if not (is_cloud_event(body) and isinstance(op, str) and op in OPS):
            return None
        images = {name: data.get(name) for name in ("before", "after")}
        if any(isinstance(each, str) for each in images.values()):
            return None
        return {"op": op, **images, "source": _source(body)}

    def is_schema(self, schema: object) -> bool:
        """Returns whether it is the schema of ``data``, with columns in ``after``."""
        return is_envelope_schema(schema)

    def described(self, schema: ConnectSchema, key: ConnectSchema | None = None) -> Described:
        """Describes the table by ``after``."""
        return describe_envelope(schema, key)

    def opened(self, document: JsonObject) -> Opened:
        """Returns the whole document, and the schema in ``data``."""
        data = opened(mapping(document.get("data")))
        return Opened(document, data.is_wrapped, data.schema)

    def schema_text(self, value: bytes | None) -> bytes | None:
        """Returns the text between ``"data":{"schema":`` and ``,"payload":``."""
        head, marker, rest = (value or b"").partition(DATA.encode())
        is_plain = marker and head.startswith(b"{") and rest.rstrip().endswith(b"}}")
        return schema_text(b'{"schema":' + rest) if is_plain else None


def attribute(field: str) -> str:
    """Returns the attribute of a field of ``source``; ``tx…`` names one of ``transaction``."""
    return PREFIX + _ODD.sub("", field)


def is_cloud_event(body: JsonObject) -> bool:
    """Returns whether a record is one of Debezium's cloud events."""
    return isinstance(body.get("specversion"), str) and f"{PREFIX}op" in body


def _source(body: JsonObject) -> JsonObject:
    found = {name: body.get(attribute(name)) for name in _SOURCE}
    return {name: value for name, value in found.items() if value is not None}
