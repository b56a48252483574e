"""Reads one wave, a range of a table's keys, from the live source and corrects it in the lake.

1. *Look.* The highest position that the lake has applied is the wave's: whatever was merged by
   now is no newer.
2. *Wait* until the source's log has gone on from there, and every transaction is over that was open
   by then. So what is read next shows all that 1 has merged, and the position of whatever it does
   not show is above the wave's.
3. *Read* all parts of the wave, each as of one moment, and then note a place in the source's log.
4. *Wait* until the connector has delivered everything up to that place, and the lake has merged
   it. Now the lake knows of each change that the wave shows.
5. *Compare.* A key whose row and remembered delete are not above the wave's position was changed by
   nothing but what the wave shows. So the wave shows what the lake has to show of it: a row that
   differs is put in, and one that the source does not have is gone there. Of the others the log has
   told the newest row.
6. *Put* these rows in their places, stamped with the wave's position, by one publish. If another
   writer came first, the keys that it has changed are left alone.

A change tells the whole row but for large values that an update has left alone. So keys that were
changed meanwhile, and whose large values differ, are doubtful: they are looked at one by one at the
end (`cdc_assets.merge.resnapshot.table`).

A wave is done again, from 1 on, if the table was truncated meanwhile, or if the log has lost
something of what was merged meanwhile: its deletes need not be remembered any more then. If a
rebuild was swapped in, all waves are: what they have put in went with the table before.
No clock comes into it, and no lock but that of any reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.databases.rows import SourceRows, TableReading
from cdc_assets.databases.statements import Range
from cdc_assets.effects import effect
from cdc_assets.errors import ConflictError, TerminalError, TransientError
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.resnapshot.comparing import Compared, compare, overtaken, untouched
from cdc_assets.merge.resnapshot.reading import read, require_sound
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.verifying.lake_rows import LakeRows
from cdc_assets.merge.verifying.putting import Lakes, Putting
from cdc_assets.merge.verifying.repair import highest_of, require_generation, require_order
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.merge.verifying.way import Way
from cdc_assets.registry import TableEntry
from cdc_assets.schema.comparing import Key

_TRIES: Final = 5
_PUTS: Final = 20
"""Other writers publish every few seconds; each try takes a few."""
_PATIENCE: Final = 2
"""So many tries may be beaten before others are asked to wait."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a wave: rows of a part, parts read at once, most doubtful keys."""

    rows: int
    parts: int
    most_doubtful: int


@dataclass(frozen=True, slots=True)
class Done:
    """A wave that is done.

    Attributes:
        end: where the next one begins; None after the last one.
        compared: what it has found.
        put: keys that were put in or removed.
        attempt: of the publish; empty if there was nothing to publish.
        overtaken: keys that differed, and were changed before they were put.
    """

    end: Key | None
    compared: Compared
    put: int
    attempt: str
    overtaken: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Waves:
    """Reads the waves of one table.

    Attributes:
        verification: waits for transactions, connector and lake.
        lakes: what rows are put with.
        entry: the table.
        source: its rows.
        reading: has them read.
        sizes: of waves.
        run_id: recorded with each publish.
        clock: wall clock.
        say: told of progress.
        way: asked for, once other writers came first a few times.
        generation: of the table that is read again, see `Carried.generation`.
    """

    verification: Verification
    lakes: Lakes
    entry: TableEntry
    source: SourceRows
    reading: TableReading
    sizes: Sizes
    run_id: str
    clock: Callable[[], datetime]
    say: Callable[[str], None]
    way: Way
    generation: int

    def wave(self, start: Key | None) -> Done:
        """Does the wave that begins with a key; None for the first one.

        Raises:
            TransientError: if something that is waited for did not come, or other writers came
                first each time.
            CdcError: as for any batch; nothing was published, or all of it.
        """
        for _ in range(_TRIES):
            done = self._tried(start)
            if done is not None:
                return done
            self.say("truncated or forgotten meanwhile: reading once more")
        what = "the table was truncated each time that it was read"
        raise TransientError(what, where=self._where, remedy="run the same command again")

    def plan(self) -> BatchPlan:
        """Returns a plan on the present head of the table.

        Raises:
            CdcError: if the table cannot be read again.
        """
        plan = self.lakes.planner.again(self.entry, (), self.run_id).plan
        if plan.steps:
            what = "its columns are about to change"
            remedy = "let the next batch be merged, and run the same command again"
            raise TransientError(what, where=self._where, remedy=remedy)
        require_generation(plan, self.generation)
        require_order(plan.layout.scheme, plan.partitions, self._where)
        return plan

    def _tried(self, start: Key | None) -> Done | None:
        # 1. look
        plan = self.plan()
        position = highest_of(plan)
        if not position:
            what = "no change of the table was applied yet: nothing tells what a row is newer than"
            raise TerminalError(what, where=self._where, remedy=f"rebuild {self.entry.table}")
        # 2. wait for transactions
        self._require(self.verification.waits.settled(self.entry, self.source, position))
        # 3. read
        with (
            effect("source: read a wave"),
            self.reading.wave(start, self.sizes.rows, self.sizes.parts) as wave,
        ):
            rows = read(self.lakes.spark(), wave, self._where)
        require_sound(rows, self.source.comparison, Range(start, wave.end), self._where)
        until = self.source.place()
        # 4. wait for connector and lake
        self._require(self.verification.waits.caught_up(self.entry, self.source, until))
        # 5. compare
        now = self.plan()
        if not self._goes_on(plan, now):
            return None
        lake = self._rows(now).within(start, wave.end)
        with translated("compare rows", self._where):
            found = compare(
                rows,
                lake,
                self.source.comparison,
                position,
                omitted=self.reading.omitted,
                most=self.sizes.most_doubtful,
            )
        # 6. put
        if not found.to_put:
            return Done(wave.end, found, 0, "")
        try:
            return self._put(plan, now, found, (start, wave.end), position)
        finally:
            self.way.clear()

    def _put(
        self,
        plan: BatchPlan,
        now: BatchPlan,
        found: Compared,
        within: tuple[Key | None, Key | None],
        position: str,
    ) -> Done | None:
        told, count, head = found.told, found.to_put, now.head
        passed = tuple[Key, ...]()
        putting = Putting(
            self.lakes, self.entry, self.source.comparison, self.run_id,
            PublishKind.RESNAPSHOT, self.clock, self.way,
        )  # fmt: skip
        tries = 0
        while True:
            tries += 1
            at = self.plan()
            if not self._goes_on(plan, at):
                return None
            lake = self._rows(at).within(*within)
            try:
                with translated("put rows in their places", self._where):
                    if at.head != head:
                        still = untouched(told, lake, self.source.comparison, position)
                        passed += overtaken(told, still, self.source.comparison)
                        told, count, head = still, found.to_put - len(passed), at.head
                    if count:
                        putting.put(at, lake, told, count, position)
            except ConflictError:
                if tries == _PUTS:
                    raise
                if tries >= _PATIENCE:
                    self.way.ask()
                continue
            return Done(within[1], found, count, at.attempt if count else "", passed)

    def _goes_on(self, plan: BatchPlan, now: BatchPlan) -> bool:
        """Returns whether positions still tell of each key that was changed between two looks."""
        if plan.published is None or now.published is None:
            return False
        same = plan.published.carried.max_truncate == now.published.carried.max_truncate
        begin = self.lakes.planner.marks(self.entry).begin.as_dict()
        return same and all(
            at <= plan.published.offsets.get(partition) for partition, at in begin.items()
        )

    def _rows(self, plan: BatchPlan) -> LakeRows:
        of = self.lakes
        return LakeRows(of.spark(), of.catalog, of.lake, plan, self.source.comparison)

    def _require(self, why: str) -> None:
        if why:
            remedy = "run the same command again: it goes on where it is"
            raise TransientError(why, where=self._where, remedy=remedy)

    @property
    def _where(self) -> str:
        return f"table={self.entry.table} lake={self.entry.target}"
