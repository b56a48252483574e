"""``mongodb``: the envelope of MongoDB's connector, whose images are the text of a document.

A document is not taken apart: the table has its ``_id``, as the text in the record's key, and its
text as it was sent. https://debezium.io/documentation/reference/stable/connectors/mongodb.html
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from cdc_assets.changes.json_text import mapping
from cdc_assets.formats.debezium.dialects.dialect import EnvelopeDialect
from cdc_assets.formats.debezium.dialects.enveloped import has_operation
from cdc_assets.formats.sample import JsonObject
from cdc_assets.schema.connect import ConnectSchema, is_documents_schema
from cdc_assets.schema.described import Described
from cdc_assets.schema.types import Column, Primitive, Wire

ID: Final = "_id"
DOCUMENT: Final = "document"
TABLE: Final = Described(
    (
        Column(ID, Primitive.STRING, Wire.STRING, required=True, comment="extended JSON"),
        Column(DOCUMENT, Primitive.STRING, Wire.STRING, comment="extended JSON"),
    ),
    (ID,),
    origin="documents",
)


class Documents(EnvelopeDialect):
    """``{"before": "{…}", "after": "{…}", "updateDescription": …, "source": {…}, "op": …}``."""

    bare = "mongodb"
    inline = "mongodb-inline"
    has_before = False
    fixed = TABLE

    def event(self, body: JsonObject) -> JsonObject | None:
        """Returns images with the column ``document`` alone; the key holds ``_id``."""
        if not (has_operation(body) and _is_of_documents(body)):
            return None
        return {**body, "before": _image(body, "before"), "after": _image(body, "after")}

    def is_schema(self, schema: object) -> bool:
        """Returns whether ``after`` is JSON text."""
        return is_documents_schema(schema)

    def described(self, schema: ConnectSchema, key: ConnectSchema | None = None) -> Described:
        """Returns the same table for all collections."""
        return TABLE

    def key(self, key: JsonObject, columns: Collection[str]) -> JsonObject:
        """Reads ``{"id": "…"}``."""
        return {ID: key["id"]} if set(key) == {"id"} else key


def _is_of_documents(body: JsonObject) -> bool:
    images = (body.get("before"), body.get("after"))
    if any(isinstance(each, dict) for each in images):
        return False
    is_named = mapping(body.get("source")).get("connector") == "mongodb"
    return is_named or any(isinstance(each, str) for each in images)


def _image(body: JsonObject, name: str) -> JsonObject | None:
    text = body.get(name)
    return {DOCUMENT: text} if isinstance(text, str) else None
