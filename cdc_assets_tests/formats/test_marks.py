"""What records tell of transactions: whether one is whole, its order, its end."""

from datetime import UTC, datetime

import pytest

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.formats.debezium.marks import transaction_order
from cdc_assets.log.marks import LogRecord, Transaction
from cdc_assets.log.unfinished import PartitionTail, Tails, TransactionVerdict, verdict
from cdc_assets.log.values import RawRecord
from cdc_assets_tests.formats.debezium import debezium_json

FORMAT = debezium_json()
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def tail(*places, id_="t", is_whole=False):
    records = [LogRecord(n, NOW, Transaction(id_, (5,)), place) for n, place in enumerate(places)]
    return PartitionTail(tuple(records), is_whole)


LATER = PartitionTail((LogRecord(9, NOW, Transaction("u", (6,)), 1),), False)
EARLIER = PartitionTail((LogRecord(9, NOW, Transaction("s", (4,)), 1),), False)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("tails", "count", "expected"),
    [
        ([tail(1, 3, is_whole=True), tail(2, 4, is_whole=True)], 4, TransactionVerdict.WHOLE),
        ([tail(1, 3, is_whole=True), tail(2, is_whole=True)], 4, TransactionVerdict.OPEN),
        ([tail(97, 99), tail(98, 100)], 100, TransactionVerdict.WHOLE),
        ([tail(97, 99), tail(96, 98)], 100, TransactionVerdict.OPEN),
        ([tail(97, 98, 99, 100), tail(1, 2, 3)], 100, TransactionVerdict.UNKNOWN),
        ([tail(99, 100), EARLIER], 100, TransactionVerdict.UNKNOWN),
        ([tail(1, 2, is_whole=True), EARLIER], 2, TransactionVerdict.WHOLE),
        ([tail(1, 2, is_whole=True), LATER], 2, TransactionVerdict.UNKNOWN),
        ([tail(1, 2, is_whole=True), PartitionTail((), False)], 2, TransactionVerdict.UNKNOWN),
        ([tail(1, 2, 3, is_whole=True)], 2, TransactionVerdict.WHOLE),
        ([tail(1, is_whole=True)], None, TransactionVerdict.WHOLE),
    ],
    ids=[
        "all places",
        "a place is missing",
        "all that was sent after a place that each partition has reached",
        "the last place is missing",
        "a partition may lack what was sent before the tails",
        "a partition without changes so far may lack any",
        "a partition that has only older ones and lacks nothing",
        "changes may lie before a tail",
        "a tail without records tells nothing",
        "counters that began anew",
        "an end that does not count this table",
    ],
)
def test_verdicts(tails, count, expected):
    assert verdict(Transaction("t", (5,)), Tails(dict(enumerate(tails))), count) is expected


@pytest.mark.unit
@pytest.mark.parametrize(
    ("source", "order"),
    [
        ({"lsn": 30, "sequence": '["20","30"]'}, (20,)),
        ({"lsn": 30, "sequence": '[null,"30"]'}, (30,)),
        ({"lsn": 30}, (30,)),
        ({"lsn": None, "sequence": None}, ()),
        ({"file": "mysql-bin.000010", "pos": 4}, (10, 4)),
        ({"file": "", "pos": 0}, ()),
        ({"commit_lsn": "00000027:00000758:0005"}, ()),
        ({}, ()),
    ],
)
def test_the_order_of_transactions_is_that_of_commits(source, order):
    assert transaction_order(source) == order


@pytest.mark.unit
def test_an_end_record_names_its_tables():
    value = (
        b'{"schema":{},"payload":{"status":"END","id":"571:53","event_count":3,"data_collections":'
        b'[{"data_collection":"db.public.a","event_count":2},'
        b'{"data_collection":"public.b","event_count":1}]}}'
    )
    found = FORMAT.ended(RawRecord(Coordinate("x.transaction", 0, 0), NOW, None, value))
    assert found is not None
    assert found.ids == {"571:53", "571"}
    counts = [found.count(name) for name in ("public.a", "public.b", "lic.b", "public.c")]
    assert counts == [2, 1, None, None]
    begin = value.replace(b"END", b"BEGIN")
    assert FORMAT.ended(RawRecord(Coordinate("x.transaction", 0, 0), NOW, None, begin)) is None


DEEP, DIGITS = "[" * 100_000 + "]" * 100_000, "9" * 10_000
ODD_VALUES = [
    b"\xff", b"", DEEP.encode(), DIGITS.encode(), b"[]", b'{"source":[],"transaction":7}',
    f'{{"source":{{"lsn":{DIGITS}}}}}'.encode(), b'{"source":{"lsn":"x","sequence":"x"}}',
    b'{"source":{"file":[1],"pos":"x"},"transaction":{"id":[],"data_collection_order":1}}',
    f'{{"source":{{"lsn":1,"sequence":"{DEEP}"}},"transaction":{{"id":null}}}}'.encode(),
    f'{{"transaction":{{"id":"1","data_collection_order":"{DIGITS}"}}}}'.encode(),
    b'{"source":{"lsn":-1},"transaction":{"id":"1","data_collection_order":-1}}',
    b'{"schema":7,"payload":null}', b'{"status":"END"}', b'{"status":"END","id":[]}',
    b'{"status":["END"],"id":"1"}',
]  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize("value", ODD_VALUES)
def test_an_odd_record_is_a_row_outside_of_transactions_and_no_end(value):
    raw = RawRecord(Coordinate("t", 0, 7), NOW, DEEP.encode(), value)
    found = FORMAT.mark(raw, only_partition=True)
    assert found is not None
    assert (found.offset, found.place) == (7, None)
    assert FORMAT.ended(raw) is None


COUNTS = ["7", '"x"', "{}", "[1]", "[[]]", f'[{{"event_count":{DIGITS}}}]',
          '[{"data_collection":1,"event_count":1}]', "null"]  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize("listed", COUNTS)
def test_an_end_that_counts_nothing_is_an_end(listed):
    value = f'{{"status":"END","id":"5:6","data_collections":{listed}}}'.encode()
    found = FORMAT.ended(RawRecord(Coordinate("t", 0, 7), NOW, None, value))
    if len(listed) > 1000:
        assert found is None
    else:
        assert found is not None
        assert (found.ids, found.counts) == ({"5:6", "5"}, ())
