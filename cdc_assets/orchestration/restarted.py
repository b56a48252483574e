"""Runs `cdc-assets accept-restart`, by which a person permits following a restarted source."""

from __future__ import annotations

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.discovery import find_table
from cdc_assets.operate.restarts import restart_words
from cdc_assets.operate.services import Services
from cdc_assets.orchestration.resources import spark_resource


def run_accept_restart(config: ReplicationConfig, table: str, *, dry_run: bool) -> str:
    """Finds what stops the table, and records that it is accepted.

    That is another table of its name, a restart of the numbering, rows that changed without events,
    or several of these. It can be repeated: the
    permission names the restart, and is used up by the first batch that is merged across it. Merges
    nothing itself.

    Args:
        config: the configuration.
        table: the table's name, as `find_table` reads it.
        dry_run: whether to record nothing.

    Returns:
        The findings and the result, for people.

    Raises:
        CdcError: if there is no such table, or a part does not answer.
    """
    services = Services(config)
    entry = find_table(config, services.registry.load(), table)
    spark = spark_resource(config)
    try:
        from cdc_assets.merge.accepting import RestartDesk

        desk = RestartDesk(config, spark.session, clock=services.clock)
        another, found = desk.another_table(entry), desk.restart(entry)
        if another is not None and not dry_run:
            desk.accept_table(entry)
        if found is not None and not dry_run:
            desk.accept(entry, found)
        silent = desk.silent(entry)
        if silent and not dry_run:
            desk.accept_silent(entry, silent)
        told = [*([another.why] if another else []), *([found.text] if found else [])]
        told += [each.why for each in silent]
        return restart_words(entry.table, told, dry_run=dry_run)
    finally:
        spark.forget()
