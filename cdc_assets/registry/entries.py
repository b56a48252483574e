"""The tables that discovery has found, and the topics that are no tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from cdc_assets.changes.names import LakeName, Shard, TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.renamed import RenamedTable

HOURS_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The earliest start of a partition, and that of the first one of tables that were registered
before the registry noted it. It must never change."""

UNTAKEN: Final = "changes that no table takes"
"""Beginning of ``OtherTopic.holds`` for a topic whose changes are merged nowhere."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A table that its source no longer has.

    Attributes:
        at: when the drop was noticed, aware.
        end: the offsets from which its topic holds another table's changes, if the lake's table was
            dropped, too; None if the lake keeps its rows.
        topic_id: the id of the topic to which ``end`` refers; empty if an earlier version noted the
            end, whose topic may have been recreated since.
        place: a place in the source's log that was read after the table was gone: all of its
            changes lie before it. Empty if it was not read, or is not needed any more.
        waits_for: what is waited for before the lake's table is dropped, for people; empty if it
            is not to be dropped, or is.
    """

    at: datetime
    end: OffsetVector | None = None
    topic_id: str = ""
    place: str = ""
    waits_for: str = ""

    def end_in(self, topic_id: str) -> OffsetVector | None:
        """Returns the end in this topic; None if it was recreated: all is another table's."""
        return self.end if self.topic_id == topic_id else None


@dataclass(frozen=True, slots=True)
class Beginning:
    """The offsets in its topic from which on a table's own changes come.

    Attributes:
        at: offsets; earlier records belong to another table, or to the table's former rows.
        topic_id: the id of that topic: if the topic is recreated, all its records are the table's.
    """

    at: OffsetVector
    topic_id: str

    def at_in(self, topic_id: str) -> OffsetVector:
        """Returns the offsets in this topic; an empty vector if the topic was recreated."""
        return self.at if self.topic_id == topic_id else OffsetVector()


class Taken(StrEnum):
    """The records of a table's topic that are its own, where its format's topics name tables.

    ``ALL``: all of them, as of tables that an earlier build registered. ``UNLESS_NAMED``: all but
    those that name another table; the topic's name named it. ``NAMED``: those that name it, as its
    first ones did.
    """

    ALL = "all"
    UNLESS_NAMED = "unless named"
    NAMED = "named"


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A discovered table, with the topic of its changes and the target of its rows.

    ``is_confirmed``: a change event was seen in its topic, or the configuration lists it. A table
    whose topic had no records yet is registered by its name alone. ``shard`` distinguishes its rows
    from those of other tables that are merged into the same lake table; None if it has one of its
    own. ``renamed``: its present name at its source, if that has changed since discovery; here, in
    the lake and in Dagster it keeps its name. ``dropped``: its source no longer has it.
    ``begins``: where it begins in its topic, as it did when people had it removed from the lake;
    None for the log's beginning. ``taken``: which of its topic's records are its own.
    ``is_shared``: whether its topic has held records of other tables. ``comment``: the source's
    comment on it, as the lake table had it last. ``hours_from``: the start of its first partition,
    a full hour in UTC, at which the replication's hours begin; the same for all tables.
    """

    table: TableName
    topic: str
    target: LakeName
    discovered_at: datetime
    is_confirmed: bool = True
    shard: Shard | None = None
    renamed: RenamedTable | None = None
    dropped: Dropped | None = None
    begins: Beginning | None = None
    taken: Taken = Taken.ALL
    is_shared: bool = False
    comment: str = ""
    hours_from: datetime = HOURS_START

    @property
    def at_source(self) -> TableName:
        """The table by its present name in its database."""
        if self.renamed is None:
            return self.table
        return TableName(self.table.source, self.renamed.schema, self.renamed.name)

    @property
    def shard_value(self) -> str:
        """The shard's value; empty for a table with a lake table of its own."""
        return self.shard.value if self.shard else ""

    @property
    def stem(self) -> LakeName:
        """The name from which the side tables' names derive; each shard has its own side tables."""
        if self.shard is None:
            return self.target
        return LakeName(self.target.namespace, f"{self.target.name}__{self.shard.digest}")


@dataclass(frozen=True, slots=True)
class OtherTopic:
    """A topic that could be a table's by its name, but holds something else.

    ``holds`` says what it holds; ``looked_at`` when it was last examined. A topic that holds
    changes that nobody merges may be that of a table, too.
    """

    topic: str
    holds: str
    looked_at: datetime

    @property
    def is_untaken(self) -> bool:
        """Whether the topic holds changes that are merged nowhere."""
        return self.holds.startswith(UNTAKEN)
