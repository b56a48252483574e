"""Reads one wave, a range of a table's keys, from the live source and corrects it in the lake.

1. *Look.* The highest position that the lake has applied is the wave's: no change merged by now is
   newer.
2. *Wait* until the source's log has a later place, and every transaction is over that was open by
   then. So the rows that are read next show all changes that 1 has merged, and any change that they
   do not show has a position above the wave's.
3. *Read* all parts of the wave, each as of one moment, and then note a place in the source's log.
4. *Wait* until the connector has delivered everything up to that place, and the lake has merged
   it. Now the lake knows of each change that the wave shows.
5. *Compare.* A key whose row and remembered delete are not above the wave's position was changed by
   no other change than the wave shows. So the lake's row has to be as in the wave: a row that
   differs is put in, and a row that the source does not have is removed. The newest row of other
   keys is the log's.
6. *Put* these rows in their places, stamped with the wave's position, by one publish. If another
   writer came first, the keys that it has changed are left alone.

A change has the whole row but for large values that an update has left alone. So keys that were
changed meanwhile, and whose large values differ, are doubtful: they are looked at one by one at the
end (`cdc_assets.operations.resnapshot.spark_resnapshot`).

A wave is done again, from 1 on, if the table was truncated or rewound meanwhile, or if the log has
lost some of the changes merged meanwhile: its deletes need not be remembered any more then. Changes
that are merged again after a rewind are not above the wave's position, but above all that the lake
has applied then: they would win over rows of the wave.

All waves are done again if a rebuild was swapped in, or the waves before were taken back: their
rows are gone with the table before.
No clock comes into it, and no lock but that of any reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cdc_assets.databases.rows import SourceRows, TableReading
from cdc_assets.databases.statements import Range
from cdc_assets.effects import effect
from cdc_assets.errors import ConflictError, TerminalError, TransientError
from cdc_assets.merge.intake.planning import Planner
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.verifying.putting import Putting
from cdc_assets.merge.verifying.repair import highest_of, require_generation, require_order
from cdc_assets.merge.verifying.waits import Waits
from cdc_assets.operations.resnapshot.comparing import ComparedWave, compare, overtaken, untouched
from cdc_assets.operations.resnapshot.reading import read, require_sound
from cdc_assets.registry import TableEntry
from cdc_assets.schema.comparing import Key

_TRIES: Final = 5
_PUTS: Final = 20
"""Other writers publish every few seconds; each try takes a few."""
_PATIENCE: Final = 2
"""So many tries may be beaten before others are asked to wait."""


@dataclass(frozen=True, slots=True)
class WaveSizes:
    """The sizes of a wave: rows of a part, parts read at once, most doubtful keys."""

    rows: int
    parts: int
    most_doubtful: int


@dataclass(frozen=True, slots=True)
class WaveResult:
    """The result of a finished wave.

    Attributes:
        end: the key that the next wave begins with; None after the last one.
        compared: the states of its keys.
        put: the number of keys that were put in or removed.
        attempt: the attempt of the wave's publish; of the newest publish that it was compared with
            if there was nothing to publish.
        overtaken: keys that differed, and were changed before they were put.
    """

    end: Key | None
    compared: ComparedWave
    put: int
    attempt: str
    overtaken: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Waves:
    """Reads the waves of one table.

    Attributes:
        waits: waits for transactions, connector and lake.
        putting: the table's rows in the lake, and their replacement; its way is asked for once
            other writers came first a few times.
        source: the table's rows at the source.
        reading: reads them.
        sizes: the sizes of waves.
        say: receives messages about progress.
        generation: the number of the table's rebuilds, see `Carried.generation`.
    """

    waits: Waits
    putting: Putting
    source: SourceRows
    reading: TableReading
    sizes: WaveSizes
    say: Callable[[str], None]
    generation: int

    def wave(self, start: Key | None) -> WaveResult:
        """Reads and puts the wave that begins with a key; None for the first one.

        Raises:
            TransientError: if a transaction or a delivery that is awaited did not come, or other
                writers came first each time.
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
        plan = self._planner.replay(self._entry, (), self.putting.run_id).plan
        if plan.steps:
            what = "its columns are about to change"
            remedy = "let the next batch be merged, and run the same command again"
            raise TransientError(what, where=self._where, remedy=remedy)
        require_generation(plan, self.generation)
        require_order(plan.layout.scheme, plan.partitions, self._where)
        return plan

    def _tried(self, start: Key | None) -> WaveResult | None:
        # 1. look
        plan = self.plan()
        position = highest_of(plan)
        if not position:
            what = "no change of the table was applied yet: it is unknown what a row is newer than"
            raise TerminalError(what, where=self._where, remedy=f"rebuild {self._entry.table}")
        # 2. wait for transactions
        self._require(self.waits.until_visible(self._entry, self.source, position))
        # 3. read
        with (
            effect("source: read a wave"),
            self.reading.wave(start, self.sizes.rows, self.sizes.parts) as wave,
        ):
            rows = read(self.putting.lakes.spark(), wave, self._where)
        within = Range(start, wave.end)
        require_sound(rows, self.source.comparison, [within], self._where)
        until = self.source.place()
        # 4. wait for connector and lake
        self._require(self.waits.caught_up(self._entry, self.source, until))
        # 5. compare
        now = self.plan()
        if not self._is_comparable(plan, now):
            return None
        lake = self.putting.rows(now).among([within])
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
            return WaveResult(wave.end, found, 0, _attempt_of(now))
        try:
            return self._put(plan, now, found, within, position)
        finally:
            self.putting.way.clear()

    def _put(
        self,
        plan: BatchPlan,
        now: BatchPlan,
        found: ComparedWave,
        within: Range,
        position: str,
    ) -> WaveResult | None:
        differing, count, head = found.differing, found.to_put, now.head
        passed = tuple[Key, ...]()
        tries = 0
        while True:
            tries += 1
            at = self.plan()
            if not self._is_comparable(plan, at):
                return None
            lake = self.putting.rows(at).among([within])
            try:
                with translated("put rows in their places", self._where):
                    if at.head != head:
                        still = untouched(differing, lake, self.source.comparison, position)
                        passed += overtaken(differing, still, self.source.comparison)
                        differing, count, head = still, found.to_put - len(passed), at.head
                    if count:
                        self.putting.put(at, lake, differing, count, position)
            except ConflictError:
                if tries == _PUTS:
                    raise
                if tries >= _PATIENCE:
                    self.putting.way.ask()
                continue
            attempt = at.attempt if count else _attempt_of(at)
            return WaveResult(within.end, found, count, attempt, passed)

    def _is_comparable(self, plan: BatchPlan, now: BatchPlan) -> bool:
        """Returns whether positions still show each key that was changed between two looks."""
        if plan.published is None or now.published is None:
            return False
        same = plan.published.carried.max_truncate == now.published.carried.max_truncate
        same = same and not now.published.offsets.ranges_to(plan.published.offsets)
        begin = self._planner.marks(self._entry).begin.as_dict()
        return same and all(
            at <= plan.published.offsets.get(partition) for partition, at in begin.items()
        )

    def _require(self, why: str) -> None:
        if why:
            remedy = "run the same command again: it continues where it was"
            raise TransientError(why, where=self._where, remedy=remedy)

    @property
    def _entry(self) -> TableEntry:
        return self.putting.entry

    @property
    def _planner(self) -> Planner:
        return self.putting.lakes.planner

    @property
    def _where(self) -> str:
        return f"table={self._entry.table} lake={self._entry.target}"


def _attempt_of(plan: BatchPlan) -> str:
    """Returns the attempt of the newest publish at the head of a plan."""
    return plan.published.attempt if plan.published else ""
