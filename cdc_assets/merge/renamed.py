"""Follows a table that was renamed at its source: its rows stay in the same lake table.

Changes under the new name come in a topic of their own, which discovery takes for a new table's.
Before the first batch of such a topic, `Renames.former` finds out whose rows these are, from
statements or from PostgreSQL's number of the table. If they are those of an existing table,
`Renames.follow` resumes:

1. All of its former topic is merged.
2. The new name is recorded as a property of the lake table.
3. A publish without rows replaces the old topic's offsets by the new one's. Positions continue, as
   they are the source's.

The caller updates the registry, which is a copy of the lake's state. Each step reads the present
state, so that all of them can be interrupted and repeated.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pyspark.sql import SparkSession

from cdc_assets.changes.missing import Missing
from cdc_assets.changes.names import TableName
from cdc_assets.changes.numbering import Numbering
from cdc_assets.changes.offsets import OffsetVector, total_length
from cdc_assets.changes.position import Scheme
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.changes.renamed import RenamedTable
from cdc_assets.changes.restarts import Restarts
from cdc_assets.config import ReplicationConfig
from cdc_assets.databases.kinds import SourceCatalog, catalog_of
from cdc_assets.effects import effect
from cdc_assets.errors import ConflictError, TerminalError
from cdc_assets.formats.layout import Layout
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.carried import Carried
from cdc_assets.lake.columns import columns_of
from cdc_assets.lake.quarantined import QuarantineLake
from cdc_assets.merge.apply.branch import Branch
from cdc_assets.merge.apply.publish import Publisher
from cdc_assets.merge.attempt import Connections
from cdc_assets.merge.intake.planning import Planner
from cdc_assets.merge.intake.unlogged_changes import by_statements
from cdc_assets.merge.plan.result import BatchResult, Waiting
from cdc_assets.merge.replicate import Replicator
from cdc_assets.merge.statements import sql
from cdc_assets.merge.statements.failures import translated
from cdc_assets.registry import TableEntry
from cdc_assets.schema.ddl import Relation
from cdc_assets.schema.history import StatementHistory
from cdc_assets.schema.silent import remembered

_SCHEMES: Final = frozenset(
    {Scheme.POSTGRES, Scheme.BINLOG, Scheme.MARIADB, Scheme.SQLSERVER, Scheme.ORACLE}
)
"""Schemes of positions that continue when a table is renamed, which Kafka's offsets do not."""

_ENOUGH: Final = float("inf")
_REBUILD: Final = (
    "renamed_table: new, and a new snapshot of the table; its rows are then in a table of that name"
)


@dataclass(frozen=True, slots=True)
class FormerTable:
    """The table under its former name that another table's changes belong to.

    Attributes:
        entry: as it was found.
        state: of the lake's table.
        history: from statements up to the renaming; None without statements.
    """

    entry: TableEntry
    state: TableState
    history: StatementHistory | None


class Renames:
    """A finder and follower of renamed tables.

    Args:
        config: the configuration.
        spark: returns the session.
        clock: wall clock.
        connections: None to open new ones.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        spark: Callable[[], SparkSession],
        *,
        clock: Callable[[], datetime],
        connections: Connections | None = None,
    ) -> None:
        self._config = config
        self._spark = spark
        self._clock = clock
        connections = connections or Connections.of(config)
        self._lake = QuarantineLake(config)
        self._histories = connections.histories
        self._planner = Planner(config, replace(connections, lake=self._lake), clock)
        self._replicator = Replicator(config, spark, clock=clock, connections=connections)

    # ── whose rows they are ──────────────────────────────────────────────────────────────

    def former(self, entry: TableEntry, entries: Iterable[TableEntry]) -> FormerTable | None:
        """Returns the table that has this one's name now; None if this is new, or none is known.

        Args:
            entry: a table of which nothing was merged.
            entries: all known tables.

        Raises:
            CdcError: if Kafka, the database or the catalog does not answer.
        """
        if entry.shard is not None or self._planner.format(entry).has_many_tables:
            return None
        source = self._config.source(entry.table.source)
        others = {
            each.at_source: each
            for each in entries
            if each.table.source == entry.table.source
            and each.table != entry.table
            and each.shard is None
            and source.follows_renamed(each.table)
        }
        if not others:
            return None
        database = source.database
        if database is not None and database.kind == "postgres":
            return self._by_identity(entry, others, catalog_of(database))
        return self._by_statements(entry, others)

    def _by_statements(
        self, entry: TableEntry, others: dict[TableName, TableEntry]
    ) -> FormerTable | None:
        fmt, called = self._planner.format(entry), _relation(entry.table)
        for was in self._histories.names_before(entry, fmt):
            old = next((e for name, e in others.items() if _relation(name).includes(was)), None)
            state = self._lake.state(old.target) if old is not None else None
            if old is None or state is None or state.published is None:
                continue
            said, scheme = AtSource.of(state, ""), Layout.of(state.properties).scheme
            if said.renamed_to(entry.topic) is not None:  # begun already
                return FormerTable(old, state, said.history)
            history = self._histories.renamed(old, fmt, scheme, said.history, called)
            return FormerTable(old, state, history) if history is not None else None
        return None

    def _by_identity(
        self, entry: TableEntry, others: dict[TableName, TableEntry], catalog: SourceCatalog
    ) -> FormerTable | None:
        """Finds the table by PostgreSQL's number, among those whose names no longer exist."""
        gone = others.keys() - catalog.existing(others)
        table = catalog.read([entry.table]).get(entry.table) if gone else None
        if table is None:
            return None
        for name in sorted(gone):
            state = self._lake.state(others[name].target)
            if state is None or state.published is None:
                continue
            if AtSource.of(state, "").identity == table.identity:
                return FormerTable(others[name], state, None)
        return None

    # ── going on with it ─────────────────────────────────────────────────────────────────

    def follow(
        self, former: FormerTable, entry: TableEntry, run_id: str
    ) -> Iterator[BatchResult | Waiting | RenamedTable]:
        """Merges the rest under the former name, and continues under the new one.

        The last item is for the registry, unless the rest cannot be merged yet.

        Raises:
            RenamedTableError: if the table cannot be followed.
            CdcError: if the table stops under its former name.
        """
        old = former.entry
        where = f"table={old.table} topic={old.topic} renamed={entry.table.qualified}"
        if former.state.published is not None and former.state.published.topic == entry.topic:
            renamed = AtSource.of(former.state, "").renamed_to(entry.topic)
            if renamed is None and former.entry.topic == entry.topic:
                what = "both names have one topic, whose former records are passed over by now"
                raise _cannot(what, where)
            if renamed is None:
                what = "the lake does not say what it was called before"
                raise _cannot(what, where)
            yield renamed
            return
        for done in self._replicator.drain(old, window=None, run_id=run_id, budget_seconds=_ENOUGH):
            yield done
            if isinstance(done, Waiting):
                return
        yield self._switched(former, entry, run_id, where)

    def _switched(
        self, former: FormerTable, entry: TableEntry, run_id: str, where: str
    ) -> RenamedTable:
        old, state = former.entry, self._lake.state(former.entry.target)
        published = state.published if state else None
        if state is None or published is None:
            what = "another process changed the table while it was followed"
            raise ConflictError(what, where=where, remedy="it is looked at again")
        left = total_length(published.offsets.ranges_to(self._planner.marks(old).end))
        if left:
            what = f"{left} records came under the name before meanwhile"
            raise ConflictError(what, where=where, remedy="they are merged first, by the next try")
        partitions = len(self._planner.marks(entry).end.offsets)
        if obstacle := self._obstacle(old, state, published, partitions):
            raise _cannot(obstacle, where)
        at = entry.table
        was = old.topic, published.offsets, published.topic_id
        renamed = RenamedTable(at.schema, at.name, entry.topic, *was)
        said = replace(AtSource.of(state, ""), renamed=renamed)
        if former.history is not None:
            said = self._with_statements(said, old, state, former.history)
        catalog = self._config.lake.catalog.name
        with translated("remember the new name", where), effect("spark: remember name"):
            properties = said.to_properties("")
            self._spark().sql(sql.set_properties(catalog, old.target, properties))
        self._publish(old, entry, state, published, run_id)
        return renamed

    def _with_statements(
        self, said: AtSource, old: TableEntry, state: TableState, history: StatementHistory
    ) -> AtSource:
        """Returns the state after statements up to the renaming, which no batch may have met."""
        policy, truncated = self._config.source(old.table.source).silent(old.table), ""
        if state.published is not None:
            truncated = state.published.carried.max_truncate
        table = columns_of(state)
        found = by_statements(history, said, table) if table is not None else ()
        silent = remembered(said.silent, [*found, *said.standing], self._clock(), truncated)
        return replace(said, history=history, silent=policy.heeded(silent))

    def _obstacle(
        self, old: TableEntry, state: TableState, published: Published, partitions: int
    ) -> str:
        """Returns why the recorded state does not fit the other topic; empty if it does."""
        scheme, had = Layout.of(state.properties).scheme, published.carried.partitions
        if scheme not in _SCHEMES:
            return "its positions are offsets of the topic before"
        if partitions != had:
            return f"its topic has {partitions} partitions, where the one before had {had}"
        if _began_again(scheme, published.carried.numbering):
            return "its positions began again, under the name before"
        _, kept = self._lake.quarantined(old.table.source, old.table.qualified, 0)
        if kept:
            return f"{kept} records of the topic before are in quarantine: replay or drop them"
        return ""

    def _publish(
        self,
        old: TableEntry,
        entry: TableEntry,
        state: TableState,
        before: Published,
        run_id: str,
    ) -> None:
        identity, attempt = self._planner.identity(entry), str(uuid.uuid4())
        published = replace(
            before,
            offsets=OffsetVector.of(dict.fromkeys(range(before.carried.partitions), 0)),
            start=before.offsets,
            topic=entry.topic,
            topic_id=identity.topic_id,
            cluster_id=identity.cluster_id,
            attempt=attempt,
            run=run_id,
            kind=PublishKind.RENAME,
            published_at=self._clock(),
            carried=_in_another_topic(before.carried, Layout.of(state.properties).scheme),
            counts={},
        )
        plan = self._planner.swap(old, state, published)
        publisher = Publisher(self._spark(), self._config.lake.catalog.name, self._lake, plan)
        branch = Branch(publisher)
        with branch.dropped_on_failure(), translated("publish the new name", plan.where):
            table = sql.table(self._config.lake.catalog.name, old.target)
            branch.write(self._spark().table(table).limit(0), published.to_properties())
        branch.publish()


class RenamedTableError(TerminalError):
    """A table was renamed at its source, and cannot continue with the rows that it has."""

    page = "renamed-table"


def _cannot(what: str, where: str) -> RenamedTableError:
    said = f"the table is called otherwise at its source and cannot be followed: {what}"
    return RenamedTableError(said, where=where, remedy=_REBUILD)


def _in_another_topic(carried: Carried, scheme: Scheme) -> Carried:
    """Returns the state to record for a topic with offsets from 0, whose records are all newer."""
    starts = {
        partition: ((-1, max(lsn for _, lsn in begins)),) if begins else ()
        for partition, begins in carried.snapshot_starts.items()
    }
    numbering = carried.numbering
    if scheme in {Scheme.BINLOG, Scheme.MARIADB}:
        said = Numbering.from_json(numbering)
        partitions = {p: replace(each, next_offset=0) for p, each in said.partitions.items()}
        numbering = replace(said, partitions=partitions).to_json()
    shadow = carried.shadow
    if shadow is not None and shadow.until is not None:
        # All of the topic before is merged, to this end and beyond: the adoption may end.
        shadow = replace(shadow, until=OffsetVector())
    return replace(
        carried,
        settles_at=None,
        settled_at="",
        key_schemas=(),
        snapshot_starts=starts,
        numbering=numbering,
        read_from=None,
        own_from=None,
        missing=Missing(),
        last_merged={},
        shadow=shadow,
    )


def _began_again(scheme: Scheme, numbering: str) -> bool:
    """Returns whether the positions ever began again, as the places of that are offsets."""
    if scheme in {Scheme.BINLOG, Scheme.MARIADB}:
        return bool(Numbering.from_json(numbering).restarts)
    return bool(Restarts.from_json(numbering).accepted)


def _relation(table: TableName) -> Relation:
    return Relation(table.schema, table.name)
