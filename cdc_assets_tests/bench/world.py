"""A stack of the benchmark's own: started for it, stopped and removed after it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import yaml
from cdc_assets_devstack.configured import stack_of
from cdc_assets_devstack.layout import JARS_VARIABLE
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.stack import LocalStack
from psycopg.conninfo import make_conninfo
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console

from cdc_assets.config import ReplicationConfig
from cdc_assets.connect_session import open_session
from cdc_assets.errors import TransientError
from cdc_assets.log.kafka import KafkaLog
from cdc_assets_tests.bench.meter import Meter
from cdc_assets_tests.bench.scale import Scale
from cdc_assets_tests.configuration import database_of, on_ports, write
from cdc_assets_tests.configuration import source as source_of

CHECKOUT = Path(__file__).parents[2]
FOLDER = CHECKOUT / ".cdc" / "bench"


@dataclass
class World:
    """A running stack and how much to measure on it."""

    stack: LocalStack
    home: Path
    scale: Scale
    console: Console

    def config(self, source: str, tables: Sequence[str], /, **keys: Any) -> ReplicationConfig:
        """A configuration of this stack with one source, named like its database and its topics.

        Args:
            source: its name.
            tables: of schema ``public``, to replicate.
            keys: of the source, besides; None takes a key away.
        """
        variable = f"{source.upper()}_DSN"
        os.environ[variable] = self.dsn(source)
        topics = {"include": [rf"{source}\.public\.{table}" for table in tables]}
        said = {"topics": topics, **database_of(variable), **keys}
        given = {name: value for name, value in said.items() if value is not None}
        document = {**_platform(self.stack), "sources": {source: source_of(source, **given)}}
        document["registry"] = f"{source}/registry.json"
        return write(self.home / f"{source}.yaml", document)

    def dsn(self, database: str) -> str:
        """How to connect to a database of the stack's PostgreSQL."""
        return make_conninfo(self.stack.postgres.dsn(), dbname=database)

    @cached_property
    def session(self) -> SparkSession:
        """One session for everything that is measured in this process."""
        # The client's own policy would try for ten minutes to reach a server that was stopped.
        return open_session(self.stack.spark.endpoint.url, retries=4)

    @cached_property
    def log(self) -> KafkaLog:
        """The stack's Kafka."""
        return KafkaLog({"bootstrap.servers": self.stack.kafka.address})

    @cached_property
    def meter(self) -> Meter:
        """Of the Spark server."""
        return Meter(self._pid("spark"))

    def records(self, topic: str) -> int:
        """How many the topic holds; 0 if it does not exist, or was made this moment."""
        try:
            marks = self.log.watermarks([topic]).get(topic)
        except TransientError:
            return 0
        return sum(each.length for each in marks.begin.ranges_to(marks.end)) if marks else 0

    def roles(self) -> dict[str, list[psutil.Process]]:
        """The processes whose memory counts, wherever they run in this stack."""
        found = {"this process": [psutil.Process()]}
        for name, part in (("Spark server", "spark"), ("Kafka", "kafka"), ("Connect", "connect")):
            running = next(each for each in self.stack.parts if each.name == part).running
            live = running.process() if running else None
            if live:
                found[name] = [live]
        return found

    def say(self, what: str) -> None:
        """A line of progress."""
        self.console.print(f"[dim]· {what}[/]", highlight=False)

    def close(self) -> None:
        """Give the session up, while its server still runs."""
        if "session" in self.__dict__:
            with contextlib.suppress(PySparkException):
                self.session.stop()

    def _pid(self, part: str) -> int:
        pid = self.stack.status()[part].pid
        if pid is None:
            msg = f"{part} does not run"
            raise RuntimeError(msg)
        return pid


@contextmanager
def running_world(scale: Scale, console: Console) -> Iterator[World]:
    """Start a stack with a home of its own; stop it and remove its home at the end."""
    home = FOLDER / f"home-{os.getpid()}"
    home.mkdir(parents=True)
    os.environ.setdefault(JARS_VARIABLE, str(CHECKOUT / ".cdc" / "jars"))
    file = home / "stack.yaml"
    stack = stack_of(write(file, on_ports(pick_free_ports(), sources={})))
    world = World(stack, home, scale, console)
    try:
        with console.status("starting PostgreSQL, Kafka, Connect and Spark"):
            stack.up()
        yield world
    finally:
        world.close()
        stack.down()
        shutil.rmtree(home, ignore_errors=True)


def _platform(stack: LocalStack) -> dict[str, Any]:
    return yaml.safe_load((stack.layout.home / "stack.yaml").read_text())
