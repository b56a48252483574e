"""A table that is built anew from its source's rows while these change: for each database."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from cdc_assets_devstack.stack import LocalStack
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient

from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import Hook, Moment, hooked
from cdc_assets.errors import CdcError, LostRangeError
from cdc_assets.lake import Lake
from cdc_assets.merge.replicate import Replicator
from cdc_assets.operations.rebuild.operation import RebuildOutcome
from cdc_assets_tests.faults import Anywhere, Death, How, Injected
from cdc_assets_tests.lake_view import read_rows
from cdc_assets_tests.operated import run_rebuild
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.corrupting import corrupt
from cdc_assets_tests.stack.ledger import ledger
from cdc_assets_tests.stack.replicated import (
    Replicated,
    configured,
    new_database,
    new_mariadb_database,
    replicated,
)
from cdc_assets_tests.toy.profiles import is_soak

ROWS = 1_200
CHANGES = 2
PLACES = (4, 12) if is_soak() else (12,)
"""Where the first tries die."""
SIZES = {"chunk_rows": 200, "parallel": 2}
WHILE_NOBODY_MERGES = (
    "UPDATE ledger SET n = -1 WHERE id IN (3, 13, 23, 33, 43)",
    "DELETE FROM ledger WHERE id IN (3, 13)",
    "INSERT INTO ledger VALUES (13, 1, 'came back')",
    "UPDATE ledger SET id = 100023 WHERE id = 23",
    "INSERT INTO ledger VALUES (23, 2, repeat('another one', 500))",
    "DELETE FROM ledger WHERE id = 53",
    "UPDATE ledger SET id = 53 WHERE id = 63",
    "UPDATE ledger SET id = 100033 WHERE id = 33",
    "UPDATE ledger SET n = -2 WHERE id = 100033",
    "DELETE FROM ledger WHERE id = 100033",
)
"""Large values are left alone by changes of rows that are gone, or of another key, once it is read.

A statement is a transaction."""


@dataclass(frozen=True)
class Kind:
    """A database with a table ``ledger (id, n, note)``, of which the log's records are.

    Attributes:
        make: makes it there, under a name; its DSN.
        verify: of the source.
        random_change: of a key, whose row may be gone, to another one, that may be taken.
    """

    make: Callable[[LocalStack, str], str]
    verify: Mapping[str, object]
    random_change: Callable[[random.Random, int, int], str]


def _postgres_change(rng: random.Random, key: int, other: int) -> str:
    free = f"NOT EXISTS (SELECT FROM ledger WHERE id = {other})"
    return rng.choice(
        (
            f"UPDATE ledger SET n = n + 1 WHERE id = {key}",
            f"UPDATE ledger SET n = n + 1, note = repeat('new {key} ', 500) WHERE id = {key}",
            f"DELETE FROM ledger WHERE id = {key}",
            f"INSERT INTO ledger VALUES ({key}, 0, repeat('{key} ', 500)) ON CONFLICT DO NOTHING",
            f"UPDATE ledger SET id = {other} WHERE id = {key} AND {free}",
        )
    )


def _mariadb_change(rng: random.Random, key: int, other: int) -> str:
    return rng.choice(
        (
            f"UPDATE ledger SET n = n + 1 WHERE id = {key}",
            f"UPDATE ledger SET n = n + 1, note = repeat('new {key} ', 500) WHERE id = {key}",
            f"DELETE FROM ledger WHERE id = {key}",
            f"INSERT IGNORE INTO ledger VALUES ({key}, 0, repeat('{key} ', 500))",
            f"UPDATE IGNORE ledger SET id = {other} WHERE id = {key}",
        )
    )


POSTGRES = Kind(
    lambda stack, name: new_database(stack, name, *ledger(ROWS)),
    {"nudge": True, "wait_seconds": 120},
    _postgres_change,
)

MARIADB = Kind(
    lambda stack, name: new_mariadb_database(
        stack,
        name,
        "CREATE TABLE ledger (id int PRIMARY KEY, n int NOT NULL, note text)",
        "INSERT INTO ledger SELECT seq, seq, if(seq % 10 = 3, repeat(concat('row ', seq), 500),"
        f" concat('row ', seq)) FROM seq_0_to_{ROWS - 1}",
        "CREATE DATABASE IF NOT EXISTS elsewhere",
        "CREATE TABLE IF NOT EXISTS elsewhere.nudges (at timestamp(6))",
    ),
    {"nudge": "INSERT INTO elsewhere.nudges VALUES (current_timestamp(6))", "wait_seconds": 120},
    _mariadb_change,
)


@contextmanager
def world(
    stack: LocalStack,
    base: ReplicationConfig,
    name: str,
    kind: Kind,
    *,
    batches: int = 40,
    **source: object,
) -> Iterator[Replicated]:
    """A table that was merged completely; from then on in batches of so many records."""
    dsn = kind.make(stack, name)
    said = {"verify": kind.verify, "resnapshot": SIZES, **source}
    with replicated(stack, base, name, dsn, **said) as database:
        database.wait_until_delivered()
        database.replicate()
        yield in_batches(database, base, kind, of=batches, **source)


def in_batches(
    database: Replicated, base: ReplicationConfig, kind: Kind, of: int, **source: object
) -> Replicated:
    """The same with batches of so many records."""
    batch = {"max_records": of}
    said = {"verify": kind.verify, "resnapshot": SIZES, "batch": batch, **source}
    return replace(database, config=configured(base, database.name, database.side, **said))


def change(database: Replicated, statements: Sequence[str]) -> None:
    """Each in a transaction of its own."""
    for statement in statements:
        database.execute(statement)


def build(database: Replicated, **wishes: bool) -> RebuildOutcome:
    """Has the table built anew, in this process."""
    name = str(database.entry("ledger").table)
    return run_rebuild(database.config, name, **wishes)


def spoil(database: Replicated, spark: Session) -> list[dict[str, object]]:
    """Corrupt the lake's rows; what they are then."""
    keys = random.Random(7).sample(range(100, ROWS, 2), 60)
    corrupt(database, spark, "ledger", keys, new=10 * ROWS, seed=7)
    return lake_rows(database)


def lake_rows(database: Replicated) -> list[dict[str, object]]:
    """What readers see, in some order of its own."""
    rows = read_rows(database.config, database.entry("ledger").target)
    return sorted(rows, key=lambda row: json.dumps(row, default=str, sort_keys=True))


def lose_the_log(database: Replicated) -> None:
    """As retention does: all that the topic holds so far."""
    admin = AdminClient({"bootstrap.servers": database.config.kafka.bootstrap_servers})
    topic = database.entry("ledger").topic
    partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
    places = [TopicPartition(topic, each, OFFSET_END) for each in partitions]
    for future in admin.delete_records(places).values():
        future.result(30)


def merge(database: Replicated, spark: Session) -> None:
    """What waits, in this process."""
    replicator, entry = Replicator(database.config, spark), database.entry("ledger")
    list(replicator.drain(entry, window=None, run_id="test", budget_seconds=120))


def require_no_need_of_a_lost_log(
    stack: LocalStack, base: ReplicationConfig, name: str, spark: Session, kind: Kind
) -> None:
    """Lose changes that nobody has merged; the table is built anew, though tries are killed."""
    with world(stack, base, name, kind) as database:
        change(database, WHILE_NOBODY_MERGES[:4])
        database.wait_until_delivered()
        lose_the_log(database)
        change(database, WHILE_NOBODY_MERGES[4:])
        database.wait_until_delivered()
        told = rf"rebuild {name}\..*ledger --from-source"
        with pytest.raises(LostRangeError, match=told):
            merge(database, spark)
        kills = [Anywhere(place=n, how=How.DEATH) for n in PLACES]
        kills_and_changes(database, spark, kind, kills)


def kills_and_changes(
    database: Replicated, spark: Session, kind: Kind, kills: Sequence[Anywhere]
) -> None:
    """Let one try after the other fail, with changes at each kind of effect, until one is done.

    Readers see the old rows until all of the new ones are there.
    """
    before, rng, seen = spoil(database, spark), random.Random(3), Counter[str]()
    for dies in [*kills, Anywhere(place=0)]:
        try:
            with hooked(_changing(database, kind, rng, seen, dies)):
                done = build(database, from_source=True, verify=False)
        except (CdcError, Death, Injected):
            assert dies.happened
        else:
            break
        state = Lake(database.config).state(database.entry("ledger").target)
        assert state is not None
        assert state.published is not None
        if not state.published.carried.generation:
            assert lake_rows(database) == before
    else:
        pytest.fail("none of the tries was done")
    assert done.is_done
    database.wait_until_delivered()
    merge(database, spark)
    assert database.differences("ledger") == []


def _changing(
    database: Replicated, kind: Kind, rng: random.Random, seen: Counter[str], dies: Anywhere
) -> Hook:
    """A few changes at each kind of effect; whatever merges them must catch up."""

    def hook(point: str, moment: Moment) -> None:
        if moment is Moment.AFTER and seen[point] < CHANGES:
            seen[point] += 1
            key = rng.randrange(ROWS) // 10 * 10 + 3
            change(database, (kind.random_change(rng, key, key + 10_000),))
        dies(point, moment)

    return hook
