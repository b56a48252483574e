"""``flat``: rows as Debezium's ``ExtractNewRecordState`` leaves them, with fields that it added.

MongoDB's ``ExtractNewDocumentState`` writes the same. Only these fields identify such a record:
without them it is a row that exists now, like any other JSON, and the dialect has to be configured
(``connector.flattened``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from cdc_assets.formats.debezium.added_fields import DELETED, AddedFields
from cdc_assets.formats.debezium.dialects.dialect import EnvelopeDialect
from cdc_assets.formats.sample import JsonObject
from cdc_assets.schema.connect import ConnectSchema, describe_row, is_row_schema
from cdc_assets.schema.described import Described

DOCUMENT_ID: Final = "_id"
_OPS: Final = frozenset({"c", "u", "d", "r"})
_DELETED: Final = {"true": True, "false": False}


class Flat(EnvelopeDialect):
    """``{"id": 1, …, "__deleted": "false", "__op": "c", "__source_lsn": 7, …}``.

    Args:
        added: names of the fields that are no columns.
        is_declared: whether any object is a row, whatever fields it has.
    """

    bare = "flat"
    inline = "flat-inline"
    has_before = False

    def __init__(self, added: AddedFields, *, is_declared: bool) -> None:
        self._added = added
        self._is_declared = is_declared

    def event(self, body: JsonObject) -> JsonObject | None:
        """Returns a deleted row as ``before``, any other as ``after``."""
        if not (self.is_marked(body) or (self._is_declared and body)):
            return None
        op = self._op(body)
        row = {name: value for name, value in body.items() if name not in self._added.names}
        image = "before" if op == "d" else "after"
        return {"op": op, image: row, "source": self._added.source_in(body)}

    def key(self, key: JsonObject, columns: Collection[str]) -> JsonObject:
        """Converts MongoDB's ``{"id": …}`` for rows that have ``_id``."""
        is_of_document = set(key) == {"id"} and is_document(columns)
        return {DOCUMENT_ID: key["id"]} if is_of_document else key

    def is_marked(self, body: JsonObject) -> bool:
        """Returns whether a record shows by itself that it was flattened."""
        op = body.get(self._added.op)
        return (isinstance(op, str) and op in _OPS) or _is_deleted(body) is not None

    def is_schema(self, schema: object) -> bool:
        """Returns whether it is the schema of a row."""
        return is_row_schema(schema)

    def described(self, schema: ConnectSchema, key: ConnectSchema | None = None) -> Described:
        """Describes the table by all fields that were not added."""
        found = describe_row(schema, key)
        columns = (each for each in found.columns if each.name not in self._added.names)
        return replace(found, columns=tuple(columns))

    def _op(self, body: JsonObject) -> str:
        """Returns the operation; an upsert if none is given."""
        op = body.get(self._added.op)
        if isinstance(op, str) and op in _OPS:
            return op
        return "d" if _is_deleted(body) else "u"


def is_document(columns: Collection[str]) -> bool:
    """Returns whether rows are flattened documents of MongoDB."""
    return DOCUMENT_ID in columns and "id" not in columns


def _is_deleted(body: JsonObject) -> bool | None:
    """Reads text, or a boolean from MongoDB's flattening; None if there is neither."""
    said = body.get(DELETED)
    if isinstance(said, bool):
        return said
    return _DELETED.get(said) if isinstance(said, str) else None
