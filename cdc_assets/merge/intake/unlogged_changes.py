"""Remembers rows that changed at the source without events, and stops a table because of them.

Which changes those are, and what becomes of them: `cdc_assets.schema.silent`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from cdc_assets.changes.position import Scheme
from cdc_assets.config import SourceConfig
from cdc_assets.databases.kinds import catalog_of
from cdc_assets.databases.mysql.type_text import holds_type, widest
from cdc_assets.errors import SilentChangeError, UnreachableError
from cdc_assets.lake.at_source import AtSource
from cdc_assets.merge.intake.planning.topics import begin_of
from cdc_assets.merge.intake.source_facts import SourceAnswers
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.registry import TableEntry
from cdc_assets.schema.history import Retyped, StatementHistory
from cdc_assets.schema.silent import (
    CatalogLook,
    SilentChange,
    SilentPolicy,
    remedy_of,
    remembered,
)
from cdc_assets.schema.types import TableSchema

_log = logging.getLogger(__name__)


def with_silent_changes(
    plan: BatchPlan, said: AtSource, now: AtSource, answers: SourceAnswers, policy: SilentPolicy
) -> AtSource:
    """Returns the state to remember, with the silent changes that a look at the source shows.

    Args:
        plan: of the batch.
        said: the state before.
        now: the state to remember otherwise.
        answers: answers about the source's table.
        policy: for these changes.

    Raises:
        SilentChangeError: if the policy stops at one of them.
    """
    entry = plan.entry
    look, found = _changes_since(plan, said, now, answers)
    if found is not None:
        truncated = plan.published.carried.max_truncate if plan.published else ""
        silent = policy.heeded(remembered(said.silent, found, answers.at, truncated))
        now = replace(now, look=look.after(said.look) if look else now.look, silent=silent)
    stopping = [each for each in now.silent if policy.stops(each)]
    if stopping:
        raise _stopped(entry, said, now, stopping)
    for each in now.silent:
        if each.id not in {known.id for known in said.silent}:
            _log.warning("table=%s is in doubt: %s", entry.table, each.why)
    return now


def look_at(source: SourceConfig, entry: TableEntry) -> CatalogLook | None:
    """Returns a look at a table in its database's catalog; None if there is none, or no table.

    Raises:
        CdcError: if the database does not answer.
    """
    if source.database is None:
        return None
    found = catalog_of(source.database).read([entry.at_source]).get(entry.at_source)
    return found.look if found is not None else None


def _changes_since(
    plan: BatchPlan, said: AtSource, now: AtSource, answers: SourceAnswers
) -> tuple[CatalogLook | None, Sequence[SilentChange] | None]:
    """Returns the look, and the silent changes since the one before; None if nobody tells any."""
    history, is_same = answers.history, said.identity is None or now.identity == said.identity
    table, standing = None, ()
    try:
        table = answers.table(plan.entry)
    except UnreachableError:  # what stands goes on, as far as anybody knows
        standing = said.standing
    if table is None and history is None and not standing:
        return None, None
    found = [*standing]
    if table is not None:
        found += table.silent_since(said.look if is_same else None, answers.publication)
    if history is not None:
        with_keys = not (table or standing) and plan.layout.scheme is not Scheme.TIDB
        recent = _since_look(plan, said, history)
        found += by_statements(recent, said, plan.schema, with_keys=with_keys)
    return table.look if table is not None else None, found


def _since_look(plan: BatchPlan, said: AtSource, history: StatementHistory) -> StatementHistory:
    """Returns the history without what happened before the first look, if that saw the result.

    A first batch that reads all of the log has the rows from before; and what is among the rows
    is in this batch.
    """
    reads_all = plan.published is None and begin_of(plan.state) is None
    if said.identity is not None or reads_all or history.topic == plan.identity.topic_id:
        return history
    return replace(history, silent=(), retyped=())


def by_statements(
    history: StatementHistory, said: AtSource, table: TableSchema, *, with_keys: bool = False
) -> tuple[SilentChange, ...]:
    """Returns changes of a table's rows without events, as derived from new statements.

    Args:
        history: after the statements, as it was read: they are not stored with it.
        said: the state before.
        table: the lake's columns before.
        with_keys: see `StatementHistory.without_events`.
    """
    return history.without_events(_type_test(history, said, table), with_keys=with_keys)


def _type_test(
    history: StatementHistory, said: AtSource, table: TableSchema
) -> Callable[[Retyped], bool]:
    """Returns whether a new type holds the values of the one before, as far as that is known.

    The lake may have the column by a name from before the statements.
    """
    looked = said.look.columns if said.look else {}
    lake = {column.sent_as.casefold(): column for column in table.of_source.columns}
    numbers = {name.casefold(): number for name, number in history.known.items()}
    former = {name.casefold(): number for name, number in history.former.items()}
    before = {name: column.identity.number for name, column in lake.items()}

    def holds(changed: Retyped) -> bool:
        name = changed.name.casefold()
        number = numbers.get(name, -1)
        names = [n for known in (before, former) for n, each in known.items() if each == number]
        names.append(name)
        declared = (looked[each][1] for each in names if each in looked)
        stored = [widest(lake[each].type) for each in names if each in lake]
        was = next(declared, None) or next(iter(stored), "")
        if not was:  # no column of the lake
            return not stored
        return bool(changed.definition) and holds_type(was, changed.definition)

    return holds


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
