"""Positions of MySQL and MariaDB through the real merge: files, and numbering that starts again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from cdc_assets.changes.numbering import Place
from cdc_assets.errors import RejectedRecordError, TerminalError
from cdc_assets_tests.pipeline import Message, Pipeline
from cdc_assets_tests.toy import profiles

pytestmark = pytest.mark.stack

TABLE = "shop.t"
OLD, NEW = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "7b22fa47-71ca-11e1-9e33-c80aa9429111"


def change(
    op: str, name: str | None, file: int, pos: int, gtid: str, *, id_: int = 1, row: int = 0
) -> Message:
    image = {"id": id_, "name": name}
    source = {
        "connector": "mysql",
        "ts_ms": 1_760_000_000_000,
        "snapshot": "false",
        "server_id": 1,
        "gtid": gtid,
        "file": f"binlog.{file:06}",
        "pos": pos,
        "row": row,
    }
    images = {"before": image if op == "d" else None, "after": None if op == "d" else image}
    value = json.dumps({**images, "source": source, "op": op}, separators=(",", ":"))
    return Message(b'{"id":%d}' % id_, value.encode())


def test_what_a_new_primary_numbers_lower_is_newer_and_what_is_sent_again_is_not(
    pipeline: Callable[..., Pipeline],
) -> None:
    made = pipeline()
    made.create_topic(TABLE)
    first = [
        change("c", "made", 999_999, 700, f"{OLD}:1"),
        change("u", "file by number", 1_000_000, 4, f"{OLD}:2"),
    ]
    batches = [
        ([*first, first[0]], "file by number"),
        ([change("u", "failed over", 3, 200, f"{NEW}:1")], "failed over"),
        ([change("u", "went on", 3, 300, f"{NEW}:2")], "went on"),
        ([change("u", "failed over", 3, 200, f"{NEW}:1")], "went on"),
    ]
    for events, name in batches:
        made.produce(TABLE, events)
        made.merge(TABLE)
        assert made.rows(TABLE) == [{"id": 1, "name": name}]
    published = made.lake.history(made.entry(TABLE).target, 1)[0]
    assert json.loads(published.carried.numbering)["partitions"]["0"]["begins"] == [[3, 1]]


def updated(name: str, *ids: int, pos: int, first: int = 0) -> list[Message]:
    """One event of several rows, from this row on."""
    rows = enumerate(ids, first)
    return [change("u", name, 5, pos, f"{OLD}:9", id_=id_, row=row) for row, id_ in rows]


def test_changes_of_a_compressed_transaction_are_not_put_in_an_order_that_they_do_not_have(
    pipeline: Callable[..., Pipeline],
) -> None:
    """``UPDATE … WHERE id <= 3``, then ``WHERE id = 3``, whose row is the first of its event."""
    made = pipeline()
    made.create_topic(TABLE)
    made.produce(TABLE, updated("older", 1, 2, 3, pos=700))
    made.merge(TABLE)
    made.produce(TABLE, [*updated("old", 1, 2, 3, pos=900), *updated("newest", 3, pos=900)])
    with pytest.raises(TerminalError, match="one place in the binlog") as caught:
        made.merge(TABLE)
    assert "partition=0 offset=6" in caught.value.where
    assert "binlog_transaction_compression=OFF" in caught.value.remedy
    assert {row["name"] for row in made.rows(TABLE)} == {"older"}


def test_rows_that_are_sent_again_and_changed_keys_have_places_of_their_own(
    pipeline: Callable[..., Pipeline],
) -> None:
    made = pipeline()
    made.create_topic(TABLE)
    again = updated("old", 2, 3, pos=900, first=1)
    moved = [
        change("d", "old", 5, 950, f"{OLD}:10", id_=1),
        Message(b'{"id":1}', None),
        change("c", "old", 5, 950, f"{OLD}:10", id_=4),
    ]
    sent = [*updated("old", 1, 2, 3, pos=900), *again, *updated("new", 3, pos=920)]
    made.produce(TABLE, [*sent, *moved, *moved])
    made.merge(TABLE)
    assert {row["id"]: row["name"] for row in made.rows(TABLE)} == {2: "old", 3: "new", 4: "old"}


# ── after RESET MASTER, in partitions of which some get no row of the new snapshot ─────────


def of_mariadb(
    op: str, word: str, partition: int, *, place: Place, serial: int = 0, at_ms: int, order: int = 1
) -> Message:
    """A row that is added or taken; the table has no key."""
    row, is_read = {"word": word}, op == "r"
    value = {
        "before": row if op == "d" else None,
        "after": None if op == "d" else row,
        "source": {
            "connector": "mariadb",
            "ts_ms": at_ms,
            "snapshot": str(is_read).lower(),
            "server_id": 0 if is_read else 7,
            "gtid": None if is_read else f"0-7-{serial}",
            "file": f"binlog.{place[0]:06}",
            "pos": place[1],
            "row": 0,
        },
        "transaction": None if is_read else {"id": f"{serial}", "total_order": order},
        "op": op,
    }
    return Message(None, json.dumps(value, separators=(",", ":")).encode(), partition)


OLD_LOG = [
    of_mariadb("c", "a", 0, place=(9, 400), serial=91, at_ms=1000),
    of_mariadb("c", "b", 1, place=(9, 500), serial=92, at_ms=2000),
    of_mariadb("c", "b", 2, place=(9, 600), serial=93, at_ms=3000),
]
SNAPSHOT = [of_mariadb("r", word, 0, place=(1, 330), serial=0, at_ms=9000) for word in "abb"]
NEW_LOG = [
    of_mariadb("c", "c", 1, place=(1, 500), serial=3, at_ms=9000),
    of_mariadb("d", "b", 2, place=(1, 700), serial=4, at_ms=9000),
    of_mariadb("c", "d", 3, place=(1, 700), serial=4, at_ms=9000, order=2),
    of_mariadb("c", "d", 3, place=(1, 700), serial=4, at_ms=9000, order=3),
]


def in_turn(made: Pipeline, events: list[Message]) -> list[Message]:
    """Sent one after the other: no connector resumes after a reset within a millisecond."""
    begin = int(made.made.timestamp() * 1000)
    return [replace(each, timestamp_ms=begin + 10 * n) for n, each in enumerate(events)]


@pytest.mark.parametrize("batches", [pytest.param(1, marks=profiles.in_soak), 2])
def test_after_a_reset_rows_without_a_key_are_counted_in_every_partition(
    pipeline: Callable[..., Pipeline], batches: int
) -> None:
    """Its snapshot, sent in one go without keys, lies in one partition; another had no record."""
    made = pipeline()
    made.create_topic(TABLE, partitions=4)
    log = in_turn(made, [*OLD_LOG, *SNAPSHOT, *NEW_LOG])
    old, new = log[: len(OLD_LOG)], log[len(OLD_LOG) :]
    for events in (log,) if batches == 1 else (old, new):
        made.produce(TABLE, events)
        made.merge(TABLE)
    assert sorted(str(row["word"]) for row in made.rows(TABLE)) == ["a", "b", "c", "d", "d"]


def test_a_reset_that_is_read_after_what_follows_it_stops_the_table(
    pipeline: Callable[..., Pipeline],
) -> None:
    made = pipeline()
    made.create_topic(TABLE, partitions=4)
    made.produce(TABLE, OLD_LOG)
    made.merge(TABLE)
    now_ms = int(made.made.timestamp() * 1000) + 1000
    began_before = of_mariadb("c", "c", 1, place=(1, 500), serial=3, at_ms=1500)
    made.produce(TABLE, [replace(began_before, timestamp_ms=now_ms + 5)])
    made.merge(TABLE)
    made.produce(TABLE, [replace(SNAPSHOT[0], timestamp_ms=now_ms)])
    with pytest.raises(
        TerminalError, match=r"binlog was reset before .*partition=1 offsets below 2"
    ):
        made.merge(TABLE)


def keyless(op: str, a: int, pos: int, snapshot: str = "false") -> Message:
    message = change(op, str(a), 1, pos, f"{OLD}:{pos}", id_=a)
    value = json.loads(message.value or b"")
    value["source"]["snapshot"] = snapshot
    return Message(None, json.dumps(value).encode())


def test_an_incremental_snapshot_of_a_table_without_a_key_stops_it(
    pipeline: Callable[..., Pipeline],
) -> None:
    """Each chunk has the position of its own watermark: the last would replace all others."""
    made = pipeline()
    made.create_topic(TABLE)
    made.produce(TABLE, [keyless("r", 1, 100, "first"), keyless("r", 2, 100, "last")])
    made.merge(TABLE)
    before = made.rows(TABLE)
    assert len(before) == 2
    chunks = [keyless("r", 1, 200, "incremental"), keyless("c", 3, 250)]
    made.produce(TABLE, [*chunks, keyless("r", 2, 300, "incremental")])
    with pytest.raises(RejectedRecordError, match="taken while changes were streamed"):
        made.merge(TABLE)
    assert made.rows(TABLE) == before


def test_a_changelog_without_a_key_records_an_incremental_snapshot(
    pipeline: Callable[..., Pipeline],
) -> None:
    made = pipeline(mode="changelog")
    made.create_topic(TABLE)
    sent = [keyless("r", 1, 100, "last"), keyless("r", 1, 200, "incremental")]
    made.produce(TABLE, [*sent, keyless("c", 3, 250)])
    made.merge(TABLE)
    assert len(made.rows(TABLE)) == 3
