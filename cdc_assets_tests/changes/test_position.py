"""Byte order of positions is source order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.position import decode, encode, postgres

NUMBERS = st.tuples(*[st.integers(0, 2**63 - 1)] * 3)


@pytest.mark.property
@given(NUMBERS, NUMBERS)
def test_byte_order_is_the_order_of_the_numbers(left, right):
    assert (encode(left) < encode(right)) == (left < right)
    assert decode(encode(left)) == left


@pytest.mark.unit
@pytest.mark.parametrize("numbers", [(-1,), (2**63,)])
def test_numbers_that_would_break_byte_order_are_refused(numbers):
    with pytest.raises(ValueError, match="non-negative"):
        encode(numbers)


def at(commit, lsn, *, read=False, offset=0, floor=100):
    return postgres(sequence_commit=commit, lsn=lsn, offset=offset, is_read=read, read_floor=floor)


@pytest.mark.unit
def test_a_snapshot_row_is_older_than_what_commits_after_it_and_newer_than_what_did_before():
    row = at(None, 100, read=True)
    assert at(120, 90) > row
    assert at(80, 95) < row


@pytest.mark.unit
@pytest.mark.parametrize("commit", [None, 100])
def test_the_first_transaction_after_a_snapshot_is_newer_though_its_lsn_is_lower(commit):
    assert at(commit, 90, offset=7) > at(None, 100, read=True, offset=3)
