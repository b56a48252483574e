"""Which transactions have ended, also where their own ``END`` records are gone."""

import json
from datetime import timedelta

import pytest

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.log.marks import EndMark, Transaction
from cdc_assets.log.transactions import counts_of
from cdc_assets.log.unfinished import MAX_READ, SETTLED
from cdc_assets.log.values import RawRecord
from cdc_assets_tests.formats.debezium import debezium_json
from cdc_assets_tests.hostile import within
from cdc_assets_tests.log.model_log import NOW

FORMAT = debezium_json()
MINE = Transaction("700", (1000,))
"""Committed after LSN 1000."""


def record(status, id_, seconds=0.0, count=3):
    listed = [{"data_collection": "public.x", "event_count": count}]
    value = {"status": status, "id": id_, "data_collections": listed}
    at = NOW + timedelta(seconds=seconds)
    return RawRecord(Coordinate("t", 0, 0), at, None, json.dumps(value).encode())


def ends(metadata):
    return ((raw, FORMAT.ended(raw)) for raw in metadata)


def counts(*metadata, wanted=MINE):
    return counts_of(ends(metadata), {wanted: NOW}, "public.x")


@pytest.mark.unit
def test_its_own_end_counts_its_changes():
    assert counts(record("BEGIN", "700:1010"), record("END", "700:1020")) == {"700": 3}


@pytest.mark.unit
def test_without_an_end_nothing_has_ended():
    assert counts() == {}
    assert counts(record("BEGIN", "700:1010")) == {}


@pytest.mark.unit
def test_a_later_commit_proves_that_it_has_ended_and_counts_nothing():
    assert counts(record("END", "701:1030", seconds=2)) == {"700": None}


@pytest.mark.unit
def test_its_own_end_counts_though_a_later_one_comes_first():
    """The transaction topic may have several partitions."""
    found = counts(record("END", "701:1030", seconds=2), record("END", "700:1020"))
    assert found == {"700": 3}


@pytest.mark.unit
@pytest.mark.parametrize(
    "other",
    [
        record("END", "699:1000", seconds=9),
        record("END", "650:990", seconds=9),
        record("BEGIN", "701:1030", seconds=9),
        record("END", "701:1030", seconds=SETTLED.total_seconds() - 0.01),
        record("END", "24dadda4-7b7c-11ee-a20e-0242ac110002:1030", seconds=9),
        record("END", "file=mysql-bin.000003,pos=1030", seconds=9),
    ],
    ids=[
        "the commit before it, sent again after a crash", "an older one, sent again",
        "a later begin", "too soon to have all changes", "a GTID", "a binlog position",
    ],
)  # fmt: skip
def test_what_does_not_prove_it(other):
    assert counts(other) == {}


@pytest.mark.unit
def test_of_a_transaction_whose_order_is_unknown_only_its_own_end_tells():
    later = record("END", "701:1030", seconds=9)
    assert counts(later, wanted=Transaction("700", ())) == {}
    assert counts(later, wanted=Transaction("a", (1000,))) == {}


@pytest.mark.unit
def test_thousands_of_transactions_take_time_in_proportion():
    """Those of two seconds, where the log has a thousand and more in each second."""
    wanted = {Transaction(str(n), (10 * n,)): NOW for n in range(8_000)}
    sent = (RawRecord(Coordinate("t", 0, n), NOW + 2 * SETTLED, None, None) for n in range(8_000))
    later = [(raw, EndMark(frozenset({f"x{n}"}), (), 10 * n + 5)) for n, raw in enumerate(sent)]
    with within(5):
        found = counts_of(later, wanted, "public.x")
    assert found == dict.fromkeys(str(n) for n in range(8_000))


@pytest.mark.slow
def test_no_more_is_read_than_it_takes():
    def metadata():
        yield record("END", "700:1020")
        pytest.fail("it was found already")

    assert counts_of(ends(metadata()), {MINE: NOW}, "public.x") == {"700": 3}
    endless = (record("BEGIN", "1:1") for _ in iter(int, 1))
    assert counts_of(ends(endless), {MINE: NOW}, "public.x") == {}
    assert MAX_READ
