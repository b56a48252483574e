"""What is wrong outside is named, with its address and a remedy, and stops only what it must.

Each row value and each secret here holds a canary: of the database, Kafka, the schema registry,
Spark and the webhook. None may appear in anything that the commands print or store, in a log of the
stack, or in a list of processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cdc_assets_devstack.configured import stack_of
from confluent_kafka import TopicPartition
from pyspark.errors import PySparkException

from cdc_assets.config import ReplicationConfig, load_config
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.canaries import shown_by, shown_in
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

CANARY = "canary-5e1d"
SECRET = "canary-s3cr3t"
NOWHERE = "127.0.0.1:1"
DEAD_DSN = f"postgresql://shop:{SECRET}@{NOWHERE}/shop?connect_timeout=3"
SECRETS = {
    "DEAD_DSN": DEAD_DSN,
    "DEAD_TOKEN": SECRET,
    "KAFKA_PASSWORD": f"{SECRET}-of-kafka",
    "REGISTRY_PASSWORD": f"{SECRET}-of-the-registry",
    "WEBHOOK": f"http://{NOWHERE}/hooks/{SECRET}",
}
LOGIN = {"ssl.key.password": {"env": "KAFKA_PASSWORD"}}
"""A secret of Kafka's clients that a Kafka without TLS does not ask for."""
REGISTRY = {
    "url": f"http://{NOWHERE}", "username": "u", "password": {"env": "REGISTRY_PASSWORD"},
}  # fmt: skip


@dataclass
class User:
    """Somebody with a configuration, a shell and a Dagster instance."""

    pipeline: Pipeline
    instance: Path
    changes: dict[str, Any] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        path = self.pipeline.config.path
        assert path is not None
        self.config = path.with_name(f"{path.stem}-user.yaml")
        registry = {"registry": str(self.instance / "registry.json")}
        document = {**yaml.safe_load(path.read_text()), **registry}
        document["alerts"] = {"webhook": {"env": "WEBHOOK"}}
        document["kafka"] = {**document["kafka"], "properties": LOGIN}
        document |= self.changes
        self.config.write_text(yaml.safe_dump(document))

    def types(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command; both its streams are in ``stdout``."""
        env = {
            **os.environ,
            "CDC_ASSETS_CONFIG": str(self.config),
            "DAGSTER_HOME": str(self.instance),
            **SECRETS,
        }
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            env=env, check=False, text=True, timeout=240,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.printed.append(done.stdout)
        return done

    def replicate(self) -> subprocess.CompletedProcess[str]:
        return self.types("cdc_assets.cli", "replicate", "--until-caught-up")

    def status(self) -> dict[str, dict[str, Any]]:
        """By table name."""
        text = self.types("cdc_assets.cli", "status", "--json").stdout
        document = json.loads(text[text.index("{") : text.rindex("}") + 1])
        return {each["table"].rpartition(".")[2]: each for each in document["tables"]}

    def register(self, *tables: str) -> None:
        registry = RegistryFile(load_config(self.config).registry)
        registry.add([self.pipeline.entry(f"public.{table}") for table in tables])

    def require_discreet(self) -> None:
        """No canary in what was printed, in a file of the instance, in a log, on a command line."""
        canaries, stack = (CANARY, SECRET), stack_of(self.pipeline.base)
        assert [n for n, text in enumerate(self.printed) if any(c in text for c in canaries)] == []
        for folder in (self.instance, stack.layout.log("spark").parent):
            assert shown_in(folder, canaries) == []
        running = [part.running for part in stack.parts]
        assert shown_by([each.pid for each in running if each is not None], canaries) == []


@pytest.fixture
def user(
    pipeline: Callable[..., Pipeline], tmp_path: Path, stack_config: ReplicationConfig
) -> Iterator[Callable[..., User]]:
    """Make a user: source keys, and ``changes`` of the configuration's other keys."""
    assert stack_config.path is not None
    made: list[User] = []
    instance = tmp_path / "instance"
    instance.mkdir()
    (instance / "dagster.yaml").write_text("telemetry: {enabled: false}\n")

    def make(changes: dict[str, Any] | None = None, **source: object) -> User:
        made.append(User(pipeline(**source), instance, changes or {}))
        return made[-1]

    yield make
    for each in made:
        each.require_discreet()


TYPED = {f"public.{name}": {"primary_key": ["id"], "columns": {"id": "bigint", "name": "text"}}
         for name in ("good", "bad", "short")}  # fmt: skip


def event(number: int, table: str = "good") -> Message:
    """An insert, as Debezium writes it."""
    source = {
        "version": "3.6.1.Final", "connector": "postgresql", "name": "t", "db": "shop",
        "schema": "public", "table": table, "snapshot": "false", "txId": number,
        "lsn": 1000 + number, "ts_ms": int(datetime.now(UTC).timestamp() * 1000),
        "sequence": f'["{999 + number}","{1000 + number}"]',
    }  # fmt: skip
    value = {
        "before": None,
        "after": {"id": number, "name": f"{CANARY} {number}"},
        "source": source,
        "op": "c",
        "ts_ms": source["ts_ms"],
    }
    return Message(json.dumps({"id": number}).encode(), json.dumps(value).encode())


def events(first: int, last: int, table: str = "good") -> list[Message]:
    return [event(number, table) for number in range(first, last + 1)]


@profiles.in_soak
@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("Kafka", {"kafka": {"bootstrap_servers": NOWHERE, "properties": LOGIN}}),
        ("catalog", {"lake": {"catalog": {"type": "rest", "uri": f"http://{NOWHERE}"},
                              "warehouse": "nowhere"}}),
        ("Spark", {"spark": {"remote": f"sc://{NOWHERE}", "token": {"env": "DEAD_TOKEN"}}}),
    ],
    ids=["kafka", "catalog", "spark"],
)  # fmt: skip
def test_a_part_that_does_not_answer_is_named_with_its_address(
    user: Callable[..., User], part: str, changes: dict[str, Any]
) -> None:
    one = user(changes, tables=TYPED)
    one.pipeline.create_topic("public.good")
    one.pipeline.produce("public.good", events(1, 3))
    done = one.replicate()
    assert done.returncode == 1
    assert part in done.stdout
    assert NOWHERE in done.stdout
    assert "check" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_database_that_does_not_answer_is_named_with_its_address(
    user: Callable[..., User],
) -> None:
    one = user(database={"kind": "postgres", "dsn": {"env": "DEAD_DSN"}})
    one.pipeline.create_topic("public.good")
    one.pipeline.produce("public.good", events(1, 3))
    done = one.replicate()
    assert done.returncode == 1
    assert "database" in done.stdout
    assert NOWHERE in done.stdout
    assert "Traceback" not in done.stdout


@profiles.in_soak
def test_definitions_load_though_nothing_answers(user: Callable[..., User]) -> None:
    nothing = {
        "kafka": {"bootstrap_servers": NOWHERE},
        "lake": {"catalog": {"type": "rest", "uri": f"http://{NOWHERE}"}, "warehouse": "nowhere"},
        "spark": {"remote": f"sc://{NOWHERE}", "token": {"env": "DEAD_TOKEN"}},
    }
    one = user(nothing, database={"kind": "postgres", "dsn": {"env": "DEAD_DSN"}})
    one.register("good", "bad")
    done = one.types("dagster", "definitions", "validate", "-m", "cdc_assets.definitions")
    assert done.returncode == 0, done.stdout


@profiles.in_soak
def test_a_topic_without_change_events_fails_alone_with_its_first_coordinate(
    user: Callable[..., User],
) -> None:
    one = user(tables=TYPED)
    for table in ("bad", "good"):
        one.pipeline.create_topic(f"public.{table}")
    one.pipeline.produce("public.good", events(1, 5))
    notes = [b"not json " + CANARY.encode(), json.dumps({"note": CANARY}).encode(), b"[]"]
    one.pipeline.produce("public.bad", [Message(b"1", note) for note in notes])

    done = one.replicate()
    assert done.returncode == 1
    assert f"failed: {one.pipeline.prefix}.public.bad" in done.stdout
    coordinate = f"topic={one.pipeline.topic('public.bad')} partition=0 offset=0"
    assert coordinate in done.stdout
    assert "Traceback" not in done.stdout

    tables = one.status()
    assert tables["bad"]["state"] == "FAILING"
    assert coordinate in tables["bad"]["last_error"]["message"]
    assert tables["bad"]["offsets"] == {}
    assert tables["good"]["state"] == "CURRENT"
    assert one.pipeline.by_key("public.good").keys() == {1, 2, 3, 4, 5}
    assert one.pipeline.rows("public.bad") == []


def test_offsets_below_the_logs_start_stop_the_table_and_name_the_lost_range(
    user: Callable[..., User],
) -> None:
    one = user(tables=TYPED)
    topic = one.pipeline.create_topic("public.short")
    one.pipeline.produce("public.short", events(1, 10, "short"))
    done = one.replicate()
    assert done.returncode == 0
    for merged in (0, 10):  # told in a pipe, too
        assert f"public.short: {merged} of 10 changes merged" in done.stdout
    before = one.pipeline.by_key("public.short")
    state = one.pipeline.lake.state(one.pipeline.entry("public.short").target)

    one.pipeline.produce("public.short", events(11, 20, "short"))
    lost = one.pipeline.admin.delete_records([TopicPartition(topic, 0, 15)])
    for future in lost.values():
        future.result(30)

    for _ in range(2 if profiles.is_soak() else 1):
        done = one.replicate()
        assert done.returncode == 1
        assert "0:[10,15)" in done.stdout
        assert topic in done.stdout
    assert one.pipeline.by_key("public.short") == before
    assert one.pipeline.lake.state(one.pipeline.entry("public.short").target) == state
    table = one.status()["short"]
    assert table["state"] == "FAILING"
    assert table["last_error"]["needs_person"] is True
    assert table["offsets"] == {"0": 10}


def test_a_schema_registry_that_does_not_answer_is_named_with_its_address(
    user: Callable[..., User],
) -> None:
    one = user(format="debezium-avro", schema_registry=REGISTRY)
    one.pipeline.create_topic("public.good")
    one.pipeline.produce("public.good", [Message(b"\0\0\0\0\1", b"\0\0\0\0\1" + CANARY.encode())])
    one.register("good")
    done = one.replicate()
    assert done.returncode == 1
    assert NOWHERE in done.stdout
    assert "Traceback" not in done.stdout


def test_spark_logs_no_password_that_its_reader_of_kafka_is_given(
    user: Callable[..., User],
) -> None:
    """Not when it reads, nor when it fails to."""
    one = user(tables=TYPED)
    topic = one.pipeline.create_topic("public.good")
    one.pipeline.produce("public.good", events(1, 3))
    login = {
        "kafka.bootstrap.servers": one.pipeline.config.kafka.bootstrap_servers,
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        f'required username="u" password="{SECRETS["KAFKA_PASSWORD"]}";',
    }
    for fails in (False, True):
        if fails:
            lost = one.pipeline.admin.delete_records([TopicPartition(topic, 0, 2)])
            [each.result() for each in lost.values()]
        reader = one.pipeline.spark().read.format("kafka").options(**login).options(
            subscribe=topic, startingOffsets=json.dumps({topic: {"0": 0}}),
        )  # fmt: skip
        if fails:
            with pytest.raises(PySparkException):
                reader.load().collect()
        else:
            assert len(reader.load().collect()) == 3
