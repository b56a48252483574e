"""Rewinds a table to an earlier publish: rows, offsets and remembered deletes, in one commit.

1. `TableRewind.plan` reads the lake, the log and the quarantine, and chooses the target. It changes
   nothing, and refuses a rewind after which the log would not give the same rows again.
2. `TableRewind.carry_out` sets ``main`` to the target if nothing was published since that look;
   otherwise it looks again. The replaced snapshot of ``main`` keeps a tag, ``before_rewind_<n>``.
3. If the reply is lost, it looks whether the rewind is done.

After that the table continues by itself: its next batch starts from the offsets of the publish
that it is at, and merges again what has come since. The same holds for everything that a publish
records: the valid snapshot of the side table, the known positions, the columns whose older rows
were filled. Columns that were added to the table since stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cdc_assets.changes.offsets import OffsetRange, OffsetVector, total_length
from cdc_assets.errors import (
    CdcError,
    ConflictError,
    OutcomeUnknownError,
    TerminalError,
    TransientError,
)
from cdc_assets.log.hours import HourWindow
from cdc_assets.operations.rewind.goal import Goal, RewindTarget, chosen, time_words
from cdc_assets.operations.rewind.history import (
    RewoundPublishes,
    TableHistory,
    offsets_dict,
    read_history,
)
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    from cdc_assets.lake.past import Past
    from cdc_assets.operate.services import Services

TRIES: Final = 5
"""How often to look again because others published between the look and the commit."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RewindPlan:
    """The plan of a rewind, as a printable value. Making it changes nothing.

    Attributes:
        entry: the table.
        tables: all tables that go back: this one, or all that are merged into the lake table.
        past: the look at the lake on which the plan is based.
        chosen: the target.
        offsets: the table's offsets at the target.
        committed: the table's committed offsets now.
        again: the ranges of the log that are merged again, up to the committed offsets.
        unread: the ranges to be merged after that, as they would have been anyway.
        taken_back: the number of publishes that are not in ``main`` afterwards.
        records: the number of records that these have merged.
        loses: those of these publishes that merging the log again does not restore.
        columns: the columns added to the table since, which stay.
        quarantined: the number of records in quarantine that are read again.
        hours: the first and the last hourly partition to merge; None if there is none.
    """

    entry: TableEntry
    tables: tuple[TableEntry, ...]
    past: Past
    chosen: RewindTarget
    offsets: OffsetVector
    committed: OffsetVector
    again: tuple[OffsetRange, ...]
    unread: tuple[OffsetRange, ...]
    taken_back: int
    records: int
    loses: tuple[RewoundPublishes, ...]
    columns: tuple[str, ...]
    quarantined: int
    hours: tuple[HourWindow, HourWindow] | None

    @property
    def is_done(self) -> bool:
        """Whether the table is there already."""
        return self.past.is_at(self.chosen.snapshot)

    @property
    def tag(self) -> str:
        """The tag that keeps the replaced snapshot."""
        return self.past.next_tag

    def lines(self) -> list[str]:
        """Returns the plan for people."""
        at = self.chosen.publish
        lines = [
            f"{self.entry.table}: back to snapshot {self.chosen.snapshot} of {self.entry.target}, "
            f"{self.chosen.by}: published {time_words(at.at)} by attempt {at.published.attempt}, "
            f"offsets {self.offsets.to_json()}",
        ]
        if self.is_done:
            return [*lines, "  the table is there already: nothing to do"]
        lines.append(
            f"  takes back {self.taken_back} publishes of {self.records} records, from offsets "
            f"{self.committed.to_json()}"
        )
        lines.append(f"  merges again {_ranges(self.again)}, then {_ranges(self.unread)} unread")
        if self.hours:
            lines.append(f"  of the hours {self.hours[0].key} to {self.hours[1].key}")
        lines += [f"  {warning}" for warning in self.warnings()]
        lines.append(f"  keeps what it replaces as the tag {self.tag}, until --forget")
        return lines

    def warnings(self) -> list[str]:
        """Returns warnings for people."""
        return [
            *(
                [f"{len(self.tables)} tables go back together: {_names(self.tables)}"]
                if len(self.tables) > 1
                else []
            ),
            *(
                [f"columns that were added since stay, empty until then: {', '.join(self.columns)}"]
                if self.columns
                else []
            ),
            *(each.words() for each in self.loses),
            *(
                [
                    f"{self.quarantined} records in quarantine are read again: those that can be "
                    "merged by now leave it by `cdc-assets quarantine replay`"
                ]
                if self.quarantined
                else []
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan for ``--json``."""
        at = self.chosen.publish
        return {
            "table": str(self.entry.table),
            "lake_table": str(self.entry.target),
            "tables": [str(each.table) for each in self.tables],
            "from": {"snapshot": self.past.head, "offsets": offsets_dict(self.committed)},
            "to": {
                "snapshot": self.chosen.snapshot,
                "publish": at.snapshot,
                "attempt": at.published.attempt,
                "at": at.at.isoformat(timespec="milliseconds"),
                "offsets": offsets_dict(self.offsets),
                "chosen": self.chosen.by,
            },
            "merged_again": [_range_dict(each) for each in self.again],
            "unread": [_range_dict(each) for each in self.unread],
            "publishes_taken_back": self.taken_back,
            "records_taken_back": self.records,
            "loses": [each.to_dict() for each in self.loses],
            "columns_added_since": list(self.columns),
            "quarantined_read_again": self.quarantined,
            "hours": [each.key for each in self.hours] if self.hours else [],
            "warnings": self.warnings(),
            "tag": "" if self.is_done else self.tag,
        }


class TableRewind:
    """A rewind of one table.

    Args:
        services: the lake, the log and the registry.
        entry: the table.
        say: receives messages about the progress.
    """

    def __init__(self, services: Services, entry: TableEntry, say: Say = lambda _: None) -> None:
        self._services, self._entry, self._say = services, entry, say

    def plan(self, goal: Goal) -> RewindPlan:
        """Reads the present state and chooses the target.

        Raises:
            TerminalError: if the table cannot go back there.
            UnreachableError: if the lake, Kafka or the registry does not answer.
        """
        self._require_means()
        history = read_history(self._services, self._entry)
        found = chosen(history, goal)
        if not history.past.is_at(found.snapshot):
            why = history.obstacle(found.snapshot, found.publish, all_shards=goal.all_shards)
            if why:
                what = f"it cannot go back to snapshot {found.snapshot}: {why}"
                remedy = f"cdc-assets history {self._entry.table} shows where it can go back to"
                raise TerminalError(what, where=self._where, remedy=remedy)
        return self._planned(history, found, all_shards=goal.all_shards)

    def carry_out(self, goal: Goal, planned: RewindPlan | None = None) -> RewindPlan:
        """Carries out the rewind, and returns the plan that was carried out.

        Args:
            goal: the target, as a person gives it.
            planned: the first plan; None to make one now.

        Raises:
            CdcError: as `plan` raises; nothing has changed then.
            ConflictError: if others kept publishing.
            OutcomeUnknownError: if neither the reply nor the table could be read.
        """
        for _ in range(TRIES):
            plan = planned or self.plan(goal)
            if plan.is_done or self._is_moved(plan):
                return plan
            self._say(f"{self._entry.table}: another run published meanwhile: looking again")
            planned = None
        what = f"others published between the look and the commit, {TRIES} times in a row"
        raise ConflictError(what, where=self._where, remedy="nothing was changed; run it again")

    def forget(self) -> tuple[str, ...]:
        """Drops the tags of what rewinds have replaced, and returns their names.

        Raises:
            ConflictError: if others kept publishing.
            UnreachableError: if the lake does not answer.
        """
        self._require_means()
        for _ in range(TRIES):
            past = self._services.lake.past(self._entry.target)
            if past is None or not past.tags:
                return ()
            try:
                self._services.lake.drop_tags(past, tuple(past.tags))
            except ConflictError:
                continue
            return tuple(past.tags)
        what = f"others published while tags were dropped, {TRIES} times in a row"
        raise ConflictError(what, where=self._where, remedy="run it again")

    def _is_moved(self, plan: RewindPlan) -> bool:
        """Does steps 2 and 3; returns False if another writer came first."""
        from cdc_assets.merge.plan.plan import OWN_BRANCH

        try:
            self._services.lake.move_back(plan.past, plan.chosen.snapshot, OWN_BRANCH)
        except TransientError as failed:
            if self._was_rewound(plan):
                return True
            if isinstance(failed, ConflictError):
                return False
            raise
        return True

    def _was_rewound(self, plan: RewindPlan) -> bool:
        try:
            now = self._services.lake.past(self._entry.target)
        except CdcError as error:
            what = f"whether the table went back is not known: {error.what}"
            remedy = f"cdc-assets history {self._entry.table} tells it; it may be run again"
            raise OutcomeUnknownError(what, where=self._where, remedy=remedy) from error
        return now is not None and now.was_rewound(plan.tag, plan.past.head, plan.chosen.snapshot)

    def _require_means(self) -> None:
        if not self._services.lake.moves_back:
            what = "a catalog of this type cannot set a table back in one commit"
            remedy = "use a catalog of type rest or sql, or: cdc-assets rebuild TABLE"
            raise TerminalError(what, where=self._where, remedy=remedy)

    def _planned(
        self, history: TableHistory, found: RewindTarget, *, all_shards: bool
    ) -> RewindPlan:
        past, entry, own = history.past, self._entry, history.own_facts()
        everyone = tuple(each.entry for each in history.facts)
        mine = history.record_of_table(found.publish)
        last = history.record_of_table(past.line[0]) if past.line else mine
        offsets = mine.offsets if mine else OffsetVector()
        committed = last.offsets if last else offsets
        end = own.marks.end if own.marks else committed
        gone = past.since(found.snapshot)
        return RewindPlan(
            entry=entry,
            tables=everyone if all_shards else (entry,),
            past=past,
            chosen=found,
            offsets=offsets,
            committed=committed,
            again=offsets.ranges_to(committed),
            unread=offsets.merged_max(committed).ranges_to(end),
            taken_back=len(gone),
            records=sum(each.published.counts.get("records", 0) for each in gone),
            loses=history.loses(found.snapshot),
            columns=past.columns_since(found.snapshot),
            quarantined=own.quarantined_since(offsets),
            hours=self._hours(offsets, end),
        )

    def _hours(
        self, offsets: OffsetVector, end: OffsetVector
    ) -> tuple[HourWindow, HourWindow] | None:
        """Returns the first and the last hour to merge; None if there is nothing to merge."""
        from cdc_assets.log.hours import hour_of
        from cdc_assets.operate.hours import hours_to_read

        if not offsets.ranges_to(end):
            return None
        topic, begin, now = self._entry.topic, self._entry.hours_from, self._services.clock()
        first = hours_to_read(self._services.log, {topic: offsets}, now, begin).get(topic)
        return (first, hour_of(now, begin)) if first else None

    @property
    def _where(self) -> str:
        return f"table={self._entry.table} lake={self._entry.target}"


def _ranges(ranges: tuple[OffsetRange, ...]) -> str:
    if not ranges:
        return "nothing"
    return f"{' '.join(map(str, ranges))} ({total_length(ranges)} offsets)"


def _range_dict(each: OffsetRange) -> dict[str, int]:
    return {"partition": each.partition, "start": each.start, "end": each.end}


def _names(entries: Sequence[TableEntry]) -> str:
    return ", ".join(str(each.table) for each in entries)
