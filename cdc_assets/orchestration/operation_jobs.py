"""Makes the Dagster jobs of operations, and converts what operations say into Dagster's values."""

# No `from __future__ import annotations`: Dagster reads the annotations of the bodies below.

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import ValidationError

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError
from cdc_assets.operate.comparable import is_comparable
from cdc_assets.operate.services import Services
from cdc_assets.operations.command import AnyOperation
from cdc_assets.operations.operation import (
    Markdown,
    Observation,
    Progress,
    Report,
    ReportTable,
    Results,
)
from cdc_assets.operations.options import Options
from cdc_assets.operations.running import Runner, Say
from cdc_assets.operations.session import Host, SourceCheck
from cdc_assets.orchestration.checks import ERROR
from cdc_assets.orchestration.keys import table_key
from cdc_assets.orchestration.manual_jobs import config_of, manual_job
from cdc_assets.orchestration.matching import compared, verdict_of
from cdc_assets.orchestration.other_runs import OtherRuns
from cdc_assets.orchestration.resources import ReplicationSpark, spark_resource
from cdc_assets.reference import explained
from cdc_assets.registry import Registry, TableEntry

if TYPE_CHECKING:
    from cdc_assets.merge.verifying.report import ComparisonReport


def operation_job(
    operation: AnyOperation,
) -> Callable[[ReplicationConfig, Registry], dg.JobDefinition]:
    """Returns a function that makes the operation's job for a configuration."""
    job, wish = operation.job, config_of(operation.options)
    if job is None:
        msg = f"{operation.name} has no job"
        raise ValueError(msg)

    def make(replication: ReplicationConfig, _: Registry) -> dg.JobDefinition:
        def body(context: dg.OpExecutionContext, config: wish) -> None:  # pyright: ignore[reportInvalidTypeForm]
            _run_in_job(operation, context, replication, config.model_dump())

        body.__name__ = job.op
        return manual_job(replication, job.name, body, mode=job.mode, about=job.about)

    return make


def _run_in_job(
    operation: AnyOperation,
    context: dg.OpExecutionContext,
    config: ReplicationConfig,
    given: Mapping[str, Any],
) -> None:
    """Runs an operation in a job's op.

    Raises:
        dagster.Failure: if a table failed, or is not as was asked for.
    """
    services, spark = Services(config), spark_resource(config)

    def on_report(report: Report) -> None:
        lines = report.lines if report.log_lines is None else report.log_lines
        for line in () if operation.is_look else lines:
            context.log.info(line)
        for each in report.observations:
            context.log_event(observation(config, each))

    def on_compared(entry: TableEntry, found: "ComparisonReport") -> None:
        evaluation = verdict_of(table_key(config, entry), found).evaluation()
        context.instance.report_runless_asset_event(evaluation)

    runs = OtherRuns(config, context.instance, context.run_id)
    host = Host(
        context.run_id,
        spark.session,
        spark.forget,
        job=context.job_name,
        hand_over=runs.hand_over,
        require_runs_seen=runs.require_seen,
        wait_for_runs=runs.wait,
        on_compared=on_compared,
        check_source=checks_of(services, spark, context.instance),
    )
    try:
        options = _options(operation, given)
        runner = Runner(services, host, sayer(context), on_report)
        results = runner.run(operation, options)
    except Exception as error:  # Dagster would store the texts of others, which may quote rows
        table = given.get("table")
        what = f"{table}: {explained(error)}" if table else explained(error)
        raise dg.Failure(what, allow_retries=False) from None
    finally:
        spark.forget()
    _require_done(results)


def _options(operation: AnyOperation, given: Mapping[str, Any]) -> Options:
    try:
        return operation.options(**given)
    except ValidationError as error:
        wrong = "; ".join(f"{each['loc'][0]}: {each['msg']}" for each in error.errors())
        raise ConfigError(wrong, where=f"config of {operation.name}") from None


def _require_done(results: Results) -> None:
    unmet = {name: each.failure for name, each in results.reports.items() if each.failure}
    if failed := {**results.failed, **unmet}:
        text = "; ".join(f"{table}: {why}" for table, why in failed.items())
        raise dg.Failure(text, allow_retries=False)


def sayer(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> Say:
    """Returns a function that writes progress into the run's log."""

    def say(progress: Progress) -> None:
        write = context.log.warning if progress.is_warning else context.log.info
        write(progress.words)

    return say


def observation(config: ReplicationConfig, said: Observation) -> dg.AssetObservation:
    """Returns an observation as Dagster's."""
    return dg.AssetObservation(
        table_key(config, said.entry),
        description=said.text,
        partition=said.partition,
        metadata=metadata_values(said.metadata),
    )


def metadata_values(metadata: Mapping[str, object]) -> dict[str, Any]:
    """Returns metadata as Dagster's values."""
    return {name: _value(each) for name, each in metadata.items()}


def _value(value: object) -> Any:
    match value:
        case Markdown():
            return dg.MetadataValue.md(str(value))
        case str():
            return dg.MetadataValue.text(value)
        case ReportTable(columns, records, integers):
            schema = dg.TableSchema(
                [dg.TableColumn(each, "int" if each in integers else "string") for each in columns]
            )
            rows = [dg.TableRecord(dict(each)) for each in records]
            return dg.MetadataValue.table(rows, schema=schema)
        case _:
            return value


def checks_of(
    services: Services, spark: ReplicationSpark, instance: dg.DagsterInstance
) -> Callable[[TableEntry, Callable[[str], None]], SourceCheck | None]:
    """Returns a function that compares a table with its source, as `Host.check_source` says.

    The instance receives the result as the table's check, which belongs to no run.
    """

    def check(entry: TableEntry, say: Callable[[str], None]) -> SourceCheck | None:
        if not is_comparable(services.config, entry):
            return None
        verdict = compared(services, entry, spark, f"verify-{uuid.uuid4()}", say, merges=True)
        instance.report_runless_asset_event(verdict.evaluation())
        return SourceCheck(verdict.description, verdict.passed or verdict.severity is not ERROR)

    return check
