"""Rows of a lake table that somebody has changed beside the replication."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

import pytest
from cdc_assets_devstack.spark_server import SparkEndpoint
from pyspark.sql import SparkSession

from cdc_assets.desired import DesiredBook
from cdc_assets.errors import TransientError
from cdc_assets.merge.replicate import Replicator
from cdc_assets.merge.statements import sql
from cdc_assets.merge.verifying.judging import DifferenceKind
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.replicated import Replicated

CHANGED, REMOVED, ADDED, DOUBLED = (
    DifferenceKind.DIFFERENT,
    DifferenceKind.MISSING,
    DifferenceKind.ONLY_IN_LAKE,
    DifferenceKind.TWICE,
)


@dataclass(frozen=True)
class Corruption:
    """What was done to which key."""

    key: str
    kind: DifferenceKind


def corrupt(
    database: Replicated, spark: Session, table: str, keys: Sequence[int], new: int, seed: int
) -> set[Corruption]:
    """Change, remove and double some rows of a table ``(id, n, note)``, and add some.

    Args:
        database: whose lake it is.
        spark: to write with.
        table: its name.
        keys: of rows that the source has, each used once; a quarter as many are added.
        new: the first key of those that the source does not have.
        seed: tells what is done to which.
    """
    rng, name = random.Random(seed), _name(database, table)
    by_kind: dict[DifferenceKind, list[int]] = {CHANGED: [], REMOVED: [], DOUBLED: []}
    for key in keys:
        by_kind[rng.choice((CHANGED, CHANGED, REMOVED, DOUBLED))].append(key)
    by_kind[ADDED] = [new + n for n in range(max(1, len(keys) // 4))]
    rows = f"SELECT * FROM {name} WHERE id IN ({_listed(by_kind[DOUBLED])})"
    statements = [
        f"UPDATE {name} SET note = coalesce(concat(note, ' '), '') WHERE id IN"
        f" ({_listed(by_kind[CHANGED][::2])})",
        f"UPDATE {name} SET n = n + 1 WHERE id IN ({_listed(by_kind[CHANGED][1::2])})",
        f"DELETE FROM {name} WHERE id IN ({_listed(by_kind[REMOVED])})",
        f"INSERT INTO {name} {rows}",
        f"INSERT INTO {name} SELECT {new} + n.id, s.n, s.note, s._cdc_position, s._cdc_ts FROM"
        f" (SELECT * FROM {name} WHERE id = {keys[0] if keys[0] not in by_kind[REMOVED] else 0}"
        f" LIMIT 1) AS s CROSS JOIN range({len(by_kind[ADDED])}) AS n",
    ]
    for statement in statements:
        spark().sql(statement)
    return {Corruption(str(key), kind) for kind, found in by_kind.items() for key in found}


def _listed(keys: Sequence[int]) -> str:
    return ", ".join(map(str, keys)) or "NULL"


def _name(database: Replicated, table: str) -> str:
    catalog = database.config.lake.catalog.name
    return sql.table(catalog, database.entry(table).target)


@contextmanager
def merging(
    database: Replicated, session: SparkSession, *tables: str, pause: float = 0.2
) -> Iterator[None]:
    """Merge what comes, as the daemon would, for as long as the block lasts.

    ``pause`` in seconds: a publish comes at most so often. Waits when it is asked to.
    """
    stop, failed = Event(), list[BaseException]()
    desired = DesiredBook.of_registry(database.config.registry)

    def run() -> None:
        replicator = Replicator(database.config, lambda: session)
        while not stop.wait(pause):
            for table in tables:
                entry, run_id = database.entry(table), f"beside-{uuid.uuid4()}"
                if desired.of(entry.table).yields is not None:
                    continue
                try:
                    list(replicator.drain(entry, window=None, run_id=run_id, budget_seconds=3))
                except TransientError:  # another writer came first, as with any daemon
                    continue
                except BaseException as error:
                    failed.append(error)
                    return

    worker = Thread(target=run, daemon=True)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join(120)
    assert not failed, failed[0]


@pytest.fixture
def beside(spark_endpoint: SparkEndpoint) -> Iterator[SparkSession]:
    """The session of what merges beside a test."""
    session = SparkSession.builder.remote(spark_endpoint.url).create()
    yield session
    session.stop()
