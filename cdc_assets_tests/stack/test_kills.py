"""Whatever is killed, and however often, every table equals its source, twice.

Runs of ``cdc-assets replicate``, the Spark server, Kafka Connect, Kafka and PostgreSQL are killed
at random moments, under a load with changed keys, large values, rows without a key, and columns
that come and go. ``make soak STACK=1`` reports hundreds of kills; `test_truth` has a few.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, count
from pathlib import Path

import pytest
from cdc_assets_devstack.configured import stack_of
from cdc_assets_devstack.layout import JARS_VARIABLE
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.errors import TransientError
from cdc_assets.log.kafka import KafkaLog
from cdc_assets_tests.configuration import database_of, on_ports, source, write
from cdc_assets_tests.conftest import CHECKOUT_JARS
from cdc_assets_tests.stack.killed import Part, kill_part
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.stack.workload import LAID_OUT, MAKE, TABLES, WHOLE_ROWS, Workload
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

KILLS = int(os.environ.get("CDC_ASSETS_KILLS", "5"))
SECONDS = float(os.environ.get("CDC_ASSETS_SECONDS", "3600"))
SEED = int(os.environ.get("CDC_ASSETS_SEED", "11"))
VICTIMS = (*["run"] * 11, *["spark"] * 4, *["connect"] * 2, "kafka", *["postgres"] * 2)
ROUND = 25
"""So many kills, then everything is compared."""

PATIENCE = 1800
"""Seconds within which what a round has left is merged, beside other work too."""

pytestmark = [pytest.mark.stack, profiles.in_soak, pytest.mark.timeout(SECONDS + 3 * PATIENCE)]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicated]:
    """A stack of its own: every part of it is killed."""
    monkeypatch.setenv(JARS_VARIABLE, os.environ.get(JARS_VARIABLE, str(CHECKOUT_JARS)))
    monkeypatch.setenv("SHOP_DSN", "")
    ports = pick_free_ports()
    shop = source("shop", **database_of("SHOP_DSN"))
    base = write(tmp_path / "replication.yaml", on_ports(ports, sources={"shop": shop}))
    stack = stack_of(base)
    inline = {"value.converter.schemas.enable": "true", "key.converter.schemas.enable": "true",
              "provide.transaction.metadata": "true", "errors.max.retries": "-1"}  # fmt: skip
    try:
        stack.up()
        dsn = new_database(stack, "kills", *MAKE, WHOLE_ROWS)
        with replicated(stack, base, "kills", dsn, debezium=inline, tables=LAID_OUT) as found:
            found.log.touch()
            yield found
    finally:
        stack.down()


def test_whatever_is_killed_every_table_equals_its_source_twice(
    own: Replicated, capsys: pytest.CaptureFixture[str]
) -> None:
    started, killed, rng = time.monotonic(), Counter[str](), random.Random(SEED)
    work = Workload(own.dsn, SEED, may_drop=lambda name: own.has_column("people", name))
    with work.running():
        work.goes_on(200)
    own.wait_until_delivered()
    first = time.monotonic()
    caught_up(own)
    took = time.monotonic() - first
    victims = chain(dict.fromkeys(VICTIMS), (rng.choice(VICTIMS) for _ in count()))

    def is_over(kills: int) -> bool:
        return sum(killed.values()) >= kills or time.monotonic() - started > SECONDS

    while not is_over(KILLS):
        enough = min(KILLS, sum(killed.values()) + ROUND)
        with work.running():
            while not is_over(enough):
                killed.update(kill(own, next(victims), rng, took))
        for _ in range(2):
            require_equal(own, work, f"{dict(killed)}")
        with capsys.disabled():
            print(f"\nseed {SEED}: {sum(killed.values())} kills ({dict(killed)}) under "
                  f"{dict(work.done)}: equal, twice, after {time.monotonic() - started:.0f} s",
                  flush=True)  # fmt: skip


def require_equal(own: Replicated, work: Workload, why: str) -> None:
    own.wait_until_delivered()
    caught_up(own)
    found = own.differences(*TABLES, ignoring=work.dropped)
    assert found == [], f"CDC_ASSETS_SEED={SEED}: after {why}"
    own.require_tiled(*TABLES)


def caught_up(own: Replicated) -> None:
    """A connector that sends a transaction again may keep it open for a moment."""

    def done() -> bool:
        run = own.start("replicate", "--until-caught-up")
        ends(run, PATIENCE)
        assert run.poll() is not None, f"a run goes on for {PATIENCE} s: {own.last_words()}"
        return run.returncode == 0 and not unread(own)

    until(done, f"all is merged; {own.last_words()}", within_seconds=PATIENCE)


def unread(own: Replicated) -> bool:
    marks = KafkaLog(own.config.kafka.librdkafka()).watermarks(
        [own.entry(table).topic for table in TABLES]
    )
    newest = {table: own.publishes(table) for table in TABLES}
    return any(
        not newest[table] or newest[table][-1].offsets.ranges_to(marks[own.entry(table).topic].end)
        for table in TABLES
    )


def kill(own: Replicated, victim: str, rng: random.Random, took: float) -> list[str]:
    """Under a run that is at work, which is killed too if it goes on for long; who was alive.

    ``took``: the seconds of a run that nobody kills, so that all that it does is met.
    """
    run = own.start("replicate", "--until-caught-up")
    ends(run, rng.uniform(0, took))
    killed: list[str] = []
    if victim != "run":
        kill_part(part(own.stack, victim))
        killed.append(victim)
        restart(own.stack, own.name)
        ends(run, rng.uniform(0, took))
    if run.poll() is None:
        run.send_signal(signal.SIGKILL)
        run.wait(30)
        killed.append("run")
    elif run.returncode not in (0, 1):
        pytest.fail(f"a run ended with {run.returncode}: {own.last_words()}")
    return killed


def ends(run: subprocess.Popen[bytes], within_seconds: float) -> None:
    """Wait for its end; no longer than this."""
    with suppress(subprocess.TimeoutExpired):
        run.wait(within_seconds)


def part(stack: LocalStack, name: str) -> Part:
    return {"spark": stack.spark, "connect": stack.connect, "kafka": stack.kafka,
            "postgres": stack.postgres}[name]  # fmt: skip


def restart(stack: LocalStack, connector: str) -> None:
    """Start what is dead, and the connector if it gave up."""
    until(lambda: _up(stack), "the stack is up", within_seconds=300)
    until(lambda: _runs(stack, connector), "the connector runs", within_seconds=300)


def _up(stack: LocalStack) -> bool:
    try:
        stack.up()
    except TransientError:
        return False
    return True


def _runs(stack: LocalStack, connector: str) -> bool:
    try:
        state = stack.connect.state_of(connector)
        if state.failure is not None:
            stack.connect.restart(connector)
    except TransientError:
        return False
    return state.runs
