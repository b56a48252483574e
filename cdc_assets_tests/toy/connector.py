"""A toy Debezium for the toy source: snapshots and commits in, Kafka records out.

What it may do besides its duty is what the real one may do: send again what it has sent since
the last complete snapshot, take snapshots again, and find more partitions than before.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from cdc_assets_tests.model.change import Change, Coordinate, Key, Op, Row, Shape
from cdc_assets_tests.toy.source import Commit, Logged, Source

PLACEHOLDER = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class Settings:
    """How the connector is set up.

    Attributes:
        partitions: of the topic, at first.
        salt: of the partitioner's hash.
        tombstones: a delete is followed by a record without a value.
        delete_image: columns of a delete's ``before``.
        commits_at_snapshot: the first transaction after a snapshot carries the snapshot's LSN
            as its last commit; else it has none.
        full_images: updates carry their full ``before`` (REPLICA IDENTITY FULL).
        partial_moves: a changed key leaves large values alone; else they are logged in full.
        split_keys: a changed key is a delete and a create; else one update, whose ``before`` has
            the old key. It is in the new key's partition, ahead of older changes of the old key
            in another one, so that topic has one partition.
    """

    partitions: int = 1
    salt: int = 0
    tombstones: bool = True
    delete_image: str = "full"
    commits_at_snapshot: bool = False
    full_images: bool = False
    partial_moves: bool = False
    split_keys: bool = True


@dataclass(frozen=True, slots=True)
class Event:
    """A change event.

    Attributes:
        commit: the last commit before; None where Debezium has none.
        old_key: of an update that changes the key.
    """

    op: Op
    lsn: int
    commit: int | None = None
    key: Key | None = None
    before: Row | None = None
    after: Row | None = None
    unset: frozenset[str] = frozenset()
    ts_ms: int = 1
    transaction: str | None = None
    total_order: int = 0
    snapshot: str = "false"
    old_key: Key | None = None

    @property
    def unset_columns(self) -> frozenset[str]:
        """Columns that hold the placeholder, in events in which it may be one."""
        if self.op not in "cu" or self.after is None:
            return frozenset()
        texts = (name for name, value in self.after.items() if value == PLACEHOLDER)
        return self.unset.union(texts)


@dataclass(frozen=True, slots=True)
class Record:
    """What lies at one offset: an event, or nothing that matters (a tombstone, a gap)."""

    partition: int
    offset: int
    key: Row | None
    event: Event | None
    is_gap: bool = False

    def change(self) -> Change | None:
        """The record as decoded; of an update that changes the key the half of the new one."""
        event = self.event
        if event is None:
            return None
        unset = event.unset_columns
        is_create = event.op == "c" or event.old_key is not None
        text = dict.fromkeys(unset, PLACEHOLDER)
        row = None if event.after is None else {**event.after, **text}
        return Change(
            op="c" if is_create else event.op,
            position=self._position(event),
            partition=self.partition,
            offset=self.offset,
            key=event.key,
            row=row if is_create else _without(row, unset),
            unset=unset,
            ts_ms=event.ts_ms,
            before=event.before,
            floats=event.op != "r" and event.commit is None,
            incremental=event.snapshot == "incremental",
            identity=None if event.op == "r" else (event.lsn, event.total_order),
        )

    def changes(self) -> Iterator[Change]:
        """The record as decoded: two changes if it is an update that changes the key."""
        change, event = self.change(), self.event
        if change is None or event is None:
            return
        if event.old_key is not None:
            yield replace(change, op="d", key=event.old_key, row=None, unset=frozenset())
        yield change

    def _position(self, event: Event) -> tuple[int, ...]:
        follows = event.lsn if event.commit is None else event.commit
        return (follows, 0 if event.op == "r" else event.lsn, self.offset)


def changes_of(records: Iterable[Record]) -> list[Change]:
    """The changes among records."""
    return [change for record in records for change in record.changes()]


def _without(row: Row | None, unset: frozenset[str]) -> Row | None:
    return None if row is None else {name: row[name] for name in row if name not in unset}


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """What whoever cuts the log into batches must heed.

    Attributes:
        barriers: offset vectors; who reads past one in any partition must have reached it in
            all of them.
        pairs: coordinates of delete and create of each changed key whose create holds the
            placeholder: who reads one must read the other.
        raised: how many records there were when a partition was added.
    """

    barriers: tuple[Mapping[int, int], ...] = ()
    pairs: tuple[tuple[Coordinate, Coordinate], ...] = ()
    raised: tuple[int, ...] = ()


@dataclass(slots=True)
class Connector:
    """One connector and its topic.

    Attributes:
        records: in the order in which they were produced.
        ends: next offset of each partition.
        barriers, pairs, raised: see `ReadingRules`.
    """

    settings: Settings
    shape: Shape
    records: list[Record] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    barriers: list[Mapping[int, int]] = field(default_factory=list)
    pairs: list[tuple[Coordinate, Coordinate]] = field(default_factory=list)
    raised: list[int] = field(default_factory=list)
    _deletes: dict[int, Coordinate] = field(default_factory=dict)
    _sent: list[Event] = field(default_factory=list)
    _last_commit: int | None = None
    _first_pending: bool = False
    _started: bool = False
    _window: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ends = dict.fromkeys(range(self.settings.partitions), 0)

    @property
    def rules(self) -> ReadingRules:
        """What readers must heed."""
        return ReadingRules(tuple(self.barriers), tuple(self.pairs), tuple(self.raised))

    def snapshot(self, source: Source) -> None:
        """Start, or start anew: every committed row, then whatever commits after."""
        at = source.tick()
        self._sent.clear()
        self._window.clear()
        for number, row in enumerate(source.rows.values()):
            self._produce(self._read(at, row, "true"))
            if number == 0 and not self.shape.key:
                self._barrier()
        self._last_commit = at if self.settings.commits_at_snapshot else None
        self._started = self._first_pending = True

    def incremental(self, source: Source, keys: Iterable[Key]) -> None:
        """Some rows, read between two watermarks, which are transactions of their own."""
        if self._started:
            opened, closed = source.tick(), source.tick()
            self._send([source.rows[key] for key in keys if key in source.rows], opened, closed)
            self._last_commit, self._first_pending = source.tick(), False

    def read_only_incremental(self, source: Source, keys: Iterable[Key]) -> None:
        """Some rows, which are sent when the next change closes the window, and before it."""
        if self._started:
            self._window[:] = [source.rows[key] for key in keys if key in source.rows]

    def stream(self, commit: Commit) -> None:
        """The changes of one transaction."""
        if not self._started:
            return
        events = [event for logged in commit.changes for event in self._events(logged)]
        if events:
            self._send(self._window, self._last_commit, events[0].lsn)
            self._window.clear()
        for number, event in enumerate(events, start=1):
            sent = replace(
                event,
                commit=self._last_commit,
                ts_ms=commit.ts_ms,
                transaction=f"{commit.xid}:{event.lsn}",
                total_order=number,
            )
            self._sent.append(sent)
            self._produce(sent)
            if sent.op == "t" and not self.shape.key:
                self._barrier()
        self._last_commit, self._first_pending = commit.lsn, False

    def restart(self, back: int) -> None:
        """Send the last events again, wherever in a transaction that begins."""
        self._deletes.clear()
        self._window.clear()
        for event in self._sent[len(self._sent) - back % (len(self._sent) + 1) :]:
            self._produce(event)

    def raise_partitions(self) -> None:
        """One partition more: keys move, also between the old ones; records stay.

        Who reads what came after in any partition must have read all that came before.

        Not between a snapshot and the transaction after it: a row's snapshot and a change of
        it without a last commit would lie in different partitions, and nothing would tell
        which snapshot the change followed.
        """
        added = len(self.ends)
        if added < 4 and self.settings.split_keys and not self._first_pending:
            self.ends[added] = 0
            self.raised.append(len(self.records))
            self._barrier()

    def skip(self, partition: int) -> None:
        """An offset without a record, as transaction markers leave them."""
        self._append(partition % len(self.ends), None, None, is_gap=True)

    def _events(self, logged: Logged) -> Iterator[Event]:
        old = self._key_of(logged.before)
        new = self._key_of(logged.after)
        left = logged.unset if self.settings.partial_moves else frozenset[str]()
        if logged.op == "u" and old != new and not self.settings.split_keys:
            yield Event("u", logged.lsn, key=new, before=logged.before, after=logged.after,
                        unset=left, old_key=old)  # fmt: skip
        elif logged.op == "u" and old != new:
            yield self._delete(logged, old)
            yield Event("c", logged.lsn, key=new, after=logged.after, unset=left)
        elif logged.op == "d":
            yield self._delete(logged, old)
        else:
            before = logged.before if self.settings.full_images else None
            yield Event(
                logged.op,
                logged.lsn,
                key=new,
                before=before,
                after=logged.after,
                unset=logged.unset,
            )

    def _delete(self, logged: Logged, key: Key | None) -> Event:
        match self.settings.delete_image, logged.before:
            case "full", before:
                pass
            case "key", before if before is not None:
                before = {name: before[name] if name in self.shape.key else None for name in before}
            case _:
                before = None
        return Event("d", logged.lsn, key=key, before=before)

    def _read(self, at: int, row: Row, snapshot: str) -> Event:
        return Event("r", at, key=self._key_of(row), after=row, snapshot=snapshot)

    def _send(self, rows: Iterable[Row], commit: int | None, lsn: int) -> None:
        for row in rows:
            self._produce(replace(self._read(lsn, row, "incremental"), commit=commit))

    def _key_of(self, row: Row | None) -> Key | None:
        return self.shape.key_of(row) if row is not None and self.shape.key else None

    def _produce(self, event: Event) -> None:
        key = None if event.key is None else dict(zip(self.shape.key, event.key, strict=True))
        by = len(self.records) if key is None else tuple(key.values())
        partition = zlib.crc32(f"{self.settings.salt}{by}".encode()) % len(self.ends)
        self._pair(event, (partition, self.ends[partition]))
        self._append(partition, key, event)
        if event.op == "d" and key is not None and self.settings.tombstones:
            self._append(partition, key, None)

    def _pair(self, event: Event, at: Coordinate) -> None:
        if event.op == "d":
            self._deletes[event.lsn] = at
        elif event.op == "c" and event.lsn in self._deletes and event.unset_columns:
            self.pairs.append((self._deletes[event.lsn], at))

    def _append(
        self, partition: int, key: Row | None, event: Event | None, *, is_gap: bool = False
    ) -> None:
        self.records.append(Record(partition, self.ends[partition], key, event, is_gap))
        self.ends[partition] += 1

    def _barrier(self) -> None:
        self.barriers.append(dict(self.ends))
