"""Checks and picks ports, and names the programs that hold them."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

import psutil

from cdc_assets.errors import TerminalError, TransientError
from cdc_assets_devstack import process
from cdc_assets_devstack.layout import HOST, Ports

_POLL_SECONDS = 0.02
_FREE_WITHIN_SECONDS = 5.0
_OPEN_WITHIN_SECONDS = 0.5
_LOOPBACK = (HOST, "::1", f"::ffff:{HOST}")


def is_free(port: int) -> bool:
    """Whether nothing listens on 127.0.0.1:port; ignores lingering closed connections."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def wait_until_free(port: int) -> None:
    """Waits for the port of a program that has just ended: its last threads may still hold it."""
    deadline = time.monotonic() + _FREE_WITHIN_SECONDS
    while not is_free(port) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def is_open(port: int) -> bool:
    """Whether something accepts connections on 127.0.0.1:port."""
    try:
        with socket.create_connection((HOST, port), timeout=_OPEN_WITHIN_SECONDS):
            return True
    except OSError:
        return False


def require_free(part: str, port: int) -> None:
    """Refuses to start a part on a port that another program holds.

    Raises:
        TerminalError: names the part, the port and, if the system shows it, its owner.
    """
    if is_free(port):
        return
    msg = f"port {port}, which {part} needs, is taken by {owner_of(port)}"
    raise TerminalError(
        msg,
        where=f"{HOST}:{port}",
        remedy=f"stop that program, or choose another port: {_choice(part)}",
        page="port-taken",
    )


def _choice(part: str) -> str:
    if part in Ports().as_dict():
        return f"stack.ports.{part} in replication.yaml"
    return "the command's --port"


def owner_of(port: int) -> str:
    """Returns the program that listens on a port, as far as this user may see it."""
    return _name(_listening_pid(port))


def clients_of(port: int, apart: Collection[int] = ()) -> tuple[str, ...]:
    """Returns the programs connected to 127.0.0.1:port, as far as this user may see them.

    Args:
        port: a server's port.
        apart: the pids of processes that do not count.
    """
    pids = {
        each.pid
        for each in _connections()
        if each.status == psutil.CONN_ESTABLISHED
        and (each.raddr and each.raddr.port == port and each.raddr.ip in _LOOPBACK)
    }
    return tuple(sorted(_name(pid) for pid in pids.difference(apart)))


def _name(pid: int | None) -> str:
    """Describes a process: its local stack's part or its name, then its pid, user and start."""
    if pid is None:
        return "a program of another user"
    try:
        found = psutil.Process(pid)
        since = datetime.fromtimestamp(found.create_time()).astimezone()
        stack = process.belongs_to(found)
        name = f"{stack[1]} of the local stack in {stack[0]}" if stack else found.name()
        who = f"pid {pid}, user {found.username()}, since {since.isoformat(' ', 'seconds')}"
    except psutil.Error:
        return f"pid {pid}"
    return f"{name} ({who})"


def _connections() -> Sequence[Any]:
    try:
        return psutil.net_connections(kind="tcp")
    except psutil.Error:
        return []


def _listening_pid(port: int) -> int | None:
    owners = (
        each.pid
        for each in _connections()
        if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port
    )
    return next((pid for pid in owners if pid), None)


PICKED_FROM: Final = range(20_000, 32_000)
"""Below the ports that systems assign by themselves, on Linux from 32768 on: one of those may
belong to a connection by the time that a part wants to listen there."""


def pick_free_ports() -> Ports:
    """Picks free ports for all parts of a further stack. They are free now, not reserved."""
    found: dict[str, int] = {}
    for name in Ports().as_dict():
        found[name] = _free_port(taken=frozenset(found.values()))
    return Ports(**found)


def _free_port(taken: frozenset[int]) -> int:
    """Picks a free port at random, so that concurrent callers rarely pick the same one."""
    for port in random.SystemRandom().sample(PICKED_FROM, len(PICKED_FROM)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        if port not in taken:
            return port
    msg = f"no port is free from {PICKED_FROM.start} to {PICKED_FROM.stop - 1}"
    raise TransientError(msg, where=HOST, remedy="look what takes them all")
