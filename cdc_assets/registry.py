"""Stores the discovered tables in a small document, so that loading definitions touches no network.

Discovery rebuilds it from Kafka and the configuration, but for the places where changes begin of
tables that were removed from the lake.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from fsspec.implementations.local import LocalFileSystem

from cdc_assets.changes.lake_names import stored_parts
from cdc_assets.changes.names import LakeName, Shard, TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.renamed import Renamed
from cdc_assets.effects import effect
from cdc_assets.errors import TerminalError, UnreachableError
from cdc_assets.files import as_os_errors, files_at, replace_file

VERSION = 1


@dataclass(frozen=True, slots=True)
class Dropped:
    """A table that its source no longer has.

    Attributes:
        at: when that was noticed, aware.
        end: the offsets from which its topic holds another table's changes, if the lake's table was
            dropped, too; None if the lake keeps its rows.
        topic_id: the id of that topic; empty if an earlier version noted the end, which may then be
            one of a topic that was made anew since.
    """

    at: datetime
    end: OffsetVector | None = None
    topic_id: str = ""

    def end_in(self, topic_id: str) -> OffsetVector | None:
        """Returns the end if it is of this topic: all of one made anew is another table's."""
        return self.end if self.topic_id == topic_id else None


@dataclass(frozen=True, slots=True)
class Beginning:
    """The place in its topic behind which a table's own changes come.

    Attributes:
        at: offsets; what lies before them belongs to another table, or to rows of before.
        topic_id: the id of that topic: all of one made anew is the table's own.
    """

    at: OffsetVector
    topic_id: str

    def at_in(self, topic_id: str) -> OffsetVector:
        """Returns the offsets if they are of this topic; else none."""
        return self.at if self.topic_id == topic_id else OffsetVector()


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A discovered table, with the topic of its changes and the target of its rows.

    ``is_confirmed``: a change event was seen in its topic, or the configuration lists it. A table
    whose topic had no records yet is registered by its name alone. ``shard`` distinguishes its rows
    from those of other tables that are merged into the same lake table; None if it has one of its
    own. ``renamed``: its present name at its source, if that has changed since discovery; here, in
    the lake and in Dagster it keeps its name. ``dropped``: its source no longer has it.
    ``begins``: where it begins in its topic, as it did when people had it removed from the lake;
    None for the log's beginning.
    """

    table: TableName
    topic: str
    target: LakeName
    discovered_at: datetime
    is_confirmed: bool = True
    shard: Shard | None = None
    renamed: Renamed | None = None
    dropped: Dropped | None = None
    begins: Beginning | None = None

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
        """The name from which those of its side tables derive; shards do not share these."""
        if self.shard is None:
            return self.target
        return LakeName(self.target.namespace, f"{self.target.name}__{self.shard.digest}")


@dataclass(frozen=True, slots=True)
class OtherTopic:
    """A topic that could be a table's by its name, but holds something else.

    ``holds`` says what it holds; ``looked_at`` when it was last examined.
    """

    topic: str
    holds: str
    looked_at: datetime


@dataclass(frozen=True, slots=True)
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
        """Returns the registry with new entries; entries of known tables only confirm these."""
        new = tuple(entries)
        confirmed = {entry.table for entry in new if entry.is_confirmed}
        known = (
            replace(entry, is_confirmed=entry.is_confirmed or entry.table in confirmed)
            for entry in self.entries
        )
        tables = {entry.topic for entry in new}
        others = (other for other in self.others if other.topic not in tables)
        return Registry.of((*known, *new), others)

    def with_others(self, others: Iterable[OtherTopic]) -> Registry:
        """Returns the registry with more topics that are no tables; these replace known ones."""
        return Registry.of(self.entries, (*others, *self.others))

    def with_renamed(self, table: TableName, renamed: Renamed) -> Registry:
        """Returns the registry with a table's present name at its source.

        An entry that was discovered under that name is removed.
        """
        called = TableName(table.source, renamed.schema, renamed.name)
        entries = (
            replace(each, topic=renamed.topic, renamed=renamed, dropped=None, begins=None)
            if each.table == table
            else each
            for each in self.entries
            if each.table == table or each.table != called
        )
        return Registry.of(entries, self.others)

    def with_dropped(self, dropped: Mapping[TableName, Dropped | None]) -> Registry:
        """Returns the registry with tables marked as dropped at their sources, or not (None)."""
        return Registry.of(
            (replace(each, dropped=dropped.get(each.table, each.dropped)) for each in self.entries),
            self.others,
        )

    def with_beginning(self, table: TableName, begins: Beginning) -> Registry:
        """Returns the registry with the place where a table begins in its topic."""
        return Registry.of(
            (
                replace(each, begins=begins) if each.table == table else each
                for each in self.entries
            ),
            self.others,
        )

    def without(self, tables: Iterable[TableName]) -> Registry:
        """Returns the registry without these tables."""
        gone = set(tables)
        return Registry.of((each for each in self.entries if each.table not in gone), self.others)

    @property
    def tables(self) -> frozenset[TableName]:
        """The names of all tables."""
        return frozenset(entry.table for entry in self.entries)

    def get(self, table: TableName) -> TableEntry | None:
        """Returns the entry of a table; None if there is none."""
        return next((entry for entry in self.entries if entry.table == table), None)

    def __iter__(self) -> Iterator[TableEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def to_json(self) -> str:
        """Returns the document."""
        tables = [_entry_to_dict(entry) for entry in self.entries]
        others = [_other_to_dict(other) for other in self.others]
        document = {"version": VERSION, "tables": tables, "not_tables": others}
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Registry:
        """Parses a document of `to_json`.

        Raises:
            ValueError: if it is not such a document.
            TerminalError: if it has another version.
        """
        document = cast("dict[str, Any]", json.loads(text))
        if document.get("version") != VERSION:
            msg = f"the registry has version {document.get('version')}, this is {VERSION}"
            raise TerminalError(msg, remedy="upgrade cdc_assets, or delete it to rebuild it")
        others = document.get("not_tables", ())
        return cls.of(
            (_entry_from_dict(each) for each in document["tables"]),
            (_other_from_dict(each) for each in others),
        )


class RegistryFile:
    """The registry at a path or fsspec URL.

    Replacing it is atomic if the file system can rename or puts whole objects. Writers on
    one machine are serialised by a lock beside a local file; on object stores the last of
    two simultaneous writers wins, and discovery adds missing tables again.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._path = files_at(url)
        self._last: tuple[bytes, Registry] | None = None

    def load(self) -> Registry:
        """Returns the stored registry; an empty one if there is none yet.

        Raises:
            UnreachableError: if the place does not answer.
            TerminalError: if the file is not a registry.
        """
        try:
            with as_os_errors():
                content = cast("bytes", self._files.cat_file(self._path))
        except FileNotFoundError:
            return Registry()
        except OSError as error:
            raise self._unreachable(action="read") from error
        last = self._last
        if last is not None and last[0] == content:  # sensors read it every few seconds
            return last[1]
        try:
            found = Registry.from_json(content.decode())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            msg = "the registry is not readable as one"
            remedy = "delete it: discovery rebuilds it"
            raise TerminalError(msg, where=self.url, remedy=remedy) from error
        self._last = (content, found)
        return found

    def add(self, entries: Iterable[TableEntry]) -> Registry:
        """Adds entries of new tables, and returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
            TerminalError: if two tables would share a lake name; nothing is stored.
        """
        with self._lock():
            before = self.load()
            after = before.with_entries(entries)
            if after != before:
                self._replace(after)
        return after

    def set_aside(self, others: Iterable[OtherTopic], tables: Iterable[TableName] = ()) -> Registry:
        """Records topics that are no tables, removes the tables that they were taken for.

        Returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
        """
        with self._lock():
            before = self.load()
            after = before.without(tables).with_others(others)
            if after != before:
                self._replace(after)
        return after

    def mark_dropped(self, dropped: Mapping[TableName, Dropped | None]) -> Registry:
        """Records which tables their sources no longer have, and returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
        """
        with self._lock():
            before = self.load()
            after = before.with_dropped(dropped)
            if after != before:
                self._replace(after)
        return after

    def begin(self, table: TableName, begins: Beginning) -> Registry:
        """Records where a table begins in its topic, and returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
        """
        with self._lock():
            before = self.load()
            after = before.with_beginning(table, begins)
            if after != before:
                self._replace(after)
        return after

    def rename(self, table: TableName, renamed: Renamed) -> Registry:
        """Records a table's present name at its source, and returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
        """
        with self._lock():
            before = self.load()
            after = before.with_renamed(table, renamed)
            if after != before:
                self._replace(after)
        return after

    def remove(self, tables: Iterable[TableName]) -> Registry:
        """Removes tables, and returns the registry as stored.

        Raises:
            UnreachableError: if the place does not answer.
        """
        with self._lock():
            after = self.load().without(tables)
            self._replace(after)
        return after

    def _replace(self, registry: Registry) -> None:
        content = registry.to_json().encode()
        try:
            with effect("registry: replace"):
                replace_file(self._files, self._path, content)
        except OSError as error:
            raise self._unreachable(action="written") from error

    @contextmanager
    def _lock(self) -> Generator[None]:
        if not isinstance(self._files, LocalFileSystem):
            yield
            return
        path = Path(f"{self._path}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = path.open("w")
        except OSError as error:
            raise self._unreachable(action="written") from error
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _unreachable(self, *, action: str) -> UnreachableError:
        msg = f"the registry cannot be {action}"
        remedy = "check that the place exists and may be accessed"
        return UnreachableError(msg, where=self.url, remedy=remedy)


def _other_to_dict(other: OtherTopic) -> dict[str, str]:
    at = other.looked_at.astimezone(UTC).isoformat()
    return {"topic": other.topic, "holds": other.holds, "looked_at": at}


def _other_from_dict(fields: dict[str, str]) -> OtherTopic:
    at = datetime.fromisoformat(fields["looked_at"])
    return OtherTopic(fields["topic"], fields["holds"], at)


def _entry_to_dict(entry: TableEntry) -> dict[str, Any]:
    shard = {"column": entry.shard.column, "value": entry.shard.value} if entry.shard else None
    return {
        "source": entry.table.source,
        "schema": entry.table.schema,
        "name": entry.table.name,
        "topic": entry.topic,
        "namespace": entry.target.namespace,
        "target": entry.target.name,
        "discovered_at": entry.discovered_at.astimezone(UTC).isoformat(),
        "confirmed": entry.is_confirmed,
        **({"shard": shard} if shard else {}),
        **({"renamed": entry.renamed.to_dict()} if entry.renamed else {}),
        **({"dropped": _dropped_to_dict(entry.dropped)} if entry.dropped else {}),
        **({"begins": _beginning_to_dict(entry.begins)} if entry.begins else {}),
    }


def _entry_from_dict(fields: dict[str, Any]) -> TableEntry:
    return TableEntry(
        TableName(fields["source"], fields["schema"], fields["name"]),
        fields["topic"],
        LakeName(fields["namespace"], fields["target"]),
        datetime.fromisoformat(fields["discovered_at"]),
        bool(fields.get("confirmed", False)),
        Shard(**fields["shard"]) if "shard" in fields else None,
        Renamed.of_dict(fields["renamed"]) if "renamed" in fields else None,
        _dropped_from_dict(fields["dropped"]) if "dropped" in fields else None,
        _beginning_from_dict(fields["begins"]) if "begins" in fields else None,
    )


def _dropped_to_dict(dropped: Dropped) -> dict[str, str]:
    end = {"end": dropped.end.to_json()} if dropped.end is not None else {}
    topic = {"topic_id": dropped.topic_id} if dropped.topic_id else {}
    return {"at": dropped.at.astimezone(UTC).isoformat(), **end, **topic}


def _dropped_from_dict(fields: dict[str, str]) -> Dropped:
    end = OffsetVector.from_json(fields["end"]) if "end" in fields else None
    return Dropped(datetime.fromisoformat(fields["at"]), end, fields.get("topic_id", ""))


def _beginning_to_dict(begins: Beginning) -> dict[str, str]:
    return {"at": begins.at.to_json(), "topic_id": begins.topic_id}


def _beginning_from_dict(fields: dict[str, str]) -> Beginning:
    return Beginning(OffsetVector.from_json(fields["at"]), fields["topic_id"])


def _names(entry: TableEntry) -> tuple[tuple[str, ...], ...]:
    """Returns the names that must be unique: its places in the lake, its asset, and its text."""
    return (
        ("lake", str(entry.target).casefold()),
        ("beside", str(entry.stem).casefold()),
        ("asset", *(part.casefold() for part in stored_parts(entry.table))),
        ("text", str(entry.table)),
    )


def _share(one: TableEntry, other: TableEntry) -> bool:
    """Returns whether two tables may be merged into one, with one column that tells rows apart."""
    if one.shard is None or other.shard is None or one.target != other.target:
        return False
    return one.shard.column == other.shard.column


def _collision(one: TableEntry, other: TableEntry) -> TerminalError:
    where = f"topics {one.topic}, {other.topic}"
    if _share(one, other):
        msg = f"{one.table} and {other.table} would both be the same shard of {other.target}"
        remedy = "let merge_into.shard tell them apart"
        return TerminalError(msg, where=where, remedy=remedy)
    if str(one.target).casefold() == str(other.target).casefold():
        msg = f"{one.table} and {other.table} would both be written to {other.target}"
        remedy = (
            "make the names differ with target.namespace or target.table (case does not count), "
            "or have both merged by merge_into, with one shard_column"
        )
    else:
        msg = f"{one.table!r} and {other.table!r} cannot be told apart by their names"
        remedy = "make them two sources, or exclude one of them (case does not count)"
    return TerminalError(msg, where=where, remedy=remedy)
