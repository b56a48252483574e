"""Prints what the next batches would do, for `cdc-assets plan`."""

from __future__ import annotations

from rich.console import Console

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError
from cdc_assets.operate.discovery import find_table, replicated, why_no_tables
from cdc_assets.operate.services import Services
from cdc_assets.operate.states import reading_words
from cdc_assets.operate.survey import survey
from cdc_assets.orchestration.command_work import Failed, unread
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.reference import explained


def run_plan(config: ReplicationConfig, table: str | None) -> Failed:
    """Prints the plan of each table's next batch; changes nothing.

    Returns:
        The tables that could not be planned, with the reason.

    Raises:
        CdcError: if a part that all tables need does not answer, or nothing is selected.
    """
    from cdc_assets.merge import Replicator

    services = Services(config)
    registry = services.registry.load()
    entries = [find_table(config, registry, table)] if table else replicated(config, registry)
    if not entries:
        raise why_no_tables(services)
    seen = survey(services, entries, ages=False).answered()  # once, not by each table in turn
    spark, failed = spark_resource(config), unread(seen.tables)
    to_read = {each.table: each.reading for each in seen.tables if each.reading is not None}
    replicator, out = Replicator(config, spark.session, clock=services.clock), Console()
    try:
        for entry in (each for each in entries if each.table not in failed):
            if (reading := to_read.get(entry.table)) is not None:
                text = f"to be read into {entry.target}: {reading_words(reading)}"
                out.print(f"{entry.table}: {text}", highlight=False, markup=False, soft_wrap=True)
                continue
            try:
                found = replicator.plan(entry)
            except CdcError as error:
                failed[entry.table] = explained(error)
                continue
            text = found.describe() if found else f"nothing to merge of {entry.topic}"
            out.print(f"{entry.table}: {text}", highlight=False, markup=False, soft_wrap=True)
    finally:
        spark.forget()
    return failed
