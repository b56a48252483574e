"""What a connector's offset proves, and what stays proven."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cdc_assets.changes.log_places import Gtids, Lsn
from cdc_assets.changes.valid_through import SourceMoment
from cdc_assets.config import ReplicationConfig
from cdc_assets.config.database import ConnectConfig
from cdc_assets.log.deliveries import (
    AGAIN_SECONDS,
    LOGS,
    Deliveries,
    Delivery,
    acknowledged_gtids,
    acknowledged_lsn,
    latest,
)
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

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class Connectors(BaseHTTPRequestHandler):
    """A Connect with connectors, by name their prefix and the commit that they have reached."""

    tells: ClassVar[dict[str, tuple[str, int]]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        path, _, _ = self.path.partition("?")
        self.asked.append(path)
        found: dict[str, Any] = {
            name: {"info": {"config": {"topic.prefix": prefix}}}
            for name, (prefix, _) in self.tells.items()
        }
        if path.endswith("/offsets"):
            _, reached = self.tells[path.split("/")[2]]
            found = {"offsets": [{"offset": {"lsn_commit": reached}}]}
        content = json.dumps(found).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def served(
    handler: type[BaseHTTPRequestHandler], folder: Path, **connect: str
) -> Iterator[ReplicationConfig]:
    """A configuration whose source ``shop`` has this Connect."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    config = write_config(folder)
    url = {"url": f"http://127.0.0.1:{server.server_port}"}
    shop = config.sources["shop"].model_copy(
        update={"connect": ConnectConfig.model_validate(url | connect)}
    )
    yield config.model_copy(update={"sources": {"shop": shop}})
    server.shutdown()
    server.server_close()


@pytest.fixture
def at_1000(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database whose log ends at 1000."""
    log = replace(LOGS["postgres"], now=lambda _: SourceMoment(START, Lsn(1000)))
    monkeypatch.setitem(LOGS, "postgres", log)
    monkeypatch.setenv("SHOP_DSN", "postgresql://nowhere/shop")


@pytest.mark.usefixtures("at_1000")
@pytest.mark.parametrize("first", ["a", "b"])
def test_a_connector_proves_nothing_of_the_tables_of_another_one(
    tmp_path: Path, first: str
) -> None:
    Connectors.tells = {"to-here": ("prod.orders", 1000), "behind": ("prod.items", 10)}
    with served(Connectors, tmp_path) as config:
        deliveries = Deliveries(config, monotonic=lambda: 0.0)
        tables = {
            "a": entry_of("a", config, "prod.orders.public.a"),
            "b": entry_of("b", config, "prod.items.public.b"),
        }
        asked = [first, *tables]
        found = {name: deliveries.newest(tables[name]) for name in asked}
        assert found == {"a": Delivery(START, START), "b": None}
        Connectors.tells["behind"] = ("prod.items", 1000)
        again = Deliveries(config, monotonic=lambda: 0.0)
        assert again.newest(tables["b"]) == Delivery(START, START)


@pytest.mark.usefixtures("at_1000")
def test_tables_of_one_connector_are_asked_for_once(tmp_path: Path) -> None:
    Connectors.tells, Connectors.asked = {"one": ("shop", 1000)}, []
    with served(Connectors, tmp_path) as config:
        now = [0.0]
        deliveries = Deliveries(config, monotonic=lambda: now[0])
        entries = [entry_of(name, config) for name in "abc"]
        assert [deliveries.newest(each) for each in entries] == [Delivery(START, START)] * 3
        assert Connectors.asked == ["/connectors", "/connectors/one/offsets"]
        Connectors.tells, now[0] = {}, AGAIN_SECONDS
        gone = Delivery(START, None)
        assert deliveries.newest(entries[0]) == gone, "what is proven stays so"
        assert [deliveries.newest(entry_of("d", config)) for _ in range(3)] == [None] * 3
        assert Connectors.asked[2:] == ["/connectors", "/connectors"]


@pytest.mark.usefixtures("at_1000")
def test_a_connector_that_is_named_proves_all_tables_of_its_source(tmp_path: Path) -> None:
    Connectors.tells, Connectors.asked = {"one": ("routed", 1000)}, []
    with served(Connectors, tmp_path, connector="one") as config:
        deliveries = Deliveries(config, monotonic=lambda: 0.0)
        found = [deliveries.newest(entry_of(name, config)) for name in "abc"]
        assert found == [Delivery(START, START)] * 3
        assert Connectors.asked == ["/connectors/one/offsets"]


def test_a_part_that_does_not_answer_is_left_alone_for_a_while(tmp_path: Path) -> None:
    Counting.asked = []
    with served(Counting, tmp_path) as config:
        now = [0.0]
        deliveries, entry = Deliveries(config, monotonic=lambda: now[0]), entry_of("orders", config)
        assert [deliveries.newest(entry) for _ in range(10)] == [None] * 10
        assert deliveries.known(entry) is None
        assert deliveries.newest(entry_of("items", config)) is None
        assert len(Counting.asked) == 1
        now[0] = AGAIN_SECONDS
        assert deliveries.newest(entry) is None
        assert len(Counting.asked) == 2
