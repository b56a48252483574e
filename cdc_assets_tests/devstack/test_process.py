import json
import os
import signal
import sys

import psutil
import pytest
from cdc_assets_devstack import process
from cdc_assets_devstack.process import Command, RunningProcess, Settings

from cdc_assets_tests.waiting import until

pytestmark = pytest.mark.slow

WITH_A_CHILD = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
time.sleep(600)
"""


def gone(pid) -> bool:
    """Ended; a zombie whose new parent has not noticed yet has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def files(tmp_path):
    log, pidfile = tmp_path / "logs" / "part.log", tmp_path / "run" / "part.json"
    yield log, pidfile
    process.stop(pidfile, grace_seconds=1)


def start(files, code) -> RunningProcess:
    log, pidfile = files
    process.spawn(Command([sys.executable, "-c", code]), log, pidfile, Settings(port=1))
    running = RunningProcess.read(pidfile)
    assert running is not None
    return running


def test_a_process_that_ignores_the_signal_is_killed_with_its_children(files):
    running = start(files, WITH_A_CHILD)
    words = until(lambda: process.log_tail(files[0]).split())
    assert process.stop(files[1], grace_seconds=0.3)
    assert gone(running.pid)
    assert gone(int(words[1]))
    assert RunningProcess.read(files[1]) is None


def test_children_that_outlive_their_parent_are_stopped_too(files):
    running = start(files, WITH_A_CHILD)
    child = int(until(lambda: process.log_tail(files[0]).split())[1])
    os.kill(running.pid, signal.SIGKILL)
    until(lambda: not running.alive)
    process.stop(files[1], grace_seconds=0.3)
    assert gone(child)


def running_before(files, **changed) -> RunningProcess:
    """The record with other content, read again."""
    content = json.loads(files[1].read_text())
    files[1].write_text(json.dumps({**content, **changed}))
    running = RunningProcess.read(files[1])
    assert running is not None
    return running


def test_a_step_of_the_clock_makes_no_process_unknown(files):
    """Otherwise `stack down` would say "stopped", and leave all parts running."""
    running = start(files, "import time; time.sleep(600)")
    assert running_before(files, create_time=running.create_time - 3600).alive
    assert process.stop(files[1])
    assert gone(running.pid)


def test_a_process_of_an_earlier_version_is_known_by_its_time_of_day(files):
    start(files, "import time; time.sleep(600)")
    running = running_before(files, birth="")
    assert running.alive
    assert not running_before(files, create_time=running.create_time - 1000).alive
    running_before(files, create_time=running.create_time)


def test_a_system_that_tells_no_boot_knows_its_processes_by_their_time_of_day(files, monkeypatch):
    """As macOS, which has no /proc."""
    monkeypatch.setattr(process, "_BOOT", files[0].with_name("missing"))
    running = start(files, "import time; time.sleep(600)")
    assert running.birth == ""
    assert running.alive
    assert process.stop(files[1])
    assert gone(running.pid)


def test_a_process_id_that_another_program_has_meanwhile_is_never_signalled(files):
    running = start(files, "import time; time.sleep(600)")
    other = f"{running.birth}1"
    running_before(files, birth=other)
    assert not process.stop(files[1])
    assert psutil.pid_exists(running.pid)
    os.kill(running.pid, signal.SIGKILL)
    os.waitpid(running.pid, 0)


def test_a_process_that_ended_is_not_alive_and_its_log_tells_why(files):
    running = start(files, "raise SystemExit('no more memory')")
    until(lambda: not running.alive)
    assert "no more memory" in process.log_tail(files[0])


def test_the_log_of_the_run_before_is_kept_apart(files):
    for word in ("first", "second"):
        running = start(files, f"print('{word}')")
        until(lambda running=running: not running.alive)
    assert process.log_tail(files[0]) == "second"
    assert process.log_tail(files[0].with_suffix(".log.1")) == "first"
