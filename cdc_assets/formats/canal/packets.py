"""Unpacks Canal's packets on Spark, into the messages that Canal would write as JSON.

Spark reads protobuf only with a module that not every server has (``spark-protobuf``). A small
function of ours is therefore sent along with the session (``jvm/src``, compiled in
``jvm/packets.jar``); nothing of it stays on the server. Alternatives are discussed in
docs/formats/canal-protobuf.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_assets.connect_session import add_jar

JAR: Final = Path(__file__).with_name("jvm") / "packets.jar"
_CLASS: Final = "cdc_assets.canal.Packets"
_NAME: Final = "cdc_assets_canal_packets"
_TYPE: Final = "array<struct<first: int, message: binary>>"
_KNOWN: Final[WeakSet[SparkSession]] = WeakSet()


def opened(raw: DataFrame) -> DataFrame:
    """Returns a row per message, its JSON in ``value``; ``first`` counts the rows before it."""
    session = raw.sparkSession
    if session not in _KNOWN:
        add_jar(session, JAR)
        session.udf.registerJavaFunction(_NAME, _CLASS, _TYPE)
        _KNOWN.add(session)
    # Outer: otherwise Spark evaluates the function once more, to test for an empty result.
    each = F.explode_outer(F.call_function(_NAME, F.col("value"))).alias("__message")
    found = raw.select("*", each)
    return found.withColumns(
        {"value": F.col("__message.message"), "first": F.col("__message.first")}
    ).drop("__message")
