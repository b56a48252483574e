"""A Spark, a catalog and a store that are not ours, and what dies in them.

PostgreSQL and Debezium as ever; Spark is a cluster, the lake a REST catalog with a login and S3
with a key, the registry lies in S3 too. Nothing but addresses and secrets is shared with them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import pytest
from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.part import Part
from cdc_assets_devstack.stack import LocalStack

from cdc_assets.config import ReplicationConfig
from cdc_assets.lake import Lake
from cdc_assets.log.kafka import KafkaLog
from cdc_assets_tests.canaries import shown_by, shown_in
from cdc_assets_tests.elsewhere.cluster import TOKEN_VARIABLE, Cluster, spark_cluster
from cdc_assets_tests.elsewhere.front import Plan
from cdc_assets_tests.elsewhere.lake import LakeElsewhere, lake_elsewhere
from cdc_assets_tests.elsewhere.s3 import BUCKET
from cdc_assets_tests.stack.killed import kill_part
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.stack.workload import MAKE, TABLES, WHOLE_ROWS, Workload
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.waiting import until

SEED = int(os.environ.get("CDC_ASSETS_SEED", "7"))
TIMES = 6 if profiles.is_soak() else 1
COMPARED = 2 if profiles.is_soak() else 1
INLINE = {"value.converter.schemas.enable": "true", "key.converter.schemas.enable": "true",
          "errors.max.retries": "-1"}  # fmt: skip
FILL = (
    "INSERT INTO people SELECT n, 'n' || n, repeat('x', 50) FROM generate_series(1, 300) AS n",
    "INSERT INTO parts SELECT n % 20, n / 20, 'v', 'b' FROM generate_series(0, 199) AS n",
    "INSERT INTO bag SELECT n % 7, 'w' || n % 3 FROM generate_series(1, 60) AS n",
)

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900 * TIMES)]


@dataclass(frozen=True)
class World:
    """All of it, and the database that is replicated."""

    cluster: Cluster
    lake: LakeElsewhere
    own: Replicated

    def equal(self, work: Workload, why: str) -> None:
        """Catch up; then every row of the source is in the lake, and no other."""
        self.own.wait_until_delivered()
        try:
            until(self._caught_up, "all is merged", within_seconds=300)
        except AssertionError:
            print(self.own.last_words())
            raise
        found = self.own.differences(*TABLES, ignoring=work.dropped)
        assert found == [], f"CDC_ASSETS_SEED={SEED}: after {why}"
        self.own.require_tiled(*TABLES)

    @property
    def published(self) -> list[str]:
        """The tables that readers find in the lake."""
        lake, entries = Lake(self.own.config), map(self.own.entry, TABLES)
        return [each.table.name for each in entries if lake.history(each.target, 1)]

    def _caught_up(self) -> bool:
        return self.own.start("replicate", "--until-caught-up").wait(300) == 0 and not self._unread

    @property
    def _unread(self) -> bool:
        topics = [self.own.entry(table).topic for table in TABLES]
        marks = KafkaLog(self.own.config.kafka.librdkafka()).watermarks(topics)
        for table in TABLES:
            entry = self.own.entry(table)
            newest = Lake(self.own.config).history(entry.target, 1)
            if not newest or newest[0].offsets.ranges_to(marks[entry.topic].end):
                return True
        return False


@pytest.fixture(scope="module")
def world(
    stack_parts: Callable[..., LocalStack],
    stack_config: ReplicationConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    home = StackLayout(tmp_path_factory.mktemp("elsewhere"))
    stack = stack_parts("postgres", "kafka", "connect")
    dsn = new_database(stack, "elsewhere", *MAKE, WHOLE_ROWS, *FILL)
    with (
        lake_elsewhere(home) as lake,
        spark_cluster(home) as cluster,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(TOKEN_VARIABLE, cluster.server.token)
        document = {
            "lake": lake.document,
            "spark": cluster.document,
            "home": str(home.home / "ours"),
            "registry": f"s3://{BUCKET}/registry/registry.json",
        }
        with replicated(stack, stack_config, "elsewhere", dsn, document, INLINE) as own:
            own.log.touch()
            yield World(cluster, lake, replace(own, variables=lake.s3.environment_of_clients))


def test_whatever_dies_elsewhere_every_table_equals_its_source(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Workload(world.own.dsn, SEED, may_drop=lambda name: world.own.has_column("people", name))
    rng, died = random.Random(SEED), Counter[str]()
    began = time.monotonic()
    if profiles.is_soak():
        world.equal(work, "the first load")
    with work.running():
        for victim in VICTIMS:
            victim(world, rng)
            died[victim.__name__] += 1
    world.own.execute("TRUNCATE parts", "INSERT INTO parts VALUES (1, 1, 'after', NULL)")
    for _ in range(COMPARED):
        world.equal(work, f"{dict(died)}")
    with capsys.disabled():
        lost = world.lake.front.plan.lost.total()
        print(f"\nseed {SEED}: {dict(died)}, {lost} replies lost under {dict(work.done)}: "
              f"equal after {time.monotonic() - began:.0f} s")  # fmt: skip
    assert lost
    shows_no_secret(world)


def worker(world: World, rng: random.Random) -> None:
    """With the executor on it; it comes back."""
    with at_work(world, rng):
        kill(rng.choice(world.cluster.workers))
    world.cluster.up()


def executor(world: World, rng: random.Random) -> None:
    """One; its worker starts another."""
    with at_work(world, rng):
        found = [each for each in world.cluster.executors() if "java" in each.name()]
        if found:
            rng.choice(found).kill()


def run(world: World, rng: random.Random) -> None:
    """The process that merges."""
    with at_work(world, rng) as process:
        process.send_signal(signal.SIGKILL)


def server(world: World, rng: random.Random) -> None:
    """The Connect server, with the sessions of all runs; it comes back."""
    with at_work(world, rng):
        kill(world.cluster.server)
    world.cluster.up()


def replies(world: World, rng: random.Random) -> None:
    """Each second one that the catalog gives to a commit, of Spark or of ours, during a run."""
    with losing_replies(world) as lost, at_work(world, rng) as process:
        until(lambda: lost() > 0, "a reply is lost", within_seconds=60)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)


def server_after_a_lost_reply(world: World, rng: random.Random) -> None:
    """It dies under a run that makes the tables, once one of them is published."""
    with at_work(world, rng):
        with losing_replies(world) as lost:
            until(lambda: lost() > 0, "a reply is lost", within_seconds=240)
        until(lambda: world.published, "a table is published", within_seconds=240)
        kill(world.cluster.server)
    world.cluster.up()


@contextmanager
def losing_replies(world: World) -> Iterator[Callable[[], int]]:
    """Each second one to a commit, for as long as this lasts; how many so far."""
    front, lost = world.lake.front, world.lake.front.plan.lost
    before = lost.total()
    front.plan = Plan(frozenset({"commit"}), every=2, lost=lost)
    try:
        yield lambda: lost.total() - before
    finally:
        front.plan = Plan(lost=lost)


VICTIMS = (server_after_a_lost_reply,)
if profiles.is_soak():
    VICTIMS = (worker, replies, server, executor, run) * TIMES


class at_work:
    """A run that has begun to write; it ends by itself, or is ended after some seconds more."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world, self._rng = world, rng
        self._begin = self._commits
        self._process = world.own.start("replicate", "--until-caught-up")

    def __enter__(self) -> subprocess.Popen[bytes]:
        until(self._writes, "a run writes", within_seconds=240)
        self._waits(self._rng.uniform(0, 3))
        return self._process

    @property
    def _commits(self) -> int:
        return sum(request.kind == "commit" for request in self._world.lake.front.requests)

    def _writes(self) -> bool:
        if self._commits > self._begin:
            return True
        if self._process.poll() is not None:  # it found nothing new, or what died before
            self._process = self._world.own.start("replicate", "--until-caught-up")
        return False

    def __exit__(self, *_: object) -> None:
        self._waits(self._rng.uniform(1, 8))
        self._process.kill()
        assert self._process.wait(30) in {0, 1, -signal.SIGKILL}, self._world.own.last_words()

    def _waits(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)


def kill(part: Part) -> None:
    kill_part(part)


def shows_no_secret(world: World) -> None:
    """Neither what the commands printed nor what Dagster keeps of them, nor a list of processes."""
    given = [*world.lake.secrets.values(), world.lake.front.secret, world.cluster.server.token]
    assert shown_in(world.own.instance, given) == []
    running = [part.running for part in (*world.cluster.workers, world.cluster.server)]
    assert shown_by([each.pid for each in running if each is not None], given) == []


def test_nobody_gets_in_without_a_login(world: World) -> None:
    for place in (f"{world.lake.front.uri}/v1/config", f"{world.lake.s3.endpoint}/{BUCKET}"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(place, timeout=10)  # noqa: S310
        assert refused.value.code in {401, 403}
