"""Defines the operations `drop` and `reset`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from pydantic import Field

from cdc_assets.desired import Directive, DirectiveNote, Removal
from cdc_assets.operations.drop.removal import (
    remains,
    removed,
    require_beginning,
    require_own,
)
from cdc_assets.operations.operation import Job, Progress, Report
from cdc_assets.operations.options import NamedTables, Planned
from cdc_assets.operations.session import Host, TableSession
from cdc_assets.operations.steering import (
    MODE,
    DirectiveOperation,
    DirectivePlan,
    Reasoned,
)
from cdc_assets.registry import TableEntry


class ResetOptions(NamedTables, Reasoned, Planned):
    """The options of `reset`, which is never meant for all tables at once."""


class DropOptions(ResetOptions):
    """The options of `drop`."""

    lake: bool = Field(default=False, description="Also remove the tables from the catalog.")


@dataclass(frozen=True, slots=True)
class RemovalPlan(DirectivePlan):
    """The plan of a drop or a reset.

    Attributes:
        known: the directive of an earlier run of the same command; None if there is none.
        end: the result for people who were shown the removed parts as progress; empty for `words`.
    """

    known: DirectiveNote | None = None
    end: str = ""

    def directive(self, session: TableSession, command: str, why: str) -> DirectiveNote:
        """Returns the directive to store: the earlier one, or a new one."""
        by = session.host.author(f"cdc-assets {command}")
        return self.known or DirectiveNote(session.clock(), by, why)

    def report(self) -> Report:
        """Returns the report, whose lines do not repeat the progress."""
        line = f"{self.entry.table}: {self.end or self.words}"
        return replace(DirectivePlan.report(self), lines=(line,))


class Drop(DirectiveOperation[DropOptions, RemovalPlan]):
    """End the replication of tables. The lake keeps them, unless --lake is given.

    With --lake it lists, then removes, the lake table, its side tables and its quarantined records.
    Files stay. Can be interrupted and rerun.
    """

    name = "drop"
    options = DropOptions
    job = Job("drop_tables", "drop", MODE, "End the replication of tables.")

    def prepare(self, host: Host, options: DropOptions) -> Iterator[Progress]:
        """Requires that no unseen run is at work, before anything is removed."""
        if options.lake:
            yield from map(Progress, host.require_runs_seen())

    def plan(self, session: TableSession, options: DropOptions) -> RemovalPlan:
        """Reads whether the table is dropped already, and the table's parts in the lake.

        Raises:
            TerminalError: if rows of other tables would be removed, too.
        """
        services, entry = session.services, session.entry
        known = services.desired.of(entry.table).dropped
        if not options.lake:
            return _without_lake(entry, known)
        require_own(entry, "drop --lake")
        found = remains(services, entry)
        end = "nothing is merged into it any more"
        words = f"{end}; {found.words()}"
        if known is not None and known.removal is Removal.DONE and found.is_nothing:
            already = f"is dropped already: {words}"
            return RemovalPlan(entry, already, already, changes=False)
        dropped, end = f"dropped: {words}", f"dropped: {end}"
        would = f"would be {dropped}"
        return RemovalPlan(entry, dropped, would, changes=True, known=known, end=end)

    def changed(
        self, session: TableSession, options: DropOptions, plan: RemovalPlan
    ) -> Iterator[Progress]:
        """Stores the directive and, with `lake`, removes the table from the lake."""
        services, table = session.services, session.entry.table
        if not options.lake:
            services.desired.put(
                table, Directive.DROPPED, plan.directive(session, "drop", options.why)
            )
            return
        wanted = plan.directive(session, "drop --lake", options.why)
        yield from removed(session, Directive.DROPPED, wanted)
        services.desired.put(table, Directive.DROPPED, replace(wanted, removal=Removal.DONE))  # 7.
        services.failures.clear(table)


class Reset(DirectiveOperation[ResetOptions, RemovalPlan]):
    """Remove tables from the lake, and merge all of their logs again.

    Readers find no table until the first batch, and not all rows until the last: `rebuild` avoids
    that. Refused if the log has lost its beginning. Can be interrupted and rerun.
    """

    name = "reset"
    options = ResetOptions
    job = Job(
        "reset_tables", "reset", MODE,
        "Remove tables from the lake, and merge all of their logs again.",
    )  # fmt: skip

    def prepare(self, host: Host, options: ResetOptions) -> Iterator[Progress]:
        """Requires that no unseen run is at work, before anything is removed."""
        yield from map(Progress, host.require_runs_seen())

    def plan(self, session: TableSession, options: ResetOptions) -> RemovalPlan:
        """Reads the table's parts in the lake.

        Raises:
            TerminalError: if rows of other tables would be removed, too, or the table cannot be
                merged again from its log.
        """
        services, entry = session.services, session.entry
        known = services.desired.of(entry.table).reset
        if known is None or known.removal is Removal.NONE:
            require_own(entry, "reset")
            require_beginning(services, entry)
        found = remains(services, entry).words()
        end = "its log is merged again from now on"
        return RemovalPlan(
            entry,
            f"reset: {found}; {end}",
            f"would be: {found}; then its log is merged again",
            changes=True,
            known=known,
            end=f"reset: {end}",
        )

    def changed(
        self, session: TableSession, options: ResetOptions, plan: RemovalPlan
    ) -> Iterator[Progress]:
        """Removes the table from the lake; its log is merged again once the directive is gone."""
        services, table = session.services, session.entry.table
        wanted = plan.directive(session, "reset", options.why)
        yield from removed(session, Directive.RESET, wanted)
        services.failures.clear(table)  # 7.
        services.desired.remove(table, Directive.RESET)


def _without_lake(entry: TableEntry, known: DirectiveNote | None) -> RemovalPlan:
    if known is not None:
        already = f"is dropped already, {known.words()}"
        return RemovalPlan(entry, already, already, changes=False)
    words = f"dropped: nothing is merged into it any more; the lake keeps {entry.target}"
    return RemovalPlan(entry, words, f"would be {words}", changes=True)


DROP: Final = Drop()
RESET: Final = Reset()
