"""Creates the scheduler of a run's tables; decides when the run hands over to another run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import dagster as dg

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.log.deliveries import Deliveries
from cdc_assets.log.hours import HourWindow
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.operate.services import Services, utc_now
from cdc_assets.orchestration.instance import has_slot, run_limit
from cdc_assets.orchestration.keys import (
    TAG_MODE,
    TAG_TOPIC,
    TAIL,
    UNFINISHED,
    VERIFY,
    is_asked_to_end,
    names_in,
    pools_of,
)
from cdc_assets.orchestration.scheduler import StayConditions, TableScheduler, WorkerSlot

if TYPE_CHECKING:
    from cdc_assets.orchestration.resources import ReplicationSpark


LINGER: Final = timedelta(seconds=5)
"""How long a run stays after its hour, for records of that hour that are still on their way."""


def scheduler_of(
    context: dg.AssetExecutionContext,
    config: ReplicationConfig,
    spark: ReplicationSpark,
    *,
    may_stay: bool,
) -> TableScheduler:
    """Returns the scheduler of the run; the first step that calls this creates it.

    A run that was started again from a failure has only some of its job's steps.

    A run stays if a sensor started it and its steps run side by side: if they ran one after the
    other, the first would keep all others waiting.
    """

    def make(is_side_by_side: bool) -> TableScheduler:
        from cdc_assets.merge.intake.witnesses import Witnesses
        from cdc_assets.operate.cuts import ConsistentCuts

        stays = is_side_by_side and may_stay and context.run.tags.get(TAG_MODE) == TAIL
        stays = stays and config.runs.idle_seconds > 0
        nodes = context.op_execution_context.job_def.nodes
        steps = frozenset(context.run.step_keys_to_execute or (node.name for node in nodes))
        topics = {
            node.name: node.tags.get(TAG_TOPIC, node.name) for node in nodes if node.name in steps
        }
        max_slots = config.spark.tables_at_once if is_side_by_side else 1
        # Shared by all slots: a table's next batch may use another slot.
        witnesses, cuts = Witnesses(Deliveries(config)), ConsistentCuts(config) or None
        stay = replace(_stay_conditions(context, config), cuts=cuts) if stays else None

        def new_slot() -> WorkerSlot:
            return WorkerSlot(config, spark.new_session, witnesses, cuts)

        return TableScheduler(topics, new_slot, max_slots, stay)

    return spark.scheduler(make)


def _stay_conditions(
    context: dg.AssetExecutionContext, config: ReplicationConfig
) -> StayConditions:
    window = HourWindow.from_key(context.partition_keys[-1])
    instance, run = context.instance, context.run

    def must_end() -> bool:
        return utc_now() >= window.end + LINGER or must_hand_over(instance, run)

    return StayConditions(config.runs, TopicEnds(Services(config).log), must_end)


def must_hand_over(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Returns whether a run has to end for another run's sake.

    That is so if it was asked to hand over, if another run shares one of its tables, or if another
    run may wait for its slot: one of a replication that is queued, or any once no slot is free.
    Other projects' runs may be queued for days by limits of their own. Runs that compare tables do
    not count: they can wait.
    """
    runs = instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED)))
    limit = run_limit(instance)
    is_full = limit is not None and sum(has_slot(each) for each in runs) >= limit
    for other in runs:
        if other.run_id == run.run_id:
            if is_asked_to_end(other):
                return True
        elif other.tags.get(TAG_MODE) == VERIFY:
            continue
        elif _share(run, other) or (not has_slot(other) and (is_full or TAG_MODE in other.tags)):
            return True
    return False


def _share(run: dg.DagsterRun, other: dg.DagsterRun) -> bool:
    """Returns whether two runs have a table in common, including for its upkeep."""
    pools = pools_of(run), pools_of(other)
    if pools[0] is not None and pools[1] is not None:
        return not pools[0].isdisjoint(pools[1])
    assets = frozenset(run.asset_selection or ()), frozenset(other.asset_selection or ())
    tables = names_in(run), names_in(other)
    return not (assets[0].isdisjoint(assets[1]) and tables[0].isdisjoint(tables[1]))


PARTITIONS_SECONDS: Final = 30.0
"""Seconds for which topics' partitions count as known: asking for them lists the whole cluster."""


class TopicEnds:
    """A reader of topics' ends: one request for all, with partitions looked up only now and then.

    Args:
        log: Kafka.
        clock: monotonic seconds.
    """

    def __init__(self, log: KafkaLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._partitions: dict[str, Sequence[int]] = {}
        self._known_at = 0.0
        self._topics: frozenset[str] = frozenset()

    def __call__(self, topics: Iterable[str]) -> dict[str, OffsetVector]:
        """Returns the read-committed end of each topic that exists.

        Raises:
            UnreachableError: if Kafka does not answer.
        """
        wanted, now = frozenset(topics), self._clock()
        is_old = now - self._known_at > PARTITIONS_SECONDS
        if is_old or not wanted <= self._topics:
            # With those of before: tables that are idle in turn would else ask at each look.
            self._topics = wanted if is_old else wanted | self._topics
            self._partitions = dict(self._log.partitions(self._topics))
            self._known_at = now
        return self._log.ends({t: p for t, p in self._partitions.items() if t in wanted})
