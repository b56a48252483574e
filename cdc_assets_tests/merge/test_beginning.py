"""Where a table begins that is read beside the old one, and what is applied to it from there on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cdc_assets.changes.names import LakeName, TableName
from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.position import Scheme, encode
from cdc_assets.errors import ConflictError
from cdc_assets.formats.layout import Layout
from cdc_assets.lake import Published, TableState
from cdc_assets.lake.carried import Carried, SideMark
from cdc_assets.lake.shadow_progress import ShadowProgress
from cdc_assets.log.values import TopicIdentity, Watermarks
from cdc_assets.merge.intake.planning.starts import require_read
from cdc_assets.operations.rebuild.beginning import beginning_of
from cdc_assets.registry import TableEntry

pytestmark = pytest.mark.unit

TOPIC = TopicIdentity("cluster", "topic")
LAYOUT = Layout(dialect="bare", keyed=True, split_keys=True, scheme=Scheme.POSTGRES)
RECENT = OffsetVector.of({0: 70, 1: 80})


def position(lsn: int) -> str:
    return encode((lsn, lsn, 1)).hex().upper()


CARRIED = Carried(
    applied={0: position(30), 1: position(50)},
    partitions=2,
    partitions_seen=2,
    snapshot_starts={0: ((-1, 10),), 1: ()},
    max_tombstone=position(20),
    max_truncate=position(40),
    numbering="{}",
    side=SideMark(7),
    generation=3,
)
PUBLISHED = Published(
    offsets=OffsetVector.of({0: 10, 1: 20}),
    start=OffsetVector(),
    topic="t",
    topic_id="topic",
    cluster_id="cluster",
    attempt="a",
    run="r",
    kind="tail",
    published_at=datetime(2026, 3, 4, tzinfo=UTC),
    carried=CARRIED,
)
OLD = TableState(
    name=LakeName("n", "t"),
    snapshot_id=1,
    published=PUBLISHED,
    others={},
    columns=(),
    key=("id",),
    properties={
        "cdc-assets.dialect": "bare",
        "cdc-assets.keyed-by-record": "true",
        "cdc-assets.key-changes-in-updates": "true",
        "cdc-assets.positions": "postgres",
    },
    location="",
    is_empty=False,
    total_records=1,
    head_columns={},
)
WHOLE = Watermarks(OffsetVector.of({0: 5, 1: 20}), OffsetVector.of({0: 100, 1: 100}))


def begun(
    old: TableState = OLD, marks: Watermarks = WHOLE, layout: Layout = LAYOUT, topic: str = "topic"
) -> tuple[OffsetVector, Carried]:
    return beginning_of(old, layout, TopicIdentity("cluster", topic), marks, RECENT)


def test_it_begins_where_the_old_table_stands() -> None:
    offsets, carried = begun()
    assert offsets == PUBLISHED.offsets
    assert carried == replace(
        CARRIED,
        applied={0: position(50), 1: position(50)},
        max_tombstone="",
        side=SideMark(),
        generation=0,
        read_at=position(50),
        read_from=PUBLISHED.offsets,
        shadow=ShadowProgress(),
    )


@pytest.mark.parametrize(
    ("changed", "highest"),
    [({"max_tombstone": position(60)}, 60), ({"read_at": position(70)}, 70)],
    ids=["a_delete", "an_earlier_reading"],
)
def test_nothing_that_the_old_table_knows_is_above_the_rows(
    changed: dict[str, str], highest: int
) -> None:
    old = replace(OLD, published=replace(PUBLISHED, carried=replace(CARRIED, **changed)))
    assert begun(old)[1].read_at == position(highest)


OWN = OffsetVector.of({0: 6, 1: 0})
GONE = OffsetVector.of({0: 11, 1: 20})


@pytest.mark.parametrize("topic", ["topic", "another"])
@pytest.mark.parametrize("log_begin", [WHOLE.begin, GONE], ids=["goes on", "lost range"])
@pytest.mark.parametrize(
    "before", [{"read_from": OWN}, {"read_from": GONE, "read_at": position(9), "own_from": OWN}],
    ids=["built from its log", "read from its source before"],
)  # fmt: skip
def test_what_a_topic_holds_from_before_the_old_tables_beginning_stays_anothers(
    before: dict[str, Any], log_begin: OffsetVector, topic: str
) -> None:
    old = replace(OLD, published=replace(PUBLISHED, carried=replace(CARRIED, **before)))
    _, carried = begun(old, replace(WHOLE, begin=log_begin), topic=topic)
    carried = Carried.from_json(carried.to_json())
    assert carried.own_from == (OWN if topic == "topic" else None)
    assert carried.begun_behind(OffsetVector()) == carried.own_from
    assert carried.begun_behind(GONE) is None, "the log has lost it"


def test_a_table_with_all_of_its_topic_begins_with_it_whatever_was_read() -> None:
    _, carried = begun()
    assert carried.read_from == PUBLISHED.offsets
    assert carried.begun_behind(OffsetVector()) is None


LOST = Watermarks(OffsetVector.of({0: 11, 1: 20}), WHOLE.end)
SHORT = Watermarks(OffsetVector.of({0: 5, 1: 5}), OffsetVector.of({0: 9, 1: 100}))
OTHER = replace(LAYOUT, scheme=Scheme.ORACLE)


@pytest.mark.parametrize(
    ("old", "marks", "layout", "topic"),
    [
        (OLD, LOST, LAYOUT, "topic"),
        (OLD, SHORT, LAYOUT, "topic"),
        (OLD, WHOLE, LAYOUT, "another"),
        (OLD, WHOLE, OTHER, "topic"),
        (replace(OLD, published=None, is_lost=True), WHOLE, LAYOUT, "topic"),
    ],
    ids=["lost_range", "removed_records", "recreated", "other_positions", "lost_offsets"],
)
def test_where_that_means_nothing_rows_stand_below_every_change(
    old: TableState, marks: Watermarks, layout: Layout, topic: str
) -> None:
    offsets, carried = begun(old, marks, layout, topic)
    assert offsets == carried.read_from == RECENT
    assert carried.read_at == bytes(8 * layout.scheme.numbers).hex()
    assert carried.applied == {}
    assert carried.numbering == ""
    assert carried.shadow == ShadowProgress(doubts=1), "with several partitions it is compared"


def test_what_a_publish_carries_is_read_again() -> None:
    _, carried = begun()
    at = ShadowProgress(("eu", "7"), waves=2, rows=900, is_read=True, until=WHOLE.end, doubts=3)
    for shadow in (ShadowProgress(), at):
        said = replace(PUBLISHED, carried=replace(carried, shadow=shadow))
        assert Published.from_properties(said.to_properties()) == said


def test_a_wave_more_says_where_the_next_one_begins() -> None:
    one = ShadowProgress().after(400, ("7",))
    assert one == ShadowProgress(("7",), waves=1, rows=400)
    assert one.after(100, None) == ShadowProgress(None, waves=2, rows=500, is_read=True)


@pytest.mark.parametrize(
    ("shadow", "is_read"),
    [
        (None, True),
        (ShadowProgress(), False),
        (ShadowProgress(is_read=True), False),
        (ShadowProgress(is_read=True, until=WHOLE.end), True),
    ],
    ids=["from_its_log", "in_waves", "not_delivered_yet", "read"],
)
def test_no_batch_is_planned_into_a_table_that_is_being_read(
    shadow: ShadowProgress | None, *, is_read: bool
) -> None:
    """Its process appends what it reads, whatever is there."""
    state = replace(OLD, published=replace(PUBLISHED, carried=replace(CARRIED, shadow=shadow)))
    entry = TableEntry(TableName("s", "public", "t"), "t", OLD.name, PUBLISHED.published_at)
    if is_read:
        require_read(entry, state)
    else:
        with pytest.raises(ConflictError, match="reading the table's rows from the source"):
            require_read(entry, state)
