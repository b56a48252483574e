"""Evaluates the checks of every table, with the same verdict in a run and without one.

`offsets_contiguous`: each snapshot's offsets begin where the one before it ended, and the
committed offsets are within the log. `replication_slo`: the promised share of changes is in time.
`schema_in_sync`: the lake's columns are the source's newest ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import dagster as dg

from cdc_assets.changes.names import TableName
from cdc_assets.changes.slo import PublishPace, SloReport, SloState, SloTarget
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, TransientError
from cdc_assets.operate.completeness import Completeness, completeness, deliveries_of
from cdc_assets.operate.connectors import ConnectorView, Working
from cdc_assets.operate.contiguity import Contiguity, outside
from cdc_assets.operate.failures import Failure
from cdc_assets.operate.retained import RetentionState, retained
from cdc_assets.operate.schema_drift import Drift, drifts
from cdc_assets.operate.seen_states import SeenState
from cdc_assets.operate.services import Services
from cdc_assets.operate.slo import slo_reports, slo_target
from cdc_assets.operate.states import (
    TableCondition,
    held_words,
    seconds_text,
    standing_of,
    stopped_words,
)
from cdc_assets.operate.status import finite, quarantine_words, quarantined
from cdc_assets.operate.survey import Survey, TableSurvey
from cdc_assets.orchestration.keys import CHECK_OFFSETS, CHECK_SCHEMA, CHECK_SLO, CHECKS, table_key
from cdc_assets.orchestration.metadata import pace_metadata, valid_through_metadata
from cdc_assets.registry import TableEntry
from cdc_assets.schema.silent import doubt_remedy

WARN = dg.AssetCheckSeverity.WARN
ERROR = dg.AssetCheckSeverity.ERROR


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The outcome of one check of one table.

    ``reason``: why the table does not continue. ``notice``: a message to show on its page at once.
    """

    asset: dg.AssetKey
    check: str
    passed: bool
    severity: dg.AssetCheckSeverity
    description: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    notice: str = ""

    @property
    def summary(self) -> str:
        """A digest of outcome and reason, to compare with the last one."""
        outcome = "ok" if self.passed else self.severity.value.lower()
        return f"{outcome} {zlib.crc32(self.reason.encode()):08x}" if self.reason else outcome

    def result(self) -> dg.AssetCheckResult:
        """Returns the verdict as a result of a run's step."""
        return dg.AssetCheckResult(
            asset_key=self.asset, check_name=self.check, passed=self.passed,
            severity=self.severity, description=self.description, metadata=self.metadata,
        )  # fmt: skip

    def evaluation(self) -> dg.AssetCheckEvaluation:
        """Returns the verdict as an event without a run."""
        return dg.AssetCheckEvaluation(
            asset_key=self.asset, check_name=self.check, passed=self.passed,
            severity=self.severity, description=self.description, metadata=self.metadata,
        )  # fmt: skip


def check_specs(asset: dg.AssetKey) -> Sequence[dg.AssetCheckSpec]:
    """Returns the checks of a table."""
    return (
        dg.AssetCheckSpec(
            CHECK_OFFSETS,
            asset=asset,
            description="Each snapshot begins at the offsets where the one before it ended.",
        ),
        dg.AssetCheckSpec(
            CHECK_SLO,
            asset=asset,
            description="Enough changes became visible in time: the source's `slo`.",
        ),
        dg.AssetCheckSpec(
            CHECK_SCHEMA,
            asset=asset,
            description="The lake's columns are those that the source's database has now.",
        ),
    )


def drifts_of(services: Services, seen: Survey) -> dict[TableName, Drift]:
    """Returns the drifts of the tables that are in the lake."""
    return drifts(services, [(each.entry, each.state) for each in seen.tables if each.state])


def verdicts(
    services: Services,
    seen: Survey,
    differing: Mapping[TableName, Drift],
    has_time: Callable[[], bool] = lambda: True,
) -> Iterator[CheckVerdict]:
    """Yields the verdicts of each table's checks; of a table that cannot be read, the reason.

    Args:
        services: the services to ask.
        seen: the surveyed tables.
        differing: the result of `drifts_of`.
        has_time: returns whether there is time to read a table's publishes. Tables that have new
            ones are left out once there is none.

    Raises:
        UnreachableError: if Kafka or the catalog does not answer.
    """
    reports = slo_reports(services, seen.tables, seen.at)
    services.connects.ask([each.entry for each in seen.tables])
    kept = retained(services, seen.tables, seen.at)
    complete = completeness(services, seen.tables, deliveries_of(services, seen.tables))
    since = services.states.known()
    for each in seen.tables:
        entry = each.entry
        if services.contiguities.known(entry, each.state) is None and not has_time():
            continue
        contiguity = _contiguity(services, each)
        if isinstance(contiguity, CdcError):
            yield from unjudged(services.config, entry, str(contiguity), _severity(contiguity))
            continue
        target = slo_target(services, each.table)
        key = table_key(services.config, entry)
        yield offsets_verdict(key, each, contiguity)
        connector, whole = services.connects.view(entry), complete[each.table]
        lost = kept.get(each.table, RetentionState())
        report = reports[each.table]
        pace = services.config.runs.pace(target, report.budget_left)
        facts = SloFacts(
            each, target, report, seen.at, pace, connector, whole, lost, since.get(each.table),
        )  # fmt: skip
        yield slo_verdict(key, facts)
        yield schema_verdict(key, each, differing.get(each.table, Drift()))


def verdicts_of(services: Services, table: TableSurvey) -> Sequence[CheckVerdict]:
    """Returns the verdicts of one table, for its run."""
    seen = Survey(services.clock(), (table,))
    return tuple(verdicts(services, seen, drifts_of(services, seen)))


def unjudged(
    config: ReplicationConfig,
    entry: TableEntry,
    why: str,
    severity: dg.AssetCheckSeverity = ERROR,
) -> Sequence[CheckVerdict]:
    """Returns the verdicts of a failed table if its facts cannot be read either."""
    key = table_key(config, entry)
    return [
        CheckVerdict(key, check, False, severity, f"failing: {why}", reason=why) for check in CHECKS
    ]


def _contiguity(services: Services, table: TableSurvey) -> Contiguity | CdcError:
    """Returns what the newest publishes are like, or why the table cannot be read."""
    if table.problem is not None:
        return table.problem
    try:
        return services.contiguities.of(table.entry, table.state)
    except CdcError as problem:  # the survey has shown that the catalog answers
        return problem


def _severity(problem: CdcError) -> dg.AssetCheckSeverity:
    """Returns WARN for a problem that may pass by itself."""
    return WARN if isinstance(problem, TransientError) else ERROR


def offsets_verdict(key: dg.AssetKey, table: TableSurvey, contiguity: Contiguity) -> CheckVerdict:
    """Judges whether the newest publishes have no gaps and are within the log."""
    found = [*contiguity.gaps, *outside(table.committed, table.marks)]
    words = found or [f"{contiguity.publishes} publishes without a gap"]
    description = "; ".join([*words, *_held_words(table.failure)])
    metadata = {
        "publishes": contiguity.publishes,
        "gaps": len(found),
        "committed_offsets": dg.MetadataValue.text(table.committed.to_json()),
    }
    return CheckVerdict(
        asset=key,
        check=CHECK_OFFSETS,
        passed=not found,
        severity=ERROR,
        description=description,
        metadata=metadata,
        reason=table.failure.message if table.failure else "",
    )


def _held_words(failure: Failure | None) -> Iterator[str]:
    """Yields why the table does not continue, if so."""
    if failure:
        yield f"{'waiting' if failure.is_waiting else 'failing'}: {failure.message}"


def schema_verdict(key: dg.AssetKey, table: TableSurvey, drift: Drift) -> CheckVerdict:
    """Compares with the source's columns: ERROR if the table will stop, WARN if it will follow.

    If a table fails before it is in the lake, only the reason of the failure is known.
    """
    differing, held = [*drift.lines()], [*_held_words(table.failure)]
    if drift.silent and not drift.halts:
        held.insert(0, doubt_remedy(str(table.table)))
    is_unknown = table.state is None and bool(held)
    words = differing or ([] if is_unknown else [f"as {drift.by or 'the records'} have them"])
    description = "; ".join([*words, *held])
    passed = drift.is_in_sync and not is_unknown
    return CheckVerdict(
        asset=key,
        check=CHECK_SCHEMA,
        passed=passed,
        severity=ERROR if drift.stops or is_unknown else WARN,
        description=description,
        reason="" if passed else description,
        metadata={"differences": len(differing)},
    )


@dataclass(frozen=True, slots=True)
class SloFacts:
    """The facts for the verdict on the SLO."""

    table: TableSurvey
    target: SloTarget
    report: SloReport
    now: datetime
    pace: PublishPace
    connector: ConnectorView
    completeness: Completeness
    retained: RetentionState = field(default_factory=RetentionState)
    seen: SeenState | None = None

    @property
    def standing(self) -> TableCondition:
        """The table's state, its beginning, and the reason."""
        return standing_of(self.table, self.now, self.target.within_seconds, self.seen)

    @property
    def quarantined(self) -> int:
        """The number of records in quarantine, however long ago they were put there."""
        return quarantined(self.table)


def slo_verdict(key: dg.AssetKey, facts: SloFacts) -> CheckVerdict:
    """Judges the SLO.

    A table that people have paused or dropped has no SLO: the check says so, and how many changes
    wait. Otherwise ERROR if the SLO is missed, if the table's failure needs a person, or if its
    connector has failed or is gone, since changes that it does not deliver do not count as late;
    WARN if the error budget burns too fast, if the connector is held, or if Connect does not
    answer. In any case ERROR while records are in quarantine, or once the log has lost changes that
    were not merged, and WARN if it soon will.
    """
    failure, report, connector = facts.table.failure, facts.report, facts.connector
    stopped = failure is not None and failure.needs_person
    is_down = connector.working is Working.DOWN
    held = report.state is SloState.HELD
    is_missed = not held and (stopped or is_down or report.state is SloState.ERROR)
    broken = is_missed or facts.quarantined > 0 or facts.retained.lost > 0
    keeps = held or (report.state is SloState.OK and not connector.trouble)
    return CheckVerdict(
        asset=key,
        check=CHECK_SLO,
        passed=not broken and keeps and not facts.retained.is_near,
        severity=ERROR if broken else WARN,
        description="; ".join(_slo_words(facts)),
        reason=_reason(facts),
        notice=facts.retained.words(),
        metadata={
            **_state_metadata(facts.standing),
            **_slo_metadata(facts.target, report),
            **pace_metadata(facts.pace),
            **_lag_metadata(facts),
            **_waiting_metadata(facts.table),
            **loss_metadata(facts.retained),
            "records_quarantined": facts.quarantined,
        },
    )


def _reason(facts: SloFacts) -> str:
    """Returns what makes an outcome a new one; not the hour of a loss, which moves with the lag."""
    table, kept = facts.table, facts.retained
    danger = "lost " if kept.lost else "soon lost " if kept.is_near else ""
    if table.desired.held:
        return danger + held_words(table.table, table.desired)
    failure = table.failure
    stopped = "stopped " if failure and failure.stopped else ""
    words = (f"{stopped}{failure.message}" if failure else "", facts.connector.trouble)
    return danger + "; ".join(filter(None, words))


def _pause_words(facts: SloFacts) -> Iterator[str]:
    table = facts.table
    seconds = table.lag_seconds(facts.now)
    yield held_words(table.table, table.desired)
    if table.lag_changes:
        oldest = f", the oldest for {seconds_text(seconds)}" if seconds is not None else ""
        yield f"{table.lag_changes:,} changes wait{oldest}"


def _slo_words(facts: SloFacts) -> Iterator[str]:
    report, failure = facts.report, facts.table.failure
    if said := facts.retained.words():
        yield said
    if facts.table.desired.held:
        yield from _pause_words(facts)
    elif said := stopped_words(facts.table):
        yield said
    yield f"{report.percent_within:.2f} % of {report.changes} changes in time"
    yield f"target {facts.target}"
    if not facts.table.desired.held:
        yield str(facts.pace)
    if report.state is SloState.WARN:
        yield f"the error budget burns {report.burn_rate:.1f} times too fast"
    if facts.quarantined:
        yield quarantine_words(facts.table.table, facts.quarantined)
    if facts.connector.trouble:
        yield facts.connector.trouble
    yield from _held_words(failure)


def _state_metadata(standing: TableCondition) -> dict[str, Any]:
    since = standing.since
    return {
        "state": standing.condition.value,
        **({"state_since": dg.MetadataValue.timestamp(since)} if since else {}),
        "state_why": standing.why,
    }


def _slo_metadata(target: SloTarget, report: SloReport) -> dict[str, Any]:
    numbers = {
        "percent_within": report.percent_within,
        "p50_seconds": report.p50,
        "p95_seconds": report.p95,
        "p99_seconds": report.p99,
        "error_budget_left": report.budget_left,
        "burn_rate": report.burn_rate,
        "target_percent": target.percent,
        "target_seconds": target.within_seconds,
    }
    known = {name: round(value, 4) for name, value in numbers.items() if finite(value) is not None}
    return {**known, "changes": report.changes, "changes_late": report.late}


def _waiting_metadata(table: TableSurvey) -> dict[str, Any]:
    hold = table.failure.hold if table.failure else None
    if hold is None:
        return {}
    return {
        "waiting_for_transaction": dg.MetadataValue.text(hold.transaction),
        "waiting_since": dg.MetadataValue.timestamp(hold.since),
        "waiting_until": dg.MetadataValue.timestamp(hold.stops_at),
    }


def loss_metadata(kept: RetentionState) -> dict[str, Any]:
    """Returns when changes are lost, as far as known."""
    lost = {"changes_lost": kept.lost} if kept.lost else {}
    if kept.overtaking is None:
        return lost
    at = dg.MetadataValue.timestamp(kept.overtaking.at)
    return {**lost, "changes_lost_from": at}


def _lag_metadata(facts: SloFacts) -> dict[str, Any]:
    table, now, whole = facts.table, facts.now, facts.completeness
    lag = {
        "lag_changes": table.lag_changes,
        "lag_seconds": table.lag_seconds(now),
        "lag_source_to_kafka_seconds": whole.source_to_kafka_seconds,
        "lag_end_to_end_seconds": whole.end_to_end_seconds(now),
    }
    known = {name: value for name, value in lag.items() if value is not None}
    return {**known, **valid_through_metadata(whole.valid_through)}
