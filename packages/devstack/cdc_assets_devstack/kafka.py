"""Runs a Kafka broker: KRaft, one node, broker and controller in one process."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]

from cdc_assets.errors import TerminalError, TransientError
from cdc_assets_devstack.jars import require_installed
from cdc_assets_devstack.java import find_java, jvm_options
from cdc_assets_devstack.layout import HOST, StackLayout
from cdc_assets_devstack.part import Part
from cdc_assets_devstack.ports import is_open
from cdc_assets_devstack.process import Command

# Thirty days and no size limit: a demo left alone for a weekend still has its whole log.
_RETENTION_HOURS = 24 * 30
_TOPIC_SECONDS = 20


class Kafka(Part):
    """The broker. A client must create its topics: a typo never creates one."""

    name = "kafka"

    @property
    def port(self) -> int:
        """The port of clients."""
        return self.layout.ports.kafka

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports of clients and of the controller."""
        return (self.port, self.layout.ports.kafka_controller)

    @property
    def settings_file(self) -> Path:
        """The broker's properties."""
        return self.layout.home / "run" / "kafka.properties"

    def prepare(self) -> None:
        """Writes the settings; formats the log folder once."""
        require_installed(self.layout, self.name)
        self.settings_file.write_text(broker_properties(self.layout))
        data = self.layout.data(self.name)
        if not (data / "meta.properties").exists():
            self._require_no_records(data)
            self._format(data)

    def command(self) -> Command:
        """Returns the command of the broker."""
        argv = self._java("768m", "kafka.Kafka", str(self.settings_file))
        return Command(argv, env=self.environment())

    def ready(self) -> bool:
        """Whether the broker answers a request for the cluster's metadata."""
        if not is_open(self.port):
            return False
        try:
            AdminClient(
                {"bootstrap.servers": self.address, "log_level": 0, "socket.timeout.ms": 2000}
            ).list_topics(timeout=2)
        except KafkaException:
            return False
        return True

    def make_topic(self, name: str) -> None:
        """Creates a topic of one partition, unless it exists.

        Raises:
            TransientError: if the broker does not answer, or refuses.
        """
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        try:
            (made,) = admin.create_topics([NewTopic(name, 1, 1)]).values()
            made.result(_TOPIC_SECONDS)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            what = f"the topic {name} could not be made ({error.args[0].name()})"
            remedy = "cdc-assets stack status"
            raise TransientError(what, where=self.address, remedy=remedy) from error

    def _require_no_records(self, data: Path) -> None:
        """Refuses to create a new cluster in place of a damaged one."""
        if any(segment.stat().st_size for segment in data.glob("*/*.log")):
            msg = "the data of Kafka is damaged: there are records, but no meta.properties"
            raise TerminalError(
                msg,
                where=str(data),
                remedy=f"restore it, or start again without any data: {self.layout.without_data}",
                page="local-data-damaged",
            )

    def _format(self, data: Path) -> None:
        """Creates the log folder under another name and renames it: an interruption leaves none."""
        partial = data.with_name(f"{data.name}.partial")
        for folder in (partial, data):
            shutil.rmtree(folder, ignore_errors=True)
        settings = self.settings_file.with_name("kafka-format.properties")
        settings.write_text(broker_properties(self.layout, partial))
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        argv = self._java(
            *("256m", "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}"),
            *("--config", str(settings)),
        )
        done = subprocess.run(
            argv, check=False, capture_output=True, text=True, env=self.environment()
        )
        if done.returncode:
            msg = f"Kafka's log folder could not be formatted (exit code {done.returncode})"
            raise TerminalError(
                msg,
                where=str(data),
                remedy=(done.stderr or done.stdout)[-2000:],
            )
        partial.rename(data)

    def _java(self, heap: str, *arguments: str) -> list[str]:
        return [
            str(find_java().program),
            *jvm_options(heap=heap, tmp=self.layout.tmp(self.name)),
            *plain_logging(),
            *("-cp", f"{self.layout.jars_of(self.name)}/*"),
            *arguments,
        ]


def broker_properties(layout: StackLayout, data: Path | None = None) -> str:
    """Returns the broker's settings as a properties file; ``data`` is another log folder."""
    ports = layout.ports
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{ports.kafka_controller}",
        "listeners": f"PLAINTEXT://{HOST}:{ports.kafka},CONTROLLER://{HOST}:{ports.kafka_controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{ports.kafka}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data or layout.data("kafka"),
        "log.retention.hours": _RETENTION_HOURS,
        "offsets.retention.minutes": _RETENTION_HOURS * 60,
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    return properties(settings)


def properties(settings: dict[str, object]) -> str:
    """Formats settings as a Java properties file."""
    escaped = ((key, str(value).replace("\\", "\\\\")) for key, value in settings.items())
    return "".join(f"{key}={value}\n" for key, value in escaped)


def plain_logging() -> list[str]:
    """Returns options that log warnings and errors with the time; needs the jar slf4j-simple."""
    prefix = "-Dorg.slf4j.simpleLogger"
    return [
        f"{prefix}.defaultLogLevel=warn",
        f"{prefix}.showDateTime=true",
        f"{prefix}.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
        f"{prefix}.showShortLogName=true",
    ]
