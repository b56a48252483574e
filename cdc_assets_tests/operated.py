"""Operations on one table, in the test's process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import message_of
from cdc_assets.merge.verifying.report import ComparisonReport
from cdc_assets.operate.services import Services
from cdc_assets.operations import verify
from cdc_assets.operations.command import AnyOperation
from cdc_assets.operations.operation import Progress
from cdc_assets.operations.options import Options
from cdc_assets.operations.rebuild.operation import REBUILD, RebuildOptions, RebuildOutcome
from cdc_assets.operations.rebuild.table_rebuild import TableRebuild
from cdc_assets.operations.running import Runner, carried_out
from cdc_assets.operations.session import Host, TableSession
from cdc_assets.orchestration.operation_console import open_console
from cdc_assets.registry import TableEntry
from cdc_assets_tests.pipeline import Session


def session_of(
    config: ReplicationConfig, entry: TableEntry, spark: Session, run_id: str = "test"
) -> TableSession:
    """The session of one table."""
    return TableSession(Services(config), [entry], Host(run_id, spark))


def rebuild_of(
    config: ReplicationConfig, spark: Session, entry: TableEntry, run_id: str = "test"
) -> TableRebuild:
    """The steps of a table's rebuild, by one process."""
    return TableRebuild(session_of(config, entry, spark, run_id))


def run_rebuild(
    config: ReplicationConfig, table: str, say: Callable[[str], None] = click.echo, **options: Any
) -> RebuildOutcome:
    """What the command does in its process; ``say`` is given the words behind the table's name."""

    def heard(progress: Progress) -> None:
        say(progress.words.removeprefix(f"{table}: "))

    services, wish = Services(config), RebuildOptions(table=table, **options)
    with open_console(services) as console:
        results = Runner(services, console.host, heard).run(REBUILD, wish)
    (report,) = results.reports.values()
    (entry,) = wish.entries(services)
    return RebuildOutcome(**{**report.document, "table": entry.table})


@dataclass
class Steered:
    """The document of one table, or why it failed."""

    done: Sequence[dict[str, Any]] = ()
    failed: Sequence[str] = ()


def steered(
    operation: AnyOperation,
    options: Options,
    session: TableSession,
    say: Callable[[Progress], None] = lambda _: None,
) -> Steered:
    """Carry an operation out on one table."""
    try:
        report = carried_out(operation, options, session, say)
    except Exception as error:
        return Steered(failed=[message_of(error)])
    return Steered([dict(report.document)])


def verified(
    config: ReplicationConfig, entry: TableEntry, spark: Session, *, repair: bool = False
) -> ComparisonReport:
    """Compare a table with its source."""
    return verify.verified(session_of(config, entry, spark), repair=repair)
