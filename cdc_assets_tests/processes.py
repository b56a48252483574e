"""What others see of processes: where they listen, and their command lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psutil

LOOPBACK = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})


def listened_at(pid: int) -> set[tuple[str, int]]:
    """Addresses and ports of the TCP listeners of a process and of those that it has started."""
    return {address for each in _with_children(pid) for address in _listeners(each)}


def command_lines(pid: int) -> str:
    """What a list of processes shows of them."""
    lines: list[str] = []
    for each in _with_children(pid):
        with suppress(psutil.NoSuchProcess):
            lines += each.cmdline()
    return "\n".join(lines)


def _with_children(pid: int) -> list[psutil.Process]:
    own = psutil.Process(pid)
    return [own, *own.children(recursive=True)]


def _listeners(process: psutil.Process) -> Iterator[tuple[str, int]]:
    """None once it has ended, as workers do."""
    try:
        connections = process.net_connections("tcp")
    except psutil.NoSuchProcess:
        return
    for each in connections:
        if each.status == psutil.CONN_LISTEN:
            yield each.laddr.ip, each.laddr.port
