"""A webhook's receiver: a real HTTP server that keeps what it accepts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET_PART = "s3cret-path"


@dataclass
class Receiver:
    """What was accepted; nothing is while ``is_down``. ``beats`` counts heartbeats."""

    url: str = ""
    beats: int = 0
    received: list[dict[str, Any]] = field(default_factory=list)
    is_down: bool = False


@contextmanager
def receiving() -> Iterator[Receiver]:
    """One that listens."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(503 if receiver.is_down else 200)
            self.end_headers()
            if not receiver.is_down:
                receiver.received.append(json.loads(body))

        def do_GET(self) -> None:
            receiver.beats += not receiver.is_down
            self.send_response(503 if receiver.is_down else 200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/{SECRET_PART}"
    yield receiver
    server.shutdown()
    server.server_close()


def changes_of(receiver: Receiver) -> list[tuple[str, str]]:
    """Kind and change of each accepted message, in order."""
    return [(each["kind"], each["change"]) for each in receiver.received]
