"""Tables as other tools make them: debezium-server-iceberg, the Kafka Connect sink, OLake, Flink.

What they write differs in the names of extra columns and in how they delete. Spark writes rows;
equality deletes are written by Iceberg's Java API in a process of its own, with a session that has
a JVM: ``python -m cdc_assets_tests.stack.other_tools CONFIG NAMESPACE TABLE COLUMN KEY…``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig, load_config
from cdc_assets.lake.spark_conf import spark_conf
from cdc_assets.merge.statements import sql
from cdc_assets_tests.conftest import CHECKOUT_JARS
from cdc_assets_tests.pipeline import Session


@dataclass(frozen=True)
class Tool:
    """What a tool adds to a row of ``ledger (id, n, note)``.

    Attributes:
        extra: its columns in DDL, by name.
        values: SQL for them.
        key: what it makes of the key's column.
        identifier: the column that is Iceberg's identifier field; empty for none.
        ending: what follows the columns in ``CREATE TABLE``.
        properties: of the table.
    """

    extra: dict[str, str]
    values: str
    key: str = "int"
    identifier: str = ""
    ending: str = ""
    properties: str = "'format-version' = '2'"


DEBEZIUM_SERVER = Tool(
    {"__op": "string", "__table": "string", "__source_ts_ms": "timestamp", "__db": "string",
     "__deleted": "boolean NOT NULL"},
    "'r', 'ledger', timestamp '2026-01-01 00:00:00', 'db', false",
    key="int NOT NULL",
    identifier="id",
)  # fmt: skip
CONNECT_SINK = Tool(
    {"_cdc": "struct<op: string, ts: timestamp, offset: bigint, source: string, target: string,"
             "key: struct<id: int>>"},
    "named_struct('op', 'I', 'ts', timestamp '2026-01-01 00:00:00', 'offset', 7L, 'source',"
    " 'public.ledger', 'target', 'db.ledger', 'key', named_struct('id', CAST(id AS int)))",
    ending="PARTITIONED BY (bucket(4, id))",
)  # fmt: skip
OLAKE = Tool(
    {"_olake_id": "string NOT NULL", "_olake_timestamp": "timestamp", "_op_type": "string",
     "_cdc_timestamp": "timestamp"},
    "sha2(CAST(id AS string), 256), timestamp '2026-01-01 00:00:00', 'r', NULL",
    key="bigint",
    identifier="_olake_id",
)  # fmt: skip
MERGE_JOB = Tool({}, "", key="bigint", properties="'format-version' = '3'")


def make_ledger(spark: Session, name: LakeName, tool: Tool, rows: int) -> None:
    """Make a tool's copy of ``ledger``, whose rows are those that `ledger` has at first."""
    table = sql.table("lake", name)
    extra = "".join(f", `{column}` {type_}" for column, type_ in tool.extra.items())
    spark().sql(sql.create_namespace("lake", name))
    spark().sql(
        f"CREATE TABLE {table} (id {tool.key}, n int, note string{extra}) USING iceberg"
        f" {tool.ending} TBLPROPERTIES ({tool.properties})"
    )
    if tool.identifier:
        spark().sql(f"ALTER TABLE {table} SET IDENTIFIER FIELDS {tool.identifier}")
    insert(spark, name, tool, f"range(0, {rows})")


def insert(spark: Session, name: LakeName, tool: Tool, ids: str) -> None:
    """Insert rows as the source has them at first."""
    note = "IF(id % 10 = 3, repeat(concat('row ', id), 500), concat('row ', id))"
    values = f", {tool.values}" if tool.values else ""
    spark().sql(
        f"INSERT INTO {sql.table('lake', name)}"
        f" SELECT CAST(id AS int), CAST(id AS int), {note}{values} FROM {ids}"
    )


def delete_by_equality(
    config: ReplicationConfig, name: LakeName, column: str, keys: Sequence[int]
) -> None:
    """Delete rows of keys as Flink and debezium-server-iceberg do, in one commit."""
    command = [sys.executable, "-m", __name__, str(config.path), name.namespace, name.name, column]
    classic = {name: each for name, each in os.environ.items() if not name.startswith("SPARK_")}
    done = subprocess.run(
        [*command, *map(str, keys)],
        env=classic, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def _delete(config_path: str, namespace: str, name: str, column: str, *keys: str) -> None:
    from pyspark.sql import SparkSession

    jars = ",".join(map(str, sorted((CHECKOUT_JARS / "spark").glob("*.jar"))))
    builder: Any = SparkSession.builder
    for key, value in {
        **spark_conf(load_config(Path(config_path))),
        "spark.jars": jars, "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.extensions":
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }.items():  # fmt: skip
        builder = builder.config(key, value)
    spark = builder.master("local[1]").getOrCreate()
    context: Any = spark.sparkContext
    jvm, gateway, session = context._jvm, context._gateway, vars(spark)["_jsparkSession"]  # noqa: SLF001
    loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable
    table = loaded(session, f"lake.`{namespace}`.`{name}`")
    wanted = jvm.java.util.ArrayList()
    wanted.add(column)
    schema = table.schema().select(wanted)
    ids = gateway.new_array(gateway.jvm.int, 1)
    ids[0] = table.schema().findField(column).fieldId()
    parquet = jvm.org.apache.iceberg.FileFormat.PARQUET
    builder = getattr(jvm.org.apache.iceberg.data, "GenericFileWriterFactory$Builder")(table)
    factory = (
        builder.deleteFileFormat(parquet).equalityFieldIds(ids).equalityDeleteRowSchema(schema)
    ).build()
    files = jvm.org.apache.iceberg.io.OutputFileFactory.builderFor(table, 1, 1)
    out = files.format(parquet).build().newOutputFile()
    writer = factory.newEqualityDeleteWriter(out, table.spec(), None)
    for key in keys:
        row = jvm.org.apache.iceberg.data.GenericRecord.create(schema)
        row.setField(column, int(key))
        writer.write(row)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
    spark.stop()


if __name__ == "__main__":
    _delete(*sys.argv[1:])
