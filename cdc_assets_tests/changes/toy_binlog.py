"""A toy MySQL: servers whose binlogs number the same commits, and a connector that reads one."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from cdc_assets.changes.numbering import BinlogRecord, Place

UUIDS = [f"3e11fa47-71ca-11e1-9e33-c80aa942956{n}" for n in range(3)]


@dataclass(frozen=True)
class Commit:
    """A server commits a transaction; each number is an event with so many rows."""

    server: int
    events: tuple[int, ...]


@dataclass(frozen=True)
class Deliver:
    """The connector emits so many changes."""

    changes: int


@dataclass(frozen=True)
class Crash:
    """The connector dies, and goes on so many changes before the last that it emitted."""

    back: int


@dataclass(frozen=True)
class Switch:
    """The connector goes on at another server, so many changes before the last one emitted."""

    server: int
    back: int


@dataclass(frozen=True)
class Rotate:
    """A server begins its next binlog file."""

    server: int


@dataclass(frozen=True)
class Snapshot:
    """The connector starts anew with a snapshot."""


@dataclass(frozen=True)
class Reset:
    """All servers forget binlogs and GTIDs, and the connector starts anew with a snapshot."""


Step = Commit | Deliver | Crash | Switch | Rotate | Snapshot | Reset


@dataclass(frozen=True)
class Row:
    """A change, with its place in the binlog of each server."""

    transaction: int
    server: int
    gtid: str
    ts_ms: int
    places: tuple[Place, ...]
    row: int


@dataclass(frozen=True)
class Delivery:
    """A record in Kafka, with what only the toy knows of it.

    Attributes:
        row: in its event.
        life: how many resets came before.
    """

    record: BinlogRecord
    change: int
    visit: int
    row: int
    life: int
    is_first: bool


@dataclass
class Server:
    """Where a server's binlog ends. No two servers' files have overlapping positions."""

    file: int
    start: int
    serial: int = 0
    pos: int = 0

    def write(self) -> tuple[int, int]:
        self.pos += 10
        return self.file, self.start + self.pos


@dataclass
class Toy:
    """Servers that replicate to each other, and a connector that reads one of them."""

    servers: list[Server]
    flavor: str
    keys: list[int] = field(default_factory=lambda: [0])
    history: list[Row] = field(default_factory=list)
    log: list[Delivery] = field(default_factory=list)
    clock: int = 0
    resets: int = 0
    reading: int = 0
    cursor: int = 0
    emitted: int = 0
    begin: int = 0
    visit: int = 0
    cut: set[int] = field(default_factory=set)

    def run(self, steps: list[Step]) -> list[Delivery]:
        for step in [*steps, Deliver(10**6)]:
            self.clock += 1
            self.take(step)
        return self.log

    def take(self, step: Step) -> None:
        match step:
            case Commit(server, events):
                self.commit(server, events)
            case Deliver(changes):
                for change in range(self.cursor, min(self.cursor + changes, len(self.history))):
                    self.emit(change)
            case Crash(back):
                self.cursor = max(self.begin, self.cursor - back)
            case Switch(server, back):
                self.switch(server, back)
            case Rotate(server):
                self.servers[server].file += 1
                self.servers[server].pos = 0
            case Snapshot():
                self.snapshot()
            case Reset():
                self.reset()

    def commit(self, server: int, events: tuple[int, ...]) -> None:
        source = self.servers[server]
        source.serial += 1
        total = sum(each.serial for each in self.servers)
        gtid = f"{UUIDS[server]}:{source.serial}"
        if self.flavor == "mariadb":
            gtid = f"0-{server + 1}-{total}"
        for rows in events:
            ends = [each.write() for each in self.servers]
            for row in range(rows):
                self.history.append(Row(self.clock, server, gtid, self.clock, tuple(ends), row))

    def emit(self, change: int) -> None:
        row = self.history[change]
        self.append(
            BinlogRecord(
                partition=self.keys[change % len(self.keys)],
                offset=len(self.log),
                sent_ms=len(self.log),
                base="binlog",
                place=row.places[self.reading],
                gtid=row.gtid,
                server_id=row.server + 1,
                ts_ms=row.ts_ms,
                is_snapshot=False,
            ),
            change,
            row.row,
            is_first=change >= self.emitted,
        )
        self.cursor = change + 1
        self.emitted = max(self.emitted, self.cursor)

    def append(self, record: BinlogRecord, change: int, row: int, *, is_first: bool) -> None:
        self.log.append(Delivery(record, change, self.visit, row, self.resets, is_first))

    def switch(self, server: int, back: int) -> None:
        """A transaction that one failover has cut is not cut by a second: see the module."""
        if server == self.reading:
            return
        at = max(self.begin, self.cursor - back)
        newest = self.history[self.emitted - 1].transaction if self.emitted else -1
        left = self.history[self.emitted :]
        if left and left[0].transaction == newest:
            if newest in self.cut:
                return
            self.cut.add(newest)
        self.reading, self.cursor = server, at
        self.visit += 1

    def snapshot(self) -> None:
        server = self.servers[self.reading]
        file, pos = server.write()
        for _ in range(2):
            self.append(
                BinlogRecord(
                    partition=self.keys[-1],
                    offset=len(self.log),
                    sent_ms=len(self.log),
                    base="binlog",
                    place=(file, pos),
                    gtid=None,
                    server_id=0,
                    ts_ms=self.clock,
                    is_snapshot=True,
                ),
                len(self.history) - 1,
                0,
                is_first=True,
            )
        self.begin = self.cursor = self.emitted = len(self.history)

    def reset(self) -> None:
        self.resets += 1
        for at, server in enumerate(self.servers):
            server.file, server.pos, server.serial = 1, 0, 0
            server.start = (99 - self.resets) * 10**6 + at * 10**5
        self.visit += 1
        self.snapshot()


SERVERS = st.permutations(range(3)).flatmap(
    lambda starts: st.tuples(*[st.integers(2, 4)] * 3).map(
        lambda files: [
            Server(file, start * 10**6) for file, start in zip(files, starts, strict=True)
        ]
    )
)
ONE_SERVER = [
    st.builds(
        Commit, st.integers(0, 2), st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)
    ),
    st.builds(Deliver, st.integers(1, 6)),
    st.builds(Crash, st.integers(0, 8)),
    st.builds(Rotate, st.integers(0, 2)),
    st.just(Snapshot()),
]
FAILOVERS = [st.builds(Switch, st.integers(0, 2), st.integers(0, 8)), st.just(Reset())]
FLAVORS = st.sampled_from(["mysql", "mariadb"])
PARTITIONS = st.lists(st.integers(0, 3), min_size=1, max_size=5)
"""Where changes go, in turn; rows of snapshots go where the last of them goes."""
