"""Several tables in one topic, in each format that has such topics; and runs that merge them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from cdc_assets.merge import BatchResult
from cdc_assets.merge.intake.shared_reading import SharedReadings
from cdc_assets_tests.faults import Fault, faults
from cdc_assets_tests.formats import canal
from cdc_assets_tests.formats.messages import maxwell
from cdc_assets_tests.pipeline import Message, Pipeline

TABLES = ("shop.items", "shop.notes", "shop.users")
ITEMS, NOTES, USERS = TABLES
TOPIC = "shared"
KEEP = "spark: keep topic"
TYPES = {"id": "int", "name": "varchar(20)"}
BROKEN = Message(None, b'{"data": 7')


@dataclass(frozen=True)
class Said:
    """A change of a row, or with neither before nor after something that is none."""

    table: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None

    @property
    def row(self) -> dict[str, Any]:
        return self.after or self.before or {}

    @property
    def partition(self) -> int:
        return self.row.get("id", 0)


def put(table: str, id_: int, name: str | None = "a") -> Said:
    return Said(table, None, {"id": id_, "name": name})


def change(table: str, id_: int, name: str | None) -> Said:
    return Said(table, {"id": id_, "name": "a"}, {"id": id_, "name": name})


def remove(table: str, id_: int) -> Said:
    return Said(table, {"id": id_, "name": "a"}, None)


def ddl(table: str) -> Said:
    return Said(table)


@dataclass(frozen=True)
class Dialect:
    """How changes become records of a topic of so many partitions."""

    format: str
    write: Callable[[Sequence[Said], int], list[Message]]


def _flat(said: Said) -> canal.Flat:
    if said.before is None and said.after is None:
        return canal.ddl("ALTER", "ALTER TABLE x COMMENT 'y'", said.table)
    kinds = {(True, False): "DELETE", (False, True): "INSERT", (True, True): "UPDATE"}
    kind = kinds[said.before is not None, said.after is not None]
    data = [{n: None if v is None else str(v) for n, v in said.row.items()}]
    old = [{"name": "a"}] if kind == "UPDATE" else None
    return canal.flat(kind, data, old, table=said.table, types=TYPES)


def _canal(said: Sequence[Said], partitions: int) -> list[Message]:
    return [
        Message(None, canal.as_json(_flat(each)).value, each.partition % partitions)
        for each in said
    ]


def _packets(said: Sequence[Said], partitions: int) -> list[Message]:
    """One packet for each partition, with rows of all tables."""
    found = []
    for partition in range(partitions):
        mine = [_flat(each) for each in said if each.partition % partitions == partition]
        found.append(Message(None, canal.as_packet(mine).value, partition))
    return found


def _maxwell(said: Sequence[Said], partitions: int) -> list[Message]:
    kinds = {(True, False): "delete", (False, True): "insert", (True, True): "update"}

    def one(each: Said) -> Message:
        at = each.partition % partitions
        kind = kinds.get((each.before is not None, each.after is not None))
        if kind is None:
            return maxwell("table-alter", None, table=each.table, partition=at)
        old = {"name": "a"} if kind == "update" else None
        return maxwell(kind, each.row, old, table=each.table, partition=at)

    return [one(each) for each in said]


CANAL = Dialect("canal-json", _canal)
PACKETS = Dialect("canal-protobuf", _packets)
MAXWELL = Dialect("maxwell-json", _maxwell)


def topic_of(pipeline: Callable[..., Pipeline], dialect: Dialect, partitions: int = 1,
             **source: object) -> Topic:  # fmt: skip
    made = pipeline(format=dialect.format, **source)
    made.shared = dict.fromkeys(TABLES, TOPIC)
    made.create_topic(TOPIC, partitions)
    return Topic(made, dialect, partitions)


@dataclass
class Topic:
    """A topic of three tables."""

    pipeline: Pipeline
    dialect: Dialect
    partitions: int
    sent: int = 0
    """Records."""

    def send(self, *said: Said | Message) -> None:
        """Changes, and records as they are, which come after them."""
        odd = [each for each in said if isinstance(each, Message)]
        changes = [each for each in said if isinstance(each, Said)]
        written = self.dialect.write(changes, self.partitions)
        self.pipeline.produce(TOPIC, [*written, *odd])
        self.sent += len(written) + len(odd)

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        found = {table: self.pipeline.rows(table) for table in TABLES}
        return {
            table: sorted((row["id"], row["name"]) for row in rows) for table, rows in found.items()
        }

    def alone(self, *tables: str) -> dict[str, list[BatchResult]]:
        """Each table reads for itself."""
        return {table: self.pipeline.merge(table) for table in tables or TABLES}

    @contextmanager
    def run(self, *planned: Fault, tables: int = 3) -> Generator[Run]:
        """A run of so many tables; nothing of it is kept in the end."""
        shared = SharedReadings(lambda _: tables)
        with faults(*planned) as seen:
            run = Run(self.pipeline, shared)
            yield run
        run.read = seen.seen[KEEP]
        assert views(self.pipeline.spark()) == []


@dataclass
class Run:
    """``read``: how often something was read for all; known when the run is over."""

    pipeline: Pipeline
    shared: SharedReadings
    read: int = field(default=0)

    def merge(self, table: str) -> list[BatchResult]:
        """A table's turn; it leaves the run if it does not fail."""
        done = self.pipeline.merge(table, self.shared)
        self.leave(table)
        return done

    def merge_all(self) -> dict[str, list[BatchResult]]:
        return {table: self.merge(table) for table in TABLES}

    def leave(self, table: str) -> None:
        self.shared.leave(self.pipeline.entry(table))


def views(spark: SparkSession) -> list[str]:
    """What is kept of topics."""
    return [each.name for each in spark.catalog.listTables() if each.name.startswith("topic_")]


def figures(done: BatchResult) -> dict[str, object]:
    """What is told of a batch, but for names of its own and times."""
    names = (
        "ranges", "start", "end", "records", "inserted", "updated", "deleted",
        "rejected", "stale", "lag_records", "row_count", "passed_over",
        "of_others", "other_tables",
    )  # fmt: skip
    return {name: getattr(done, name) for name in names}


def told(done: dict[str, list[BatchResult]]) -> dict[str, list[dict[str, object]]]:
    return {table: [figures(each) for each in batches] for table, batches in done.items()}
