"""Maintains lake tables through an asset each, by the operation `maintain`."""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

from collections.abc import Callable
from functools import partial
from typing import Any

import dagster as dg

from cdc_assets.config import ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.errors import CdcError
from cdc_assets.operations.maintain import MAINTAIN, MaintainOptions, UpkeepOptions
from cdc_assets.operations.operation import Progress, Report, Tables
from cdc_assets.operations.running import Say, carried_out
from cdc_assets.operations.session import Host, TableSession
from cdc_assets.orchestration import liveness
from cdc_assets.orchestration.hand_over import must_hand_over, scheduler_of
from cdc_assets.orchestration.instance import QUIET, reason_of
from cdc_assets.orchestration.keys import (
    MAINTENANCE,
    TAG_PROCESS,
    maintenance_key,
    maintenance_op,
    pool_name,
    run_tags,
    spark_key,
    table_key,
)
from cdc_assets.orchestration.manual_jobs import config_of, require_offered
from cdc_assets.orchestration.operation_jobs import metadata_values, sayer
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.orchestration.scheduler import RunIsOverError
from cdc_assets.orchestration.side_by_side import materialize
from cdc_assets.reference import explained

Wish = config_of(UpkeepOptions)


def maintenance_asset(
    config: ReplicationConfig,
    tables: Tables,
    say: Say = lambda _: None,
    on_report: Callable[[Report], None] = lambda _: None,
) -> dg.AssetsDefinition:
    """Returns the asset that maintains a lake table when materialized.

    Args:
        config: the configuration.
        tables: the tables that are merged into it.
        say: receives progress, besides the run's log.
        on_report: receives the report.
    """
    first, spark, replication = tables[0], spark_key(config), config
    spec = dg.AssetSpec(
        maintenance_key(config, first.target),
        deps=[table_key(config, each) for each in tables],
        group_name=MAINTENANCE,
        kinds={"spark", "iceberg"},
        description=(
            f"Upkeep of `{first.target}` and of its side tables: compaction, expiry "
            "of snapshots, manifests, branches that were left, and orphan files."
        ),
        # No `dagster/table_name`: by that name dbt's sources find the table itself.
        metadata={"table": f"{config.lake.catalog.name}.{first.target}"},
    )

    @dg.multi_asset(
        name=maintenance_op(config, first.target),
        specs=[spec],
        pool=pool_name(config, first),
        required_resource_keys={spark},
    )
    def maintain(context: dg.AssetExecutionContext, config: Wish) -> dg.MaterializeResult[Any]:  # pyright: ignore[reportInvalidTypeForm]
        require_offered(context.run, replication, "maintain_tables")
        options = MaintainOptions(**config.model_dump())
        is_whole_run = getattr(context.resources, spark).is_side_by_side
        with liveness.at_work(context, replication, is_whole_run=is_whole_run):
            report = _in_turn(context, replication, tables, options, say)
        on_report(report)
        with effect("dagster: event"):
            return dg.MaterializeResult(metadata=metadata_values(report.metadata))

    return maintain


def _in_turn(
    context: dg.AssetExecutionContext,
    config: ReplicationConfig,
    tables: Tables,
    options: MaintainOptions,
    say: Say,
) -> Report:
    """Maintains a lake table while its first table has its turn.

    Raises:
        dagster.Failure: if a task fails, or the run was stopped before.
    """
    first, step, log = tables[0], context.op_execution_context.op.name, sayer(context)
    resource = getattr(context.resources, spark_key(config))
    scheduler = scheduler_of(context, config, resource, may_stay=False)

    def tell(progress: Progress) -> None:
        log(progress)
        say(progress)

    try:
        with scheduler.turn(step, first) as turn:
            slot = turn.slot
            is_wanted = partial(must_hand_over, context.instance, context.run)
            host = Host(context.run_id, slot.session, slot.forget, is_wanted)
            session = TableSession(slot.services, tables, host)
            report = carried_out(MAINTAIN, options, session, tell)
        scheduler.leave(step, first)
    except RunIsOverError:
        what = f"{first.target}: the run was stopped before the table had its turn"
        raise dg.Failure(what, allow_retries=False) from None
    except CdcError as error:
        scheduler.leave(step, first)
        what = f"upkeep of {first.target}: {explained(error)}"
        raise dg.Failure(what, {"kind": MAINTENANCE}, allow_retries=False) from None
    return report


def maintained(
    config: ReplicationConfig,
    instance: dg.DagsterInstance,
    tables: Tables,
    options: UpkeepOptions,
    say: Say,
    process: str,
) -> Report:
    """Maintains a lake table by a run of its asset in this process, and returns the report.

    Args:
        config: the configuration.
        instance: records the run.
        tables: the tables that are merged into the lake table.
        options: those of the step.
        say: receives progress.
        process: the command's name in liveness.

    Raises:
        CdcError: if the step fails.
    """
    reports, wish = list[Report](), options.model_dump(include=set(UpkeepOptions.model_fields))
    liveness.hold(config.home, process)
    result = materialize(
        [maintenance_asset(config, tables, say, reports.append)],
        instance=instance,
        resources={spark_key(config): spark_resource(config)},
        run_config={**QUIET, "ops": {maintenance_op(config, tables[0].target): {"config": wish}}},
        tags={**run_tags(config, MAINTENANCE, tables), TAG_PROCESS: process},
    )
    for event in result.get_step_failure_events():
        raise CdcError(reason_of(event))
    return reports[0]
