"""Places in logs are compared for certain, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.log_places import Gtids, Lsn
from cdc_assets_tests.toy.profiles import examples

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.unit
@pytest.mark.parametrize(
    ("place", "other", "expected"),
    [
        ("0-1-27", "0-1-27", True),
        ("0-1-27", "0-2-26", True),
        ("0-1-27", "0-1-28", False),
        ("0-1-27,1-1-5", "0-1-27", True),
        ("0-1-27", "0-1-27,1-1-1", False),
        ("0-1-9", "0-1-10", False),
        (f"{A}:1-9", f"{A}:1-9", True),
        (f"{A}:1-9", f"{A}:3-4:7", True),
        (f"{A}:1-5:7-9", f"{A}:1-6", False),
        (f"{A}:1-5:6-9", f"{A}:4-7", True),
        (f"{A}:1-9", f"{A}:1-9,{B}:1", False),
        (f"{A}:1-9,\n{B}:1-2", f"{B}:1-2,{A.upper()}:5", True),
        (f"{A}:1-9:tag:1-3", f"{A}:tag:2", True),
        (f"{A}:1-9:tag:1-3", f"{A}:tag:4", False),
        (f"{A}:1-9", f"{A}:tag:1", False),
        (f"{A}:1-9", "0-1-1", False),
    ],
)
def test_gtids_reach_what_is_among_them(place: str, other: str, expected: bool) -> None:
    assert Gtids.parse(place).reaches(Gtids.parse(other)) is expected


@pytest.mark.unit
@pytest.mark.parametrize(
    "text",
    ["", " ", ",", "0-1", "0-1-", "0-1-27,", "0-1-27;1-1-1", A, f"{A}:", f"{A}:1-", f"{A}:1-9,x",
     f"{A[:-1]}:1", f"{A}:1-9:tag-name:1", "-1-1-1"],
)  # fmt: skip
def test_what_is_no_set_of_gtids_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="GTID"):
        Gtids.parse(text)


@pytest.mark.unit
def test_places_are_what_they_are_written_as() -> None:
    assert Lsn.parse(str(Lsn(33_568_256))) == Lsn(33_568_256)
    text = f"{A}:1-5:7,\n{B}:2"
    assert str(Gtids.parse(text)) == text
    assert Gtids.parse(text) == Gtids.parse(f"{B}:2,{A}:7:1-3:4-5")


NUMBERS = st.sets(st.integers(1, 30), min_size=1)


@pytest.mark.property
@examples(300)
@given(mine=NUMBERS, other=NUMBERS)
def test_intervals_hold_what_their_numbers_hold(mine: set[int], other: set[int]) -> None:
    place, wanted = (Gtids.parse(f"{A}:" + ":".join(map(str, each))) for each in (mine, other))
    assert place.reaches(wanted) is (other <= mine)
