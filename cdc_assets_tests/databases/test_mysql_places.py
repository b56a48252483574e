"""Whether a connector of MySQL or MariaDB has delivered everything from before a place."""

from __future__ import annotations

import pytest

from cdc_assets.databases.mysql.places import Place, has_delivered, place_of

pytestmark = pytest.mark.unit

END = Place("binlog.000010", 900, "0-1-50,1-1-9")


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
        ("binlog.000090:4 0-1-500", "binlog.000002:4 0-1-2", "binlog.000003:4 0-1-3", False),
        ("other.000090:4", "binlog.000002:4", "binlog.000003:4", False),
        # On another server the numbers of transactions are the same, in every domain.
        ("other.000090:4 0-2-40,1-1-9", "binlog.1:4 0-1-40,1-1-9", str(END), True),
        ("other.000090:4 0-2-39,1-1-9", "binlog.1:4 0-1-40,1-1-9", str(END), False),
        ("other.000090:4 0-2-40", "binlog.1:4 0-1-40,1-1-9", str(END), False),
        ("other.000090:4 0-2-51,1-1-9", "binlog.1:4 0-1-40,1-1-9", str(END), False),
        ("other.9:4 3E11FA47:1-9", "binlog.1:4 3E11FA47:1-9", "binlog.1:4 3E11FA47:1-9", False),
    ],
)  # fmt: skip
def test_only_what_lies_before_both_the_connector_and_the_end_counts(
    connector: str, until: str, end: str, is_done: bool
) -> None:
    places = (Place.parse(each) for each in (connector, until, end))
    assert has_delivered(*places) is is_done


def test_a_place_is_read_as_it_was_written() -> None:
    assert Place.parse(str(END)) == END
    assert Place.parse("binlog.000001:4") == Place("binlog.000001", 4)


@pytest.mark.parametrize(
    ("offset", "place"),
    [
        ({"file": "b.1", "pos": 7, "gtids": "0-1-2"}, Place("b.1", 7, "0-1-2")),
        ({"file": "b.1", "pos": 7}, Place("b.1", 7)),
        ({"file": "b.1", "pos": 7, "snapshot": True}, None),
        ({"file": "b.1", "pos": 7, "snapshot": "INITIAL"}, None),
        ({}, None),
    ],
)
def test_while_a_snapshot_is_taken_there_is_no_place(
    offset: dict[str, object], place: Place | None
) -> None:
    assert place_of(offset) == place
