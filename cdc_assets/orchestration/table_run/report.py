"""Reports a table's step: the events of its batches, its checks, its failure or wait.

The numbers of all materializations of a table add up to what was merged: an event that merged
nothing says 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, StalledError, TransientError, message_of
from cdc_assets.operate.connectors import connector_words
from cdc_assets.operate.ddl import among_rows
from cdc_assets.operate.failures import FailureKind, Hold, kind_of
from cdc_assets.operate.services import Services
from cdc_assets.operate.slo import pace_after
from cdc_assets.orchestration.checks import unjudged, verdicts_of
from cdc_assets.orchestration.failing import recovery_observation
from cdc_assets.orchestration.keys import table_key
from cdc_assets.orchestration.metadata import (
    NO_LAG,
    Lag,
    batch_metadata,
    materialization,
    pace_metadata,
    quiet_metadata,
)
from cdc_assets.orchestration.sensors.ddl import observation
from cdc_assets.orchestration.table_run.step import Intention, TableStep
from cdc_assets.reference import explained
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge import BatchResult, Waiting

Event = dg.AssetMaterialization | dg.MaterializeResult | dg.AssetObservation | dg.AssetCheckResult


# ── batches ──────────────────────────────────────────────────────────────────────────────


def report_batch(step: TableStep, batch: BatchResult, of: TableEntry | None = None) -> None:
    """Logs a batch, the tables found in it, and its statements, and passes it on.

    Args:
        step: the step that has merged the batch.
        batch: the batch.
        of: the table that the batch was merged into, if that is not the step's own.

    Raises:
        UnreachableError: if the registry, Kafka or the catalog does not answer.
    """
    entry = of or step.entry
    step.context.log.info(
        f"{entry.table}: merged {batch.records} records "
        f"{' '.join(map(str, batch.ranges))} into {batch.target} "
        f"snapshot={batch.snapshot_id} in {batch.duration_seconds:.1f} s"
    )
    _report_others(step)
    for each in among_rows(step.services, entry, batch.statements):
        step.context.log_event(observation(step.config, each))
    if step.on_batch:
        step.on_batch(batch)


def _report_others(step: TableStep) -> None:
    """Logs tables that share the topic, and that discovery has not seen at the topic's ends."""
    discoveries = step.slot.discoveries
    while discoveries:
        topic, found = discoveries.pop(0)
        for other in found.added:
            step.context.log.info(f"{other.table} was found in topic {topic}")
        for refused in found.refused:
            step.context.log.error(f"a table in topic {topic} cannot be added: {refused}")


def lag_of(step: TableStep, topic: str, committed: OffsetVector) -> Lag | None:
    """Returns the lag behind a topic's end; no lag if Kafka does not have the topic.

    The lag only describes what was done: if Kafka does not answer, that is logged and the lag is
    unknown, so that a published batch and the error of the next one are reported all the same.

    Args:
        step: the step that reports the lag.
        topic: the table's topic.
        committed: the next offsets to read.

    Returns:
        The lag; None if it is unknown.
    """
    try:
        return _measured(step.services, topic, committed)
    except CdcError as error:
        step.context.log.warning(f"{step.entry.table}: its lag is unknown: {error}")
        return None


def _measured(services: Services, topic: str, committed: OffsetVector) -> Lag:
    marks = services.log.watermarks([topic]).get(topic)
    if marks is None:
        return NO_LAG
    changes = total_length(committed.merged_max(marks.begin).ranges_to(marks.end))
    oldest = services.log.first_unread({topic: committed})[topic] if changes else None
    seconds = (services.clock() - oldest).total_seconds() if oldest else 0.0
    return Lag(changes, max(0.0, seconds))


def batch_event(
    step: TableStep, batch: BatchResult, of: TableEntry | None = None
) -> dg.AssetMaterialization:
    """Returns the materialization of a published batch.

    Args:
        step: the step that has merged the batch.
        batch: the batch.
        of: the table that the batch was merged into, if that is not the step's own.
    """
    entry = of or step.entry
    lag = lag_of(step, entry.topic, batch.end)
    pace = pace_after(step.config, step.entry.table, batch.slo, step.services.clock())
    metadata = {
        **batch_metadata(step.services.config, entry, batch, lag),
        **pace_metadata(pace),
    }
    key = table_key(step.config, entry)
    return materialization(key, batch.hour.key, metadata, batch.snapshot_id)


def last_events(
    step: TableStep, checks: StepChecks, last: BatchResult | None
) -> Iterator[dg.AssetMaterialization | dg.MaterializeResult[Any]]:
    """Makes the last batch the step's own materialization, if it belongs to its partition.

    Raises:
        CdcError: if the table's facts cannot be read.
    """
    if last is None or last.hour != step.windows[-1] or not step.has_partition:
        if last is not None:
            yield batch_event(step, last)
        yield quiet_result(step, checks)
        return
    event = batch_event(step, last)
    yield dg.MaterializeResult(
        metadata=event.metadata,
        data_version=dg.DataVersion(str(last.snapshot_id)) if last.snapshot_id else None,
        check_results=list(checks.results()),
    )


def quiet_result(step: TableStep, checks: StepChecks) -> dg.MaterializeResult[Any]:
    """Returns a result that merged nothing, with the checks unless they were yielded before.

    Raises:
        CdcError: if the table's facts cannot be read.
    """
    after = step.survey()
    snapshot = after.state.snapshot_id if after.state else None
    lag = lag_of(step, step.entry.topic, after.committed)
    return dg.MaterializeResult(
        metadata=quiet_metadata(after.committed, lag),
        data_version=dg.DataVersion(str(snapshot)) if snapshot else None,
        check_results=[] if checks.are_yielded else list(checks.results()),
    )


# ── checks ───────────────────────────────────────────────────────────────────────────────


@dataclass
class StepChecks:
    """The checks of a table's step, which has one result per check.

    Attributes:
        step: the step.
        are_yielded: whether the results were yielded as events of their own, before the step's end.
    """

    step: TableStep
    are_yielded: bool = False

    def once(self) -> Iterator[dg.AssetCheckResult]:
        """Yields the results if no turn has yielded them.

        Raises:
            CdcError: if the table's facts cannot be read.
        """
        if not self.are_yielded:
            self.are_yielded = True
            yield from self.results()

    def results(self) -> Iterator[dg.AssetCheckResult]:
        """Yields the results.

        Raises:
            CdcError: if the table's facts cannot be read.
        """
        seen = self.step.survey(ages=True)
        yield from (each.result() for each in verdicts_of(self.step.services, seen))

    def despite(self, failure: dg.Failure) -> Iterator[dg.AssetCheckResult]:
        """Yields the checks of a run that fails; otherwise Dagster would only say that they failed.

        A step has one result per check: later ones are reported without the run.
        """
        step = self.step
        try:
            found = verdicts_of(step.services, step.survey(ages=True))
        except Exception as error:  # most often for the same reason as the failure
            said = f"{step.entry.table}: its checks cannot be judged: {message_of(error)}"
            step.context.log.warning(said)
            found = unjudged(step.config, step.entry, failure.description or "")
        if not self.are_yielded:
            yield from (each.result() for each in found)
            return
        for each in found:
            step.context.instance.report_runless_asset_event(each.evaluation())


# ── failures and waits ───────────────────────────────────────────────────────────────────


@dataclass
class FailureRecord:
    """The recorded failure of a step's table, or its wait for the end of a transaction.

    Attributes:
        step: the step.
        waiting: the wait that its present turn has met, or its last one; None if it met none.
    """

    step: TableStep
    waiting: Waiting | None = None

    @property
    def hold(self) -> Hold | None:
        """The recorded wait, which decides when the table is tried again; None without a wait."""
        if (waiting := self.waiting) is None:
            return None
        return Hold(waiting.transaction, waiting.since, waiting.stops_at, waiting.log_end)

    def wait(self, waiting: Waiting) -> None:
        """Records the table's wait.

        Raises:
            StalledError: if the table has waited for too long, unless the run replays hours.
        """
        step = self.step
        self.waiting, config = waiting, step.services.config
        is_over = step.services.clock() >= waiting.stops_at
        if is_over and step.intention is not Intention.REPLAY:
            since = f"{waiting.since:%Y-%m-%d %H:%M:%S}Z"
            what = f"waited for too long, since {since}: {waiting.reason}"
            raise _stalled(config, step.entry, waiting, what)
        words = str(_stalled(config, step.entry, waiting, waiting.reason))
        step.context.log.warning(f"{step.entry.table}: waiting: {words}")
        self._record(FailureKind.WAITING, words, self.hold)

    def fail(self, error: Exception) -> None:
        """Records the table's failure; only logs a warning if that is impossible for now."""
        hold = self.hold if isinstance(error, StalledError) else None
        self._record(kind_of(error), explained(error), hold)

    def settle(self) -> Iterator[dg.AssetObservation]:
        """Clears the table's failure after a success. Call it before the checks, which read it.

        Raises:
            UnreachableError: if the failures cannot be read or written.
        """
        if self.waiting is not None:
            return
        step = self.step
        if step.entry.table in step.services.failures.load():
            yield recovery_observation(step.config, step.entry)
        step.services.failures.clear(step.entry.table)

    def _record(self, kind: FailureKind, message: str, hold: Hold | None) -> None:
        step = self.step
        table, now = step.entry.table, step.services.clock()
        try:
            step.services.failures.record(
                table, kind, message, now, hold, give_up_after=step.config.runs.give_up_after
            )
        except TransientError as problem:
            step.context.log.warning(f"{table}: its failure could not be remembered: {problem}")


def _stalled(
    config: ReplicationConfig, entry: TableEntry, waiting: Waiting, what: str
) -> StalledError:
    """Returns a waiting table's error: what is missing, the connector's state, the next step."""
    unread = f"{waiting.unread} offsets wait"
    remedy = f"{waiting.remedy}: {connector_words(config, entry)}"
    return StalledError(f"{what}; {unread}", where=waiting.where, remedy=remedy)
