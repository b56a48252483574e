"""New tables become assets once the code server has reloaded, which it may only claim to do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import dagster as dg
import pytest

from cdc_assets.orchestration.sensors.discover import SETTLE_SECONDS, WEBSERVER_VARIABLE, Reloads

pytestmark = pytest.mark.unit

LOADED = {"__typename": "RepositoryLocation"}
BROKEN = {"__typename": "PythonError", "message": "no module named shop"}


class Webserver(BaseHTTPRequestHandler):
    """Answers each reload alike, and counts them."""

    loaded: ClassVar[dict[str, str]] = LOADED
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
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
    Webserver.loaded, Webserver.asked = LOADED, []
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
