"""Planning: pure rules over offsets and positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import OffsetRange, OffsetVector, limited, total_length
from cdc_assets.changes.position import Scheme, encode
from cdc_assets.errors import TerminalError
from cdc_assets.formats.layout import Layout
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.carried import Carried
from cdc_assets.lake.columns import DROPPED, SCHEMA
from cdc_assets.log.values import TopicIdentity
from cdc_assets.merge.apply.content import require_whole_content
from cdc_assets.merge.apply.keyed import choose
from cdc_assets.merge.guards.moved_keys import moves_keys
from cdc_assets.merge.plan.plan import Apply, BatchPlan
from cdc_assets.merge.plan.table_steps import (
    DescribeColumns,
    DropColumns,
    RenameColumn,
    WidenColumn,
)
from cdc_assets.registry import TableEntry
from cdc_assets.schema.stored import to_json
from cdc_assets.schema.types import Column, Identity, Primitive, TableSchema, Wire

RANGES = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(1, 5000)), min_size=1, max_size=8
).map(lambda pairs: tuple(OffsetRange(p, s, s + n) for p, (s, n) in enumerate(pairs)))


@pytest.mark.property
@given(RANGES, st.integers(1, 20_000))
def test_a_limit_cuts_every_partition_and_skips_nothing(ranges, limit):
    cut = limited(ranges, limit)
    assert [(each.partition, each.start) for each in cut] == [
        (each.partition, each.start) for each in ranges
    ]
    assert all(0 < each.length <= whole.length for each, whole in zip(cut, ranges, strict=True))
    most = total_length(ranges)
    assert min(limit, most) <= total_length(cut) <= limit + len(ranges)


@pytest.mark.unit
def test_a_partition_without_anything_to_read_is_given_nothing_by_a_limit():
    """What lies beyond it is of a later hour."""
    ranges = (OffsetRange(0, 5, 5), OffsetRange(1, 0, 100))
    assert limited(ranges, 10) == (OffsetRange(0, 5, 5), OffsetRange(1, 0, 10))


@pytest.mark.unit
def test_a_log_of_three_limits_takes_three_batches():
    """Rounding down would leave a fourth one a few records."""
    rest = tuple(OffsetRange(p, 0, n) for p, n in enumerate((299_780, 300_346, 299_841, 300_033)))
    for _ in range(3):
        cut = limited(rest, 400_000)
        assert total_length(cut) == 400_000
        rest = tuple(
            OffsetRange(each.partition, done.end, each.end)
            for each, done in zip(rest, cut, strict=True)
        )
    assert total_length(rest) == 0


# ── how a batch is applied ────────────────────────────────────────────────────────────────

ID = Column("id", Primitive.INT, Wire.INT, required=True)
MADE = TableSchema((ID, Column("n", Primitive.INT, Wire.INT)), ("id",))
WIDER = replace(ID, type=Primitive.LONG, wire=Wire.LONG)
RENAMED = replace(ID, name="number", identity=Identity("number", ("id",), ("id",)))
SENT_AS_ANOTHER = replace(ID, identity=Identity("number", ("id",)))
RENAMED_BACK = replace(ID, identity=Identity("id", ("number",), ("number",), turn=2))


def position(lsn: int) -> str:
    return encode((lsn, lsn, 0)).hex().upper()


def plan_of(
    key: Column,
    *,
    partitions: int = 2,
    keyed: bool = True,
    state_types: Mapping[str, str] = MappingProxyType({}),
) -> BatchPlan:
    """Partition 0 lags behind partition 1: applied are the LSNs 10 and 50."""
    name, at = LakeName("n", "t"), datetime(2026, 3, 4, tzinfo=UTC)
    applied = {0: position(10), 1: position(50)}
    carried = Carried(applied=applied, partitions=2, settled_at=position(5))
    offsets = OffsetVector.of({0: 1, 1: 5})
    published = Published(offsets, offsets, "t", "topic", "cluster", "a", "r", "tail", at, carried)
    state = TableState(
        name, 1, published, {}, (), ("id",), {SCHEMA: to_json(MADE)}, "",
        is_empty=False, total_records=1, head_columns={}, head_types=state_types,
    )  # fmt: skip
    return BatchPlan(
        entry=TableEntry(TableName("s", "public", "t"), "t", name, at),
        head=1, published=published, identity=TopicIdentity("cluster", "topic"),
        start=offsets, ranges=(OffsetRange(0, 1, 2),), end=offsets, partitions=partitions,
        context=(), schema=TableSchema((key, MADE.column("n")), (key.name,)),
        layout=Layout("inline", keyed=keyed, split_keys=False, scheme=Scheme.POSTGRES),
        is_empty=False, head_columns={}, soft=False, replay=False, run_id="r", attempt="a",
        state=state,
    )  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize(
    "plan",
    [plan_of(WIDER), plan_of(RENAMED), plan_of(SENT_AS_ANOTHER), plan_of(RENAMED_BACK),
     plan_of(ID, partitions=3), plan_of(ID, keyed=False)],
    ids=["wider key", "renamed key", "key of another name in records", "renamed back",
         "more partitions", "keys do not decide"],
)  # fmt: skip
def test_a_key_that_may_have_moved_is_looked_up_until_all_partitions_are_passed(
    plan: BatchPlan,
) -> None:
    """An older change of it may be unread in its former partition."""
    assert choose(plan, {0: position(20)}) is Apply.GUARDED
    assert choose(plan, {0: position(20), 1: position(60)}) is Apply.GUARDED
    assert choose(plan, {0: position(60), 1: position(70)}) is Apply.REPLACE


@pytest.mark.unit
def test_keys_move_in_the_batch_that_finds_their_column_another_and_in_tries_after_it() -> None:
    there = {"head_columns": {"id": "id", "n": "n"}}
    steps = (WidenColumn(WIDER),)
    plan = replace(plan_of(WIDER, state_types={"id": "int", "n": "int"}), **there)
    assert moves_keys(plan), "a try before has widened it"
    widened = plan_of(WIDER, state_types={"id": "long", "n": "int"})
    assert moves_keys(replace(widened, steps=steps))
    for state_types in ({}, {"id": "long", "n": "int"}):
        assert not moves_keys(plan_of(WIDER, state_types=state_types))
    assert not moves_keys(plan_of(WIDER, partitions=1, state_types={"id": "int"}))
    renamed = replace(plan_of(RENAMED), head_columns={"id": "id"})
    assert moves_keys(replace(renamed, steps=(RenameColumn("id", "number"),)))
    assert moves_keys(replace(renamed, head_columns={"number": "id"}))
    assert not moves_keys(replace(renamed, head_columns={"number": "number"}))
    described = (DescribeColumns((SENT_AS_ANOTHER,)),)
    assert moves_keys(replace(plan_of(SENT_AS_ANOTHER), steps=described))
    assert not moves_keys(replace(plan_of(ID), steps=(DescribeColumns((ID,)),)))


@pytest.mark.unit
def test_a_key_that_stays_is_newer_if_it_is_in_its_partition() -> None:
    assert choose(plan_of(ID), {0: position(20)}) is Apply.REPLACE
    assert choose(plan_of(ID), {1: position(20)}) is Apply.GUARDED


# ── columns that were dropped ─────────────────────────────────────────────────────────────


@pytest.mark.unit
def test_columns_that_the_lake_has_dropped_make_content_of_records_with_them_unknown() -> None:
    plan = plan_of(ID)
    assert plan.state is not None
    once = replace(plan.state, properties={**plan.state.properties, DROPPED + "c": "true"})
    since = replace(plan, state=once)
    require_whole_content(since)
    with_it = replace(since.schema, left_out=("never_there", "c"))
    assert replace(since, schema=with_it).forgotten == ("c",)
    now = replace(plan, schema=with_it, steps=(DropColumns(("c",)),))
    assert now.forgotten == ("c",)
    with pytest.raises(TerminalError, match="records have c, which the lake has dropped"):
        require_whole_content(now)
