"""``python -m cdc_assets_tests.bench.event_log [TABLES [DAYS]]``: the size of Dagster's event log.

Idle tables write the most without a run: `replication_slo` closes their hours and repeats their
checks. The events are real ones, stored once by a real instance with SQLite; the others are copies
of their rows with other times, as storing each takes milliseconds. Each day what housekeeping
deletes in a day is deleted.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as db
from dagster._core.instance.utils import RUNLESS_RUN_ID
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    SqlEventLogStorageTable,
)

from cdc_assets.orchestration.event_log import prune_events
from cdc_assets.orchestration.housekeeping import Retention, pruned_assets
from cdc_assets.orchestration.keys import table_key
from cdc_assets_tests.operate.statuses import renamed, table_status
from cdc_assets_tests.orchestration.event_logs import an_hour
from cdc_assets_tests.world import NOW, registry_of, write_config

HOUR = timedelta(hours=1)


def main(tables: int = 100, days: int = 30) -> None:
    """Prints the size after each week, and how long deleting took."""
    with tempfile.TemporaryDirectory() as folder, dg.instance_for_test(temp_dir=folder) as instance:
        measure(instance, Path(folder), tables, days)


def measure(instance: dg.DagsterInstance, folder: Path, tables: int, days: int) -> None:
    """Lets days pass, with one hour of real events as the pattern."""
    names = [f"table_{n:03}" for n in range(tables)]
    config = write_config(folder)
    registry = registry_of(config, *names)
    storage: Any = instance.event_log_storage
    for entry in registry:
        status = renamed(table_status(folder), entry.table.name)
        for event in an_hour(status, table_key(config, entry), NOW):
            storage.store_event(event)
    pattern = _Pattern(storage)
    assets, week = pruned_assets(config, registry), timedelta(hours=Retention().checks_hours)
    for day in range(1, days + 1):
        at = NOW + timedelta(days=day)
        pattern.repeat([at - HOUR * n for n in reversed(range(24))])
        begun = time.monotonic()
        deleted = prune_events(instance, assets, at - week, 10_000_000)
        seconds = time.monotonic() - begun
        if day % 7 == 0 or day == days:
            sizes = {name: _mib(storage.path_for_shard(shard)) for name, shard in _FILES.items()}
            print(
                f"day {day}: {sizes} MiB; {deleted:,} rows deleted in {seconds:.1f} s", flush=True
            )


_FILES = {"index": "index", "without a run": RUNLESS_RUN_ID}


class _Pattern:
    """The rows of one hour, and copies of them."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        with storage.index_connection() as connection:
            events = connection.execute(db.select(SqlEventLogStorageTable)).mappings()
            self._events = [dict(each) for each in events]
            outcomes = connection.execute(db.select(AssetCheckExecutionsTable)).mappings()
            self._outcomes = [dict(each) for each in outcomes]

    def repeat(self, hours: Sequence[datetime]) -> None:
        """Adds the rows again at each of these hours."""
        for at in hours:
            moment = at.astimezone(UTC).replace(tzinfo=None)
            rows = [self._event(each, moment) for each in self._events]
            with self._storage.run_connection(RUNLESS_RUN_ID) as connection:
                connection.execute(SqlEventLogStorageTable.insert(), rows)
            with self._storage.index_connection() as connection:
                last = connection.execute(db.select(db.func.max(SqlEventLogStorageTable.c.id)))
                first = last.scalar()
                connection.execute(SqlEventLogStorageTable.insert(), rows)
                connection.execute(
                    AssetCheckExecutionsTable.insert(),
                    [self._outcome(each, first, moment) for each in self._outcomes],
                )

    def _event(self, row: dict[str, Any], at: datetime) -> dict[str, Any]:
        partition = f"{at:%Y-%m-%d-%H:00}" if row["partition"] else None
        return {**row, "id": None, "timestamp": at, "partition": partition}

    def _outcome(self, row: dict[str, Any], first: int, at: datetime) -> dict[str, Any]:
        event = first + row["evaluation_event_storage_id"]
        return {
            **row, "id": None, "evaluation_event_timestamp": at, "create_timestamp": at,
            "evaluation_event_storage_id": event,
        }  # fmt: skip


def _mib(file: str) -> float:
    """The size of a file, with what SQLite had written beside it."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return round(Path(file).stat().st_size / 2**20, 1)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
