"""Whether a connector of MySQL or MariaDB has delivered everything from before a place."""

from __future__ import annotations

import pytest

from cdc_assets.databases.mysql.server import BinlogPosition, has_delivered, is_same_log, place_of

pytestmark = pytest.mark.unit

END = BinlogPosition("binlog.000010", 900)


@pytest.mark.parametrize(
    ("connector", "until", "end", "is_done"),
    [
        ("binlog.000009:500", "binlog.000009:500", "binlog.000010:900", True),
        ("binlog.000009:499", "binlog.000009:500", "binlog.000010:900", False),
        ("binlog.000010:4", "binlog.000009:99999", "binlog.000010:900", True),
        ("binlog.999999:4", "binlog.1000000:4", "binlog.1000001:4", False),
        ("binlog.1000000:5", "binlog.999999:4", "binlog.1000001:4", True),
        # A place beyond the log's end is of a log from before it was reset, or of another server.
        ("binlog.000090:4", "binlog.000002:4", "binlog.000003:4", False),
        ("other.000090:4", "binlog.000002:4", "binlog.000003:4", False),
    ],
)  # fmt: skip
def test_only_what_lies_before_both_the_connector_and_the_end_counts(
    connector: str, until: str, end: str, is_done: bool
) -> None:
    places = (BinlogPosition.parse(each) for each in (connector, until, end))
    assert has_delivered(*places) is is_done


@pytest.mark.parametrize(
    ("connector", "here", "is_same"),
    [
        ("0-7-12", "0-7-12", True),
        ("0-7-12", "0-8-12", True),  # written by another server, read by both
        ("0-7-12", "0-7-11", False),
        ("0-7-12", "0-7-13", False),
        ("0-7-12", "", False),  # no place of the server's
        ("0-7-12", "0-7-12,1-7-5", True),  # the connector leaves a domain out
        ("0-7-12,1-7-5", "0-7-12", False),
        ("", "0-7-12", True),  # nothing tells
    ],
)
def test_a_log_is_the_connectors_if_it_counts_alike_up_to_its_place(
    connector: str, here: str, *, is_same: bool
) -> None:
    assert is_same_log(BinlogPosition("binlog.000001", 4, connector), here) is is_same


def test_a_place_is_read_as_it_was_written() -> None:
    assert BinlogPosition.parse(str(END)) == END
    assert BinlogPosition.parse("binlog.000001:4") == BinlogPosition("binlog.000001", 4)


@pytest.mark.parametrize(
    ("offset", "place"),
    [
        ({"file": "b.1", "pos": 7, "gtids": "0-1-2"}, BinlogPosition("b.1", 7, "0-1-2")),
        ({"file": "b.1", "pos": 7}, BinlogPosition("b.1", 7)),
        ({"file": "b.1", "pos": 7, "snapshot": True}, None),
        ({"file": "b.1", "pos": 7, "snapshot": "INITIAL"}, None),
        ({}, None),
    ],
)
def test_while_a_snapshot_is_taken_there_is_no_place(
    offset: dict[str, object], place: BinlogPosition | None
) -> None:
    assert place_of(offset) == place
