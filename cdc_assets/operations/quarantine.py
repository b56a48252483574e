"""Defines the operation `quarantine replay`: merges quarantined records again, table by table.

The records' bytes are those in the quarantine table. Runs that merge into the same tables are asked
to wait meanwhile; a publish that loses against another writer's is retried at the new head, as
everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import click
from pydantic import Field

from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import Coordinate
from cdc_assets.errors import ConfigError
from cdc_assets.operate import rebuilds
from cdc_assets.operate.quarantine import QuarantineScope, entries_in
from cdc_assets.operate.services import Services
from cdc_assets.operations.operation import Operation, Progress, Report
from cdc_assets.operations.options import Cli, Options
from cdc_assets.operations.session import TableSession
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake import Looked
    from cdc_assets.merge.plan.result import QuarantineReplay

_PLACE: Final = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")

_UNREAD: Final = "not passed yet by the table's offsets; the next run reads it"
_FOREIGN: Final = "of a topic that the table no longer has; it stays"
_BEFORE: Final = (
    "from before the table's beginning, so that its rows have it or it is another's; it was removed"
)


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """The place of a record within a known topic."""

    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> RecordPlace:
        """Parses ``PARTITION:OFFSET``.

        Raises:
            ConfigError: if the text has another form.
        """
        found = _PLACE.fullmatch(text)
        if found is None:
            msg = f"{text!r} is not a partition and an offset"
            raise ConfigError(msg, remedy="write 0:1234, for example")
        return cls(int(found[1]), int(found[2]))


class QuarantineReplayOptions(Options):
    """The options of `quarantine replay`."""

    source: str | None = Field(default=None, description="Only records of this source.")
    table: str | None = Field(
        default=None, description="Only records of this table: [source.][schema.]table."
    )
    offsets: Annotated[list[str], Cli("--offset")] = Field(
        default=[],
        description="Only this record of --table: PARTITION:OFFSET. Repeatable.",
    )
    accept_overtaken: bool = Field(
        default=False,
        description="Also release records with newer changes that may be partial.",
    )

    @property
    def places(self) -> list[RecordPlace]:
        """The places of the selected records; empty for all records.

        Raises:
            ConfigError: if an offset has another form.
        """
        return [RecordPlace.parse(each) for each in self.offsets]

    def entries(self, services: Services) -> Sequence[TableEntry]:
        """Returns the selected tables that have records in quarantine."""
        return entries_in_quarantine(services, QuarantineScope(self.source, self.table))


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The records to merge again.

    Attributes:
        entry: the table.
        chosen: the coordinates of the records; None for all records of the table.
    """

    entry: TableEntry
    chosen: tuple[Coordinate, ...] | None

    def lines(self) -> Sequence[str]:
        """Returns the plan for people."""
        records = "all records" if self.chosen is None else ", ".join(map(str, self.chosen))
        return [f"{self.entry.table}: would merge again: {records}"]

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan for ``--json``."""
        return {"table": str(self.entry.table), "records": self.chosen and _dicts(self.chosen)}


@dataclass(frozen=True, slots=True)
class Replayed:
    """The results for a table's records.

    Attributes:
        table: the table.
        merged, overtaken: the numbers of records that left the quarantine.
        rejected: those that did not leave it, with the reason.
        absent: the requested ones that are not in quarantine.
        unread: those that the table's offsets have not passed.
        foreign: those of another topic than the table's present one.
        before: those from before the table's beginning, which left the quarantine, too.
    """

    table: TableName
    merged: int = 0
    overtaken: int = 0
    rejected: tuple[tuple[Coordinate, str], ...] = ()
    absent: tuple[Coordinate, ...] = ()
    unread: tuple[Coordinate, ...] = ()
    foreign: tuple[Coordinate, ...] = ()
    before: tuple[Coordinate, ...] = ()

    @classmethod
    def of(
        cls, table: TableName, chosen: Sequence[Coordinate] | None, done: QuarantineReplay | None
    ) -> Replayed:
        """Builds the results from the requested records and the replay's outcome."""
        if done is None:
            return cls(table, absent=tuple(chosen or ()))
        rejected = tuple(coordinate for coordinate, _ in done.rejected)
        left = done.unread, done.foreign, done.before
        found = {*done.merged, *done.overtaken, *rejected, *(at for some in left for at in some)}
        absent = tuple(each for each in chosen or () if each not in found)
        numbers = len(done.merged), len(done.overtaken)
        return cls(table, *numbers, done.rejected, absent, *left)

    def lines(self) -> list[str]:
        """Returns the results for people, and why any records were rejected again."""
        counts = f"{self.merged:,} merged, {self.overtaken:,} overtaken by newer changes"
        lines = [f"{self.table}: {counts}, {len(self.rejected):,} rejected again"]
        for coordinate, reason in self.rejected:
            lines.append(click.style(f"  {coordinate}: ", fg="red", bold=True) + reason)
        words = {_UNREAD: self.unread, _FOREIGN: self.foreign, _BEFORE: self.before,
                 "not in quarantine": self.absent}  # fmt: skip
        return lines + [f"  {each}: {why}" for why, some in words.items() for each in some]

    def to_dict(self) -> dict[str, Any]:
        """Returns the results for ``--json``."""
        rejected = [{**_dict(coordinate), "reason": reason} for coordinate, reason in self.rejected]
        return {
            "table": str(self.table),
            "merged": self.merged,
            "overtaken": self.overtaken,
            "rejected": rejected,
            "absent": _dicts(self.absent),
            "unread": _dicts(self.unread),
            "foreign": _dicts(self.foreign),
            "before": _dicts(self.before),
        }


class ReplayQuarantine(Operation[QuarantineReplayOptions, ReplayPlan]):
    """Merge quarantined records again, after the cause of their rejection was corrected.

    Merged records leave the quarantine. So do records whose rows had newer changes, unless these
    changes may be partial.
    """

    name = "replay"
    options = QuarantineReplayOptions
    is_observed = False
    if_empty = "Nothing is in quarantine."

    def check(self, options: QuarantineReplayOptions) -> None:
        """Refuses offsets without a table, and offsets of another form."""
        if options.places and options.table is None:
            msg = "--offset belongs to one table"
            raise ConfigError(msg, remedy="name it with --table")

    def plan(self, session: TableSession, options: QuarantineReplayOptions) -> ReplayPlan:
        """Selects the records.

        Raises:
            TerminalError: if a rebuild of the table is under way: the new table may lack the
                records that would be merged into the old one and leave the quarantine.
        """
        entry = session.entry
        rebuilds.require_none(session.services, entry.table, "replay")
        places = options.places
        chosen = [Coordinate(entry.topic, each.partition, each.offset) for each in places]
        return ReplayPlan(entry, tuple(chosen) or None)

    def steps(
        self, session: TableSession, options: QuarantineReplayOptions, plan: ReplayPlan
    ) -> Iterator[Progress | Report]:
        """Merges the records, and stores the new reasons of those that are rejected again."""
        entry = session.entry
        with session.lease.hold():
            done = session.replicator.replay_quarantined(
                entry,
                plan.chosen,
                run_id=session.host.recorded("quarantine"),
                accept_overtaken=options.accept_overtaken,
                before_removal=partial(
                    rebuilds.require_none, session.services, entry.table, "replay"
                ),
            )
        found = Replayed.of(entry.table, plan.chosen, done)
        failure = ""
        if done is not None and done.rejected:
            _restate(session, done)
            failure = f"rejected again: {len(done.rejected)}"
        yield Report(found.to_dict(), tuple(found.lines()), failure)


def _restate(session: TableSession, done: QuarantineReplay) -> None:
    from cdc_assets.merge.statements.failures import translated
    from cdc_assets.merge.tables.quarantine import Quarantine

    table, catalog = session.entry.table, session.config.lake.catalog.name
    with translated("restate reasons", f"table={table}"):
        quarantine = Quarantine(session.spark(), catalog, table.source)
        quarantine.restate(table, done.topic_id, done.rejected)


def entries_in_quarantine(services: Services, scope: QuarantineScope) -> tuple[TableEntry, ...]:
    """Returns the tables that have records in quarantine, or whose publish says so.

    The latter may have no records any more: these are to be counted again.

    Raises:
        TerminalError: if the source or the table is not replicated.
        UnreachableError: if the registry or the lake does not answer.
    """
    from cdc_assets.lake.quarantined import QuarantineLake

    lake, entries = QuarantineLake(services.config), entries_in(services, scope)
    sources = sorted({entry.table.source for entry in entries})
    there = {source: lake.tables_in_quarantine(source) for source in sources}
    looked = lake.find_states([(entry.target, entry.shard_value) for entry in entries])
    return tuple(
        entry
        for entry, found in zip(entries, looked, strict=True)
        if entry.table.qualified in there[entry.table.source] or _says_so(found)
    )


def _says_so(found: Looked) -> bool:
    """Returns whether a table's newest publish counts records; one that is unreadable does not."""
    from cdc_assets.lake import TableState

    published = found.published if isinstance(found, TableState) else None
    return published is not None and published.counts.get("quarantined", 0) > 0


def _dicts(coordinates: Sequence[Coordinate]) -> list[dict[str, Any]]:
    return [_dict(each) for each in coordinates]


def _dict(at: Coordinate) -> dict[str, Any]:
    return {"topic": at.topic, "partition": at.partition, "offset": at.offset}


REPLAY_QUARANTINE: Final = ReplayQuarantine()
