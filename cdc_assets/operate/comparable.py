"""Tells which tables can be compared with their sources, and why others cannot."""

from __future__ import annotations

from typing import Final

from cdc_assets.changes.mode import Mode
from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.services import Services
from cdc_assets.operate.states import held_words
from cdc_assets.registry import TableEntry

NOT_COMPARED: Final = "not compared: "
"""Begins the words of a table that was not compared, before the reason."""


def is_comparable(config: ReplicationConfig, entry: TableEntry) -> bool:
    """Returns whether a table's source has a configured database, and the lake holds its rows."""
    return not _never(config, entry)


def is_repairable(config: ReplicationConfig, entry: TableEntry) -> bool:
    """Returns whether differences can be put right; nothing tells since when a history differs."""
    return config.source(entry.table.source).mode_of(entry.table) is not Mode.HISTORY


def rests(services: Services, entry: TableEntry) -> str:
    """Says why there is nothing to compare, where that is no problem; empty if there is."""
    if words := _never(services.config, entry):
        return words
    if words := held_words(entry.table, services.desired.of(entry.table)):
        return words
    if entry.dropped is not None:
        return "the source no longer has the table"
    if services.lake.state(entry.target, entry.shard_value) is None:
        return "nothing of it was merged yet"
    return ""


def _never(config: ReplicationConfig, entry: TableEntry) -> str:
    source = config.source(entry.table.source)
    if source.mode_of(entry.table) is Mode.CHANGELOG:
        return "a changelog holds the source's changes, not its rows"
    if source.database is None:
        return f"no database is named that could be asked: sources.{entry.table.source}.database"
    return ""
