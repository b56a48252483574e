"""Defines the sensor `replication_slo`: evaluates all tables' checks, and closes past hours.

A table without changes has no runs, and a table that fails has none that succeed: so its checks
are evaluated here. To keep the event log small, an outcome is written when it differs from
the last one or when an hour has passed.

The source's comment on a table is recorded in the registry, from which the asset's description
takes it when definitions are loaded.

A table that its source has dropped is marked, and also dropped in the lake if that is configured:
`cdc_assets.operate.dropped`.

An hour that is over and completely merged is closed with one materialization that belongs to no
run. Without it an idle hour would look missing, and deleting old runs would make their hours
look missing, too. It comes before the checks, which then belong to the newest materialization.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import count, islice, product
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from cdc_assets.changes.names import TableName
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import UnreachableError
from cdc_assets.log.hours import HOUR, HourWindow, hour_of
from cdc_assets.operate.discovery import as_registered, replicated
from cdc_assets.operate.dropped import DropNews, follow_drops
from cdc_assets.operate.services import Clock, Services, utc_now
from cdc_assets.operate.slo import slo_target
from cdc_assets.operate.states import held_words
from cdc_assets.operate.survey import Survey, TableSurvey, follow_comments, survey
from cdc_assets.orchestration.checks import CheckVerdict, drifts_of, verdicts
from cdc_assets.orchestration.cuts import cut_event
from cdc_assets.orchestration.keys import CHECK_OFFSETS, CHECKS, named, table_key
from cdc_assets.orchestration.metadata import (
    Lag,
    lake_columns,
    materialization,
    quiet_metadata,
    schema_metadata,
)
from cdc_assets.orchestration.mount import sensor_status
from cdc_assets.orchestration.sensors.skipping import skipping_when_unreachable
from cdc_assets.registry import Registry

if TYPE_CHECKING:
    from cdc_assets.operate.cuts import ConsistentCuts

INTERVAL_SECONDS: Final = 60
REPEAT_AFTER: Final = timedelta(hours=1)
HOURS_AT_ONCE: Final = 48
"""The most hours of a table that are closed after a time in which nobody closed any."""
CLOSED_AT_ONCE: Final = 500
COLUMNS_AT_ONCE: Final = 50_000
"""The most hours that one tick closes, and about the most columns that it describes: Dagster
refuses an answer of more than 100 MB, and a column takes some 400 bytes of it."""

READING: Final = timedelta(seconds=25)
"""The time in which a tick may read publishes: Dagster gives a tick 60 s, and each new process
reads those of all tables, some 20 to 70 ms for each of them."""

OVER: Final = "what waits is no longer about to be lost"


@dataclass
class EventCursor:
    """The sensor's cursor: the last written events. Losing it only repeats a few events."""

    checks: dict[str, tuple[str, float]] = field(default_factory=dict)
    hours: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, cursor: str | None) -> EventCursor:
        """Parses a cursor."""
        fields: Mapping[str, Any] = json.loads(cursor) if cursor else {}
        checks = {name: (each[0], each[1]) for name, each in fields.get("checks", {}).items()}
        return cls(checks, dict(fields.get("hours", {})))

    def forget(self, assets: Collection[dg.AssetKey]) -> None:
        """Has the checks of these assets written as soon as they are evaluated."""
        for asset, check in product(assets, CHECKS):
            self.checks.pop(f"{asset.to_user_string()}:{check}", None)

    def to_cursor(self) -> str:
        """Returns the cursor that `of` parses."""
        return json.dumps({"checks": self.checks, "hours": self.hours}, separators=(",", ":"))


def slo_sensor(
    config: ReplicationConfig, loaded: Registry, clock: Clock = utc_now
) -> dg.SensorDefinition:
    """Returns the sensor that evaluates the checks of all tables and closes past hours."""
    services = Services(config, clock)
    entries = replicated(config, loaded)

    @cache
    def cuts() -> ConsistentCuts:
        from cdc_assets.operate.cuts import ConsistentCuts

        return ConsistentCuts(config, services)

    @skipping_when_unreachable
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        memory = EventCursor.of(context.cursor)
        seen = survey(services, as_registered(services, entries)).answered()
        closed = [*_closed_hours(services, seen, memory), *_held(config, seen, memory)]
        taken = [cut_event(config, source, cut) for source, cut in cuts().advance_all()]
        _note_states(services, seen)
        changed = {event.asset_key for event in closed}
        follow_comments(services, seen)
        differing = drifts_of(services, seen)
        news = [_observation(config, each) for each in follow_drops(services, seen, differing)]
        ordered = replace(seen, tables=tuple(longest_unjudged_first(config, seen, memory)))
        judged = list(verdicts(services, ordered, differing, has_time_for(READING)))
        news += [each for verdict in judged for each in _notices(verdict, memory, seen.at)]
        evaluations = [
            verdict.evaluation()
            for verdict in judged
            if is_news(verdict, memory, seen.at, force=verdict.asset in changed)
        ]
        said = f"{len(evaluations)} checks written for {len(entries)} tables, without a run"
        left = {table_key(config, each.entry) for each in seen.tables}
        left -= {each.asset for each in judged}
        memory.forget(left & changed)
        said += f"; {len(left)} of them are left to the next tick" if left else ""
        return dg.SensorResult(
            asset_events=[*closed, *taken, *news, *evaluations],
            cursor=memory.to_cursor(),
            skip_reason=said,
        )

    return dg.SensorDefinition(
        name=named(config, "replication_slo"),
        evaluation_fn=evaluate,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=sensor_status(config),
        description="Evaluates the checks of all tables, idle and failing ones too.",
    )


def _note_states(services: Services, seen: Survey) -> None:
    found = {
        each.table: each.condition(seen.at, slo_target(services, each.table).within_seconds)
        for each in seen.tables
    }
    with suppress(UnreachableError):  # only `status` reads it, and nothing waits for it
        services.states.note(found, seen.at)


def _observation(config: ReplicationConfig, news: DropNews) -> dg.AssetObservation:
    return dg.AssetObservation(table_key(config, news.entry), description=news.words)


def _notices(
    verdict: CheckVerdict, memory: EventCursor, now: datetime
) -> Iterator[dg.AssetObservation]:
    """Yields a notice for the table's page once, as soon as it arises, and once when it is over."""
    name = f"{verdict.asset.to_user_string()}:notice:{verdict.check}"
    if verdict.notice and name not in memory.checks:
        memory.checks[name] = ("", now.timestamp())
        yield dg.AssetObservation(verdict.asset, description=verdict.notice)
    elif not verdict.notice and memory.checks.pop(name, None) is not None:
        yield dg.AssetObservation(verdict.asset, description=OVER)


def longest_unjudged_first(
    config: ReplicationConfig, seen: Survey, memory: EventCursor
) -> list[TableSurvey]:
    """Sorts tables by the time of their last written check, so that all get their turn."""

    def written(table: TableSurvey) -> float:
        key = table_key(config, table.entry).to_user_string()
        return memory.checks.get(f"{key}:{CHECK_OFFSETS}", ("", 0.0))[1]

    return sorted(seen.tables, key=written)


def has_time_for(most: timedelta) -> Callable[[], bool]:
    """Returns a function that returns True for this long, and once in any case."""
    end, asked = time.monotonic() + most.total_seconds(), count()
    return lambda: next(asked) == 0 or time.monotonic() < end


def is_news(
    verdict: CheckVerdict,
    memory: EventCursor,
    now: datetime,
    *,
    force: bool = False,
    repeat: timedelta = REPEAT_AFTER,
) -> bool:
    """Returns whether to write an outcome; if so, records it in the memory."""
    name = f"{verdict.asset.to_user_string()}:{verdict.check}"
    summary, at = memory.checks.get(name, ("", 0.0))
    due = now.timestamp() - at >= repeat.total_seconds()
    if not (force or due or summary != verdict.summary):
        return False
    memory.checks[name] = (verdict.summary, now.timestamp())
    return True


def _closed_hours(
    services: Services, seen: Survey, memory: EventCursor
) -> Iterator[dg.AssetMaterialization]:
    """Closes hours, and remembers them; those that are too many are left to the next tick."""
    last = hour_of(seen.at - HOUR)
    open_tables = [
        each
        for each in seen.tables
        if each.published is not None
        and each.problem is None
        and memory.hours.get(str(each.table)) != last.key
    ]
    if not open_tables:
        return
    boundary = services.log.offsets_at([each.entry.topic for each in open_tables], [last.end])
    hours = (
        (each, hour)
        for each in open_tables
        if (ahead := boundary.get((each.entry.topic, last.end))) is not None
        and not each.position.ranges_to(ahead)
        for hour in _hours_since(memory.hours.get(str(each.table)), last)
    )
    columns = 0
    for each, hour in islice(hours, CLOSED_AT_ONCE):
        is_last = hour == last
        columns += len(each.state.columns) if each.state and is_last else 0
        yield _closing(services, each, hour, seen.at, has_columns=is_last)
        _remember(memory, each.table, hour)
        if columns >= COLUMNS_AT_ONCE:
            return


def _held(
    config: ReplicationConfig, seen: Survey, memory: EventCursor
) -> Iterator[dg.AssetMaterialization]:
    """Yields once an hour, for each table that people hold, an event that it is held on purpose.

    Without such an event its freshness policy would turn red. The event has no partition, because
    no hour was merged.
    """
    hour = hour_of(seen.at).key
    for each in seen.tables:
        name = f"{each.table}:held"
        if each.desired.held is None:
            memory.hours.pop(name, None)
        elif each.published is not None and memory.hours.get(name) != hour:
            memory.hours[name] = hour
            words = held_words(each.table, each.desired)
            yield dg.AssetMaterialization(
                table_key(config, each.entry), description=words, metadata={"held": True}
            )


def _hours_since(key: str | None, last: HourWindow) -> Iterator[HourWindow]:
    """Yields the hours after the last closed one up to ``last``; only ``last`` if none was closed.

    At most `HOURS_AT_ONCE` of them.
    """
    start = HourWindow.from_key(key).end if key else last.start
    hour = hour_of(max(start, last.start - HOUR * (HOURS_AT_ONCE - 1)))
    while hour <= last:
        yield hour
        hour = hour.next()


def _remember(memory: EventCursor, table: TableName, hour: HourWindow) -> None:
    memory.hours[str(table)] = hour.key


def _closing(
    services: Services, table: TableSurvey, hour: HourWindow, now: datetime, *, has_columns: bool
) -> dg.AssetMaterialization:
    """Returns what closes an hour. Dagster shows only the newest one's columns."""
    lag = Lag(table.lag_changes or 0, table.lag_seconds(now) or 0.0)
    key = table_key(services.config, table.entry)
    metadata = {**quiet_metadata(table.committed, lag), "hour_closed": True}
    if table.state is None:
        return materialization(key, hour.key, metadata, None)
    if not has_columns:
        return materialization(key, hour.key, metadata, table.state.snapshot_id)
    from cdc_assets.lake.columns import columns_of

    columns = schema_metadata(
        services.config, table.entry, lake_columns(table.state), columns_of(table.state)
    )
    return materialization(
        key,
        hour.key,
        {**metadata, **columns},
        table.state.snapshot_id,
    )
