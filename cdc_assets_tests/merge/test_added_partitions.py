"""Partitions that are added: exact by the source's positions, and a stop where there are none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cdc_assets.merge.plan.stable_partitions import MovedKeysError
from cdc_assets.operate.assess.finding import Verdict
from cdc_assets.operate.assess.look import Depth, assess
from cdc_assets.operate.services import Services
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.merge.events import PLACEHOLDER, event
from cdc_assets_tests.merge.one_table import TABLE, Make, names, start
from cdc_assets_tests.operated import run_rebuild
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

MANY = 64 if profiles.is_soak() else 4
IDS = range(64)


def change(op: str, id_: int, name: str | None, lsn: int, partition: int = 0) -> Message:
    return event(op, {"id": id_, "name": name}, lsn, commit=lsn - 1, partition=partition)


def unplaced(
    op: str, id_: int, name: str | None, partition: int = 0, *, last: str = "false"
) -> Message:
    """Of a connector whose positions are not known: the offset alone orders it."""
    message = change(op, id_, name, 10, partition)
    value = json.loads(message.value or b"")
    value["source"] = {"connector": "vitess", "ts_ms": value["source"]["ts_ms"], "snapshot": last}
    return replace(message, value=json.dumps(value, separators=(",", ":")).encode())


def foretold(made: Pipeline) -> list[Verdict]:
    """The verdicts of an assessment on added partitions."""
    entry = made.entry(TABLE)
    found = assess(Services(made.config), [entry.table.source], [entry], Depth())
    return [each.verdict for each in found.findings if each.name == "partitions_added"]


def test_rows_are_exact_while_a_topic_goes_from_one_partition_to_many(pipeline: Make) -> None:
    made = start(pipeline, *(change("c", id_, "made", 100 + id_) for id_ in IDS))
    made.add_partitions(TABLE, MANY)
    # Some by a producer that knows of one partition still; sent again, and deleted elsewhere.
    late = [change("u", id_, "old hash", 300 + id_) for id_ in IDS]
    moved = [change("u", id_, "new hash", 500 + id_, id_ % MANY) for id_ in IDS if id_ % 3]
    made.produce(TABLE, [*moved, *late])
    made.merge(TABLE)
    assert foretold(made) == []
    expected = {id_: "new hash" if id_ % 3 else "old hash" for id_ in IDS}
    assert names(made) == expected
    gone = [change("d", id_, None, 700 + id_, id_ % MANY) for id_ in IDS if id_ % 2]
    made.produce(TABLE, [*gone, *moved[:9], *late[:9]])
    made.merge(TABLE)
    assert names(made) == {id_: name for id_, name in expected.items() if id_ % 2 == 0}


@profiles.in_soak
def test_a_value_that_is_left_alone_waits_for_a_producer_that_learns_late_of_added_partitions(
    pipeline: Make,
) -> None:
    first = [change("c", 7, "a", 100), change("c", 1, "a", 101)]
    made = start(pipeline, *first, batch={"max_records": 6})
    made.add_partitions(TABLE, 2)
    made.produce(TABLE, [change("u", 1, "b", 200, 1)])
    made.merge(TABLE)
    late = [change("u", 7, f"{n}", 300 + n) for n in range(8)]
    moved = [change("u", 7, PLACEHOLDER, 400, 1)]
    moved += [change("u", 1, f"{n}", 500 + n, 1) for n in range(8)]
    made.produce(TABLE, [*late, *moved])
    made.merge(TABLE)
    assert names(made) == {1: "7", 7: "7"}


def test_a_first_load_in_several_batches_keeps_rows_of_keys_that_moved_before_it(
    pipeline: Make,
) -> None:
    """The newer change lies in the partition that was added, and is merged first."""
    made = pipeline(batch={"max_records": 6})
    made.create_topic(TABLE, 1)
    old = [change("c", 7, "a", 100), *(change("u", 1, f"{n}", 101 + n) for n in range(14))]
    made.produce(TABLE, [*old, change("u", 7, "older", 190)])
    made.add_partitions(TABLE, 2)
    made.produce(TABLE, [change("u", 7, "newest", 220, 1), change("u", 3, "c", 230, 1)])
    made.merge(TABLE)
    assert names(made) == {1: "13", 7: "newest", 3: "c"}


@profiles.in_soak
def test_a_table_ordered_by_offsets_stops_once_a_second_partition_is_used(pipeline: Make) -> None:
    made = start(pipeline, *(unplaced("c", id_, "made") for id_ in range(3)))
    made.add_partitions(TABLE, MANY)
    made.produce(TABLE, [unplaced("u", 0, "newer")])
    made.merge(TABLE)
    assert names(made)[0] == "newer", "nothing has moved yet"
    assert foretold(made) == [Verdict.PARTIAL]

    made.produce(TABLE, [unplaced("u", 0, "newest", 3)])
    assert foretold(made) == [Verdict.NO]
    stops = rf"had 1 partition\(s\) when this table was begun and has {MANY}.*ends=0:4 3:1"
    with pytest.raises(MovedKeysError, match=stops):
        made.merge(TABLE)
    assert names(made)[0] == "newer"

    RegistryFile(made.config.registry).add([made.entry(TABLE)])
    name = str(made.entry(TABLE).table)
    assert not run_rebuild(made.config, name, from_snapshot=True).is_done
    snapshot = [unplaced("r", 0, "newest", 3, last="first"), unplaced("r", 1, "made", last="true"),
                unplaced("r", 2, "made", 2, last="last")]  # fmt: skip
    made.produce(TABLE, snapshot)
    assert run_rebuild(made.config, name).is_done
    made.produce(TABLE, [unplaced("u", 0, "goes on", 3), unplaced("d", 1, None)])
    made.merge(TABLE)
    assert names(made) == {0: "goes on", 2: "made"}


def test_partitions_that_were_added_before_a_table_is_begun_are_found_by_its_keys(
    pipeline: Make,
) -> None:
    """However short its batches are: the newer change lies at the lower offset."""
    made = pipeline(batch={"max_records": 2})
    made.create_topic(TABLE, 2)
    made.produce(TABLE, [unplaced("c", id_, "made") for id_ in range(6)])
    made.produce(TABLE, [unplaced("u", 5, "newer", 1)])
    with pytest.raises(MovedKeysError, match=r"partition=0 offset=5 and partition=1 offset=0"):
        made.merge(TABLE)
    assert made.rows(TABLE) == []


@profiles.in_soak
def test_a_producer_that_does_not_choose_partitions_by_key_is_found_in_a_batch(
    pipeline: Make,
) -> None:
    made = pipeline(tables={TABLE: {"primary_key": ["id"]}})
    made.create_topic(TABLE, 2)

    def keyless(message: Message) -> Message:
        return replace(message, key=None)

    made.produce(TABLE, [keyless(unplaced("c", n, "made", n % 2)) for n in range(4)])
    made.merge(TABLE)
    assert set(names(made)) == {0, 1, 2, 3}
    made.produce(TABLE, [keyless(unplaced("c", 2, "a", p)) for p in (0, 1)])
    with pytest.raises(MovedKeysError, match=r"changes of one key are in two partitions"):
        made.merge(TABLE)
    assert names(made)[2] == "made"
