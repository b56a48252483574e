"""A way to a database that stops forwarding: it goes on taking bytes, and says nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Proxy:
    """Forwards connections to an address; ``silent``: from when on nothing is forwarded."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.silent = threading.Event()
        self.port = int(self._server.getsockname()[1])
        self.taken = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._server.accept()
                self.taken += 1
                server = socket.create_connection(self._to)
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):  # one of the two has hung up
            while data := one.recv(65536):
                if not self.silent.is_set():
                    other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()


@contextmanager
def proxy_to(host: str, port: int) -> Iterator[Proxy]:
    """A proxy, for a block."""
    made = Proxy(host, port)
    try:
        yield made
    finally:
        made.close()
