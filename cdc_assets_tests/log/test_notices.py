"""What is known of a table's snapshot after what its connector has said, in Debezium's words."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cdc_assets.changes.offsets import Coordinate
from cdc_assets.config.source import SourceConfig
from cdc_assets.formats.debezium.json import DebeziumJson
from cdc_assets.log.notices import Notice, NoticeKind, Phase, TableSnapshot
from cdc_assets.log.values import RawRecord
from cdc_assets_tests.configuration import source

pytestmark = pytest.mark.unit

ORDERS, ITEMS = "public.orders", "public.items"
NEW = TableSnapshot("shop", ORDERS)


def notice(kind: str, *waiting: str, of: str = "shop", by: str = "one", **said: str) -> Notice:
    """As the connector's record says it, read by the format."""
    about = {"connector_name": of, **said}
    about |= {"data_collections": ",".join(waiting)} if waiting else {}
    document = {
        "id": by, "aggregate_type": "Incremental Snapshot", "type": kind,
        "additional_data": about, "timestamp": 5,
    }  # fmt: skip
    found = read(document)
    assert found is not None
    return found


def read(document: object) -> Notice | None:
    fmt = DebeziumJson(SourceConfig.model_validate(source("shop")))
    place = Coordinate("shop-notifications", 0, 7)
    return fmt.notice(RawRecord(place, datetime.now(UTC), None, json.dumps(document).encode()))


def chunk(last: str, most: str = "200", of: str = ORDERS) -> Notice:
    return notice("IN_PROGRESS", of, last_processed_key=last, maximum_key=most,
                  current_collection_in_progress=of)  # fmt: skip


def scanned(
    status: str, *waiting: str, of: str = ORDERS, rows: str = "0", by: str = "one"
) -> Notice:
    return notice("TABLE_SCAN_COMPLETED", *waiting, by=by, scanned_collection=of, status=status,
                  total_rows_scanned=rows)  # fmt: skip


def after(*notices: Notice, of: TableSnapshot = NEW) -> TableSnapshot:
    for each in notices:
        of = of.after(each)
    return of


STARTED = notice("STARTED", ORDERS)
PAUSED = notice("PAUSED", ORDERS)


def test_a_snapshot_that_runs_to_its_end() -> None:
    here = after(STARTED, chunk("100"), chunk("150"))
    assert (here.phase, here.chunks, here.percent) == (Phase.RUNNING, 2, 50)
    done = after(chunk("200"), scanned("SUCCEEDED", ORDERS, rows="200"), of=here)
    assert (done.phase, done.rows, done.percent) == (Phase.DONE, 200, 100)
    assert after(notice("COMPLETED"), of=done) == done


@pytest.mark.parametrize("last", ["a", "1,2", ""], ids=["a text", "two columns", "nothing"])
def test_of_keys_that_are_no_numbers_no_share_is_told(last: str) -> None:
    assert after(STARTED, chunk(last, "z")).percent is None


def test_what_was_not_followed_from_its_beginning_tells_no_share() -> None:
    assert after(chunk("150")).percent is None


@pytest.mark.parametrize(
    ("notices", "phase", "status"),
    [
        ((), Phase.UNKNOWN, ""),
        ((notice("COMPLETED"),), Phase.UNKNOWN, ""),
        ((notice("STARTED", ITEMS),), Phase.UNKNOWN, ""),
        ((notice("STARTED", ORDERS, of="other"),), Phase.UNKNOWN, ""),
        ((chunk("1", of=ITEMS), notice("IN_PROGRESS", ITEMS, ORDERS)), Phase.RUNNING, ""),
        ((STARTED, scanned("EMPTY", ORDERS)), Phase.DONE, "EMPTY"),
        ((STARTED, scanned("SQL_EXCEPTION", ORDERS)), Phase.FAILED, "SQL_EXCEPTION"),
        ((STARTED, scanned("NO_PRIMARY_KEY", ORDERS)), Phase.FAILED, "NO_PRIMARY_KEY"),
        ((STARTED, notice("COMPLETED")), Phase.STOPPED, ""),
        ((STARTED, PAUSED, notice("COMPLETED"), notice("ABORTED", ORDERS)), Phase.STOPPED, ""),
        ((notice("ABORTED", ORDERS),), Phase.UNKNOWN, ""),
        ((STARTED, scanned("SUCCEEDED", ITEMS, ORDERS, of=ITEMS)), Phase.RUNNING, ""),
        ((STARTED, scanned("SUCCEEDED", ORDERS, ORDERS)), Phase.RUNNING, "SUCCEEDED"),
        ((STARTED, notice("ABORTED", ORDERS)), Phase.STOPPED, ""),
        ((STARTED, notice("ABORTED")), Phase.STOPPED, ""),
        ((STARTED, notice("ABORTED", ITEMS)), Phase.RUNNING, ""),
        ((STARTED, PAUSED), Phase.PAUSED, ""),
        ((STARTED, PAUSED, chunk("9")), Phase.PAUSED, ""),
        ((STARTED, PAUSED, chunk("9"), chunk("19")), Phase.RUNNING, ""),
        ((STARTED, PAUSED, notice("RESUMED", ORDERS)), Phase.RUNNING, ""),
        ((STARTED, PAUSED, chunk("9"), PAUSED, chunk("19")), Phase.PAUSED, ""),
    ],
    ids=[
        "nothing said", "another one's end", "another table", "another connector", "behind others",
        "empty", "could not be read", "without a key", "ended unread",
        "stopped while paused", "an earlier one stopped", "another one is done",
        "asked for twice", "stopped", "all stopped", "another one stopped", "paused",
        "a late chunk", "restarted while paused", "resumed", "paused twice",
    ],
)  # fmt: skip
def test_how_far_it_is(notices: tuple[Notice, ...], phase: Phase, status: str) -> None:
    found = after(*notices)
    assert (found.phase, found.status) == (phase, status)


def test_each_notice_of_tables_ahead_of_it_is_heard() -> None:
    ahead = notice("IN_PROGRESS", ITEMS, ORDERS, current_collection_in_progress=ITEMS)
    behind = after(notice("STARTED", ITEMS, ORDERS), ahead)
    assert after(ahead, of=behind) != behind
    assert (behind.heard, after(ahead, ahead, of=behind).heard) == (2, 4)
    assert after(chunk("1", of=ITEMS), of=behind) == behind


MINE = notice("IN_PROGRESS", ORDERS, ORDERS, by="mine")
THEIR_END = scanned("SUCCEEDED", ORDERS)


@pytest.mark.parametrize(
    ("notices", "phase"),
    [
        ((STARTED, THEIR_END, notice("COMPLETED")), Phase.UNKNOWN),
        ((STARTED, MINE, scanned("SUCCEEDED", ORDERS, ORDERS, by="mine")), Phase.RUNNING),
        ((STARTED, MINE, scanned("SUCCEEDED", ORDERS, ORDERS, by="mine"),
          scanned("SUCCEEDED", ORDERS, by="mine")), Phase.DONE),
        ((scanned("SUCCEEDED", ORDERS, by="mine"),), Phase.RUNNING),
        ((notice("STARTED", ORDERS, by="mine"), scanned("EMPTY", ORDERS, by="mine")), Phase.DONE),
        ((notice("STARTED", ORDERS, by="mine"), scanned("SUCCEEDED", ORDERS, by="later")),
         Phase.DONE),
        ((MINE, notice("ABORTED", ORDERS, by="mine")), Phase.STOPPED),
    ],
    ids=[
        "another one's", "theirs is read, mine is next", "mine too", "theirs, as mine came",
        "empty", "somebody asked later", "stopped",
    ],
)  # fmt: skip
def test_of_a_signal_only_what_was_read_since_it_came_counts(
    notices: tuple[Notice, ...], phase: Phase
) -> None:
    assert after(*notices, of=replace(NEW, signal="mine")).phase is phase


def test_what_is_older_than_its_beginning_is_of_another_one() -> None:
    late = replace(notice("ABORTED", ORDERS), at_ms=4)
    assert after(STARTED, late).phase is Phase.RUNNING


def test_the_other_tables_of_a_snapshot_are_known() -> None:
    assert after(notice("STARTED", ITEMS, ORDERS)).waiting == (ITEMS,)


@pytest.mark.parametrize(
    "document",
    [
        {"id": "1", "aggregate_type": "Initial Snapshot", "type": "STARTED"},
        {"id": "1", "aggregate_type": "Incremental Snapshot", "type": "DANCING"},
        {"id": "1"},
        [],
    ],
)
def test_what_is_no_such_notice_is_passed_over(document: object) -> None:
    assert read(document) is None


def test_a_schema_around_it_does_not_matter() -> None:
    payload = {
        "id": "1", "aggregate_type": "Incremental Snapshot", "type": "COMPLETED",
        "additional_data": {"connector_name": "shop"}, "timestamp": 5,
    }  # fmt: skip
    schema = {"type": "struct", "fields": []}
    found = Notice(NoticeKind.COMPLETED, "shop", at_ms=5, id="1")
    assert read({"schema": schema, "payload": payload}) == found
