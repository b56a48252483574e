"""Remembers rows that changed at the source without events, and stops a table because of them.

Which changes those are, and what becomes of them: `cdc_assets.schema.silent`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from cdc_assets.config import SourceConfig
from cdc_assets.databases.catalog import catalog_of
from cdc_assets.errors import SilentChangeError, UnreachableError
from cdc_assets.lake.at_source import AtSource
from cdc_assets.merge.intake.asked import Asked
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.registry import TableEntry
from cdc_assets.schema.silent import (
    Look,
    SilentChange,
    SilentPolicy,
    remedy_of,
    remembered,
)

_log = logging.getLogger(__name__)


def heard(
    plan: BatchPlan, said: AtSource, now: AtSource, asked: Asked, policy: SilentPolicy
) -> AtSource:
    """Returns the state to remember, with the silent changes that a look at the source shows.

    Args:
        plan: of the batch.
        said: the state before.
        now: the state to remember otherwise.
        asked: answers about the source's table.
        policy: for these changes.

    Raises:
        SilentChangeError: if the policy stops at one of them.
    """
    entry = plan.entry
    look, found = _found(entry, said, now, asked)
    if found is not None:
        truncated = plan.published.carried.max_truncate if plan.published else ""
        silent = policy.heeded(remembered(said.silent, found, asked.at, truncated))
        now = replace(now, look=look.after(said.look) if look else now.look, silent=silent)
    stopping = [each for each in now.silent if policy.stops(each)]
    if stopping:
        raise _stopped(entry, said, now, stopping)
    for each in now.silent:
        if each.id not in {known.id for known in said.silent}:
            _log.warning("table=%s is in doubt: %s", entry.table, each.why)
    return now


def look_at(source: SourceConfig, entry: TableEntry) -> Look | None:
    """Returns a look at a table in its database's catalog; None if there is none, or no table.

    Raises:
        CdcError: if the database does not answer.
    """
    if source.database is None:
        return None
    found = catalog_of(source.database).read([entry.at_source]).get(entry.at_source)
    return found.look if found is not None else None


def _found(
    entry: TableEntry, said: AtSource, now: AtSource, asked: Asked
) -> tuple[Look | None, Sequence[SilentChange] | None]:
    """Returns the look, and the silent changes since the one before; None if nobody answers."""
    try:
        table = asked.table(entry)
    except UnreachableError:
        return None, None
    if table is None:
        return None, None
    is_same = said.identity is None or now.identity == said.identity
    found = table.silent_since(said.look if is_same else None, asked.publication)
    return table.look, found


def _stopped(
    entry: TableEntry, said: AtSource, now: AtSource, stopping: Sequence[SilentChange]
) -> SilentChangeError:
    learned = replace(said, look=now.look, silent=now.silent)
    is_new = learned.is_to_follow(said)
    return SilentChangeError(
        "; ".join(each.why for each in stopping),
        where=f"table={entry.table} topic={entry.topic}",
        remedy=remedy_of(stopping[0], str(entry.table)),
        learned=learned.to_properties(entry.shard_value) if is_new else {},
    )
