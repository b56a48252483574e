"""Reads what the checks of tables last found, for alerts.

The checks were evaluated by runs and by the sensor `replication_slo`; nothing is judged here. An
evaluation that could not look, and a check that is under way, say nothing about the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from cdc_assets.changes.alerting import Kind
from cdc_assets.config import ReplicationConfig
from cdc_assets.operate.findings import Checked
from cdc_assets.orchestration.keys import CHECK_MATCHES, CHECK_OFFSETS, table_key
from cdc_assets.registry import TableEntry

_AT_ONCE: Final = 500
_BEFORE: Final = 10
"""How many evaluations are searched for one that could tell, where the newest could not."""

Outcome = tuple[bool | None, str]

_KINDS: Final = {CHECK_OFFSETS: Kind.OFFSETS_GAP, CHECK_MATCHES: Kind.ROWS_DIFFER}


def checked(
    config: ReplicationConfig, entries: Sequence[TableEntry], instance: dg.DagsterInstance
) -> tuple[Checked, ...]:
    """Returns the last outcomes of the checks that have an alert; none of one never evaluated."""
    keys = {
        dg.AssetCheckKey(table_key(config, entry), check): (entry, kind)
        for entry in entries
        for check, kind in _KINDS.items()
    }
    return tuple(
        Checked(kind, entry.table, is_red, words)
        for key, (is_red, words) in _newest(instance, list(keys))
        for entry, kind in [keys[key]]
    )


def _newest(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey]
) -> Iterator[tuple[dg.AssetCheckKey, Outcome]]:
    """Yields the newest outcome of each check that has one, if possible one that could tell."""
    storage = instance.event_log_storage
    for start in range(0, len(keys), _AT_ONCE):
        found = storage.get_latest_asset_check_execution_by_key(keys[start : start + _AT_ONCE])
        for key, record in found.items():
            outcome = _outcome(record)
            if outcome[0] is None:
                before = storage.get_asset_check_execution_history(key, limit=_BEFORE)
                outcome = next(
                    (each for each in map(_outcome, before) if each[0] is not None), outcome
                )
            yield key, outcome


def _outcome(record: AssetCheckExecutionRecord) -> Outcome:
    """Returns whether a check was red and its words; None for one that is under way, too."""
    event = record.event.dagster_event if record.event else None
    found = event.event_specific_data if event else None
    if not isinstance(found, dg.AssetCheckEvaluation):
        return None, ""
    return _is_red(found), found.description or ""


def _is_red(found: dg.AssetCheckEvaluation) -> bool | None:
    """Returns whether a check found what it looks for; None if it says that it could not tell."""
    said = {name: each.value for name, each in found.metadata.items()}
    if found.check_name == CHECK_OFFSETS:
        return _count(said, "gaps")
    if said.get("compared") is not True:
        return None
    if found.passed:
        return False
    return True if found.severity is dg.AssetCheckSeverity.ERROR else None


def _count(said: Mapping[str, object], name: str) -> bool | None:
    count = said.get(name)
    return count > 0 if isinstance(count, int) else None
