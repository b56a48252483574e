import os
import signal
import subprocess
import sys

import pytest
from cdc_assets_devstack.demo_lock import only_demo
from cdc_assets_devstack.demo_watch import Follow, PartStoppedError, Watch
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.part import PartDiedError
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.shop.clerk import DUTIES
from cdc_assets_devstack.shop.trouble import LONGEST_REST_SECONDS, STEADY_SECONDS, Troubles

from cdc_assets.errors import TerminalError
from cdc_assets_tests.devstack.test_ownership import Listener, start
from cdc_assets_tests.devstack.test_process import gone, until

pytestmark = pytest.mark.slow

HOLDS = """
import sys
from pathlib import Path
from cdc_assets_devstack.demo_lock import only_demo
from cdc_assets_devstack.layout import StackLayout
with only_demo(StackLayout(Path(sys.argv[1]), config=Path("/there/a.yaml")), "http://127.0.0.1:1"):
    print("held", flush=True)
    sys.stdin.read()
"""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def part(tmp_path):
    made = Listener(StackLayout(tmp_path / "home", pick_free_ports()), "x")
    yield made
    made.stop()


def kill(part: Listener) -> None:
    pid = start(part)
    os.kill(pid, signal.SIGKILL)
    until(lambda: gone(pid))


def test_a_part_that_died_is_started_again_until_it_dies_too_often(part):
    said: list[str] = []
    clock = Clock()
    watch = Watch([part], said.append, clock)
    for _ in range(4):
        kill(part)
        watch.look()
        clock.now += 200
    assert len(said) == 8
    assert "connect ended by itself and is started again" in said[0]
    assert said[1] == "connect runs again"
    kill(part)
    watch.look()
    kill(part)
    with pytest.raises(PartDiedError, match="connect ended by itself"):
        watch.look()


def test_a_part_that_somebody_stopped_stays_stopped(part):
    watch = Watch([part], lambda _: None)
    start(part)
    watch.look()
    part.stop()
    with pytest.raises(PartStoppedError, match="connect was stopped by another command"):
        watch.look()


def test_a_second_demo_is_told_where_the_first_is_and_a_killed_one_holds_nothing(tmp_path):
    argv = [sys.executable, "-c", HOLDS, str(tmp_path)]
    layout = StackLayout(tmp_path)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(TerminalError) as caught, only_demo(layout, ""):
            pass
        first.kill()
    for words in ("http://127.0.0.1:1", "/there/a.yaml", f"pid {first.pid}"):
        assert words in str(caught.value)
    with only_demo(layout, "http://127.0.0.1:2"):
        pass


def test_the_lines_of_a_log_are_passed_on_once_and_whole_also_after_a_restart(tmp_path):
    said: list[str] = []
    log = tmp_path / "a.log"
    follow = Follow(log, said.append)
    follow.look()
    for text in ("one\ntw", "o\n", ""):
        with log.open("a") as file:
            file.write(text)
        follow.look()
    log.replace(tmp_path / "a.log.1")
    log.write_text("three\n")
    follow.look()
    assert said == ["one", "two", "three"]


def test_a_trouble_that_comes_and_goes_is_said_once(tmp_path):
    said: list[str] = []
    clock = Clock()
    troubles, duty = Troubles(said.append, clock), DUTIES[0]
    for _ in range(50):
        troubles.refused(duty, "CheckViolation")
        assert duty not in troubles.able(DUTIES)
        clock.now += LONGEST_REST_SECONDS
        assert duty in troubles.able(DUTIES)
        troubles.done(duty)
    assert said == ["the shop cannot take orders: CheckViolation; the other duties continue"]
    troubles.refused(duty, "NotNullViolation")
    clock.now += STEADY_SECONDS
    troubles.done(duty)
    assert said[1:] == [
        "the shop cannot take orders: NotNullViolation; the other duties continue",
        "the shop can take orders again",
    ]


def test_a_database_that_is_gone_is_said_once_and_so_is_its_return():
    said: list[str] = []
    clock = Clock()
    troubles = Troubles(said.append, clock)
    for _ in range(5):
        troubles.lost("OperationalError")
        clock.now += 1
    troubles.found()
    for _ in range(5):
        troubles.lost("AdminShutdown")
        troubles.found()
    assert said == [
        "the shop's database is gone: OperationalError; its load waits for it",
        "the shop's database is back",
    ]
