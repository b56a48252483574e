"""Runs the check `matches_source` of each table: `cdc-assets verify`, as a step of its own.

It merges nothing and delays nobody: it does not take the table's pool, and takes no part in the
table's runs except backfills, after which it compares what they have merged again. A difference is
red. A table that could not be compared says so, and is not red: one that is paused, that is not in
the lake yet, or whose source does not answer.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import message_of
from cdc_assets.operate.comparable import NOT_COMPARED, is_comparable, rests
from cdc_assets.operate.known_tables import replicated
from cdc_assets.operate.services import Services
from cdc_assets.operations.session import Host, TableSession
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.checks import ERROR, WARN, CheckVerdict
from cdc_assets.orchestration.hand_over import must_hand_over
from cdc_assets.orchestration.keys import (
    CHECK_MATCHES,
    VERIFY,
    named,
    spark_key,
    steps_apart,
    table_key,
)
from cdc_assets.orchestration.table_run import Intention, intention_of
from cdc_assets.registry import Registry, TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge.verifying.report import ComparisonReport
    from cdc_assets.orchestration.resources import ReplicationSpark

COLUMNS_NAMED: Final = 50
SAY_SECONDS: Final = 10.0

Tell = Callable[[str], None]


def comparable(config: ReplicationConfig, registry: Registry) -> dict[str, tuple[TableEntry, ...]]:
    """Returns by source the tables that have the check; see `is_comparable`."""
    found = dict[str, list[TableEntry]]()
    for entry in replicated(config, registry):
        if is_comparable(config, entry):
            found.setdefault(entry.table.source, []).append(entry)
    return {source: tuple(entries) for source, entries in found.items()}


def check_of(config: ReplicationConfig, entry: TableEntry) -> dg.AssetCheckKey:
    """Returns the check of one table."""
    return dg.AssetCheckKey(table_key(config, entry), CHECK_MATCHES)


def matches_checks(
    config: ReplicationConfig, registry: Registry
) -> Sequence[dg.AssetChecksDefinition]:
    """Returns a step per source, which compares the selected tables one after the other."""
    return [
        _checks_of(config, f"compare_{source}{f'_{n}' if n else ''}", step)
        for source, entries in comparable(config, registry).items()
        for n, step in enumerate(steps_apart(config, entries, CHECK_MATCHES))
    ]


def _checks_of(
    config: ReplicationConfig, name: str, entries: Sequence[TableEntry]
) -> dg.AssetChecksDefinition:
    spark = spark_key(config)
    specs = [
        dg.AssetCheckSpec(
            CHECK_MATCHES,
            asset=table_key(config, entry),
            description="Its rows are those of the source's table: `cdc-assets verify`.",
        )
        for entry in entries
    ]

    @dg.multi_asset_check(
        name=named(config, name),
        specs=specs,
        can_subset=True,
        pool=named(config, VERIFY),
        required_resource_keys={spark},
    )
    def compare(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        chosen = {key.asset_key for key in context.selected_asset_check_keys}
        mine = [each for each in entries if table_key(config, each) in chosen]
        session = getattr(context.resources, spark)
        with liveness.at_work(context, config, is_whole_run=session.is_side_by_side):
            yield from _Comparing(context, config, session).results(mine)

    return compare


class _Comparing:
    """One execution of a step."""

    def __init__(
        self,
        context: dg.AssetCheckExecutionContext,
        config: ReplicationConfig,
        spark: "ReplicationSpark",
    ) -> None:
        self._context = context
        self._config = config
        self._spark = spark
        self._services = Services(config)

    def results(self, entries: Sequence[TableEntry]) -> Iterator[dg.AssetCheckResult]:
        run, done = self._context.run, 0
        merged = frozenset(run.asset_selection or ())
        for entry in entries:
            was_merged = table_key(self._config, entry) in merged
            if was_merged and intention_of(run, self._context.instance) is not Intention.REPLAY:
                self._context.log.info(
                    f"{entry.table}: {NOT_COMPARED}the run has merged what is new; its turn comes "
                    "by the schedule, or run the check alone"
                )
                continue
            if done and must_hand_over(self._context.instance, run):
                self._context.log.info("Others wait for a place: the rest is compared later")
                return
            done += 1
            verdict = compared(
                self._services, entry, self._spark, run.run_id, self._say(entry), merges=was_merged
            )
            yield verdict.result()

    def _say(self, entry: TableEntry) -> Tell:
        """Returns a throttled logger: each line is an event that Dagster keeps."""
        said = -SAY_SECONDS

        def say(words: str) -> None:
            nonlocal said
            if time.monotonic() - said >= SAY_SECONDS:
                said = time.monotonic()
                self._context.log.info(f"{entry.table}: {words}")

        return say


def compared(
    services: Services,
    entry: TableEntry,
    spark: "ReplicationSpark",
    run_id: str,
    say: Tell,
    *,
    merges: bool,
) -> CheckVerdict:
    """Compares one table; the verdict includes the reason if that was not possible.

    Args:
        services: the replication's services.
        entry: the table.
        spark: provides the session.
        run_id: the run that is recorded with anything merged.
        say: receives messages about the progress.
        merges: whether to merge what the lake lacks, if nobody else can merge meanwhile.
    """
    key = table_key(services.config, entry)
    try:
        if why := rests(services, entry):
            return CheckVerdict(key, CHECK_MATCHES, True, WARN, f"{NOT_COMPARED}{why}",
                           {"compared": False})  # fmt: skip
        if failing := _fails(services, entry):
            return _unknown(key, failing)
        session = TableSession(services, [entry], Host(run_id, spark.session))
        report = _report(session, say, merges=merges)
    except Exception as error:
        spark.forget()  # the session may be what failed; the next table creates a new one
        return _unknown(key, message_of(error))
    return verdict_of(key, report)


def _report(session: TableSession, say: Tell, *, merges: bool) -> "ComparisonReport":
    from cdc_assets.merge.verifying.verification import Verification

    verification = Verification(session.attempts, session.host.run_id, say=say, merges=merges)
    return verification.of(session.entry)


def _fails(services: Services, entry: TableEntry) -> str:
    """Says why differences cannot be judged: the table fails and lags; empty if it does not."""
    failure = services.failures.load().get(entry.table)
    return f"it fails: {failure.message}" if failure and failure.needs_person else ""


def _unknown(key: dg.AssetKey, why: str) -> CheckVerdict:
    said = f"{NOT_COMPARED}{why}"
    return CheckVerdict(key, CHECK_MATCHES, False, WARN, said, {"compared": False}, reason=why)


def verdict_of(key: dg.AssetKey, report: "ComparisonReport") -> CheckVerdict:
    """Returns ERROR if something differs, WARN if something was not judged.

    Keys that changed at each look are mentioned, but are no reason for a warning: the lake's rows
    of them are newer than the comparison.
    """
    words = report.words(keys=False)
    if report.differs and report.key:
        words.append(f"which they are: cdc-assets verify --table {report.table}")
    return CheckVerdict(
        asset=key,
        check=CHECK_MATCHES,
        passed=not report.differs and report.is_whole,
        severity=ERROR if report.differs else WARN,
        description="; ".join(words),
        metadata=_metadata(report),
    )


def _metadata(report: "ComparisonReport") -> dict[str, Any]:
    kinds = Counter(each.kind.name.lower() for each in report.differences)
    columns = Counter(name for each in report.differences for name in each.columns)
    sums = report.sums and {"rows_of_source": report.sums[0].count,
                            "rows_of_lake": report.sums[1].count}  # fmt: skip
    position = report.position
    return {
        "compared": True,
        "rows": report.rows,
        "keys_that_differ": len(report.differences),
        **{f"keys/{kind}": count for kind, count in sorted(kinds.items())},
        **{f"differs/{name}": n for name, n in columns.most_common(COLUMNS_NAMED)},
        **(sums or {}),
        "keys_not_judged": report.not_judged,
        "columns_not_compared": ", ".join(each.name for each in report.left_out) or "none",
        "source_position": position.source,
        "committed_offsets": position.lake,
        **({"snapshot_id": str(position.snapshot_id)} if position.snapshot_id else {}),
        "seconds": round(sum(report.seconds.values()), 3),
    }
