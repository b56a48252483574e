"""Canal's packets on Spark: each as the flat messages that Canal would have written of it.

Spark has no function that reads them, unless a module is installed which not every server has
(``spark-protobuf``), and none of its own could in bounded time. So a small one of ours is sent
along (``jvm/src``, in ``jvm/packets.jar``): a session's own class, of which nothing stays on the
server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

JAR: Final = Path(__file__).with_name("jvm") / "packets.jar"
_CLASS: Final = "cdc_assets.canal.Packets"
_NAME: Final = "cdc_assets_canal_packets"
_TYPE: Final = "array<struct<first: int, message: binary>>"
_KNOWN: Final[WeakSet[SparkSession]] = WeakSet()


def opened(raw: DataFrame) -> DataFrame:
    """A row for each message, whose ``value`` is its JSON; ``first`` counts the rows before it."""
    session = raw.sparkSession
    if session not in _KNOWN:
        session.addArtifacts(str(JAR))
        session.udf.registerJavaFunction(_NAME, _CLASS, _TYPE)
        _KNOWN.add(session)
    # Outer: for any other Spark would evaluate it once more, to find out whether it gives nothing.
    each = F.explode_outer(F.call_function(_NAME, F.col("value"))).alias("__message")
    found = raw.select("*", each)
    return found.withColumns(
        {"value": F.col("__message.message"), "first": F.col("__message.first")}
    ).drop("__message")
