"""New tables become assets once the code server has reloaded, which it may only claim to do."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import dagster as dg
import pytest

from cdc_assets.orchestration.sensors.reloading import (
    SETTLE_SECONDS,
    TOKEN_VARIABLE,
    WEBSERVER_VARIABLE,
    Reloads,
    login_of,
)

pytestmark = pytest.mark.unit

LOADED = {"__typename": "RepositoryLocation"}
BROKEN = {"__typename": "PythonError", "message": "no module named shop"}


class Webserver(BaseHTTPRequestHandler):
    """Answers each reload alike, and counts them."""

    loaded: ClassVar[dict[str, str]] = LOADED
    asked: ClassVar[list[str]] = []
    tokens: ClassVar[list[str | None]] = []
    moved_to: ClassVar[str] = ""

    def do_POST(self) -> None:
        self.tokens.append(self.headers["Authorization"])
        if self.moved_to:
            self.send_response(307)
            self.send_header("Location", self.moved_to)
            self.end_headers()
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body["variables"]["location"])
        entry = {"__typename": "WorkspaceLocationEntry", "locationOrLoadError": self.loaded}
        answer = json.dumps({"data": {"reloadRepositoryLocation": entry}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def webserver(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Webserver]]:
    Webserver.loaded, Webserver.asked, Webserver.tokens, Webserver.moved_to = LOADED, [], [], ""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Webserver)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv(WEBSERVER_VARIABLE, f"http://127.0.0.1:{server.server_port}")
    yield Webserver
    server.shutdown()
    server.server_close()
    thread.join()


class Definitions:
    """Definitions that lack tables, and the ticks of their sensor."""

    def __init__(self) -> None:
        self.now = 0.0
        self._reloads = Reloads(clock=lambda: self.now)

    def tick(self, *missing: str, after: float = 15.0) -> str:
        self.now += after
        return self._reloads.ask(dg.build_sensor_context(), missing)


def test_a_reload_that_changes_nothing_is_named_and_asked_for_now_and_then(
    webserver: type[Webserver],
) -> None:
    old = Definitions()
    assert old.tick("orders") == "Loaded the definitions again for orders."
    assert old.tick("orders") == "Loaded the definitions again for orders."
    assert len(webserver.asked) == 1, "it may still take effect"
    for reloads in (2, 3):
        said = old.tick("orders", after=SETTLE_SECONDS)
        assert "Not loaded: orders" in said
        assert "dagster code-server start" in said
        assert old.tick("orders") == said
        assert len(webserver.asked) == reloads
    assert old.tick("orders", "items") == "Loaded the definitions again for orders, items."
    assert len(webserver.asked) == 4


def test_a_reload_that_fails_is_tried_again_at_the_next_tick(
    webserver: type[Webserver],
) -> None:
    webserver.loaded, old = BROKEN, Definitions()
    for reloads in (1, 2):
        said = old.tick("orders")
        assert "Waiting to load orders" in said
        assert "no module named shop" in said
        assert len(webserver.asked) == reloads
    webserver.loaded = LOADED
    assert old.tick("orders") == "Loaded the definitions again for orders."


def test_a_token_is_sent_from_a_variable_or_from_a_file_that_may_change(
    webserver: type[Webserver], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old, file = Definitions(), tmp_path / "token"
    old.tick("orders")
    monkeypatch.setenv(TOKEN_VARIABLE, "one")
    old.tick("items")
    monkeypatch.setenv(f"{TOKEN_VARIABLE}_FILE", str(file))
    assert "cannot be read" in old.tick("users")
    for token in ("two", "three"):
        file.write_text(f"{token}\n")
        old.tick(token)
    assert webserver.tokens == [None, "Bearer one", "Bearer two", "Bearer three"]


def test_a_token_goes_to_no_other_address(
    webserver: type[Webserver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "t0k3n")
    webserver.moved_to = f"{os.environ[WEBSERVER_VARIABLE]}/elsewhere"
    said = Definitions().tick("orders")
    assert "Waiting to load orders" in said
    assert "t0k3n" not in said
    assert len(webserver.tokens) == 1


def test_dagster_plus_has_a_header_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "t0k3n")
    for host in ("us.dagster.cloud", "us.eu.dagster.cloud"):
        assert login_of(f"https://{host}/prod/graphql") == {"Dagster-Cloud-Api-Token": "t0k3n"}
    other = {"Authorization": "Bearer t0k3n"}
    assert login_of("https://dagster.cloud.example.org/graphql") == other
