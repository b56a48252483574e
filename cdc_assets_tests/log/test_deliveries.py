"""What a connector's offset proves, and what stays proven."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cdc_assets.changes.log_places import Gtids, Lsn
from cdc_assets.config.source import ConnectConfig
from cdc_assets.log.deliveries import AGAIN_SECONDS, Deliveries, Delivery, latest
from cdc_assets.log.log_ends import acknowledged_gtids, acknowledged_lsn
from cdc_assets_tests.world import entry_of, write_config

pytestmark = pytest.mark.unit

START = datetime(2026, 3, 4, 12, tzinfo=UTC)
STREAMING = {
    "lsn_proc": 33_568_312, "messageType": "INSERT", "lsn_commit": 33_568_256,
    "lsn": 33_568_312, "txId": 781, "ts_usec": 1_700_000_000_000_000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([STREAMING], 33_568_256),
        ([STREAMING | {"incremental_snapshot_collections": "[]"}], 33_568_256),
        ([STREAMING | {"snapshot": "INITIAL"}], None),
        ([STREAMING | {"snapshot": True, "last_snapshot_record": True}], None),
        ([{"lsn": 1, "ts_usec": 1}], None),
        ([STREAMING | {"lsn_commit": "33568256"}], None),
        ([STREAMING | {"lsn_commit": True}], None),
        ([{"file": "binlog.000003", "pos": 4}], None),
        ([STREAMING, STREAMING], None),
        ([], None),
    ],
    ids=["streams", "incremental snapshot", "snapshot", "snapshot of an older connector",
         "no commit yet", "text", "a truth value", "another database", "two parts", "none"],
)  # fmt: skip
def test_an_offset_proves_what_was_committed_before_it_while_no_snapshot_is_taken(
    offsets: list[dict[str, Any]], expected: int | None
) -> None:
    assert acknowledged_lsn(offsets) == (None if expected is None else Lsn(expected))


BINLOG = {
    "ts_sec": 1_700_000_000, "file": "binlog.000003", "pos": 4711, "row": 1, "event": 2,
    "server_id": 1, "gtids": "0-1-27",
}  # fmt: skip


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([BINLOG], "0-1-27"),
        ([BINLOG | {"incremental_snapshot_collections": "[]"}], "0-1-27"),
        ([BINLOG | {"snapshot": "INITIAL"}], None),
        ([{name: value for name, value in BINLOG.items() if name != "gtids"}], None),
        ([BINLOG | {"gtids": None}], None),
        ([BINLOG | {"gtids": ""}], None),
        ([BINLOG | {"gtids": "0-1"}], None),
        ([BINLOG, BINLOG], None),
        ([], None),
    ],
    ids=["streams", "incremental snapshot", "snapshot", "no GTIDs", "none of them", "empty",
         "cut off", "two parts", "no offset"],
)  # fmt: skip
def test_an_offset_in_a_binlog_proves_what_its_gtids_name(
    offsets: list[dict[str, Any]], expected: str | None
) -> None:
    assert acknowledged_gtids(offsets) == (None if expected is None else Gtids.parse(expected))


def test_what_is_proven_stays_so() -> None:
    first = Delivery(START, START + timedelta(seconds=1))
    later = Delivery(START + timedelta(seconds=5), START + timedelta(seconds=9))
    assert latest(None, first) == first
    assert latest(first, later) == later
    assert latest(first, None) == Delivery(START, None), "nobody knows how far behind it is by now"
    assert latest(later, first) == Delivery(later.through, first.at)


class Counting(BaseHTTPRequestHandler):
    """A Connect that is not well."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(500)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_part_that_does_not_answer_is_left_alone_for_a_while(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    config = write_config(tmp_path)
    connect = ConnectConfig.model_validate({"url": f"http://127.0.0.1:{server.server_port}"})
    shop = config.sources["shop"].model_copy(update={"connect": connect})
    config = config.model_copy(update={"sources": {"shop": shop}})
    now = [0.0]
    deliveries, entry = Deliveries(config, monotonic=lambda: now[0]), entry_of("orders", config)
    assert [deliveries.newest(entry) for _ in range(10)] == [None] * 10
    assert deliveries.known(entry) is None
    assert len(Counting.asked) == 1
    now[0] = AGAIN_SECONDS
    assert deliveries.newest(entry) is None
    assert len(Counting.asked) == 2
    server.shutdown()
    server.server_close()
