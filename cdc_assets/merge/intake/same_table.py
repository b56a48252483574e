"""Checks that the source's table is still the one from which the lake's rows came.

A table that was dropped and created again, or another one that got its name, sends changes under
the same name, and no deletes for the rows that are gone with the old table. PostgreSQL's catalog
shows it by the table's number, other databases by their statements.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from cdc_assets.changes.numbering import Numbering
from cdc_assets.changes.position import Scheme, encode
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets.lake.at_source import AtSource
from cdc_assets.merge.intake.planning.topics import begin_of
from cdc_assets.merge.intake.source_facts import SourceAnswers
from cdc_assets.merge.intake.unlogged_changes import with_silent_changes
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.plan.table_steps import RememberSource
from cdc_assets.schema.history import Break, OnBreak
from cdc_assets.schema.silent import SilentPolicy

_log = logging.getLogger(__name__)
_BINLOGS: Final = frozenset({Scheme.BINLOG, Scheme.MARIADB})
_PLACED: Final = _BINLOGS | {Scheme.OFFSET, Scheme.TIDB}
"""Schemes in which statements have positions like rows."""

_USUAL: Final = SilentPolicy()

_BY_NUMBER: Final = (
    "the table was dropped and recreated at its source, or its database restored from a dump"
)
_KEEP: Final = "if its rows are the same: cdc-assets accept-restart TABLE, or recreated_table: keep"
_REBUILD: Final = "cdc-assets rebuild TABLE --from-snapshot, then a new snapshot of the table"


class AnotherTableError(TerminalError):
    """The source's table is not the one from which the lake's rows came."""

    page = "recreated-table"


def break_of(plan: BatchPlan, answers: SourceAnswers) -> Break | None:
    """Returns the table's break since the last look; None without a break.

    A break before the first look is ignored, unless the first batch is still to come and reads
    all that the log holds, or the statements are among the table's rows, and so in this batch.
    """
    said = AtSource.of(plan.state, plan.entry.shard_value)
    identity = answers.identity(plan.entry)
    broken = answers.history.broken if answers.history else None
    if identity is None or identity == said.identity:
        return None
    if said.identity is None:
        reads_all = plan.published is None and begin_of(plan.state) is None
        is_now = answers.history is not None and answers.history.topic == plan.identity.topic_id
        return broken if reads_all or is_now else None
    return broken or Break(identity, f"{_BY_NUMBER} ({said.identity} before, {identity} now)")


def with_source_table(
    plan: BatchPlan, answers: SourceAnswers, policy: OnBreak, silent: SilentPolicy = _USUAL
) -> BatchPlan:
    """Adds to the plan the source table's state to store, and the end of older rows.

    A database that does not answer is asked by the next batch.

    Args:
        plan: of the log and the lake, with the numbering of its positions.
        answers: answers about the source's table.
        policy: for another table of the same name.
        silent: for rows that changed without events.

    Raises:
        AnotherTableError: if it is another one, and nothing decides about the older rows.
        SilentChangeError: if rows of it changed without events, and the policy stops there.
    """
    said = AtSource.of(plan.state, plan.entry.shard_value)
    try:
        identity = answers.identity(plan.entry)
    except UnreachableError:  # records that carry their schema can be merged without it
        _log.warning("table=%s: its database does not answer", plan.entry.table)
        return plan
    found, barrier = break_of(plan, answers), said.barrier
    if found is not None and policy is not OnBreak.KEEP:
        place = _position(plan, found)
        is_scattered = plan.layout.scheme is Scheme.OFFSET and plan.partitions > 1
        has_rows = plan.published is not None and not plan.is_empty
        if not has_rows and is_scattered:
            _log.warning(
                "table=%s: %s: nothing tells which rows are older", plan.entry.table, found.why
            )
        elif not place or (policy is OnBreak.STOP and has_rows):
            raise _another(plan, found, may_truncate=bool(place))
        barrier = max(barrier, place)
    if plan.shadow is not None and barrier > plan.begins_after:  # read rows may be of either
        raise _another(plan, found or Break("", _BY_NUMBER), may_truncate=False)
    identity = said.identity if identity is None else identity
    now = replace(said, identity=identity, history=answers.history, barrier=barrier)
    now = with_silent_changes(plan, said, now, answers, silent)
    steps = plan.steps
    if now.is_to_follow(said):
        steps = (*steps, RememberSource(now.to_properties(plan.entry.shard_value)))
    return replace(plan, steps=steps, barrier=barrier)


def _position(plan: BatchPlan, found: Break) -> str:
    """Returns the first possible position of the new table, hexadecimal; empty if unknown.

    Once the numbering of files has begun again, a statement's numbering is unknown.
    """
    scheme = plan.layout.scheme
    if found.place is None or scheme not in _PLACED:
        return ""
    if scheme is Scheme.OFFSET and plan.partitions > 1:  # changes of others have no order with it
        return ""
    if scheme in _BINLOGS and Numbering.from_json(plan.numbering).begins:
        return ""
    numbers = [*found.place, 0, 0]
    return encode(numbers[: scheme.numbers]).hex().upper()


def _another(plan: BatchPlan, found: Break, *, may_truncate: bool) -> AnotherTableError:
    ways = [_KEEP, f"else: {_REBUILD}"]
    if may_truncate:
        ways.insert(1, "if older rows are gone with the old table: recreated_table: truncate")
    where, remedy = f"table={plan.entry.table}", "; ".join(ways)
    return AnotherTableError(found.why, where=where, remedy=remedy, page=found.page)
