"""A part that runs is never taken away from others: real processes, one folder, two files."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from cdc_assets_devstack import environment
from cdc_assets_devstack.cli import start_all
from cdc_assets_devstack.layout import Ports, StackLayout
from cdc_assets_devstack.part import (
    Part,
    PartDiedError,
    PartInUseError,
    PartOfOthersError,
    PartState,
    StartInterruptedError,
    stop_command,
)
from cdc_assets_devstack.ports import is_open, pick_free_ports
from cdc_assets_devstack.process import Command, RunningProcess
from cdc_assets_devstack.stack import LocalStack
from cdc_assets_devstack.unprivileged import reachable

from cdc_assets.errors import TerminalError
from cdc_assets_tests.devstack.test_process import gone, until

pytestmark = pytest.mark.slow

LISTENS = """
import socket, subprocess, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
if sys.argv[2] == "with a child":
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
clients = []
while True:
    clients.append(server.accept())
"""


class Listener(Part):
    """A part like the others, but one that starts in an instant."""

    name = "connect"
    stop_within_seconds = 0.3

    def __init__(self, layout: StackLayout, settings: str = "") -> None:
        super().__init__(layout)
        self._settings = settings

    @property
    def port(self) -> int:
        return self.layout.ports.connect

    def fingerprint(self) -> str:
        return self._settings

    def prepare(self) -> None: ...

    def command(self) -> Command:
        argv = [sys.executable, "-c", LISTENS, str(self.port), self._settings]
        return Command(argv, env=self.environment())

    def ready(self) -> bool:
        return is_open(self.running.port if self.running else self.port)


@pytest.fixture
def ports() -> Ports:
    return pick_free_ports()


@pytest.fixture
def of(tmp_path, ports):
    """Make the part for a configuration file of that name, all with one home."""
    made: list[Listener] = []

    def make(file: str, settings: str, at: Ports = ports) -> Listener:
        layout = StackLayout(tmp_path / "home", at, config=tmp_path / file)
        made.append(Listener(layout, settings))
        return made[-1]

    yield make
    for part in made:
        part.stop()


def start(part: Listener) -> int:
    part.bring_up(lambda _: None)
    assert part.running
    return part.running.pid


def test_a_part_with_the_same_settings_is_shared(of):
    assert start(of("a.yaml", "x")) == start(of("b.yaml", "x")) == start(of("a.yaml", ""))


@pytest.mark.parametrize("moved", [False, True], ids=["other settings", "other port"])
def test_a_part_of_another_configuration_is_refused_and_named(of, tmp_path, moved):
    first = of("a.yaml", "x")
    pid = start(first)
    other = of("b.yaml", "x", pick_free_ports()) if moved else of("b.yaml", "y")
    for attempt in (other.require_startable, lambda: start(other)):
        with pytest.raises(PartOfOthersError) as caught:
            attempt()
        message = str(caught.value)
        assert f"{tmp_path}/a.yaml" in message
        assert f"pid {pid}" in message
        assert " at 20" in message
        assert f"cdc-assets --config {tmp_path}/a.yaml stack down" in message
    assert first.status().state is PartState.READY
    assert start(first) == pid


def test_a_part_of_the_same_file_is_replaced_once_nobody_is_connected(of):
    pid = start(of("a.yaml", "x"))
    changed = of("a.yaml", "y")
    with socket.create_connection(("127.0.0.1", changed.port)):
        with pytest.raises(PartInUseError, match=rf"connected: .*pid {os.getpid()}"):
            start(changed)
        assert not gone(pid)
    assert until(lambda: start(changed)) != pid
    assert gone(pid)


def test_a_damaged_pidfile_does_not_keep_the_part_from_being_started(of):
    part = of("a.yaml", "x")
    pid = start(part)
    for damage in ("", "{", '{"pid": 1}', "[]", "null"):
        part.layout.pidfile(part.name).write_text(damage)
        assert part.status().state is PartState.STOPPED
        pid, before = start(part), pid
        assert gone(before)
        assert pid != before


def test_a_pidfile_of_a_later_version_is_understood(of):
    part = of("a.yaml", "x")
    pid = start(part)
    pidfile = part.layout.pidfile(part.name)
    pidfile.write_text(json.dumps({**json.loads(pidfile.read_text()), "new": 1}))
    assert start(part) == pid


def test_a_program_that_was_started_and_never_written_down_is_found_and_stopped(of):
    part = of("a.yaml", "x")
    lost = subprocess.Popen(part.command().argv, env=part.environment(), start_new_session=True)
    until(part.ready)
    assert start(part) != lost.pid
    assert gone(lost.pid)


def test_what_outlived_a_killed_part_is_stopped_before_the_next_start(of):
    part = of("a.yaml", "with a child")
    pid = start(part)
    (child,) = until(lambda: [p for p in children(pid) if not gone(p)])
    os.kill(pid, signal.SIGKILL)
    until(lambda: gone(pid))
    start(part)
    assert gone(child)


def test_a_pidfile_whose_process_id_another_program_has_now_harms_nobody(of):
    part = of("a.yaml", "x")
    start(part)
    part.stop()
    mine = RunningProcess(os.getpid(), 1.0, part.port, signal.SIGTERM, "x", "elsewhere.yaml")
    mine.write(part.layout.pidfile(part.name))
    assert start(part) != os.getpid()


def test_a_port_that_another_stack_holds_is_named_with_that_stack(of, tmp_path, ports):
    start(of("a.yaml", "x"))
    elsewhere = Listener(StackLayout(tmp_path / "other", ports), "x")
    with pytest.raises(TerminalError, match=rf"connect of the local stack in {tmp_path}/home"):
        elsewhere.require_startable()


def test_down_spares_what_another_configuration_started_unless_forced(of, tmp_path):
    pid = start(of("a.yaml", "x"))
    other = LocalStack(of("b.yaml", "x").layout)
    (spared,) = other.down(spare_others=True)
    assert "connect, started for" in spared
    assert "a.yaml" in spared
    assert not gone(pid)
    assert LocalStack(of("a.yaml", "x").layout).down(spare_others=True) == ()
    assert gone(pid)
    start(of("a.yaml", "x"))
    assert other.down() == ()
    assert other.connect.status().state is PartState.STOPPED


def test_down_without_a_configuration_stops_what_it_is_pointed_at(of, tmp_path):
    pid = start(of("a.yaml", "x"))
    assert LocalStack(StackLayout(tmp_path / "home")).down(spare_others=True) == ()
    assert gone(pid)


def test_a_part_that_another_configuration_is_starting_is_not_taken_for_stopped(of):
    part = of("a.yaml", "x")
    start(part)
    assert not part.was_stopped()
    part.stop()
    assert part.was_stopped()


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_environment_of_a_part_names_its_stack(of, tmp_path):
    part = of("a.yaml", "x")
    found = Path(f"/proc/{start(part)}/environ").read_text().split("\0")
    assert f"{environment.HOME_VARIABLE}={tmp_path}/home" in found
    assert f"{environment.PART_VARIABLE}=connect" in found


class NeverReady(Listener):
    def ready(self) -> bool:
        return False


def test_ctrl_c_while_parts_start_ends_the_wait_and_says_how_to_stop_them(tmp_path, ports):
    chosen = LocalStack(StackLayout(tmp_path / "a home", ports))
    part = NeverReady(chosen.layout)
    chosen.parts = (part,)

    def ctrl_c() -> None:
        until(lambda: part.running is not None)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    person = threading.Thread(target=ctrl_c)
    person.start()
    try:
        with pytest.raises(StartInterruptedError, match=r"stays up → .*cdc-assets stack down"):
            start_all(chosen, ["connect"])
        assert part.running.alive
    finally:
        person.join()
        chosen.down()


def test_the_command_that_stops_others_can_be_pasted(tmp_path, ports):
    layout = StackLayout(tmp_path / "a home", ports)
    running = RunningProcess(1, 0.0, 1, 15, config="/srv/my files/replication.yaml")
    assert stop_command(running, layout) == (
        "cdc-assets --config '/srv/my files/replication.yaml' stack down"
    )


def test_a_part_that_is_slow_to_start_is_left_alone_and_can_be_waited_for_again(tmp_path, ports):
    part = NeverReady(StackLayout(tmp_path, ports))
    part.ready_within_seconds = 0.1
    try:
        with pytest.raises(PartDiedError, match=r"is still starting .* → wait for it by the same"):
            part.bring_up(lambda _: None)
        assert part.running.alive
    finally:
        part.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as somebody else")
def test_programs_in_roots_own_folder_are_copied_to_where_others_may_enter(tmp_path, monkeypatch):
    closed, temporary = tmp_path / "closed", Path(tempfile.mkdtemp())
    temporary.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for name in ("package", "libs"):
        (closed / name).mkdir(parents=True)
        (closed / name / "program").write_text(name)
    closed.chmod(0o700)
    try:
        for _ in range(2):
            found = reachable(closed / "package", closed / "libs")
            assert found.parent == temporary
            assert [(found / each / "program").read_text() for each in ("package", "libs")] == [
                "package",
                "libs",
            ]
        found.chmod(0o777)
        with pytest.raises(TerminalError, match="somebody else"):
            reachable(closed / "package", closed / "libs")
    finally:
        shutil.rmtree(temporary)
    assert reachable(Path("/usr/bin")) == Path("/usr")
