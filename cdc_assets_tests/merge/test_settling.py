"""Partitions that were added before a table was begun: no batch overwrites newer rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.offsets import OffsetRange, OffsetVector, limited
from cdc_assets.changes.position import Scheme, encode
from cdc_assets.lake.carried import Carried
from cdc_assets.merge.apply.keyed import choose
from cdc_assets.merge.guards.key_partitions import carried_on
from cdc_assets.merge.guards.key_schemas import with_keys_of
from cdc_assets.merge.plan.plan import Apply, BatchPlan
from cdc_assets_tests.merge.test_plan import ID, plan_of

Log = list[list[tuple[int, int]]]
"""Of each partition the records in order: key and LSN."""


def position(lsn: int, offset: int = 0) -> str:
    return encode((lsn, lsn, offset)).hex().upper()


@dataclass
class Lake:
    """A table as its batches leave it: the LSN of each key's row."""

    carried: Carried = field(default_factory=lambda: Carried(partitions=2))
    offsets: OffsetVector = field(default_factory=lambda: OffsetVector.of({0: 0, 1: 0}))
    rows: dict[int, int] = field(default_factory=dict[int, int])
    ways: list[Apply] = field(default_factory=list[Apply])
    has_begun: bool = False
    schema_of: Callable[[int], int] = lambda _: 0

    def merge(self, log: Log, limit: int) -> None:
        ends = OffsetVector.of({p: len(records) for p, records in enumerate(log)})
        unread = tuple(each for each in self.offsets.ranges_to(ends) if each.length)
        ranges = limited(unread, limit)
        plan = self._plan(unread, ranges)
        newest: dict[int, tuple[int, int]] = {}
        for each in ranges:
            for key, lsn in log[each.partition][each.start : each.end]:
                newest[key] = max(newest.get(key, (0, 0)), (lsn, each.partition))
        lowest: dict[int, str] = {}
        highest = dict(self.carried.applied)
        for lsn, p in newest.values():
            lowest[p] = min(lowest.get(p, "F"), position(lsn))
            highest[p] = max(highest.get(p, ""), position(lsn))
        schemas = frozenset(
            self.schema_of(lsn)
            for each in ranges
            for _, lsn in log[each.partition][each.start : each.end]
        )
        plan = with_keys_of(plan, schemas)
        way = choose(plan, lowest)
        for key, (lsn, _) in newest.items():
            is_newer = lsn > self.rows.get(key, 0)
            self.rows[key] = lsn if way is not Apply.GUARDED or is_newer else self.rows[key]
        self.carried = carried_on(replace(self.carried, applied=highest), plan, schemas)
        self.offsets, self.has_begun = plan.end, True
        self.ways.append(way)

    def _plan(self, unread: Sequence[OffsetRange], ranges: tuple[OffsetRange, ...]) -> BatchPlan:
        plan = plan_of(ID)
        assert plan.published is not None
        published = replace(plan.published, carried=self.carried) if self.has_begun else None
        end = {each.partition: each.end for each in ranges}
        return replace(
            plan, published=published, ranges=ranges, unread=tuple(unread),
            end=OffsetVector.of(self.offsets.as_dict() | end), is_empty=not self.rows,
        )  # fmt: skip


def logged(keys: Sequence[int], added_at: int) -> Log:
    """Changes of keys, of one partition until a second one was added."""
    log: Log = [[], []]
    for n, key in enumerate(keys):
        log[key % 2 if n >= added_at else 0].append((key, 10 + n))
    return log


@pytest.mark.property
@given(
    keys=st.lists(st.integers(0, 3), min_size=2, max_size=30),
    added_at=st.integers(0, 30),
    begun=st.integers(1, 30),
    limits=st.lists(st.integers(1, 8), min_size=1, max_size=5),
)
def test_no_batch_overwrites_a_newer_row(
    keys: list[int], added_at: int, begun: int, limits: list[int]
) -> None:
    """The log goes on while the table is filled; partitions were added before that."""
    lake, log = Lake(), logged(keys, min(added_at, begun))
    for n in range(begun, begun + 60):
        log = logged(keys[:n], min(added_at, begun))
        if sum(map(len, log)) > sum(at for _, at in lake.offsets):
            lake.merge(log, limits[n % len(limits)])
    while sum(map(len, log)) > sum(at for _, at in lake.offsets):
        lake.merge(log, limits[0])
    assert lake.rows == {key: 10 + n for n, key in enumerate(keys)}


@pytest.mark.property
@given(
    keys=st.lists(st.integers(0, 3), min_size=2, max_size=40),
    moved_at=st.lists(st.integers(0, 40), max_size=3),
    limits=st.lists(st.integers(1, 8), min_size=1, max_size=5),
)
def test_no_batch_overwrites_a_newer_row_once_keys_have_another_schema(
    keys: list[int], moved_at: list[int], limits: list[int]
) -> None:
    """Also one that they had before, as of a connector that goes back to its former version."""

    def schema_of(lsn: int) -> int:
        return 5 + sum(lsn >= 10 + at for at in moved_at) % 2

    def logged_until(end: int) -> Log:
        log: Log = [[], []]
        for n, key in enumerate(keys[:end]):
            log[(key + schema_of(10 + n)) % 2].append((key, 10 + n))
        return log

    lake = Lake(schema_of=schema_of)
    for n in range(1, 80):
        log = logged_until(n)
        if sum(map(len, log)) > sum(at for _, at in lake.offsets):
            lake.merge(log, limits[n % len(limits)])
    assert lake.rows == {key: 10 + n for n, key in enumerate(keys)}


@pytest.mark.unit
def test_an_older_change_in_the_former_partition_is_looked_up() -> None:
    lake, log = Lake(), [[(7, 10), (1, 50), (7, 90), (1, 95)], [(7, 120), (3, 130)]]
    lake.merge(log, 3)
    assert lake.carried.settles_at == OffsetVector.of({0: 4, 1: 2})
    while not lake.carried.settled_at:
        lake.merge(log, 3)
    assert lake.rows == {7: 120, 1: 95, 3: 130}
    assert lake.carried.settled_at == position(130)


@pytest.mark.unit
def test_a_table_that_has_caught_up_is_as_fast_as_before() -> None:
    """One that an older version has published settles with its next batch."""
    log = logged([0, 1, 2, 3], 0)
    lake = Lake()
    lake.merge(log, 100)
    for n in range(4):
        log[n % 2].append((n, 100 - 10 * (n % 2) + n))
    lake.merge(log, 100)
    log[1].append((1, 150))
    lake.merge(log, 100)
    log[0].append((0, 145))
    lake.merge(log, 100)
    assert lake.ways == [Apply.APPEND, Apply.REPLACE, Apply.REPLACE, Apply.REPLACE]
    lake.carried = replace(lake.carried, settled_at="")
    log[0].append((0, 149))
    lake.merge(log, 100)
    log[0].append((0, 155))
    lake.merge(log, 100)
    assert lake.ways[4:] == [Apply.GUARDED, Apply.REPLACE]


@pytest.mark.unit
def test_rows_of_one_snapshot_are_looked_up_in_no_partition() -> None:
    plan = plan_of(ID)
    assert plan.published is not None
    applied = {0: encode((9, 0, 70)).hex().upper(), 1: encode((9, 0, 90)).hex().upper()}
    carried = Carried(applied=applied, partitions=2, settles_at=OffsetVector.of({0: 200, 1: 200}))
    plan = replace(plan, published=replace(plan.published, carried=carried))
    lowest = {0: encode((9, 0, 71)).hex().upper(), 1: encode((9, 0, 91)).hex().upper()}
    assert choose(plan, lowest) is Apply.GUARDED
    assert choose(plan, lowest, all_read=True) is Apply.REPLACE
    older = {0: encode((8, 0, 71)).hex().upper()}
    assert choose(plan, older, all_read=True) is Apply.GUARDED
    again = {0: encode((9, 0, 70)).hex().upper()}
    assert choose(plan, again, all_read=True) is Apply.GUARDED


@pytest.mark.unit
def test_tables_whose_keys_are_looked_for_compare_offsets_of_one_partition() -> None:
    plan = plan_of(ID)
    assert plan.published is not None
    applied = {0: encode((1_000,)).hex().upper(), 1: encode((9,)).hex().upper()}
    carried = Carried(applied=applied, partitions=2)
    layout = replace(plan.layout, scheme=Scheme.OFFSET)
    plan = replace(plan, published=replace(plan.published, carried=carried), layout=layout)
    assert choose(plan, {1: encode((10,)).hex().upper()}) is Apply.REPLACE
