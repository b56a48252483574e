"""A relay before a PostgreSQL that counts what leaves it: bytes, and rows by its protocol."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

_PIECE: Final = 1 << 18
_HEAD: Final = 5
_ROW: Final = b"D"


@dataclass
class Left:
    """What has left the database so far."""

    bytes: int = 0
    rows: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, size: int, rows: int) -> None:
        """Some more."""
        with self._lock:
            self.bytes += size
            self.rows += rows


@contextmanager
def relayed(host: str, port: int) -> Iterator[tuple[int, Left]]:
    """Listen on a free port, and hand on to a server that speaks without TLS.

    Yields:
        The port, and what has left the server through it.
    """
    left, stop = Left(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)

        def accept() -> None:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    client, _ = listener.accept()
                    client.settimeout(None)
                    server = socket.create_connection((host, port))
                    for work in ((_up, client, server, left), (_down, server, client, left)):
                        threading.Thread(target=work[0], args=work[1:], daemon=True).start()

        worker = threading.Thread(target=accept, daemon=True)
        worker.start()
        try:
            yield listener.getsockname()[1], left
        finally:
            stop.set()
            worker.join()


def _up(client: socket.socket, server: socket.socket, _: Left) -> None:
    with contextlib.suppress(OSError):
        while piece := client.recv(_PIECE):
            server.sendall(piece)
    _close(server)


def _down(server: socket.socket, client: socket.socket, left: Left) -> None:
    rest, is_first = b"", True
    with contextlib.suppress(OSError):
        while piece := server.recv(_PIECE):
            client.sendall(piece)
            if is_first and piece[:1] in {b"N", b"S"}:  # the answer to a wish for TLS, no message
                rest, rows = _counted(piece[1:])
            else:
                rest, rows = _counted(rest + piece)
            is_first = False
            left.add(len(piece), rows)
    _close(client)


def _counted(data: bytes) -> tuple[bytes, int]:
    """What is left of a message that is not whole, and how many rows there were."""
    at, rows = 0, 0
    while len(data) - at >= _HEAD:
        (size,) = struct.unpack_from(">I", data, at + 1)
        if len(data) - at < size + 1:
            break
        rows += data[at : at + 1] == _ROW
        at += size + 1
    return data[at:], rows


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
