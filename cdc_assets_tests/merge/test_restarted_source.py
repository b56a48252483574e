"""A source whose positions went back: nothing that follows is ignored without a word."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cdc_assets.changes.offsets import OffsetRange
from cdc_assets.changes.restarts import Restarts
from cdc_assets.merge.guards.restarts.watch import RestartError
from cdc_assets.merge.intake import read
from cdc_assets.merge.statements import sql
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.merge.events import AT_MS, event
from cdc_assets_tests.merge.one_table import TABLE, Make, accept, accept_restart, names, start
from cdc_assets_tests.operated import run_rebuild
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

MINUTE = 60_000


def change(name: str, lsn: int, commit: int, minute: int, *, id_: int = 1) -> Message:
    at_ms = AT_MS + minute * MINUTE
    return event("u", {"id": id_, "name": name}, lsn, commit=commit, at_ms=at_ms)


OLD = (
    change("a", 899_000, 898_000, 0),
    change("b", 900_000, 899_500, 1),
    change("c", 900_500, 900_100, 1, id_=2),
)
RESTORED = (
    change("restored", 1_000, 900, 10),
    change("two", 1_100, 1_050, 11, id_=2),
    change("three", 1_200, 1_150, 12, id_=3),
)


def stops(made: Pipeline) -> RestartError:
    with pytest.raises(RestartError) as stopped:
        made.merge(TABLE)
    return stopped.value


def test_changes_after_a_restore_are_not_ignored_without_a_word(pipeline: Make) -> None:
    made = start(pipeline, *OLD)
    made.produce(TABLE, RESTORED)
    said = str(stops(made))
    assert names(made) == {1: "b", 2: "c"}
    for part in ("positions went back", "partition=0 offset=3", "commit 900 ", "commit 900100 "):
        assert part in said
    assert "2025-10-09T09:03:20" in said
    assert f"accept-restart {made.prefix}.public.t" in said
    assert f"rebuild {made.prefix}.public.t" in said
    assert "restored" not in said.replace("restored or", ""), "no value of a row"


def test_an_accepted_restart_is_merged_once_and_a_second_one_stops_again(pipeline: Make) -> None:
    made = start(pipeline, *OLD)
    made.produce(TABLE, RESTORED)
    stops(made)
    first = accept(made)
    assert first is not None
    assert accept(made) == first, "it can be given twice"
    assert names(made) == {1: "b", 2: "c"}, "accepting merges nothing"
    made.merge(TABLE)
    assert names(made) == {1: "restored", 2: "two", 3: "three"}
    made.produce(TABLE, [change("on", 1_300, 1_250, 13), RESTORED[1]])
    made.merge(TABLE)
    assert names(made) == {1: "on", 2: "two", 3: "three"}
    made.produce(TABLE, [change("restored again", 700, 600, 20)])
    assert "commit 600 " in str(stops(made))
    assert names(made) == {1: "on", 2: "two", 3: "three"}


def accepted(pipeline: Make) -> Pipeline:
    """A registered table that has merged an accepted restart."""
    made = start(pipeline, *OLD)
    made.produce(TABLE, RESTORED)
    stops(made)
    accept(made)
    made.merge(TABLE)
    RegistryFile(made.config.registry).add([made.entry(TABLE)])
    return made


def test_what_was_accepted_is_when_the_log_is_read_from_its_beginning_again(pipeline: Make) -> None:
    """The next restart is not: the table that was built has merged one, and stops at another."""
    made = accepted(pipeline)
    assert run_rebuild(made.config, str(made.entry(TABLE).table)).is_done
    assert names(made) == {1: "restored", 2: "two", 3: "three"}
    made.produce(TABLE, [change("restored again", 700, 600, 20)])
    assert "commit 600 " in str(stops(made))


def test_a_table_that_begins_behind_a_restart_stops_at_the_next_one(pipeline: Make) -> None:
    made = accepted(pipeline)
    name = str(made.entry(TABLE).table)
    assert not run_rebuild(made.config, name, from_snapshot=True).is_done
    made.produce(TABLE, [change("on", 1_300, 1_250, 13), change("two", 1_400, 1_350, 13, id_=2)])
    assert run_rebuild(made.config, name, snapshot_done=True).is_done
    made.produce(TABLE, [change("restored again", 700, 600, 20)])
    assert "commit 600 " in str(stops(made))
    assert names(made) == {1: "on", 2: "two"}


@profiles.in_soak
def test_what_was_merged_before_a_restart_is_replayed_in_its_own_numbering(pipeline: Make) -> None:
    made = start(pipeline, *OLD)
    made.produce(TABLE, RESTORED)
    accept(made)
    made.merge(TABLE)
    for ranges in (OffsetRange(0, 0, 3), OffsetRange(0, 0, 6), OffsetRange(0, 3, 5)):
        made.replay_offsets(TABLE, ranges)
        assert names(made) == {1: "restored", 2: "two", 3: "three"}


def test_both_numberings_in_the_first_batch_are_seen(pipeline: Make) -> None:
    """Here the new one even comes above all of the old one."""
    above = change("above", 950_000, 940_000, 20, id_=4)
    made = start_stopped(pipeline, *OLD, *RESTORED, above)
    assert names(made) == {}


def test_numberings_of_two_schemas_that_two_plans_read_are_seen(
    pipeline: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task reads the records of one schema, and sees none that goes back."""
    monkeypatch.setattr(read, "ONE_TASK", 0)
    wide = {f"c{n}": "same" for n in range(70)}
    old = event("c", {"id": 1, "n": 1, **wide}, 900_500, commit=900_100, at_ms=AT_MS)
    at_ms = AT_MS + 10 * MINUTE
    restored = event("c", {"id": 2, "n": 2, **wide}, 1_000, commit=900, at_ms=at_ms)
    start_stopped(pipeline, with_schema(old, "int32"), with_schema(restored, "int64"))


def with_schema(message: Message, kind: str) -> Message:
    """The message with its schema, in which ``n`` is of this kind."""
    value, key = json.loads(message.value or b""), json.loads(message.key or b"")
    kinds = {"id": "int64", "n": kind}
    fields = [
        {"field": name, "type": kinds.get(name, "string"), "optional": name != "id"}
        for name in value["after"]
    ]
    image = {"type": "struct", "fields": fields, "optional": True, "field": "after"}
    schema = {"type": "struct", "fields": [image], "name": "t.Envelope"}
    of_key = {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}
    return Message(
        json.dumps({"schema": of_key, "payload": key}).encode(),
        json.dumps({"schema": schema, "payload": value}).encode(),
    )


def start_stopped(pipeline: Make, *messages: Message) -> Pipeline:
    made = pipeline()
    made.create_topic(TABLE)
    made.produce(TABLE, messages)
    stops(made)
    return made


@profiles.in_soak
def test_both_numberings_in_one_later_batch_are_seen(pipeline: Make) -> None:
    """Not so low that it contradicts what was merged before."""
    made = start(pipeline, change("a", 100, 90, -10))
    made.produce(TABLE, [*OLD, *RESTORED])
    stops(made)
    assert names(made) == {1: "a"}
    accept(made)
    made.merge(TABLE)
    assert names(made) == {1: "restored", 2: "two", 3: "three"}


@profiles.in_soak
def test_rows_of_a_new_snapshot_after_a_restore_are_not_ignored_either(pipeline: Make) -> None:
    made = start(pipeline, *OLD)
    again = [
        event("r", {"id": id_, "name": f"read {id_}"}, 1_000, at_ms=AT_MS + 10 * MINUTE)
        for id_ in (1, 2)
    ]
    first = event("u", {"id": 1, "name": "in flight"}, 990, at_ms=AT_MS + 11 * MINUTE)
    made.produce(TABLE, [*again, first, change("later", 1_100, 1_050, 12, id_=2)])
    stops(made)
    accept(made)
    made.merge(TABLE)
    assert names(made) == {1: "in flight", 2: "later"}


@profiles.in_soak
def test_old_records_may_be_unread_in_other_partitions(pipeline: Make) -> None:
    """The new numbering begins in each partition where it does, also long after the first."""
    first = [
        event("c", {"id": id_, "name": "old"}, 800_000 + id_, commit=700_000, partition=id_)
        for id_ in (0, 1, 2)
    ]
    made = start(pipeline, *first, partitions=3)
    late = event(
        "u", {"id": 1, "name": "late"}, 950_000, commit=940_000, partition=1, at_ms=AT_MS + MINUTE
    )

    def new(id_: int, name: str, commit: int, minute: int) -> Message:
        row, at_ms = {"id": id_, "name": name}, AT_MS + minute * MINUTE
        return event("u", row, commit + 5, commit=commit, partition=id_, at_ms=at_ms)

    made.produce(TABLE, [late, new(0, "new", 1_000, 10)])
    stops(made)
    accept(made)
    made.merge(TABLE)
    assert names(made) == {0: "new", 1: "late", 2: "old"}
    made.produce(TABLE, [new(1, "new", 2_000, 11), new(2, "above", 960_000, 40)])
    made.merge(TABLE)
    assert names(made) == {0: "new", 1: "new", 2: "above"}
    published = made.lake.history(made.entry(TABLE).target, 1)[0]
    begun = Restarts.from_json(published.carried.numbering).epochs
    assert begun == {0: ((1, 1),), 1: ((2, 1),), 2: ((1, 1),)}


@profiles.in_soak
def test_a_transaction_that_was_open_while_a_connector_was_made_anew_is_none(
    pipeline: Make,
) -> None:
    """It is below what was merged, but waited for nobody: its rows are its own."""
    made = start(pipeline, *OLD)
    open_for_long = event("c", {"id": 3, "name": "open"}, 800_100, at_ms=AT_MS + 9 * MINUTE)
    made.produce(TABLE, [open_for_long, change("d", 901_000, 900_600, 10)])
    made.merge(TABLE)
    assert names(made) == {1: "d", 2: "c", 3: "open"}


@profiles.in_soak
def test_a_first_transaction_is_looked_at_by_its_rows_wherever_they_were_changed(
    pipeline: Make,
) -> None:
    """Deleted, or earlier in the batch; a row of the lake is below."""
    gone = event("d", {"id": 2, "name": "c"}, 900_700, commit=900_500, at_ms=AT_MS + 2 * MINUTE)
    deleted, changed = [
        event("u", {"id": id_, "name": "new"}, 1_000 + id_, at_ms=AT_MS + 10 * MINUTE)
        for id_ in (2, 3)
    ]
    here = change("here", 900_900, 900_800, 3, id_=3)
    for batch in ([deleted], [here, changed]):
        made = start(pipeline, *OLD, gone)
        made.produce(TABLE, batch)
        stopped = stops(made)
        assert stopped.restart.offset == 3 + len(batch)
        accept(made)
        made.merge(TABLE)
        assert "new" in names(made).values()


@profiles.in_soak
def test_a_first_transaction_below_a_truncate_is_one(pipeline: Make) -> None:
    """Who truncates a table waits for all who have changed it."""
    truncate = event("t", None, 900_700, commit=900_500, at_ms=AT_MS + 2 * MINUTE)
    first = event("c", {"id": 9, "name": "new"}, 1_000, at_ms=AT_MS + 10 * MINUTE)
    start_stopped(pipeline, *OLD, truncate, first)
    made = start(pipeline, *OLD, truncate)
    made.produce(TABLE, [first])
    stops(made)
    accept(made)
    made.merge(TABLE)
    assert names(made) == {9: "new"}


def test_a_record_that_is_set_aside_is_none(pipeline: Make) -> None:
    """The truncate has the batch looked at."""
    made = start(pipeline, *OLD, bad_records="quarantine")
    lower = event("u", {"id": None, "name": "?"}, 1_000, commit=900, at_ms=AT_MS + 10 * MINUTE)
    truncate = event("t", None, 901_000, commit=900_600, at_ms=AT_MS + 2 * MINUTE)
    made.produce(TABLE, [lower, truncate, change("after", 902_000, 901_500, 3)])
    (batch,) = made.merge(TABLE)
    assert "look at positions" in batch.steps
    assert names(made) == {1: "after"}


def test_changes_sent_again_are_none_and_neither_are_those_in_flight(pipeline: Make) -> None:
    """A transaction that was open while the snapshot was made may end minutes after it."""
    read = [event("r", {"id": id_, "name": "read"}, 890_000) for id_ in (1, 2)]
    made = start(pipeline, *read)
    in_flight = event("u", {"id": 2, "name": "in flight"}, 880_000, at_ms=AT_MS + 9 * MINUTE)
    made.produce(TABLE, [in_flight])
    made.merge(TABLE)
    assert names(made) == {1: "read", 2: "in flight"}
    later = change("d", 901_000, 900_600, 10)
    made.produce(TABLE, [later, in_flight, change("e", 902_000, 901_600, 11)])
    made.merge(TABLE)
    older = event("r", {"id": 2, "name": "older"}, 800_000, at_ms=AT_MS + 19 * MINUTE)
    made.produce(TABLE, [as_incremental(older), later])
    made.merge(TABLE)
    assert names(made) == {1: "e", 2: "in flight"}


def test_a_first_transaction_is_looked_at_only_where_it_is_not_above_all_that_was_merged(
    pipeline: Make,
) -> None:
    """Looking at it reads the batch again, and each restart of a connector begins with one."""
    made = start(pipeline, *OLD)
    for lsn, minute, is_looked_at in ((901_000, 10, False), (900_900, 20, True)):
        first = event("u", {"id": 2, "name": f"at {lsn}"}, lsn, at_ms=AT_MS + minute * MINUTE)
        made.produce(TABLE, [first, change("after", 990_000, 980_000, minute)])
        if is_looked_at:
            stops(made)
        else:
            (batch,) = made.merge(TABLE)
            assert "look at positions" not in batch.steps
        assert names(made) == {1: "after", 2: "at 901000"}


@profiles.in_soak
def test_the_first_transaction_after_a_restore_is_not_ignored_either(pipeline: Make) -> None:
    """It has no last commit; the snapshot of old lifts it, but not above what was streamed."""
    read = [event("r", {"id": id_, "name": "read"}, 890_000) for id_ in (1, 2, 3)]
    made = start(pipeline, *read, *OLD)
    first = [
        event("u", {"id": id_, "name": "first"}, 1_000 + id_, at_ms=AT_MS + 10 * MINUTE)
        for id_ in (1, 3)
    ]
    made.produce(TABLE, first)
    assert "commit 890000 " in str(stops(made))
    made.produce(TABLE, [RESTORED[1]])
    accept(made)
    made.merge(TABLE)
    assert names(made) == {1: "first", 2: "two", 3: "first"}
    made.produce(TABLE, [*first, RESTORED[2]])
    made.merge(TABLE)
    assert names(made) == {1: "first", 2: "two", 3: "three"}


@profiles.in_soak
def test_in_flight_beside_its_own_snapshot_in_the_first_batch(pipeline: Make) -> None:
    read = [event("r", {"id": id_, "name": "read"}, 890_000) for id_ in (1, 2)]
    in_flight = event("u", {"id": 2, "name": "in flight"}, 880_000, at_ms=AT_MS + 9 * MINUTE)
    made = start(pipeline, *read, in_flight, change("a", 901_000, 900_600, 10))
    assert names(made) == {1: "a", 2: "in flight"}


@profiles.in_soak
def test_in_flight_where_its_snapshot_has_come_to_the_partition_later(pipeline: Make) -> None:
    def read(id_: int, partition: int) -> Message:
        return event("r", {"id": id_, "name": "read"}, 890_000, partition=partition)

    made = start(pipeline, read(1, 0), partitions=2)
    made.produce(TABLE, [read(3, 0), read(2, 1)])
    made.merge(TABLE)
    late = event("u", {"id": 2, "name": "in flight"}, 880_000, partition=1, at_ms=AT_MS + MINUTE)
    made.produce(TABLE, [late])
    made.merge(TABLE)
    assert names(made) == {1: "read", 2: "in flight", 3: "read"}


def as_incremental(message: Message) -> Message:
    assert message.value is not None
    value = json.loads(message.value)
    value["source"] |= {"snapshot": "incremental", "lsn": None}
    return replace(message, value=json.dumps(value).encode())


def test_a_table_that_carried_nothing_is_gone_on_with(pipeline: Make) -> None:
    """As one is that an older version published: its times are taken as those until then."""
    made = start(pipeline, *OLD)
    forget(made)
    made.produce(TABLE, RESTORED)
    stops_only_if_newer = made.lake.state(made.entry(TABLE).target)
    assert stops_only_if_newer is not None
    made.merge(TABLE)
    assert names(made)[1] == "b", "they are older than that publish: nothing tells them"
    made.produce(TABLE, [change("now", 1_300, 1_250, 10_000_000)])
    stops(made)


def forget(made: Pipeline) -> None:
    """Publish the newest snapshot's properties once more, without what is carried."""
    target, catalog = made.entry(TABLE).target, made.config.lake.catalog.name
    published = made.lake.history(target, 1)[0]
    writer = made.spark().table(sql.table(catalog, target)).limit(0)
    writer = writer.writeTo(sql.table(catalog, target))
    for name, value in (
        replace(published, carried=replace(published.carried, numbering="")).to_properties().items()
    ):
        writer = writer.option(f"snapshot-property.{name}", value)
    writer.append()


@profiles.in_soak
def test_the_command_accepts_only_without_dry_run(pipeline: Make) -> None:
    made = start(pipeline, *OLD)
    made.produce(TABLE, RESTORED)
    RegistryFile(made.config.registry).add([made.entry(TABLE)])
    asked = f"{made.prefix}.{TABLE}"
    shown = accept_restart(made, asked, dry_run=True)
    assert "partition 0 offset 3: commit 900 at" in shown
    assert shown.endswith("would be accepted")
    stops(made)
    assert "accepted;" in accept_restart(made, asked, dry_run=False)
    made.merge(TABLE)
    assert names(made) == {1: "restored", 2: "two", 3: "three"}
    assert "no restart" in accept_restart(made, asked, dry_run=False)
