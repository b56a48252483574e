"""Writes and reads a side table, of which only the snapshot that a publish has named counts.

1. `append` sets the head back to the snapshot that counts, if an attempt that was not published,
   or a rollback of the lake table, has left it elsewhere. It removes what may be forgotten.
2. It appends, with the attempt's id in the new snapshot.
3. It checks that snapshot: its parent must be the head of step 1. Another writer may have
   appended in between, whose entries must not be included.
4. The publish names the new snapshot. Nothing that was appended counts before that.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from cdc_assets.changes.names import LakeName
from cdc_assets.effects import effect
from cdc_assets.errors import ConflictError
from cdc_assets.lake import Lake
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.properties import ATTEMPT
from cdc_assets.lake.side import FORGOTTEN, Forgettable, SideState, side_lost, side_of
from cdc_assets.lake.state import Published
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.writing import snapshot_writer


class SideTable:
    """The side table of one lake table, for one batch.

    Args:
        spark: the session.
        catalog: name of the lake's catalog.
        lake: for reading the side table's snapshots.
        target: the lake table.
        published: the lake table's newest publish; None before the first.
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        lake: Lake,
        target: LakeName,
        published: Published | None,
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._catalog = catalog
        self._target = target
        mark = published.carried.side if published else None
        self._name = side_of(target, mark)
        self._table = mark.table if mark else ""
        self._published = published

    def entries(self) -> DataFrame | None:
        """Returns the entries that count; None if nothing does.

        Raises:
            TerminalError: if the side table or its snapshot is gone.
        """
        state, mark = self._state()
        snapshot = state.readable(mark)
        if snapshot is None:
            return None
        reader = self._spark.read.option("versionAsOf", str(snapshot))
        return reader.table(sql.table(self._catalog, self._name))

    def append(
        self, entries: DataFrame, attempt: str, forgettable: Forgettable | None = None
    ) -> SideMark:
        """Does steps 1 to 3; returns the mark that the publish has to name.

        Args:
            entries: to be added.
            attempt: the one that will publish.
            forgettable: entries that need not be kept; None to keep all.

        Raises:
            ConflictError: if another writer came between; nothing of this counts.
            TerminalError: if the side table is gone, or the snapshot to set it back to.
        """
        state, mark = self._state()
        if not state.stands_at(mark):
            state = self._set_back(mark, state.readable(mark))
        forgotten = state.forgotten
        if forgettable is not None and state.is_worth_forgetting(forgettable):
            state, forgotten = self._forget(state, forgettable.below), forgettable.below
        with effect("spark: append to side table"):
            table = sql.table(self._catalog, self._name)
            said = {ATTEMPT: attempt, FORGOTTEN: str(forgotten)}
            snapshot_writer(entries, table, said).append()
        after = self._lake.side(self._name)
        written = after.written_by(attempt) if after else None
        if written is None or written[1].parent != state.head:
            raise self._conflict()
        return SideMark(written[0], self._table)

    @property
    def counts_all(self) -> bool:
        """Whether the last publish is by a release that did not name the snapshot that counts."""
        return self._published is not None and self._published.carried.side is None

    def remove(self, condition: str) -> None:
        """Deletes entries that never counted, before the first append with a mark that counts."""
        with effect("spark: clear side table"):
            self._spark.sql(sql.delete_where(self._catalog, self._name, condition))

    def _forget(self, before: SideState, below: int) -> SideState:
        with effect("spark: forget deletes"):
            condition = sql.place_below(below)
            self._spark.sql(sql.delete_where(self._catalog, self._name, condition))
        state = self._lake.side(self._name)
        head = state.snapshots.get(state.head) if state and state.head is not None else None
        if state is None or head is None:
            raise self._conflict()
        if before.head not in {state.head, head.parent}:
            raise self._conflict()
        return state

    def _set_back(self, mark: SideMark, to: int | None) -> SideState:
        with effect("spark: set side table back"):
            self._spark.sql(
                sql.delete_where(self._catalog, self._name)
                if to is None
                else sql.set_current_snapshot(self._catalog, self._name, to)
            )
        state = self._lake.side(self._name)
        if state is None or not state.stands_at(mark):
            raise self._conflict()
        return state

    def _state(self) -> tuple[SideState, SideMark]:
        """Returns the side table's state, and the mark of its entries that count."""
        state = self._lake.side(self._name)
        if state is None:
            raise side_lost(self._name, f"lake={self._target}")
        if self._published is None:
            return state, SideMark(None)
        return state, self._published.carried.side or SideMark(state.head)

    def _conflict(self) -> ConflictError:
        what = "another writer wrote to the side table while this batch was at work"
        remedy = "the range is merged again by the next try"
        return ConflictError(what, where=f"side table={self._name}", remedy=remedy)
