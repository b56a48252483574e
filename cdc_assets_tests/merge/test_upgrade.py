"""A table that version 0.1.0 has published is gone on with: its metadata is kept as it was."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.changes.names import LakeName
from cdc_assets.lake.side import side_name
from cdc_assets.merge.statements import sql
from cdc_assets_tests.merge.events import event, tombstone, truncate
from cdc_assets_tests.merge.one_table import TABLE, Make
from cdc_assets_tests.pipeline import Message, Pipeline

pytestmark = pytest.mark.stack

WRITTEN = Path(__file__).parents[1] / "lake" / "published_by_0_1"
TYPES = {"long": "bigint", "timestamptz": "timestamp", "int": "int", "string": "string",
         "binary": "binary", "boolean": "boolean"}  # fmt: skip


def left_by_0_1(pipeline: Pipeline, name: str) -> None:
    """Make the tables with the columns, properties, rows and summaries that it has left."""
    entry = pipeline.entry(TABLE)
    topic = pipeline.topic(TABLE)
    identity = pipeline.identity(TABLE)
    text = (WRITTEN / f"{name}.json").read_text().replace("SOURCE", pipeline.prefix)
    text = text.replace("CLUSTER", identity.cluster_id).replace("TOPIC", identity.topic_id)
    left = json.loads(text)
    assert left["properties"]["cdc-assets.topic"] == topic
    spark = pipeline.spark()
    kept = {k: v for k, v in left["properties"].items() if k != "owner"} | {"format-version": "3"}
    _create(pipeline, entry.target, left["columns"], kept)
    if left["identifier"]:
        spark.sql(sql.set_identifier("lake", entry.target, left["identifier"]))
    _create(pipeline, side_name(entry.target), left["side_columns"], {"format-version": "2"})
    _append(pipeline, side_name(entry.target), left["side_columns"], left["side_rows"], {})
    _append(pipeline, entry.target, left["columns"], left["rows"], left["snapshots"][-1])


def _create(pipeline: Pipeline, name: LakeName, columns: list[Any], props: dict[str, str]) -> None:
    required = [(each[0], TYPES[each[1]] + (" NOT NULL" if each[2] else "")) for each in columns]
    spark = pipeline.spark()
    spark.sql(sql.create_namespace("lake", name))
    spark.sql(sql.create_side_table("lake", name, required, props))


def _append(
    pipeline: Pipeline, name: LakeName, columns: list[Any], rows: list[Any], props: dict[str, str]
) -> None:
    schema = ", ".join(f"`{each[0]}` {TYPES[each[1]]}" for each in columns)
    values = [tuple(_value(each[1], row[each[0]]) for each in columns) for row in rows]
    writer = pipeline.spark().createDataFrame(values, schema).writeTo(sql.table("lake", name))
    for key, value in props.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    writer.append()


def _value(type_: str, value: Any) -> Any:
    if value is None:
        return None
    if type_ == "binary":
        return bytes.fromhex(value)
    return datetime.fromisoformat(value) if type_ == "timestamptz" else value


def log_of(name: str) -> list[Message]:
    """The records that it had merged."""
    if name == "keyed":
        return [
            event("r", {"id": 1, "name": "a", "big": "x"}, 10),
            event("r", {"id": 2, "name": "b", "big": "y"}, 10, partition=1),
            event("r", {"id": 3, "name": "c", "big": "z"}, 10),
            event("u", {"id": 1, "name": "A", "big": "x"}, 30, commit=29),
            event("d", {"id": 3, "name": None, "big": None}, 40, commit=39),
            tombstone(3),
            truncate(5, commit=4),
        ]
    if name == "keyless":
        return [
            event("c", {"n": 1}, 10, commit=9, order=1, key=()),
            event("c", {"n": 1}, 11, commit=9, order=2, key=()),
            event("c", {"n": 2}, 20, commit=19, order=1, key=()),
            event("d", {"n": 1}, 30, commit=29, order=1, key=()),
        ]
    return [
        event("c", {"id": 1, "name": "a"}, 10, commit=9),
        event("c", {"id": 2, "name": "b"}, 11, commit=9),
        event("d", {"id": 2, "name": None}, 30, commit=29),
        tombstone(2),
    ]


def test_a_keyed_table_remembers_what_it_remembered(pipeline: Make) -> None:
    made = pipeline()
    made.create_topic(TABLE, partitions=2)
    made.produce(TABLE, log_of("keyed"))
    left_by_0_1(made, "keyed")
    made.produce(
        TABLE,
        [
            event("u", {"id": 3, "name": "late", "big": "late"}, 35, commit=34),
            event("u", {"id": 2, "name": "B", "big": "y"}, 50, commit=49, partition=1),
            event("d", {"id": 1, "name": None, "big": None}, 60, commit=59),
        ],
    )
    made.merge(TABLE)
    assert made.by_key(TABLE) == {2: {"id": 2, "name": "B", "big": "y"}}
    newest = made.lake.history(made.entry(TABLE).target, 1)[0]
    assert newest.carried.side is not None
    made.produce(TABLE, [event("u", {"id": 1, "name": "late", "big": "x"}, 55, commit=54)])
    made.merge(TABLE)
    assert set(made.by_key(TABLE)) == {2}


def test_a_keyless_table_counts_what_was_not_published_and_nothing_twice(pipeline: Make) -> None:
    made = pipeline()
    made.create_topic(TABLE)
    log = log_of("keyless")
    made.produce(TABLE, log)
    left_by_0_1(made, "keyless")
    # An attempt that failed has written the event at offset 5 to the ledger.
    ledger = sql.table("lake", side_name(made.entry(TABLE).target))
    made.spark().sql(
        f"INSERT INTO {ledger} VALUES (unhex('00000000000000270000000000000028'), 1, 0, 0, 5)"
    )
    again, new = log[-1], event("c", {"n": 7}, 40, commit=39, order=1, key=())
    made.produce(TABLE, [again, new])
    made.merge(TABLE)
    assert sorted(row["n"] for row in made.rows(TABLE)) == [1, 2, 7]
    made.produce(TABLE, [new])
    made.merge(TABLE)
    assert sorted(row["n"] for row in made.rows(TABLE)) == [1, 2, 7]


def test_a_soft_table_goes_on(pipeline: Make) -> None:
    made = pipeline(tables={TABLE: {"deletes": "soft"}})
    made.create_topic(TABLE)
    made.produce(TABLE, log_of("soft"))
    left_by_0_1(made, "soft")
    made.produce(TABLE, [event("u", {"id": 1, "name": "A"}, 50, commit=49)])
    made.merge(TABLE)
    assert {key: row["name"] for key, row in made.by_key(TABLE).items()} == {1: "A", 2: "b"}
