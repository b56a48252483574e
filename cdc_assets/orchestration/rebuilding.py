"""`cdc-assets rebuild`: builds a table anew while readers go on with the old one."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal

from cdc_assets import desired
from cdc_assets.changes.names import TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import ConfigError, ConflictError, LostRangeError, TerminalError
from cdc_assets.operate.discovery import find_table
from cdc_assets.operate.services import Services
from cdc_assets.operations.lease import Lease
from cdc_assets.orchestration.rebuilt import matches_after_rebuild
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets.registry import TableEntry

if TYPE_CHECKING:
    import dagster as dg

    from cdc_assets.merge.rebuild import Rebuild, Standing
    from cdc_assets.merge.resnapshot.asked_beside import AskedBeside
    from cdc_assets.merge.resnapshot.beside import ReadBeside

TRIES: Final = 20
"""So often the old table may get ahead while the new one is swapped in."""
NEAR_SECONDS: Final = 20.0
"""What takes less to be merged is little: others may wait while the rest is."""

Say = Callable[[str], None]
Via = Literal["hand", "signal"]


@dataclass(frozen=True, slots=True)
class Wish:
    """A person's wish for a rebuild.

    Attributes:
        from_source: read the rows from the source's database, and merge the log over them.
        from_snapshot: the log no longer begins with the table's beginning: wait for a snapshot.
        via: who starts that snapshot: a person, or a signal of ours to the connector.
        snapshot_done: the snapshot is complete, whether its last record says so or not.
        dry_run: only say what would be done.
        abandon: drop what was built so far.
        forget: let go of what earlier rebuilds have replaced.
        verify: compare the table with its source, once it is built.
    """

    from_source: bool = False
    from_snapshot: bool = False
    via: Via = "hand"
    snapshot_done: bool = False
    dry_run: bool = False
    abandon: bool = False
    forget: bool = False
    verify: bool = True


@dataclass
class Outcome:
    """The outcome of a rebuild.

    Attributes:
        table: which.
        is_done: it is as was asked for; not if it waits for a snapshot, or differs from its source.
        swapped: what was built has taken the old one's place.
        kept: the tag that the old rows are kept as; empty if none.
        rows, waves: that were read from the source, those of earlier tries included; rows also of
            a snapshot that was asked for.
        records: of the log that were merged.
        equal: whether it is equal to its source; None if it was not compared.
        said: the last that was said of it.
    """

    table: TableName
    is_done: bool = False
    swapped: bool = False
    kept: str = ""
    rows: int = 0
    waves: int = 0
    records: int = 0
    equal: bool | None = None
    said: str = ""

    def to_json(self) -> str:
        """Returns it for machines."""
        return json.dumps({**asdict(self), "table": str(self.table)}, indent=2)


def run_rebuild(
    config: ReplicationConfig,
    table: str,
    wish: Wish,
    say: Say,
    instance: dg.DagsterInstance | None = None,
) -> Outcome:
    """Does it, or goes on with what was begun, and says what it does.

    Args:
        config: the configuration.
        table: [source.][schema.]table.
        wish: what is asked for.
        say: told of progress.
        instance: told how the table compares with its source; None for that of $DAGSTER_HOME.

    Raises:
        CdcError: if the table is not there, or cannot be built; the old one stays as it is.
    """
    from cdc_assets.merge.rebuild import Rebuild
    from cdc_assets.merge.resnapshot.asked_beside import AskedBeside
    from cdc_assets.merge.resnapshot.beside import ReadBeside

    if wish.via == "signal" and not wish.from_snapshot:
        what = "a signal asks for a snapshot, and none is wanted"
        raise ConfigError(what, where=f"table={table}", remedy="add --from-snapshot")
    services = Services(config)
    entry = find_table(config, services.registry.load(), table)
    outcome = Outcome(entry.table)

    def told(words: str) -> None:
        outcome.said = words
        say(words)

    spark = spark_resource(config)
    try:
        clock = services.clock
        rebuild = Rebuild(config, spark.session, entry, f"rebuild-{uuid.uuid4()}", clock)
        reading = ReadBeside(config, spark.session, rebuild, say=told, clock=clock)
        asking = AskedBeside(config, spark.session, rebuild, say=told, clock=clock)
        of = rebuild, reading, asking, wish, told, services, outcome
        outcome.is_done = _Rebuilding(*of).run()
        if outcome.is_done and not (wish.dry_run or wish.abandon or wish.forget):
            services.failures.clear(entry.table)
            if wish.verify:
                outcome.equal = matches_after_rebuild(services, entry, spark, told, instance)
                outcome.is_done = outcome.equal is not False
    finally:
        spark.forget()
    return outcome


@dataclass(frozen=True, slots=True)
class _Rebuilding:
    rebuild: Rebuild
    reading: ReadBeside
    asking: AskedBeside
    wish: Wish
    say: Say
    services: Services
    outcome: Outcome

    def run(self) -> bool:
        wish = self.wish
        if wish.forget:
            names = ", ".join(self.rebuild.forget()) or "nothing: no rebuild has kept anything"
            self.say(f"let go of {names}")
            return True
        if wish.abandon:
            self._abandon()
            return True
        standing = self.rebuild.standing()
        if standing.swapped and wish.dry_run:
            self.say("a rebuild has been swapped in, and would be tidied up")
            return True
        if standing.swapped:
            self._ended()
            self.rebuild.tidy()
            self._swapped("a rebuild had been swapped in and was tidied up")
            return True
        self.rebuild.require_possible(standing)
        if wish.dry_run:
            self.say(self._intention(standing))
            return True
        return self._build(standing)

    def _abandon(self) -> None:
        standing = self.rebuild.standing()
        dropped = self.rebuild.abandon()
        self._ended()
        if standing.swapped:
            self.rebuild.tidy()
            self._swapped("a rebuild had been swapped in before, and was tidied up: its rows stay")
        else:
            said = "what was built so far is dropped" if dropped else "no rebuild was begun"
            self.say(f"{said}; the table is as it was")

    def _swapped(self, said: str) -> None:
        self.outcome.swapped = True
        self.outcome.kept = self.rebuild.kept()
        kept = (
            f". The old rows are kept as the tag {self.outcome.kept}, until: "
            f"cdc-assets rebuild {self.entry.table} --forget"
        )
        self.say(f"{said}{kept if self.outcome.kept else ''}")

    def _build(self, standing: Standing) -> bool:
        if self.wish.via == "signal":
            self.asking.require_possible(standing)
        self._begins()
        is_read, begin, settled = self._reads(standing), None, 0
        if is_read:
            done = self.reading.read(standing)
            self.outcome.rows, self.outcome.waves = done.rows, done.waves
        else:
            begin = self.rebuild.begin(standing, from_now=self.wish.from_snapshot)
            if self._asks(standing, begin):
                self.outcome.rows, begin = self.asking.rows(standing), None
        for _ in range(TRIES):
            self._catch_up(standing, is_read=is_read)
            if begin is not None and not self._is_whole(standing, begin):
                return False
            try:
                if is_read:
                    settled = self._proven(standing, settled)
                with self._way.kept():
                    self._fill(standing, is_read=is_read)
                    swapped = self.rebuild.swap(standing, settled)
            except ConflictError as error:
                self.say(f"{error.what}: once more")
                continue
            if swapped:
                self._ended()
                self.rebuild.tidy()
                self._swapped("swapped in")
                return True
        what = "other runs kept publishing while the new table was swapped in"
        raise ConflictError(what, where=f"table={self.entry.table}", remedy="run it again")

    def _reads(self, standing: Standing) -> bool:
        """Returns whether rows are read from the source: that is wanted, or was begun.

        Raises:
            TerminalError: if another way was begun than is wanted.
        """
        begun = self.reading.has_begun(standing)
        if self.wish.from_snapshot and (begun or self.wish.from_source):
            what = "a table is built from its source's rows, or from a snapshot in its log"
            remedy = "go on without --from-snapshot, or begin again after --abandon"
            raise TerminalError(what, where=f"table={self.entry.table}", remedy=remedy)
        return begun or self.wish.from_source

    def _asks(self, standing: Standing, begin: OffsetVector | None) -> bool:
        """Returns whether the connector is asked for a snapshot: that is wanted, or was begun."""
        if self.wish.snapshot_done or begin is None:
            return False
        return self.wish.via == "signal" or self.asking.has_begun(standing)

    def _begins(self) -> None:
        """Marks the table as being built anew, also while nobody works at it."""
        book, table = self.services.desired, self.entry.table
        if book.of(table).rebuild is None:
            wanted = desired.Wanted(self.services.clock(), "cdc-assets rebuild")
            book.put(table, desired.Wish.REBUILD, wanted)

    def _ended(self) -> None:
        """Notes the end before the table beside goes: that one alone shows what is left to do."""
        self.services.desired.remove(self.entry.table, desired.Wish.REBUILD)

    def _proven(self, standing: Standing, settled: int) -> int:
        """Returns how many doubts are settled, once the new table has come up to its source."""
        found = self.reading.proven(standing, settled)
        if found != settled:  # a comparison takes its time
            self._catch_up(standing, is_read=True)
        return found

    def _catch_up(self, standing: Standing, *, is_read: bool) -> None:
        """Merges the log, until what has come meanwhile is little."""
        while True:
            began = time.monotonic()
            batches = self._fill(standing, is_read=is_read)
            if batches <= 1 or time.monotonic() - began < NEAR_SECONDS:
                return

    def _fill(self, standing: Standing, *, is_read: bool) -> int:
        """Merges what the log holds now; returns in how many batches."""
        batches = 0
        try:
            for batch in self.rebuild.fill(standing):
                batches += 1
                ranges = " ".join(map(str, batch.ranges))
                rows = "" if batch.row_count is None else f", {batch.row_count} rows"
                self.outcome.records += batch.records
                self.say(f"merged {batch.records} records {ranges}{rows}")
        except LostRangeError as error:
            if not is_read:
                raise
            again = f"cdc-assets rebuild {self.entry.table} --abandon, then --from-source once more"
            remedy = f"lengthen the topic's retention, then {again}"
            raise LostRangeError(error.what, where=error.where, remedy=remedy) from None
        return batches

    def _is_whole(self, standing: Standing, begin: OffsetVector) -> bool:
        if self.wish.snapshot_done or self.rebuild.has_snapshot(standing, begin):
            return True
        self.say(
            f"waits for a snapshot of the whole table, from offsets "
            f"{begin.to_json()} on. Start one now, for example by a blocking snapshot: insert "
            "into the connector's signal table a row with the type execute-snapshot and the data "
            f'{{"type": "blocking", "data-collections": ["{self.entry.at_source.qualified}"]}}. '
            "Then run this command again. Where the connector reads signals from Kafka, --via "
            "signal asks for an incremental snapshot and waits for it. One that was under way "
            "before does not do: its first rows lie before these offsets. After one whose first "
            "and last records do not say so (an incremental one that others have asked for, a "
            "table of one row), or are not read for it (Avro, flattened records without "
            "source.snapshot in add.fields), add --snapshot-done once it is complete."
        )
        return False

    def _intention(self, standing: Standing) -> str:
        begun = "goes on with the table that was begun" if standing.beside else "builds"
        where = self.rebuild.beside(standing.generation)
        start = "the log's present end" if self.wish.from_snapshot else "the log's beginning"
        if standing.beside is None and (began := self.rebuild.began(standing.old)):
            start = start if self.wish.from_snapshot else f"offsets {began}, where its log begins"
        if self._reads(standing):
            start = f"its source: {self.reading.intention(standing).words}"
        elif self.wish.via == "signal" or self.asking.has_begun(standing):
            start = f"{start}: {self.asking.intention(standing)}"
        return (
            f"{begun} beside the old one, as {where}, from {start}; puts its "
            f"rows and offsets in the place of those of {self.entry.target} in one commit; keeps "
            f"the old ones as the tag {self.rebuild.tag(standing)}"
        )

    @property
    def _way(self) -> Lease:
        return Lease(self.services, self.entry.table, self.rebuild.run_id)

    @property
    def entry(self) -> TableEntry:
        return self.rebuild.entry
