"""Tells which schema a raw ``key`` was written with: producers hash its bytes along with values.

It changes with much that changes no name and no type of the lake's: ``smallint`` to ``integer``, a
new label of an enumeration, a default, the precision of times, another version of the connector,
another registry.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from cdc_assets.decode import called


def of_json() -> Expression:
    """Returns a hash of the schema that comes before the payload; NULL for keys without one."""
    return called("key_schema", F.col("key"))


def of_avro() -> Expression:
    """Returns a hash of the id before the data, of 4 or 8 bytes; NULL for keys without one.

    See `cdc_assets.formats.wire_id`.
    """
    key = F.col("key")
    is_long = F.substring(key, 2, 4) == F.lit(bytes(4))
    front = F.when(is_long, F.substring(key, 1, 9)).otherwise(F.substring(key, 1, 5))
    return F.when(F.substring(key, 1, 1) == F.lit(bytes(1)), F.xxhash64(front))


def of_glue() -> Expression:
    """Returns a hash of the UUID before the data; NULL for keys without one.

    The byte before it says how the data is compressed, and is no part of the schema.
    """
    key = F.col("key")
    has_id = (F.substring(key, 1, 1) == F.lit(b"\3")) & (F.octet_length(key) >= 18)
    return F.when(has_id, F.xxhash64(F.substring(key, 3, 16)))


def of_number() -> Expression:
    """Returns the number of a number's bytes."""
    return F.length(F.col("key")).cast("bigint")
