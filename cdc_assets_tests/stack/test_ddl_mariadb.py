"""Statements on tables of MariaDB, as the sensor shows them on their assets."""

from __future__ import annotations

import re
from collections.abc import Iterator

import dagster as dg
import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.devstack.stack import LocalStack
from cdc_assets.orchestration.keys import default_key
from cdc_assets.orchestration.sensors import ddl_sensor
from cdc_assets.registry import Registry
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.merging import Merging
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_mariadb_database,
    record_settings,
    replicated,
)
from cdc_assets_tests.toy import profiles

pytestmark = [pytest.mark.stack, profiles.in_soak]

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
