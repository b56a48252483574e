"""``bare`` and ``inline``: Debezium's own envelope, as the connectors of tables write it."""

from __future__ import annotations

from typing import Final

from cdc_assets.formats.debezium.dialects.dialect import EnvelopeDialect
from cdc_assets.formats.sample import JsonObject
from cdc_assets.schema.connect import ConnectSchema, describe_envelope, is_envelope_schema
from cdc_assets.schema.described import Described

OPS: Final = frozenset({"c", "u", "d", "r", "t"})


class Enveloped(EnvelopeDialect):
    """``{"before": {…}, "after": {…}, "source": {…}, "op": …}``."""

    bare = "bare"
    inline = "inline"

    def event(self, body: JsonObject) -> JsonObject | None:
        """Recognizes an event by its operation."""
        return body if has_operation(body) else None

    def is_schema(self, schema: object) -> bool:
        """Returns whether ``after`` has columns."""
        return is_envelope_schema(schema)

    def described(self, schema: ConnectSchema, key: ConnectSchema | None = None) -> Described:
        """Describes the table by ``after``."""
        return describe_envelope(schema, key)


def has_operation(body: JsonObject) -> bool:
    """Returns whether ``op`` is one of Debezium's."""
    op = body.get("op")
    return isinstance(op, str) and op in OPS
