"""Finds the schema that a record carries by its text, so that it need not be parsed.

The converter writes ``{"schema":{…},"payload":…``, with the same text for the same schema, so that
this text identifies the schema. Within a JSON string the quotes would be escaped: no value can look
like the separator. Other layouts are parsed.
"""

from __future__ import annotations

from typing import Final

from cdc_assets.formats.spark_hash import spark_hash

SCHEMA: Final = '{"schema":'
PAYLOAD: Final = ',"payload":'
DATA: Final = ',"data":{"schema":'
"""The text before the schema in a cloud event, whose other attributes are not objects."""


def front_of(text: str, number: int) -> bytes | None:
    """Returns the exact first bytes of records with this schema; None if they do not identify it.

    A record that begins so has this schema, whatever follows: the schema's text ends at the first
    separator.

    Args:
        text: the schema, as in the records.
        number: the hash that identifies it.
    """
    if not (text.startswith("{") and text.endswith("}")) or PAYLOAD in text or "\\u" in text:
        return None
    return f"{SCHEMA}{text}".encode() if spark_hash(text.encode()) == number else None


def schema_text(value: bytes | None) -> bytes | None:
    """Returns the schema of a record with the converter's layout; None for any other."""
    front, separator, _ = (value or b"").partition(PAYLOAD.encode())
    is_plain = separator and front.startswith(SCHEMA.encode()) and front.endswith(b"}")
    return front[len(SCHEMA) :] if is_plain else None


def known_text(value: bytes | None) -> str:
    """Returns the schema of such a record, or of one without other content; else empty.

    `front_of` checks that the records of the schema do have this text.
    """
    text = schema_text(value)
    if text is None and value is not None and value.startswith(SCHEMA.encode()):
        text = value[len(SCHEMA) : -1]
    try:
        return (text or b"").decode()
    except UnicodeDecodeError:
        return ""
