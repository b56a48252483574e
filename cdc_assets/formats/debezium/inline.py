"""Where a record carries its schema: told by its text, so that it need not be parsed.

The converter writes ``{"schema":{…},"payload":…``, with the same text for the same schema, so that
the text in between identifies it. Within a JSON string the quotes would be escaped: no value can
look like the separator. Other layouts are parsed.
"""

from __future__ import annotations

from typing import Final

from cdc_assets.formats.spark_hash import spark_hash

SCHEMA: Final = '{"schema":'
PAYLOAD: Final = ',"payload":'
DATA: Final = ',"data":{"schema":'
"""Before the schema in a cloud event, whose other attributes are no objects."""


def front_of(text: str, number: int) -> bytes | None:
    """What exactly the records begin with that have this schema; None if that does not tell them.

    Such a record is of this schema whatever follows: its text ends at the first separator.

    Args:
        text: the schema, as it is in the records.
        number: the hash that they are told by.
    """
    if not (text.startswith("{") and text.endswith("}")) or PAYLOAD in text or "\\u" in text:
        return None
    return f"{SCHEMA}{text}".encode() if spark_hash(text.encode()) == number else None


def schema_text(value: bytes | None) -> bytes | None:
    """The schema of a record that is laid out as the converter does; None for any other."""
    front, separator, _ = (value or b"").partition(PAYLOAD.encode())
    is_plain = separator and front.startswith(SCHEMA.encode()) and front.endswith(b"}")
    return front[len(SCHEMA) :] if is_plain else None


def known_text(value: bytes | None) -> str:
    """The schema of such a record, or of one that has nothing else; empty if it is none of these.

    `front_of` finds out whether the records of the schema do have this text.
    """
    text = schema_text(value)
    if text is None and value is not None and value.startswith(SCHEMA.encode()):
        text = value[len(SCHEMA) : -1]
    try:
        return (text or b"").decode()
    except UnicodeDecodeError:
        return ""
