"""Epochs of the binlog, against a toy MySQL whose commits have a true order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_assets.changes.numbering import (
    BinlogRecord,
    Numbering,
    Place,
    Restart,
    epoch_at,
    lineage_of,
    scan,
)

UUIDS = [f"3e11fa47-71ca-11e1-9e33-c80aa942956{n}" for n in range(3)]

# ── the toy ───────────────────────────────────────────────────────────────────────────────


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


@dataclass(frozen=True)
class Delivery:
    """A record in Kafka, with what only the toy knows of it."""

    record: BinlogRecord
    change: int
    visit: int
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
                places = tuple((file, pos, row) for file, pos in ends)
                self.history.append(Row(self.clock, server, gtid, self.clock, places))

    def emit(self, change: int) -> None:
        row = self.history[change]
        self.append(
            BinlogRecord(
                offset=len(self.log),
                base="binlog",
                place=row.places[self.reading],
                gtid=row.gtid,
                server_id=row.server + 1,
                ts_ms=row.ts_ms,
                is_snapshot=False,
            ),
            change,
            is_first=change >= self.emitted,
        )
        self.cursor = change + 1
        self.emitted = max(self.emitted, self.cursor)

    def append(self, record: BinlogRecord, change: int, *, is_first: bool) -> None:
        self.log.append(Delivery(record, change, self.visit, is_first))

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
                    offset=len(self.log),
                    base="binlog",
                    place=(file, pos, 0),
                    gtid=None,
                    server_id=0,
                    ts_ms=self.clock,
                    is_snapshot=True,
                ),
                len(self.history) - 1,
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


def positions(log: list[Delivery], restarts: tuple[Restart, ...]) -> list[tuple[int, Place]]:
    return [(epoch_at(restarts, each.record.offset), each.record.place) for each in log]


def scanned(log: list[Delivery], cuts: list[int]) -> Numbering:
    """In batches, with the state between them as text."""
    numbering, restarts = Numbering(), []
    ends = sorted({min(cut, len(log)) for cut in cuts} | {len(log)})
    for begin, end in zip([0, *ends], ends, strict=False):
        found, added = scan(numbering, [each.record for each in log[begin:end]])
        numbering = Numbering.from_json(found.to_json())
        assert numbering == found
        restarts += added
    assert numbering.restarts == tuple(restarts)
    return numbering


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
CUTS = st.lists(st.integers(0, 60), max_size=4)
FLAVORS = st.sampled_from(["mysql", "mariadb"])

# ── what holds ────────────────────────────────────────────────────────────────────────────


@pytest.mark.property
@settings(max_examples=600, deadline=None)
@given(SERVERS, FLAVORS, st.lists(st.one_of(*ONE_SERVER, *FAILOVERS), max_size=40), CUTS)
def test_what_is_delivered_first_is_above_all_before_whatever_the_servers_do(
    servers, flavor, steps, cuts
):
    log = Toy(servers, flavor).run(steps)
    placed = positions(log, scanned(log, cuts).restarts)
    highest = -1
    for at, each in enumerate(log):
        if not each.is_first:
            continue
        same_read = (
            each.record.is_snapshot
            and at
            and log[at - 1].record == replace(each.record, offset=each.record.offset - 1)
        )
        if not same_read:
            assert all(earlier < placed[at] for earlier in placed[:at])
        assert each.change >= highest
        highest = each.change


@pytest.mark.property
@settings(max_examples=400, deadline=None)
@given(SERVERS, FLAVORS, st.lists(st.one_of(*ONE_SERVER, *FAILOVERS), max_size=40), CUTS)
def test_what_is_delivered_again_out_of_the_same_numbering_has_the_same_position(
    servers, flavor, steps, cuts
):
    log = Toy(servers, flavor).run(steps)
    placed = positions(log, scanned(log, cuts).restarts)
    first = {
        (each.visit, each.change): at
        for each, at in zip(log, placed, strict=True)
        if each.is_first and not each.record.is_snapshot
    }
    for each, at in zip(log, placed, strict=True):
        if not each.record.is_snapshot:
            assert at == first.get((each.visit, each.change), at)


@pytest.mark.property
@settings(max_examples=400, deadline=None)
@given(SERVERS, FLAVORS, st.lists(st.one_of(*ONE_SERVER), max_size=40), CUTS, st.booleans())
def test_without_a_failover_no_epoch_is_raised(servers, flavor, steps, cuts, has_gtid):
    log = Toy(servers, flavor).run(steps)
    if not has_gtid:
        log = [replace(each, record=replace(each.record, gtid=None)) for each in log]
    assert scanned(log, cuts).restarts == ()


@pytest.mark.property
@settings(max_examples=200, deadline=None)
@given(SERVERS, st.lists(st.one_of(*ONE_SERVER, *FAILOVERS), max_size=30), st.integers(0, 40))
def test_records_that_were_counted_before_are_not_counted_again(servers, steps, back):
    log = [each.record for each in Toy(servers, "mysql").run(steps)]
    done, _ = scan(Numbering(), log)
    assert scan(done, log[max(0, len(log) - back) :]) == (done, [])


# ── by example ────────────────────────────────────────────────────────────────────────────


def change(offset: int, gtid: str | None, place: Place, **other: object) -> BinlogRecord:
    record = BinlogRecord(offset, "binlog", place, gtid, 1, 100, is_snapshot=False)
    return replace(record, **other)


def restarts_of(*records: BinlogRecord) -> list[Restart]:
    return scan(Numbering(), records)[1]


@pytest.mark.unit
def test_without_epochs_what_is_new_after_a_failover_would_look_old():
    """The naive rule, by file and position alone, rejects it."""
    before = change(0, f"{UUIDS[0]}:7", (900, 4, 0))
    after = change(1, f"{UUIDS[1]}:1", (3, 4, 0))
    assert after.place < before.place
    assert restarts_of(before, after) == [(1, 1)]


@pytest.mark.unit
def test_without_lineages_what_is_delivered_again_would_look_new():
    """A rule that raises the epoch wherever a position is lower brings old rows back."""
    old, new = change(0, f"{UUIDS[0]}:7", (3, 4, 0)), change(1, f"{UUIDS[0]}:8", (3, 90, 0))
    again = replace(old, offset=2)
    assert again.place < new.place
    assert restarts_of(old, new, again, replace(new, offset=3)) == []


@pytest.mark.unit
def test_another_base_name_is_another_numbering():
    renamed = change(1, f"{UUIDS[0]}:8", (9, 4, 0), base="mysql-bin")
    assert restarts_of(change(0, f"{UUIDS[0]}:7", (3, 4, 0)), renamed) == [(1, 1)]


@pytest.mark.unit
def test_without_gtids_the_server_and_the_place_tell_a_failover_and_the_way_back():
    log = [
        change(0, None, (5, 100, 0)),
        change(1, None, (5, 200, 0)),
        change(2, None, (5, 100, 0)),
        change(3, None, (5, 200, 0)),
        change(4, None, (2, 700, 0), server_id=2),
        change(5, None, (2, 800, 0), server_id=2),
        change(6, None, (2, 700, 0), server_id=2),
        change(7, None, (5, 300, 0)),
        change(8, None, (2, 900, 0), server_id=2),
    ]
    assert restarts_of(*log) == [(4, 1), (8, 2)]


@pytest.mark.unit
def test_rows_of_a_later_snapshot_are_new_and_a_row_delivered_again_is_not():
    row = change(1, None, (1, 154, 0), server_id=0, ts_ms=500, is_snapshot=True)
    log = [change(0, f"{UUIDS[0]}:7", (9, 4, 0)), row, replace(row, offset=2, ts_ms=501)]
    assert restarts_of(*log) == [(1, 1)]
    assert restarts_of(log[0], replace(row, ts_ms=100)) == []


@pytest.mark.unit
def test_rows_of_an_incremental_snapshot_between_changes_raise_nothing():
    """They carry GTID and place of the watermark, and the time at which they were read."""
    mark = change(1, f"{UUIDS[0]}:8", (3, 50, 0), ts_ms=900, is_snapshot=True)
    log = [
        change(0, f"{UUIDS[0]}:7", (3, 4, 0)),
        mark,
        replace(mark, offset=2, ts_ms=901),
        change(3, f"{UUIDS[0]}:9", (3, 90, 0)),
        change(4, f"{UUIDS[0]}:7", (3, 4, 0)),
        change(5, f"{UUIDS[0]}:9", (3, 90, 0)),
    ]
    assert restarts_of(*log) == []


@pytest.mark.unit
def test_what_is_left_of_a_transaction_after_a_failover_is_new():
    gtid = f"{UUIDS[0]}:7"
    log = [change(0, gtid, (9, 100, 0)), change(1, gtid, (9, 100, 1)), change(2, gtid, (2, 60, 0))]
    assert restarts_of(*log) == [(2, 1)]
    again = [replace(log[0], offset=2), replace(log[1], offset=3), change(4, gtid, (9, 200, 0))]
    assert restarts_of(*log[:2], *again) == []


@pytest.mark.unit
@pytest.mark.parametrize(
    ("gtid", "lineage"),
    [
        (f"{UUIDS[0]}:23", (UUIDS[0], (23,))),
        (f"{UUIDS[0]}:blue:23", (f"{UUIDS[0]}:blue", (23,))),
        ("0-1-270", ("0", (270,))),
        (None, ("1/binlog", (3, 4))),
        ("what is this", ("1/binlog", (3, 4))),
    ],
    ids=["mysql", "mysql-tagged", "mariadb", "none", "malformed"],
)
def test_lineage_and_serial(gtid, lineage):
    assert lineage_of(change(0, gtid, (3, 4, 5))) == lineage


def epochs(*restarts: Restart) -> Iterator[int]:
    return (epoch_at(restarts, offset) for offset in range(6))


@pytest.mark.unit
def test_an_epoch_begins_at_its_offset():
    assert list(epochs()) == [0, 0, 0, 0, 0, 0]
    assert list(epochs((2, 1), (4, 2))) == [0, 0, 1, 1, 2, 2]
