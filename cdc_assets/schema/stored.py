"""Serialises a table's schema as text.

The text is stored with the table, so that records without a schema of their own are decoded the
same way for as long as the table lives.
"""

from __future__ import annotations

import json
from typing import Any, cast

from cdc_assets.schema.parse import parse_type, type_text
from cdc_assets.schema.types import Column, Existing, Identity, TableSchema, Wire, WireDetail


def to_json(schema: TableSchema) -> str:
    """Returns canonical text of columns, key and origin; comments are in the table itself."""
    columns = [_column_document(column) for column in schema.columns]
    document = {"columns": columns, "key": list(schema.key), "origin": schema.origin}
    if schema.left_out:
        document["left_out"] = list(schema.left_out)
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def from_json(text: str) -> TableSchema:
    """Reads what `to_json` wrote."""
    document = cast("dict[str, Any]", json.loads(text))
    columns = tuple(_column(each) for each in document["columns"])
    left_out = tuple(document.get("left_out", ()))
    key, origin = tuple(document["key"]), document["origin"]
    return TableSchema(columns, key, origin=origin, left_out=left_out)


def column_to_json(column: Column) -> str:
    """Returns canonical text of one column."""
    return json.dumps(_column_document(column), separators=(",", ":"), ensure_ascii=False)


def column_from_json(text: str) -> Column:
    """Reads what `column_to_json` wrote."""
    return _column(cast("dict[str, Any]", json.loads(text)))


def _column_document(column: Column) -> dict[str, object]:
    document: dict[str, object] = {
        "name": column.name,
        "type": type_text(column.type),
        "wire": str(column.wire),
    }
    if column.element_wire is not None:
        document["element_wire"] = str(column.element_wire)
    if column.required:
        document["required"] = True
    if column.unchanged_marker:
        document["unchanged_marker"] = True
    if column.absent:
        document["absent"] = True
    if column.detail is not None and (detail := _detail_document(column.detail, column.wire)):
        document["detail"] = detail
    if column.existing is not None:
        document["existing"] = {"text": column.existing.text, "id": column.existing.id}
    if identity := _identity_document(column.identity):
        document["identity"] = identity
    return document


def _identity_document(identity: Identity) -> dict[str, object]:
    given = {
        "name": identity.name,
        "formerly": list(identity.formerly),
        "was": list(identity.was),
        "number": identity.number,
        "turn": identity.turn,
    }
    return {name: value for name, value in given.items() if value}


def _detail_document(detail: WireDetail, wire: Wire) -> dict[str, object]:
    given: dict[str, object] = {
        "labels": [] if wire is Wire.STRING else list(detail.labels),
        "zone": detail.zone,
        "width": detail.width,
        "bits": detail.bits,
        "mask": detail.mask,
        "salt": detail.salt,
        "least": detail.least,
        "number": detail.number,
    }
    document = {name: value for name, value in given.items() if value}
    return document if detail.scale is None else {**document, "scale": detail.scale}


def _column(document: dict[str, Any]) -> Column:
    element, detail = document.get("element_wire"), document.get("detail")
    existing = document.get("existing")
    return Column(
        name=document["name"],
        type=parse_type(document["type"]),
        wire=Wire(document["wire"]),
        required=document.get("required", False),
        unchanged_marker=document.get("unchanged_marker", False),
        element_wire=Wire(element) if element else None,
        absent=document.get("absent", False),
        detail=None if detail is None else _detail(detail),
        existing=Existing(**existing) if existing else None,
        identity=_identity(document.get("identity", {})),
    )


def _identity(document: dict[str, Any]) -> Identity:
    return Identity(
        name=document.get("name", ""),
        formerly=tuple(document.get("formerly", ())),
        was=tuple(document.get("was", ())),
        number=document.get("number", 0),
        turn=document.get("turn", 0),
    )


def _detail(document: dict[str, Any]) -> WireDetail:
    labels = tuple(document.get("labels", ()))
    numbers = {name: document.get(name, 0) for name in ("width", "bits", "least")}
    flags = {name: document.get(name, False) for name in ("mask", "number")}
    zone, salt = document.get("zone", ""), document.get("salt", "")
    scale = document.get("scale")
    return WireDetail(labels, zone, **numbers, **flags, scale=scale, salt=salt)
