"""Prunes Dagster's event log of what no run's deletion takes with it.

Without this it grows for ever: events without a run (checks that are repeated, notices, hours in
which a table was held) belong to none that could be deleted; Dagster keeps a check's outcome when
its run is deleted; and with SQLite each run has a file of its own, 130 KB and more, which stays.

Kept are, however old: of each check the newest outcome and the newest that was evaluated, of each
asset the newest observation and the newest materialization of each partition. Dagster offers no
call for any of this, so its tables are asked; of a storage of another kind nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import dagster as dg
import sqlalchemy as db
from sqlalchemy.engine import Connection

from cdc_assets.log.hours import KEY_FORMAT
from cdc_assets.orchestration.dagster_internals import event_log

if TYPE_CHECKING:
    from cdc_assets.orchestration.dagster_internals import SqliteEventLogStorage

T = TypeVar("T")

AT_ONCE: Final = 500
OPENED: Final = timedelta(days=2)
"""How far back the events are looked at that opened hours: housekeeping runs each half hour, and
looking at all hours of a year would take longer with each."""
_EVALUATED: Final = ("SUCCEEDED", "FAILED")
_CHECKED: Final = "ASSET_CHECK_EVALUATION"
_MADE: Final = "ASSET_MATERIALIZATION"
_SEEN: Final = "ASSET_OBSERVATION"

_LOG: Final = event_log()
_events, _checks, _tags = _LOG.events.c, _LOG.checks.c, _LOG.tags.c


def prune_events(
    instance: dg.DagsterInstance,
    assets: Mapping[dg.AssetKey, Sequence[str]],
    before: datetime,
    at_most: int,
) -> int:
    """Deletes old outcomes of these assets' checks, and their old events without a run.

    Each batch of `AT_ONCE` is a transaction; what a crash leaves is deleted the next time.

    Args:
        instance: the instance to delete from.
        assets: the names of the checks, by asset.
        before: aware; what is younger stays.
        at_most: the most events to delete.

    Returns:
        The number of deleted outcomes and events.
    """
    storage = instance.event_log_storage
    if not isinstance(storage, _LOG.sql):
        return 0
    end = before.astimezone(UTC).replace(tzinfo=None)
    left = at_most
    for key, checks in assets.items():
        asset = key.to_string()
        with storage.index_connection() as connection:
            for name in checks:
                left -= _delete_checks(connection, asset, name, end, left)
            for kind in (_SEEN, _MADE):
                left -= _delete_runless(connection, asset, kind, end, left)
            left -= _delete_openings(connection, asset, end, left)
    if isinstance(storage, _LOG.sqlite):
        left -= _delete_copies(storage, end, left)
    return at_most - left


def _delete_checks(connection: Connection, asset: str, name: str, end: datetime, limit: int) -> int:
    """Deletes old outcomes of a check, with their events if these belong to no run."""
    mine = db.and_(_checks.asset_key == asset, _checks.check_name == name)
    newest = db.select(db.func.max(_checks.id)).where(mine)
    evaluated = newest.where(_checks.execution_status.in_(_EVALUATED))
    kept = [connection.execute(each).scalar() for each in (newest, evaluated)]
    old = (
        db.select(_checks.id, _checks.evaluation_event_storage_id)
        .where(mine, _checks.evaluation_event_timestamp < end)
        .where(_checks.id.not_in([each for each in kept if each is not None]))
        .order_by(_checks.id)
        .limit(limit)
    )
    rows = connection.execute(old).fetchall()
    for some in _batches(rows):
        ids, events = [row[0] for row in some], [row[1] for row in some if row[1] is not None]
        connection.execute(_LOG.checks.delete().where(_checks.id.in_(ids)))
        connection.execute(
            _LOG.events.delete().where(
                _events.id.in_(events),
                _events.run_id == _LOG.no_run,
                _events.dagster_event_type == _CHECKED,
            )
        )
    return len(rows)


def _delete_runless(
    connection: Connection, asset: str, kind: str, end: datetime, limit: int
) -> int:
    """Deletes an asset's old events of a kind that have neither a run nor a partition.

    The newest of a partition closes its hour, and stays.
    """
    mine = db.and_(
        _events.asset_key == asset, _events.dagster_event_type == kind, _events.partition.is_(None)
    )
    newest = connection.execute(db.select(db.func.max(_events.id)).where(mine)).scalar()
    old = (
        db.select(_events.id)
        .where(mine, _events.run_id == _LOG.no_run, _events.timestamp < end)
        .where(_events.id != (newest or 0))
        .order_by(_events.id)
        .limit(limit)
    )
    return _delete_events(connection, old)


def _delete_openings(connection: Connection, asset: str, end: datetime, limit: int) -> int:
    """Deletes what opened an asset's hours without a run, of `OPENED` before the end.

    A newer event of the partition has closed the hour, and stays.
    """
    newer = _LOG.events.alias("newer").c
    closed = db.select(newer.id).where(
        newer.asset_key == asset,
        newer.dagster_event_type == _MADE,
        newer.partition == _events.partition,
        newer.id > _events.id,
    )
    first, last = (time.strftime(KEY_FORMAT) for time in (end - OPENED, end))
    old = (
        db.select(_events.id)
        .where(_events.asset_key == asset, _events.dagster_event_type == _MADE)
        .where(_events.partition.between(first, last), _events.run_id == _LOG.no_run)
        .where(_events.timestamp < end, closed.exists())
        .order_by(_events.id)
        .limit(limit)
    )
    return _delete_events(connection, old)


def _delete_events(connection: Connection, old: db.Select[tuple[int]]) -> int:
    ids = [row[0] for row in connection.execute(old)]
    for some in _batches(ids):
        connection.execute(_LOG.events.delete().where(_events.id.in_(some)))
        connection.execute(_LOG.tags.delete().where(_tags.event_id.in_(some)))
    return len(ids)


def _delete_copies(storage: SqliteEventLogStorage, end: datetime, limit: int) -> int:
    """Deletes old events without a run from their own file; the index has them, and is asked."""
    old = (
        db.select(_events.id)
        .where(_events.run_id == _LOG.no_run, _events.timestamp < end)
        .where(_events.dagster_event_type.in_((_CHECKED, _MADE, _SEEN)))
        .order_by(_events.id)
        .limit(limit)
    )
    with storage.run_connection(_LOG.no_run) as connection:
        ids = [row[0] for row in connection.execute(old)]
        for some in _batches(ids):
            connection.execute(_LOG.events.delete().where(_events.id.in_(some)))
    return len(ids)


def remove_files_of_deleted_runs(instance: dg.DagsterInstance, before: datetime) -> int:
    """Removes the files in which SQLite kept the events of runs that are deleted, and counts them.

    Args:
        instance: the instance; with another storage there are none.
        before: aware; files that were written later stay.
    """
    storage = instance.event_log_storage
    if not isinstance(storage, _LOG.sqlite):
        return 0
    folder = Path(storage.path_for_shard(_LOG.no_run)).parent
    old = [each for each in folder.glob("*-*.db") if each.stat().st_mtime < before.timestamp()]
    removed = 0
    for some in _batches(old):
        wanted = dg.RunsFilter(run_ids=[each.stem for each in some])
        there = {record.dagster_run.run_id for record in instance.get_run_records(wanted)}
        for file in some:
            if file.stem not in there:
                removed += 1
                for name in (file.name, f"{file.name}-wal", f"{file.name}-shm"):
                    (folder / name).unlink(missing_ok=True)
    return removed


def _batches(all_: Sequence[T]) -> Iterator[list[T]]:
    rest = iter(all_)
    while some := list(islice(rest, AT_ONCE)):
        yield some
