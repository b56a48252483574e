"""Deletes in every form, truncates, and what they leave behind."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.errors import RejectedRecordError, TerminalError
from cdc_assets.lake.side import side_name
from cdc_assets_tests.merge.events import AT_MS, PLACEHOLDER, event, tombstone, truncate
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

SOFT = {TABLE: {"deletes": "soft"}}


def made(id_: int, name: str | None, lsn: int, **more: object) -> Message:
    return event("c", {"id": id_, "name": name}, lsn, commit=lsn - 1, **more)  # type: ignore[arg-type]


# ── truncate ──────────────────────────────────────────────────────────────────────────────


def test_a_truncate_in_the_middle_of_a_batch_removes_what_is_older_wherever_it_lies(
    pipeline: Make,
) -> None:
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20, partition=1), partitions=3)
    table.produce(
        TABLE,
        [
            made(3, "older", 30, partition=1),
            truncate(40, commit=39, partition=2),
            made(4, "newer", 50),
            made(1, "again", 60, partition=1),
        ],
    )
    (result,) = table.merge(TABLE)
    assert names(table) == {4: "newer", 1: "again"}
    assert "truncate at" in result.plan_text

    table.replay(TABLE)
    assert names(table) == {4: "newer", 1: "again"}
    late = event("u", {"id": 2, "name": "late"}, 35, commit=34, partition=1)
    table.produce(TABLE, [late, truncate(40, commit=39)])  # sent again by the connector
    table.merge(TABLE)
    assert names(table) == {4: "newer", 1: "again"}


def test_a_value_from_before_a_truncate_completes_nothing(pipeline: Make) -> None:
    table = start(pipeline, made(1, "kept?", 10))
    table.produce(
        TABLE,
        [
            event("u", {"id": 1, "name": "older"}, 20, commit=19),
            truncate(30, commit=29),
            event("u", {"id": 1, "name": PLACEHOLDER}, 40, commit=39),
        ],
    )
    with pytest.raises(RejectedRecordError, match="offset=3"):
        table.merge(TABLE)


def test_a_truncate_of_no_position_among_several_partitions_stops(pipeline: Make) -> None:
    def unplaced(message: Message) -> Message:
        text = (message.value or b"").replace(b'"postgresql"', b'"unknown"')
        return replace(message, value=text)

    table = start(pipeline, unplaced(made(1, "a", 10)), partitions=2)
    table.produce(TABLE, [unplaced(truncate(20, commit=19, partition=1))])
    with pytest.raises(TerminalError, match=r"several partitions.*partition=1 offset=0"):
        table.merge(TABLE)
    assert names(table) == {1: "a"}


# ── deletes ───────────────────────────────────────────────────────────────────────────────


def test_a_record_without_a_value_alone_deletes_its_key(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20), made(3, "c", 30), tombstone(3))
    assert names(table) == {1: "a", 2: "b"}
    table.produce(TABLE, [tombstone(1), event("u", {"id": 2, "name": "B"}, 40, commit=39)])
    table.merge(TABLE)
    assert names(table) == {2: "B"}
    table.produce(TABLE, [event("u", {"id": 1, "name": "late"}, 9, commit=8)])
    table.merge(TABLE)
    assert names(table) == {2: "B"}


def test_a_delete_beside_an_older_change_is_carried_out_where_deletes_are_remembered(
    pipeline: Make,
) -> None:
    """What is remembered by the batch itself must not make its own deletes look old."""
    gone = event("d", {"id": 3, "name": None}, 30, commit=29)
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20), gone)
    late = event("u", {"id": 1, "name": "late"}, 5, commit=4)
    table.produce(TABLE, [late, event("d", {"id": 2, "name": None}, 40, commit=39)])
    table.merge(TABLE)
    assert names(table) == {1: "a"}


def test_in_steady_state_a_batch_with_deletes_writes_them_once_and_reads_nothing(
    pipeline: Make,
) -> None:
    table = start(pipeline, *(made(n, "a", 10 + n) for n in range(3)))
    for n in range(2):
        at = 50 + 20 * n
        gone = event("d", {"id": n, "name": None}, at, commit=at - 1)
        table.produce(TABLE, [gone, tombstone(n), made(7 + n, "b", at + 10)])
        (result,) = table.merge(TABLE)
        assert "remember deletes" in result.steps
        assert "look up" not in result.steps
    side = side_name(table.entry(TABLE).target)
    files = table.spark().table(f"lake.{side}.files").select("record_count").collect()
    assert [row["record_count"] for row in files] == [1, 1], "one small file for each batch"


@profiles.in_soak
def test_remembered_deletes_survive_the_compaction_of_their_table(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10), made(2, "b", 20))
    for n in (1, 2):
        gone = event("d", {"id": n, "name": None}, 30 + n, commit=29 + n)
        table.produce(TABLE, [gone, made(9, "c", 40 + n)])
        table.merge(TABLE)
    side = side_name(table.entry(TABLE).target)
    rewritten = table.spark().sql(
        f"CALL lake.system.rewrite_data_files(table => '{side}', "
        "options => map('rewrite-all', 'true'))"
    )
    assert rewritten.collect()[0]["rewritten_data_files_count"] == 2
    table.produce(TABLE, [event("u", {"id": 1, "name": "late"}, 15, commit=14)])
    table.merge(TABLE)
    assert names(table) == {9: "c"}


def test_a_delete_sent_again_with_its_tombstone_takes_no_newer_row_away(pipeline: Make) -> None:
    deleted = event("d", {"id": 1, "name": None}, 20, commit=19)
    table = start(pipeline, made(1, "a", 10), deleted, tombstone(1), made(1, "again", 30))
    for batch in ([deleted], [tombstone(1)], [deleted, tombstone(1)]):
        table.produce(TABLE, batch)
        table.merge(TABLE)
        assert names(table) == {1: "again"}


def test_a_delete_with_neither_key_nor_image_is_rejected(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10))
    nameless = event("d", None, 20, commit=19, key=())
    table.produce(TABLE, [nameless])
    with pytest.raises(RejectedRecordError, match=r"neither key nor before image.*offset=1"):
        table.merge(TABLE)


def test_soft_deletes_keep_the_row_and_say_when(pipeline: Make) -> None:
    table = start(
        pipeline,
        made(1, "a", 10),
        made(2, "b", 20),
        event("d", {"id": 2, "name": None}, 30, commit=29),
        tombstone(2),
        tables=SOFT,
    )
    gone = event("d", {"id": 1, "name": None}, 40, commit=39)
    unknown = event("d", {"id": 9, "name": None}, 50, commit=49)
    table.produce(TABLE, [gone, unknown, made(3, "c", 60)])
    table.merge(TABLE)
    assert marks(table) == {1: ("a", True), 2: ("b", True), 3: ("c", False), 9: (None, True)}

    late = event("u", {"id": 1, "name": "late"}, 35, commit=34)
    table.produce(TABLE, [late, made(2, "back", 70)])
    table.merge(TABLE)
    assert marks(table) == {1: ("a", True), 2: ("back", False), 3: ("c", False), 9: (None, True)}

    table.produce(TABLE, [truncate(80, commit=79), made(4, "d", 90)])
    table.merge(TABLE)
    table.replay(TABLE)
    assert marks(table) == {
        1: ("a", True), 2: ("back", True), 3: ("c", True), 4: ("d", False), 9: (None, True),
    }  # fmt: skip


@profiles.in_soak
@pytest.mark.parametrize("soft", [True, False], ids=["soft", "hard"])
def test_a_record_without_a_value_that_is_read_again_alone_changes_nothing(
    pipeline: Make, soft: bool
) -> None:
    """As in a compacted log, which no longer has the delete before it."""
    table = start(
        pipeline,
        made(1, "a", 10),
        event("d", {"id": 1, "name": None}, 20, commit=19),
        tombstone(1),
        tables=SOFT if soft else {},
    )

    def rows() -> list[Row]:
        return table.spark().table(f"lake.{table.entry(TABLE).target}").collect()

    state, before = table.lake.state(table.entry(TABLE).target), rows()
    table.expire(TABLE, 2)
    table.replay_offsets(TABLE, OffsetRange(0, 2, 3))
    assert rows() == before
    assert table.lake.state(table.entry(TABLE).target) == state, "nothing is published"


@profiles.in_soak
def test_what_a_soft_table_held_before_a_truncate_stays_in_it_marked(pipeline: Make) -> None:
    table = start(
        pipeline, made(1, "a", 10), truncate(20, commit=19), made(2, "b", 30), tables=SOFT
    )
    assert marks(table) == {1: ("a", True), 2: ("b", False)}


def test_a_soft_table_takes_many_truncates_in_one_batch_at_once(pipeline: Make) -> None:
    """Each row is marked by the first truncate after its last change, however they are sent."""
    drawn, before, batch = Random(7), list[Message](), list[Message]()
    rows = dict[int, tuple[str | None, int | None]]()  # name, and when it was deleted
    newest = dict[int, int]()  # position
    for lsn in range(10, 1000, 5):
        id_, op, name, at = drawn.randrange(16), drawn.choice("cuud"), f"at {lsn}", AT_MS + lsn
        if lsn % 100 == 10:  # there before the batch, between its truncates
            id_, op, known = 20 + lsn // 100, "c", before
        else:
            known = batch
        if lsn % 25 == 0:
            part = drawn.randrange(2)
            batch.append(event("t", None, lsn, commit=lsn - 1, key=(), partition=part, at_ms=at))
            for each, (kept, gone) in rows.items():
                if gone is None:
                    rows[each], newest[each] = (kept, at), lsn
        elif known is before or lsn % 200 > 80:
            held = rows.get(id_, (None, None))[0]
            is_partial = op == "u" and held is not None and lsn % 10 == 5
            said = {"id": id_, "name": PLACEHOLDER if is_partial else name}
            known.append(event(op, said, lsn, commit=lsn - 1, partition=id_ % 2, at_ms=at))
            kept = held if is_partial or op == "d" else name
            rows[id_], newest[id_] = (kept, at if op == "d" else None), lsn
    drawn.shuffle(batch)
    table = start(pipeline, *before, tables=SOFT, partitions=2)
    table.produce(TABLE, batch)
    target = f"lake.{table.entry(TABLE).target}"
    for merge in (table.merge, table.replay):
        merge(TABLE)
        millis = F.unix_millis("_cdc_deleted_at").alias("ms")
        found = table.spark().table(target).orderBy("_cdc_position").select("*", millis).collect()
        assert {row["id"]: (row["name"], row["ms"]) for row in found} == rows
        assert all(row["_cdc_deleted"] == (row["ms"] is not None) for row in found)
        assert [newest[row["id"]] for row in found] == sorted(newest.values())
        snapshots = table.spark().table(f"{target}.snapshots").count()
        assert snapshots == 3, "the first rows, all marks, all changes"
    assert {gone is None for _, gone in rows.values()} == {True, False}
    by_a_truncate = {gone for id_, (_, gone) in rows.items() if gone and newest[id_] % 25 == 0}
    assert len(by_a_truncate) > 5


def test_deletes_cannot_be_changed_for_a_table_that_is_there(pipeline: Make) -> None:
    table = start(pipeline, made(1, "a", 10))
    softened = replace(table, source={**table.source, "tables": SOFT})
    softened.produce(TABLE, [made(2, "b", 20)])
    with pytest.raises(TerminalError, match="made with deletes: hard"):
        softened.merge(TABLE)


def marks(pipeline: Pipeline) -> dict[object, tuple[object, bool]]:
    rows = pipeline.spark().table(f"lake.{pipeline.entry(TABLE).target}").collect()
    found = {row["id"]: (row["name"], row["_cdc_deleted"]) for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    for row in rows:
        assert (row["_cdc_deleted_at"] is not None) == row["_cdc_deleted"]
    return found


# ── keys that are no objects, or cannot be read ───────────────────────────────────────────

KEYED: dict[str, object] = {"tables": {TABLE: {"primary_key": ["id"]}}}
UNREADABLE = b"Struct{id=1}"
"""As Kafka Connect's ``StringConverter`` writes the key of a table."""


def with_key(message: Message, key: bytes) -> Message:
    return replace(message, key=key)


@profiles.in_soak
@pytest.mark.parametrize("connector", [b'"postgresql"', b'"unknown"'], ids=["placed", "by offset"])
def test_a_lone_record_without_a_value_whose_key_cannot_be_read_is_refused(
    pipeline: Make, connector: bytes
) -> None:
    def sent(message: Message) -> Message:
        value = message.value and message.value.replace(b'"postgresql"', connector)
        return Message(UNREADABLE, value)

    table = start(pipeline, sent(made(1, "a", 10)), **KEYED)
    gone = sent(event("d", {"id": 1, "name": "a"}, 20, commit=19))
    table.produce(TABLE, [gone, sent(tombstone(1)), sent(made(1, "b", 30))])
    table.merge(TABLE)
    assert names(table) == {1: "b"}, "the delete event said what it deletes"
    table.produce(TABLE, [sent(tombstone(1))])
    with pytest.raises(RejectedRecordError, match=r"key.*offset=4"):
        table.merge(TABLE)


@profiles.in_soak
def test_a_record_without_a_value_may_begin_a_batch_after_its_delete_event(pipeline: Make) -> None:
    table = start(pipeline, with_key(made(1, "a", 10), UNREADABLE), **KEYED)
    table.produce(TABLE, [with_key(event("d", {"id": 1, "name": "a"}, 20, commit=19), UNREADABLE)])
    table.merge(TABLE)
    table.produce(TABLE, [with_key(tombstone(1), UNREADABLE), made(2, "b", 30)])
    table.merge(TABLE)
    assert names(table) == {2: "b"}


@profiles.in_soak
def test_lone_records_without_a_value_whose_keys_cannot_be_read_are_set_aside(
    pipeline: Make,
) -> None:
    table = start(pipeline, with_key(made(1, "a", 10), UNREADABLE), made(2, "b", 20),
                  bad_records="quarantine", **KEYED)  # fmt: skip
    table.produce(TABLE, [with_key(tombstone(1), UNREADABLE), made(3, "c", 30)])
    (result,) = table.merge(TABLE)
    assert result.rejected == 1
    assert names(table) == {1: "a", 2: "b", 3: "c"}
