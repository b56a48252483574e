"""A database of its own in the tests' stack, its connector, and what replicates it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dagster as dg
import psycopg
import pytest
from cdc_assets_devstack import mariadb
from cdc_assets_devstack.converters import converter_settings
from cdc_assets_devstack.shop.connector import JSON, WITH_SCHEMAS
from cdc_assets_devstack.stack import LocalStack
from psycopg.conninfo import make_conninfo

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake, Published
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.registry import TableEntry
from cdc_assets_tests.configuration import beside, database_of
from cdc_assets_tests.configuration import source as source_of
from cdc_assets_tests.stack.oracle import difference
from cdc_assets_tests.stack.side import Side, side_of

NOW = datetime.now(UTC)
CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Replicated:
    """A source that is named like its database and its connector.

    Attributes:
        stack: where the database, Kafka and Debezium run.
        config: the replication; its home may differ from the stack's.
        side: its database.
        instance: the Dagster instance of its runs.
        started: the commands that were.
        variables: of the environment, which its commands get beside the test's.
    """

    stack: LocalStack
    config: ReplicationConfig
    name: str
    side: Side
    instance: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def dsn(self) -> str:
        """Of the database."""
        return self.side.dsn

    def entry(self, table: str) -> TableEntry:
        """A table of the database's usual schema."""
        name = TableName(self.name, self.side.schema, table)
        topic = f"{self.name}.{name.qualified}"
        source = self.config.source(self.name)
        return TableEntry(name, topic, source.lake_name(name), NOW, shard=source.shard(name))

    def execute(self, *statements: str) -> None:
        """One transaction."""
        self.side.execute(*statements)

    @property
    def env(self) -> dict[str, str]:
        """The environment of a user's shell."""
        return {
            **os.environ,
            **self.variables,
            "CDC_ASSETS_CONFIG": str(self.config.path),
            "DAGSTER_HOME": str(self.instance),
        }

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """``cdc-assets …`` in a process of its own; what it prints goes to `log`."""
        with self.log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "cdc_assets.cli", *arguments],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.started.append(process)
        return process

    def run_ids(self) -> set[str]:
        """The Dagster runs that have started or ended."""
        with dg.DagsterInstance.from_config(str(self.instance)) as instance:
            runs = instance.get_runs()
        return {run.run_id for run in runs if run.status is not dg.DagsterRunStatus.NOT_STARTED}

    def close(self) -> None:
        """Kill what still runs."""
        for process in self.started:
            process.kill()
            process.wait()

    def run(self, *arguments: str, within_seconds: float = 600) -> None:
        """The same, to its successful end."""
        process = self.start(*arguments)
        assert process.wait(within_seconds) == 0, self.last_words()

    def replicate(self) -> None:
        """Until caught up."""
        self.run("replicate", "--until-caught-up")

    @property
    def log(self) -> Path:
        """What the commands printed."""
        return self.instance / "commands.log"

    def last_words(self) -> str:
        """The end of it."""
        return self.log.read_text(errors="replace")[-3000:]

    def wait_until_delivered(self) -> None:
        """Until Kafka has everything that was committed before this call."""
        self.side.wait_until_delivered(self.stack, self.name)

    def differences(self, *tables: str, ignoring: Sequence[str] = ()) -> list[str]:
        """Where the lake is not what the database is; not in columns that this has dropped."""
        found = (
            difference(self.side.table(table), self.config, self.entry(table).target, ignoring)
            for table in tables
        )
        return [each for each in found if each]

    def publishes(self, table: str) -> list[Published]:
        """All of them, oldest first."""
        return list(reversed(Lake(self.config).history(self.entry(table).target, 100_000)))

    def has_column(self, table: str, name: str) -> bool:
        """Whether the lake's table has it."""
        state = Lake(self.config).state(self.entry(table).target)
        return state is not None and name in {column.name for column in state.columns}

    def require_tiled(self, *tables: str) -> None:
        """Each publish begins where the one before ended: from the log's begin to its end."""
        marks = KafkaLog(self.config.kafka.librdkafka()).watermarks(
            [self.entry(table).topic for table in tables]
        )
        for table in tables:
            here = marks[self.entry(table).topic]
            position = here.begin
            for publish in self.publishes(table):
                assert publish.start == position, f"{table}: attempt {publish.attempt}"
                position = publish.offsets
            assert position == here.end, table


@contextmanager
def replicated(
    stack: LocalStack,
    base: ReplicationConfig,
    name: str,
    dsn: str,
    document: Mapping[str, Any] = MappingProxyType({}),
    debezium: Mapping[str, str] = MappingProxyType({}),
    **source: object,
) -> Iterator[Replicated]:
    """Register the connector of a database and write a configuration that replicates it.

    Args:
        stack: the running stack.
        base: its configuration.
        name: of the source, its connector and its topics' prefix.
        dsn: of the database.
        document: top-level keys of the configuration to replace.
        debezium: settings of the connector to replace.
        source: keys of the source to add.
    """
    side = side_of(dsn)
    config = configured(base, name, side, document, **source)
    assert config.path is not None
    instance = config.path.with_name(name)
    instance.mkdir(parents=True, exist_ok=True)
    shutil.copy(CHECKOUT / "dagster.yaml", instance)
    stack.register_connector(name, {**side.connector(stack, name), **debezium})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_variable(name), dsn)
        shop = Replicated(stack, config, name, side, instance)
        try:
            yield shop
        finally:
            shop.close()
            stack.connect.unregister(name)


def configured(
    base: ReplicationConfig,
    name: str,
    side: Side,
    document: Mapping[str, Any] = MappingProxyType({}),
    **source: object,
) -> ReplicationConfig:
    """`write_config` for a source with this database behind it."""
    return write_config(base, name, document, **{**side.configured(_variable(name)), **source})


def write_config(
    base: ReplicationConfig,
    name: str,
    document: Mapping[str, Any] = MappingProxyType({}),
    **source: object,
) -> ReplicationConfig:
    """A configuration file beside the stack's, with one source and a registry of its own.

    The source has a PostgreSQL behind it, unless its ``database`` says otherwise.
    """
    described = source_of(name, **{**database_of(_variable(name)), **source})
    rest = {"registry": f"{name}/registry.json", **document, "sources": {name: described}}
    return beside(base, name, **rest)


def new_database(stack: LocalStack, name: str, *statements: str) -> str:
    """Create a database in the stack's PostgreSQL; its DSN."""
    server = stack.postgres.dsn()
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    dsn = make_conninfo(server, dbname=name)
    with psycopg.connect(dsn) as connection:
        for statement in statements:
            connection.execute(statement.encode())
    return dsn


def new_mariadb_database(stack: LocalStack, name: str, *statements: str) -> str:
    """Create a database in the stack's MariaDB, which is started first; its DSN."""
    stack.up(["mariadb"])
    with mariadb.connect(stack.mariadb.dsn(), autocommit=True) as connection:
        connection.cursor().execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    dsn = stack.mariadb.dsn(name)
    side_of(dsn).execute(*statements)
    return dsn


def record_settings(stack: LocalStack, records: str) -> dict[str, str]:
    """Of a connector whose JSON values carry their ``schemas``, or are ``bare``."""
    converter = {"schemas": WITH_SCHEMAS, "bare": JSON}[records]
    return converter_settings(stack.layout, converter)


def _variable(name: str) -> str:
    return f"{name.upper()}_DSN"
