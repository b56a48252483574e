"""A schema registry of the tests: a real HTTP server whose replies a test writes down."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Reply:
    """One reply; ``announced`` is its Content-Length if that is to be another than it has."""

    status: int = 200
    body: bytes = b""
    headers: dict = field(default_factory=dict)
    announced: int | None = None
    hangs: bool = False
    hangs_amid: bool = False
    drips: bool = False


def document(value, status=200):
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def schema_reply(schema, **more):
    return document({"schema": json.dumps(schema), **more})


def unknown(code=40403):
    return document({"error_code": code, "message": "not found"}, 404)


class RegistryServer:
    """Replies by path: one, or several of which the last goes on; else 404 as a registry says it.

    ``asked`` has the requests: path and headers; ``forms`` the posted bodies.
    """

    def __init__(self, tls=None):
        self.replies, self.asked, self.forms = {}, [], []
        self.released = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server.server_port}"

    @property
    def paths(self):
        return [path for path, _ in self.asked]

    def reply(self, path):
        found = self.replies.get(path, unknown())
        if not isinstance(found, list):
            return found
        return found.pop(0) if len(found) > 1 else found[0]


@contextmanager
def running(tls=None):
    """A server that replies until the end of the block."""
    registry = RegistryServer(tls)
    thread = threading.Thread(target=registry.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        registry.released.set()
        registry.server.shutdown()
        registry.server.server_close()
        thread.join(10)


def _handler(registry):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            registry.asked.append((self.path, dict(self.headers)))
            reply = registry.reply(self.path)
            if reply.hangs:
                registry.released.wait(30)
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            size = len(reply.body) if reply.announced is None else reply.announced
            self.send_header("Content-Length", str(size))
            self.end_headers()
            if reply.drips:
                self._drip(reply.body)
                return
            self.wfile.write(reply.body)
            if reply.hangs_amid:
                self.wfile.flush()
                registry.released.wait(30)

        def do_POST(self):
            registry.forms.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.do_GET()

        def _drip(self, body):
            """Never silent for as long as a client waits, and never done."""
            for number in range(len(body)):
                try:
                    self.wfile.write(body[number : number + 1])
                except OSError:
                    return
                if registry.released.wait(0.05):
                    return

        def log_message(self, *_):
            pass

    return Handler
