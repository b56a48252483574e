"""The steps of one table's rebuild, for those who take them; see `cdc_assets.merge.rebuild`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from pyspark.sql import SparkSession

from cdc_assets.changes.names import LakeName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import TerminalError
from cdc_assets.lake import TableState
from cdc_assets.lake.quarantined import QuarantineLake
from cdc_assets.merge.attempt import Attempts, Connections
from cdc_assets.merge.intake.planning import begin_of
from cdc_assets.merge.plan.result import BatchResult
from cdc_assets.merge.rebuild import beginning, filling, snapshot, swapping, tidying
from cdc_assets.merge.rebuild.required import require_begun, require_possible
from cdc_assets.merge.rebuild.site import Site
from cdc_assets.merge.rebuild.standing import Standing, awaits_snapshot, id_of, look
from cdc_assets.merge.rebuild.tags import tag_for, tags_of
from cdc_assets.merge.replicate import Replicator, utc_now
from cdc_assets.registry import TableEntry


class Rebuild:
    """Builds one table anew.

    Attributes:
        entry: the table.
        run_id: recorded with each publish.

    Args:
        config: the configuration.
        spark: gives the session.
        entry: the table.
        run_id: recorded with each publish.
        clock: wall clock.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        spark: Callable[[], SparkSession],
        entry: TableEntry,
        run_id: str,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.entry = entry
        self.run_id = run_id
        connections = Connections.of(config)
        attempts = Attempts(config, connections, spark, clock)
        replicator = Replicator(config, spark, clock=clock, connections=connections)
        self._replicator = replicator.only_existing(self._require_begun)
        self._site = Site(
            config=config,
            entry=entry,
            run_id=run_id,
            clock=clock,
            spark=attempts.session,
            lake=connections.lake,
            quarantine=QuarantineLake(config),
            planner=attempts.planner,
        )
        self._begun: str | None = None

    def standing(self) -> Standing:
        """Looks how far it has come; changes nothing.

        Raises:
            TerminalError: if there is nothing that could be built anew.
        """
        return look(self._site)

    def require_possible(self, standing: Standing) -> None:
        """Requires that a table of the wanted mode can take the old one's place.

        Raises:
            TerminalError: if it cannot, or what was built is of another topic.
            TransientError: if the table has another topic by now.
        """
        require_possible(self._site, standing)

    # ── 1. begin ─────────────────────────────────────────────────────────────────────────

    def begin(self, standing: Standing, *, from_now: bool) -> OffsetVector | None:
        """Makes the table beside, if it is not there.

        Args:
            standing: of now.
            from_now: read the log from its present end on, for a snapshot yet to be taken.

        Returns:
            Where a snapshot is waited for; None if the log holds the whole table.

        Raises:
            TerminalError: if another way was begun than is wanted, or the log lacks the table's
                beginning.
            ConflictError: if it was made by another process at the same moment.
        """
        state = beginning.begin(self._site, standing, from_now=from_now)
        self._begun = id_of(state)
        return begin_of(state) if awaits_snapshot(state) else None

    def goes_on_with(self, state: TableState) -> None:
        """Notes which table beside is the one that this process has read from the source."""
        self._begun = id_of(state)

    def began(self, old: TableState) -> OffsetVector | None:
        """Returns where its log begins, if its topic holds other changes before; else None."""
        return beginning.began(self._site, old)

    def begun_from_log(self, option: str) -> TerminalError:
        """Returns the error for an option that asks for another way than was begun."""
        return self._site.begun_from_log(option)

    def signal(self, standing: Standing) -> str:
        """Returns what `keep_signal` has kept; empty if nothing is."""
        return snapshot.signal(self._site, standing)

    def keep_signal(self, standing: Standing, note: str) -> None:
        """Keeps a note with the table beside, so that it goes with it; empty to forget it."""
        snapshot.keep_signal(self._site, standing, note)

    # ── 2. fill ──────────────────────────────────────────────────────────────────────────

    def fill(self, standing: Standing) -> Iterator[BatchResult]:
        """Merges what the log holds now into the table beside.

        What comes meanwhile is left to the next call: of a busy table something always does.

        Raises:
            ConflictError: if another process has dropped it, or made it anew.
            CdcError: as for any table.
        """
        yield from filling.fill(self._site, self._replicator, standing, self._begun)

    def has_snapshot(self, standing: Standing, begin: OffsetVector) -> bool:
        """Returns whether a snapshot of the whole table lies in what was read.

        It begins there, too: one that was under way before has sent rows that lie before.
        """
        return snapshot.has_snapshot(self._site, standing, begin)

    # ── 3. swap ──────────────────────────────────────────────────────────────────────────

    def swap(self, standing: Standing, settled: int = 0) -> bool:
        """Puts the new rows in the old one's place.

        Args:
            standing: of now.
            settled: so many doubts of a table that was read from its source are none any more.

        Returns:
            False if the old table is ahead, or some of what was read may be, or is in doubt: then
            the new one has to be filled further.

        Raises:
            ConflictError: if another writer published on the old table meanwhile, or swapped in a
                rebuild of its own.
            TerminalError: if a run has found meanwhile that the table is called otherwise.
        """
        return swapping.swap(self._site, standing, self._begun, settled)

    # ── 4. tidy, or end otherwise ────────────────────────────────────────────────────────

    def tidy(self) -> None:
        """Drops the table beside of a rebuild that was swapped in."""
        tidying.tidy(self._site)

    def abandon(self) -> bool:
        """Drops the tables beside of a rebuild that was not; returns whether there were any."""
        return tidying.abandon(self._site)

    def forget(self) -> tuple[str, ...]:
        """Lets go of what earlier rebuilds have replaced; returns the tags' names."""
        return tidying.forget(self._site)

    def _require_begun(self, beside: TableState) -> None:
        require_begun(self._site, beside, self._begun)

    # ── names ────────────────────────────────────────────────────────────────────────────

    def kept(self) -> str:
        """Returns the tag on what the last rebuild has replaced; empty without one."""
        return next(reversed(tags_of(self._site).values()), "")

    def tag(self, standing: Standing) -> str:
        """Returns the tag that `swap` would keep the old rows as."""
        return tag_for(self._site, standing.old, standing.generation)

    def beside(self, generation: int) -> LakeName:
        """Returns the table that is filled by a rebuild."""
        return self.entry_beside(generation).target

    def entry_beside(self, generation: int) -> TableEntry:
        """Returns the table beside as an entry that batches are merged into."""
        return self._site.entry_beside(generation)
