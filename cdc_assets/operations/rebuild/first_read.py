"""Reads a new table's first rows from its source, for `initial: read`.

The first read is a rebuild without an old table: rebuild 0. Its shadow table, ``<name>__rebuild0``,
is filled by the same steps (`shadow_rows.ShadowFromSource`, decision 14 in docs/decisions/), with
three differences:

1. *Begin.* No position is known that the lake has applied, so rows are put below every change, and
   the log is merged over them from an hour before its end on. A topic that does not exist yet
   counts as an empty one. Before anything is read, the connector must have delivered a place of the
   log: it streams from then on at the latest, so that no change falls between it and the rows.
2. *Requirements.* The connector must capture the table: its changes would be missed unnoticed.
3. *Name.* Once the shadow table has merged the log up to where all rows were delivered, and no
   doubt is left, a last publish says that it is whole. Then the catalog gives it the table's name.
   Readers see no table before, and a whole one from then on; no row is copied.

Each step looks at the shadow table first. A process that dies leaves the shadow table at one of its
publishes, and the next one continues from there: with the next range of keys, with the log, or with
the new name. Of two processes, one conflicts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from cdc_assets.changes.names import TableName
from cdc_assets.databases.kinds import catalog_of
from cdc_assets.errors import ConfigError, LogReplacedError, LostRangeError, TerminalError
from cdc_assets.lake import TableState
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.log.connect import captures, connect_of, described_connector
from cdc_assets.merge.plan.result import BatchResult
from cdc_assets.operations.rebuild.shadow_rows import ShadowFromSource
from cdc_assets.operations.rebuild.shadow_table import ShadowTable
from cdc_assets.operations.rebuild.swap import is_settled
from cdc_assets.operations.rebuild.table_rebuild import TableRebuild
from cdc_assets.operations.rebuild.tables import RebuildStanding
from cdc_assets.operations.session import TableSession

_FIRST: Final = 0
"""The number of the rebuild."""


class FirstRead:
    """A first read of one table, in one process.

    Args:
        session: the means, and the table, which the lake does not have.
    """

    def __init__(self, session: TableSession) -> None:
        self._session, self._entry, self._where = session, session.entry, session.where
        self._rebuild = TableRebuild(session)
        self._tables = self._rebuild.tables
        name = self._entry.table.qualified
        otherwise = (
            f"write initial: log for it (tables.{name}.initial), and have its connector take a "
            "snapshot of the table"
        )
        self._source = ShadowFromSource(session, self._rebuild, session.say, otherwise)

    def steps(self) -> Generator[ShadowProgress, None, None]:
        """Carries the read out, from the place on at which an earlier try ended.

        Yields:
            The progress after each publish. The caller may leave off at any of them.

        Raises:
            TransientError: if a transaction or a delivery that is awaited did not come.
            CdcError: if the table cannot be read, or a part does not answer; rows that were read
                before stay.
        """
        if self._tables.state() is not None:  # another process has come to the end
            return
        shadow = self._tables.shadow(_FIRST)
        if shadow is None:
            self._require_captured()
        self._tables.require_configured(shadow, _FIRST)
        if not _is_whole(shadow):
            standing = RebuildStanding(TableState.absent(self._entry.target), _FIRST, shadow, False)
            yield from self._source.waves(standing)
            if not (yield from self._is_merged(standing)):
                return
            ShadowTable(self._tables, _FIRST).finish()
        shadow = self._tables.shadow_entry(_FIRST).target
        self._session.lake.rename(shadow, self._entry.target, "write initial: log")

    def _is_merged(self, standing: RebuildStanding) -> Generator[ShadowProgress, None, bool]:
        """Merges the log; returns whether the shadow table is one state of its source."""
        before = -1
        settled = 0
        while settled != before:  # a comparison takes its time, and may be of new doubts
            for _ in self._merged(standing):
                yield ShadowTable(self._tables, _FIRST).progress
            before, settled = settled, self._source.settle_doubts(standing, settled)
        state = self._tables.shadow(_FIRST)
        published = state.published if state else None
        return published is not None and is_settled(published, settled)

    def _merged(self, standing: RebuildStanding) -> Iterator[BatchResult]:
        try:
            yield from self._rebuild.fill(standing)
        except (LostRangeError, LogReplacedError) as error:
            remedy = f"lengthen the topic's retention, and {self._tables.begin_again}"
            raise error.but(remedy=remedy) from None

    # ── requirements ─────────────────────────────────────────────────────────────────────

    def _require_captured(self) -> None:
        """Requires that the connector captures the table, as far as that can be known.

        Raises:
            ConfigError, TerminalError: if it does not.
            UnreachableError: if the database or Kafka Connect does not answer.
        """
        config, name = self._session.config, self._entry.at_source
        source = config.source(self._entry.table.source)
        if self._session.services.formats[self._entry.table.source].has_many_tables:
            what = f"records of {source.format} name their tables, and no topic belongs to one"
            raise ConfigError(what, where=self._where, remedy="write initial: log")
        connect = connect_of(config, self._entry.table.source)
        settings = described_connector(config, self._entry)[1] if connect else {}
        if not captures(settings, name.schema, name.name):
            what = "its connector leaves the table out: changes of its rows would never come"
            remedy = "add it to table.include.list there, or exclude its topic (topics.exclude)"
            raise TerminalError(what, where=self._where, remedy=remedy)
        if settings.get("plugin.name", "pgoutput") == "pgoutput":
            self._require_published(name, source.publication or settings.get("publication.name"))

    def _require_published(self, name: TableName, publication: str | None) -> None:
        """Requires that the database publishes all changes of the table's rows."""
        database = self._session.config.source(self._entry.table.source).database
        table = catalog_of(database).read([name]).get(name) if database else None
        unsent = table.unsent_by(publication) if table else ("the database does not have it",)
        if unsent:
            what = f"changes of its rows would never come: {'; '.join(unsent)}"
            remedy = "ALTER PUBLICATION … ADD TABLE, or exclude its topic (topics.exclude)"
            raise TerminalError(what, where=self._where, remedy=remedy)


def _is_whole(shadow: TableState | None) -> bool:
    """Returns whether the shadow table has all rows, and lacks only its new name."""
    published = shadow.published if shadow else None
    return published is not None and published.carried.shadow is None
