"""Records that are too large to be read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.log.values import RawRecord

pytestmark = pytest.mark.unit


def record(key: bytes | None, value: bytes | None) -> RawRecord:
    now = datetime(2026, 3, 4, tzinfo=UTC)
    return RawRecord(Coordinate("t", 0, 7), now, key, value, (("h", b"1"),))


@pytest.mark.parametrize(("key", "value"), [(b"12", b"345"), (None, b"12345"), (b"12345", None)])
def test_a_record_up_to_the_bound_is_as_it_lies_in_the_log(
    key: bytes | None, value: bytes | None
) -> None:
    assert record(key, value).within(5) == record(key, value)


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [(b"12", b"3456", b"12"), (None, b"123456", None), (b"123456", b"", None)],
    ids=["value", "no key", "key"],
)
def test_a_larger_one_is_unreadable_and_no_tombstone(
    key: bytes | None, value: bytes, kept: bytes | None
) -> None:
    found = record(key, value).within(5)
    assert (found.key, found.value, found.headers) == (kept, b"", ())
    assert found.coordinate == record(key, value).coordinate


def test_a_key_without_a_value_that_is_too_large_deletes_nothing() -> None:
    assert record(b"123456", None).within(5).value == b""
