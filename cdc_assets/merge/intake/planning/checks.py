"""Checks that a table's committed offsets are valid in its present topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cdc_assets.errors import ConflictError, LogReplacedError, TerminalError, TransientError
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.at_source import AtSource
from cdc_assets.lake.properties import ADOPTED
from cdc_assets.log.kafka import KafkaLog
from cdc_assets.log.left_behind import late_under_old_name
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.intake.planning.configured import Configured
from cdc_assets.merge.intake.planning.continuity import require_same_log
from cdc_assets.merge.intake.planning.topics import BEGIN_TOPIC
from cdc_assets.merge.plan.stable_partitions import require_unmoved
from cdc_assets.registry import TableEntry

_ONCE_READ: Final = "run the same command again once it has"


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of tables before planning.

    Attributes:
        configured: the tables.
        log: Kafka, asked for records under former names.
    """

    configured: Configured
    log: KafkaLog

    def require_none_late(self, entry: TableEntry) -> None:
        """Fails if records have come under the table's former name.

        Raises:
            TerminalError: if some have, which may be changes of rows that are newer by now.
        """
        late = late_under_old_name(entry, self.log)
        if late is not None:
            raise late

    def require_same_log(
        self,
        entry: TableEntry,
        state: TableState | None,
        published: Published,
        identity: TopicIdentity,
    ) -> None:
        """Fails if the topic was recreated since the offsets were committed.

        Args:
            entry: the table.
            state: of the lake's table.
            published: its newest publish.
            identity: of the topic as it is.

        Raises:
            TransientError: if the table was renamed since its entry was read.
            LogReplacedError: for other reasons; see `require_same_log`.
        """
        if published.topic != entry.topic:
            renamed = AtSource.of(state, entry.shard_value).renamed_to(published.topic)
            if renamed is not None:
                what = f"another step or run has continued it as {renamed.schema}.{renamed.name}"
                where = f"table={entry.table} topic={entry.topic}"
                raise TransientError(what, where=where, remedy="the next try reads that topic")
        require_same_log(entry, published, identity, self.configured.rebuild_command(entry))

    def require_unmoved(
        self, entry: TableEntry, state: TableState | None, published: Published, marks: Watermarks
    ) -> None:
        """Fails if keys have moved between partitions; see `require_unmoved`.

        Raises:
            MovedKeysError: if they have, and nothing but offsets orders changes.
        """
        if published.carried.partitions != len(marks.end.offsets):
            scheme = self.configured.tables(entry).plan(state).first.layout.scheme
            require_unmoved(entry, scheme, published, marks)


def require_offsets(entry: TableEntry, state: TableState | None) -> None:
    """Fails if a table with snapshots has no offsets: neither its own nor other shards'.

    Raises:
        TerminalError: if it lost them, or somebody else made it.
    """
    is_new_shard = bool(state and state.others)
    if state and state.snapshot_id is not None and not (state.published or is_new_shard):
        raise _without_offsets(entry, state)


def require_read(entry: TableEntry, state: TableState | None) -> None:
    """Fails as long as another process still reads the table's rows from its source.

    That process appends each wave of keys without a look at the table's rows: a row that a batch
    had written before would be in the table twice.

    Raises:
        ConflictError: if it has not; see `cdc_assets.operations.rebuild.shadow_rows`.
    """
    shadow = state.published.carried.shadow if state and state.published else None
    if shadow is not None and shadow.until is None:
        what, remedy = "another process is reading the table's rows from the source", _ONCE_READ
        where = f"table={entry.table} lake={entry.target}"
        if state and (found := state.properties.get(ADOPTED)):
            what = "the table is being adopted, and its rows are yet to be compared with the source"
            remedy = f"let the command end: cdc-assets adopt {entry.table} --existing {found}"
        raise ConflictError(what, where=where, remedy=remedy)


def require_begun_here(entry: TableEntry, state: TableState, identity: TopicIdentity) -> None:
    """Fails if a table without a publish was begun for another topic than its present one.

    Raises:
        LogReplacedError: if it was begun for another one.
    """
    if state.properties.get(BEGIN_TOPIC, identity.topic_id) != identity.topic_id:
        what = "the topic is not the one in which the rebuild of this table was to begin"
        again = f"cdc-assets rebuild {entry.table} --abandon"
        where = f"table={entry.table} topic={entry.topic} lake={entry.target}"
        raise LogReplacedError(what, where=where, remedy=f"begin again, after: {again}")


def _without_offsets(entry: TableEntry, state: TableState) -> TerminalError:
    where = f"table={entry.table} lake={entry.target}"
    if found := state.properties.get(ADOPTED):
        what = f"the table is being adopted, and the adoption was not completed: it was {found}"
        remedy = f"cdc-assets adopt {entry.table} --existing {found}"
        return TerminalError(what, where=where, remedy=remedy)
    if state.is_lost:
        what = (
            "the lake table lost its offsets: neither its snapshots nor earlier metadata files "
            "have one of our publishes"
        )
        remedy = f"rebuild it, while readers keep its rows: cdc-assets rebuild {entry.table}"
        return TerminalError(what, where=where, remedy=remedy, page="lost-offsets")
    what = "the lake table exists but was not made by cdc_assets, or for other source tables"
    remedy = (
        f"take it over (cdc-assets adopt {entry.table} --existing {entry.target}), drop it, or "
        "give this table another target in the configuration"
    )
    return TerminalError(what, where=where, remedy=remedy, page="foreign-table")
