"""Tells which schema a raw ``key`` was written with: producers hash its bytes along with values.

It changes with much that changes no name and no type of the lake's: ``smallint`` to ``integer``, a
new label of an enumeration, a default, the precision of times, another version of the connector,
another registry.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.formats.flat import any_of

_SCHEMA: Final = ('{"schema":{', '{"schema": {')
"""How a key with its schema begins."""
_PAYLOAD: Final = '"payload"'


def of_json() -> Expression:
    """Returns a hash of the schema that comes before the payload; NULL for keys without one.

    It is asked of each record. A pattern for the beginning, and looking for the payload from the
    front, took 2.6 µs, a fifth of reading and folding a backlog; as it is 0.5 µs.
    """
    text = F.col("key").cast("string")
    behind = F.substring_index(text, _PAYLOAD, -1)
    length = F.octet_length(text) - F.octet_length(behind) - len(_PAYLOAD)
    # All before the last one, unless there is an earlier one: a column may have this name.
    front = F.substring(F.col("key"), F.lit(1), length).cast("string")
    hashed = F.when(front.contains(_PAYLOAD), F.xxhash64(F.substring_index(text, _PAYLOAD, 1)))
    is_with_schema = any_of(text.startswith(each) for each in _SCHEMA) & (length > 0)
    return F.when(is_with_schema, hashed.otherwise(F.xxhash64(front)))


def of_avro() -> Expression:
    """Returns a hash of the id before the data, of 4 or 8 bytes; NULL for keys without one.

    See `cdc_assets.formats.wire_id`.
    """
    key = F.col("key")
    is_long = F.substring(key, 2, 4) == F.lit(bytes(4))
    front = F.when(is_long, F.substring(key, 1, 9)).otherwise(F.substring(key, 1, 5))
    return F.when(F.substring(key, 1, 1) == F.lit(bytes(1)), F.xxhash64(front))


def of_number() -> Expression:
    """Returns the number of a number's bytes."""
    return F.length(F.col("key")).cast("bigint")
