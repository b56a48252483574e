"""Is a port free, and if not, who holds it?"""

from __future__ import annotations

import socket

import psutil

from cdc_assets.devstack.layout import HOST, Ports
from cdc_assets.errors import TerminalError


def is_free(port: int) -> bool:
    """Whether nothing listens on 127.0.0.1:port (a lingering closed connection is no listener)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def is_open(port: int, timeout_seconds: float = 0.5) -> bool:
    """Whether something accepts connections on 127.0.0.1:port."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout_seconds):
            return True
    except OSError:
        return False


def require_free(part: str, port: int) -> None:
    """Refuse to start a part on a port that another program holds.

    Raises:
        TerminalError: naming the part, the port and, where the system tells, its owner.
    """
    if is_free(port):
        return
    msg = f"port {port}, which {part} needs, is taken by {owner_of(port)}"
    raise TerminalError(
        msg,
        where=f"{HOST}:{port}",
        remedy=f"stop that program, or choose another port: {_choice(part)}",
    )


def _choice(part: str) -> str:
    if part in Ports().as_dict():
        return f"stack.ports.{part} in replication.yaml"
    return "the command's --port"


def owner_of(port: int) -> str:
    """The program that listens on a port, as far as this user may see it."""
    pid = _listening_pid(port)
    if pid is None:
        return "a program of another user"
    try:
        process = psutil.Process(pid)
        return f"{process.name()} (pid {pid}, user {process.username()})"
    except psutil.Error:
        return f"pid {pid}"


def _listening_pid(port: int) -> int | None:
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:
        return None
    owners = (
        each.pid
        for each in connections
        if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port
    )
    return next((pid for pid in owners if pid), None)


def pick_free_ports() -> Ports:
    """Free ports for all parts, for stacks that live beside others. Free now, not reserved."""
    names = Ports().as_dict()
    probes = {name: socket.socket(socket.AF_INET, socket.SOCK_STREAM) for name in names}
    try:
        for probe in probes.values():
            probe.bind((HOST, 0))
        return Ports(**{name: probe.getsockname()[1] for name, probe in probes.items()})
    finally:
        for probe in probes.values():
            probe.close()
