"""All discovered tables as one value, whose names do not collide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from cdc_assets.changes.names import TableName, stored_parts
from cdc_assets.changes.renamed import RenamedTable
from cdc_assets.errors import TerminalError
from cdc_assets.registry.entries import Beginning, Dropped, OtherTopic, TableEntry, Taken


@dataclass(frozen=True)
class Registry:
    """The entries in order of their tables' names; no two share a table, or a name.

    ``others`` are topics that were found not to be tables, in order of their names.

    Raises:
        TerminalError: if two tables map to one lake name and are not shards of it, or to one shard
            or asset; or are written alike, as ``a.b`` in schema ``c`` and ``b`` in ``c.a`` are.
            Catalogs and file systems may ignore case, so names that differ only in case collide,
            too.
    """

    entries: tuple[TableEntry, ...] = ()
    others: tuple[OtherTopic, ...] = ()

    def __post_init__(self) -> None:
        owners: dict[tuple[str, ...], TableEntry] = {}
        for entry in self.entries:
            for name in _names(entry):
                other = owners.setdefault(name, entry)
                if other is not entry and not (name[0] == "lake" and _share(other, entry)):
                    raise _collision(other, entry)

    @classmethod
    def of(cls, entries: Iterable[TableEntry], others: Iterable[OtherTopic] = ()) -> Registry:
        """Builds a sorted registry; keeps the first of several entries of a table or topic."""
        by_table: dict[TableName, TableEntry] = {}
        for entry in entries:
            by_table.setdefault(entry.table, entry)
        by_topic: dict[str, OtherTopic] = {}
        for other in others:
            by_topic.setdefault(other.topic, other)
        return cls(
            tuple(by_table[table] for table in sorted(by_table)),
            tuple(by_topic[topic] for topic in sorted(by_topic)),
        )

    def with_entries(self, entries: Iterable[TableEntry]) -> Registry:
        """Returns the registry with new entries.

        Those of known tables confirm these, and say that records name them. The hours of new tables
        begin where those of the registry's tables do.
        """
        new = tuple(entries)
        if (first := self.hours_from) is not None:
            new = tuple(replace(each, hours_from=first) for each in new)
        confirmed = {entry.table for entry in new if entry.is_confirmed}
        named = {each.table: each for each in new if each.taken is Taken.NAMED}
        known = (
            replace(
                _confirmed(entry, named.get(entry.table)),
                is_confirmed=entry.is_confirmed or entry.table in confirmed,
            )
            for entry in self.entries
        )
        tables = {entry.topic for entry in new}
        others = (other for other in self.others if other.topic not in tables)
        return Registry.of((*known, *new), others)

    def with_others(self, others: Iterable[OtherTopic]) -> Registry:
        """Returns the registry with more topics that are no tables; these replace known ones."""
        return Registry.of(self.entries, (*others, *self.others))

    def with_renamed(self, table: TableName, renamed: RenamedTable) -> Registry:
        """Returns the registry with a table's present name at its source.

        An entry that was discovered under that name is removed.
        """
        called = TableName(table.source, renamed.schema, renamed.name)
        entries = (
            replace(
                each,
                topic=renamed.topic,
                renamed=renamed,
                dropped=None,
                begins=None,
                is_shared=False,
            )
            if each.table == table
            else each
            for each in self.entries
            if each.table == table or each.table != called
        )
        return Registry.of(entries, self.others)

    def with_shared(self, topic: str) -> Registry:
        """Returns the registry with a topic that has held records of several tables."""
        return self._each(lambda e: replace(e, is_shared=True) if e.topic == topic else e)

    def with_dropped(self, dropped: Mapping[TableName, Dropped | None]) -> Registry:
        """Returns the registry with tables marked as dropped at their sources, or not (None)."""
        return self._each(lambda e: replace(e, dropped=dropped.get(e.table, e.dropped)))

    def with_comments(self, comments: Mapping[TableName, str]) -> Registry:
        """Returns the registry with the comments of tables."""
        return self._each(lambda e: replace(e, comment=comments.get(e.table, e.comment)))

    def with_beginning(self, table: TableName, begins: Beginning) -> Registry:
        """Returns the registry with the place where a table begins in its topic."""
        return self._each(lambda e: replace(e, begins=begins) if e.table == table else e)

    def _each(self, change: Callable[[TableEntry], TableEntry]) -> Registry:
        return Registry.of(map(change, self.entries), self.others)

    def without(self, tables: Iterable[TableName]) -> Registry:
        """Returns the registry without these tables."""
        gone = set(tables)
        return Registry.of((each for each in self.entries if each.table not in gone), self.others)

    @property
    def hours_from(self) -> datetime | None:
        """The start of the first partition of all tables; None without tables."""
        return min((each.hours_from for each in self.entries), default=None)

    @cached_property
    def _by_table(self) -> dict[TableName, TableEntry]:
        return {entry.table: entry for entry in self.entries}

    @cached_property
    def tables(self) -> frozenset[TableName]:
        """The names of all tables."""
        return frozenset(self._by_table)

    def get(self, table: TableName) -> TableEntry | None:
        """Returns the entry of a table; None if the table is not registered."""
        return self._by_table.get(table)

    def __iter__(self) -> Iterator[TableEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def _confirmed(entry: TableEntry, by_records: TableEntry | None) -> TableEntry:
    """Returns the entry under the name that records give its table, if they give one."""
    if by_records is None:
        return entry
    is_shared = entry.is_shared or by_records.is_shared
    return replace(entry, taken=Taken.NAMED, is_shared=is_shared)


def _names(entry: TableEntry) -> tuple[tuple[str, ...], ...]:
    """Returns an entry's unique names: its tables in the lake, its asset, and its text."""
    return (
        ("lake", str(entry.target).casefold()),
        ("beside", str(entry.stem).casefold()),
        ("asset", *(part.casefold() for part in stored_parts(entry.table))),
        ("text", str(entry.table)),
    )


def _share(one: TableEntry, other: TableEntry) -> bool:
    """Whether two tables may share a lake table, with one column that distinguishes their rows."""
    if one.shard is None or other.shard is None or one.target != other.target:
        return False
    return one.shard.column == other.shard.column


def _collision(one: TableEntry, other: TableEntry) -> TerminalError:
    where = f"topics {one.topic}, {other.topic}"
    if _share(one, other):
        msg = f"{one.table} and {other.table} would both be the same shard of {other.target}"
        remedy = "let merge_into.shard distinguish them"
        return TerminalError(msg, where=where, remedy=remedy)
    if str(one.target).casefold() == str(other.target).casefold():
        msg = f"{one.table} and {other.table} would both be written to {other.target}"
        remedy = (
            "make the names differ with target.namespace or target.table (case does not count), "
            "or have both merged by merge_into, with one shard_column. If a source was renamed, "
            "write the new name as `source` of its tables in the registry's document"
        )
    else:
        msg = f"{one.table!r} and {other.table!r} cannot be distinguished by their names"
        remedy = "make them two sources, or exclude one of them (case does not count)"
    return TerminalError(msg, where=where, remedy=remedy)
