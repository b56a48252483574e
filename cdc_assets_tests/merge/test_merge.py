"""What must hold whatever the log looks like: messages in, rows out, through the real merge."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from cdc_assets.errors import LostRangeError, RejectedRecordError, TerminalError
from cdc_assets.lake.branches import BranchState
from cdc_assets.log.hours import hour_of
from cdc_assets.merge.plan.plan import OWN_BRANCH
from cdc_assets.merge.statements import sql
from cdc_assets_tests.merge.events import PLACEHOLDER, event, tombstone
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.pipeline import Message

pytestmark = pytest.mark.stack

NAMED = {TABLE: {"columns": {"name": "string", "n": "bigint"}}}


def test_a_late_update_never_revives_a_deleted_row(pipeline: Make) -> None:
    made = start(pipeline, event("c", {"id": 1, "name": "a"}, 10, commit=5))
    made.produce(TABLE, [event("d", {"id": 1, "name": None}, 30, commit=25), tombstone(1)])
    made.merge(TABLE)
    assert names(made) == {}
    made.produce(TABLE, [event("u", {"id": 1, "name": "late"}, 20, commit=15)])
    (result,) = made.merge(TABLE)
    assert names(made) == {}
    assert result.stale == 1
    made.produce(TABLE, [event("c", {"id": 1, "name": "again"}, 40, commit=35)])
    made.merge(TABLE)
    assert names(made) == {1: "again"}


def test_an_older_change_in_the_same_batch_loses_to_a_newer_one_before_it(pipeline: Make) -> None:
    made = start(
        pipeline,
        event("c", {"id": 1, "name": "1"}, 10, commit=5),
        event("u", {"id": 1, "name": "3"}, 30, commit=25),
        event("u", {"id": 1, "name": "2"}, 20, commit=15),
        event("d", {"id": 2, "name": None}, 30, commit=25),
        event("c", {"id": 2, "name": "older"}, 20, commit=15),
    )
    assert names(made) == {1: "3"}


def test_the_first_transaction_after_a_snapshot_wins_though_its_lsn_is_lower(
    pipeline: Make,
) -> None:
    made = start(
        pipeline,
        event("r", {"id": 1, "name": "snapshot"}, 100),
        event("u", {"id": 1, "name": "in flight"}, 90),
    )
    assert names(made) == {1: "in flight"}


def test_the_first_transaction_wins_in_a_later_batch_too(pipeline: Make) -> None:
    made = start(pipeline, event("r", {"id": 1, "name": "snapshot"}, 100))
    made.produce(TABLE, [event("u", {"id": 1, "name": "in flight"}, 90)])
    made.merge(TABLE)
    assert names(made) == {1: "in flight"}


def test_unchanged_columns_keep_what_was_set_last(pipeline: Make) -> None:
    made = start(
        pipeline,
        event("c", {"id": 1, "name": "kept", "n": 1}, 10, commit=5),
        event("c", {"id": 2, "name": "old", "n": 1}, 11, commit=10),
        event("c", {"id": 3, "name": PLACEHOLDER, "n": 1}, 12, commit=11),
    )
    made.produce(
        TABLE,
        [
            event("u", {"id": 1, "name": PLACEHOLDER, "n": 2}, 20, commit=15),
            event("u", {"id": 2, "name": "new", "n": 2}, 21, commit=20),
            event("u", {"id": 2, "name": PLACEHOLDER, "n": 3}, 22, commit=21),
            event("u", {"id": 3, "name": None, "n": 3}, 23, commit=22),
        ],
    )
    made.merge(TABLE)
    assert made.by_key(TABLE) == {
        1: {"id": 1, "name": "kept", "n": 2},
        2: {"id": 2, "name": "new", "n": 3},
        3: {"id": 3, "name": None, "n": 3},
    }


def test_a_partial_update_of_an_unknown_row_stops_with_its_coordinate(pipeline: Make) -> None:
    made = start(pipeline, event("c", {"id": 1, "name": "a"}, 10, commit=5))
    before = made.lake.state(made.entry(TABLE).target)
    made.produce(TABLE, [event("u", {"id": 9, "name": PLACEHOLDER}, 20, commit=15)])
    with pytest.raises(RejectedRecordError, match=r"partition=0 offset=1"):
        made.merge(TABLE)
    assert made.lake.state(made.entry(TABLE).target) == before


def test_a_record_that_does_not_fit_stops_before_anything_is_written(pipeline: Make) -> None:
    made = start(pipeline, event("c", {"id": 1, "name": "a", "n": 1}, 10, commit=5), tables=NAMED)
    bad = event("u", {"id": 1, "name": "b", "n": "canary-7c1"}, 20, commit=15)
    made.produce(TABLE, [bad])
    with pytest.raises(RejectedRecordError, match=r"partition=0 offset=1") as stopped:
        made.merge(TABLE)
    assert "canary" not in str(stopped.value)
    assert names(made) == {1: "a"}


def test_a_quarantined_record_is_written_once_and_the_rest_goes_on(pipeline: Make) -> None:
    made = start(
        pipeline,
        event("c", {"id": 1, "name": "a"}, 10, commit=5),
        Message(b'{"id":2}', b"not json"),
        event("c", {"id": 3, "name": "c"}, 30, commit=25),
        bad_records="quarantine",
    )
    assert names(made) == {1: "a", 3: "c"}
    kept = made.spark().table(f"lake.cdc_assets_quarantine.{made.prefix}").collect()
    assert [(row["partition"], row["offset"], bytes(row["value"])) for row in kept] == [
        (0, 1, b"not json")
    ]


def test_a_new_column_is_added_if_its_type_is_known(pipeline: Make) -> None:
    tables = {TABLE: {"columns": {"name": "string", "born": "date"}}}
    made = start(pipeline, event("c", {"id": 1, "name": "a"}, 10, commit=5), tables=tables)
    made.produce(TABLE, [event("c", {"id": 2, "name": "b", "born": 19000}, 20, commit=15)])
    made.produce(TABLE, [event("d", {"id": 7, "name": None}, 30 + n, commit=25) for n in range(40)])
    made.merge(TABLE)
    rows = made.by_key(TABLE)
    assert rows[1]["born"] is None
    assert str(rows[2]["born"]) == "2022-01-08"


def test_a_new_column_of_no_known_type_stops_the_table_and_is_named(pipeline: Make) -> None:
    made = start(pipeline, event("c", {"id": 1, "name": "a"}, 10, commit=5))
    made.produce(TABLE, [event("c", {"id": 2, "name": "b", "extra": 1}, 20, commit=15)])
    with pytest.raises(TerminalError, match=r"'extra'.*offset=1"):
        made.merge(TABLE)
    assert names(made) == {1: "a"}


def test_replayed_hours_change_nothing(pipeline: Make) -> None:
    made = start(
        pipeline,
        event("c", {"id": 1, "name": "a"}, 10, commit=5),
        event("c", {"id": 2, "name": "b"}, 20, commit=15),
    )
    made.produce(TABLE, [event("d", {"id": 1, "name": None}, 30, commit=25)])
    made.merge(TABLE)
    before = made.lake.state(made.entry(TABLE).target)
    assert sum(batch.records for batch in made.replay(TABLE)) == 3
    assert names(made) == {2: "b"}
    after = made.lake.state(made.entry(TABLE).target)
    assert before is not None
    assert after is not None
    assert after.published is not None
    assert before.published is not None
    assert after.published.offsets == before.published.offsets


def test_an_hour_is_replayed_although_a_partition_has_lost_what_was_merged_before(
    pipeline: Make,
) -> None:
    made = pipeline()
    made.create_topic(TABLE, partitions=2)
    made.produce(TABLE, [event("c", {"id": 1, "name": "a"}, 10, commit=5)])
    made.merge(TABLE)
    state = made.lake.state(made.entry(TABLE).target)
    assert state is not None
    assert state.published is not None
    hour = hour_of(state.published.published_at)
    later = replace(
        event("c", {"id": 2, "name": "b"}, 20, commit=15),
        partition=1,
        timestamp_ms=round(hour.end.timestamp() * 1000),
    )
    made.produce(TABLE, [later])
    made.merge(TABLE)
    made.expire(TABLE, before=1)
    replicator, entry = made.replicator(), made.entry(TABLE)
    replayed = replicator.replay(entry, [hour.next()], run_id="replay")
    assert sum(batch.records for batch in replayed) == 1
    with pytest.raises(LostRangeError, match=r"0:\[0,1\) is gone"):
        list(replicator.replay(entry, [hour], run_id="replay"))


def test_offsets_below_the_logs_start_stop_the_table_and_name_the_range(pipeline: Make) -> None:
    from confluent_kafka import TopicPartition

    made = start(pipeline, event("c", {"id": 1, "name": "a"}, 10, commit=5))
    made.produce(
        TABLE, [event("u", {"id": 1, "name": str(n)}, 20 + n, commit=15) for n in range(5)]
    )
    deleted = made.admin.delete_records([TopicPartition(made.topic(TABLE), 0, 4)])
    for future in deleted.values():
        future.result(30)
    with pytest.raises(LostRangeError, match=r"0:\[1,4\)"):
        made.merge(TABLE)
    assert names(made) == {1: "a"}


def test_a_log_without_its_beginning_makes_no_table_unless_that_is_accepted(pipeline: Make) -> None:
    from confluent_kafka import TopicPartition

    made = pipeline()
    made.create_topic(TABLE)
    made.produce(
        TABLE, [event("c", {"id": n, "name": str(n)}, 20 + n, commit=15) for n in range(5)]
    )
    deleted = made.admin.delete_records([TopicPartition(made.topic(TABLE), 0, 3)])
    for future in deleted.values():
        future.result(30)
    with pytest.raises(LostRangeError, match=r"0:\[0,3\)"):
        made.merge(TABLE)
    assert made.lake.state(made.entry(TABLE).target) is None

    accepting = replace(made, source={**made.source, "lost_start": "accept"})
    accepting.merge(TABLE)
    assert names(accepting) == {3: "3", 4: "4"}


def test_branches_that_killed_writers_left_are_dropped_by_the_next_batch_with_one(
    pipeline: Make,
) -> None:
    made = start(pipeline, event("c", {"id": 1, "name": "a"}, 10, commit=5))
    target = made.entry(TABLE).target
    state = made.lake.state(target)
    assert state is not None
    catalog, killed = made.config.lake.catalog.name, f"cdc_{uuid4().hex}"
    made.spark().sql(sql.create_branch(catalog, target, killed, state.snapshot_id))
    made.spark().sql(sql.create_branch(catalog, target, "of_a_user", state.snapshot_id))
    made.spark().sql(sql.create_branch(catalog, target, "cdc_of_a_user", state.snapshot_id))
    assert made.lake.dead_branches(target, OWN_BRANCH) == (), "it may be at work"

    made.produce(TABLE, [event("u", {"id": 1, "name": "b"}, 20, commit=15)])
    made.merge(TABLE)
    assert made.lake.dead_branches(target, OWN_BRANCH) == (killed,), "one write needs no branch"
    made.produce(TABLE, [event("t", None, 30, commit=25)])
    made.merge(TABLE)
    assert set(made.lake.branches(target)) == {"main", "of_a_user", "cdc_of_a_user"}


def test_a_branch_that_came_back_on_another_head_is_not_published(pipeline: Make) -> None:
    """As Iceberg makes it for a writer whose branch was dropped while it appended."""
    made = start(pipeline, event("c", {"id": 1, "name": "a"}, 10, commit=5))
    target = made.entry(TABLE).target
    before = made.lake.state(target)
    assert before is not None
    made.produce(TABLE, [event("u", {"id": 1, "name": "b"}, 20, commit=15)])
    made.merge(TABLE)
    after = made.lake.state(target)
    assert after is not None
    assert after.published is not None
    attempt = after.published.attempt
    catalog = made.config.lake.catalog.name

    made.spark().sql(sql.create_branch(catalog, target, "cdc_late", after.snapshot_id))
    rows = made.spark().table(sql.table(catalog, target)).limit(0)
    writer = rows.writeTo(sql.table(catalog, target, "cdc_late"))
    for name, value in after.published.to_properties().items():
        writer = writer.option(f"snapshot-property.{name}", value)
    writer.append()

    late, now = BranchState("cdc_late", before.snapshot_id, attempt, 2), after.snapshot_id
    assert made.lake.dead_once_published(target, late, OWN_BRANCH) is None
    assert made.lake.dead_once_published(target, replace(late, head=now), OWN_BRANCH) == ()
