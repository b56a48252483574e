"""A corrupted table is read again while its source changes: the same for each database."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cdc_assets_devstack.stack import LocalStack
from pyspark.sql import SparkSession

from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import Moment, hooked
from cdc_assets.merge.replicate import Replicator
from cdc_assets.merge.statements import sql
from cdc_assets.operations.resnapshot.notes import ResnapshotProgress
from cdc_assets.operations.resnapshot.spark_resnapshot import ResnapshotReport, SparkResnapshot
from cdc_assets_tests.operated import session_of
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.stack.replicated import Replicated, replicated

ROWS = 4_000
VANISHED = 8
"""Of ten rows that only the lake has: one comes back, another one's delete is merged."""


def read_again(
    database: Replicated,
    spark: Session,
    begun: ResnapshotProgress | None = None,
    table: str = "ledger",
) -> ResnapshotReport:
    """In this process."""
    session = session_of(database.config, database.entry(table), spark)
    return SparkResnapshot(session, print).read(begun, lambda _: None)


def merge(database: Replicated, session: SparkSession, table: str = "ledger") -> None:
    """Whatever was committed before this call, in this process."""
    database.wait_until_delivered()
    replicator, run_id = Replicator(database.config, lambda: session), str(uuid.uuid4())
    entry = database.entry(table)
    list(replicator.drain(entry, window=None, run_id=run_id, budget_seconds=60))


@contextmanager
def changing_meanwhile(
    stack: LocalStack,
    base: ReplicationConfig,
    name: str,
    dsn: str,
    spark: Session,
    beside: SparkSession,
    *,
    parts: int = 1,
    **source: Any,
) -> Iterator[Replicated]:
    """A corrupted table ``ledger (id, n, note)``, which changes while the first wave is at work.

    Changes come between reading and comparing, and between comparing and putting.

    Args:
        stack: the running stack.
        base: its configuration.
        name: of the source.
        dsn: of the database, whose table has the ids from 0 below `ROWS`.
        spark: to corrupt it with.
        beside: to merge with.
        parts: of a wave.
        source: keys of the source's configuration.
    """
    sizes = {"chunk_rows": ROWS // parts, "parallel": parts}
    with replicated(stack, base, name, dsn, resnapshot=sizes, **source) as database:
        merge(database, beside)
        table = sql.table(database.config.lake.catalog.name, database.entry("ledger").target)
        corrupted = (
            f"INSERT INTO {table} SELECT id + 100000, n, note, _cdc_position, _cdc_ts FROM {table}"
            " WHERE id < 10",
            f"UPDATE {table} SET n = -1, note = 'wrong' WHERE id BETWEEN 100 AND 129",
            f"DELETE FROM {table} WHERE id BETWEEN 200 AND 219",
        )
        for statement in corrupted:
            spark().sql(statement)

        def after_reading() -> None:
            database.execute(
                "INSERT INTO ledger VALUES (100000, 1, 'came back'), (100001, 1, 'came and went')",
                "UPDATE ledger SET n = 7 WHERE id IN (100, 103, 113, 200)",
                "DELETE FROM ledger WHERE id IN (101, 201, 301)",
                "INSERT INTO ledger VALUES (500000, 1, 'new')",
            )
            database.execute("DELETE FROM ledger WHERE id = 100001")
            merge(database, beside)
            meanwhile["spark: publish rows", Moment.BEFORE] = before_putting

        def before_putting() -> None:
            database.execute(
                "INSERT INTO ledger VALUES (100002, 1, 'came back late')",
                "UPDATE ledger SET n = 8 WHERE id IN (104, 123, 204)",
                "DELETE FROM ledger WHERE id IN (105, 205)",
            )
            merge(database, beside)

        meanwhile = {("source: read a wave", Moment.AFTER): after_reading}
        with hooked(_once(meanwhile)):
            yield database
        assert not meanwhile


def _once(actions: dict[tuple[str, Moment], Callable[[], None]]):
    """A hook that does each action the first time that its point is passed."""

    def hook(point: str, moment: Moment) -> None:
        action = actions.pop((point, moment), None)
        if action is not None:
            action()

    return hook
