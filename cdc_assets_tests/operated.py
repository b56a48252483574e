"""Operations on one table, in the test's process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.services import Services
from cdc_assets.operations.operation import Progress
from cdc_assets.operations.rebuild.operation import REBUILD, RebuildOptions, RebuildOutcome
from cdc_assets.operations.rebuild.table_rebuild import TableRebuild
from cdc_assets.operations.running import Runner
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
