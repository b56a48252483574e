"""What is said of the connector that a table waits for; the answers are Kafka Connect's own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cdc_assets_devstack.layout import Ports

from cdc_assets.config import ReplicationConfig
from cdc_assets.config.database import ConnectConfig
from cdc_assets.errors import UnreachableError
from cdc_assets.log.connect import ConnectRest
from cdc_assets.operate.assess.gather import SourceFacts
from cdc_assets.operate.connectors import (
    GOOD_FOR_SECONDS,
    ConnectorView,
    Connects,
    Working,
    connector_words,
)
from cdc_assets.operate.services import Services
from cdc_assets_tests.world import entry_of, write_config

TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: An exception occurred in the change event "
    "producer.\n\tat io.debezium.pipeline.ErrorHandler.setProducerThrowable(ErrorHandler.java:67)\n"
    "Caused by: org.apache.kafka.connect.errors.DataException: Invalid value 'alice@example.org'\n"
)


def connector(state: str, *tasks: str, prefix: str = "shop") -> dict[str, object]:
    worker = {"worker_id": "127.0.0.1:8083"}
    found = [
        {"id": number, "state": each, **worker, **({"trace": TRACE} if each == "FAILED" else {})}
        for number, each in enumerate(tasks)
    ]
    config = {"topic.prefix": prefix, "database.password": "a secret"}
    return {
        "info": {"config": config},
        "status": {"connector": {"state": state, **worker}, "tasks": found},
    }


Serve = Callable[[dict[str, object]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Answer ``GET /connectors?expand=…`` with a document; gives the URL."""
    servers: list[ThreadingHTTPServer] = []

    def start(document: dict[str, object]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                assert self.path == "/connectors?expand=info&expand=status"
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def words(folder: Path, url: str | None, name: str | None = None) -> str:
    config = write_config(folder)
    if url is not None:
        connect = ConnectConfig.model_validate({"url": url, "connector": name})
        shop = config.sources["shop"].model_copy(update={"connect": connect})
        config = config.model_copy(update={"sources": {"shop": shop}})
    assert isinstance(config, ReplicationConfig)
    return connector_words(config, entry_of("orders", config))


@pytest.mark.unit
def test_a_failed_task_is_named_with_its_error_and_without_what_it_quotes(
    tmp_path: Path, serve: Serve
) -> None:
    url = serve({"other": connector("RUNNING", "FAILED", prefix="shopping"),
                 "shop": connector("RUNNING", "RUNNING", "FAILED")})  # fmt: skip
    said = words(tmp_path, url)
    expected = f"connector shop: task 1 is FAILED (DataException): see {url}/connectors/shop/status"
    assert said == expected


@pytest.mark.unit
def test_a_stopped_connector_is_named(tmp_path: Path, serve: Serve) -> None:
    url = serve({"mine": connector("STOPPED", prefix="elsewhere")})
    assert "mine: the connector itself is STOPPED" in words(tmp_path, url, "mine")


@pytest.mark.unit
def test_one_that_runs_is_said_to_run(tmp_path: Path, serve: Serve) -> None:
    url = serve({"shop": connector("RUNNING", "RUNNING")})
    assert words(tmp_path, url) == "connector shop and its 1 task(s) are RUNNING"


@pytest.mark.unit
def test_one_that_is_gone_is_said_to_be_gone(tmp_path: Path, serve: Serve) -> None:
    assert "has no connector whose topic.prefix begins" in words(tmp_path, serve({}))


@pytest.mark.unit
def test_without_an_address_it_is_said_where_to_look(tmp_path: Path) -> None:
    assert "sources.shop.connect.url" in words(tmp_path, None)


@pytest.mark.unit
def test_a_connect_that_is_away_is_named_without_its_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_URL", "http://user:hidden@127.0.0.1:1")
    config = write_config(tmp_path)
    connect = ConnectConfig.model_validate({"url": {"env": "CONNECT_URL"}})
    shop = config.sources["shop"].model_copy(update={"connect": connect})
    config = config.model_copy(update={"sources": {"shop": shop}})
    said = connector_words(config, entry_of("orders", config))
    assert "http://127.0.0.1:1 does not answer (ConnectionError)" in said
    assert "hidden" not in said


def view(folder: Path, url: str) -> ConnectorView:
    config = write_config(folder)
    connect = ConnectConfig.model_validate({"url": url})
    shop = config.sources["shop"].model_copy(update={"connect": connect})
    config = config.model_copy(update={"sources": {"shop": shop}})
    return Connects(config).view(entry_of("orders", config))


@pytest.mark.unit
@pytest.mark.parametrize(
    ("found", "working"),
    [
        (connector("RUNNING", "RUNNING"), Working.UP),
        (connector("RUNNING", "RESTARTING"), Working.UP),
        (connector("RUNNING", "RUNNING", "FAILED"), Working.DOWN),
        (connector("FAILED"), Working.DOWN),
        (connector("PAUSED", "PAUSED"), Working.HELD),
        (connector("STOPPED"), Working.HELD),
        (connector("RUNNING"), Working.HELD),
        (connector("RUNNING", "UNASSIGNED"), Working.HELD),
        (connector("RUNNING", "RUNNING", prefix="another"), Working.DOWN),
    ],
    ids=["runs", "restarts", "task failed", "failed", "paused", "stopped", "no task",
         "unassigned", "missing"],
)  # fmt: skip
def test_a_connector_works_or_not(
    tmp_path: Path, serve: Serve, found: dict[str, object], working: Working
) -> None:
    seen = view(tmp_path, serve({"shop": found}))
    assert seen.working is working
    assert bool(seen.trouble) is (working is not Working.UP)


@pytest.mark.unit
def test_a_connect_that_is_away_is_no_proof_that_its_connector_is_down(tmp_path: Path) -> None:
    seen = view(tmp_path, "http://127.0.0.1:1")
    assert seen.working is Working.UNKNOWN
    assert "does not answer" in seen.trouble


@pytest.mark.unit
def test_one_answer_is_good_for_many_tables_and_a_few_seconds(tmp_path: Path, serve: Serve) -> None:
    documents: dict[str, object] = {"shop": connector("RUNNING", "RUNNING")}
    config = write_config(tmp_path)
    connect = ConnectConfig.model_validate({"url": serve(documents)})
    shop = config.sources["shop"].model_copy(update={"connect": connect})
    config = config.model_copy(update={"sources": {"shop": shop}})
    now = [100.0]
    connects = Connects(config, monotonic=lambda: now[0])
    entries = [entry_of(f"t{n}", config) for n in range(3)]
    connects.ask(entries)
    documents["shop"] = connector("PAUSED", "PAUSED")
    assert [connects.view(each).working for each in entries] == [Working.UP] * 3
    now[0] += GOOD_FOR_SECONDS
    assert [connects.view(each).working for each in entries] == [Working.HELD] * 3


@pytest.mark.unit
def test_the_local_stacks_connect_counts_only_for_what_it_has(tmp_path: Path) -> None:
    ports = Ports(connect=1)
    config = write_config(tmp_path, kafka=f"127.0.0.1:{ports.kafka}",
                          stack={"ports": {"connect": 1}})  # fmt: skip
    seen = Connects(config).view(entry_of("orders", config))
    assert (seen.is_configured, seen.trouble) == (False, "")


@pytest.mark.slow
def test_an_assessment_is_told_settings_and_no_secret(tmp_path: Path, serve: Serve) -> None:
    config = write_config(tmp_path)
    documents = {
        "shop": connector("RUNNING", "FAILED"),
        "other": connector("RUNNING", "RUNNING", prefix="shopping"),
    }
    connect = ConnectConfig.model_validate({"url": serve(documents)})
    shop = config.sources["shop"].model_copy(update={"connect": connect})
    config = config.model_copy(update={"sources": {"shop": shop}})

    found = SourceFacts(Services(config), "shop", [entry_of("orders", config)]).connectors
    assert found is not None
    (mine,) = found.found
    assert (mine.name, mine.bad) == ("shop", "task 0 is FAILED (DataException)")
    assert mine.settings == {"topic.prefix": "shop"}


@pytest.mark.slow
def test_a_connector_of_debezium_1_is_found_by_its_server_name(
    tmp_path: Path, serve: Serve
) -> None:
    config = write_config(tmp_path)
    yugabyte = connector("RUNNING", "RUNNING")
    yugabyte["info"] = {"config": {"database.server.name": "shop"}}
    connect = ConnectConfig.model_validate({"url": serve({"grpc": yugabyte})})
    changed = {"connect": connect, "format": "yugabyte-debezium"}
    shop = config.sources["shop"].model_copy(update=changed)
    config = config.model_copy(update={"sources": {"shop": shop}})

    found = SourceFacts(Services(config), "shop", [entry_of("orders", config)]).connectors
    assert found is not None
    assert [each.name for each in found.found] == ["grpc"]


@pytest.mark.parametrize(
    "reply",
    [
        {"message": "not found"},
        {"error_code": 404},
        {"shop": {"info": None, "status": {}}},
        {"shop": {"status": {"connector": {}, "tasks": None}}},
    ],
)
@pytest.mark.unit
def test_a_reply_that_is_not_connects_is_no_answer(serve: Serve, reply: dict[str, object]) -> None:
    url = serve(reply)
    with pytest.raises(UnreachableError, match="answers as Kafka Connect never does"):
        ConnectRest(url).connectors()


@pytest.mark.unit
def test_settings_that_are_null_are_none(serve: Serve) -> None:
    null = connector("RUNNING", "RUNNING")
    null["info"] = {
        "config": {"topic.prefix": "shop", "slot.name": None, "table.include.list": None}
    }
    ((found, settings),), _ = ConnectRest(serve({"shop": null})).described()
    assert (found.slot, settings) == ("", {"topic.prefix": "shop"})
