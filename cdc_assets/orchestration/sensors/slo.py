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
look missing, too. That holds for each hour from the table's first one on, also for those before a
table was found. Then the present hour is opened in the same way, unless a run has materialized it:
nothing of it is missing so far, and an asset that requires all of the table's hours
(`AutomationCondition.eager`) need not wait for its end. These events come before the checks, which
then belong to the newest materialization.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import count, islice, product
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import UnreachableError
from cdc_assets.log.hours import HOUR, HourWindow, hour_of
from cdc_assets.operate.dropped import DropNews, follow_drops
from cdc_assets.operate.known_tables import as_registered, replicated
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
"""The most hours of a table that one tick closes, after a time in which nobody closed any."""
CLOSED_AT_ONCE: Final = 500
COLUMNS_AT_ONCE: Final = 50_000
"""The most hours that one tick closes, and about the most columns that it describes: Dagster
refuses an answer of more than 100 MB, and a column takes some 400 bytes of it."""

READING: Final = timedelta(seconds=25)
"""The time in which a tick may read publishes: Dagster gives a tick 60 s, and each new process
reads those of all tables, some 20 to 70 ms for each of them."""

_OPEN: Final = ":open"
_HELD: Final = ":held"
_KINDS: Final = ("", _OPEN, _HELD)
"""The hours that the cursor notes of an asset: the last that was closed, opened, held."""

OVER: Final = "what waits is no longer about to be lost"


@dataclass
class EventCursor:
    """The sensor's cursor: the last written events. Losing it only repeats a few events.

    Both are noted by asset key: an asset with another key has no events yet.
    """

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
        hours = Hours(services, context.instance, memory, seen)
        closed = [*hours.events(), *_held(config, seen, memory)]
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
    """Returns whether to write an outcome; if so, records it in the memory.

    An outcome written by a clock that was ahead is repeated, too.
    """
    name = f"{verdict.asset.to_user_string()}:{verdict.check}"
    summary, at = memory.checks.get(name, ("", 0.0))
    due = abs(now.timestamp() - at) >= repeat.total_seconds()
    if not (force or due or summary != verdict.summary):
        return False
    memory.checks[name] = (verdict.summary, now.timestamp())
    return True


@dataclass
class Hours:
    """Closes and opens the hours of tables that are merged to the end of the last hour.

    Attributes:
        services: the log and the clock.
        instance: has the events of earlier ticks.
        memory: the last closed and opened hour of each table; changed.
        seen: the tables.
    """

    services: Services
    instance: dg.DagsterInstance
    memory: EventCursor
    seen: Survey
    _columns: int = 0

    def events(self) -> Iterator[dg.AssetMaterialization]:
        """Yields the events; those that are too many are left to the next tick."""
        yield from islice(self._all(), CLOSED_AT_ONCE)

    def _all(self) -> Iterator[dg.AssetMaterialization]:
        last, now = hour_of(self.seen.at - HOUR), hour_of(self.seen.at)
        tables = [e for e in self.seen.tables if e.published is not None and e.problem is None]
        for each in tables:
            self._take_over(each)
        due = {each.table: self._to_close(each, last) for each in self._merged(tables, last)}
        for each in sorted(tables, key=lambda table: len(due.get(table.table, ()))):
            for hour in due.get(each.table, ()):
                self.memory.hours[self._name(each)] = hour.key
                yield self._event(each, hour, is_newest=hour == last)
                if self._columns >= COLUMNS_AT_ONCE:
                    return
        for each in tables:
            opened = f"{self._name(each)}{_OPEN}"
            if self._is_to_open(each, now) and self.memory.hours.get(opened) != now.key:
                self.memory.hours[opened] = now.key
                yield self._event(each, now, is_newest=True)
                if self._columns >= COLUMNS_AT_ONCE:
                    return

    def _merged(self, tables: Sequence[TableSurvey], last: HourWindow) -> list[TableSurvey]:
        """Returns the tables whose last hour is merged to its end, and not closed yet."""
        unclosed = [
            each
            for each in tables
            if self.memory.hours.get(self._name(each)) != last.key
            and each.entry.hours_from < last.end
        ]
        if not unclosed:
            return []
        topics = [each.entry.topic for each in unclosed]
        boundary = self.services.log.offsets_at(topics, [last.end])
        return [
            each
            for each in unclosed
            if (ahead := boundary.get((each.entry.topic, last.end))) is not None
            and not each.position.ranges_to(ahead)
        ]

    def _to_close(self, table: TableSurvey, last: HourWindow) -> list[HourWindow]:
        """Returns the hours after the last closed one, at most `HOURS_AT_ONCE` of them.

        If the cursor knows of none, all of the table's hours are closed, unless its first one is
        closed already: then the cursor was lost, and Dagster is asked for the last closed one.
        """
        key, first = self.memory.hours.get(self._name(table)), table.entry.hours_from
        if key:
            start = HourWindow.from_key(key).end
        else:
            recent = [hour_of(last.start - HOUR * n, first) for n in range(HOURS_AT_ONCE)]
            closed = self._closed(table, {hour_of(first, first), *recent})
            start = first
            if closed and min(closed).is_first(first):
                start = min(max(max(closed).end, recent[-1].start), last.start)
        hours = (hour_of(start + HOUR * n, first) for n in range(HOURS_AT_ONCE))
        return [hour for hour in hours if hour <= last]

    def _closed(self, table: TableSurvey, hours: Collection[HourWindow]) -> list[HourWindow]:
        """Returns those of these hours whose newest event has closed them, by two questions."""
        newest, key = self._newest(table, hours), table_key(self.services.config, table.entry)
        if not newest:
            return []
        asked = dg.AssetRecordsFilter(asset_key=key, storage_ids=[*newest.values()])
        records = self.instance.fetch_materializations(asked, limit=len(hours)).records
        made = [event for each in records if (event := each.asset_materialization) is not None]
        return [
            HourWindow.from_key(event.partition)
            for event in made
            if event.partition and (said := event.metadata.get("hour_closed")) and said.value
        ]

    def _newest(self, table: TableSurvey, hours: Collection[HourWindow]) -> Mapping[str, int]:
        """Returns the newest event of each of these hours that has any."""
        return self.instance.event_log_storage.get_latest_storage_id_by_partition(
            table_key(self.services.config, table.entry),
            dg.DagsterEventType.ASSET_MATERIALIZATION,
            {hour.key for hour in hours},
        )

    def _take_over(self, table: TableSurvey) -> None:
        """Takes over what earlier versions noted by the table's name, if the asset has events."""
        old, new, first = str(table.table), self._name(table), table.entry.hours_from
        if old not in self.memory.hours or old == new:
            return
        noted = {kind: self.memory.hours.pop(f"{old}{kind}", None) for kind in _KINDS}
        if self._newest(table, [hour_of(first, first)]):
            self.memory.hours |= {f"{new}{kind}": hour for kind, hour in noted.items() if hour}

    def _name(self, table: TableSurvey) -> str:
        return table_key(self.services.config, table.entry).to_user_string()

    def _is_to_open(self, table: TableSurvey, now: HourWindow) -> bool:
        """Whether all hours before are closed, and no run has materialized the present one."""
        before = self.memory.hours.get(self._name(table)) == hour_of(now.start - HOUR).key
        return before and table.published is not None and table.published.published_at < now.start

    def _event(
        self, table: TableSurvey, hour: HourWindow, *, is_newest: bool
    ) -> dg.AssetMaterialization:
        """Returns what closes or opens an hour. Dagster shows only the newest one's columns."""
        services, state, now = self.services, table.state, self.seen.at
        lag = Lag(table.lag_changes or 0, table.lag_seconds(now) or 0.0)
        key = table_key(services.config, table.entry)
        metadata = {**quiet_metadata(table.committed, lag), "hour_closed": hour.is_closed(now)}
        if state is None or not is_newest:
            return materialization(key, hour.key, metadata, state.snapshot_id if state else None)
        from cdc_assets.lake.columns import columns_of

        self._columns += len(state.columns)
        columns = schema_metadata(
            services.config, table.entry, lake_columns(state), columns_of(state)
        )
        return materialization(key, hour.key, {**metadata, **columns}, state.snapshot_id)


def _held(
    config: ReplicationConfig, seen: Survey, memory: EventCursor
) -> Iterator[dg.AssetMaterialization]:
    """Yields once an hour, for each table that people hold, an event that it is held on purpose.

    Without such an event its freshness policy would turn red. The event has no partition, because
    no hour was merged.
    """
    hour = hour_of(seen.at).key
    for each in seen.tables:
        name = f"{table_key(config, each.entry).to_user_string()}{_HELD}"
        if each.desired.held is None:
            memory.hours.pop(name, None)
        elif each.published is not None and memory.hours.get(name) != hour:
            memory.hours[name] = hour
            words = held_words(each.table, each.desired)
            yield dg.AssetMaterialization(
                table_key(config, each.entry), description=words, metadata={"held": True}
            )
