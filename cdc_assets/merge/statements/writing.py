"""Writes rows, with properties for the snapshot that the write creates.

Runs a statement that names the rows of a frame.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameWriterV2

from cdc_assets.changes.names import LakeName
from cdc_assets.merge.statements import sql

PLACE: Final = ("_spec_id", "_partition", "_file", "_pos")
"""Iceberg's columns that tell the place of a row in a snapshot."""
_SINK: Final = "cdc_assets.decode.lake.Sink"
_UNMOVED: Final = {"distribution-mode": "none", "fanout-enabled": "true"}
"""Rows arrive hashed by key, and places by file: Iceberg need not shuffle or sort them again."""


def snapshot_writer(
    rows: DataFrame, table: str, properties: Mapping[str, str]
) -> DataFrameWriterV2:
    """Returns a writer of rows into a table for SQL; the properties go into the snapshot."""
    writer = rows.writeTo(table)
    for name, value in _of_snapshot(properties).items():
        writer = writer.option(name, value)
    return writer


@dataclass(frozen=True, slots=True)
class Target:
    """The place that a commit goes to.

    Attributes:
        catalog: name of the table's catalog.
        table: the table.
        head: of ``main``: the commit is refused if it has moved. None for no snapshot.
        branch: that is written to, whatever ``main`` is at; None for ``main``.
    """

    catalog: str
    table: LakeName
    head: int | None = None
    branch: str | None = None

    def options(self) -> dict[str, str]:
        """Returns the options of `Sink` (``decode/jvm``)."""
        own = {"head": str(self.head or "")} if self.branch is None else {"branch": self.branch}
        name = {"namespace": self.table.namespace, "table": self.table.name}
        return {"catalog": self.catalog, **name, **own}


def write_changes(
    rows: DataFrame,
    gone: DataFrame | None,
    target: Target,
    properties: Mapping[str, str],
    *,
    in_one_task: bool = False,
) -> None:
    """Adds rows to a table and removes others, in one commit.

    Args:
        rows: that are added.
        gone: `PLACE` of the rows that are removed, in the target's head.
        target: the table.
        properties: of the snapshot.
        in_one_task: whether one task finds and writes all. Otherwise several do, and of each file
            one writes all that is removed, for which places are shuffled.
    """
    if gone is not None:
        places = gone if in_one_task else gone.repartition("_file")
        rows = places.unionByName(rows, allowMissingColumns=True)
        rows = rows.coalesce(1) if in_one_task else rows
    options = {**target.options(), **_UNMOVED, **_of_snapshot(properties)}
    rows.write.format(_SINK).options(**options).mode("append").save()


def _of_snapshot(properties: Mapping[str, str]) -> dict[str, str]:
    return {f"snapshot-property.{name}": value for name, value in properties.items()}


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
