"""Creates the turns of a run's tables; decides when a run that stays makes room for others."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.log.deliveries import Deliveries
from cdc_assets.log.ends import TopicEnds
from cdc_assets.log.hours import HourWindow
from cdc_assets.operate.services import Clock, Services, utc_now
from cdc_assets.orchestration.keys import (
    TAG_HAND_OVER,
    TAG_MODE,
    TAG_TOPIC,
    TAIL,
    UNFINISHED,
    VERIFY,
    names_in,
)
from cdc_assets.orchestration.places import Place
from cdc_assets.orchestration.turns import Stay, Turns

if TYPE_CHECKING:
    from cdc_assets.merge.intake.witnesses import Witnesses
    from cdc_assets.orchestration.resources import ReplicationSpark

LINGER: Final = timedelta(seconds=5)
"""How long a run stays after its hour, for records of that hour that are still on their way."""


def turns_of(
    context: dg.AssetExecutionContext,
    config: ReplicationConfig,
    spark: ReplicationSpark,
    *,
    may_stay: bool,
    clock: Clock = utc_now,
) -> Turns:
    """Returns the turns of the run; the first step that calls this creates them.

    A run that was started again from a failure has only some of its job's steps.

    A run stays if a sensor started it and its steps run side by side: if they ran one after the
    other, the first would keep all others waiting.
    """

    def make(is_side_by_side: bool) -> Turns:
        stays = is_side_by_side and may_stay and context.run.tags.get(TAG_MODE) == TAIL
        stays = stays and config.runs.idle_seconds > 0
        stay = _stay(context, config, clock) if stays else None
        nodes = context.op_execution_context.job_def.nodes
        steps = frozenset(context.run.step_keys_to_execute or (node.name for node in nodes))
        topics = {
            node.name: node.tags.get(TAG_TOPIC, node.name) for node in nodes if node.name in steps
        }
        places = config.spark.tables_at_once if is_side_by_side else 1
        witnesses = _witnesses(config)
        return Turns(topics, lambda: Place(config, spark.new_session, witnesses), places, stay)

    return spark.turns(make)


def _witnesses(config: ReplicationConfig) -> Witnesses:
    """Returns the witnesses that all places share: a table's next batch may use another place."""
    from cdc_assets.merge.intake.witnesses import Witnesses

    return Witnesses(Deliveries(config))


def _stay(context: dg.AssetExecutionContext, config: ReplicationConfig, clock: Clock) -> Stay:
    window = HourWindow.from_key(context.partition_keys[-1])
    instance, run = context.instance, context.run
    look = TopicEnds(Services(config).log)

    def is_wanted() -> bool:
        return clock() >= window.end + LINGER or gives_way(instance, run)

    return Stay(config.runs, look, is_wanted)


def gives_way(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Returns whether a run has to end for another run's sake.

    That is so if it was asked to hand over, if another run shares one of its tables, or if another
    run is queued: even without a common table it may wait for this run's slot. Runs that compare
    tables do not count: they can wait.
    """
    for other in instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED))):
        if other.run_id == run.run_id:
            if TAG_HAND_OVER in other.tags:
                return True
        elif other.tags.get(TAG_MODE) == VERIFY:
            continue
        elif other.status is dg.DagsterRunStatus.QUEUED or _share(run, other):
            return True
    return False


def _share(run: dg.DagsterRun, other: dg.DagsterRun) -> bool:
    """Returns whether two runs have a table in common, including for its upkeep."""
    assets = frozenset(run.asset_selection or ()), frozenset(other.asset_selection or ())
    tables = names_in(run), names_in(other)
    return not (assets[0].isdisjoint(assets[1]) and tables[0].isdisjoint(tables[1]))
