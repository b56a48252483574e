"""Gives a shadow table its rows, where the log does not hold them: from the source, or by a signal.

Decision 14 in docs/decisions/ has the proof of `ShadowFromSource`, and decision 16 the proof of
`ShadowFromSignal`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from typing import Final

from cdc_assets.changes.mode import Mode
from cdc_assets.changes.position import Scheme
from cdc_assets.databases.rows import SourceRows
from cdc_assets.databases.statements import Range
from cdc_assets.effects import effect
from cdc_assets.errors import ConfigError, TerminalError, TransientError
from cdc_assets.formats.signalling import signalling_of
from cdc_assets.lake import TableState
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.merge.intake.describe import FirstSchema
from cdc_assets.merge.intake.source_facts import SourceAnswers
from cdc_assets.merge.intake.unlogged_changes import look_at
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.operations.rebuild.shadow_table import BegunRead, ShadowTable
from cdc_assets.operations.rebuild.table_rebuild import TableRebuild
from cdc_assets.operations.rebuild.tables import RebuildStanding
from cdc_assets.operations.resnapshot.connector_snapshot import SnapshotRequest
from cdc_assets.operations.resnapshot.notes import SignalNote
from cdc_assets.operations.resnapshot.reading import (
    BY_SNAPSHOT,
    require_key,
    require_mirror,
    requiring_driver,
    unread,
)
from cdc_assets.operations.session import TableSession
from cdc_assets.schema.types import TableSchema

_AGAIN: Final = "run the same command again: it continues where it was"

Say = Callable[[str], None]


class ShadowFromSource:
    """Reads a shadow table's rows from the live source, for the log to be merged over them.

    1. *Begin.* The lake table is looked at: *B*, its offsets, and *P*, the highest position that it
       has applied. The shadow table's first publish has no rows, and has the offsets *B*.
    2. *Wait* until every transaction is over that was open then. So all rows that are read from now
       on show all changes before *B*, and changes that they do not show have a position above *P*.
    3. *Read* the table in waves of its keys, each as of a moment of its own. Rows are put at *P*,
       by one publish for each wave that also records where the next one begins. Nothing of the log
       is merged meanwhile.
    4. *Note E*: a place in the source's log after the last wave, and, once the connector has
       delivered everything up to it, the topic's end. With ``deletes: soft`` the same publish has
       the lake table's rows that the source no longer has, marked (`shadow_table.rows_to_keep`).
    5. *Merge* the log from *B* on, as into any table (`TableRebuild.fill`). Changes at or below *P*
       are in the rows that were read, and are passed over. All others are merged again, each over
       its row as it was read, in their order: the last one decides. From *E* on the shadow table is
       equal to the source.

    `cdc_assets.merge.fold.changeset` has the rules of step 5 for such a table. A change of a key
    may leave out a large value, which is then the old key's; the source may have another row of
    that key by the time of reading, or none. Such changes are counted as doubts, and a table with
    any is compared with its source, and put right, before it is swapped in. So is a table of
    several partitions that begins where the log begins.

    Args:
        session: the means, and the lake table.
        rebuild: the rebuild of the table.
        say: receives messages about progress.
        otherwise: the remedy for a table that cannot be read; empty for those of a rebuild.
    """

    def __init__(
        self, session: TableSession, rebuild: TableRebuild, say: Say, otherwise: str = ""
    ) -> None:
        self._session, self._entry, self._where = session, session.entry, session.where
        self._rebuild, self._tables, self._say = rebuild, rebuild.tables, say
        self._source = session.config.source(session.entry.table.source)
        self._otherwise = otherwise

    def intention(self, standing: RebuildStanding) -> str:
        """Describes `read`, with an estimate of the number of rows; changes nothing.

        Raises:
            CdcError: if the table cannot be read.
        """
        self._require_possible(standing)
        shadow = self._table(standing)
        with self._opened(shadow.first) as source:
            rows, said = source.reading().estimate(), self._source.resnapshot
        waves = max(1, -(-rows // (said.chunk_rows * said.parallel)))
        done = shadow.begun
        continues = f", and continues after {done.waves} of them" if done else ""
        return f"reads about {rows:,} rows from the source, in {waves} waves{continues}"

    def read(self, standing: RebuildStanding) -> ShadowProgress:
        """Carries steps 1 to 4 out; as `waves`."""
        *_, last = self.waves(standing)
        return last

    def waves(self, standing: RebuildStanding) -> Iterator[ShadowProgress]:
        """Carries steps 1 to 4 out, from the place on at which an earlier try ended.

        Yields:
            The progress after each publish, and once more in the end. The caller may leave off
            at any of them.

        Raises:
            TransientError: if a transaction or a delivery that is awaited did not come.
            CdcError: if the table cannot be read, or a part does not answer; rows that were read
                before stay.
        """
        self._require_possible(standing)
        shadow = self._table(standing)
        if shadow.begun is None:
            self._begin(shadow, standing.old)
        with self._opened(shadow.first) as source:
            if not shadow.progress.is_read:
                self._require_same_columns(shadow, source)
                waits = self._verification.waits
                self._require(waits.until_visible(self._entry, source, shadow.known_position))  # 2
                for _ in self._waves(shadow, source):  # 3
                    yield shadow.progress
            if shadow.progress.until is None:
                self._note(shadow, source, standing.old)  # 4
        self._rebuild.continue_with(shadow.state)
        yield shadow.progress

    def settle_doubts(self, standing: RebuildStanding, before: int) -> int:
        """Settles doubts by comparing the shadow table with its source; returns their number.

        Args:
            standing: the progress.
            before: the number of doubts settled before; nothing is compared without more of them.

        Raises:
            TransientError: if the shadow table is not equal to its source then.
        """
        progress = self._table(standing).progress
        if progress.doubts > before:
            self._say(f"{progress.doubts} doubts: comparing with the source first")
            entry = self._tables.shadow_entry(standing.generation)
            report = self._verification.of(entry, repair=True)
            if not report.is_proven:
                what = f"not equal to its source yet: {report.words(keys=False)[0]}"
                raise TransientError(what, where=self._where, remedy=_AGAIN)
            self._say(f"{report.repaired} keys put right")
        return progress.doubts

    # ── steps ────────────────────────────────────────────────────────────────────────────

    def _begin(self, shadow: ShadowTable, old: TableState) -> None:
        look = look_at(self._source, self._entry)
        with self._opened(shadow.first) as source:
            if old.snapshot_id is None:
                self._require_streaming(source)
            names = tuple(each.name for each in source.comparison.columns)
            begun = BegunRead(look, names, source.estimate())
        shadow.begin(old, self._columns_of_source, begun)

    def _require_streaming(self, source: SourceRows) -> None:
        """Requires that the connector sends all changes from before the first row is read on.

        Once it has delivered a place of the log, it has begun before any row is read. Of a table
        that is replicated already, that is known.

        Raises:
            TransientError: if it has not delivered the log's present end after a while.
        """
        self._require(self._verification.waits.until_delivered(self._entry, source, source.place()))

    def _require_same_columns(self, shadow: ShadowTable, source: SourceRows) -> None:
        """Requires that the source still has the columns with which reading began, or dropped them.

        Values of a renamed column would be missing in the rows that are read from now on.

        Raises:
            TerminalError: if a column is gone that may have another name now.
        """
        now = {each.name for each in source.comparison.columns}
        gone = [name for name in shadow.columns_read if name not in now]
        facts = (SourceAnswers(self._source).facts(self._entry) or {}) if gone else {}
        there, schema = {each.number for each in facts.values()}, shadow.first.schema
        numbers = {name: schema.column(name).identity.number for name in gone}
        lost = [name for name, number in numbers.items() if not number or number in there]
        if lost:
            what = f"the source has no {', '.join(lost)} any more: renamed while it was read?"
            raise TerminalError(what, where=self._where, remedy=self._tables.begin_again)

    def _waves(self, shadow: ShadowTable, source: SourceRows) -> Iterator[None]:
        said, spark = self._source.resnapshot, self._tables.spark
        pace, reading = Pace(said.rows_per_second), source.reading()
        while not shadow.progress.is_read:
            began = pace.clock()
            before = shadow.progress.rows
            with (
                effect("source: read a wave"),
                reading.wave(shadow.progress.next, said.chunk_rows, said.parallel) as wave,
                requiring_driver(wave, self._where),
            ):
                within = Range(shadow.progress.next, wave.end)
                most = said.chunk_rows * len(wave.parts)
                found = unread(spark(), wave)
                shadow.put(found, source.comparison, within, most)
            done = shadow.progress
            self._say(f"wave {done.waves}: {done.rows:,} rows read")
            yield
            if not done.is_read:
                pace.rest(done.rows - before, began)

    def _note(self, shadow: ShadowTable, source: SourceRows, old: TableState) -> None:
        place = source.place()
        self._say(f"waits until everything up to {place} is delivered")
        self._require(self._verification.waits.until_delivered(self._entry, source, place))
        end = self._tables.planner.marks(self._entry).end
        count = shadow.note(end, old if self._keeps_deleted else None)
        if count:
            self._say(f"{count:,} rows that the source does not have are kept, marked as deleted")

    @cached_property
    def _verification(self) -> Verification:
        of = self._session
        return Verification(of.attempts, of.host.run_id, say=self._say, merges=True)

    def _table(self, standing: RebuildStanding) -> ShadowTable:
        return ShadowTable(self._tables, standing.generation)

    def _columns_of_source(self, schema: TableSchema) -> frozenset[str]:
        """Returns those of the columns that the source has."""
        with closing(self._verification.source(self._entry, schema)) as source:
            return frozenset(each.name for each in source.comparison.columns)

    @property
    def _keeps_deleted(self) -> bool:
        """Whether rows stay that the source has deleted."""
        return self._source.overrides(self._entry.table).deletes == "soft"

    # ── requirements ─────────────────────────────────────────────────────────────────────

    def _require_possible(self, standing: RebuildStanding) -> None:
        """Requires that rows alone make the table, and that no other rebuild has begun.

        Raises:
            ConfigError, TerminalError: if they do not.
        """
        mode = self._source.mode_of(self._entry.table)
        if mode is not Mode.MIRROR:
            what = f"a table of mode: {mode} is made of changes, which rows do not show"
            raise ConfigError(what, where=self._where, remedy="rebuild it from its log")
        if self._keeps_deleted:
            self._require_same_key(standing)
        if standing.is_from_log:
            option = "--from-source"
            raise self._tables.begun_from_log(option)

    def _require_same_key(self, standing: RebuildStanding) -> None:
        """Requires that the lake table's rows, some of which are kept, have all of the key.

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
        partitions = len(self._tables.planner.marks(self._entry).end.offsets)
        if first.layout.scheme is Scheme.OFFSET and partitions > 1:
            what = "only offsets order its changes, and these say nothing across partitions"
            remedy = f"cdc-assets rebuild {self._entry.table} --from-snapshot"
            raise ConfigError(what, where=self._where, remedy=self._otherwise or remedy)
        with closing(self._verification.source(self._entry, first.schema)) as source:
            require_key(source, self._where, self._otherwise or BY_SNAPSHOT)
            unread = [e for e in source.comparison.left_out if e.is_at_source]
            if unread:
                said = "; ".join(f"{each.name}: {each.why}" for each in unread)
                what = f"columns of the source that are not read: {said}"
                remedy = self._otherwise or "rebuild it from its log"
                remedy = f"{remedy}, or exclude them (tables.<schema.table>.columns)"
                raise ConfigError(what, where=self._where, remedy=remedy)
            yield source

    def _require(self, why: str) -> None:
        if why:
            raise TransientError(why, where=self._where, remedy=_AGAIN)


class ShadowFromSignal:
    """Has the connector send the rows of a shadow table by an incremental snapshot.

    1. The shadow table has the topic's present end as its beginning (`TableRebuild.begin`).
    2. A signal asks the connector for an incremental snapshot, which is followed to its end.
       Nothing is merged meanwhile, so that rows and the changes before them come into one batch
       where they fit.
    3. The log is merged from 1 on, as into any table, and the shadow table is swapped in.

    The signal is sent after 1, and only notices of the connector from the first one with the
    signal's id on count. So the whole table was read after 1, and each row that it then had is in
    the log behind 1: as a row of the snapshot, or as the change in whose favour that row was left
    out. A row that was deleted meanwhile has its delete there. A snapshot that others have asked
    for may have begun before 1, and does not serve.

    The signal's note is stored on the shadow table: a second run follows the same snapshot, and
    abandoning the rebuild drops the note.

    Args:
        session: the means, and the lake table.
        rebuild: the rebuild of the table.
        say: receives messages about progress.
    """

    def __init__(self, session: TableSession, rebuild: TableRebuild, say: Say) -> None:
        self._session, self._entry = session, session.entry
        self._rebuild, self._tables, self._say = rebuild, rebuild.tables, say

    def has_begun(self, standing: RebuildStanding) -> bool:
        """Returns whether an earlier run has asked for a snapshot."""
        return self._note(standing) is not None

    def intention(self, standing: RebuildStanding) -> str:
        """Describes `rows`; changes nothing.

        Raises:
            CdcError: if the connector cannot be asked.
        """
        request = self._request(standing)
        return request.words(request.look(self._note(standing)))

    def rows(self, standing: RebuildStanding) -> int:
        """Carries step 2 out; returns the number of rows that the connector has read.

        Raises:
            CdcError: if a part does not answer, or the table cannot be read so. The snapshot
                continues in the connector, unless that reports its end.
        """
        request = self._request(standing)

        def keep(note: SignalNote | None) -> None:
            self._rebuild.store_signal(standing, "" if note is None else note.to_json())

        snapshot, _ = request.done(request.look(self._note(standing)), keep)
        return snapshot.rows

    def require_possible(self, standing: RebuildStanding) -> None:
        """Requires rows with a key, and a connector that can be asked.

        Raises:
            ConfigError, TerminalError: if the snapshot is not possible.
            UnreachableError: if Kafka Connect does not answer.
        """
        where, tables = self._session.where, self._tables
        remedy = "have the connector make a blocking snapshot, and leave out --via signal"
        require_mirror(self._session, remedy)
        shadow = tables.shadow_entry(standing.generation)
        if not tables.planner.tables(shadow).plan(standing.shadow).first.schema.key:
            what = "the table has no key, in whose order an incremental snapshot reads"
            raise TerminalError(what, where=where, remedy=remedy)
        signalling_of(self._session.config, self._session.log, self._entry)

    def _note(self, standing: RebuildStanding) -> SignalNote | None:
        try:
            return SignalNote.from_json(self._rebuild.signal(standing))
        except (ValueError, KeyError, TypeError):  # none, or another version's
            return None

    def _request(self, standing: RebuildStanding) -> SnapshotRequest:
        self.require_possible(standing)
        session = self._session
        signalling = signalling_of(session.config, session.log, self._entry)
        return SnapshotRequest(session, signalling, joins=False, say=self._say)
