"""Where a record carries its schema: told by its text, so that it need not be parsed.

The converter writes ``{"schema":{…},"payload":…``, with the same text for the same schema, so that
the text in between identifies it. Within a JSON string the quotes would be escaped: no value can
look like the separator. Other layouts are parsed.
"""

from __future__ import annotations

from typing import Final

SCHEMA: Final = '{"schema":'
PAYLOAD: Final = ',"payload":'
DATA: Final = ',"data":{"schema":'
"""Before the schema in a cloud event, whose other attributes are no objects."""


def schema_text(value: bytes | None) -> bytes | None:
    """The schema of a record that is laid out as the converter does; None for any other."""
    front, separator, _ = (value or b"").partition(PAYLOAD.encode())
    is_plain = separator and front.startswith(SCHEMA.encode()) and front.endswith(b"}")
    return front[len(SCHEMA) :] if is_plain else None
