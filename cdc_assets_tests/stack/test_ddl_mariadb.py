"""Statements on tables of MariaDB, as the sensor shows them on their assets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

import dagster as dg
import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.formats.debezium.schema_changes import read_ddl
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.orchestration.keys import default_key
from cdc_assets.orchestration.sensors import ddl_sensor
from cdc_assets.registry import Registry
from cdc_assets.schema.ddl import Ddl
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.killed import kill_part
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_mariadb_database,
    record_settings,
    replicated,
)
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, profiles.in_soak]

TURNS: Final = 8
MADE = (
    "CREATE TABLE people (id int PRIMARY KEY, name varchar(9), age int, pass varchar(9))",
    "INSERT INTO people VALUES (1, 'a', 1, 'secret')",
    "CREATE TABLE other (id int PRIMARY KEY)",
)
STATEMENTS = {
    "ALTER TABLE people ADD COLUMN city varchar(9) DEFAULT 'x', MODIFY age bigint": (
        "change age; add city"
    ),
    "ALTER TABLE people CHANGE name called varchar(9)": "rename name to called; change called",
    "ALTER TABLE people MODIFY pass varchar(9) DEFAULT 'hidden'": "change pass",
    "ALTER ONLINE TABLE people ADD COLUMN IF NOT EXISTS more int": "add more",
    "ALTER TABLE people ADD COLUMN (x int, y int)": "add x; add y",
    "RENAME TABLE people TO persons": "the table is called {database}.persons now",
    "DROP TABLE persons": None,
    "CREATE TABLE people (id int PRIMARY KEY, name varchar(9), city text)": "the table was created",
}


@pytest.fixture(params=["bare", "schemas"])
def altered(
    request: pytest.FixtureRequest, stack: LocalStack, stack_config: ReplicationConfig
) -> Iterator[Replicated]:
    name = f"ddl{request.param}"
    dsn = new_mariadb_database(stack, name, *MADE)
    settings = record_settings(stack, request.param)
    hidden = {"tables": {f"{name}.people": {"columns": {"pass": {"mask": "sha256"}}}}}
    with replicated(stack, stack_config, name, dsn, debezium=settings, **hidden) as database:
        yield database


def test_each_statement_is_shown_with_its_place_and_its_plan(
    altered: Replicated, spark: Session
) -> None:
    entry = altered.entry("people")
    Merging(altered, spark).merge("people")
    for each in STATEMENTS:
        altered.execute(each)
    altered.wait_until_delivered()
    sensor = ddl_sensor(altered.config, Registry((entry,)))
    result = sensor(dg.build_sensor_context(instance=dg.DagsterInstance.ephemeral()))
    assert isinstance(result, dg.SensorResult)
    events = [each for each in result.asset_events if isinstance(each, dg.AssetObservation)]
    assert {each.asset_key for each in events} == {default_key(entry.table)}
    shown = {text: does for text, does in STATEMENTS.items() if does is not None}
    assert [each.metadata["statement"].value for each in events] == [
        "not shown: it names a column that is excluded or masked" if "pass" in text else text
        for text in shown
    ]
    does = [each.format(database=altered.name) for each in shown.values()]
    assert [each.metadata["does"].value for each in events] == does
    offsets = [each.metadata["offset"].value for each in events]
    assert offsets == sorted({*offsets})
    for each in events:
        assert re.fullmatch(
            r"file=binlog\.\d+ pos=\d+ gtid=\S+", str(each.metadata["position"].value)
        )
        plan = str(each.metadata["plan"].value)
        assert "age was dropped at the source" in plan
        assert "add city string" in plan


def test_a_statement_that_a_killed_connector_sends_again_has_the_identity_that_it_had(
    stack: LocalStack, stack_config: ReplicationConfig
) -> None:
    name, bare = "ddlkilled", record_settings(stack, "bare")
    dsn = new_mariadb_database(stack, name, *MADE)
    with replicated(stack, stack_config, name, dsn, debezium=bare) as database:
        database.wait_until_delivered()
        log = KafkaLog(database.config.kafka.librdkafka())

        def told() -> list[Ddl]:
            end = log.watermarks([name])[name].end.get(0)
            records = log.part({(name, 0): (0, end)})
            found = (read_ddl(json.loads(each.value or b"{}"), each.coordinate) for each in records)
            return [each for each in found if each is not None and each.text.startswith("ALTER")]

        def altered(column: str) -> None:
            """Adds a column; its statement is in Kafka, but the connector may not have noted it."""
            database.execute(f"ALTER TABLE other ADD COLUMN {column} int")
            until(lambda: any(column in each.text for each in told()), column, every_seconds=0.01)

        for turn in range(TURNS):
            altered(f"c{turn}")
            kill_part(stack.connect)
            stack.up(("connect",))
            database.wait_until_delivered()
            if len(told()) > turn + 1:
                break
        by_text: dict[str, set[str]] = {}
        for each in told():
            by_text.setdefault(each.text, set()).add(each.identity)
        assert len(told()) > len(by_text), f"nothing was sent again after {TURNS} kills"
        identities = [*chain.from_iterable(by_text.values())]
        assert len({*identities} - {""}) == len(identities) == len(by_text)
