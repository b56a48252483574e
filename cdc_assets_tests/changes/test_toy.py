"""What the toy writes beside the changes is what the readers of the real thing understand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pytest

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.log.values import RawRecord
from cdc_assets_tests.formats.debezium import debezium_json
from cdc_assets_tests.toy import names
from cdc_assets_tests.toy.boundaries import (
    COLLECTION,
    Boundary,
    boundaries,
    message,
    number_of,
    sizes_of,
    stopped_inside,
)
from cdc_assets_tests.toy.busy import busy_log
from cdc_assets_tests.toy.connector import Record
from cdc_assets_tests.toy.debezium import messages
from cdc_assets_tests.toy.source import wide

pytestmark = pytest.mark.unit
Records = Sequence[Record]


@pytest.fixture(scope="module", params=range(10))
def records(request: pytest.FixtureRequest) -> Records:
    """The records of a log of this seed: made once for the tests that read them."""
    return busy_log(request.param).records


def read(boundary: Boundary) -> dict[str, int | None]:
    """Counts by transaction, as the real reader takes them from the record."""
    now, sent = datetime(2026, 1, 1, tzinfo=UTC), message(boundary)
    found = debezium_json().ended(RawRecord(Coordinate("t", 0, 0), now, sent.key, sent.value))
    return dict.fromkeys(found.ids, found.count(COLLECTION)) if found else {}


def ends(records: Records, sizes: Mapping[str, int], **lost: set[str]) -> dict[str, int]:
    """Counts of the transactions that have an end."""
    found = boundaries(records, sizes, **lost)
    return {number: count for each in found for number, count in read(each).items()}


def test_each_whole_transaction_has_an_end_with_its_count(records: Records) -> None:
    sizes = sizes_of(records)
    assert ends(records, sizes).items() >= sizes.items()


def test_an_end_may_be_lost(records: Records) -> None:
    sizes = sizes_of(records)
    lost = next(iter(sizes))
    assert sizes.keys() - ends(records, sizes, without_end={lost}).keys() == {lost}


def test_a_connector_that_died_inside_a_transaction_never_ends_it(records: Records) -> None:
    sizes = sizes_of(records)
    number, _ = max(sizes.items(), key=lambda each: each[1])
    cut = stopped_inside(records, number)
    assert any(number_of(each) == number for each in cut)
    assert number not in ends(cut, sizes)


def test_tables_named_like_side_topics_have_topics_of_their_own() -> None:
    topics = {names.table_topic("shop", table) for table in names.TABLES}
    assert len(topics) == len(names.TABLES)
    assert topics.isdisjoint(names.side_topics("shop"))
    assert names.table_topic("shop.public", "transaction.message") not in topics


def test_a_wide_record_leaves_hundreds_of_columns_out() -> None:
    log = busy_log(1, columns=1500)
    assert len(wide(1500).shape.columns) == 1501
    left = max(log.records, key=lambda each: len(each.event.unset) if each.event else 0)
    value = messages([left])[0].value or b""
    assert value.count(b"__debezium_unavailable_value") >= 500
