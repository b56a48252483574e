"""A stack of the benchmark's own: started for it, stopped and removed after it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import yaml
from psycopg.conninfo import make_conninfo
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy
from rich.console import Console

from cdc_assets.config import ReplicationConfig, load_config
from cdc_assets.devstack.configured import stack_of
from cdc_assets.devstack.layout import JARS_VARIABLE
from cdc_assets.devstack.ports import pick_free_ports
from cdc_assets.devstack.stack import LocalStack
from cdc_assets.errors import TransientError
from cdc_assets.log.kafka import KafkaLog
from cdc_assets_tests.bench.meter import Meter
from cdc_assets_tests.bench.scale import Scale

CHECKOUT = Path(__file__).parents[2]
FOLDER = CHECKOUT / ".cdc" / "bench"
_POLL_SECONDS = 0.2


@dataclass
class World:
    """A running stack and how much to measure on it."""

    stack: LocalStack
    home: Path
    scale: Scale
    console: Console

    def config(self, source: str, tables: Sequence[str], **keys: Any) -> ReplicationConfig:
        """A configuration of this stack with one source, named like its database and its topics.

        Args:
            source: its name.
            tables: of schema ``public``, to replicate.
            keys: of the source, besides.
        """
        variable = f"{source.upper()}_DSN"
        os.environ[variable] = self.dsn(source)
        described = {
            "format": "debezium-json",
            "topics": {"include": [rf"{source}\.public\.{table}" for table in tables]},
            "database": {"kind": "postgres", "dsn": {"env": variable}},
            **keys,
        }
        document = {**_platform(self.stack), "sources": {source: described}}
        document["registry"] = f"{source}/registry.json"
        file = self.home / f"{source}.yaml"
        file.write_text(yaml.safe_dump(document))
        return load_config(file)

    def dsn(self, database: str) -> str:
        """How to connect to a database of the stack's PostgreSQL."""
        return make_conninfo(self.stack.postgres.dsn(), dbname=database)

    @cached_property
    def session(self) -> SparkSession:
        """One session for everything that is measured in this process."""
        session = SparkSession.builder.remote(self.stack.spark.endpoint.url).getOrCreate()
        # The client's own policy would try for ten minutes to reach a server that was stopped.
        session.client.set_retry_policies([DefaultPolicy(max_retries=4, max_backoff=1000)])
        return session

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
    file.write_text(yaml.safe_dump({**_document(), "sources": {}}))
    stack = stack_of(load_config(file))
    world = World(stack, home, scale, console)
    try:
        with console.status("starting PostgreSQL, Kafka, Connect and Spark"):
            stack.up()
        yield world
    finally:
        world.close()
        stack.down()
        shutil.rmtree(home, ignore_errors=True)


def until(condition: Callable[[], bool], what: str, within_seconds: float = 180) -> None:
    """Wait for something.

    Raises:
        TimeoutError: if it does not come.
    """
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            msg = f"not within {within_seconds:.0f} s: {what}"
            raise TimeoutError(msg)
        time.sleep(_POLL_SECONDS)


def _document() -> dict[str, Any]:
    ports = pick_free_ports()
    return {
        "kafka": {"bootstrap_servers": f"127.0.0.1:{ports.kafka}"},
        "lake": {
            "catalog": {"type": "sql", "uri": "sqlite:///lake/catalog.db"},
            "warehouse": "lake/warehouse",
        },
        "spark": {"remote": "local"},
        "home": ".",
        "stack": {"ports": ports.as_dict()},
    }


def _platform(stack: LocalStack) -> dict[str, Any]:
    return yaml.safe_load((stack.layout.home / "stack.yaml").read_text())
