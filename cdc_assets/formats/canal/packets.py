"""Unpacks Canal's packets on Spark, into the messages that Canal would write as JSON.

Spark reads protobuf only with a module that not every server has (``spark-protobuf``). So a small
function of ours does it, which is in the same jar as the others (`cdc_assets.decode`). Alternatives
are discussed in docs/reference/formats/canal-protobuf.md.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.decode import called


def opened(raw: DataFrame) -> DataFrame:
    """Returns a row per message, its JSON in ``value``; ``first`` counts the rows before it."""
    unpacked = called("canal.packets", F.col("value"))
    # Outer: otherwise Spark evaluates the function once more, to test for an empty result.
    found = raw.select("*", F.explode_outer(unpacked).alias("__message"))
    return found.withColumns(
        {"value": F.col("__message.message"), "first": F.col("__message.first")}
    ).drop("__message")
