"""Runs a statement that names the rows of a frame."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from cdc_assets.merge.statements import sql


def run_over(spark: SparkSession, rows: DataFrame, statement: Callable[[str], str]) -> None:
    """Runs a statement over the rows.

    The frame goes along with the statement: Spark Connect names it for as long as the statement
    runs, where a view of our own would take two requests more.

    Args:
        spark: the session of the frame.
        rows: the frame.
        statement: returns the text for the name of a view, which it quotes.
    """
    name = uuid.uuid4().hex
    text = statement(name).replace("{", "{{").replace("}", "}}")
    spark.sql(text.replace(sql.quote(name), "{rows}"), rows=rows)
