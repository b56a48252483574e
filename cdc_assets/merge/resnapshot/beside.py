"""Reading a table from its live source beside the old one, and merging the log over it.

1. *Begin.* The old table is looked at: *B*, its offsets, and *P*, the highest position that it has
   applied. The new one's first publish has no rows, and says that it stands at *B*.
2. *Wait* until every transaction is over that was open then. So whatever is read from now on shows
   all that lies before *B*, and what it does not show has a position above *P*.
3. *Read* the table in waves of its keys, each as of a moment of its own. Rows are put at *P*, by
   one publish for each wave that also says where the next one begins. Nothing of the log is merged
   meanwhile.
4. *Note E*: a place in the source's log after the last wave, and, once the connector has delivered
   everything up to it, what the topic holds. With ``deletes: soft`` the same publish has the rows
   of the old table that the source no longer has, marked (`cdc_assets.merge.resnapshot.kept`).
5. *Merge* the log from *B* on, as into any table (`cdc_assets.merge.rebuild`). What stands at or
   below *P* is in what was read and is passed over. All others are merged again, each over its row
   as it was read, in their order: the last one tells the row. From *E* on the table is what the
   source was.

What step 5 has to know of such a table is in `cdc_assets.merge.fold.changeset`. A change of a key
may leave out a large value, which is then the old key's; what was read may have another row of that
key by then, or none. Such changes are counted as doubts, and a table that has any is compared with
its source, and put right, before it is swapped in. So is one of several partitions that begins
where the log begins.

Proof, and what does not need one: docs/decisions/0014-reading-a-table-beside-the-old-one.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import SparkSession

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.position import Scheme
from cdc_assets.config import ReplicationConfig
from cdc_assets.databases.rows import SourceRows
from cdc_assets.databases.statements import Range
from cdc_assets.effects import effect
from cdc_assets.errors import ConfigError, TransientError
from cdc_assets.lake import TableState
from cdc_assets.lake.beside import Beside
from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.intake.describe import FirstSchema
from cdc_assets.merge.intake.unlogged_changes import look_at
from cdc_assets.merge.rebuild import Rebuild, Standing
from cdc_assets.merge.replicate import utc_now
from cdc_assets.merge.resnapshot.beside_table import BesideTable
from cdc_assets.merge.resnapshot.reading import read, require_sound
from cdc_assets.merge.resnapshot.table import Say, require_key
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.merge.verifying.putting import Lakes
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.schema.types import TableSchema

_AGAIN: Final = "run the same command again: it goes on where it is"


@dataclass(frozen=True, slots=True)
class Intention:
    """The intended reading of a table; ``rows`` is an estimate of their number."""

    rows: int
    words: str


class ReadBeside:
    """Reads one table into the one that is to take its place.

    Args:
        config: the configuration.
        spark: gives the session.
        rebuild: of the table.
        say: told of progress.
        clock: wall clock.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        spark: Callable[[], SparkSession],
        rebuild: Rebuild,
        *,
        say: Say = lambda _: None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        entry, run_id = rebuild.entry, rebuild.run_id
        connections = Connections.of(config)
        attempts = Attempts(config, connections, spark, clock)
        self._planner = attempts.planner
        self._lakes = Lakes(
            attempts.session, config.lake.catalog.name, connections.lake, attempts.planner
        )
        self._verification = Verification(config, spark, run_id, say=say, clock=clock, merges=True)
        self._source = config.source(entry.table.source)
        self._rebuild = rebuild
        self._entry = entry
        self._run_id = run_id
        self._say = say
        self._clock = clock

    def has_begun(self, standing: Standing) -> bool:
        """Returns whether an earlier try has."""
        return standing.is_read

    def intention(self, standing: Standing) -> Intention:
        """Returns what `read` would do; changes nothing.

        Raises:
            CdcError: if the table cannot be read.
        """
        self._require_possible(standing)
        with self._opened(self._table(standing).first) as source:
            rows, said = source.reading().estimate(), self._source.resnapshot
        waves = max(1, -(-rows // (said.chunk_rows * said.parallel)))
        done = self._table(standing).beside
        goes_on = f", and goes on after {done.waves} of them" if done else ""
        words = f"reads about {rows:,} rows from the source, in {waves} waves{goes_on}"
        return Intention(rows, words)

    def read(self, standing: Standing) -> Beside:
        """Steps 1 to 4, from where an earlier try has come to.

        Raises:
            TransientError: if something that is waited for did not come.
            CdcError: if the table cannot be read, or a part does not answer; what was read before
                stays.
        """
        self._require_possible(standing)
        work = self._table(standing)
        if work.beside is None:
            look = look_at(self._source, self._entry)
            work.begin(standing.old, self._columns_of_source, look)
        with self._opened(work.first) as source:
            if not work.progress.is_read:
                waits = self._verification.waits
                self._require(waits.settled(self._entry, source, work.known_position))  # 2
                self._waves(work, source)  # 3
            if work.progress.until is None:
                self._noted(work, source, standing.old)  # 4
        self._rebuild.goes_on_with(work.state)
        return work.progress

    def proven(self, standing: Standing, settled: int) -> int:
        """Settles the doubts by comparing the table with its source; returns how many there are.

        Args:
            standing: of now.
            settled: how many were settled before; without more of them nothing is compared.

        Raises:
            TransientError: if it is not equal to its source then.
        """
        progress = self._table(standing).progress
        if progress.doubts > settled:
            self._say(f"{progress.doubts} doubts: comparing with the source first")
            entry = self._rebuild.entry_beside(standing.generation)
            report = self._verification.of(entry, repair=True)
            if not report.is_proven:
                what = f"not equal to its source yet: {report.words(keys=False)[0]}"
                raise TransientError(what, where=self._where, remedy=_AGAIN)
            self._say(f"{report.repaired} keys put right")
        return progress.doubts

    # ── steps ────────────────────────────────────────────────────────────────────────────

    def _waves(self, work: BesideTable, source: SourceRows) -> None:
        said = self._source.resnapshot
        pace, reading = Pace(said.rows_per_second), source.reading()
        while not work.progress.is_read:
            began = pace.clock()
            with (
                effect("source: read a wave"),
                reading.wave(work.progress.next, said.chunk_rows, said.parallel) as wave,
            ):
                found = read(self._lakes.spark(), wave, self._where)
            within = Range(work.progress.next, wave.end)
            require_sound(found, source.comparison, within, self._where)
            rows = work.put(found, source.comparison, wave.end)
            done = work.progress
            self._say(f"wave {done.waves}: {done.rows:,} rows read")
            if not done.is_read:
                pace.rest(rows, began)

    def _noted(self, work: BesideTable, source: SourceRows, old: TableState) -> None:
        place = source.place()
        self._say(f"waits until everything up to {place} is delivered")
        self._require(self._verification.waits.delivered(self._entry, source, place))
        count = work.note(self._planner.marks(self._entry).end, old if self._keeps else None)
        if count:
            self._say(f"{count:,} rows that the source does not have are kept, marked as deleted")

    def _table(self, standing: Standing) -> BesideTable:
        entry = self._rebuild.entry_beside(standing.generation)
        return BesideTable(self._lakes, entry, self._run_id, self._clock)

    def _columns_of_source(self, schema: TableSchema) -> frozenset[str]:
        """Returns which of the columns the source has."""
        with closing(self._verification.source(self._entry, schema)) as source:
            return frozenset(each.name for each in source.comparison.columns)

    @property
    def _keeps(self) -> bool:
        """Whether rows stay that the source has deleted."""
        return self._source.overrides(self._entry.table).deletes == "soft"

    # ── what is refused ──────────────────────────────────────────────────────────────────

    def _require_possible(self, standing: Standing) -> None:
        """Requires that rows alone make the table, and that no other rebuild has begun.

        Raises:
            ConfigError, TerminalError: if they do not.
        """
        mode = self._source.mode_of(self._entry.table)
        if mode is not Mode.MIRROR:
            what = f"a table of mode: {mode} is made of changes, which rows do not tell"
            raise ConfigError(what, where=self._where, remedy="rebuild it from its log")
        if self._keeps:
            self._require_same_key(standing)
        if standing.is_from_log:
            option = "--from-source"
            raise self._rebuild.begun_from_log(option)

    def _require_same_key(self, standing: Standing) -> None:
        """Requires that the old table's rows, some of which are kept, have all of the key.

        Raises:
            ConfigError: if they do not.
        """
        old, key = standing.old, self._table(standing).first.schema.key
        missing = sorted(set(key) - set(old.head_columns))
        if old.snapshot_id is not None and missing:
            what = f"deleted rows are kept (deletes: soft), and have no {', '.join(missing)}"
            remedy = f"cdc-assets rebuild {self._entry.table} --from-snapshot, which keeps none"
            raise ConfigError(what, where=self._where, remedy=remedy)

    @contextmanager
    def _opened(self, first: FirstSchema) -> Iterator[SourceRows]:
        partitions = len(self._planner.marks(self._entry).end.offsets)
        if first.layout.scheme is Scheme.OFFSET and partitions > 1:
            what = "only offsets order its changes, and these say nothing across partitions"
            remedy = f"cdc-assets rebuild {self._entry.table} --from-snapshot"
            raise ConfigError(what, where=self._where, remedy=remedy)
        with closing(self._verification.source(self._entry, first.schema)) as source:
            require_key(source, self._where)
            unread = [e for e in source.comparison.left_out if e.is_at_source]
            if unread:
                said = "; ".join(f"{each.name}: {each.why}" for each in unread)
                what = f"columns of the source that are not read: {said}"
                remedy = "rebuild it from its log, or exclude them (tables.<schema.table>.columns)"
                raise ConfigError(what, where=self._where, remedy=remedy)
            yield source

    def _require(self, why: str) -> None:
        if why:
            raise TransientError(why, where=self._where, remedy=_AGAIN)

    @property
    def _where(self) -> str:
        return f"table={self._entry.table} lake={self._entry.target}"
