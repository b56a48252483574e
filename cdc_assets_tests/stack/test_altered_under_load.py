"""Thirty ALTERs under load of a table with every type, and runs that are killed amid them.

At the end the lake gives each value back to the database, as PyIceberg reads it and as Spark does.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator

import pytest
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.lake_view import OWN, read_table
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.alterer import ON_MARIADB, ON_POSTGRES, Alterer
from cdc_assets_tests.stack.given_back import require_given_back
from cdc_assets_tests.stack.kinds import (
    MARIADB,
    POSTGRES,
    POSTGRES_SETTINGS,
    POSTGRES_TOLD,
    POSTGRES_TYPES,
    TABLE,
    Kinds,
    create,
    rows,
)
from cdc_assets_tests.stack.replicated import (
    Replicated,
    new_database,
    new_mariadb_database,
    record_settings,
    replicated,
)
from cdc_assets_tests.toy import profiles

pytestmark = [pytest.mark.stack, profiles.in_soak]

SEED = int(os.environ.get("CDC_ASSETS_SEED", "7"))
ALTERS = 30
KILLS = 3


@pytest.fixture(params=["bare", "schemas"])
def records(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def on_postgresql(
    stack: LocalStack, stack_config: ReplicationConfig, records: str
) -> Iterator[Replicated]:
    name = f"alteredload{records}"
    dsn = new_database(stack, name, *POSTGRES_TYPES, *made(POSTGRES))
    settings = {**POSTGRES_SETTINGS, **record_settings(stack, records)}
    with replicated(
        stack, stack_config, name, dsn, debezium=settings, connector=POSTGRES_TOLD
    ) as database:
        yield database


@pytest.fixture
def on_mariadb(
    stack: LocalStack, stack_config: ReplicationConfig, records: str
) -> Iterator[Replicated]:
    name = f"alteredloadmy{records}"
    dsn = new_mariadb_database(stack, name, *made(MARIADB))
    settings = record_settings(stack, records)
    with replicated(stack, stack_config, name, dsn, debezium=settings) as database:
        yield database


def made(kinds: Kinds) -> list[str]:
    """The table, rows that the load changes, and rows that only ALTERs do."""
    return [create(kinds), *rows(kinds, 0), *rows(kinds, 1000)]


def test_postgresql(on_postgresql: Replicated, records: str, spark: Session) -> None:
    writer = Alterer(on_postgresql.dsn, SEED, ON_POSTGRES, records)
    require_equal_in_the_end(on_postgresql, writer, spark)


def test_mariadb(on_mariadb: Replicated, records: str, spark: Session) -> None:
    writer = Alterer(on_mariadb.dsn, SEED, ON_MARIADB, records)
    require_equal_in_the_end(on_mariadb, writer, spark)


def require_equal_in_the_end(database: Replicated, writer: Alterer, spark: Session) -> None:
    follow(database)
    writer.in_lake |= columns(database)
    rng, killed, before = random.Random(SEED), 0, len(database.publishes(TABLE))
    with writer.running():
        while writer.altered < ALTERS or killed < KILLS:
            killed += is_killed(database.start("replicate", "--until-caught-up"), rng)
            database.replicate()
            writer.in_lake |= columns(database) & {*writer.columns, writer.key}
    amid = len(database.publishes(TABLE)) - before
    database.execute(*writer.rows(2000))  # names that have changed show in the next record
    follow(database)
    done = f"{dict(writer.done)}; {killed} runs killed, {amid} batches amid them"
    print(f"\n{database.name}: CDC_ASSETS_SEED={SEED}: {done}")
    require_given_back(database, spark, writer.columns, key=writer.key)
    assert columns(database) - {*writer.dropped} == {*writer.columns, writer.key}
    assert amid >= KILLS


def follow(database: Replicated) -> None:
    """Replicate all that was written before."""
    database.wait_until_delivered()
    database.replicate()


def is_killed(run: subprocess.Popen[bytes], rng: random.Random) -> bool:
    """Kill a run at a random moment of its life; false if it was over before."""
    try:
        run.wait(rng.uniform(4, 30))
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGKILL)
        run.wait(10)
        return True
    return False


def columns(database: Replicated) -> set[str]:
    """The lake's, without our own."""
    table = read_table(database.config, database.entry(TABLE).target)
    fields = table.schema().fields if table else ()
    return {each.name for each in fields if not each.name.startswith(OWN)}
