"""Whatever is done to tables, in whatever order, and however often it is cut short, they are equal.

One operation at a time has tests of its own. Here they meet: rebuilds and rewinds, resets, rows
that are read again, maintenance, hours merged once more, pauses, partitions that are added. All
are processes of their own, beside runs that merge, under load; many of either are killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle

import pytest
from cdc_assets_devstack.stack import LocalStack
from confluent_kafka.admin import AdminClient, NewPartitions

from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake
from cdc_assets.log.hours import hour_of
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.stack.workload import MAKE, TABLES, WHOLE_ROWS, Workload
from cdc_assets_tests.toy import profiles

SEED = int(os.environ.get("CDC_ASSETS_SEED", "3"))
ROUNDS = int(os.environ.get("CDC_ASSETS_ROUNDS", "12"))
PAUSE = 1.0
"""Seconds between transactions: operations are the load here."""
EACH = 8
"""Operations of a round, which ends with a comparison."""
MOST_PARTITIONS = 4
KILLED = 0.35
PATIENCE = 1500
"""Seconds for one operation: machines may be busy with much else."""
OFTEN = {"tiny_files": 3, "small_files": 4, "marked_percent": 5, "keep_minutes": 1,
         "keep_snapshots": 3, "expired_at_once": 2, "manifests": 3,
         "remembered_deletes": 5}  # fmt: skip
INLINE = {"value.converter.schemas.enable": "true", "key.converter.schemas.enable": "true",
          "provide.transaction.metadata": "true"}  # fmt: skip

pytestmark = [pytest.mark.stack, profiles.in_soak, pytest.mark.timeout(2 * PATIENCE * ROUNDS)]


@dataclass
class Operator:
    """Does things to tables.

    Attributes:
        done: how often what ended how.
        refused: what commands said that ended with 1.
    """

    own: Replicated
    rng: random.Random
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    _began: datetime = field(default_factory=lambda: datetime.now(UTC))
    _merging: subprocess.Popen[bytes] | None = None

    def does(self, operation: Callable[[Operator, str], list[str] | None], table: str) -> None:
        """One, beside a run; either may be killed."""
        arguments = operation(self, table)
        if arguments is None:
            return
        if self._merging is None or self._merging.poll() is not None:
            self._merging = self.own.start("replicate", "--until-caught-up")
        name = " ".join(each for each in arguments if each.startswith("--") or each.islower())
        at = self.own.log.stat().st_size
        self._ends(self.own.start(*arguments), name.replace(f" {table}", ""), at)
        if self.rng.random() < KILLED / 2:
            self._merging.kill()

    def settles(self) -> None:
        """End what was begun, so that all that is left is to merge."""
        if self._merging is not None:
            self._merging.wait(PATIENCE)
        self.own.run("resume", "--source", self.own.name)
        for table in TABLES:
            self.own.start("rebuild", table, "--abandon").wait(120)

    def _ends(self, process: subprocess.Popen[bytes], name: str, at: int) -> None:
        if self.rng.random() < KILLED:
            with suppress(subprocess.TimeoutExpired):
                process.wait(self.rng.uniform(2, 20))
        if process.poll() is None and self.rng.random() < KILLED:
            process.send_signal(signal.SIGKILL)
        code = process.wait(PATIENCE)
        self.done[f"{name}: {'killed' if code < 0 else code}"] += 1
        with self.own.log.open("rb") as log:
            log.seek(at)
            said = log.read().decode(errors="replace")
        assert "Traceback" not in said, said
        assert code in (0, 1, -signal.SIGKILL), f"{name}: {code}: {said[-2000:]}"
        if code == 1:
            self.refused[f"{name}: {said.strip()[-300:]}"] += 1

    @property
    def since(self) -> str:
        """The hour in which it began."""
        return f"{hour_of(self._began).start:%Y-%m-%dT%H:00}"


def rebuild(_: Operator, table: str) -> list[str]:
    return ["rebuild", table, "--no-verify"]


def rebuild_from_source(_: Operator, table: str) -> list[str] | None:
    return ["rebuild", table, "--from-source", "--no-verify"]


def abandon(_: Operator, table: str) -> list[str]:
    return ["rebuild", table, "--abandon"]


def forget(_: Operator, table: str) -> list[str]:
    return ["rebuild", table, "--forget"]


def rewind(operator: Operator, table: str) -> list[str] | None:
    past = Lake(operator.own.config).past(operator.own.entry(table).target)
    if past is None or not past.line:
        return None
    return ["rewind", table, "--to", str(operator.rng.choice(past.line).snapshot)]


def undo(_: Operator, table: str) -> list[str]:
    return ["rewind", table, "--undo"]


def reset(_: Operator, table: str) -> list[str]:
    return ["reset", "--table", table]


def drop(_: Operator, table: str) -> list[str]:
    return ["drop", "--table", table, "--lake"]


def pause(_: Operator, table: str) -> list[str]:
    return ["pause", "--table", table]


def resume(operator: Operator, _: str) -> list[str]:
    return ["resume", "--source", operator.own.name]


def resnapshot(_: Operator, table: str) -> list[str]:
    return ["resnapshot", "--table", table]


def repair(_: Operator, table: str) -> list[str]:
    return ["verify", "--table", table, "--repair"]


def maintain(_: Operator, table: str) -> list[str]:
    return ["maintain", "--table", table, "--orphans"]


def compact(_: Operator, table: str) -> list[str]:
    return ["compact", table]


def replay(operator: Operator, table: str) -> list[str]:
    now = f"{hour_of(datetime.now(UTC)).start:%Y-%m-%dT%H:00}"
    return ["replay", "--table", table, "--from", operator.since, "--to", now]


def add_a_partition(operator: Operator, table: str) -> None:
    topic = operator.own.entry(table).topic
    admin = AdminClient({"bootstrap.servers": operator.own.config.kafka.bootstrap_servers})
    total = 1 + len(admin.list_topics(topic, timeout=30).topics[topic].partitions)
    if total <= MOST_PARTITIONS:
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)
        operator.done["add a partition"] += 1


OPERATIONS = (rebuild, rebuild_from_source, abandon, forget, rewind, rewind, undo, reset, drop,
              pause, resume, resume, resnapshot, repair, maintain, maintain, replay, replay,
              add_a_partition, compact)  # fmt: skip


def test_whatever_is_done_to_tables_they_equal_their_source(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cdc_assets_tests.stack.workload._PAUSE", PAUSE)
    dsn = new_database(stack, "operated", *MAKE, WHOLE_ROWS)
    settings = {"batch": {"max_records": 1500}, "maintenance": OFTEN}
    with replicated(stack, stack_config, "operated", dsn, debezium=INLINE, **settings) as own:
        # Once the lake has forgotten a table, columns that were dropped look like renamed ones.
        work = Workload(dsn, SEED, may_drop=lambda _: False)
        operator = Operator(own, random.Random(SEED))
        tables = cycle(TABLES)
        with work.running():
            work.goes_on(60)
            own.replicate()
        for number in range(ROUNDS):
            with work.running():
                for _ in range(EACH):
                    operator.does(operator.rng.choice(OPERATIONS), next(tables))
                    work.goes_on(10)
            operator.settles()
            own.wait_until_delivered()
            own.replicate()
            found = own.differences(*TABLES, ignoring=work.dropped)
            with capsys.disabled():
                print(f"\nseed {SEED}, round {number}: {dict(operator.done)} "
                      f"under {dict(work.done)}")  # fmt: skip
                for what, times in operator.refused.items():
                    print(f"  {times} times {what}")
                operator.refused.clear()
            assert found == [], f"CDC_ASSETS_SEED={SEED}, round {number}"
