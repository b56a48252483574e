"""Writes rows, with properties for the snapshot that the write creates.

Runs a statement that names the rows of a frame.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.readwriter import DataFrameWriterV2

from cdc_assets.changes.names import HELPERS, LakeName
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.joins import hinted
from cdc_assets.merge.statements.pinning import pinned, unpinned_after
from cdc_assets.schema.file_layout import AS_IT_IS, FileLayout, SortTerm

PLACE: Final = ("_spec_id", "_partition", "_file", "_pos")
"""Iceberg's columns that tell the place of a row in a snapshot."""
_IN_FILE: Final = ("_file", "_pos")
_SINK: Final = "cdc_assets.decode.lake.Sink"
_COPIED: Final = "copied"
"""Option of `Sink`: the files that a write copies, a name on each line."""
_UNMOVED: Final = {
    "distribution-mode": "none",
    "fanout-enabled": "true",
    "use-table-distribution-and-ordering": "false",
}
"""Rows arrive hashed by key, or as `arranged`, and places by file: Iceberg need not shuffle or sort
them again. It could not, either: the format to write in has no catalog for its functions."""
_CLUSTERED: Final = {"fanout-enabled": "false"}
"""A task has one file open at a time. Otherwise it has one for each partition."""
_PART: Final = f"{HELPERS}part"


def arranged(rows: DataFrame, catalog: str, files: FileLayout, *, spread: bool) -> DataFrame:
    """Returns rows in the order in which their files have them, each partition's in few tasks.

    Args:
        rows: the rows; if they have the columns of a `PLACE`, the order begins with these.
        catalog: name of the table's catalog.
        files: the layout; without partitions and order the rows are returned as they are.
        spread: whether to bring the rows of a partition together first. Spark divides the rows of
            large partitions between tasks, and puts those of small ones into one.
    """
    parts, order = files.partition_by or (), files.sort_by or ()
    if not (parts or order):
        return rows
    values = {f"{_PART}{n}": F.expr(sql.value_of(catalog, each)) for n, each in enumerate(parts)}
    made = rows.withColumns(values) if values else rows
    if spread and values:
        made = made.hint("rebalance", *values)
    places = [name for name in PLACE if name in rows.columns]
    made = made.sortWithinPartitions(*places, *values, *(_sorted(catalog, e) for e in order))
    return made.drop(*values) if values else made


def _sorted(catalog: str, each: SortTerm) -> Column:
    value = F.expr(sql.value_of(catalog, each.term))
    if each.descending:
        return value.desc_nulls_first() if each.nulls_first else value.desc_nulls_last()
    return value.asc_nulls_first() if each.nulls_first else value.asc_nulls_last()


def snapshot_writer(
    rows: DataFrame, table: str, properties: Mapping[str, str], files: FileLayout = AS_IT_IS
) -> DataFrameWriterV2:
    """Returns a writer of rows into a table for SQL.

    Args:
        rows: the rows; `arranged` if the layout has partitions or an order.
        table: the table.
        properties: of the snapshot.
        files: the layout of the table's files.
    """
    writer = rows.writeTo(table)
    is_arranged = bool(files.partition_by or files.sort_by)
    own = {**_UNMOVED, **_clustered(files)} if is_arranged else {}
    for name, value in {**_of_snapshot(properties), **own}.items():
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
    files: FileLayout = AS_IT_IS,
) -> None:
    """Adds rows to a table and removes others, in one commit.

    Args:
        rows: that are added.
        gone: `PLACE` of the rows that are removed, in the target's head.
        target: the table.
        properties: of the snapshot.
        in_one_task: whether one task finds and writes all. Otherwise several do, and of each file
            one writes all that is removed, for which places are shuffled.
        files: the layout of the files that are written.
    """
    if files.copies:
        _copy_changed(rows, gone, target, properties, in_one_task=in_one_task, files=files)
        return
    clustered = _clustered(files)
    if not in_one_task:
        rows = arranged(rows, target.catalog, files, spread=True)
    if gone is not None:
        places = gone if in_one_task else gone.repartition("_file")
        if clustered and not in_one_task:
            places = places.sortWithinPartitions(*PLACE)
        rows = places.unionByName(rows, allowMissingColumns=True)
        rows = rows.coalesce(1) if in_one_task else rows
    if in_one_task:
        rows = arranged(rows, target.catalog, files, spread=False)
    _save(rows, target, properties, clustered)


def _copy_changed(
    rows: DataFrame,
    gone: DataFrame | None,
    target: Target,
    properties: Mapping[str, str],
    *,
    in_one_task: bool,
    files: FileLayout,
) -> None:
    """Adds rows, and replaces the files that have removed rows by copies of the others."""
    if gone is None:
        added = arranged(rows, target.catalog, files, spread=not in_one_task)
        _save(added, target, properties, {**_clustered(files), _COPIED: ""})
        return
    places = pinned(gone.select(*_IN_FILE))
    with unpinned_after(places):
        found = places.groupBy("_file").count().collect()
        count = sum(row["count"] for row in found)
        copied = {_COPIED: "\n".join(sorted(row["_file"] for row in found))}
        if found:
            there = rows.sparkSession.read.format(_SINK).options(**target.options(), **copied)
            removed = hinted(places, count, len(PLACE))
            kept = there.load().join(removed, [*_IN_FILE], "left_anti").drop(*PLACE)
            rows = rows.unionByName(kept, allowMissingColumns=True)
            rows = rows.coalesce(1) if in_one_task else rows
        rows = arranged(rows, target.catalog, files, spread=not in_one_task)
        _save(rows, target, properties, {**_clustered(files), **copied})


def _save(
    rows: DataFrame, target: Target, properties: Mapping[str, str], more: Mapping[str, str]
) -> None:
    options = {**target.options(), **_UNMOVED, **more, **_of_snapshot(properties)}
    rows.write.format(_SINK).options(**options).mode("append").save()


def _clustered(files: FileLayout) -> Mapping[str, str]:
    return _CLUSTERED if files.partition_by else {}


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
