"""Compares one table's columns with the source's newest ones, for ``cdc-assets schema diff``."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.discovery import find_table
from cdc_assets.operate.schema_drift import newest_drift
from cdc_assets.operate.services import Services


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """The lines to print; ``stops``: whether the table would stop, or nothing can be known."""

    lines: tuple[str, ...]
    stops: bool


def schema_diff(config: ReplicationConfig, table: str) -> SchemaDiff:
    """Compares a table's columns; changes nothing.

    Raises:
        TerminalError: if no table has that name, or several do.
        CdcError: if the lake, Kafka or a registry does not answer.
    """
    services = Services(config)
    entry = find_table(config, services.registry.load(), table)
    state = services.lake.state(entry.target, entry.shard_value)
    if state is None:
        return SchemaDiff((f"{entry.table}: not in the lake yet",), stops=False)
    found = newest_drift(services, entry, state)
    head = f"{entry.table} → {entry.target}, against {found.by or 'nothing that tells columns'}:"
    lines = tuple(f"  {line}" for line in found.lines())
    return SchemaDiff((head, *(lines or ("  in sync",))), found.stops or bool(found.untold))
