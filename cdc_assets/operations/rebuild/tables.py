"""Looks at the two tables of a rebuild: the lake table, and the shadow table that is built for it.

The properties and publishes of both show how far a rebuild has come, and the tags of the lake table
what earlier rebuilds have replaced.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import SparkSession

from cdc_assets.changes.mode import Mode
from cdc_assets.effects import effect
from cdc_assets.errors import ConflictError, TerminalError, TransientError
from cdc_assets.lake import TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.carried import SideMark
from cdc_assets.lake.properties import MODE
from cdc_assets.merge.intake.planning import BEGIN, BEGIN_TOPIC, BEGIN_WHOLE
from cdc_assets.merge.statements.failures import translated
from cdc_assets.merge.verifying.putting import Lakes
from cdc_assets.operate.own_tables import shadow_name
from cdc_assets.operations.session import TableSession
from cdc_assets.registry import TableEntry

KEPT: Final = "before_rebuild_"
"""Start of the names of tags on snapshots that rebuilds have replaced."""

SIGNAL: Final = "cdc-assets.rebuild-signal"
"""Property of the shadow table: the note on the signal for its snapshot, or empty."""

READ_FROM_SOURCE: Final = "cdc-assets.rebuild-reads"
"""Property of the shadow table: the columns that are read from the source, as a list of JSON."""

ID: Final = "cdc-assets.rebuild-id"
"""Property of the shadow table: distinguishes it from another one that was made in its place."""

OF_REBUILD: Final = frozenset({BEGIN, BEGIN_TOPIC, BEGIN_WHOLE, READ_FROM_SOURCE, ID, SIGNAL})
"""Properties of the shadow table that nobody needs once it was swapped in."""


@dataclass(frozen=True, slots=True)
class RebuildStanding:
    """The progress of a rebuild.

    Attributes:
        old: the lake table, as readers see it.
        generation: the number of the rebuild: one more than that of the lake table.
        shadow: the shadow table; None before it was made.
        swapped: whether the shadow table of the last rebuild was swapped in, and is to be dropped.
    """

    old: TableState
    generation: int
    shadow: TableState | None
    swapped: bool

    @property
    def is_read(self) -> bool:
        """Whether the shadow table is read from its source, and the log merged over its rows."""
        return self.shadow is not None and _is_read(self.shadow)

    @property
    def is_from_log(self) -> bool:
        """Whether the shadow table is filled from the log, and not read from its source."""
        return self.shadow is not None and not _is_read(self.shadow)


class RebuildTables:
    """The lake table and the shadow tables of a rebuild.

    Args:
        session: the means, and the lake table.
    """

    def __init__(self, session: TableSession) -> None:
        self.session, self.entry, self.where = session, session.entry, session.where
        self.planner = session.planner

    @property
    def catalog(self) -> str:
        """The name of the lake's catalog."""
        return self.session.config.lake.catalog.name

    @property
    def lakes(self) -> Lakes:
        """The means by which rows of the shadow table are written."""
        session = self.session
        return Lakes(session.attempts.session, self.catalog, session.lake, self.planner)

    def spark(self) -> SparkSession:
        """Returns the Spark session, with the settings that decoding relies on."""
        return self.session.attempts.session()

    def execute(self, statement: str, step: str, effect_name: str) -> None:
        """Executes a statement that changes a table.

        Args:
            statement: in SQL.
            step: for errors.
            effect_name: for tests that interrupt the process there.

        Raises:
            CdcError: if it fails.
        """
        with translated(step, self.where), effect(effect_name):
            self.spark().sql(statement)

    def shadow_entry(self, generation: int) -> TableEntry:
        """Returns the shadow table as an entry that batches are merged into."""
        return replace(self.entry, target=shadow_name(self.entry, generation))

    def state(self) -> TableState | None:
        """Looks at the lake table; None if there is none."""
        return self.session.lake.state(self.entry.target, self.entry.shard_value)

    def shadow(self, generation: int) -> TableState | None:
        """Looks at the shadow table; None if there is none."""
        entry = self.shadow_entry(generation)
        return self.session.lake.state(entry.target, entry.shard_value)

    def standing(self) -> RebuildStanding:
        """Looks how far the rebuild has come; changes nothing.

        Raises:
            TerminalError: if there is no table to rebuild.
        """
        old = self.state()
        if old is None or not (old.published or old.is_lost):
            what = "there is nothing to rebuild: the table was not replicated yet"
            raise TerminalError(what, where=self.where, remedy="materialize it")
        done = generation_of(old)
        swapped = done > 0 and self.shadow(done) is not None
        return RebuildStanding(old, done + 1, self.shadow(done + 1), swapped)

    # ── tags on replaced snapshots ───────────────────────────────────────────────────────

    def tags(self) -> dict[int, str]:
        """Returns the tags by their numbers, the newest last."""
        names = re.compile(f"{self._kept}([0-9]+)")
        refs = self.session.lake.branches(self.entry.target)
        found = {int(n[1]): tag for tag in refs if (n := names.fullmatch(tag))}
        return dict(sorted(found.items()))

    def tag_for(self, old: TableState, generation: int) -> str:
        """Returns the tag for the head of the lake table that is about to be replaced."""
        lake, tags = self.session.lake, self.tags()
        refs = lake.branches(self.entry.target)
        snapshots = {number: refs[tag] for number, tag in tags.items() if tag in refs}
        own = {old.snapshot_id, *(lake.parents(old.name) if old.published else ())}
        return f"{self._kept}{tag_number(snapshots, generation, own)}"

    @property
    def _kept(self) -> str:
        """The start of the names of tags; each shard of a lake table has tags of its own."""
        shard = self.entry.shard
        return f"{KEPT}{shard.digest}_" if shard else KEPT

    # ── requirements ─────────────────────────────────────────────────────────────────────

    def require_possible(self, standing: RebuildStanding) -> None:
        """Requires that a table of the configured mode can replace the lake table.

        Iceberg deletes no rows of a table that was once partitioned by a column that is gone.

        Raises:
            TerminalError: if it cannot, or the shadow table is of another topic or configuration.
            TransientError: if the table has another topic by now.
        """
        self.require_own_topic(standing.old, standing.shadow)
        self.require_configured(standing.shadow, standing.generation)
        mode = self.session.config.source(self.entry.table.source).mode_of(self.entry.table)
        if standing.old.properties.get(MODE) != Mode.HISTORY or mode is Mode.HISTORY:
            return
        what = f"the table is a history, in whose place no {mode} can be put"
        remedy = "have it dropped and merged again: cdc-assets reset --table TABLE"
        raise TerminalError(what, where=self.where, remedy=remedy)

    def require_configured(self, shadow: TableState | None, generation: int) -> None:
        """Requires that the configuration is still the one that the shadow table was made with.

        Raises:
            TerminalError: if it is not. What helps otherwise, a rebuild, is under way.
        """
        if shadow is None:
            return
        try:
            self.planner.tables(self.shadow_entry(generation)).plan(shadow)
        except TerminalError as error:
            remedy = f"{self.begin_again}, or configure it as before"
            raise error.but(remedy=remedy) from None

    def require_own_topic(self, old: TableState, shadow: TableState | None) -> None:
        """Requires the topic of a table that a run may find to be renamed during the rebuild.

        A former topic's end comes to no more than the present topic began with.

        Raises:
            TerminalError: if the shadow table was filled from another topic than the lake table's.
            TransientError: if it is not filled yet, and the lake table has another topic by now.
        """
        topic = _topic_of(old) or self.entry.topic
        renamed = AtSource.of(old, self.entry.shard_value).renamed_to(topic)
        if renamed is None:
            return
        what = f"a run has found it renamed at its source, and continues with it as {renamed.name}"
        if (_topic_of(shadow) or topic) != topic:
            what = f"{what}: what was built so far is of the topic before"
            again = f"cdc-assets rebuild {self.entry.table} --abandon"
            raise TerminalError(what, where=self.where, remedy=f"begin again, after: {again}")
        if self.entry.topic != topic:
            raise TransientError(what, where=self.where, remedy="run the same command again")

    def require_same(self, shadow: TableState | None, begun: str | None) -> None:
        """Requires the shadow table that this process has begun with, or any if with none.

        Args:
            shadow: the shadow table as it is now.
            begun: the id of the one that this process has begun with; None if it has begun none.

        Raises:
            ConflictError: if another process has dropped it, or made another one.
        """
        if shadow is None or (begun is not None and id_of(shadow) != begun):
            raise self.moved()

    # ── errors of several steps ──────────────────────────────────────────────────────────

    @property
    def begin_again(self) -> str:
        """The remedy for a shadow table that cannot be completed."""
        table = self.entry.table
        if self.state() is None:
            return f"have it read again: cdc-assets reset --table {table}"
        return f"begin again, after: cdc-assets rebuild {table} --abandon"

    def moved(self) -> ConflictError:
        """Returns the error for a table that another process has changed."""
        what = "another process changed the table during its rebuild"
        return ConflictError(what, where=self.where, remedy="run the same command again")

    def begun_from_log(self, option: str) -> TerminalError:
        """Returns the error for an option that excludes a rebuild that has begun from the log."""
        what = "its rebuild has begun from its log"
        again = f"cdc-assets rebuild {self.entry.table} --abandon"
        remedy = f"continue without {option}, or: {again}"
        return TerminalError(what, where=self.where, remedy=remedy)


def tag_number(snapshots: Mapping[int, int], generation: int, own: Container[int | None]) -> int:
    """Returns the number of a rebuild's tag.

    A swap that was interrupted, or beaten, has tagged an earlier head: that tag is moved. A tag of
    an earlier rebuild never is. There are some if the table has lost its publishes, so that its
    rebuilds are counted from the first one again.

    Args:
        snapshots: the tagged snapshots, by the numbers of the tags.
        generation: the number of the rebuild.
        own: the head, and the earlier heads before it; the head alone if these are unknown.
    """
    newest = max(snapshots, default=0)
    is_own = newest >= generation and snapshots[newest] in own
    return newest if is_own else max(newest + 1, generation)


def generation_of(state: TableState) -> int:
    """Returns the number of rebuilds that were swapped into a table; 0 without any."""
    return state.published.carried.generation if state.published else 0


def side_mark_of(state: TableState | None) -> SideMark | None:
    """Returns the mark of the side table in the newest publish; None before the first."""
    return state.published.carried.side if state and state.published else None


def id_of(shadow: TableState) -> str:
    """Returns the id of a shadow table; empty if an older version reads it from its source."""
    return shadow.properties.get(ID, "")


def awaits_snapshot(shadow: TableState) -> bool:
    """Returns whether a shadow table begins where a snapshot is yet to be taken."""
    return BEGIN in shadow.properties and not shadow.properties.get(BEGIN_WHOLE)


def _topic_of(state: TableState | None) -> str | None:
    return state.published.topic if state and state.published else None


def _is_read(shadow: TableState) -> bool:
    said = shadow.published
    return said.carried.shadow is not None if said else READ_FROM_SOURCE in shadow.properties
