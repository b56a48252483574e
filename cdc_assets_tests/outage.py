"""Parts that are taken away: a relay that can be closed, a path that can be moved."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_PIECE = 1 << 16


@dataclass
class Relay:
    """A port in front of a server; while it is closed, connections are refused."""

    to: tuple[str, int]
    port: int = 0
    _listener: socket.socket | None = None
    _open: list[socket.socket] = field(default_factory=list)

    def back(self) -> None:
        """Listen, on the same port as before."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port, self._listener = listener.getsockname()[1], listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def away(self) -> None:
        """End all connections, and listen no more."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        for each in self._open:
            _close(each)
        self._listener, self._open = None, []

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(self.to)
            except OSError:
                return
            self._open += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := one.recv(_PIECE):
            other.sendall(piece)
    _close(other)


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()


@contextmanager
def relayed(host: str, port: int) -> Iterator[Relay]:
    """A relay that is open."""
    relay = Relay((host, port))
    relay.back()
    yield relay
    relay.away()


@dataclass(frozen=True)
class Outage:
    """How one part is taken away and given back, and how its alert names it."""

    away: Callable[[], object]
    back: Callable[[], object]
    named: str
    kind: str = "part_away"


def moved(folder: Path, named: str) -> Outage:
    """The outage of a folder: a file is in its place."""
    aside = folder.with_name(f"{folder.name}.aside")

    def away() -> None:
        folder.rename(aside)
        folder.touch()

    def back() -> None:
        folder.unlink()
        aside.rename(folder)

    return Outage(away, back, named)
