"""Hour windows tile the log, whatever the order of its timestamps."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.log.hours import (
    HOUR,
    HOURS_START,
    HourWindow,
    boundaries,
    cut,
    first_hour,
    hour_of,
)

MINUTES = st.integers(min_value=-300, max_value=6 * 60)
LOGS = st.dictionaries(st.integers(0, 3), st.lists(MINUTES, max_size=30), min_size=1, max_size=3)
FIRSTS = st.integers(0, 3)
WINDOWS = [HourWindow.starting(HOURS_START + hours * HOUR) for hours in range(8)]


def earliest_offset(log, time):
    """Kafka's offsetsForTimes: the first record at or after the time, else the log's end."""
    return OffsetVector.of({
        partition: next(
            (
                offset
                for offset, minutes in enumerate(stamps)
                if HOURS_START + timedelta(minutes=minutes) >= time
            ),
            len(stamps),
        )
        for partition, stamps in log.items()
    })  # fmt: skip


@pytest.mark.property
@given(LOGS, FIRSTS)
def test_consecutive_hours_tile_the_log_exactly(log, first):
    begin = OffsetVector.of(dict.fromkeys(log, 0))
    start = WINDOWS[first].start
    cuts = [
        cut(window, begin, lambda time: earliest_offset(log, time), start)
        for window in WINDOWS[first:]
    ]
    assert cuts[0].start == begin
    assert cuts[-1].end == OffsetVector.of({p: len(stamps) for p, stamps in log.items()})
    for one, following in pairwise(cuts):
        assert one.end == following.start
        assert all(start <= one.end.get(partition) for partition, start in one.start)


@pytest.mark.property
@given(LOGS, FIRSTS)
def test_each_record_is_in_exactly_one_hour(log, first):
    begin = OffsetVector.of(dict.fromkeys(log, 0))
    start = WINDOWS[first].start
    seen = [
        (each.partition, offset)
        for window in WINDOWS[first:]
        for each in cut(window, begin, lambda time: earliest_offset(log, time), start).ranges
        for offset in range(each.start, each.end)
    ]
    everything = [(p, offset) for p, stamps in log.items() for offset in range(len(stamps))]
    assert sorted(seen) == sorted(everything)


@pytest.mark.unit
def test_the_hours_of_the_records_themselves_would_not_be_offset_ranges():
    """The inverse: why ``f`` cuts and not each record's own timestamp."""
    late_record = [10, 70, 20]
    own_hours = [hour_of(HOURS_START + timedelta(minutes=minutes)) for minutes in late_record]
    assert [i for i, hour in enumerate(own_hours) if hour == WINDOWS[0]] == [0, 2]
    cut_by_f = [
        cut(window, OffsetVector.of({0: 0}), lambda time: earliest_offset({0: late_record}, time))
        for window in WINDOWS[:2]
    ]
    assert [str(each) for one in cut_by_f for each in one.ranges] == ["0:[0,1)", "0:[1,3)"]


@pytest.mark.unit
def test_older_records_would_be_in_no_hour_if_the_first_did_not_reach_back():
    """The inverse, with hours that begin after the log does."""
    log, begin = {0: [10, 70, 20, 130]}, OffsetVector.of({0: 0})
    cuts = [cut(each, begin, lambda time: earliest_offset(log, time)) for each in WINDOWS[1:3]]
    assert [str(each) for one in cuts for each in one.ranges] == ["0:[1,3)", "0:[3,4)"]
    first = WINDOWS[1].start
    cuts = [
        cut(each, begin, lambda time: earliest_offset(log, time), first) for each in WINDOWS[1:3]
    ]
    assert [str(each) for one in cuts for each in one.ranges] == ["0:[0,3)", "0:[3,4)"]


NOW = datetime(2026, 11, 30, 10, 20, tzinfo=UTC)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("earliest", "first"),
    [
        (None, "2026-11-30-10:00"),
        (NOW, "2026-11-30-10:00"),
        (NOW - timedelta(minutes=21), "2026-11-30-09:00"),
        (NOW - timedelta(days=3), "2026-11-27-10:00"),
        (datetime(2019, 5, 1, tzinfo=UTC), "2026-11-23-10:00"),
        (datetime(1970, 1, 1, tzinfo=UTC), "2026-11-23-10:00"),
        (datetime(2031, 1, 1, tzinfo=UTC), "2026-11-30-10:00"),
        (datetime(9999, 12, 31, 23, 59, tzinfo=UTC), "2026-11-30-10:00"),
    ],
    ids=["no record", "now", "the hour before", "days ago", "2019", "1970", "2031", "9999"],
)
def test_hours_begin_with_the_earliest_record_within_a_week(earliest, first):
    assert HourWindow.starting(first_hour(earliest, NOW)).key == first


@pytest.mark.unit
def test_no_hour_begins_before_2026_though_the_clock_does():
    assert first_hour(datetime(2019, 5, 1, tzinfo=UTC), HOURS_START + HOUR) == HOURS_START
    assert first_hour(None, datetime(2020, 1, 1, tzinfo=UTC)) == HOURS_START


@pytest.mark.unit
def test_times_before_the_first_hour_belong_to_it():
    assert hour_of(NOW, NOW.replace(hour=12, minute=0)).key == "2026-11-30-12:00"
    assert hour_of(NOW, NOW.replace(hour=9, minute=0)).key == "2026-11-30-10:00"


@pytest.mark.property
@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(2020, 1, 1)))  # noqa: DTZ001
def test_a_time_lies_in_its_hour(time):
    window = hour_of(time)
    assert window.start <= time < window.end or (
        time < HOURS_START and window.is_first(HOURS_START)
    )
    assert HourWindow.from_key(window.key) == window


@pytest.mark.unit
def test_times_of_other_zones_find_their_utc_hour():
    eastern = timezone(timedelta(hours=-5))
    assert hour_of(datetime(2026, 11, 20, 20, 59, tzinfo=eastern)).key == "2026-11-21-01:00"


@pytest.mark.unit
def test_keys_are_those_of_dagster():
    assert WINDOWS[1].key == "2026-01-01-01:00"
    assert WINDOWS[0].is_closed(WINDOWS[1].start)
    assert not WINDOWS[0].is_closed(WINDOWS[1].start - timedelta(microseconds=1))


@pytest.mark.unit
def test_the_first_hour_needs_no_lower_bound():
    assert boundaries(WINDOWS[:2]) == (WINDOWS[0].end, WINDOWS[1].end)
    assert boundaries([WINDOWS[3], WINDOWS[1]]) == (
        WINDOWS[1].start,
        WINDOWS[1].end,
        WINDOWS[3].start,
        WINDOWS[3].end,
    )


@pytest.mark.unit
@pytest.mark.parametrize(
    "start",
    [HOURS_START - HOUR, HOURS_START + timedelta(minutes=1), datetime(2026, 5, 1)],  # noqa: DTZ001
)
def test_what_is_no_whole_hour_is_refused(start):
    with pytest.raises(ValueError, match="hour"):
        HourWindow(start, start + HOUR)


@pytest.mark.unit
@pytest.mark.parametrize("key", ["2026-11-20", "nonsense", "2025-01-01-00:00", "2026-11-20-10:30"])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(ValueError, match=r"hour|format|data"):
        HourWindow.from_key(key)


@pytest.mark.unit
@pytest.mark.parametrize("hour", [22, 23])
def test_the_end_of_the_calendar_has_an_hour(hour):
    last = hour_of(datetime(9999, 12, 31, hour, 30, tzinfo=UTC))
    assert last.key == "9999-12-31-22:00"
    assert HourWindow.from_key(last.key) == last
    with pytest.raises(ValueError, match="the calendar ends"):
        HourWindow.from_key("9999-12-31-23:00")
