"""Has the connector read one table again: a signal asks for an incremental snapshot of it.

1.-4. *Ask* for the snapshot, and follow it to its end (`connector_snapshot.SnapshotRequest`). One
   that is under way is joined, whoever has asked for it.
5. *Wait* until the lake has merged the topic up to its end then. The snapshot's rows are merged
   like any change, so that newer changes win.
6. *Find* the rows of the lake that the snapshot has not wholly shown (`UnshownRows`). The
   connector's report that it is done proves nothing of a single row: its last rows may be on their
   way to Kafka still. So the source is asked for each of these rows, and rows that differ are
   removed, or put right, as `verify --repair` does. Without ``database:`` they are only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_assets.changes.names import HELPERS, TableName
from cdc_assets.changes.offsets import OffsetRange, OffsetVector
from cdc_assets.errors import TerminalError, TransientError
from cdc_assets.formats.flat import any_of
from cdc_assets.formats.signalling import signalling_of
from cdc_assets.merge.plan.plan import BatchPlan
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.statements.pinning import pinned
from cdc_assets.merge.tables.lookups import lake_table
from cdc_assets.merge.verifying.canonical import canonical
from cdc_assets.merge.verifying.pace import Pace
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.operations.resnapshot.connector_snapshot import (
    Keep,
    SnapshotRequest,
    SnapshotStep,
)
from cdc_assets.operations.resnapshot.notes import SignalNote
from cdc_assets.operations.resnapshot.one_by_one import SettledKeys, repair_keys
from cdc_assets.operations.resnapshot.reading import BY_SNAPSHOT, require_mirror
from cdc_assets.operations.session import TableSession
from cdc_assets.schema.comparing import Comparison, Key

_WHOLE: Final = f"{HELPERS}is_whole"
_SENT: Final = f"{HELPERS}is_told"


@dataclass(frozen=True, slots=True)
class SignalReport:
    """The report on a snapshot that a signal has asked for: counts, never a value of a row.

    Attributes:
        table: the table.
        rows: the number of rows that the connector has read.
        is_joined: whether the snapshot was under way already.
        unshown: the number of rows of the lake that the snapshot has not shown; None if they were
            not looked for.
        partial: the number of rows whose large values it has not shown.
        put: the number of these rows that were put right, or removed.
        removed: the number of these rows that the source does not have.
        left: the number of these rows that were not proven.
        why: the reason why rows were left, or not looked for; empty if none were.
        seconds: durations by step.
    """

    table: TableName
    rows: int
    is_joined: bool = False
    unshown: int | None = None
    partial: int = 0
    put: int = 0
    removed: int = 0
    left: int = 0
    why: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def is_whole(self) -> bool:
        """Whether each row is equal to the source's."""
        return self.unshown is not None and not self.left

    def words(self) -> Iterator[str]:
        """Yields the report for people, most important first."""
        begun = "a snapshot that was under way" if self.is_joined else "the snapshot"
        yield f"{begun} is complete, and merged: {self.rows:,} rows read by the connector"
        if self.unshown is None:
            yield f"rows that vanished from the source were not looked for: {self.why}"
            return
        if not (self.unshown or self.partial):
            yield "each row of the lake was shown by it"
            return
        yield (
            f"{self.unshown + self.partial:,} rows of the lake were not wholly shown by it: "
            f"{self.put:,} put right, {self.removed:,} of them removed"
        )
        if self.left:
            yield f"{self.left:,} of them are as they were: {self.why}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the report for ``--json``."""
        return {
            "table": str(self.table),
            "via": "signal",
            "whole": self.is_whole,
            "rows": self.rows,
            "joined": self.is_joined,
            "not_shown": self.unshown,
            "partly_shown": self.partial,
            "put_right": self.put,
            "removed": self.removed,
            "left": self.left,
            "why": self.why,
            "seconds": {name: round(spent, 3) for name, spent in self.seconds.items()},
        }


@dataclass(frozen=True, slots=True)
class UnshownRows:
    """Rows of the lake that a snapshot by the connector has not wholly shown.

    A snapshot sends each row that it reads, unless the log has a change of the row while its chunk
    is read; then that change is sent, and the row is not. So of each key that the source had when
    its chunk was read, the log has a record since the signal, and also of each key that was
    inserted later. A row of the lake whose key is in none of these records is *unshown*: the source
    has it no more, the record is still under way between connector and Kafka, or the connector has
    left it out. Only the source can decide which of these is the case.

    *Partial* are rows with such records, all of which are updates that leave large values alone.
    These values were not shown either.

    Attributes:
        rows: the rows; pinned.
        unshown: the number of unshown rows.
        partial: the number of partial rows.
    """

    rows: DataFrame
    unshown: int
    partial: int

    def keys(self, comparison: Comparison, most: int) -> tuple[Key, ...]:
        """Returns some of the rows' keys as canonical text, those of unshown rows first."""
        texts = [canonical(each).alias(f"k{n}") for n, each in enumerate(comparison.key)]
        each_once = self.rows.select(_SENT, *texts).distinct()  # the lake may have a row twice
        found = each_once.orderBy(_SENT).limit(most).drop(_SENT)
        return tuple(tuple(row) for row in found.collect())


def unshown(
    lake: DataFrame, changes: DataFrame | None, key: tuple[str, ...], unset: tuple[str, ...]
) -> UnshownRows:
    """Returns the rows of the lake that the log's records have not wholly shown.

    Args:
        lake: living rows of the table.
        changes: the log's changes since the signal, up to the lake's offsets; None for none.
        key: names of the table's key columns.
        unset: columns that updates may have left out.
    """
    names = [sql.quote(name) for name in key]
    rows = lake.select(*names)
    if changes is None:
        found = rows.withColumn(_SENT, F.lit(False)).withColumn(_WHOLE, F.lit(False))
    else:
        found = _with_records(rows, _shown(changes, key, unset), key)
    left = pinned(found.where(~F.col(_WHOLE)))
    counts = dict(left.groupBy(_SENT).count().collect())
    return UnshownRows(left, counts.get(False, 0), counts.get(True, 0))


def _shown(changes: DataFrame, key: tuple[str, ...], unset: tuple[str, ...]) -> DataFrame:
    """Returns ``k0``, … and whether any record of the key has the whole row."""
    left_out = any_of(F.coalesce(F.col("unset").getField(name), F.lit(False)) for name in unset)
    whole = F.col("op").isin("c", "r") | (~left_out if unset else F.lit(True))
    mine = changes.where(F.col("op").isin("c", "u", "d", "r") & F.col("reject").isNull())
    parts = [F.col("key").getField(name).alias(f"k{n}") for n, name in enumerate(key)]
    records = mine.select(*parts, whole.alias(_WHOLE))
    return records.groupBy(*(f"k{n}" for n in range(len(key)))).agg(F.max(_WHOLE).alias(_WHOLE))


def _with_records(rows: DataFrame, shown: DataFrame, key: tuple[str, ...]) -> DataFrame:
    same = [rows[sql.quote(name)].eqNullSafe(shown[f"k{n}"]) for n, name in enumerate(key)]
    joined = rows.join(shown, same, "left")
    return joined.select(
        *(rows[sql.quote(name)] for name in key),
        shown[_WHOLE].isNotNull().alias(_SENT),
        F.coalesce(shown[_WHOLE], F.lit(False)).alias(_WHOLE),
    )


class SignalResnapshot:
    """A reading of one table by its connector.

    Args:
        session: the means, and the table; Spark is first used at step 6.
        say: receives messages about progress.
    """

    def __init__(self, session: TableSession, say: Callable[[str], None] = lambda _: None) -> None:
        self._session, self._entry, self._where = session, session.entry, session.where
        self._source, self._say = session.config.source(session.entry.table.source), say
        self._verification = Verification(
            session.attempts, session.host.run_id, say=say, way=session.lease
        )

    def intention(self, note: SignalNote | None, *, is_new: bool = False) -> str:
        """Describes `read`; changes nothing.

        Raises:
            CdcError: if the table cannot be read again so.
        """
        request = self._request()
        begins = request.words(request.look(note, is_new=is_new))
        has_database = self._source.database is not None
        ends = "removes" if has_database else "counts, without a database: to ask for them,"
        return f"{begins}; then {ends} rows of the lake that vanished from the source"

    def read(self, note: SignalNote | None, keep: Keep, *, is_new: bool = False) -> SignalReport:
        """Has the table read again, or continues with an earlier run.

        Args:
            note: the note of that run; None to begin.
            keep: stores a note before a signal is sent, and removes the note of a snapshot that
                came to nothing.
            is_new: send a signal, also if a snapshot is under way.

        Raises:
            CdcError: if a part does not answer, or the table cannot be read again so. The snapshot
                continues in the connector, unless that reports its end.
        """
        table, pace = self._entry.table, Pace()
        # 1. to 4. ask
        request = self._request()
        looked = request.look(note, is_new=is_new)
        is_joined = looked.step is not SnapshotStep.SEND
        with pace.step("the connector"):
            snapshot, note = request.done(looked, keep)
        # 5. wait
        with pace.step("wait for the lake"):
            why = self._verification.waits.until_merged(self._entry)
        if why:
            raise TransientError(why, where=self._where, remedy="run the same command again")
        # 6. find and put right
        if note is None:
            why = "another one has asked for the snapshot, and it is unknown since when it runs"
            return SignalReport(table, snapshot.rows, is_joined=True, why=why, seconds=pace.seconds)
        with pace.step("look for rows"):
            found = self._unshown(note)
        with pace.step("one by one"):
            settled = self._settle(found)
        return SignalReport(
            table=table,
            rows=snapshot.rows,
            is_joined=is_joined,
            unshown=found.unshown,
            partial=found.partial,
            put=settled.put,
            removed=settled.removed,
            left=settled.left,
            why=settled.why,
            seconds=pace.seconds,
        )

    def _unshown(self, note: SignalNote) -> UnshownRows:
        """Returns the rows that the records since a signal have not wholly shown."""
        attempts, run_id = self._session.attempts, self._session.host.run_id
        plan = attempts.planner.replay(self._entry, (), run_id).plan
        ranges = self._since(note, plan)
        changes, unset = attempts.decoded(self._entry, ranges, run_id) if ranges else (None, ())
        catalog, spark = self._session.config.lake.catalog.name, attempts.session()
        rows = lake_table(spark, catalog, plan, None)
        if plan.soft:
            rows = rows.where(~F.coalesce(F.col(sql.DELETED), F.lit(False)))
        with translated("look for rows that the snapshot has not shown", self._where):
            return unshown(rows, changes, plan.schema.key, unset)

    def _since(self, note: SignalNote, plan: BatchPlan) -> tuple[OffsetRange, ...]:
        """Returns the offsets from the signal to the head; lost ones only make rows unshown."""
        committed = plan.published.offsets if plan.published else OffsetVector()
        begin = self._session.planner.marks(self._entry).begin
        return begin.merged_max(note.since).ranges_to(committed)

    def _settle(self, found: UnshownRows) -> SettledKeys:
        """Asks the source for each of the rows, and removes or puts right those that differ.

        Raises:
            CdcError: if a part does not answer; rows that were put right before stay so.
        """
        total, verification = found.unshown + found.partial, self._verification
        if not total:
            return SettledKeys()
        if self._source.database is None:
            why = (
                "only the source can say whether it has them, and no database: is configured; "
                "rebuild the table, or configure it and run cdc-assets verify --repair"
            )
            return SettledKeys(left=total, why=why)
        self._say(f"{total:,} rows were not wholly shown: asking the source for them")
        schema = verification.plan(self._entry).schema
        most, looks = self._source.verify.most_keys, self._source.verify.looks
        with closing(verification.source(self._entry, schema)) as source:
            if not source.comparison.key:
                why = "a column of their key cannot be compared with the source"
                return SettledKeys(left=total, why=why)
            keys = found.keys(source.comparison, most)
            settled = repair_keys(verification, self._entry, source, keys, looks, self._say)
        beyond = total - most if len(keys) == most else 0
        why = settled.why if settled.left else f"more than verify.most_keys={most}"
        return SettledKeys(
            settled.put,
            settled.removed,
            settled.left + beyond,
            f"{why}: cdc-assets verify --repair" if settled.left or beyond else "",
        )

    def _request(self) -> SnapshotRequest:
        """Returns the request for the snapshot.

        Raises:
            ConfigError, TerminalError: if the connector is not known, or the table has no rows with
                a key.
        """
        session = self._session
        signalling = signalling_of(session.config, session.log, self._entry)
        require_mirror(session)
        if not session.planner.replay(self._entry, (), session.host.run_id).plan.schema.key:
            what = "the table has no key: its rows and the changes of them cannot be distinguished"
            raise TerminalError(what, where=self._where, remedy=BY_SNAPSHOT)
        return SnapshotRequest(session, signalling, joins=True, say=self._say)
