"""What a release has left behind: recorded once, restored for each test.

Iceberg's metadata names its files by their whole path. So a release works at a path of its own, the
same on every machine, and its state is restored there. Topics and cluster have other ids in another
Kafka: they are replaced where the state names them.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sqlite3
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets.files import take_lock
from cdc_assets.lake.packed import pack, unpack
from cdc_assets.lake.quarantined import quarantine_name
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.merge.statements import sql
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.command import run_command
from cdc_assets_tests.configuration import beside
from cdc_assets_tests.lake_view import open_catalog, read_table
from cdc_assets_tests.pipeline import Message, Session
from cdc_assets_tests.upgrade.promises import OUTPUTS, fields_of
from cdc_assets_tests.upgrade.story import ODD, REBUILT, logs_of

RELEASES: Final = Path(__file__).parent
PLACE: Final = Path("/tmp/cdc_assets_upgrade")  # noqa: S108 (part of the recorded paths)
LOCK_SECONDS: Final = 600
_PACKED: Final = re.compile(r'("cdc-assets\.packed(?:-other-shards)?" ?: ?")([^"]+)')
_CATALOG: Final = ("iceberg_tables", "iceberg_namespace_properties")


def releases() -> list[str]:
    """The recorded ones, oldest first."""
    found = (each.parent.name for each in RELEASES.glob("*/state.tar.xz"))
    return sorted(found, key=lambda name: [int(part) for part in name.split(".")])


@contextmanager
def own_place(version: str) -> Iterator[Path]:
    """The path at which a release works, empty; nobody else uses it meanwhile."""
    PLACE.mkdir(exist_ok=True)
    place = PLACE / version
    with (PLACE / f"{version}.lock").open("w") as lock:
        assert take_lock(lock, LOCK_SECONDS), f"{lock.name} is held"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        yield place
        shutil.rmtree(place, ignore_errors=True)


@dataclass
class State:
    """The sources of a release, at its place, in a running stack.

    Attributes:
        base: configuration of the stack.
        spark: a session.
        place: see `own_place`.
        sources: their configuration, by name.
    """

    base: ReplicationConfig
    spark: Session
    place: Path
    sources: Mapping[str, Mapping[str, Any]]

    def __post_init__(self) -> None:
        registry = str(self.place / "registry" / "registry.json")
        self.config = beside(self.base, f"{self.name}_all", registry=registry,
                             sources=dict(self.sources))  # fmt: skip
        kafka = {"bootstrap.servers": self.base.kafka.bootstrap_servers}
        self.admin = AdminClient(kafka)
        self.producer = Producer({**kafka, "enable.idempotence": True})

    @property
    def kept(self) -> Path:
        """The metadata of tables as commands remember them."""
        return self.place / "registry" / "registry.json.metadata.sqlite"

    @property
    def name(self) -> str:
        """What the names of all sources begin with."""
        return min(self.sources)

    @property
    def topics(self) -> dict[str, int]:
        """All of the sources, with the number of their partitions."""
        found = self.admin.list_topics(timeout=30).topics
        mine = sorted(name for name in found if name.partition(".")[0] in self.sources)
        return {name: len(found[name].partitions) for name in mine}

    def create_topic(self, topic: str, partitions: int) -> None:
        """Records stay, however long ago they were recorded."""
        new = NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
        for future in self.admin.create_topics([new]).values():
            future.result(30)

    def produce(self, topic: str, messages: Iterable[Message]) -> None:
        for each in messages:
            self.producer.produce(
                topic, each.value, each.key, each.partition,
                timestamp=each.timestamp_ms or 0, headers=list(each.headers),
            )  # fmt: skip
        assert self.producer.flush(30) == 0

    def ids(self) -> dict[str, str]:
        """Of the topics by their names, and of the cluster by an empty one."""
        found = KafkaLog(self.config.kafka.librdkafka()).identity([*self.topics])
        cluster = {each.cluster_id for each in found.values()}
        return {"": cluster.pop(), **{name: each.topic_id for name, each in found.items()}}

    def rows(self) -> dict[str, list[str]]:
        """All columns of all rows of all tables, as texts."""
        targets = {each.target for each in RegistryFile(self.config.registry).load()}
        return {str(each): _texts(self.config, each) for each in sorted(targets, key=str)}

    def run(self, *arguments: str, fails: bool = False) -> str:
        """``cdc-assets …`` as a person calls it; what it prints."""
        path = self.config.path
        assert path is not None
        done = run_command(path.parent, *arguments, config=path)
        assert done.returncode == int(fails), f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def table(self, name: str) -> str:
        """The whole name of a table of `story`, in the source that has it."""
        return next(f"{source}.{name}" for source, logs in logs_of(self.name).items()
                    if name in logs)  # fmt: skip

    def merge(self) -> None:
        """Merge all that is there, complete the rebuild, and release what can be completed now."""
        self.run("replicate", "--until-caught-up", fails=True)
        self.run("rebuild", self.table(REBUILT))
        self.run("quarantine", "replay", "--table", self.table(ODD), fails=True)

    def json(self, *arguments: str) -> Any:
        """What a command prints, whether or not it fails."""
        path = self.config.path
        assert path is not None
        done = run_command(path.parent, *arguments, "--json", config=path)
        assert done.stdout, f"{arguments}: {done.stderr}"
        return json.loads(done.stdout)

    def outputs(self) -> dict[str, dict[str, list[str]]]:
        """The fields of the documents that commands print."""
        names = {"table": self.table("public.keyed"), "source": self.name}
        calls = {name: [*name.split(), *(each.format(**names) for each in arguments)]
                 for name, arguments in OUTPUTS.items()}  # fmt: skip
        return {name: fields_of(self.json(*call)) for name, call in calls.items()}

    def standing(self) -> dict[str, Any]:
        """What people are shown: states, errors, records in quarantine, cuts."""
        tables = self.json("status")["tables"]
        failed = {e["table"]: e["last_error"]["message"] for e in tables if e["last_error"]}
        paused = {e["table"]: e["desired"]["paused"] for e in tables if e["desired"]["paused"]}
        listed = self.json("quarantine", "list")["records"]
        cuts = self.json("consistent", "list", f"{self.name}_cuts")["cuts"]
        return {
            "states": {each["table"]: each["condition"]["state"] for each in tables},
            "paused": paused,
            "failed": failed,
            "quarantined": [[e["topic"], e["partition"], e["offset"]] for e in listed],
            "cuts": [each["committed_at"] for each in cuts],
        }

    # ── recording ────────────────────────────────────────────────────────────────────────

    def records(self) -> list[dict[str, Any]]:
        """What the topics hold, in its order."""
        found: list[dict[str, Any]] = []
        settings = {"bootstrap.servers": self.base.kafka.bootstrap_servers, "group.id": "upgrade",
                    "enable.partition.eof": True}  # fmt: skip
        consumer = Consumer(settings)
        for topic, partitions in self.topics.items():
            for partition in range(partitions):
                consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
                while not (got := consumer.consume(1, 30)[0]).error():
                    found.append(_to_json(got))
        consumer.close()
        return found

    def store(self, file: Path) -> None:
        """Pack lake and registry."""
        with tarfile.open(file, "w:xz", preset=9) as packed:
            packed.add(self.place, ".", filter=lambda e: None if _is_left_out(e.name) else e)

    # ── restoring ────────────────────────────────────────────────────────────────────────

    def restore(self, release: Path) -> None:
        """Bring topics, lake and notes back, as the release has left them."""
        told = json.loads((release / "topics.json").read_text())
        for topic, partitions in told["partitions"].items():
            self.create_topic(topic, partitions)
        logs: dict[str, list[Message]] = {}
        with gzip.open(release / "records.jsonl.gz", "rt") as lines:
            for each in map(json.loads, lines):
                logs.setdefault(each["topic"], []).append(_of_json(each))
        for topic, messages in logs.items():
            self.produce(topic, messages)
        shutil.unpack_archive(release / "state.tar.xz", self.place)
        ids = self.ids()
        new = {old: ids[topic] for topic, old in told["ids"].items()}
        for file in self.place.rglob("*.json"):
            file.write_text(_replaced(file.read_text(), new))
        with closing(sqlite3.connect(self.kept)) as connection, connection:
            connection.create_function("renewed", 1, lambda said: _replaced(said, new))
            connection.execute("UPDATE metadata SET said = renewed(said)")
        self._enter(self.place / "lake" / "catalog.db")
        self._identify(self.spark(), new)

    def _enter(self, catalog: Path) -> None:
        """Enter the tables into the catalog of the stack."""
        with self._catalog() as connection:
            connection.execute("ATTACH ? AS recorded", (str(catalog),))
            for name in _CATALOG:
                columns = ", ".join(
                    row[1] for row in connection.execute(f"PRAGMA recorded.table_info({name})")
                )
                told = f"({columns}) SELECT {columns} FROM recorded.{name}"
                connection.execute(f"INSERT OR REPLACE INTO {name} {told}")

    def point(self, before: str, after: str) -> None:
        """Have the catalog name another file of a table's metadata."""
        with self._catalog() as connection:
            moved = "UPDATE iceberg_tables SET metadata_location = ? WHERE metadata_location = ?"
            assert connection.execute(moved, (after, before)).rowcount == 1

    def forget(self) -> None:
        """Take the tables out of the catalog, in which others look, too."""
        with self._catalog() as connection:
            place = f"%{self.place}/%"
            connection.execute(
                "DELETE FROM iceberg_tables WHERE metadata_location LIKE ?", (place,)
            )

    @contextmanager
    def _catalog(self) -> Iterator[sqlite3.Connection]:
        open_catalog(self.config)  # makes it, if nobody has
        uri = self.base.lake.catalog.resolved()["uri"].removeprefix("sqlite:///")
        with closing(sqlite3.connect(uri, timeout=30)) as connection, connection:
            yield connection

    def _identify(self, spark: SparkSession, new: Mapping[str, str]) -> None:
        """The quarantine names the topics in its rows."""
        for source in self.sources:
            name = quarantine_name(source)
            if read_table(self.config, name) is None:
                continue
            for old, topic_id in new.items():
                table = sql.table("lake", name)
                spark.sql(f"UPDATE {table} SET topic_id = '{topic_id}' WHERE topic_id = '{old}'")


def _texts(config: ReplicationConfig, target: LakeName) -> list[str]:
    table = read_table(config, target)
    rows = table.scan().to_arrow().to_pylist() if table else []
    return sorted(json.dumps(row, default=_plain, sort_keys=True) for row in rows)


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _is_left_out(name: str) -> bool:
    return name.endswith((".lock", ".crc"))


def _replaced(text: str, new: Mapping[str, str]) -> str:
    """The text with other ids, also where they are packed; what has none stays as it was packed."""

    def repacked(found: re.Match[str]) -> str:
        document = unpack(found[2])
        renewed = json.loads(_replaced(json.dumps(document), new))
        return found[0] if renewed == document else f"{found[1]}{pack(renewed)}"

    for old, id_ in new.items():
        text = text.replace(old, id_)
    return _PACKED.sub(repacked, text)


def _to_json(record: Any) -> dict[str, Any]:
    key, value = (_text(each) for each in (record.key(), record.value()))
    headers = [[name, _text(held)] for name, held in record.headers() or ()]
    return {"topic": record.topic(), "partition": record.partition(), "offset": record.offset(),
            "timestamp": record.timestamp()[1], "key": key, "value": value,
            "headers": headers}  # fmt: skip


def _of_json(told: Mapping[str, Any]) -> Message:
    headers = tuple((name, _bytes(held) or b"") for name, held in told["headers"])
    key, value = _bytes(told["key"]), _bytes(told["value"])
    return Message(key, value, told["partition"], headers, told["timestamp"])


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "surrogateescape")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")
