"""The same backlog in several formats, drained in turn into empty tables.

Debezium writes it as JSON without and with schemas and, where the registry is installed, as Avro;
the messages of Canal are made of the first, ten rows each. Of the second a topic is made in which
every other record has a column more. Machines are shared: what counts are the ratios, of one run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from statistics import fmean, median
from typing import Any, Final

from cdc_assets_devstack.converters import Avro, Converter, Json
from cdc_assets_devstack.jars import require_installed
from cdc_assets_devstack.shop.connector import connector_config
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka import Message as Record
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets.registry import TableEntry
from cdc_assets_tests.bench.accounts import SOURCE, TABLE, Accounts, drain, prepare_accounts
from cdc_assets_tests.bench.figures import Figures, spread
from cdc_assets_tests.bench.meter import Taken
from cdc_assets_tests.bench.world import World
from cdc_assets_tests.waiting import until

BARE = "debezium-json, no schemas"
INLINE = "debezium-json, schemas"
INTERLEAVED = "debezium-json, two schemas in turn"
AVRO = "debezium-avro"
CANAL = "canal-json"
GOALS: Final = {INLINE: "≥ 0.70", INTERLEAVED: "≥ 0.70", AVRO: "≥ 1.50"}
_ROWS_OF_A_MESSAGE = 10
_CANAL_TYPES = {"aid": "int", "bid": "int", "abalance": "int", "filler": "char(84)"}
_IMAGES = ("before", "after")
_ADDED = "added"


Row = dict[str, Any]


@dataclass(frozen=True)
class Produced:
    """A record of a topic that is made here."""

    partition: int
    value: bytes | None
    key: bytes | None = None


@dataclass(frozen=True)
class Backlog:
    """The accounts in one format."""

    world: World
    config: ReplicationConfig
    table: TableName
    topic: str

    def drain(self, copy: str) -> int:
        """Merge all of it into a table of its own; how many rows that published."""
        target = LakeName(f"{self.table.source}_{copy}", TABLE)
        entry = TableEntry(self.table, self.topic, target, datetime.now(UTC))
        return sum(batch.records for batch in drain(self.world, self.config, entry))

    def mean_bytes(self) -> int:
        """Of a record's value."""
        sample = self.world.log.sample(self.topic, 1_000)
        return round(fmean(len(each.value or b"") for each in sample))


def measure(world: World) -> Iterator[Figures]:
    """Each in turn, so that what else the machine does meets them alike."""
    accounts = prepare_accounts(world)
    backlogs = {BARE: Backlog(world, accounts.config, accounts.entry("").table, accounts.topic)}
    backlogs[INLINE] = _captured(world, "bench_inline", Json(value_schemas=True))
    backlogs[INTERLEAVED] = _interleaved(world, backlogs[INLINE])
    notes = [f"{world.scale.rows:,} rows; CPU seconds are those of the Spark server"]
    if _start_registry(world):
        url = world.stack.registry.confluent_url
        avro = {"format": "debezium-avro", "schema_registry": {"url": url}}
        backlogs[AVRO] = _captured(world, "bench_avro", Avro(), **avro)
    else:
        notes.append("Avro is left out: cdc-assets stack install registry")
    backlogs[CANAL] = _by_canal(accounts)
    for name, backlog in backlogs.items():
        world.say(f"warming up {name}")
        backlog.drain("warm_up")
    taken: dict[str, list[Taken]] = {name: [] for name in backlogs}
    for number in range(world.scale.repeats):
        world.say(f"repetition {number + 1} of {world.scale.repeats}")
        for name, backlog in backlogs.items():
            drained = partial(backlog.drain, f"drain_{number}")
            taken[name].append(world.meter.take(drained))
    yield Figures("Backlog by format, into an empty table", _rows(backlogs, taken), notes)


def _rows(
    backlogs: Mapping[str, Backlog], taken: Mapping[str, list[Taken]]
) -> list[dict[str, Any]]:
    rows = backlogs[BARE].world.scale.rows
    bare = taken[BARE]
    return [
        {
            "format": name,
            "bytes": backlogs[name].mean_bytes(),
            **spread([one.seconds for one in each]),
            "CPU s": round(median(one.cpu_seconds for one in each), 2),
            "rows/s": round(rows / median(one.seconds for one in each)),
            "× no schemas": _ratio([b.seconds for b in bare], [e.seconds for e in each]),
            "× by CPU": _ratio([b.cpu_seconds for b in bare], [e.cpu_seconds for e in each]),
            "goal": GOALS.get(name, ""),
        }
        for name, each in taken.items()
    ]


def _ratio(bare: Sequence[float], mine: Sequence[float]) -> float:
    """How many times as fast as without schemas, in the same repetition."""
    return round(median(b / m for b, m in zip(bare, mine, strict=True)), 2)


def _captured(world: World, prefix: str, converter: Converter, **keys: Any) -> Backlog:
    """By a connector of its own from the same database."""
    topic = f"{prefix}.public.{TABLE}"
    if not world.records(topic):
        world.say(f"Debezium writes {topic}")
        settings = connector_config(
            world.stack.layout, database=SOURCE, prefix=prefix, converter=converter
        )
        world.stack.register_connector(prefix, settings)
    until(
        lambda: world.records(topic) >= world.scale.rows,
        f"{topic} holds {world.scale.rows:,} events",
        within_seconds=600,
    )
    database = {"kind": "postgres", "dsn": {"env": f"{SOURCE.upper()}_DSN"}}
    config = world.config(prefix, [TABLE], database=database, **keys)
    return Backlog(world, config, TableName(prefix, "public", TABLE), topic)


def _interleaved(world: World, inline: Backlog) -> Backlog:
    """The same records in the same partitions, half of them as if a column had been added."""
    topic = f"bench_two.public.{TABLE}"
    if not world.records(topic):
        make_topic(world, topic, _each_other_wider(world, inline.topic))
    config = world.config("bench_two", [TABLE], database=None)
    return Backlog(world, config, TableName("bench_two", "public", TABLE), topic)


def _each_other_wider(world: World, topic: str) -> Iterator[Produced]:
    for partition, records in _read(world, topic, 1_000):
        for number, record in enumerate(records):
            value = _with_a_column_more(record.value() or b"{}") if number % 2 else record.value()
            yield Produced(partition, value, record.key())


def _with_a_column_more(value: bytes) -> bytes:
    """Both images have it, in their schemas and after their last value."""
    event = json.loads(value)
    for field in event["schema"]["fields"]:
        if field["field"] in _IMAGES:
            field["fields"].append({"type": "int32", "optional": True, "field": _ADDED})
    for image in filter(None, map(event["payload"].get, _IMAGES)):
        image[_ADDED] = image["aid"]
    return json.dumps(event, separators=(",", ":")).encode()


def _by_canal(accounts: Accounts) -> Backlog:
    """What Canal would write of the same rows, into as many partitions."""
    world, topic = accounts.world, f"bench_canal.public.{TABLE}"
    if not world.records(topic):
        make_topic(world, topic, _in_messages(accounts))
    keys = {"topics": {"include": [r"bench_canal\..*"]}, "format": "canal-json", "database": None}
    config = world.config("bench_canal", [TABLE], **keys)
    return Backlog(world, config, TableName("bench_canal", "public", TABLE), topic)


def _start_registry(world: World) -> bool:
    """Whether there is one."""
    try:
        require_installed(world.stack.layout, "registry")
    except TerminalError:
        return False
    return world.stack.up(["registry"]).ready


def make_topic(world: World, topic: str, records: Iterable[Produced]) -> None:
    """Create a topic of four partitions with these records."""
    world.say(f"making {topic}")
    producer = Producer({"bootstrap.servers": world.stack.kafka.address, "linger.ms": 50})
    admin = AdminClient({"bootstrap.servers": world.stack.kafka.address})
    for made in admin.create_topics([NewTopic(topic, 4, 1)]).values():
        made.result(30)
    for record in records:
        while len(producer) > 50_000:
            producer.poll(0.1)
        producer.produce(topic, record.value, record.key, record.partition)
    assert producer.flush(60) == 0


def _in_messages(accounts: Accounts) -> Iterator[Produced]:
    """The accounts, in the partitions that Debezium has put them in."""
    for partition, read in _read(accounts.world, accounts.topic, _ROWS_OF_A_MESSAGE):
        rows = [json.loads(each.value() or b"{}")["after"] for each in read]
        message = json.dumps(_message(rows), separators=(",", ":"))
        yield Produced(partition, message.encode())


def _read(world: World, topic: str, most: int) -> Iterator[tuple[int, list[Record]]]:
    """All records of a topic by their partitions, up to so many at once."""
    marks = world.log.watermarks([topic])[topic]
    settings = {"bootstrap.servers": world.stack.kafka.address, "group.id": "-"}
    consumer = Consumer({**settings, "enable.auto.commit": "false"})
    try:
        for part in marks.begin.ranges_to(marks.end):
            consumer.assign([TopicPartition(topic, part.partition, part.start)])
            for size in batched_sizes(part.length, most):
                yield part.partition, consumer.consume(size, timeout=20)
    finally:
        consumer.close()


def batched_sizes(length: int, most: int) -> Iterator[int]:
    """Sizes of the parts of so many, each of up to ``most``."""
    yield from (min(most, length - at) for at in range(0, length, most))


def _message(rows: list[Row]) -> dict[str, Any]:
    return {
        "data": [{n: None if v is None else str(v) for n, v in row.items()} for row in rows],
        "database": "public",
        "es": 1_760_000_000_000,
        "id": 1,
        "isDdl": False,
        "mysqlType": _CANAL_TYPES,
        "old": None,
        "pkNames": ["aid"],
        "sql": "",
        "sqlType": {"aid": 4, "bid": 4, "abalance": 4, "filler": 1},
        "table": TABLE,
        "ts": 1_760_000_000_500,
        "type": "INSERT",
    }
