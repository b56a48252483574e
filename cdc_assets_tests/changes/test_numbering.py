"""Epochs of the binlog, against a toy MySQL whose commits have a true order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.numbering import (
    STAGES,
    Begin,
    BinlogRecord,
    Numbering,
    Place,
    RestartSeenLateError,
    lineage_of,
    scan,
)
from cdc_assets_tests.changes.toy_binlog import (
    FAILOVERS,
    FLAVORS,
    ONE_SERVER,
    PARTITIONS,
    SERVERS,
    UUIDS,
    Delivery,
    Toy,
)
from cdc_assets_tests.model.positions import epoch_at
from cdc_assets_tests.toy.profiles import examples

CUTS = st.lists(st.integers(0, 60), max_size=4)
STEPS = st.lists(st.one_of(*ONE_SERVER, *FAILOVERS), max_size=40)
Placed = tuple[int, Place, int]


def positions(log: list[Delivery], numbering: Numbering) -> list[Placed]:
    begins = numbering.begins
    return [
        (epoch_at(begins.get(each.record.partition, ()), each.record.offset), each.record.place,
         each.row)
        for each in log
    ]  # fmt: skip


def scanned(log: list[Delivery], cuts: list[int]) -> Numbering:
    """In batches, with the state between them as text."""
    numbering = Numbering()
    ends = sorted({min(cut, len(log)) for cut in cuts} | {len(log)})
    for begin, end in zip([0, *ends], ends, strict=False):
        found = scan(numbering, [each.record for each in log[begin:end]])
        numbering = Numbering.from_json(found.to_json())
        assert numbering == found
    return numbering


# ── what holds ────────────────────────────────────────────────────────────────────────────


@pytest.mark.property
@examples(600)
@given(SERVERS, FLAVORS, PARTITIONS, STEPS, CUTS)
def test_what_is_delivered_first_is_above_all_before_whatever_the_servers_do(
    servers, flavor, keys, steps, cuts
):
    """In its partition; after a reset in all of them, wherever its snapshot's rows went."""
    log = Toy(servers, flavor, keys).run(steps)
    placed = positions(log, scanned(log, cuts))
    highest = -1
    for at, each in enumerate(log):
        if not each.is_first:
            continue
        for before, earlier in zip(placed[:at], log[:at], strict=True):
            read = replace(
                each.record, offset=each.record.offset - 1, sent_ms=each.record.sent_ms - 1
            )
            is_same_read = each.record.is_snapshot and earlier.record == read
            is_here = each.record.partition == earlier.record.partition
            if not is_same_read and (is_here or earlier.life < each.life):
                assert before < placed[at]
        assert each.change >= highest
        highest = each.change


@pytest.mark.property
@examples(400)
@given(SERVERS, FLAVORS, PARTITIONS, STEPS, CUTS)
def test_what_is_delivered_again_out_of_the_same_numbering_has_the_same_position(
    servers, flavor, keys, steps, cuts
):
    log = Toy(servers, flavor, keys).run(steps)
    placed = positions(log, scanned(log, cuts))
    first = {
        (each.visit, each.change): at
        for each, at in zip(log, placed, strict=True)
        if each.is_first and not each.record.is_snapshot
    }
    for each, at in zip(log, placed, strict=True):
        if not each.record.is_snapshot:
            assert at == first.get((each.visit, each.change), at)


@pytest.mark.property
@examples(400)
@given(
    SERVERS, FLAVORS, PARTITIONS, st.lists(st.one_of(*ONE_SERVER), max_size=40), CUTS,
    st.booleans(),
)  # fmt: skip
def test_without_a_failover_no_epoch_is_raised(servers, flavor, keys, steps, cuts, has_gtid):
    log = Toy(servers, flavor, keys).run(steps)
    if not has_gtid:
        log = [replace(each, record=replace(each.record, gtid=None)) for each in log]
    assert scanned(log, cuts).restarts == ()


@pytest.mark.property
@examples(200)
@given(
    SERVERS,
    PARTITIONS,
    st.lists(st.one_of(*ONE_SERVER, *FAILOVERS), max_size=30),
    st.integers(0, 40),
)
def test_records_that_were_counted_before_are_not_counted_again(servers, keys, steps, back):
    log = [each.record for each in Toy(servers, "mysql", keys).run(steps)]
    done = scan(Numbering(), log)
    assert scan(done, log[max(0, len(log) - back) :]) == done


@pytest.mark.property
@examples(400)
@given(
    SERVERS,
    FLAVORS,
    PARTITIONS,
    STEPS,
    st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), max_size=5),
)
def test_partitions_that_are_read_apart_come_to_the_same_or_say_so(
    servers, flavor, keys, steps, shares
):
    """Batches take of each partition what they like: after resets the order is that of one scan."""
    log = Toy(servers, flavor, keys).run(steps)
    unread = {p: [each.record for each in log if each.record.partition == p] for p in range(4)}
    numbering = Numbering()
    try:
        for share in [*shares, [1.0] * 4]:
            taken = []
            for p, left in unread.items():
                end = round(len(left) * share[p])
                taken += left[:end]
                unread[p] = left[end:]
            numbering = scan(numbering, taken)
    except RestartSeenLateError:
        return
    placed = positions(log, numbering)
    for at, each in enumerate(log):
        for before, earlier in zip(placed[:at], log[:at], strict=True):
            if each.is_first and earlier.life < each.life:
                assert before < placed[at]


# ── by example ────────────────────────────────────────────────────────────────────────────


def change(offset: int, gtid: str | None, place: Place, **other: object) -> BinlogRecord:
    record = BinlogRecord(0, offset, offset, "binlog", place, gtid, 1, 100, is_snapshot=False)
    return replace(record, **other)


def restarts_of(*records: BinlogRecord) -> list[Begin]:
    return [*scan(Numbering(), records).begins.get(0, ())]


@pytest.mark.unit
def test_of_many_restarts_only_the_newest_are_compared_with_others():
    """A partition that had nothing for long catches up with all of them at its next record."""
    numbering = Numbering()
    for life in range(STAGES + 4):
        place = (1, 100 - life)
        for offset in (2 * life, 2 * life + 1):
            gtid, at = f"{UUIDS[0]}:{offset + 1}", (place[0], place[1] * 10 + offset % 2)
            numbering = scan(numbering, [change(offset, gtid, at, ts_ms=100 + offset)])
            numbering = Numbering.from_json(numbering.to_json())
    assert numbering.partitions[0].epoch == len(numbering.restarts) == STAGES + 3
    assert len(numbering.partitions[0].stages) == STAGES
    late = change(0, f"{UUIDS[0]}:99", (9, 9), partition=1, sent_ms=999, ts_ms=999)
    numbering = scan(numbering, [late])
    assert numbering.partitions[1].epoch == numbering.partitions[0].epoch
    assert len(numbering.partitions[1].stages) == STAGES


@pytest.mark.unit
def test_without_epochs_what_is_new_after_a_failover_would_look_old():
    """The naive rule, by file and position alone, rejects it."""
    before = change(0, f"{UUIDS[0]}:7", (900, 4))
    after = change(1, f"{UUIDS[1]}:1", (3, 4))
    assert after.place < before.place
    assert restarts_of(before, after) == [(1, 1)]


@pytest.mark.unit
def test_without_lineages_what_is_delivered_again_would_look_new():
    """A rule that raises the epoch wherever a position is lower brings old rows back."""
    old, new = change(0, f"{UUIDS[0]}:7", (3, 4)), change(1, f"{UUIDS[0]}:8", (3, 90))
    again = replace(old, offset=2)
    assert again.place < new.place
    assert restarts_of(old, new, again, replace(new, offset=3)) == []


@pytest.mark.unit
def test_another_base_name_is_another_numbering():
    renamed = change(1, f"{UUIDS[0]}:8", (9, 4), base="mysql-bin")
    assert restarts_of(change(0, f"{UUIDS[0]}:7", (3, 4)), renamed) == [(1, 1)]


@pytest.mark.unit
def test_without_gtids_the_server_and_the_place_tell_a_failover_and_the_way_back():
    log = [
        change(0, None, (5, 100)),
        change(1, None, (5, 200)),
        change(2, None, (5, 100)),
        change(3, None, (5, 200)),
        change(4, None, (2, 700), server_id=2),
        change(5, None, (2, 800), server_id=2),
        change(6, None, (2, 700), server_id=2),
        change(7, None, (5, 300)),
        change(8, None, (2, 900), server_id=2),
    ]
    assert restarts_of(*log) == [(4, 1), (8, 2)]


@pytest.mark.unit
def test_rows_of_a_later_snapshot_are_new_and_a_row_delivered_again_is_not():
    row = change(1, None, (1, 154), server_id=0, ts_ms=500, is_snapshot=True)
    log = [change(0, f"{UUIDS[0]}:7", (9, 4)), row, replace(row, offset=2, ts_ms=501)]
    assert restarts_of(*log) == [(1, 1)]
    assert restarts_of(row, replace(log[0], offset=2), replace(row, offset=3)) == []


@pytest.mark.unit
def test_the_first_change_after_a_snapshot_may_have_its_place():
    """As recorded from MariaDB 11.4.5: a transaction's changes have the place of its begin."""
    row = change(2, None, (1, 266313), server_id=0, ts_ms=1_795_347_117_000, is_snapshot=True)
    log = [
        row,
        change(3, "0-7-25", (1, 266313)),
        change(4, "0-7-26", (1, 270001)),
        change(5, "0-7-26", (1, 270001)),
    ]
    assert restarts_of(*log) == []
    assert restarts_of(log[1], replace(log[2], place=log[1].place)) == [(4, 1)]


@pytest.mark.unit
def test_a_reset_begins_where_its_snapshot_brings_no_row_too():
    """Two partitions, of which one has no row when the binlog is thrown away."""
    before = [change(n, f"0-1-{90 + n}", (9, 400 + n), partition=n % 2) for n in range(4)]
    row = change(4, None, (1, 330), ts_ms=5000, server_id=0, is_snapshot=True)
    # The statement began before the reset: neither serial, place nor time tell.
    after = change(5, "0-1-3", (1, 700), partition=1, ts_ms=90)
    assert scan(Numbering(), [*before, row, after]).begins == {0: ((4, 1),), 1: ((5, 1),)}
    read = scan(Numbering(), [*before, row])
    assert scan(read, [after]).begins == {0: ((4, 1),), 1: ((5, 1),)}


@pytest.mark.unit
def test_a_partition_that_has_no_records_yet_begins_in_the_epoch_of_the_others():
    log = [change(0, "0-1-9", (9, 4)), change(1, "0-2-10", (1, 4))]
    late = [replace(log[0], partition=1, offset=0), change(1, "0-2-11", (1, 9), partition=1)]
    assert scan(scan(Numbering(), log), late).begins == {0: ((1, 1),), 1: ((1, 1),)}


@pytest.mark.unit
def test_serials_that_a_reset_has_forgotten_do_not_hide_the_next_failover():
    row = change(1, None, (1, 330), ts_ms=5000, server_id=0, is_snapshot=True)
    log = [change(0, "0-1-90", (9, 400)), row, change(2, "0-1-3", (1, 500))]
    assert restarts_of(*log, change(3, "0-2-4", (1, 100))) == [(1, 1), (3, 2)]


@pytest.mark.unit
def test_a_reset_of_a_table_without_rows_is_told_by_times():
    log = [change(0, "0-1-90", (9, 400)), change(1, "0-1-2", (1, 500), ts_ms=101)]
    assert restarts_of(*log) == [(1, 1)]
    assert restarts_of(log[0], replace(log[1], ts_ms=100)) == []


@pytest.mark.unit
def test_a_reset_that_is_seen_after_other_partitions_went_on_stops():
    """What they have had since was taken as delivered again."""
    old = [change(n, f"0-1-{90 + n}", (9, 400 + n), partition=n) for n in range(2)]
    row = change(2, None, (1, 330), ts_ms=5000, server_id=0, is_snapshot=True)
    ahead = change(3, "0-1-3", (1, 700), partition=1, ts_ms=90)
    counted = scan(scan(Numbering(), old), [ahead])
    with pytest.raises(RestartSeenLateError, match=r"^partition=1 offsets below 4$"):
        scan(counted, [row])


@pytest.mark.unit
def test_rows_of_an_incremental_snapshot_between_changes_raise_nothing():
    """They carry GTID and place of the watermark, and the time at which they were read."""
    mark = change(1, f"{UUIDS[0]}:8", (3, 50), ts_ms=900, is_snapshot=True)
    log = [
        change(0, f"{UUIDS[0]}:7", (3, 4)),
        mark,
        replace(mark, offset=2, ts_ms=901),
        change(3, f"{UUIDS[0]}:9", (3, 90)),
        change(4, f"{UUIDS[0]}:7", (3, 4)),
        change(5, f"{UUIDS[0]}:9", (3, 90)),
    ]
    assert restarts_of(*log) == []


@pytest.mark.unit
def test_what_is_left_of_a_transaction_after_a_failover_is_new():
    gtid = f"{UUIDS[0]}:7"
    log = [change(0, gtid, (9, 100)), change(1, gtid, (9, 100)), change(2, gtid, (2, 60))]
    assert restarts_of(*log) == [(2, 1)]
    again = [replace(log[0], offset=2), replace(log[1], offset=3), change(4, gtid, (9, 200))]
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
    assert lineage_of(change(0, gtid, (3, 4))) == lineage


def epochs(*begins: Begin) -> Iterator[int]:
    return (epoch_at(begins, offset) for offset in range(6))


@pytest.mark.unit
def test_an_epoch_begins_at_its_offset():
    assert list(epochs()) == [0, 0, 0, 0, 0, 0]
    assert list(epochs((2, 1), (4, 2))) == [0, 0, 1, 1, 2, 2]
